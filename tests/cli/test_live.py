"""``tmpmaild new`` and ``tmpmaild watch``: messages are shown as they arrive, and no inbox is left behind."""

import json
import re
import signal
import socket
import termios
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild import client as api
from tmpmaild.cli import live
from tmpmaild.cli.console import width
from tmpmaild.cli.live import ConnectionMonitor

BOTH, FILES, INLINE = (
    Path(__file__).with_name(f"live-{name}.eml").read_bytes() for name in ("both", "files", "inline")
)


def address_of(running):
    return running.until_line("@mail.example.com")


def is_alive(client, address):
    try:
        return client.inbox(address).address == address
    except api.AddressExpired:
        return False


def lines_of(seen):
    """Return the lines shown on a terminal, without styles and with a separate line for each state of the countdown."""
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", seen)
    return [state for line in plain.split("\r\n") for state in line.split("\r")]


def test_the_first_line_is_the_bare_address_and_ctrl_c_leaves_nothing_behind(run, client, daemon):
    new = run("new")
    address = new.until_line("@mail.example.com")
    assert client.inbox(address).address == address
    daemon.deliver(address)
    assert new.until_line("Code") == "Code: 481516"
    assert new.interrupt() == 130
    assert new.errors() == ""
    assert not is_alive(client, address)


def test_a_message_in_plain_lines(run, daemon, inbox):
    daemon.deliver(inbox.address, BOTH)
    watch = run("watch", inbox.address)
    watch.until("owned")
    mail = inbox.messages()[0]
    received = mail.received_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    inbox.delete()
    assert watch.end() == 0
    head, lines = watch.seen.splitlines()[:2], watch.seen.splitlines()[2:]
    assert head[0] == inbox.address
    assert lines == [
        "Code: 481516",
        "Link: https://shop.example/confirm?token=0123456789abcdefghijklmnopqrstuvwxyz",
        "From: Shop <shop@shop.example>",
        "Subject: 你好请确认你的电子邮件地址 and a good deal more than fits",
        f"Received: {received}",
        f"Id: {mail.id}",
        "  Your verification code is 481516",
        "  or follow https://shop.example/confirm?token=0123456789abcdefghijklmnopqrstuvwxyz",
        "  你好请确认你的电子邮件地址你好请确认你的电子邮件地址你好请确认你的电子邮件地址",
        "  \ufffd[2J\ufffd]0;owned\ufffd \ufffdkcab",
        "",
        "The address was deleted",
    ]


@pytest.mark.parametrize("columns", [None, 80])
def test_a_link_that_should_not_be_followed_is_not_shown_as_the_main_link(run, daemon, inbox, columns):
    daemon.deliver(inbox.address, b"Subject: News\r\n\r\nUnsubscribe: https://shop.example/unsubscribe\r\n")
    watch = run("watch", inbox.address, columns=columns)
    watch.until("/unsubscribe")
    inbox.delete()
    watch.end()
    (line,) = [line for line in lines_of(watch.seen.replace("\n", "\r\n")) if "/unsubscribe" in line]
    assert line.strip().startswith("Unsubscribe: ")


def test_each_attachment_is_shown_on_a_line(run, daemon, inbox):
    daemon.deliver(inbox.address, INLINE)  # its image is not listed, because the HTML shows it
    daemon.deliver(inbox.address, FILES)
    watch = run("watch", inbox.address)
    watch.until("and 2 more\n")
    inbox.delete()
    assert watch.end() == 0
    assert [line for line in watch.seen.splitlines() if line.startswith("Attached: ")] == [
        *(f"Attached: bill-{number}\ufffd.pdf (application/pdf, 3 bytes)" for number in range(6)),
        "Attached: and 2 more",
    ]


def test_a_terminal_shows_attachments_above_the_text(run, daemon, inbox):
    daemon.deliver(inbox.address, FILES)
    watch = run("watch", inbox.address, columns=30)
    watch.until(" left, 1 message,")
    inbox.delete()
    assert watch.end() == 0
    lines = lines_of(watch.seen)
    attached = [line for line in lines if line.startswith("Attached ")]
    assert attached[0] == "Attached bill-0\ufffd.pdf (applica…"
    assert attached[-1] == "Attached and 2 more"
    assert lines.index("  See below.") > lines.index(attached[-1])


def test_ctrl_c_while_the_address_is_created_leaves_nothing_behind(run, scripted):
    is_asked, is_pressed = threading.Event(), threading.Event()
    created = b'{"address": "a@a.test", "expires_at": "2030-01-01T00:00:00Z", "token": "secret"}'

    def press():
        is_asked.set()
        is_pressed.wait(PATIENCE_SECONDS)

    new = run("new", "--server", scripted((201, {}, created), on_last=press))
    assert is_asked.wait(PATIENCE_SECONDS)
    new.process.send_signal(signal.SIGINT)
    while new.catches(signal.SIGTERM):  # wait until the first signal is handled
        pass
    is_pressed.set()
    assert new.end() == 130
    assert scripted.deleted == ["/api/v1/addresses/a@a.test"]


def test_ctrl_c_interrupts_the_wait_after_a_rate_limit_error(run, scripted):
    refusal = (429, {"Retry-After": "59"}, b'{"code": "rate-limited"}')
    new = run("new", "--server", scripted(refusal))
    new.errors_until("too many requests")
    assert new.interrupt() == 130
    assert len(scripted.asked) == 1  # a second request would be sent after the pause
    assert new.errors() == ""
    assert scripted.deleted == []


async def test_a_pause_between_requests_is_cancelled_at_once(monkeypatch):
    monkeypatch.setattr(live, "LAST_RESPONSE_SECONDS", 10 * PATIENCE_SECONDS)
    shield = live.Shield()
    async with anyio.create_task_group() as group:
        group.start_soon(shield.wait_for_cancellation)
        group.start_soon(shield.keep, shield.pause(anyio.sleep, 10 * PATIENCE_SECONDS))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        begun = anyio.current_time()
    assert anyio.current_time() - begun < PATIENCE_SECONDS


def test_ctrl_c_waits_only_a_moment_for_a_server_that_hangs(run, hanging, hanging_url):
    new = run("new", "--server", hanging_url)
    connection, _ = hanging.accept()
    with connection:
        connection.recv(65536)
        assert new.interrupt() == 130
    assert (new.seen, new.errors()) == ("", "")


def test_a_signal_decides_the_exit_code_whatever_fails_afterwards(run, hanging, hanging_url):
    new = run("new", "--server", hanging_url)
    connection, _ = hanging.accept()
    with connection:
        connection.recv(65536)
        new.process.send_signal(signal.SIGTERM)
        while new.catches(signal.SIGINT) and new.catches(signal.SIGTERM):  # wait until the signal is handled
            pass
        connection.sendall(b"no HTTP\r\n\r\n")
    assert new.end() == 143


@pytest.mark.parametrize("redirection", ["> /dev/full", ">&-"])
def test_an_unwritable_output_is_reported_in_one_line_and_leaves_no_address(redirected, client, redirection):
    name = f"unwritten-{len(redirection)}"
    new = redirected(redirection, "new", "--name", name)
    assert new.returncode == 4
    assert new.stderr.startswith("tmpmaild: cannot write: ")
    assert new.stderr.count("\n") == 1
    with pytest.raises((api.AddressExpired, api.AddressNotFound)):
        client.inbox(f"{name}@mail.example.com")


def test_a_terminal_that_is_closed_ends_the_command_and_the_address(run, client):
    new = run("new", columns=80)
    new.until(" left, 0 messages")
    new.hang_up()
    assert new.process.wait(PATIENCE_SECONDS) == 129
    assert new.errors() == ""
    assert not is_alive(client, lines_of(new.seen)[0])


def test_the_address_is_kept_on_request(run, client):
    a_second, earliest = timedelta(seconds=1), datetime.now(UTC)
    new = run("new", "--keep", "--lifetime", "10m")
    address = address_of(new)
    created_at = client.inbox(address).expires_at - timedelta(minutes=10)
    assert earliest - a_second < created_at < datetime.now(UTC) + a_second
    assert new.until_line("Token")
    assert new.interrupt() == 130
    assert is_alive(client, address)


def test_an_address_starts_with_a_fault_and_a_webhook_if_requested(run, client):
    new = run("new", "--json", "--fault", "rcpt 451 4.7.1 Greylisted", "--webhook", "https://hooks.example.org/mail")
    opening = json.loads(new.until_line('"event": "address"'))
    inbox = client.inbox(opening["address"], opening["token"])
    assert [(one.at, one.reply, one.times) for one in inbox.faults()] == [("rcpt", "451 4.7.1 Greylisted", 1)]
    assert inbox.webhook().url == "https://hooks.example.org/mail"
    assert opening["webhook_secret"].startswith("whsec_")
    assert new.interrupt() == 130
    for columns in (None, 80):
        new = run("new", "--webhook", "https://hooks.example.org/mail", columns=columns)
        assert new.until_line("whsec_").startswith("Secret")
        assert new.interrupt() == 130


def test_an_ignored_signal_is_still_ignored_and_a_terminating_signal_leaves_nothing_behind(run, client, daemon):
    new = run("new", ignored=[signal.SIGHUP])
    address = address_of(new)
    new.process.send_signal(signal.SIGHUP)
    daemon.deliver(address)
    new.until_line("Code")
    new.process.send_signal(signal.SIGTERM)
    assert new.end() == 143
    assert not is_alive(client, address)


def test_watching_never_deletes(run, client, inbox):
    watch = run("watch", inbox.address)
    address_of(watch)
    assert watch.interrupt() == 130
    assert is_alive(client, inbox.address)


def test_every_event_is_a_line_of_json(run, client, daemon):
    new = run("new", "--json", "--name", "json", "--private")
    created = json.loads(new.until_line("expires_at"))
    assert created["address"] == "json@mail.example.com"
    inbox = client.inbox(created["address"], created["token"])
    daemon.deliver(inbox.address, BOTH)
    message = json.loads(new.until_line('"message"'))
    assert (message["code"], message["from_name"]) == ("481516", "Shop")
    inbox.messages()[0].delete()
    new.until_line('"deleted"')
    inbox.extend(1)
    assert new.end() == 0
    assert new.seen.isascii()
    assert [json.loads(line) for line in new.seen.splitlines()[2:]] == [
        {"event": "deleted", "id": message["id"]},
        {"event": "extended", "expires_at": inbox.expires_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")},
        {"event": "expired"},
    ]


@pytest.mark.parametrize("columns", [40, 100])
def test_a_terminal_of_any_width_shows_code_and_link_first(run, daemon, client, columns):
    new = run("new", columns=columns)
    new.until(" left, 0 messages")
    address = lines_of(new.seen)[0]
    before = termios.tcgetattr(new.output)
    daemon.deliver(address, BOTH)
    new.until(" left, 1 message,")
    shown = lines_of(new.seen)
    link = "https://shop.example/confirm?token=0123456789abcdefghijklmnopqrstuvwxyz"
    code_at, link_at = shown.index("    481516"), shown.index(link)
    from_at = shown.index("From     Shop <shop@shop.example>")
    assert code_at < link_at < from_at
    assert [line for line in shown if width(line) > columns and line != link] == []
    assert max(map(width, shown)) > columns * 0.8
    assert "ctrl-C: delete" in shown[-1]
    assert new.interrupt() == 130
    assert new.seen.endswith("\r\x1b[K")
    assert termios.tcgetattr(new.output) == before
    assert not is_alive(client, address)


def test_a_countdown_never_wraps(run, inbox):
    watch = run("watch", inbox.address, columns=24)
    watch.until(" left, 0 messages")
    watch.interrupt()
    assert re.search(r"left, 0 messages…\x1b", watch.seen)


def test_third_party_text_never_controls_the_terminal(run, daemon, inbox):
    daemon.deliver(inbox.address, BOTH)
    watch = run("watch", inbox.address, columns=80)
    watch.until(" left, 1 message,")
    inbox.messages()[0].delete()
    inbox.delete()
    assert watch.end() == 0
    assert "The address was deleted" in watch.seen
    ours = re.sub(r"\x1b\[(K|0m|1m|2m|1;32m)|\r|\n", "", watch.seen)
    assert ours.isprintable()
    assert "owned" in ours


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_output_has_no_colours_if_they_are_disabled(run, daemon, inbox, setting):
    daemon.deliver(inbox.address)
    watch = run("watch", inbox.address, columns=80, **setting)
    watch.until("481516")
    inbox.delete()
    assert watch.end() == 0
    assert set(re.findall(r"\x1b\[.*?[A-Za-z]", watch.seen)) <= {"\x1b[K"}
    assert ("\x1b" in watch.seen) == ("NO_COLOR" in setting)


def test_a_restart_of_the_service_is_reported_once_and_tolerated(run, mortal_daemon):
    watch = run("new", TMPMAILD_URL=mortal_daemon.url)
    address = address_of(watch)
    mortal_daemon.deliver(address)
    watch.until_line("Code")
    mortal_daemon.restart()
    mortal_daemon.deliver(address, b"Subject: after\r\n\r\n")
    watch.until_line("Subject: after")
    assert watch.interrupt() == 130
    assert watch.errors() == "tmpmaild: connection lost, reconnecting\ntmpmaild: reconnected\n"
    assert watch.seen.count("Code: ") == 1


def test_an_address_that_cannot_be_deleted_is_named(run, mortal_daemon):
    new = run("new", TMPMAILD_URL=mortal_daemon.url)
    address = address_of(new)
    mortal_daemon.deliver(address)
    new.until_line("Code")
    mortal_daemon.process.kill()
    mortal_daemon.process.wait()
    new.errors_until("connection lost")
    assert new.interrupt() == 130
    assert new.errors() == (
        f"tmpmaild: {address} was not deleted: {mortal_daemon.url}: connection refused; is tmpmaild running there?\n"
    )


def test_closing_the_output_stops_the_command_and_deletes_the_address(run, client):
    new = run("new")
    address = address_of(new)
    new.hang_up()
    assert new.process.wait(PATIENCE_SECONDS) == 0
    assert new.errors() == ""
    assert not is_alive(client, address)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--name", "x", "expected 3 to 64 characters (a-z 0-9 . _ -)"),
        ("--name", "Ada <a@x.test>", "expected 3 to 64 characters"),
        ("--name", "postmaster", "this name is reserved"),
        ("--domain", "gmail.com", "expected one of mail.example.com"),
        ("--lifetime", "0", "expected a number of 1 or more"),
        ("--fault", "helo 451 4.7.1 Greylisted", "expected rcpt, data or end"),
        ("--webhook", "https://other.example", "expected a URL that the operator allows"),
    ],
)
def test_an_impossible_option_is_a_usage_error_that_names_the_option(call, option, value, expected):
    done = call("new", option, value)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert f"\nError: Invalid value for '{option}': {expected}" in done.stderr
    assert "/" not in done.stderr.partition("Error: ")[2]


INVALID = b'{"code": "invalid-request", "detail": "Wrong.", "errors": [{"pointer": "/new", "detail": "missing"}]}'


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, {}, b'{"code": "not-found"}'), "not-found (404 not-found); is the URL right?"),
        (
            (429, {"Retry-After": "86400"}, b'{"code": "rate-limited"}'),
            "rate-limited (429 rate-limited); try again in 86400 s",
        ),
        ((422, {}, INVALID), "new: missing (422 invalid-request)"),
    ],
)
def test_an_error_unrelated_to_options_is_reported_in_one_line(call, scripted, answer, said):
    done = call("new", "--server", scripted(answer))
    assert (done.exit_code, done.stdout, done.stderr) == (4, "", f"tmpmaild: {said}\n")


def test_a_wrong_url_is_reported_with_its_variable(call):
    done = call("new", TMPMAILD_URL="localhost:8025")
    assert done.exit_code == 2
    assert "Error: $TMPMAILD_URL: 'localhost:8025' is not the URL of a service" in done.stderr


@pytest.mark.parametrize("arguments", [["new"], ["watch", "a@mail.example.com"]])
def test_an_unreachable_service_is_reported_in_one_line(call, arguments):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = call(*arguments, "--server", f"http://127.0.0.1:{port}")
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr == (
        f"tmpmaild: http://127.0.0.1:{port}: connection refused; is tmpmaild running there? "
        "(--server or $TMPMAILD_URL selects a different service)\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["new", "--server", "nonsense"],
        ["new", "--server", "http://127.0.0.1:99999"],
        ["watch", "a@a.test", "--token", "ü"],
        ["watch", ""],
    ],
)
def test_wrong_usage_of_new_and_watch_is_reported(call, arguments):
    done = call(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")


STREAM = httpx2.Response(200, headers={"Content-Type": "text/event-stream; charset=utf-8"})
REFUSAL = httpx2.Response(429, headers={"Content-Type": "application/problem+json"})


async def told(*happened):
    """Return the notes that follow from a sequence of opened streams (``STREAM``), responses, and pauses (``None``)."""
    notes = []
    monitor = ConnectionMonitor(notes.append)
    for response in happened:
        await (monitor.pause(0) if response is None else monitor.note_response(response))
    return notes


async def test_an_outage_is_reported_once_however_often_a_proxy_cuts_the_stream(anyio_backend):
    assert await told(STREAM, None, None, None, STREAM) == ["connection lost, reconnecting", "reconnected"]
    assert await told(STREAM, None, STREAM, None, STREAM, None, STREAM) == [
        "connection lost, reconnecting",
        "reconnected",
    ]
    assert len(await told(STREAM, None, STREAM, None, None, None, STREAM)) == 4
    assert await told(REFUSAL, None, STREAM) == ["the service received too many requests; trying again in 0 s"]
