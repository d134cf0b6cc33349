"""Inserts messages in a table layout that leaves no copies of deleted messages in the file.

``secure_delete`` zeroes deleted data in place. However, when deletions leave a b-tree page two thirds empty, SQLite
moves the neighbouring rows to fewer pages, and copies of earlier rows remain in the unused parts of rewritten pages. In
a test with 20,000 mixed messages, half of which had expired, 25 expired messages could still be read in the file.
Overflow pages are never merged or split, are copied within the file only as whole pages, and are zeroed when freed. A
row with text therefore starts with a filler that is as long as the part of the row that the b-tree page stores, so that
all text is in overflow pages.

The sizes follow the file format (https://www.sqlite.org/fileformat2.html#b_tree_pages, "payload"): for a row of P bytes
and U usable bytes per page, the b-tree page holds K = M + (P - M) mod (U - 4) bytes if K is at most U - 35, else M.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tmpmaild.model import InboxChange, NewMail
from tmpmaild.storage.base import NO_LIMIT, OPERATOR_INBOX_ID, Limits
from tmpmaild.storage.keys import InboxKey, MessageKey
from tmpmaild.storage.operatorbox import OPERATOR_MAX_BYTES, OPERATOR_MAX_MESSAGES
from tmpmaild.storage.rows import CONTENT, Value

PAGE_BYTES = 4096
LOCAL_BYTES = (PAGE_BYTES - 12) * 32 // 255 - 23  # M: 489
OVERFLOW_BYTES = PAGE_BYTES - 4
FILLER = bytes(LOCAL_BYTES)
SLOTS = 12
SLOT_BYTES = 320  # at least 64 (local part) + 1 (@) + 253 (domain)
EMPTY_SLOTS = b" " * (SLOTS * SLOT_BYTES)

# If a row ends in the last 519 bytes of an overflow page, K is above U - 35, so the b-tree page holds M bytes. The
# header and the numbers of a row are not counted; they take between 30 and 120 bytes.
_AIM_BYTES = OVERFLOW_BYTES - 300

# The space that a message occupies in b-trees: about 490 bytes in a page of ``content``, which may become two thirds
# empty before SQLite merges it with its neighbours, and the rows of ``message`` and its indexes.
_ROW_BYTES = 1536
_POINTER_BYTES = 5  # the size of a page's entry in the pointer map, which auto_vacuum requires
_PAGE_COST_BYTES = PAGE_BYTES + _POINTER_BYTES

MIN_STORED_BYTES = _ROW_BYTES + _PAGE_COST_BYTES
"""The space that the smallest message occupies in the file."""
# For any value that is not a number, a str or a bytearray, sqlite3 first searches for an adapter. That is slow: copying
# the bytes of a small message to a bytearray is faster.
_COPIED_BYTES = 64 * 1024
_MAX_INBOXES = 10_000

# SQLite keeps the last values bound to a cached statement. With a separate statement for every number of rows, the
# messages of 64 batches would stay in memory, so only a few sizes are used. The rows that a batch does not fill have no
# content_id, so the triggers of the view ignore them. Their other values are 0, which is bound faster than NULL.
_SIZES = (1, 2, 4, 8, 16, 32, 64)
MAX_ROWS = _SIZES[-1]
"""The maximum number of rows that one statement inserts."""
_NUMBERS = [column for column in CONTENT if column.is_number]
_TEXTS = [column for column in CONTENT if not column.is_number]
_NUMBER_VALUES = tuple(column.value for column in _NUMBERS)
_TEXT_VALUES = tuple(column.value for column in _TEXTS)
Row = tuple[Value | bytearray, ...]
"""The values of a row to insert."""
_EXPRESSIONS = {
    "key": "m.id",
    "recipient": "CAST(substr(c.recipients, m.recipient_at + 1, m.recipient_bytes) AS TEXT)",
    "authentication": "(SELECT v.authentication FROM verdict AS v WHERE v.id = m.id)",
}

# Returns one row for any number of inboxes, because sqlite3 releases and acquires the GIL for each row. The plus
# prevents SQLite from using the index on ``swept``, which would scan all live inboxes.
_INBOXES = """
SELECT json_group_array(json_array(i.id, i.expires_at_ms, i.message_count, i.stored_bytes, hex(i.creator),
                                   coalesce(c.stored_bytes, 0)))
FROM inbox AS i LEFT JOIN creator AS c ON c.hash = i.creator
WHERE +i.swept = 0 AND i.id IN ({marks})
"""
_decode = msgspec.json.Decoder(list[tuple[int, int, int, int, str, int]]).decode


def padding_bytes(text_bytes: int) -> int:
    """Return the padding that a row with a filler and this text needs to keep ``LOCAL_BYTES`` in the b-tree page."""
    return (_AIM_BYTES - text_bytes) % OVERFLOW_BYTES


def stored_bytes(padded_bytes: int) -> int:
    """Return the maximum file space for a row with this much text and padding, including message rows and indexes."""
    overflow_pages = padded_bytes // OVERFLOW_BYTES + 1
    return _ROW_BYTES + overflow_pages * _PAGE_COST_BYTES


def address_place(inbox_key: InboxKey) -> tuple[int, int]:
    """Return the row and the offset of an inbox's address: twelve addresses share an overflow page."""
    return inbox_key // SLOTS, inbox_key % SLOTS * SLOT_BYTES


class MessageColumns(NamedTuple):
    """The columns of ``message``, which has a row for each inbox.

    Among the rows that share a content, the first row has the same id as the content.
    """

    id: MessageKey
    inbox_id: InboxKey
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
"""The columns of the view ``delivery``. Rows for ``insert`` omit the filler, and contain only the padding's length."""


def content_columns(mail: NewMail, recipients: bytes, now_ms: int) -> tuple[int, Row]:
    """Return the size of a message in the file, and the values of the columns that follow ``MessageColumns``."""
    text_bytes = len(recipients)
    texts: list[Value | bytearray] = [bytearray(recipients)]
    for value in _TEXT_VALUES:
        text: Value | bytearray = value(mail)
        if isinstance(text, str):
            text_bytes += len(text) if text.isascii() else len(text.encode())
        elif isinstance(text, bytes):
            text_bytes += len(text)
            text = bytearray(text) if len(text) <= _COPIED_BYTES else text
        texts.append(text)
    filled_up_bytes = padding_bytes(text_bytes)
    cost_bytes = stored_bytes(text_bytes + filled_up_bytes)
    numbers = [value(mail) for value in _NUMBER_VALUES]
    return cost_bytes, (now_ms, *numbers, cost_bytes, *texts, filled_up_bytes)


_MARKS = {"filler": f"zeroblob({LOCAL_BYTES})", "padding": "zeroblob(?)"}
_ROW = ",".join(_MARKS.get(name, "?") for name in INSERTED)
_NO_ROW = (0, 0, None, *[0] * (_ROW.count("?") - 3))
NO_CONTENT = (0,) * (_ROW.count("?") - len(MessageColumns._fields))
"""The values that follow ``MessageColumns`` in all of a message's rows except the first."""


def insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert rows into the view ``delivery``."""
    for start in range(0, len(rows), MAX_ROWS):
        part = rows[start : start + MAX_ROWS]
        size = _SIZES[bisect_left(_SIZES, len(part))]
        _execute(connection, [*part, *[_NO_ROW] * (size - len(part))])


def forget_values(connection: sqlite3.Connection) -> None:
    """Release the messages that are still bound to the statements."""
    for size in _SIZES:
        _execute(connection, [_NO_ROW] * size)


def _execute(connection: sqlite3.Connection, rows: list[Row]) -> None:
    # Uses executemany() with one row of values, because execute() would release the GIL once more to read the last
    # rowid.
    connection.executemany(_insert_sql(len(rows)), [tuple(chain.from_iterable(rows))])


@lru_cache
def _insert_sql(rows: int) -> str:
    return f"INSERT INTO delivery ({', '.join(INSERTED)}) VALUES {','.join([f'({_ROW})'] * rows)}"


def selected(names: Sequence[str], table: str = "c", **expressions: str) -> str:
    """Return the column list of a SELECT; each field of the row is either a column or the given expression."""
    known = _EXPRESSIONS | expressions
    return ", ".join(known.get(name, f"{table}.{name}") for name in names)


class _Quota:
    """The usage and the limits of an inbox, or of all inboxes of a creator."""

    __slots__ = ("max_bytes", "max_messages", "messages", "stored_bytes")

    def __init__(self, messages: int, stored_bytes: int, max_messages: int, max_bytes: int) -> None:
        self.messages = messages
        self.stored_bytes = stored_bytes
        self.max_messages = max_messages
        self.max_bytes = max_bytes

    def add(self, messages: int, cost_bytes: int) -> bool:
        """Add to the usage, or subtract from it; return whether the result is within the limits."""
        self.messages += messages
        self.stored_bytes += cost_bytes
        return self.messages <= self.max_messages and self.stored_bytes <= self.max_bytes

    @property
    def full(self) -> bool:
        return self.messages >= self.max_messages or self.stored_bytes + MIN_STORED_BYTES > self.max_bytes


class _Inbox(Struct):
    """An inbox's state when it was read, updated with the messages that later batches have added."""

    expires_at_ms: int
    quotas: tuple[_Quota, ...]


class InboxQuotas:
    """Caches the quotas of inboxes that receive mail; used only in the writer's thread.

    Quotas are cached across batches, because reading them releases the GIL four times. There is only one writer.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._now_ms = 0
        self._inboxes: dict[str, _Inbox] = {}
        self._creators: dict[str, _Quota] = {}
        self._changed: set[str] = set()

    def load(self, connection: sqlite3.Connection, now_ms: int, inbox_ids: Collection[str]) -> None:
        """Start a batch that delivers to these inboxes, and read the quotas that are not cached."""
        if len(self._inboxes) > _MAX_INBOXES:
            self.forget()
        self._now_ms = now_ms
        self._changed.clear()
        unknown = [int(inbox_id) for inbox_id in inbox_ids if inbox_id not in self._inboxes]
        if unknown:
            self._read(connection, unknown)

    def forget(self) -> None:
        """Clear the cache, because the tables were changed without ``charge``."""
        self._inboxes.clear()
        self._creators.clear()

    def _read(self, connection: sqlite3.Connection, keys: list[int]) -> None:
        sql = _INBOXES.format(marks=",".join("?" * len(keys)))
        (found,) = connection.execute(sql, keys).fetchone()
        for key, expires_at_ms, messages, stored_bytes, creator, creator_bytes in _decode(found):
            inbox_id = str(key)
            inbox = _Quota(messages, stored_bytes, *self._maxima(inbox_id))
            if creator and creator not in self._creators:
                self._creators[creator] = _Quota(0, creator_bytes, NO_LIMIT, self.limits.creator_bytes)
            quotas = (inbox, self._creators[creator]) if creator else (inbox,)
            self._inboxes[inbox_id] = _Inbox(expires_at_ms, quotas)

    def is_live(self, inbox_id: str) -> bool:
        """Return whether an inbox exists and has not expired."""
        inbox = self._inboxes.get(inbox_id)
        return inbox is not None and inbox.expires_at_ms > self._now_ms

    def charge(self, inbox_ids: Iterable[str], cost_bytes: int) -> bool:
        """Charge a message of ``cost_bytes`` to all of these inboxes; if any is full, charge none and return False."""
        quotas = [quota for inbox_id in inbox_ids for quota in self._inboxes[inbox_id].quotas]
        fits = True
        for quota in quotas:
            fits = quota.add(1, cost_bytes) and fits
        if not fits:
            for quota in quotas:
                quota.add(-1, -cost_bytes)
            return False
        self._changed.update(inbox_ids)
        return True

    def changes(self) -> list[InboxChange]:
        """Return the current state of each inbox that was charged in this batch."""
        return [self.change(inbox_id) for inbox_id in self._changed]

    def change(self, inbox_id: str) -> InboxChange:
        """Return the current state of an inbox in this batch."""
        inbox, *creator = self._inboxes[inbox_id].quotas
        share_full = bool(creator) and creator[0].full
        return InboxChange(inbox_id, full=inbox.full or share_full, share_full=share_full)

    def _maxima(self, inbox_id: str) -> tuple[int, int]:
        if inbox_id == OPERATOR_INBOX_ID:
            return OPERATOR_MAX_MESSAGES, OPERATOR_MAX_BYTES
        return self.limits.inbox_messages, self.limits.inbox_bytes


def creator_is_full(connection: sqlite3.Connection, creator_hash: bytes, limits: Limits) -> bool:
    """Return whether a creator's quota is too full for even the smallest message."""
    sql = "SELECT stored_bytes > ? FROM creator WHERE hash = ?"
    row = connection.execute(sql, (limits.creator_bytes - MIN_STORED_BYTES, creator_hash)).fetchone()
    return bool(row and row[0])
