"""Checks a database file before it is changed: its application id, version, schema and pages."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tmpmaild.errors import DatabaseError, DatabaseRefused
from tmpmaild.storage.sqlite.errors import altered, damaged, found_on_disk, refusal
from tmpmaild.storage.sqlite.opening import APPLICATION_ID, open_to_read
from tmpmaild.storage.sqlite.paths import wal_of


def check(
    path: Path, newest_version: int, difference: Callable[[sqlite3.Connection, int], str], *, pages: bool = True
) -> None:
    """Check, without changing the file, that it is an undamaged tmpmaild database that is not too new.

    ``difference`` returns a difference between the database's schema and the schema expected for its version, or "". An
    empty or missing file is accepted. The whole file is read only after an unclean stop, and only if ``pages`` is set.
    Raises ``DatabaseError``.
    """
    try:
        if not path.exists() or path.stat().st_size == 0:
            return
        with closing(open_to_read(path, immutable=not wal_of(path).exists())) as connection:
            version = check_identity(connection, path, newest_version)
            if what := difference(connection, version):
                raise DatabaseRefused(altered(path, what))
            if pages:
                _check_pages(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise refusal(path, error) from error


def assert_writable(path: Path) -> None:
    """Raise ``DatabaseError`` if this process may not write to the database or the files next to it."""
    if found := found_on_disk(path, os.R_OK | os.W_OK):
        raise DatabaseError(found)


def check_identity(connection: sqlite3.Connection, path: Path, newest_version: int) -> int:
    """Return the schema version. Raises ``DatabaseError`` if the file is not a tmpmaild database or is too new."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application_id != APPLICATION_ID:
        raise DatabaseRefused(f"{path}: a database created by another program")
    if version > newest_version:
        raise DatabaseRefused(
            f"{path}: schema version {version} is newer than this tmpmaild supports ({newest_version});"
            " upgrade tmpmaild"
        )
    return int(version)


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    has_flag = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'daemon'").fetchone()
    if has_flag and connection.execute("SELECT clean_stop FROM daemon").fetchone() == (1,):
        return
    if path.stat().st_nlink > 1 and not wal_of(path).exists():
        # SQLite derives the WAL's name from the name used to open the database, so the WAL of a different name may
        # contain mail.
        raise DatabaseRefused(
            f"{path}: has {path.stat().st_nlink} names (hard links), was not closed properly, and"
            f" {wal_of(path).name} is missing: start the service with the name that has a -wal file"
        )
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise DatabaseRefused(damaged(path, verdict.splitlines()[-1]))
