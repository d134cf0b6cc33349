"""A database for one run of the daemon: made new, and deleted at the end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.sqlite import database, obstacles


@contextmanager
def temporary(path: Path) -> Iterator[None]:
    """Create an empty file for the database; delete it in the end, and its folder if nothing else is in that.

    Raises ``DatabaseError`` if it is there already: nothing is deleted that was not made here.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise DatabaseError(f"{path}: is there already, and would be deleted at the end; name another file") from None
    except OSError as error:
        raise obstacles.refusal(path, error) from error
    try:
        yield
    finally:
        _delete(path)


def _delete(path: Path) -> None:
    with suppress(DatabaseError, OSError), database.lock(path):  # in use by another daemon, or gone already
        for end in ("-wal", "-shm", ".lock", ""):
            path.with_name(path.name + end).unlink(missing_ok=True)
        path.absolute().parent.rmdir()
