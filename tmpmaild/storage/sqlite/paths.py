"""The paths of the database file and of the files next to it."""

import os
from pathlib import Path


def real(path: Path) -> Path:
    """Return the absolute path of the file that links lead to, which need not exist."""
    return Path(os.path.realpath(path))  # Path.resolve() raises where links lead in a circle


def wal_of(path: Path) -> Path:
    """Return where SQLite keeps the WAL: next to the target of a symbolic link."""
    file = real(path)
    return file.with_name(file.name + "-wal")


def unfinished(path: Path) -> Path:
    """Return where a copy is made, before it is complete."""
    file = real(path)
    return file.with_name(file.name + ".unfinished-copy")
