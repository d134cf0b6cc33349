"""Errors that prevent startup are reported in one clear line and leave all files unchanged."""

import hashlib
import os
import socket
import sqlite3
import time
import urllib.request
from contextlib import closing

import pytest

IN_USE = "in use by another tmpmaild; stop it first, for example with systemctl stop tmpmaild"


def one_line(done, exit_code=1):
    """Return the only line that a failed command wrote to standard error; the exit code is 1 by default."""
    assert done.returncode == exit_code
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_second_daemon_on_one_database_does_not_start(start, command):
    daemon = start()
    assert one_line(command("serve")) == f"tmpmaild: tmpmaild.db: {IN_USE}"
    assert one_line(command("migrate")) == f"tmpmaild: tmpmaild.db: {IN_USE}"
    assert daemon.create()


def test_a_port_in_use_is_named(command):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        line = one_line(command("serve", TMPMAILD_SMTP__LISTEN=f"127.0.0.1:{port}"))
    assert line == f"tmpmaild: smtp.listen: cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize("name", ["serve", "migrate"])
def test_a_database_that_cannot_be_used_is_left_unchanged(command, tmp_path, name):
    """The unit does not restart a process that exits with EX_CONFIG, because the error would recur."""
    database = tmp_path / "tmpmaild.db"
    database.write_bytes(b"no database at all, but long enough to look at " * 50)
    before = digest(database)
    said = one_line(command(name), os.EX_CONFIG if name == "serve" else 1)
    assert "not a SQLite database, or damaged at its start" in said
    assert digest(database) == before


def test_an_unused_variable_is_reported_by_every_command_that_reads_the_configuration(start, command):
    line = "TMPMAILD_LOG_LEVEL: this variable has no effect, did you mean TMPMAILD_LOG__LEVEL?\n"
    daemon = start(TMPMAILD_LOG_LEVEL="debug")
    assert daemon.errors().partition(" WARNING ")[2] == f"tmpmaild.cli.serving: {line}"
    checked = command("check-config", TMPMAILD_LOG_LEVEL="debug")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "defaults: ok\n", f"tmpmaild: {line}")
    assert f"warning  configuration: {line}" in command("doctor", TMPMAILD_LOG_LEVEL="debug").stdout


def test_a_correct_configuration_is_reported_as_correct(command, tmp_path):
    assert command("check-config").stdout == "defaults: ok\n"
    (tmp_path / "tmpmaild.toml").write_text('domains = ["example.org"]\n')
    assert command("check-config").stdout == "tmpmaild.toml: ok\n"


def test_migrate_reports_its_steps(command):
    applied = "applied 0001_initial\napplied 0002_verdict\napplied 0003_webhook\n"
    assert command("migrate").stdout == f"{applied}tmpmaild.db: migrated\n"
    assert command("migrate").stdout == "tmpmaild.db: up to date\n"


def test_damage_that_is_detected_later_is_logged_and_found_at_the_next_start(start, command, tmp_path):
    assert command("migrate").returncode == 0
    database = tmp_path / "tmpmaild.db"
    with closing(sqlite3.connect(database)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'message_by_inbox'").fetchone()
    octets = bytearray(database.read_bytes())
    octets[(page - 1) * 4096 : (page - 1) * 4096 + 200] = b"\xff" * 200
    database.write_bytes(octets)
    daemon = start()
    while "sweep failed" not in daemon.errors():
        assert daemon.process.poll() is None
        time.sleep(0.01)
    daemon.stop()
    assert "Traceback" not in daemon.errors()
    before = digest(database)
    assert "damaged" in one_line(command("serve"), os.EX_CONFIG)
    assert digest(database) == before


def test_the_ports_are_open_before_expired_data_is_deleted(start, command, tmp_path):
    """A sweep that takes minutes must not delay senders; expired messages are invisible even before the sweep."""
    expired = 50_000
    assert command("migrate").returncode == 0
    with closing(sqlite3.connect(tmp_path / "tmpmaild.db")) as connection, connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO inbox (id, name_hash, created_at_ms, expires_at_ms, private)"
            " SELECT i, randomblob(16), 0, 1, 0 FROM n",
            (expired,),
        )
    daemon = start()
    with closing(sqlite3.connect(tmp_path / "tmpmaild.db")) as connection:
        (left,) = connection.execute("SELECT count(*) FROM inbox WHERE swept = 0").fetchone()
        assert left > 1
        while connection.execute("SELECT count(*) FROM inbox WHERE swept = 0").fetchone() != (1,):
            time.sleep(0.02)
    assert daemon.stop() == 0


@pytest.mark.cold
@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_the_page_and_the_log_do_not_depend_on_the_locale(start, locale):
    address = "/api/v1/addresses"
    daemon = start(LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    with urllib.request.urlopen(f"{daemon.url}/") as page:
        shown = page.read().decode("utf-8")
    assert "\u2026" in shown or "\u00b7" in shown
    assert daemon.request(address, "POST").status == 201
    assert daemon.errors() == ""
