"""Finds the steps of a schema: numbered SQL files. Each engine applies them in its own way."""

from pathlib import Path

import tmpmaild
from tmpmaild.errors import DatabaseError


def steps_in(folder: str) -> dict[int, Path]:
    """Return the steps in a folder by number, 1 first. They are in the package in a wheel, next to it in a checkout."""
    package = Path(tmpmaild.__file__).parent
    for place in (package / folder, package.parent / folder):
        steps = {int(file.name[:4]): file for file in sorted(place.glob("[0-9][0-9][0-9][0-9]_*.sql"))}
        if steps:
            return steps
    raise DatabaseError(f"no migrations found in or next to {package}; the installation is incomplete")
