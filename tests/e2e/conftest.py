"""The commands of the real program, run in the same folder as a daemon."""

import pytest

import warm
from daemons import FREE_PORTS, environment


@pytest.fixture
def command(tmp_path):
    """Return a function that runs a tmpmaild command to completion."""

    def run(*arguments, **settings):
        return warm.run(map(str, arguments), cwd=tmp_path, env=environment(**{**FREE_PORTS, **settings}))

    return run
