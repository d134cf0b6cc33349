"""The steps of a schema, numbered SQL files that each engine applies in its own way; and how a difference is told."""

import logging
from collections.abc import Sequence
from pathlib import Path

import tmpmaild
from tmpmaild.errors import DatabaseError

log = logging.getLogger(__name__)


def steps_in(folder: str) -> dict[int, Path]:
    """Return the steps in a folder by number, 1 first. They are in the package in a wheel, next to it in a checkout."""
    package = Path(tmpmaild.__file__).parent
    for place in (package / folder, package.parent / folder):
        steps = {int(file.name[:4]): file for file in sorted(place.glob("[0-9][0-9][0-9][0-9]_*.sql"))}
        if steps:
            return steps
    raise DatabaseError(f"no migrations found in or next to {package}; the installation is incomplete")


def tell(storage: object, applied: Sequence[str]) -> None:
    """Log which steps a start has applied to a storage that was older; nothing of a new one."""
    if applied and not applied[0].startswith("0001"):
        log.info("%s: the schema was brought up to date: %s", storage, ", ".join(applied))


def differences(expected: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return what is missing and what is there besides, in words. A line is a name, ``: `` and what is compared."""
    known, there = set(expected), set(found)
    missing = [f"{line.partition(': ')[0]} is missing or different" for line in expected if line not in there]
    named = {line.partition(": ")[0] for line in expected}
    more = [name for line in found if line not in known and (name := line.partition(": ")[0]) not in named]
    return missing + [f"{name} is new" for name in more]
