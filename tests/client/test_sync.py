"""The client without ``await`` is made from the other one."""

import runpy
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "tools/sync_client.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(_SCRIPT))


def test_the_client_without_await_is_what_the_script_makes_of_the_other(script):
    made = (script["FOLDER"] / "sync.py").read_text()
    assert made == script["converted"]((script["FOLDER"] / "aio.py").read_text()), "run python tools/sync_client.py"


def test_a_sentence_that_was_reworded_stops_the_script(script):
    source = (script["FOLDER"] / "aio.py").read_text().replace("A client belongs to one event loop.", "")
    with pytest.raises(ValueError, match="A client belongs to one event loop"):
        script["converted"](source)
