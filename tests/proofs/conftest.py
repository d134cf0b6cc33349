"""What takes too long for each run of the tests: ``make proof``, and ``make proof QUICK=1`` for less of it."""

import os

import pytest

from daemons import Daemon


@pytest.fixture(scope="session")
def amount():
    """Return a function that chooses between all and, when there is little time, less."""
    return lambda whole, quick: quick if os.environ.get("QUICK") else whole


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the daemon, each time on the same database."""
    started = []

    def start(**settings):
        started.append(Daemon(tmp_path, **settings))
        return started[-1]

    yield start
    for daemon in started:
        daemon.close()
