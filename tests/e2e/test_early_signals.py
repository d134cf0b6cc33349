"""Signals that come before the daemon waits for them: SIGHUP is survived, SIGTERM and SIGINT end it with 0."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

# The signal comes when the first module that takes time is about to be loaded.
PROGRAM = """
import os, runpy, sys
class Killer:
    def find_spec(self, name, path, target=None):
        if name == "tmpmaild.cli.main":
            os.kill(os.getpid(), int(sys.argv.pop()))
sys.meta_path.insert(0, Killer())
runpy.run_module("tmpmaild", run_name="__main__", alter_sys=True)
"""


@contextmanager
def serve(folder, program, *arguments):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TMPMAILD_")}
    environ |= {"TMPMAILD_HTTP__LISTEN": "127.0.0.1:0", "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0"}
    environ["TMPMAILD_LOG__LEVEL"] = "warning"
    command = [sys.executable, *program, "serve", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=environ, text=True, **pipes) as process:
        yield process
        process.kill()


def assert_serves(process):
    assert process.stdout.readline().startswith("tmpmaild ")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert [line for line in said.splitlines() if " INFO tmpmaild." not in line] == []


def assert_ended(process):
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_a_hangup_while_modules_are_loaded_is_survived(tmp_path):
    with serve(tmp_path, ["-c", PROGRAM], str(int(signal.SIGHUP))) as process:
        assert_serves(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_modules_are_loaded_ends_it_cleanly(tmp_path, number):
    with serve(tmp_path, ["-c", PROGRAM], str(int(number))) as process:
        assert_ended(process)


@contextmanager
def busy_with_the_database(folder, command):
    """Start a daemon, and stop it at its first write: another process has the write lock."""
    assert command("migrate").returncode == 0
    with closing(sqlite3.connect(folder / "tmpmaild.db", isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        with serve(folder, ["-m", "tmpmaild"]) as process:
            while not has_lock(process.pid):
                assert process.poll() is None
                time.sleep(0.01)
            yield process, stranger


def has_lock(pid):
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(lock[1] == "FLOCK" and lock[4] == str(pid) for lock in locks)


def test_a_hangup_while_the_database_is_opened_is_survived(tmp_path, command):
    with busy_with_the_database(tmp_path, command) as (process, stranger):
        process.send_signal(signal.SIGHUP)
        stranger.execute("ROLLBACK")
        assert_serves(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_the_database_is_opened_ends_it_at_once(tmp_path, command, number):
    with busy_with_the_database(tmp_path, command) as (process, stranger):
        process.send_signal(number)
        assert_ended(process)
        assert stranger.in_transaction  # it has not waited for that
