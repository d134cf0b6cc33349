"""``tmpmaild block`` applies to SMTP and to new addresses, immediately and after a restart."""

import json
import smtplib

import pytest

from daemons import NO_LIMITS

THERE = ("127.0.0.2", 0)


@pytest.fixture
def run(command, tmp_path):
    """Return a function that runs a command with the daemon's configuration and returns its output."""

    def run(*arguments, code=0):
        done = command(*arguments)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def create(daemon, client, **wish):
    return daemon.request("/api/v1/addresses", "POST", wish, {"X-Forwarded-For": client})


def test_a_client_is_refused_at_once_and_after_a_restart(start, run):
    limited = {**NO_LIMITS, "TMPMAILD_LIMITS__EXEMPT": ""}
    daemon = start(**limited, TMPMAILD_HTTP__TRUSTED_PROXIES="127.0.0.1/32")
    address = create(daemon, "192.0.2.1").json["address"]
    with daemon.smtp(source_address=THERE) as open_session:
        open_session.ehlo()
        assert "use --force to block it anyway" in run("block", "--client", "127.0.0.2", code=1)
        assert run("block", "--client", "127.0.0.2", "--client", "192.0.2.0/24", "--force") == "2 blocked\n"
        assert open_session.docmd("MAIL FROM:<a@example.com>") == (550, b"5.7.1 Sender not accepted here")
    for _ in range(2):
        with pytest.raises(smtplib.SMTPConnectError) as refusal:
            daemon.smtp(source_address=THERE)
        assert (refusal.value.smtp_code, refusal.value.smtp_error) == (554, b"5.7.1 Access denied")
        with daemon.smtp() as other:
            assert other.noop()[0] == 250
        refused = create(daemon, "192.0.2.77")
        assert (refused.status, refused.json["code"]) == (403, "blocked")
        assert create(daemon, "198.51.100.1").status == 201
        assert daemon.messages(address) == []  # the existing address is kept
        daemon.restart()
    assert "SMTP connection from 127.0.0.2 refused: blocked" in daemon.log()
    assert "HTTP from 192.0.2.77 refused: blocked" in daemon.log()
    assert run("blocks") == "client  127.0.0.2/32\nclient  192.0.2.0/24\n"
    assert run("unblock", "--client", "192.0.2.0/24") == "1 unblocked\n"
    assert create(daemon, "192.0.2.77").status == 201
    assert "none of these blocks exists" in run("unblock", "--client", "192.0.2.0/24", code=1)


def test_names_and_senders_are_blocked(start, run):
    daemon = start(**NO_LIMITS, TMPMAILD_SMTP__ACCEPT_UNKNOWN="create")
    assert run("block", "--name", "Shop", "--sender", "spam.example", "--for", "1d") == "2 blocked\n"
    refused = create(daemon, "192.0.2.1", local_part="SHOP")
    assert refused.status == 422
    assert refused.json["errors"] == [{"pointer": "/local_part", "detail": "this name is reserved"}]
    with daemon.smtp() as client:
        client.ehlo()
        assert client.docmd("MAIL FROM:<a@mail.spam.example>") == (550, b"5.7.1 Sender not accepted here")
        assert client.docmd("MAIL FROM:<a@example.com>")[0] == 250
        assert client.docmd("RCPT TO:<shop@mail.example.com>")[0] == 550
        assert client.docmd("RCPT TO:<work@mail.example.com>")[0] == 250
    listed = [json.loads(line) for line in run("blocks", "--json").splitlines()]
    assert [(block["kind"], block["value"]) for block in listed] == [("name", "shop"), ("sender", "spam.example")]
    assert {block["expires_at_ms"] - block["created_at_ms"] for block in listed} == {86_400_000}
    assert "  until 20" in run("blocks")
    assert run("block", "--name", "Shop", "--for", "0") == "1 blocked\n"
    assert "name    shop\n" in run("blocks")
    assert "expected a local part" in run("block", "--name", "a@b", code=1)
    assert "specify --sender, --name or --client" in run("block", code=2)
    assert "Invalid value" in run("block", "--name", "x", "--for", "soon", code=2)
