"""A running service's audit log of address creators and senders, and the command that finds the lines."""

import re
import smtplib

import pytest

from daemons import NO_LIMITS

LINE = re.compile(
    r"INFO tmpmaild\.audit: (\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d\.\d{3}Z (created|accepted) ([0-9.]+) ([0-9a-f]{32})\n"
)
NAME = "chosen-by-ada"
HOSTILE = b'Subject: x\n INFO tmpmaild.audit: created\r\nFrom: "a\\" INFO tmpmaild.audit" <a@example.com>\r\n\r\nsecret-octets\r\n'


def story(daemon):
    """Create an address and send it a message; also make both fail, with names that might forge a line."""
    address = daemon.request("/api/v1/addresses", "POST", {"local_part": NAME}).json["address"]
    daemon.deliver_raw(address, HOSTILE)
    assert daemon.request("/api/v1/addresses", "POST", {"local_part": NAME}).status == 409
    for forged in (f"{NAME}2\n2026-11-28T00:00:00.000Z created 192.0.2.1 {'0' * 32}", "x" * 70, "a%sb%d"):
        assert daemon.request("/api/v1/addresses", "POST", {"local_part": forged}).status == 422
    with daemon.smtp() as client:
        client.docmd("MAIL FROM:<ada-the-sender@example.com>")
        client.docmd(f'RCPT TO:<"{NAME} INFO tmpmaild.audit: created"@mail.example.com>')
        client.docmd("RCPT TO:<nobody-here@mail.example.com>")
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        daemon.deliver_raw("nobody-here@mail.example.com", b"")
    return address


def test_the_command_finds_the_lines_of_an_address_and_they_reveal_nothing_else(start, command):
    daemon = start(**NO_LIMITS, TMPMAILD_LOG__AUDIT="true", TMPMAILD_LOG__LEVEL="error")
    address = story(daemon)
    running = command("audit", address, "--day", "2026-11-28")
    assert daemon.stop() == 0
    lines = LINE.findall(daemon.log())
    assert [line[1:3] for line in lines] == [("created", "127.0.0.1"), ("accepted", "127.0.0.1")]
    for day, _, _, found in lines:
        assert command("audit", address.upper().replace("@", "+tag@"), "--day", day).stdout == f"{found}\n"
    assert daemon.log().count("tmpmaild.audit") == 2
    assert NAME not in daemon.log()
    assert "@" not in daemon.log()
    assert (running.returncode, running.stderr) == (0, "")
    assert running.stdout == command("audit", address, "--day", "2026-11-28").stdout
    assert running.stdout != command("audit", address, "--day", "2026-11-29").stdout


def test_no_line_is_written_unless_it_is_wanted(start):
    daemon = start(**NO_LIMITS)
    story(daemon)
    assert daemon.stop() == 0
    assert "audit" not in daemon.log()
    assert not re.search(rf"{NAME}|nobody-here|ada-the-sender|secret-octets", daemon.log())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ada"], "expected an address"),
        (["ada@mail.example.com\n"], "expected an address"),
        (["ada@[not-a-literal]"], "expected an address"),
        ([], "Missing argument 'ADDRESS'"),
    ],
)
def test_an_invalid_address_is_refused(command, arguments, told):
    done = command("audit", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_without_a_database_there_is_no_hash(command):
    done = command("audit", "ada@mail.example.com")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
