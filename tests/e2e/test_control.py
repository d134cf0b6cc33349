"""The operator's commands against a running service, and without one."""

import json
import smtplib

import pytest


@pytest.fixture(scope="module")
def daemon(start_in, tmp_path_factory):
    return start_in(tmp_path_factory.mktemp("controlled"))


@pytest.fixture
def run(daemon, command):
    """Run a command with the configuration of the daemon."""

    def run(*arguments):
        return command(*arguments, TMPMAILD_STORAGE__PATH=str(daemon.database))

    return run


def test_status_tells_what_is_served_held_and_done(daemon, run):
    address = daemon.create()
    daemon.deliver_octets(address, b"Subject: one\r\n\r\n")
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        daemon.deliver_octets("nobody@tmpmaild.example", b"")
    done = run("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["running"], found["ready"], found["reason"]) == (True, True, "")
    assert found["served"] == {
        "domains": ["tmpmaild.example"],
        "http": [f"127.0.0.1:{daemon.http_port}"],
        "smtp": [f"127.0.0.1:{daemon.smtp_port}"],
        "metrics": [],
    }
    counted = {name: found["numbers"][name] for name in ("inboxes", "messages", "mails_accepted", "smtp_refusals")}
    assert counted == {"inboxes": 1, "messages": 1, "mails_accepted": 1, "smtp_refusals": 1}
    text = run("status").stdout
    assert text.startswith("tmpmaild ")
    assert "ready\n" in text
    assert "holds     1 inbox, 1 message\n" in text
    assert "1 negative SMTP reply\n" in text
    assert address.partition("@")[0] not in text + done.stdout


def test_status_without_a_service_tells_what_the_database_holds(start, command, tmp_path):
    daemon = start()
    daemon.deliver_octets(daemon.create(), b"Subject: one\r\n\r\n")
    assert daemon.stop() == 0
    done = command("status")
    assert done.returncode == 4
    assert "no service answers at tmpmaild.db.control" in done.stdout
    assert "stopped   cleanly\n" in done.stdout
    assert "holds     1 inbox, 1 message\n" in done.stdout
    found = json.loads(command("status", "--json").stdout)
    assert (found["running"], found["clean_stop"], found["inboxes"]) == (False, True, 1)
    daemon.database.unlink()
    done = command("status")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
