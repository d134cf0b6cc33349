"""The service keeps running if its standard streams are closed or cannot be written to."""

import signal
import subprocess
import sys

import pytest

from daemons import FREE_PORTS, environment, wait_until

SERVE = [sys.executable, "-m", "tmpmaild", "serve"]
CLOSED = [">&- 2>&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"]


@pytest.mark.cold
@pytest.mark.parametrize("redirection", [*CLOSED, ">/dev/full", ">/dev/full 2>/dev/full"])
def test_the_service_runs_and_stops_normally(tmp_path, command, redirection):
    shell = ["sh", "-c", f'exec "$0" "$@" {redirection}', *SERVE]
    streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(shell, cwd=tmp_path, env=environment(**FREE_PORTS), **streams) as process:
        wait_until(lambda: process.poll() is not None or command("status").returncode == 0)
        assert command("status", "--json").stdout.startswith('{"running": true')
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        errors = process.stderr.read().decode()
    assert "Traceback" not in errors
    assert ("cannot write to standard output: No space left on device" in errors) == (redirection == ">/dev/full")


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_a_service_for_tests_that_cannot_print_its_addresses_exits(tmp_path, redirection):
    shell = ["sh", "-c", f'exec "$0" "$@" {redirection}', *SERVE, "--for-tests"]
    with subprocess.Popen(shell, cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as one:
        assert one.wait(30) == 4
        assert b"cannot write to standard output" in one.stderr.read()
    assert list(tmp_path.iterdir()) == []
