"""Everything that users and operators rely on still exists, according to the recorded lists."""

import functools
import json

import pytest

import monitoring
import stable

TAKEN_AWAY = """\
These are promised until version 2 (docs/stability.md), but are missing or have changed. Restore them. If a name was never released, or
only accepts or returns more than before, delete its line from tests/stable.json, run `python tools/stable.py`, and describe the change
in CHANGELOG.md."""
NEW = """\
These are new. Check their names once more, because they cannot change before version 2; then record them with
`python tools/stable.py`."""
RECORDED = json.loads(stable.RECORDED.read_text())
lines = functools.cache(stable.lines)


@pytest.mark.parametrize("subject", RECORDED)
def test_no_promised_feature_was_removed_and_every_new_feature_is_recorded(subject):
    now, then = set(lines()[subject]), set(RECORDED[subject])
    assert sorted(then - now) == [], TAKEN_AWAY
    assert sorted(now - then) == [], NEW


def test_every_subject_is_recorded():
    assert lines().keys() == RECORDED.keys()
    assert all(len(some) > 10 for some in lines().values())


def test_the_recorded_metrics_are_the_documented_metrics():
    names = {line.partition("{")[0] for line in lines()["metrics"]}
    assert names == set.union(*map(monitoring.described, monitoring.ENGINES))
