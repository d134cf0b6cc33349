"""Log lines about refused clients: they contain the reason, the limit and the IP address, but no part of a message."""

import logging
import re
import subprocess
from pathlib import Path

import pytest

from tmpmaild.host import sockets
from tmpmaild.host.logs import JsonFormatter

FILTER = Path(__file__).parents[2] / "docs/fail2ban/tmpmaild.conf"
MAIL = ("EHLO client.example", "MAIL FROM:<a@example.com>")


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if record.name == "tmpmaild.smtp.connections"]


async def test_each_refusal_is_logged_with_its_reason_without_mail_or_address(talk, lines, caplog):
    async with talk() as (_, client):
        await client.deliver("abc", mail="Subject: what-is-said")
        await client.say(
            *MAIL, "RCPT TO:<nobody@ours.test>", "RCPT TO:<x@elsewhere.example>", "NONSENSE secret", "QUIT"
        )
    assert lines() == [
        "SMTP from 127.0.0.1 refused: 550 5.1.1 No such address here",
        "SMTP from 127.0.0.1 refused: 550 5.7.1 Relaying denied",
        "SMTP from 127.0.0.1 refused: 500 5.5.2 Command not recognized",
    ]
    for text in ("abc", "a@example.com", "what-is-said", "nobody", "elsewhere", "secret"):
        assert text not in caplog.text


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: ours.test\r\nAccept: */*\r\n\r\n",
            "HTTP request received on an SMTP port",
            id="HTTP",
        ),
        pytest.param(
            b"PROPFIND /x HTTP/1.1\r\nHost: ours.test\r\n\r\n",
            "HTTP request received on an SMTP port",
            id="HTTP, another method",
        ),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP request received on an SMTP port", id="HTTP/2"),
        pytest.param(
            b"\x16\x03\x01\x02\x00\x01\n\n\n", "TLS handshake received on a port without implicit TLS", id="TLS"
        ),
    ],
)
@pytest.mark.parametrize("greeting", [b"", b"EHLO client.example\r\n"])
async def test_a_different_protocol_is_logged_once_by_its_name(serve, lines, sent, what, greeting):
    async with serve() as house:
        client = await house.greeted() if greeting else await house.connect()
        client.write(sent)
        await client.rest()
    assert lines() == [f"SMTP from 127.0.0.1 refused: 500 5.5.2 {what}, closing"]


async def test_a_refused_connection_is_logged_with_the_limit(serve, lines):
    async with serve(max_connections_per_client=1) as house:
        await house.greeted()
        await house.connect()
        await house.until(lines)
    assert lines() == ["SMTP connection from 127.0.0.1 refused: smtp.max_connections_per_client is reached"]


LOG = {
    "2026-11-22 07:50:25,459 INFO tmpmaild.smtp.connections: SMTP from 192.0.2.1 refused: 550 5.7.1 Relaying denied": True,
    "2026-11-22 07:50:25,459 INFO tmpmaild.smtp.connections: SMTP from 2001:db8::1 refused: 421 4.7.0 Too many errors, closing": True,
    "2026-11-22 07:51:25,459 INFO tmpmaild.smtp.connections: SMTP from 192.0.2.1 refused: 500 5.5.2 Command not recognized (17 more times within a minute)": True,
    "2026-11-22 07:50:25,459 INFO tmpmaild.smtp.connections: SMTP from 192.0.2.1 refused: 550 5.1.1 No such address here": False,
    "2026-11-22 07:50:25,459 INFO tmpmaild.smtp.connections: SMTP from 192.0.2.1 refused: 452 4.3.1 Insufficient system storage, try again later": False,
}
"""Log lines; True means that the filter matches the line."""

JOURNAL = {line.split(",", 1)[1][4:]: found for line, found in LOG.items()}
"""The same lines in the form of the journal, without a time."""


def as_json(line):
    level, logger, message = re.fullmatch(r"\S+ \S+ (\w+) (\S+): (.*)", line).groups()
    record = logging.LogRecord(logger, getattr(logging, level), "", 0, message, (), None)
    return JsonFormatter().format(record)


LINES = LOG | JOURNAL | {as_json(line): found for line, found in LOG.items()}


def test_the_filter_for_fail2ban_finds_only_abuse():
    patterns = re.findall(r"^(?:failregex =)?\s*(\^.+)$", FILTER.read_text(), re.MULTILINE)
    assert len(patterns) == 2
    found = re.compile("|".join(pattern.replace("<HOST>", r"(?:[\d.]+|[\da-f:]+)") for pattern in patterns)).match
    assert {line: bool(found(line)) for line in LINES} == LINES


@pytest.mark.needs("fail2ban")
def test_fail2ban_finds_the_same_lines(tmp_path):
    log = tmp_path / "log"
    # Leave out journal lines, which have no timestamp.
    lines = {line: found for line, found in LINES.items() if line not in JOURNAL}
    log.write_text("\n".join(lines) + "\n")
    said = subprocess.run(["fail2ban-regex", log, FILTER], capture_output=True, text=True, check=True).stdout
    assert f"{sum(lines.values())} matched, {len(lines) - sum(lines.values())} missed" in said


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param(
            {"auth": "any"},
            'smtp.auth is "any" on {}: clients with a configured password send it to this server',
            id="auth",
        ),
        pytest.param(
            {"faults": True},
            "smtp.faults is on at {}: anyone who creates an address can delay SMTP connections",
            id="faults",
        ),
        pytest.param(
            {"keep_refusals": True},
            "smtp.keep_refusals is on at {}: anyone who can reach the API can read senders and recipients",
            id="keep_refusals",
        ),
    ],
)
async def test_a_setting_for_tests_causes_one_warning_at_a_public_address(serve, caplog, settings, text):
    for ip in ("127.0.0.1", "0.0.0.0"):
        async with serve(**settings, names=(), listener=sockets.bind_all([f"{ip}:0"])[0]):
            warnings = [record.getMessage() for record in caplog.records if record.name == "tmpmaild.smtp.server"]
            assert warnings == [text.format(ip)] * (ip == "0.0.0.0")
