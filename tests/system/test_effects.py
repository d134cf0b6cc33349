"""The test that ``tests/effects.json`` names for a thing fails where that thing is taken away (``support/without``)."""

import json
import os
import sys
from pathlib import Path

import pytest

from daemons import finished

ROOT = Path(__file__).parents[2]
SHOWN = json.loads((ROOT / "tests/effects.json").read_text())["shown"]


def run(test, thing):
    """Run a test in a Python of its own, without a thing; return its output and the exit code."""
    path = os.pathsep.join([str(ROOT / "tests/support/without"), os.environ.get("PYTHONPATH", "")])
    done = finished(
        [sys.executable, "-m", "pytest", "-n0", "-q", test],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "WITHOUT": thing},
        timeout=120,
    )
    return done.stdout + done.stderr, done.returncode


@pytest.mark.parametrize(("thing", "test"), SHOWN.items())
def test_the_test_of_a_thing_fails_without_it(thing, test):
    """That it passes with it is seen where it stands."""
    said, status = run(test, thing)
    assert (status, "1 failed" in said) == (1, True), f"{test} does not look at what {thing} does:\n{said}"


def test_a_test_passes_without_what_it_does_not_look_at():
    assert run(SHOWN["commands migrate"], "commands backup")[1] == 0
