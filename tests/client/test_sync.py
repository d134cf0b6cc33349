"""The synchronous client is generated from the asynchronous client."""

import runpy
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "tools/sync_client.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(_SCRIPT))


def test_the_synchronous_client_is_the_current_output_of_its_generator(script):
    made = (script["FOLDER"] / "sync.py").read_text()
    assert made == script["converted"]((script["FOLDER"] / "aio.py").read_text()), "run python tools/sync_client.py"


def test_a_reworded_sentence_stops_the_generator(script):
    source = (script["FOLDER"] / "aio.py").read_text().replace("A client belongs to one event loop.", "")
    with pytest.raises(ValueError, match="A client belongs to one event loop"):
        script["converted"](source)
