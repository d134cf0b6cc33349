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
SLOT_BYTES = 320  # a local part of 64, an @, a domain of 253
EMPTY_SLOTS = b" " * (SLOTS * SLOT_BYTES)

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
# sqlite3 first looks for an adapter of what is not a number, a str or a bytearray, in vain and at length: to copy a
# small mail costs less than that.
_COPIED_BYTES = 64 * 1024
_MAX_INBOXES = 10_000

# SQLite keeps the values that a cached statement was last given. With a statement for each number of rows, the mail of
# 64 batches would stay in memory. So there are few statements, and the rows that a batch does not fill have no
# content_id, so that the triggers of the view ignore them. All else is a number, which is bound faster than NULL.
_SIZES = (1, 2, 4, 8, 16, 32, 64)
MAX_ROWS = _SIZES[-1]
"""How many rows one statement inserts at most."""
_NUMBERS = [column for column in CONTENT if column.is_number]
_TEXTS = [column for column in CONTENT if not column.is_number]
_NUMBER_VALUES = tuple(column.value for column in _NUMBERS)
_TEXT_VALUES = tuple(column.value for column in _TEXTS)
Row = tuple[Value | bytearray, ...]
"""The values of a row that is inserted."""
_EXPRESSIONS = {
    "key": "m.id",
    "recipient": "CAST(substr(c.recipients, m.recipient_at + 1, m.recipient_bytes) AS TEXT)",
    "authentication": "(SELECT v.authentication FROM verdict AS v WHERE v.id = m.id)",
}

# One row for any number of inboxes: the GIL is released and taken again for each row. The plus keeps SQLite from using
# the index over swept, in which it would scan all live inboxes.
_INBOXES = """
SELECT json_group_array(json_array(i.id, i.expires_at_ms, i.message_count, i.stored_bytes, hex(i.creator),
                                   coalesce(c.stored_bytes, 0)))
FROM inbox AS i LEFT JOIN creator AS c ON c.hash = i.creator
WHERE +i.swept = 0 AND i.id IN ({marks})
"""
_decode = msgspec.json.Decoder(list[tuple[int, int, int, int, str, int]]).decode


def padding_bytes(text_bytes: int) -> int:
    """Return how much padding a row of a filler and that much text needs to have ``LOCAL_BYTES`` in the b-tree page."""
    return (_AIM_BYTES - text_bytes) % OVERFLOW_BYTES


def stored_bytes(padded_bytes: int) -> int:
    """Return what a row with that much text and padding takes in the file at most, with its messages and indexes."""
    overflow_pages = padded_bytes // OVERFLOW_BYTES + 1
    return _ROW_BYTES + overflow_pages * _PAGE_COST_BYTES


def address_place(inbox_key: InboxKey) -> tuple[int, int]:
    """Return the row and the offset of the address of an inbox: twelve share an overflow page."""
    return inbox_key // SLOTS, inbox_key % SLOTS * SLOT_BYTES


class MessageColumns(NamedTuple):
    """The columns of ``message``: one row an inbox. The first message of a transaction has the id of the content."""

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
"""The columns of the view ``delivery``; ``insert`` takes all but the filler, and for the padding how long it is."""


def content_columns(mail: NewMail, recipients: bytes, now_ms: int) -> tuple[int, Row]:
    """Lay a mail out as the columns that follow ``MessageColumns``; the number is what it will take in the file."""
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
"""What follows ``MessageColumns`` in the row of a second or further recipient."""


def insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert rows into the view ``delivery``."""
    for start in range(0, len(rows), MAX_ROWS):
        part = rows[start : start + MAX_ROWS]
        size = _SIZES[bisect_left(_SIZES, len(part))]
        _execute(connection, [*part, *[_NO_ROW] * (size - len(part))])


def forget_values(connection: sqlite3.Connection) -> None:
    """Free the mail that the statements were last given."""
    for size in _SIZES:
        _execute(connection, [_NO_ROW] * size)


def _execute(connection: sqlite3.Connection, rows: list[Row]) -> None:
    # executemany() with one row of values: execute() would release the GIL once more to ask for the last rowid.
    connection.executemany(_insert_sql(len(rows)), [tuple(chain.from_iterable(rows))])


@lru_cache
def _insert_sql(rows: int) -> str:
    return f"INSERT INTO delivery ({', '.join(INSERTED)}) VALUES {','.join([f'({_ROW})'] * rows)}"


def selected(names: Sequence[str], table: str = "c", **expressions: str) -> str:
    """Return what a SELECT reads for the fields of a row: the column of that name, or the given expression."""
    known = _EXPRESSIONS | expressions
    return ", ".join(known.get(name, f"{table}.{name}") for name in names)


class _Quota:
    """What an inbox, or all inboxes of one creator, hold and may hold."""

    __slots__ = ("max_bytes", "max_messages", "messages", "stored_bytes")

    def __init__(self, messages: int, stored_bytes: int, max_messages: int, max_bytes: int) -> None:
        self.messages = messages
        self.stored_bytes = stored_bytes
        self.max_messages = max_messages
        self.max_bytes = max_bytes

    def add(self, messages: int, cost_bytes: int) -> bool:
        """Add, or take away if negative; return whether it is within its limits then."""
        self.messages += messages
        self.stored_bytes += cost_bytes
        return self.messages <= self.max_messages and self.stored_bytes <= self.max_bytes

    @property
    def full(self) -> bool:
        return self.messages >= self.max_messages or self.stored_bytes + LEAST_STORED_BYTES > self.max_bytes


class _Inbox(Struct):
    """What was read of an inbox, updated with what later batches have added."""

    expires_at_ms: int
    quotas: tuple[_Quota, ...]


class InboxQuotas:
    """The quotas of the inboxes that receive mail, as in the tables; used in the writer's thread only.

    What one batch has read is kept for the next, because there is one writer: reading releases the GIL four times.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._now_ms = 0
        self._inboxes: dict[str, _Inbox] = {}
        self._creators: dict[str, _Quota] = {}
        self._changed: set[str] = set()

    def load(self, connection: sqlite3.Connection, now_ms: int, inbox_ids: Collection[str]) -> None:
        """Begin a batch that delivers to these inboxes: read those that are not in memory."""
        if len(self._inboxes) > _MAX_INBOXES:
            self.forget()
        self._now_ms = now_ms
        self._changed.clear()
        unknown = [int(inbox_id) for inbox_id in inbox_ids if inbox_id not in self._inboxes]
        if unknown:
            self._read(connection, unknown)

    def forget(self) -> None:
        """Forget what was read, because the tables have changed otherwise than by ``charge``."""
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
        """Charge a mail of ``cost_bytes`` in the file to all of these inboxes, or to none if one is full: False."""
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
        """Return the state after the batch of each inbox that was charged."""
        return [self.change(inbox_id) for inbox_id in self._changed]

    def change(self, inbox_id: str) -> InboxChange:
        """Return the state of an inbox of this batch."""
        inbox, *creator = self._inboxes[inbox_id].quotas
        share_full = bool(creator) and creator[0].full
        return InboxChange(inbox_id, full=inbox.full or share_full, share_full=share_full)

    def _maxima(self, inbox_id: str) -> tuple[int, int]:
        if inbox_id == OPERATOR_INBOX_ID:
            return OPERATOR_MAX_MESSAGES, OPERATOR_MAX_BYTES
        return self.limits.inbox_messages, self.limits.inbox_bytes


def creator_is_full(connection: sqlite3.Connection, creator_hash: bytes, limits: Limits) -> bool:
    """Return whether not even the smallest mail fits the quota of a creator."""
    sql = "SELECT stored_bytes > ? FROM creator WHERE hash = ?"
    row = connection.execute(sql, (limits.creator_bytes - LEAST_STORED_BYTES, creator_hash)).fetchone()
    return bool(row and row[0])
