"""What the writer deletes and how freed space leaves the file, in bounded steps; when is decided in ``expiry.py``."""

import sqlite3
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from tmpmaild import ids
from tmpmaild.model import QUARANTINE_MS
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.layout import SLOT_BYTES, SLOTS, slot
from tmpmaild.storage.writer import Operation, Transaction

MAX_INBOXES = 250
MAX_MESSAGES = 150
MAX_BYTES = 8 * 1024 * 1024
OPERATOR_MAIL_MS = 30 * 24 * 60 * 60 * 1000

VACUUM_PAGES = 32  # up to 2 ms each in a file with many free pages on a busy machine


class Sweep(Operation):
    """Delete some of what is over: mail first, then the address, a day later its tombstone.

    The result says whether anything was deleted and whether there may be more.
    """

    size_bytes = MAX_BYTES

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    @classmethod
    def run(cls, transaction: Transaction, operations: Sequence["Sweep"]) -> list[Any]:
        """Sweep once for each."""
        # With the messages goes the knowledge of how far their ids have come.
        transaction.connection.execute("UPDATE daemon SET last_message_id = ?", (transaction.last_message_key,))
        return [operation._sweep(transaction.connection) for operation in operations]  # noqa: SLF001 - our own kind

    def _sweep(self, connection: sqlite3.Connection) -> tuple[bool, bool]:
        inbox_ids = _expired_inboxes(connection, self.now_ms)
        chosen, all_chosen = _choose_messages(connection, inbox_ids, self.now_ms)
        _delete_messages(connection, chosen)
        emptied = _emptied(connection, inbox_ids)
        _delete_addresses(connection, emptied)
        forgotten = _delete_tombstones(connection, self.now_ms)
        more = not all_chosen or len(inbox_ids) == MAX_INBOXES or forgotten == MAX_INBOXES
        return bool(chosen or emptied or forgotten), more


def _expired_inboxes(connection: sqlite3.Connection, now_ms: int) -> list[int]:
    sql = "SELECT id FROM inbox WHERE swept = 0 AND expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?"
    return [row[0] for row in connection.execute(sql, (now_ms, MAX_INBOXES))]


class _Chosen(NamedTuple):
    message_id: int
    inbox_id: int
    content_id: int
    recipient_at: int
    recipient_bytes: int
    size_bytes: int


def _choose_messages(connection: sqlite3.Connection, inbox_ids: list[int], now_ms: int) -> tuple[list[_Chosen], bool]:
    """Choose up to so many messages and octets; the flag says that these are all there are."""
    rows = connection.execute(
        "SELECT m.id, m.inbox_id, m.content_id, m.recipient_at, m.recipient_bytes, c.size_bytes"
        " FROM message AS m JOIN content AS c ON c.id = m.content_id"
        f" WHERE m.inbox_id IN ({_marks(inbox_ids)})"
        " OR (m.inbox_id = ? AND m.id < ?) LIMIT ?",
        [*inbox_ids, int(OPERATOR_INBOX_ID), ids.first_key(now_ms - OPERATOR_MAIL_MS), MAX_MESSAGES],
    ).fetchall()
    chosen: list[_Chosen] = []
    size_bytes = 0
    for row in map(_Chosen._make, rows):
        size_bytes += 2 * row.size_bytes  # the source, and about as much again in bodies
        if chosen and size_bytes > MAX_BYTES:
            return chosen, False
        chosen.append(row)
    return chosen, len(rows) < MAX_MESSAGES


def _delete_messages(connection: sqlite3.Connection, chosen: list[_Chosen]) -> None:
    if not chosen:
        return
    message_ids = [row.message_id for row in chosen]
    content_ids = sorted({row.content_id for row in chosen})
    connection.execute(f"DELETE FROM message WHERE id IN ({_marks(message_ids)})", message_ids)
    # A content goes with the last message that shows it.
    connection.execute(
        f"DELETE FROM content WHERE id IN ({_marks(content_ids)})"
        " AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.id = content.id)"
        " AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.content_id = content.id AND m.content_id <> m.id)",
        content_ids,
    )
    _blank_recipients(connection, chosen, content_ids)


def _blank_recipients(connection: sqlite3.Connection, chosen: list[_Chosen], content_ids: list[int]) -> None:
    """Take the swept recipients out of contents that others still show."""
    sql = f"SELECT id FROM content WHERE id IN ({_marks(content_ids)})"
    shared = {content_id for (content_id,) in connection.execute(sql, content_ids)}
    # No blobopen(): before Python 3.11.4 it takes no id over 31 bits. SQLite writes a row of the same size in place.
    blank = (
        "UPDATE content SET recipients = CAST(substr(recipients, 1, ?) || ? || substr(recipients, ?) AS BLOB)"
        " WHERE id = ?"
    )
    connection.executemany(
        blank,
        [
            (row.recipient_at, b" " * row.recipient_bytes, row.recipient_at + row.recipient_bytes + 1, row.content_id)
            for row in chosen
            if row.content_id in shared
        ],
    )


def _emptied(connection: sqlite3.Connection, inbox_ids: list[int]) -> list[int]:
    sql = (
        f"SELECT id FROM inbox WHERE id IN ({_marks(inbox_ids)})"
        " AND NOT EXISTS (SELECT 1 FROM message WHERE message.inbox_id = inbox.id)"
    )
    return [row[0] for row in connection.execute(sql, inbox_ids)]


def _delete_addresses(connection: sqlite3.Connection, inbox_ids: list[int]) -> None:
    connection.execute(f"UPDATE inbox SET swept = 1, creator = NULL WHERE id IN ({_marks(inbox_ids)})", inbox_ids)
    row_ids = sorted({slot(inbox_id)[0] for inbox_id in inbox_ids})
    connection.execute(
        f"DELETE FROM address WHERE id IN ({_marks(row_ids)}) AND NOT EXISTS"
        f" (SELECT 1 FROM inbox AS i WHERE i.id BETWEEN address.id * {SLOTS} AND address.id * {SLOTS} + {SLOTS - 1}"
        " AND i.swept = 0)",
        row_ids,
    )
    _blank_addresses(connection, inbox_ids, row_ids)


def _blank_addresses(connection: sqlite3.Connection, inbox_ids: list[int], row_ids: list[int]) -> None:
    """Take the swept addresses out of rows that hold living ones too."""
    sql = f"SELECT id FROM address WHERE id IN ({_marks(row_ids)})"
    left = {row_id for (row_id,) in connection.execute(sql, row_ids)}
    for row_id, offset in map(slot, inbox_ids):
        if row_id in left:
            with connection.blobopen("address", "slots", row_id) as slots:
                slots.seek(offset)
                slots.write(b" " * SLOT_BYTES)


def _delete_tombstones(connection: sqlite3.Connection, now_ms: int) -> int:
    sql = (
        "DELETE FROM inbox WHERE id IN"
        " (SELECT id FROM inbox WHERE swept = 1 AND expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)"
    )
    return connection.execute(sql, (now_ms - QUARANTINE_MS, MAX_INBOXES)).rowcount


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


class Vacuum(Operation):
    """Give a few free pages back to the file system; the result says whether there is reason to go on.

    Worth it only while a quarter of the file is free: moving pages costs more than reusing them.
    """

    transactional: ClassVar[bool] = False

    @classmethod
    def run(cls, transaction: Transaction, operations: Sequence["Vacuum"]) -> list[Any]:
        """Take one step for each."""
        return [_vacuum_step(transaction.connection) for _ in operations]


def _vacuum_step(connection: sqlite3.Connection) -> bool:
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    pages = _pages(connection)
    if free * 4 <= pages:
        return False
    # execute() would free one page a call: the pragma returns a row for each.
    connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
    return _pages(connection) < pages


def _pages(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    return int(pages)


class EmptyWal(Operation):
    """Truncate the WAL to nothing, where old copies of pages live on; False when a reader is in the way.

    Waits for nobody: with a busy timeout it would hold the write lock for all of it.
    """

    transactional: ClassVar[bool] = False

    @classmethod
    def run(cls, transaction: Transaction, operations: Sequence["EmptyWal"]) -> list[Any]:
        """Try once."""
        connection = transaction.connection
        (timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {timeout_ms}")
        return [not busy] * len(operations)
