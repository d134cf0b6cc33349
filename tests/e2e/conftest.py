"""The real process, on free ports, in a folder of its own."""

import pytest

import warm
from daemons import FREE_PORTS, NO_LIMITS, Daemon, environment


@pytest.fixture
def start(request, tmp_path):
    """Return a function that starts the daemon with settings from the environment."""
    is_warm = not request.node.get_closest_marker("cold")
    started = []

    def start(folder=tmp_path, **settings):
        started.append(Daemon(folder, is_warm=is_warm, **settings))
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
        return warm.run(map(str, arguments), cwd=tmp_path, env=environment(**{**FREE_PORTS, **settings}))

    return run


@pytest.fixture
def no_limits():
    return dict(NO_LIMITS)
