"""What the writer deletes and how freed space leaves the file, in bounded steps; when is decided in ``expiry.py``."""

import sqlite3
from collections.abc import Sequence
from typing import Any, ClassVar

from tmpmaild import ids
from tmpmaild.model import QUARANTINE_MS
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.deleting import MESSAGE_ROWS, MessageRow, Upkeep, delete_messages, marks
from tmpmaild.storage.layout import SLOT_BYTES, SLOTS, slot
from tmpmaild.storage.writer import Operation, Transaction

MAX_INBOXES = 250
MAX_MESSAGES = 150
MAX_BYTES = 8 * 1024 * 1024
OPERATOR_MAIL_MS = 30 * 24 * 60 * 60 * 1000

VACUUM_PAGES = 32  # up to 2 ms each in a file with many free pages on a busy machine


class Sweep(Operation):
    """Delete some of what is over: mail first, then the address, a day later its tombstone.

    The result says whether there may be more.
    """

    size_bytes = MAX_BYTES

    def __init__(self, now_ms: int, upkeep: Upkeep) -> None:
        self.now_ms = now_ms
        self.upkeep = upkeep

    @classmethod
    def run(cls, transaction: Transaction, operations: Sequence["Sweep"]) -> list[Any]:
        """Sweep once for each."""
        with operations[0].upkeep.spare_pages():
            return [operation._sweep(transaction) for operation in operations]  # noqa: SLF001 - our own kind

    def _sweep(self, transaction: Transaction) -> bool:
        connection = transaction.connection
        inbox_ids = _expired_inboxes(connection, self.now_ms)
        chosen, all_chosen = _choose_messages(connection, inbox_ids, self.now_ms)
        delete_messages(transaction, chosen)
        emptied = _emptied(connection, inbox_ids)
        _delete_addresses(connection, emptied)
        forgotten = _delete_tombstones(connection, self.now_ms)
        if chosen or emptied or forgotten:
            self.upkeep.unerased = True
        return not all_chosen or len(inbox_ids) == MAX_INBOXES or forgotten == MAX_INBOXES


def _expired_inboxes(connection: sqlite3.Connection, now_ms: int) -> list[int]:
    sql = "SELECT id FROM inbox WHERE swept = 0 AND expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?"
    return [row[0] for row in connection.execute(sql, (now_ms, MAX_INBOXES))]


def _choose_messages(
    connection: sqlite3.Connection, inbox_ids: list[int], now_ms: int
) -> tuple[list[MessageRow], bool]:
    """Choose up to so many messages and octets; the flag says that these are all there are."""
    rows = connection.execute(
        f"{MESSAGE_ROWS} WHERE m.inbox_id IN ({marks(inbox_ids)}) OR (m.inbox_id = ? AND m.id < ?) LIMIT ?",
        [*inbox_ids, int(OPERATOR_INBOX_ID), ids.first_key(now_ms - OPERATOR_MAIL_MS), MAX_MESSAGES],
    ).fetchall()
    chosen: list[MessageRow] = []
    size_bytes = 0
    for row in map(MessageRow._make, rows):
        size_bytes += 2 * row.size_bytes  # the source, and about as much again in bodies
        if chosen and size_bytes > MAX_BYTES:
            return chosen, False
        chosen.append(row)
    return chosen, len(rows) < MAX_MESSAGES


def _emptied(connection: sqlite3.Connection, inbox_ids: list[int]) -> list[int]:
    sql = (
        f"SELECT id FROM inbox WHERE id IN ({marks(inbox_ids)})"
        " AND NOT EXISTS (SELECT 1 FROM message WHERE message.inbox_id = inbox.id)"
    )
    return [row[0] for row in connection.execute(sql, inbox_ids)]


def _delete_addresses(connection: sqlite3.Connection, inbox_ids: list[int]) -> None:
    connection.execute(f"UPDATE inbox SET swept = 1, creator = NULL WHERE id IN ({marks(inbox_ids)})", inbox_ids)
    row_ids = sorted({slot(inbox_id)[0] for inbox_id in inbox_ids})
    connection.execute(
        f"DELETE FROM address WHERE id IN ({marks(row_ids)}) AND NOT EXISTS"
        f" (SELECT 1 FROM inbox AS i WHERE i.id BETWEEN address.id * {SLOTS} AND address.id * {SLOTS} + {SLOTS - 1}"
        " AND i.swept = 0)",
        row_ids,
    )
    _blank_addresses(connection, inbox_ids, row_ids)


def _blank_addresses(connection: sqlite3.Connection, inbox_ids: list[int], row_ids: list[int]) -> None:
    """Take the swept addresses out of rows that hold living ones too."""
    sql = f"SELECT id FROM address WHERE id IN ({marks(row_ids)})"
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


class Vacuum(Operation):
    """Give a few free pages back to the file system; the result says whether there is reason to go on.

    Worth it only while a quarter of the file is free: moving pages costs more than reusing them.
    """

    transactional: ClassVar[bool] = False

    def __init__(self, upkeep: Upkeep) -> None:
        self.upkeep = upkeep

    @classmethod
    def run(cls, transaction: Transaction, operations: Sequence["Vacuum"]) -> list[Any]:
        """Take one step for each."""
        return [operation._step(transaction.connection) for operation in operations]  # noqa: SLF001 - our own kind

    def _step(self, connection: sqlite3.Connection) -> bool:
        moved = _vacuum_step(connection)
        self.upkeep.unerased = self.upkeep.unerased or moved
        return moved


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

    def __init__(self, upkeep: Upkeep) -> None:
        self.upkeep = upkeep

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
        operations[0].upkeep.unerased = bool(busy)
        return [not busy] * len(operations)
