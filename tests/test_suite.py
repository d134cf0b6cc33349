"""How the tests are run does not matter to what they say."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from targets import Target

from growth import assert_linear
from tables import rows_of, table

ROWS = rows_of(__file__)

ROOT = Path(__file__).parents[1]
HOSTILE = dict(ROWS["HOSTILE"])
SENSITIVE = [
    "tests/e2e/test_stop.py::test_a_second_signal_changes_nothing",
    "tests/cli/test_mailcommands_live.py::test_a_terminal_of_any_width_shows_code_and_link_first",
    "tests/cli/test_mailcommands_live.py::test_a_countdown_never_wraps",
    "tests/cli/test_mailcommands_live.py::test_nothing_is_coloured_for_those_who_want_none",
    "tests/pytest_plugin/test_embedded_ending.py::test_a_session_that_is_ended_takes_its_daemon_along[ctrl-C]",
]


def ignore_what_a_background_job_ignores():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.proof
def test_neither_the_environment_nor_ignored_signals_change_what_a_test_finds():
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-q", *SENSITIVE],
        cwd=ROOT,
        env={**clean, **HOSTILE},
        preexec_fn=ignore_what_a_background_job_ignores,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_work_that_grows_faster_than_its_data_is_found():
    def linear(data):
        sum(data)

    def quadratic(data):
        for _ in range(len(data) // 100):
            sum(data)

    assert_linear(linear, range(100_000))
    with pytest.raises(AssertionError, match="s of CPU"):
        assert_linear(quadratic, range(20_000))


def test_a_table_tells_each_row_that_fails():
    @table(("first", "second"), [(1, 1), (1, 2), (2, 3)])
    def same(first, second):
        assert first == second

    @table("number", [1, 2])
    async def odd(number):
        assert number % 2

    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as failed:
        same()
    assert [error.__notes__ for error in failed.value.exceptions] == [
        ["row: {'first': 1, 'second': 2}"],
        ["row: {'first': 2, 'second': 3}"],
    ]
    with pytest.raises(ExceptionGroup, match="1 of 2 rows"):
        asyncio.run(odd())


def test_a_table_tells_each_row_in_which_nothing_was_raised():
    @table("text", ["1", "a", "2"])
    def not_a_number(text):
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as failed:
        not_a_number()
    assert [error.__notes__ for error in failed.value.exceptions] == [["row: {'text': '1'}"], ["row: {'text': '2'}"]]


def test_a_target_of_webhooks_takes_no_notice_of_a_call_that_breaks_off(capsys):
    target = Target()
    try:
        with socket.create_connection(("127.0.0.1", target.port)) as caller:
            caller.sendall(b'POST /in HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"type"')
            caller.shutdown(socket.SHUT_WR)
            assert caller.recv(100) == b""
    finally:
        target.close()
    assert target.told == []
    assert capsys.readouterr().err == ""


def test_no_module_looks_itself_for_the_programs_that_its_tests_need():
    modules = [path for path in (ROOT / "tests").rglob("*.py") if path.name.startswith(("test_", "conftest"))]
    words = ("shutil" + ".which", "Debian" + " package")
    own = [path for path in modules if any(word in path.read_text() for word in words)]
    assert [path for path in own if "examples" not in path.parts] == []
