"""A new key, command, metric or member of the API has a test that looks at its effect: it fails without that effect.

``tests/effects.json`` names the test of each; ``tests/system/test_effects.py`` runs it with the thing taken away, so a test that
only mentions it does not count. What was there before this rule is listed there as well, and is only ever struck out.
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
EFFECTS = json.loads((ROOT / "tests/effects.json").read_text())
MOST_WITHOUT = 210
"""So many had no test of this kind when the rule was made; a smaller number may be written here, never a larger one."""


def things():
    """Return each key, command, metric and member that users see, of the recorded names."""
    recorded = json.loads((ROOT / "tests/stable.json").read_text())
    yield from (f"configuration {line.partition(':')[0]}" for line in recorded["configuration"])
    yield from {f"commands {line.split()[0]}" for line in recorded["commands"]}
    yield from (f"metrics {line.partition('{')[0]}" for line in recorded["metrics"] if line.startswith("tmpmaild_"))
    members = (line.partition(":")[0].rstrip("?") for line in recorded["api"] if "." in line.partition(":")[0])
    yield from (f"api {member}" for member in members if " " not in member)


def test_every_new_thing_has_a_test_of_its_effect():
    """Name one in tests/effects.json; it has to be at a daemon or a command, not at parts that get what is set otherwise."""
    known = EFFECTS["shown"].keys() | set(EFFECTS["before"])
    assert [thing for thing in things() if thing not in known] == []
    assert sorted(known - set(things())) == [], "these are gone: strike them out"
    assert len(EFFECTS["before"]) <= MOST_WITHOUT
    assert EFFECTS["shown"].keys() & set(EFFECTS["before"]) == set()


def test_every_test_that_is_named_exists():
    for thing, test in EFFECTS["shown"].items():
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), thing
