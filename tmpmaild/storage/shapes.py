"""How a schema that is not as it should be is told, for every engine: what it consists of, as lines, compared."""

from collections.abc import Sequence


def differences(expected: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return what is missing and what is there besides, in words. A line is a name, ``: `` and what is compared."""
    known, there = set(expected), set(found)
    missing = [f"{line.partition(': ')[0]} is missing or different" for line in expected if line not in there]
    named = {line.partition(": ")[0] for line in expected}
    more = [name for line in found if line not in known and (name := line.partition(": ")[0]) not in named]
    return missing + [f"{name} is new" for name in more]
