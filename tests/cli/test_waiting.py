"""``tmpmaild wait``: it writes only the value to standard output, and exits with a code for scripts."""

import json
import threading

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.cli.configured import Duration

CODE = b"From: Shop <shop@shop.example>\r\nSubject: Confirm\r\n\r\nYour verification code is 481516\r\n"
LINK = b"Subject: Confirm\r\n\r\nConfirm your address: https://shop.example/confirm?token=a1\r\n"
PLAIN = b"From: ada@example.com\r\nSubject: hello\r\n\r\nHello.\r\n\r\nAda\r\n"
HOSTILE = (
    "From: =?utf-8?q?=1B]0;owned=07?= <evil@example.com>\r\nSubject: =?utf-8?b?G1sySlJlPcKbMzFtIOKArg==?=\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n\r\nred \x1b[31m \x9b2J \u202eback\x07 \x7f\r\n"
).encode()


def answer(done):
    """Return the exit code, output and errors of a completed command."""
    return done.exit_code, done.stdout, done.stderr


def one_line(done):
    (line,) = done.stderr.splitlines()
    assert done.stdout == ""
    return line


def test_the_text_is_printed_by_default(call, daemon, inbox):
    daemon.deliver(inbox.address, PLAIN)
    assert answer(call("wait", inbox.address)) == (0, "Hello.\n\nAda\n", "")


@pytest.mark.parametrize(
    ("option", "mail", "value"),
    [("code", CODE, "481516"), ("link", LINK, "https://shop.example/confirm?token=a1")],
    ids=["code", "link"],
)
def test_a_message_without_the_value_does_not_end_the_wait(call, daemon, inbox, *, option, mail, value):
    daemon.deliver(inbox.address, PLAIN)
    assert call("wait", inbox.address, f"--{option}", "--timeout", "0").exit_code == 1
    daemon.deliver(inbox.address, mail)
    assert answer(call("wait", inbox.address, f"--{option}")) == (0, f"{value}\n", "")


def test_a_message_can_be_selected_by_its_content(call, daemon, inbox):
    daemon.deliver(inbox.address, PLAIN)
    daemon.deliver(inbox.address, CODE)
    assert call("wait", inbox.address, "--has", "code", "--timeout", "0").stdout == "Your verification code is 481516\n"
    assert call("wait", inbox.address, "--has", "code", "--has", "link", "--timeout", "0").exit_code == 1
    assert "'code', 'link', 'attachment'" in call("wait", inbox.address, "--has", "codes").stderr


def test_json_output_has_the_complete_message_on_one_line(call, daemon, inbox):
    daemon.deliver(inbox.address, CODE)
    (line,) = call("wait", inbox.address, "--json").stdout.splitlines()
    mail = json.loads(line)
    assert (mail["from"], mail["from_name"], mail["subject"]) == ("shop@shop.example", "Shop", "Confirm")
    assert (mail["code"], mail["link"]) == ("481516", None)
    assert mail["id"] == inbox.messages()[0].id


@pytest.mark.parametrize("given", [["--subject", "CONF"], ["--from", "shop"], ["--text", "verification"]])
def test_only_a_matching_message_is_used(call, daemon, inbox, given):
    daemon.deliver(inbox.address, PLAIN)
    daemon.deliver(inbox.address, CODE)
    assert call("wait", inbox.address, *given).stdout == "Your verification code is 481516\n"


def test_the_next_mail_is_found_after_the_id_of_the_first(call, daemon, inbox):
    daemon.deliver(inbox.address, CODE)
    daemon.deliver(inbox.address, PLAIN)
    first = json.loads(call("wait", inbox.address, "--json").stdout)["id"]
    assert call("wait", inbox.address, "--after", first).stdout == "Hello.\n\nAda\n"


def test_a_timeout_lists_the_arrived_messages(call, daemon, inbox):
    daemon.deliver(inbox.address, PLAIN)
    done = call("wait", inbox.address, "--subject", "invoice", "--timeout", "0")
    assert (done.exit_code, done.stdout) == (1, "")
    first, second, third = done.stderr.splitlines()
    assert first.startswith("tmpmaild: no message with subject 'invoice' arrived")
    assert second.endswith("ada@example.com  hello")
    assert third == "    lacks subject 'invoice'"


def test_a_private_inbox_is_read_with_its_token(call, client, daemon):
    inbox = client.create(private=True)
    daemon.deliver(inbox.address)
    assert call("wait", inbox.address, "--code").exit_code == 3
    assert call("wait", inbox.address, "--code", "--token", inbox.token).stdout == "481516\n"
    assert call("wait", inbox.address, "--code", TMPMAILD_TOKEN=inbox.token).stdout == "481516\n"


def test_unknown_and_expired_addresses_have_different_exit_codes(call, inbox):
    done = call("wait", "nobody@mail.example.com")
    assert (done.exit_code, one_line(done)[-23:]) == (3, "(404 address-not-found)")
    inbox.delete()
    done = call("wait", inbox.address)
    assert (done.exit_code, one_line(done)[-21:]) == (3, "(410 address-expired)")


def test_an_address_of_another_service_is_reported_with_the_served_domains(call, daemon, scripted):
    for command in ("wait", "watch"):
        done = call(command, "nobody@gmail.com")
        assert (done.exit_code, one_line(done)) == (
            3,
            f"tmpmaild: {daemon.url} has no address nobody@gmail.com; it serves mail.example.com (404 address-not-found)",
        )
    silent = scripted((404, {}, b'{"code": "address-not-found"}'))  # this response does not list the server's domains
    done = call("wait", "nobody@gmail.com", "--server", silent)
    assert (done.exit_code, one_line(done)[-23:]) == (3, "(404 address-not-found)")


@pytest.mark.parametrize(
    ("token", "hint"),
    [
        ([], "it is private: then set --token or $TMPMAILD_TOKEN"),
        (["--token", "x"], "the token belongs to a different address"),
    ],
)
def test_an_address_that_is_not_found_is_reported_with_the_role_of_the_token(call, daemon, token, hint):
    for command in ("wait", "watch"):
        done = call(command, "nobody@mail.example.com", *token)
        text = f"{daemon.url} has no address nobody@mail.example.com, or {hint} (404 address-not-found)"
        assert (done.exit_code, one_line(done)) == (3, f"tmpmaild: {text}")


def test_an_option_refused_by_the_service_is_reported_by_its_name(call, inbox):
    done = call("wait", inbox.address, "--after", "the-first")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("\nError: Invalid value for '--after': expected a message id\n")


def test_a_timeout_may_have_a_unit(call, inbox):
    for given, seconds in {"1": 1, "1s": 1, "0.5": 0.5, "0.02m": 1.2, "0.0001h": 0.36}.items():
        assert Duration().convert(given, None, None) == pytest.approx(seconds)
    done = call("wait", inbox.address, "--timeout", "0.0001h")
    assert (done.exit_code, "within 0" in one_line(done)) == (1, True)


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["a@mail.example.com", "--code", "--link"],
        ["a@mail.example.com", "--timeout", "-1"],
        ["a@mail.example.com", "--timeout", "nan"],
        ["a@mail.example.com", "--timeout", "5 minutes"],
        ["a@mail.example.com", "--timeout", "9000h"],
        ["a@mail.example.com", "--server", "ftp://a.test"],
        ["a@mail.example.com", "--server", "a.test:80"],
        ["a@mail.example.com", "--server", "http://127.0.0.1:99999"],
        ["a@mail.example.com", "--token", "a b"],
        ["\udcff@mail.example.com"],
    ],
)
def test_wrong_usage_is_reported_before_waiting(call, given):
    done = call("wait", *given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")


@pytest.mark.parametrize("command", ["wait", "watch", "send"])
@pytest.mark.parametrize(
    "given", ["", "../../x", "a b@x.test", "Ada <a@x.test>", "@x.test", "a@", "a/b@x.test", "mailto:a@x.test", "a@x\n"]
)
def test_an_invalid_address_is_wrong_usage(call, command, given):
    done = call(command, given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "expected an address" in done.stderr


def test_errors_that_cannot_be_written_do_not_change_the_exit_code(redirected):
    assert redirected("2> /dev/full", "wait", "nobody@mail.example.com").returncode == 3
    assert redirected("2>&-", "wait", "nobody@mail.example.com").returncode == 3


def test_a_server_that_hangs_is_not_waited_for_beyond_the_timeout(call, hanging_url):
    done = call("wait", "a@a.test", "--server", hanging_url, "--timeout", "1")
    assert (done.exit_code, f"; the last request failed: {hanging_url}: no response within 2 s" in one_line(done)) == (
        4,
        True,
    )


def test_another_server_is_reported_in_one_line(call, scripted):
    url = scripted((200, {"Content-Type": "text/html"}, b"<h1>It works!</h1>"))
    done = call("wait", "a@mail.example.com", "--server", url)
    assert (done.exit_code, one_line(done)) == (
        4,
        f"tmpmaild: {url} is not tmpmaild: it returned 200 text/html; is the URL right?",
    )


def test_a_rate_limit_error_is_waited_out_if_there_is_time(call, scripted):
    refusal = (429, {"Retry-After": "1"}, b'{"code": "rate-limited"}')
    mail = b'{"messages": [{"id": "msg_1", "received_at": "2026-01-01T00:00:00Z", "body": "Hi."}]}'
    url = scripted(refusal, (200, {}, mail), refusal)
    assert call("wait", "a@a.test", "--server", url).stdout == "Hi.\n"
    done = call("wait", "a@a.test", "--server", url, "--timeout", "0")
    assert done.exit_code == 4
    assert one_line(done).endswith("(429 rate-limited)")


def test_a_truncated_text_is_fetched_completely(call, scripted):
    mail = b'{"messages": [{"id": "msg_1", "received_at": "2026-01-01T00:00:00Z", "body": "Hi", "truncated": true}]}'
    url = scripted((200, {}, mail), (200, {}, b'{"body": "Hi, all of you."}'))
    assert call("wait", "a@a.test", "--server", url).stdout == "Hi, all of you.\n"


def test_no_control_sequence_of_a_message_is_printed(call, daemon, inbox):
    daemon.deliver(inbox.address, HOSTILE)
    done = call("wait", inbox.address)
    assert done.exit_code == 0
    assert done.stdout.startswith("red \ufffd[31m ")
    late = call("wait", inbox.address, "--subject", "no", "--timeout", "0")
    assert late.stderr.count("\n") == 3
    (line,) = call("wait", inbox.address, "--json").stdout.splitlines()
    assert all(character.isprintable() for character in (done.stdout + late.stderr).replace("\n", "") + line)
    assert line.isascii()
    assert "\u202e" in json.loads(line)["subject"]


@pytest.mark.parametrize("option", ["--code", "--link", "--text=", "--json"])
def test_no_control_sequence_from_a_service_is_printed(call, scripted, option):
    evil = "\x1b]0;owned\x07"
    mail = {"id": evil, "received_at": "2026-01-01T00:00:00Z", "body": evil, "subject": evil, "from": evil}
    found = {"codes": [{"value": evil}], "links": [{"href": evil, "confidence": 0.8}]}
    url = scripted((200, {}, json.dumps({"messages": [{**mail, **found}]}).encode()))
    done = call("wait", "a@a.test", option, "--server", url)
    assert "owned" in done.stdout
    assert done.stdout.rstrip("\n").isprintable()


def test_ctrl_c_ends_a_wait_without_output(run, scripted):
    is_asked = threading.Event()
    refusal = (429, {"Retry-After": "30"}, b'{"code": "rate-limited"}')
    waiting = run("wait", "a@a.test", "--server", scripted(refusal, on_last=is_asked.set), columns=80)
    assert is_asked.wait(PATIENCE_SECONDS)
    assert waiting.interrupt() == 130
    assert waiting.seen == "^C"
    assert waiting.errors() == ""
