"""The operator's commands with and without a running service."""

import json
import smtplib
import stat

import pytest


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in):
    """Run a daemon that enforces per-client limits, so that each inbox counts toward the limits of its client."""
    return start_in(tmp_path_factory.mktemp("controlled"), TMPMAILD_LIMITS__EXEMPT="")


@pytest.fixture
def run(daemon, command):
    """Return a function that runs a command with the daemon's configuration."""

    def run(*arguments):
        return command(*arguments, TMPMAILD_STORAGE__PATH=str(daemon.database))

    return run


def test_status_reports_addresses_content_and_counts(start, command):
    daemon = start()
    address = daemon.create()
    daemon.deliver_raw(address, b"Subject: one\r\n\r\n")
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        daemon.deliver_raw("nobody@mail.example.com", b"")
    done = command("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["running"], found["ready"], found["reason"]) == (True, True, "")
    assert found["served"] == {
        "domains": ["mail.example.com"],
        "http": [f"127.0.0.1:{daemon.http_port}"],
        "smtp": [f"127.0.0.1:{daemon.smtp_port}"],
        "smtps": [],
        "metrics": [],
    }
    counted = {name: found["numbers"][name] for name in ("inboxes", "messages", "mails_accepted", "smtp_refusals")}
    assert counted == {"inboxes": 1, "messages": 1, "mails_accepted": 1, "smtp_refusals": 1}
    text = command("status").stdout
    assert text.startswith("tmpmaild ")
    assert "ready\n" in text
    assert "stored    1 inbox, 1 message\n" in text
    assert "1 negative SMTP reply\n" in text
    assert address.partition("@")[0] not in text + done.stdout


def test_status_without_a_service_reports_the_content_of_the_database(start, command, tmp_path):
    daemon = start()
    daemon.deliver_raw(daemon.create(), b"Subject: one\r\n\r\n")
    assert daemon.stop() == 0
    done = command("status")
    assert done.returncode == 4
    assert "no service is listening at tmpmaild.db.control" in done.stdout
    assert "stopped   cleanly\n" in done.stdout
    assert "stored    1 inbox, 1 message\n" in done.stdout
    found = json.loads(command("status", "--json").stdout)
    assert (found["running"], found["clean_stop"], found["inboxes"]) == (False, True, 1)
    daemon.database.unlink()
    done = command("status")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_inboxes_are_listed_and_purged_by_client_and_by_address(daemon, run):
    made = [daemon.create() for _ in range(3)]
    daemon.deliver_raw(made[0], b"Subject: one\r\n\r\nsecret-octets\r\n")
    lines = run("inboxes").stdout.splitlines()
    assert lines[0].split() == ["EXPIRES", "CREATED", "MESSAGES", "BYTES", "PRIVATE", "ADDRESS"]
    assert len({line.index("@") - len(line.split()[-1].partition("@")[0]) for line in lines[1:]}) == 1
    of_client = [json.loads(line) for line in run("inboxes", "--json", "--client", "127.0.0.1").stdout.splitlines()]
    assert {one["address"] for one in of_client} == {line.split()[-1] for line in lines[1:]} >= set(made)
    assert {one["address"]: one["message_count"] for one in of_client}[made[0]] == 1
    assert run("inboxes", "--json", "--client", "2001:db8::1").stdout == ""
    done = run("purge", made[0])
    assert (done.returncode, done.stdout) == (0, "1 inbox purged, its mail erased\n")
    assert b"secret-octets" not in daemon.database.read_bytes()
    assert daemon.request(f"/api/v1/addresses/{made[0]}").status == 410
    done = run("purge", made[0])
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "tmpmaild: no live inbox has this address\n")
    assert run("purge", "--client", "127.0.0.1").stdout == f"{len(of_client) - 1} inboxes purged, their mail erased\n"
    assert run("purge", "--all", "--yes").stdout == "0 inboxes purged, their mail erased\n"
    assert made[0].partition("@")[0] not in daemon.log()


def test_a_backup_is_a_private_file_and_the_service_starts_from_its_restored_copy(
    daemon, run, command, start, tmp_path
):
    address = daemon.create()
    daemon.deliver_raw(address, b"Subject: kept\r\n\r\n" + b"x" * 1_000_000)
    file, restored = tmp_path / "copy", tmp_path / "restored" / "tmpmaild.db"
    restored.parent.mkdir()
    before = {path.name for path in daemon.folder.iterdir()}
    done = run("backup", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{file}: {file.stat().st_size} bytes\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name for path in daemon.folder.iterdir()} == before
    done = command("restore", file, TMPMAILD_STORAGE__PATH=str(restored))
    assert (done.returncode, done.stderr) == (0, "")
    assert [message["subject"] for message in start(restored.parent).messages(address)] == ["kept"]
    done = run("backup", file)
    assert (done.returncode, done.stderr) == (1, f"tmpmaild: {file}: cannot be created: File exists\n")


def test_a_backup_that_fails_leaves_no_file(command, tmp_path):
    done = command("backup", tmp_path / "copy.db")
    assert (done.returncode, done.stdout) == (4, "")
    assert [path.name for path in tmp_path.iterdir()] == []
    assert command("backup", tmp_path / "missing" / "copy.db").returncode == 1
