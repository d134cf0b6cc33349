"""Commands of the real program, next to a daemon in the same folder."""

import pytest

import warm
from daemons import FREE_PORTS, environment


@pytest.fixture
def command(tmp_path):
    """Return a function that runs a command of tmpmaild to its end."""

    def run(*arguments, **settings):
        return warm.run(map(str, arguments), cwd=tmp_path, env=environment(**{**FREE_PORTS, **settings}))

    return run
