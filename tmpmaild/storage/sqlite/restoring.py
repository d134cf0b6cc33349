"""Restores a copy made by ``tmpmaild backup`` to a path where the database is missing, or is empty and not in use."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from tmpmaild.errors import DatabaseError
from tmpmaild.model import counted
from tmpmaild.storage.sqlite import checking, engine, errors, opening
from tmpmaild.storage.sqlite.copies import remove_unfinished
from tmpmaild.storage.sqlite.paths import real, unfinished, wal_of

_BEGINNING = b"SQLite format 3\0"


class Restored(Struct, frozen=True):
    """The contents of a copy, including expired inboxes and messages that have not been swept yet."""

    inboxes: int
    messages: int

    def __str__(self) -> str:
        return f"{counted(self.inboxes, 'inbox', 'inboxes')} and {counted(self.messages, 'message')}"


def restore(copy: Path, path: Path) -> Restored:
    """Restore ``copy`` as the database at ``path``. If it raises ``DatabaseError``, ``path`` is unchanged.

    ``path`` may already contain a database without inboxes and messages, such as the one created by the first start.
    """
    with opening.lock(path):
        _expect_nothing(path)
        found = _checked(copy)
        target, file = unfinished(path), real(path)
        remove_unfinished(path)
        try:
            _write(copy, target)
            # SQLite would apply the old database's journal or WAL to the restored database.
            for end in ("-wal", "-shm", "-journal"):
                file.with_name(file.name + end).unlink(missing_ok=True)
            target.replace(file)
            _sync(file.parent)
        except OSError as error:
            remove_unfinished(path)
            raise errors.refusal(path, error) from error
    return found


def _expect_nothing(path: Path) -> None:
    if not path.exists() or path.stat().st_size == 0:
        return
    name = real(path).name
    away = f"move {name}, {name}-wal and {name}-shm away together, and restore again"
    try:
        found = engine.read_database(path, _count)
    except DatabaseError as error:
        raise DatabaseError(f"{error}\n{path}: already exists; {away}") from error
    if found.inboxes or found.messages:
        raise DatabaseError(f"{path}: holds {found}; {away}")


def _checked(copy: Path) -> Restored:
    """Check a copy completely, and return its contents. Raises ``DatabaseError``."""
    try:
        with copy.open("rb") as file:
            beginning = file.read(len(_BEGINNING))
        if beginning != _BEGINNING:
            raise DatabaseError(f"{copy}: not a copy made by tmpmaild backup")
        if wal_of(copy).exists() and wal_of(copy).stat().st_size:
            raise DatabaseError(
                f"{copy}: part of its data is in {wal_of(copy).name}; use a copy made by tmpmaild backup"
            )
        with closing(opening.open_to_read(copy, immutable=True)) as connection:
            return _read(copy, connection)
    except OSError as error:
        raise DatabaseError(f"{copy}: cannot be read: {error.strerror}") from error
    except sqlite3.Error as error:
        raise DatabaseError(f"{copy}: damaged ({error}); restore a different copy") from error


def _read(copy: Path, connection: sqlite3.Connection) -> Restored:
    version = checking.check_identity(connection, copy, max(engine.migrations()))
    if not version:
        raise DatabaseError(f"{copy}: not a copy made by tmpmaild backup")
    if what := engine.difference(connection, version):
        raise DatabaseError(f"{copy}: the schema has been changed by hand: {what}; restore a different copy")
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise DatabaseError(f"{copy}: damaged ({verdict.splitlines()[-1]}); restore a different copy")
    return _count(connection)


def _count(connection: sqlite3.Connection) -> Restored:
    # The operator's inbox is not counted.
    sql = "SELECT count(*) - 1, coalesce(sum(message_count), 0) FROM inbox WHERE swept = 0"
    return Restored(*connection.execute(sql).fetchone())


def _write(copy: Path, target: Path) -> None:
    opening.create_new(target)
    with copy.open("rb") as source, target.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
