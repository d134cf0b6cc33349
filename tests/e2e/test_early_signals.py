"""Signals that arrive before the daemon is ready: it survives SIGHUP, and exits with 0 on SIGTERM and SIGINT.

A catcher or a service for tests is terminated instead if SIGHUP arrives while its modules are being loaded.
"""

import signal
import sqlite3
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from daemons import FREE_PORTS, PATIENCE_SECONDS, environment
from warm import Program

# Sends the signal just before the first slow module is imported.
PROGRAM = Path(__file__).with_name("early_signals_program.py")


@pytest.mark.parametrize("command", [["catch"], ["serve", "--for-tests"]], ids=" ".join)
def test_a_hangup_while_the_modules_of_a_service_for_tests_are_loaded_ends_it(tmp_path, command):
    program = [sys.executable, PROGRAM, *command, str(int(signal.SIGHUP))]
    with Popen(program, cwd=tmp_path, env=environment(**FREE_PORTS), text=True, stdout=PIPE, stderr=PIPE) as process:
        assert process.communicate(timeout=PATIENCE_SECONDS) == ("", "")
    assert process.returncode == -signal.SIGHUP


@contextmanager
def serving(folder, start, arguments):
    settings = environment(**FREE_PORTS, TMPMAILD_LOG__LEVEL="warning")
    process = start(arguments, cwd=folder, env=settings, text=True, stdout=PIPE, stderr=PIPE)
    with process.stdout, process.stderr:
        yield process
        process.kill()
        process.wait()


def killed_early(folder, number):
    return serving(folder, Popen, [sys.executable, PROGRAM, "serve", str(int(number))])


def assert_serves(process):
    assert process.stdout.readline().startswith("tmpmaild ")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 0
    assert [line for line in process.stderr if " INFO tmpmaild." not in line] == []


def assert_ended(process):
    assert process.wait(PATIENCE_SECONDS) == 0
    assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_a_hangup_while_modules_are_loaded_is_survived(tmp_path):
    with killed_early(tmp_path, signal.SIGHUP) as process:
        assert_serves(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_modules_are_loaded_ends_it_cleanly(tmp_path, number):
    with killed_early(tmp_path, number) as process:
        assert_ended(process)


@contextmanager
def busy_with_the_database(folder, command):
    """Start a daemon that blocks on its first write, because another connection holds the write lock."""
    assert command("migrate").returncode == 0
    with closing(sqlite3.connect(folder / "tmpmaild.db", isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        with serving(folder, Program, ["serve"]) as process:
            while not has_lock(process.pid):
                assert process.poll() is None
                time.sleep(0.01)
            yield process, stranger


def has_lock(pid):
    locks = [line.split() for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines()]
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
        assert stranger.in_transaction  # the lock is still held, so the daemon did not wait for it
