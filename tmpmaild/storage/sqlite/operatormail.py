"""The operator's inbox and a summary, read from the file by another process than the daemon."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from tmpmaild import ids
from tmpmaild.errors import DatabaseError
from tmpmaild.model import Message, Page, Source
from tmpmaild.storage.base import OPERATOR_INBOX_ID, Summary
from tmpmaild.storage.keys import message_key
from tmpmaild.storage.rows import WHOLE_BYTES
from tmpmaild.storage.sqlite import obstacles
from tmpmaild.storage.sqlite.database import READER_PRAGMAS, check_identity, wal_of
from tmpmaild.storage.sqlite.messages import select_source
from tmpmaild.storage.sqlite.migrate import migrations
from tmpmaild.storage.sqlite.reading import select_page

T = TypeVar("T")

_ALL = 1_000_000


class SqliteOperatorMail:
    """``OperatorMail`` in one SQLite file. Made by ``engine.operator_mail``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def messages(self) -> tuple[Message, ...]:
        """See ``OperatorMail``."""
        return look(self._path, lambda connection: _page(connection, Page(limit=_ALL, bodies_bytes=0)))

    def message(self, message_id: str) -> Message | None:
        """See ``OperatorMail``."""
        return look(self._path, partial(_message, message_id=message_id))

    def source(self, message_id: str) -> Source | None:
        """See ``OperatorMail``."""
        return look(self._path, lambda connection: select_source(connection, OPERATOR_INBOX_ID, message_id, None))


def summary(path: Path) -> Summary:
    """Return what the database holds. Raises ``DatabaseError``."""
    return look(path, partial(_summary, path=path))


def _summary(connection: sqlite3.Connection, path: Path) -> Summary:
    (clean_stop,) = connection.execute("SELECT clean_stop FROM daemon").fetchone()
    sql = "SELECT count(*) - 1, coalesce(sum(message_count), 0) FROM inbox WHERE swept = 0"  # the operator's is one
    inboxes, messages = connection.execute(sql).fetchone()
    files = [file for file in (path.resolve(), wal_of(path)) if file.exists()]
    return Summary(bool(clean_stop), inboxes, messages, sum(file.stat().st_size for file in files))


def _page(connection: sqlite3.Connection, page: Page) -> tuple[Message, ...]:
    messages, _ = select_page(connection, OPERATOR_INBOX_ID, page)
    return messages


def _message(connection: sqlite3.Connection, message_id: str) -> Message | None:
    key = message_key(message_id)
    if key is None:
        return None
    page = Page(after=ids.message_id(key - 1), before=ids.message_id(key + 1), limit=1, bodies_bytes=WHOLE_BYTES)
    messages = _page(connection, page)
    return messages[0] if messages else None


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
    uri = f"{file.as_uri()}?mode=ro&immutable={int(immutable)}"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        for statement in READER_PRAGMAS:
            connection.execute(statement)
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
