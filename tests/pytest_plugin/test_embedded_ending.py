"""A session never leaves a daemon behind, even if the session is interrupted or killed."""

import os
import select
import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.joinpath("suites/embedded_ending.py").read_text()


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGINT, ()),
        (signal.SIGTERM, ()),
        pytest.param(signal.SIGKILL, ("-p", "xdist", "-n", "1"), marks=pytest.mark.proof),
    ],
    ids=["ctrl-C", "SIGTERM", "SIGKILL under xdist"],
)
def test_a_terminated_session_stops_its_daemon(start_pytest, tmp_path, number, options):
    os.mkfifo(tmp_path / "fifo")
    # With O_RDWR, neither side waits for the other side to open the pipe.
    reading = os.open(tmp_path / "fifo", os.O_RDWR)
    process = start_pytest(TESTS, *options)
    assert select.select([reading], [], [], 60)[0], "the test did not start"
    daemon = os.pidfd_open(int(os.read(reading, 100)))
    os.killpg(process.pid, number)  # terminals do this, and CI systems when a job times out
    assert select.select([daemon], [], [], 30)[0], "the daemon is still running"
    os.close(daemon)
    os.close(reading)
