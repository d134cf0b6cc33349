"""The paths of the database file and of the files next to it."""

import os
import shutil
from pathlib import Path


def real(path: Path) -> Path:
    """Return the absolute path of a file with links resolved; the file need not exist."""
    return Path(os.path.realpath(path))  # Path.resolve() raises on a symbolic link loop


def wal_of(path: Path) -> Path:
    """Return the path of the WAL. If the database is a symbolic link, the WAL is next to its target."""
    file = real(path)
    return file.with_name(file.name + "-wal")


def unfinished(path: Path) -> Path:
    """Return the path of an unfinished copy."""
    file = real(path)
    return file.with_name(file.name + ".unfinished-copy")


def free_disk_bytes(folder: Path) -> int | None:
    """Return the number of free bytes on the disk, or None if the file system does not report its size.

    Some FUSE and overlay file systems report 0 blocks in total, and so 0 free blocks, although files can be written.
    """
    usage = shutil.disk_usage(folder)
    return usage.free if usage.total else None
