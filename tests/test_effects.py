"""Each new key, command, metric or API member has a test of its effect, which fails without that effect.

``tests/effects.json`` names these tests, and ``tests/system/test_effects.py`` runs each test without its feature, so it
is not enough for a test to mention the feature. The file also lists the features that are older than this rule; entries
may only be removed from that list.
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
EFFECTS = json.loads((ROOT / "tests/effects.json").read_text())
MOST_WITHOUT = 210
"""The number without such a test when the rule was introduced; it may be lowered, but never raised."""


def things():
    """Yield each recorded key, command, metric and member that is visible to users."""
    recorded = json.loads((ROOT / "tests/stable.json").read_text())
    yield from (f"configuration {line.partition(':')[0]}" for line in recorded["configuration"])
    yield from {f"commands {line.split()[0]}" for line in recorded["commands"]}
    yield from (f"metrics {line.partition('{')[0]}" for line in recorded["metrics"] if line.startswith("tmpmaild_"))
    members = (line.partition(":")[0].rstrip("?") for line in recorded["api"] if "." in line.partition(":")[0])
    yield from (f"api {member}" for member in members if " " not in member)


def test_every_new_feature_has_a_test_of_its_effect():
    """If this fails, add the feature and the name of its test to tests/effects.json.

    The test must use a daemon or a command, not objects that it configures itself.
    """
    known = EFFECTS["shown"].keys() | set(EFFECTS["before"])
    assert [thing for thing in things() if thing not in known] == []
    assert sorted(known - set(things())) == [], "these no longer exist: remove them from tests/effects.json"
    assert len(EFFECTS["before"]) <= MOST_WITHOUT
    assert EFFECTS["shown"].keys() & set(EFFECTS["before"]) == set()


def test_every_listed_test_exists():
    for thing, test in EFFECTS["shown"].items():
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), thing
