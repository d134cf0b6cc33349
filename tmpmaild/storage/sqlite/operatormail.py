"""Mail as it came, one message at a time; and the operator's inbox, for a process beside the daemon's."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from tmpmaild import ids
from tmpmaild.errors import DatabaseError
from tmpmaild.model import Message, Page, Source
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.sqlite import obstacles
from tmpmaild.storage.sqlite.database import READER_PRAGMAS, check_identity
from tmpmaild.storage.sqlite.keys import message_key
from tmpmaild.storage.sqlite.messages import select_source
from tmpmaild.storage.sqlite.migrate import migrations
from tmpmaild.storage.sqlite.reading import select_page

T = TypeVar("T")

_ALL = 1_000_000
_WHOLE_BYTES = 1 << 62


def operator_messages(connection: sqlite3.Connection) -> tuple[Message, ...]:
    """Read the operator's inbox, newest first, bodies cut."""
    messages, _ = select_page(connection, OPERATOR_INBOX_ID, Page(limit=_ALL, bodies_bytes=0))
    return messages


def operator_message(connection: sqlite3.Connection, message_id: str) -> Message | None:
    """Read one message of the operator's inbox, its body whole."""
    key = message_key(message_id)
    if key is None:
        return None
    page = Page(after=ids.message_id(key - 1), before=ids.message_id(key + 1), limit=1, bodies_bytes=_WHOLE_BYTES)
    messages, _ = select_page(connection, OPERATOR_INBOX_ID, page)
    return messages[0] if messages else None


def operator_source(connection: sqlite3.Connection, message_id: str) -> Source | None:
    """Read the source of one message of the operator's inbox."""
    return select_source(connection, OPERATOR_INBOX_ID, message_id, None)


def look(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """Return what ``read`` returns, called inside one read transaction, whether a daemon uses the database or not.

    Neither the file nor its schema is changed, and no lock is taken that a daemon could wait for. Raises
    ``DatabaseError``.
    """
    _assert_readable(path)
    file = path.resolve()  # the WAL lies beside what a link leads to
    wal = file.with_name(file.name + "-wal")
    while True:
        # Where there is no WAL nobody writes, and "immutable" keeps SQLite from making one in order to read.
        immutable = not wal.exists()
        outcome = _outcome(file, path, read, immutable=immutable)
        if immutable and wal.exists():
            continue  # a daemon has started meanwhile, and may have moved what was read
        if isinstance(outcome, sqlite3.Error):
            raise obstacles.refusal(path, outcome, writing=False) from outcome
        return outcome


def _assert_readable(path: Path) -> None:
    """Say what SQLite would call "unable to open database file"."""
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
