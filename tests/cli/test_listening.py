"""``tmpmaild listen``: each event is passed to a command, in order, and no process is left behind."""

import json
import os
import select
import signal
from datetime import UTC, datetime

import anyio
import msgspec
import pytest

from tmpmaild import model
from tmpmaild.cli import listening
from tmpmaild.cli.listening import WebhookDocuments
from tmpmaild.client import reconnecting
from tmpmaild.client.reconnecting import Arrived, Deleted, Expired, Extended, ServerSentEvent
from tmpmaild.http.schemas import Serializer
from tmpmaild.model import unchecked

from .conftest import PATIENCE_SECONDS

ADDRESS = "chosen@mail.example.com"
ENDED_AT_MS = 1_700_000_000_000
MESSAGE = model.Message(
    "msg_" + "0" * 26,
    1_690_000_000_000,
    ADDRESS,
    "ann@example.org",
    "Ann",
    "Hällo \u2028",
    "text\n",
    truncated=False,
    size_bytes=9,
    has_html=False,
    attachments=(model.Attachment(0, "a.pdf", "application/pdf", 1, "0" * 64, inline=False, content_id=None),),
)
CHECKED = msgspec.structs.replace(MESSAGE, authentication=unchecked("fail", "why"))


def told(event, value=None):
    """Return an event as the client reads it from the server, with its value."""
    name, data = Serializer("").event(ADDRESS, event, lambda _: 0)
    return ServerSentEvent(name, msgspec.json.encode(data).decode(), None), value


def webhook(kind, at_ms, message=None):
    return json.loads(Serializer("").webhook_body(kind, at_ms, ADDRESS, message))


@pytest.fixture
def documents():
    return WebhookDocuments(ADDRESS, datetime.fromtimestamp(ENDED_AT_MS / 1000, UTC))


def test_events_have_the_same_documents_as_webhooks(documents):
    assert list(documents.of(told(MESSAGE, Arrived(None)))) == [
        ("message", webhook("message.received", MESSAGE.received_at_ms, MESSAGE))
    ]
    ((event, document),) = documents.of(told(model.VerdictReached(MESSAGE.id, "fail", None)))
    assert event == "verdict"
    assert document == webhook("verdict.reached", 0, CHECKED) | {"timestamp": document["timestamp"]}
    assert list(documents.of(told(model.InboxDeleted(), Expired()))) == [
        ("expired", webhook("inbox.expired", ENDED_AT_MS))
    ]


def test_a_verdict_known_on_arrival_is_reported_after_its_message_but_not_for_deleted_messages(documents):
    told_of = list(documents.of(told(CHECKED, Arrived(None))))
    assert [event for event, _ in told_of] == ["message", "verdict"]
    assert told_of[0][1]["data"] == told_of[1][1]["data"]
    assert list(documents.of(told(model.VerdictReached(MESSAGE.id)))) == []
    list(documents.of(told(MESSAGE, Arrived(None))))
    assert list(documents.of(told(model.MessageDeleted(MESSAGE.id), Deleted(MESSAGE.id)))) == []
    assert list(documents.of(told(model.VerdictReached(MESSAGE.id)))) == []


def test_messages_that_are_never_checked_are_kept_up_to_a_bound(documents):
    for number in range(300):
        list(documents.of(told(msgspec.structs.replace(MESSAGE, id=f"msg_{number:026}"), Arrived(None))))
    assert len(documents._unchecked) == 200


def test_an_address_that_ends_early_has_ended_now(documents):
    later = datetime(2999, 1, 1, tzinfo=UTC)
    assert list(documents.of(told(model.ExpiryMoved(0), Extended(later)))) == []
    ((_, document),) = documents.of(told(model.InboxDeleted(), Deleted()))
    assert "2024" < document["timestamp"] < "2999"


def test_without_a_command_each_document_is_a_line(run, client, daemon):
    inbox = client.create()
    listen = run("listen", inbox.address, "--event", "message", "--event", "expired")
    daemon.deliver(inbox.address)
    line = json.loads(listen.until_line("message.received"))
    (item,) = daemon.messages(inbox.address)
    assert line == {"type": "message.received", "timestamp": item["received_at"], "data": item}
    inbox.delete()
    assert listen.end() == 0
    assert json.loads(listen.seen.splitlines()[1])["data"] == {"address": inbox.address}


def test_commands_run_one_at_a_time_and_a_failed_command_does_not_stop_listening(run, daemon, inbox, tmp_path):
    for number in range(3):
        daemon.deliver(inbox.address, b"Subject: %d\r\n\r\n" % number)
    command = f"echo begin; cat > {tmp_path}/$$; cat {tmp_path}/$$; echo end; exit 3"
    listen = run("listen", inbox.address, "--run", command)
    while listen.seen.count("end\n") < 3:
        assert listen._read()
    inbox.delete()
    assert listen.end() == 0
    lines = listen.seen.splitlines()
    assert lines[::3] == ["begin"] * 3
    assert lines[2::3] == ["end"] * 3
    assert [json.loads(line)["data"]["subject"] for line in lines[1::3]] == ["0", "1", "2"]
    assert listen.errors().count("tmpmaild: the command failed with exit code 3; continuing\n") == 3


def test_once_stops_at_the_first_message_with_a_code_and_returns_the_exit_code_of_the_command(run, daemon, inbox):
    daemon.deliver(inbox.address, b"Subject: none\r\n\r\n")
    daemon.deliver(inbox.address)
    daemon.deliver(inbox.address)
    listen = run("listen", inbox.address, "--once", "--has", "code", "--run", "cat; exit 7")
    assert listen.end() == 7
    assert [code["value"] for code in json.loads(listen.seen)["data"]["codes"]] == ["481516"]
    assert run("listen", inbox.address, "--once", "--run", "kill -9 $$").end() == 128 + 9


def test_an_address_that_ends_before_an_event_is_an_error_when_waiting_for_an_event(run, client):
    inbox = client.create()
    listen = run("listen", inbox.address, "--once", "--event", "verdict", "--has", "code")
    inbox.delete()
    assert listen.end() == 3


def test_no_part_of_a_message_is_in_the_command_line_or_the_environment(run, daemon, inbox, tmp_path):
    subject = "$(touch owned) `touch owned`; touch owned '\"\\ \u202e"
    daemon.deliver(inbox.address, f"Subject: {subject}\r\n\r\nswordfish\r\n".encode())
    command = f"cd {tmp_path}; cat > document; env > environment; tr '\\0' ' ' < /proc/$$/cmdline > arguments"
    assert run("listen", inbox.address, "--once", "--run", command).end() == 0
    document = json.loads((tmp_path / "document").read_text(encoding="ascii"))
    assert (document["data"]["subject"], document["data"]["body"]) == (subject, "swordfish\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arguments", "document", "environment"]
    for name in ("environment", "arguments"):
        assert "swordfish" not in (tmp_path / name).read_text()
        assert "touch owned" not in (tmp_path / name).read_text()


def test_a_command_may_exit_without_reading_its_input(run, daemon, inbox):
    daemon.deliver(inbox.address, b"Subject: large\r\n\r\n" + b"\xe2\x82\xac" * 20_000)
    assert run("listen", inbox.address, "--once", "--run", "exec true").end() == 0


def test_ctrl_c_stops_the_command_and_its_children(run, daemon, inbox):
    daemon.deliver(inbox.address)
    listen = run("listen", inbox.address, "--run", "sleep 1000 > /dev/null & echo $! $$ running; wait")
    started = [os.pidfd_open(int(process)) for process in listen.until_line("running").split()[:2]]
    assert listen.interrupt() == 130
    for process in started:
        assert select.select([process], [], [], PATIENCE_SECONDS)[0]
        os.close(process)


def test_a_second_ctrl_c_kills_a_command_that_does_not_stop(run, daemon, inbox):
    daemon.deliver(inbox.address)
    listen = run(
        "listen", inbox.address, "--run", "trap 'echo asked' TERM INT; echo $$ running; while :; do sleep 0.1; done"
    )
    command = os.pidfd_open(int(listen.until_line("running").split()[0]))
    listen.process.send_signal(signal.SIGINT)
    listen.until_line("asked")
    assert listen.interrupt() == 130
    assert select.select([command], [], [], PATIENCE_SECONDS)[0]
    os.close(command)


async def test_a_command_that_does_not_stop_is_killed(monkeypatch):
    monkeypatch.setattr(listening, "GRACE_SECONDS", 0)
    process = await anyio.open_process("trap '' TERM; echo; sleep 1000; sleep 1000", start_new_session=True)
    await process.stdout.receive()
    await listening.stop_command(process)
    assert process.returncode == -signal.SIGKILL
    await process.aclose()


def test_no_message_is_missed_or_repeated_when_the_service_restarts(run, mortal_daemon):
    address = mortal_daemon.create()
    listen = run("listen", address, "--run", "tr -d '\\n'; echo '' told", TMPMAILD_URL=mortal_daemon.url)
    mortal_daemon.deliver(address, b"Subject: first\r\n\r\n")
    listen.until_line("told")
    mortal_daemon.restart()
    mortal_daemon.deliver(address, b"Subject: second\r\n\r\n")
    while listen.seen.count("told") < 2:
        assert listen._read()
    assert [json.loads(line.removesuffix(" told"))["data"]["subject"] for line in listen.seen.splitlines()] == [
        "first",
        "second",
    ]
    assert listen.interrupt() == 130


def sent(name, **data):
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def listed(number, **members):
    return {"id": f"msg_{number:026}", "received_at": "2026-11-21T03:00:00Z", "subject": str(number), **members}


@pytest.mark.parametrize("refusals", [0, 1])
def test_verdicts_reached_while_disconnected_are_reported_once(call, scripted, monkeypatch, refusals):
    monkeypatch.setattr(reconnecting, "_FIRST_PAUSE_SECONDS", 0)
    is_stream, passed = {"Content-Type": "text/event-stream"}, {"dmarc": "pass", "authenticated": "a.example"}
    lost = sent("message", **listed(1, dmarc="fail")) + b"".join(sent("message", **listed(one)) for one in (2, 3, 4))
    page = json.dumps({"messages": [listed(5, **passed), listed(4), listed(3, **passed), listed(2, **passed)]}).encode()
    again = sent("verdict", id=listed(2)["id"], **passed) + sent("message", **listed(5, **passed))
    url = scripted(
        (200, {}, json.dumps({"address": ADDRESS, "expires_at": "2999-11-21T03:00:00Z"}).encode()),
        (200, is_stream, lost),
        *[(200, is_stream, b""), (503, {}, b"")] * refusals,
        (200, is_stream, again + sent("verdict", id=listed(4)["id"], **passed) + sent("expired")),
        (200, {}, page),
    )
    result = call("listen", ADDRESS, "--server", url, "--event", "verdict")
    assert result.exit_code == 0
    told_of = [json.loads(line)["data"] for line in result.stdout.splitlines()]
    assert [(one["subject"], one["dmarc"]) for one in told_of] == [
        ("1", "fail"),
        *((number, "pass") for number in "2354"),
    ]
    assert scripted.asked[-1].endswith(f"/messages?after={listed(1)['id']}&limit=100")


@pytest.mark.parametrize("event", [b"message", b"verdict"])
@pytest.mark.parametrize(
    "data", [b"[1]", b"{}", b'{"id": "x", "received_at": "2026-11-21T03:00:00Z", "n": %s}' % (b"9" * 5000)]
)
def test_an_unexpected_event_of_another_server_is_reported_in_one_line(call, scripted, event, data):
    address = json.dumps({"address": ADDRESS, "expires_at": "2999-11-21T03:00:00Z"}).encode()
    stream = b"event: %s\ndata: %s\n\nevent: expired\ndata: {}\n\n" % (event, data)
    url = scripted((200, {}, address), (200, {"Content-Type": "text/event-stream"}, stream))
    result = call("listen", ADDRESS, "--server", url)
    assert (result.exit_code, result.stderr) == (4, f"tmpmaild: {url} sent an unexpected event '{event.decode()}'\n")


@pytest.mark.parametrize("option", [("--has", "verdict"), ("--event", "deleted"), ("--after", "x")])
def test_wrong_usage_of_listen_is_reported(call, inbox, option):
    result = call("listen", inbox.address, *option)
    assert result.exit_code == 2
    assert option[0] in result.stderr
