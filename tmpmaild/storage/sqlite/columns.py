"""How a stored mail is laid out in SQLite: which columns its row has besides ``CONTENT``, and how rows are inserted."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from tmpmaild.model import NewMail
from tmpmaild.storage.columns import CONTENT, octets
from tmpmaild.storage.sqlite.layout import FILLER, padding, stored_bytes

_NUMBERS = [column for column in CONTENT if column.is_number]
_TEXTS = [column for column in CONTENT if not column.is_number]
_NUMBER_VALUES = tuple(column.value for column in _NUMBERS)
_TEXT_VALUES = tuple(column.value for column in _TEXTS)


class MessageColumns(NamedTuple):
    """The columns of ``message``: one row an inbox. The first message of a transaction has the id of the content."""

    id: int
    inbox_id: int
    content_id: int
    recipient_at: int
    recipient_bytes: int


INSERTED = (
    *MessageColumns._fields,
    "received_at_ms",
    *(column.name for column in _NUMBERS),
    "stored_bytes",
    "filler",
    "recipients",
    *(column.name for column in _TEXTS),
    "padding",
)
"""The columns of the view ``delivery`` in the order in which ``insert`` takes them."""


def content_columns(mail: NewMail, recipients: bytes, now_ms: int) -> tuple[int, tuple[Any, ...]]:
    """Lay a mail out as the columns that follow ``MessageColumns``; the number is what it will take in the file."""
    texts = [recipients, *[value(mail) for value in _TEXT_VALUES]]
    text_bytes = sum(map(_octets, texts))
    filled_up = padding(text_bytes)
    cost_bytes = stored_bytes(text_bytes + len(filled_up))
    numbers = [value(mail) for value in _NUMBER_VALUES]
    return cost_bytes, (now_ms, *numbers, cost_bytes, FILLER, *texts, filled_up)


def _octets(text: str | bytes | None) -> int:
    if text is None:
        return 0
    return len(text) if isinstance(text, bytes) else octets(text)


# SQLite keeps the values that a cached statement was last given. With a statement for each number of rows, the mail of
# 64 batches would stay in memory. So there are few statements, and the rows that a batch does not fill are NULL, which
# the triggers of the view ignore.
_SIZES = (1, 4, 16, 32, 64)
MAX_ROWS = _SIZES[-1]
"""How many rows one statement inserts at most."""

_NO_ROW = (None,) * len(INSERTED)


def insert(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows into the view ``delivery``."""
    for start in range(0, len(rows), MAX_ROWS):
        part = rows[start : start + MAX_ROWS]
        size = next(size for size in _SIZES if size >= len(part))
        _execute(connection, [*part, *[_NO_ROW] * (size - len(part))])


def forget_values(connection: sqlite3.Connection) -> None:
    """Free the mail that the statements were last given."""
    for size in _SIZES:
        _execute(connection, [_NO_ROW] * size)


def _execute(connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    # executemany() with one row of values: execute() would release the GIL once more to ask for the last rowid.
    connection.executemany(_insert_sql(len(rows)), [tuple(chain.from_iterable(rows))])


@lru_cache
def _insert_sql(rows: int) -> str:
    one = f"({','.join('?' * len(INSERTED))})"
    return f"INSERT INTO delivery ({', '.join(INSERTED)}) VALUES {','.join([one] * rows)}"


_EXPRESSIONS = {
    "key": "m.id",
    "recipient": "CAST(substr(c.recipients, m.recipient_at + 1, m.recipient_bytes) AS TEXT)",
}


def selected(names: Sequence[str], table: str = "c", **expressions: str) -> str:
    """Return what a SELECT reads for the fields of a row: the column of that name, or the given expression."""
    known = _EXPRESSIONS | expressions
    return ", ".join(known.get(name, f"{table}.{name}") for name in names)
