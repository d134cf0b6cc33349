"""The columns of a stored mail: how each is made, which reads select it, and the statement that inserts them.

To add a stored field to a message: a line in ``CONTENT`` and one in ``ListedRow`` or ``FullRow``. All files to touch
are named in ``docs/architecture.md``.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec

from tmpmaild.model import NewMail, Verbatim
from tmpmaild.storage import sessions
from tmpmaild.storage.sqlite.layout import FILLER, padding, stored_bytes

_encode = msgspec.json.Encoder().encode


class Stored(NamedTuple):
    """A mail as it is stored once for all of its recipients."""

    mail: NewMail
    recipients: bytes
    received_at_ms: int


class Column(NamedTuple):
    """A column of ``content``, and how its value is made. Text of any length is charged, numbers are not."""

    name: str
    kind: Literal["number", "text"]
    value: Callable[[Stored], Any]


def _body_at(new: Stored) -> int | None:
    body = new.mail.parsed.body
    return body.start if isinstance(body, Verbatim) else None


def _body_bytes(new: Stored) -> int:
    body = new.mail.parsed.body
    return body.end - body.start if isinstance(body, Verbatim) else _octets(body)


def _body(new: Stored) -> str:
    body = new.mail.parsed.body
    return "" if isinstance(body, Verbatim) else body


def _json(value: object) -> str:
    return _encode(value).decode()


CONTENT = (
    Column("received_at_ms", "number", lambda new: new.received_at_ms),
    Column("size_bytes", "number", lambda new: len(new.mail.raw)),
    Column("body_at", "number", _body_at),
    Column("body_bytes", "number", _body_bytes),
    Column("tls", "number", lambda new: new.mail.envelope.tls),
    Column("sender", "text", lambda new: new.mail.parsed.from_address or new.mail.envelope.sender),
    Column("sender_name", "text", lambda new: new.mail.parsed.from_name),
    Column("subject", "text", lambda new: new.mail.parsed.subject),
    Column("attachments", "text", lambda new: _json(new.mail.parsed.attachments)),
    Column("recipients", "text", lambda new: new.recipients),
    Column("envelope_from", "text", lambda new: new.mail.envelope.sender),
    Column("helo", "text", lambda new: new.mail.envelope.helo),
    Column("remote_ip", "text", lambda new: new.mail.envelope.remote_ip),
    Column("session", "text", lambda new: sessions.encode(new.mail)),
    Column("warnings", "text", lambda new: _json(new.mail.parsed.warnings)),
    Column("headers", "text", lambda new: _json(new.mail.parsed.headers)),
    Column("body", "text", _body),
    Column("html", "text", lambda new: new.mail.parsed.html),
    Column("source", "text", lambda new: new.mail.raw),
)
"""All columns of ``content`` except its id and those that ``layout.py`` decides: stored_bytes, filler and padding."""

_NUMBERS = [column for column in CONTENT if column.kind == "number"]
_TEXTS = [column for column in CONTENT if column.kind == "text"]
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
    *(column.name for column in _NUMBERS),
    "stored_bytes",
    "filler",
    *(column.name for column in _TEXTS),
    "padding",
)
"""The columns of the view ``delivery`` in the order in which ``insert`` takes them."""


def content_columns(mail: NewMail, recipients: bytes, now_ms: int) -> tuple[int, tuple[Any, ...]]:
    """Lay a mail out as the columns that follow ``MessageColumns``; the number is what it will take in the file."""
    new = Stored(mail, recipients, now_ms)
    texts = [value(new) for value in _TEXT_VALUES]
    text_bytes = sum(map(_octets, texts))
    filled_up = padding(text_bytes)
    cost_bytes = stored_bytes(text_bytes + len(filled_up))
    numbers = [value(new) for value in _NUMBER_VALUES]
    return cost_bytes, (*numbers, cost_bytes, FILLER, *texts, filled_up)


def _octets(text: str | bytes | None) -> int:
    if text is None:
        return 0
    return len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode())


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


class ListedRow(NamedTuple):
    """What a list reads of a message, from ``message AS m`` and the view ``readable AS c``."""

    key: int
    recipient: str
    received_at_ms: int
    sender: str
    sender_name: str
    subject: str
    size_bytes: int
    has_html: int
    attachments: str
    body_bytes: int
    body: str | None
    content_key: int


class FullRow(NamedTuple):
    """What is read of one message besides ``ListedRow``, from ``content``."""

    envelope_from: str
    helo: str
    remote_ip: str
    tls: int
    session: str
    headers: str
    warnings: str
    head: bytes
    html: str | None


class SourceRow(NamedTuple):
    """What is read with the source of a message, from ``message AS m`` and ``content AS c``."""

    recipient: str
    received_at_ms: int
    envelope_from: str
    helo: str
    remote_ip: str
    tls: int
    size_bytes: int
    source: bytes | None


_EXPRESSIONS = {
    "key": "m.id",
    "content_key": "c.id",
    "recipient": "CAST(substr(c.recipients, m.recipient_at + 1, m.recipient_bytes) AS TEXT)",
}


def selected(names: Sequence[str], table: str = "c", **expressions: str) -> str:
    """Return what a SELECT reads for the fields of a row: the column of that name, or the given expression."""
    known = _EXPRESSIONS | expressions
    return ", ".join(known.get(name, f"{table}.{name}") for name in names)
