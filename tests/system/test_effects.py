"""Each test in ``tests/effects.json`` fails when the feature that it covers is removed (``support/without``)."""

import json
import os
import sys
from pathlib import Path

import pytest

from daemons import finished

ROOT = Path(__file__).parents[2]
SHOWN = json.loads((ROOT / "tests/effects.json").read_text())["shown"]


def run(test, thing):
    """Run a test in a separate Python process without a feature; return its output and exit code."""
    path = os.pathsep.join([str(ROOT / "tests/support/without"), os.environ.get("PYTHONPATH", "")])
    done = finished(
        [sys.executable, "-m", "pytest", "-n0", "-q", test],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "WITHOUT": thing},
        timeout=120,
    )
    return done.stdout + done.stderr, done.returncode


@pytest.mark.parametrize(("thing", "test"), SHOWN.items())
def test_the_test_of_a_feature_fails_without_the_feature(thing, test):
    """The ordinary test run shows that the test passes with the feature."""
    said, status = run(test, thing)
    assert (status, "1 failed" in said) == (1, True), f"{test} does not look at what {thing} does:\n{said}"


def test_a_test_passes_without_an_unrelated_feature():
    assert run(SHOWN["commands migrate"], "commands backup")[1] == 0
