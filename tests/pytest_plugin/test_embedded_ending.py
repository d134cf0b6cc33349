"""However a session ends, no daemon is left behind."""

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
def test_a_session_that_is_ended_takes_its_daemon_along(start_pytest, tmp_path, number, options):
    os.mkfifo(tmp_path / "fifo")
    reading = os.open(tmp_path / "fifo", os.O_RDWR)  # so that neither side waits for the other to open it
    process = start_pytest(TESTS, *options)
    assert select.select([reading], [], [], 60)[0], "the test did not start"
    daemon = os.pidfd_open(int(os.read(reading, 100)))
    os.killpg(process.pid, number)  # as a terminal does, and a CI that has waited long enough
    assert select.select([daemon], [], [], 30)[0], "the daemon lives on"
    os.close(daemon)
    os.close(reading)
