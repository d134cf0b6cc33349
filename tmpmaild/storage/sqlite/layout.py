"""How mail is laid out in the tables, so that deleting it leaves no copy behind, and how its rows are inserted.

``secure_delete`` zeroes what is deleted in place. But when deletes leave a b-tree page two thirds empty, SQLite moves
the neighbouring rows to fewer pages, and copies of earlier rows stay in the unused parts of rewritten pages: after half
of 20,000 mixed mails had expired, 25 of them could still be read in the file. Overflow pages are never merged or split,
are copied within the file only as a whole, and are zeroed when freed. So a row with text begins with a filler as long
as the part of the row that is in the b-tree page, and all text is in overflow pages.

The numbers are those of the file format (https://www.sqlite.org/fileformat2.html#b_tree_pages, "payload"): of a
row of P octets, with U octets usable in a page, the b-tree page holds K = M + (P - M) mod (U - 4) octets if that
is at most U - 35, else M.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from tmpmaild.model import NewMail
from tmpmaild.storage.rows import CONTENT, Column

PAGE_BYTES = 4096
LOCAL_BYTES = (PAGE_BYTES - 12) * 32 // 255 - 23  # M: 489
OVERFLOW_BYTES = PAGE_BYTES - 4
FILLER = bytes(LOCAL_BYTES)

# In the last 519 octets before the overflow pages are exactly full, K is above U - 35, so the page holds M octets. The
# header and the numbers of a row are not counted; they take between 30 and 120 octets.
_AIM_BYTES = OVERFLOW_BYTES - 300

# What a mail takes in b-trees: some 490 octets in a page of content, which deleting may leave two thirds empty before
# SQLite merges it with its neighbours, and the rows of the message and of its indexes.
_ROW_BYTES = 1536
_POINTER_BYTES = 5  # for each page, in the pointer map of a file with auto_vacuum
_PAGE_COST_BYTES = PAGE_BYTES + _POINTER_BYTES

LEAST_STORED_BYTES = _ROW_BYTES + _PAGE_COST_BYTES
"""What the smallest mail takes in the file."""

SLOTS = 12
SLOT_BYTES = 320  # a local part of 64, an @, a domain of 253
EMPTY_SLOTS = b" " * (SLOTS * SLOT_BYTES)


def padding_bytes(text_bytes: int) -> int:
    """Return how much padding a row of a filler and that much text needs to have ``LOCAL_BYTES`` in the b-tree page."""
    return (_AIM_BYTES - text_bytes) % OVERFLOW_BYTES


def stored_bytes(padded_bytes: int) -> int:
    """Return what a row with that much text and padding takes in the file at most, with its messages and indexes."""
    overflow_pages = padded_bytes // OVERFLOW_BYTES + 1
    return _ROW_BYTES + overflow_pages * _PAGE_COST_BYTES


def slot(inbox_id: int) -> tuple[int, int]:
    """Return the row and the offset of the address of an inbox: twelve share an overflow page."""
    return inbox_id // SLOTS, inbox_id % SLOTS * SLOT_BYTES


# sqlite3 first looks for an adapter of what is not a number, a str or a bytearray, in vain and at length.
_COPIED_BYTES = 64 * 1024


def _blob(octets: bytes) -> bytes | bytearray:
    """Return octets as they are bound fastest: to copy a small mail costs less than the look for an adapter."""
    return bytearray(octets) if len(octets) <= _COPIED_BYTES else octets


def _bound(column: Column) -> Callable[[NewMail], Any]:
    return (lambda mail: _blob(column.value(mail))) if column.kind == "bytea" else column.value


_NUMBERS = [column for column in CONTENT if column.is_number]
_TEXTS = [column for column in CONTENT if not column.is_number]
_NUMBER_VALUES = tuple(column.value for column in _NUMBERS)
_TEXT_VALUES = tuple(_bound(column) for column in _TEXTS)


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
"""The columns of the view ``delivery``; ``insert`` takes all but the filler, and for the padding how long it is."""


def content_columns(mail: NewMail, recipients: bytes, now_ms: int) -> tuple[int, tuple[Any, ...]]:
    """Lay a mail out as the columns that follow ``MessageColumns``; the number is what it will take in the file."""
    texts = [_blob(recipients), *[value(mail) for value in _TEXT_VALUES]]
    text_bytes = _octets(texts)
    filled_up_bytes = padding_bytes(text_bytes)
    cost_bytes = stored_bytes(text_bytes + filled_up_bytes)
    numbers = [value(mail) for value in _NUMBER_VALUES]
    return cost_bytes, (now_ms, *numbers, cost_bytes, *texts, filled_up_bytes)


def _octets(texts: Iterable[str | bytes | bytearray | None]) -> int:
    size_bytes = 0
    for one in texts:
        if one:
            size_bytes += len(one) if type(one) is not str or one.isascii() else len(one.encode())
    return size_bytes


# SQLite keeps the values that a cached statement was last given. With a statement for each number of rows, the mail of
# 64 batches would stay in memory. So there are few statements, and the rows that a batch does not fill have no
# content_id, so that the triggers of the view ignore them. All else is a number, which is bound faster than NULL.
_SIZES = (1, 2, 4, 8, 16, 32, 64)
MAX_ROWS = _SIZES[-1]
"""How many rows one statement inserts at most."""

_MARKS = {"filler": f"zeroblob({LOCAL_BYTES})", "padding": "zeroblob(?)"}
_ROW = ",".join(_MARKS.get(name, "?") for name in INSERTED)
_NO_ROW = (0, 0, None, *[0] * (_ROW.count("?") - 3))
NO_CONTENT = (0,) * (_ROW.count("?") - len(MessageColumns._fields))
"""What follows ``MessageColumns`` in the row of a second or further recipient."""


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
    return f"INSERT INTO delivery ({', '.join(INSERTED)}) VALUES {','.join([f'({_ROW})'] * rows)}"


_EXPRESSIONS = {
    "key": "m.id",
    "recipient": "CAST(substr(c.recipients, m.recipient_at + 1, m.recipient_bytes) AS TEXT)",
    "authentication": "(SELECT v.authentication FROM verdict AS v WHERE v.id = m.id)",
}


def selected(names: Sequence[str], table: str = "c", **expressions: str) -> str:
    """Return what a SELECT reads for the fields of a row: the column of that name, or the given expression."""
    known = _EXPRESSIONS | expressions
    return ", ".join(known.get(name, f"{table}.{name}") for name in names)
