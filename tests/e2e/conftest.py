"""The real process, on free ports, in a folder of its own."""

import subprocess
import sys

import pytest

from daemons import FREE_PORTS, NO_LIMITS, Daemon, environment


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the daemon with settings from the environment."""
    started = []

    def start(folder=tmp_path, **settings):
        started.append(Daemon(folder, **settings))
        return started[-1]

    yield start
    for daemon in started:
        daemon.close()


@pytest.fixture(scope="module")
def start_in():
    """Return a function that starts a daemon without limits, for all tests of a module."""
    started = []

    def start(folder, **settings):
        started.append(Daemon(folder, **NO_LIMITS, **settings))
        return started[-1]

    yield start
    for daemon in started:
        daemon.close()


@pytest.fixture
def command(tmp_path):
    """Return a function that runs a command of tmpmaild to its end."""

    def run(*arguments, **settings):
        return subprocess.run(
            [sys.executable, "-m", "tmpmaild", *map(str, arguments)],
            cwd=tmp_path,
            env=environment(**{**FREE_PORTS, **settings}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def no_limits():
    return dict(NO_LIMITS)
