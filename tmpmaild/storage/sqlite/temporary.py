"""A database for one run of the daemon: made new, and deleted at the end."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.sqlite import database


@contextmanager
def temporary(path: Path) -> Iterator[None]:
    """Create an empty file for the database; delete it in the end, and its folder if nothing else is in that.

    Raises ``DatabaseError`` if it is there already: nothing is deleted that was not made here.
    """
    try:
        database.create_new(path)
    except FileExistsError:
        raise DatabaseError(f"{path}: is there already, and would be deleted at the end; name another file") from None
    try:
        yield
    finally:
        _delete(path)


def _delete(path: Path) -> None:
    with suppress(DatabaseError, OSError), database.lock(path):  # in use by another daemon, or gone already
        for end in ("-wal", "-shm", ".lock", ""):
            path.with_name(path.name + end).unlink(missing_ok=True)
        path.absolute().parent.rmdir()
