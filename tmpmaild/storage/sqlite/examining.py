"""What another process than the daemon reads from the file: the operator's inbox and a summary. Nothing is changed."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.base import ANY_SIZE, OPERATOR_INBOX_ID, Summary
from tmpmaild.storage.operatormail import OperatorMail
from tmpmaild.storage.settings import SqliteSettings
from tmpmaild.storage.sqlite import obstacles
from tmpmaild.storage.sqlite.database import check_identity, open_to_read, wal_of
from tmpmaild.storage.sqlite.messages import select_source
from tmpmaild.storage.sqlite.migrate import migrations
from tmpmaild.storage.sqlite.reading import select_page

T = TypeVar("T")


def operator_mail(settings: SqliteSettings) -> OperatorMail:
    """Return the operator's inbox in a database that a daemon may be using; each method opens the file to read it."""
    inbox_id, path = OPERATOR_INBOX_ID, settings.path
    return OperatorMail(
        lambda page: look(path, lambda connection: select_page(connection, inbox_id, page)[0]),
        lambda message_id: look(path, lambda connection: select_source(connection, inbox_id, message_id, ANY_SIZE)),
    )


def summary(settings: SqliteSettings) -> Summary:
    """Return what the database holds. Raises ``DatabaseError``."""
    return look(settings.path, partial(_summary, path=settings.path))


def _summary(connection: sqlite3.Connection, path: Path) -> Summary:
    (clean_stop,) = connection.execute("SELECT clean_stop FROM daemon").fetchone()
    sql = "SELECT count(*) - 1, coalesce(sum(message_count), 0) FROM inbox WHERE swept = 0"  # the operator's is one
    inboxes, messages = connection.execute(sql).fetchone()
    files = [file for file in (path.resolve(), wal_of(path)) if file.exists()]
    return Summary(bool(clean_stop), inboxes, messages, sum(file.stat().st_size for file in files))


def look(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """Call ``read`` inside one read transaction and return its result; a daemon may be using the database or not.

    Neither the file nor its schema is changed, and no lock is taken that a daemon could wait for. Raises
    ``DatabaseError``.
    """
    _assert_readable(path)
    file, wal = path.resolve(), wal_of(path)
    while True:
        # Without a WAL no process is writing, and "immutable" keeps SQLite from creating one in order to read.
        immutable = not wal.exists()
        outcome = _outcome(file, path, read, immutable=immutable)
        if immutable and wal.exists():
            continue  # a daemon has started meanwhile and may have changed pages while they were read
        if isinstance(outcome, sqlite3.Error):
            raise obstacles.refusal(path, outcome, writing=False) from outcome
        return outcome


def _assert_readable(path: Path) -> None:
    """Raise an error that tells the reason; SQLite would only say "unable to open database file"."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise obstacles.refusal(path, error, writing=False) from error


def _outcome(file: Path, path: Path, read: Callable[[sqlite3.Connection], T], *, immutable: bool) -> T | sqlite3.Error:
    try:
        return _read(file, path, read, immutable=immutable)
    except sqlite3.Error as error:
        return error


def _read(file: Path, path: Path, read: Callable[[sqlite3.Connection], T], *, immutable: bool) -> T:
    with closing(open_to_read(file, immutable=immutable)) as connection:
        connection.execute("BEGIN")
        _check_version(connection, path)
        return read(connection)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    newest = max(migrations())
    version = check_identity(connection, path, newest)
    if version < newest:
        raise DatabaseError(
            f"{path}: schema version {version} is older than this tmpmaild's ({newest}); run tmpmaild migrate"
        )
