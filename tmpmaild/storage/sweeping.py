"""What the writer deletes and how freed space leaves the file, in bounded steps; when is decided in ``expiry.py``."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from tmpmaild import ids
from tmpmaild.model import QUARANTINE_MS
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.writer import Operation, Transaction

MAX_INBOXES = 250
MAX_MESSAGES = 150
MAX_BYTES = 8 * 1024 * 1024
OPERATOR_MAIL_MS = 30 * 24 * 60 * 60 * 1000

_VACUUM_PAGES = 256


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


def _choose_messages(
    connection: sqlite3.Connection, inbox_ids: list[int], now_ms: int
) -> tuple[list[tuple[int, int, int, int]], bool]:
    """Choose up to so many messages and octets; the flag says that these are all there are."""
    rows = connection.execute(
        "SELECT m.id, m.inbox_id, m.content_id, c.size_bytes FROM message AS m JOIN content AS c ON c.id = m.content_id"
        f" WHERE m.inbox_id IN ({_marks(inbox_ids)})"
        " OR (m.inbox_id = ? AND m.id < ?) LIMIT ?",
        [*inbox_ids, int(OPERATOR_INBOX_ID), ids.first_key(now_ms - OPERATOR_MAIL_MS), MAX_MESSAGES],
    ).fetchall()
    chosen: list[tuple[int, int, int, int]] = []
    size_bytes = 0
    for row in rows:
        size_bytes += 2 * row[3]  # the source, and about as much again in bodies
        if chosen and size_bytes > MAX_BYTES:
            return chosen, False
        chosen.append(row)
    return chosen, len(rows) < MAX_MESSAGES


def _delete_messages(connection: sqlite3.Connection, chosen: list[tuple[int, int, int, int]]) -> None:
    if not chosen:
        return
    message_ids = [row[0] for row in chosen]
    content_ids = sorted({row[2] for row in chosen})
    connection.execute(f"DELETE FROM message WHERE id IN ({_marks(message_ids)})", message_ids)
    # A content goes with the last message that shows it.
    unshared = (
        f"id IN ({_marks(content_ids)}) AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.id = {{table}}.id)"
        " AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.content_id = {table}.id AND m.content_id <> m.id)"
    )
    for table in ("source", "content"):
        connection.execute(f"DELETE FROM {table} WHERE {unshared.format(table=table)}", content_ids)
    _uncount(connection, chosen)


def _uncount(connection: sqlite3.Connection, chosen: list[tuple[int, int, int, int]]) -> None:
    messages: Counter[int] = Counter()
    octets: Counter[int] = Counter()
    for _, inbox_id, _, size_bytes in chosen:
        messages[inbox_id] += 1
        octets[inbox_id] += size_bytes
    connection.executemany(
        "UPDATE creator SET stored_bytes = stored_bytes - ? WHERE hash = (SELECT creator FROM inbox WHERE id = ?)",
        [(octets[inbox_id], inbox_id) for inbox_id in messages],
    )
    connection.executemany(
        "UPDATE inbox SET message_count = message_count - ?, stored_bytes = stored_bytes - ? WHERE id = ?",
        [(messages[inbox_id], octets[inbox_id], inbox_id) for inbox_id in messages],
    )
    connection.execute("DELETE FROM creator WHERE stored_bytes <= 0")


def _emptied(connection: sqlite3.Connection, inbox_ids: list[int]) -> list[int]:
    sql = (
        f"SELECT id FROM inbox WHERE id IN ({_marks(inbox_ids)})"
        " AND NOT EXISTS (SELECT 1 FROM message WHERE message.inbox_id = inbox.id)"
    )
    return [row[0] for row in connection.execute(sql, inbox_ids)]


def _delete_addresses(connection: sqlite3.Connection, inbox_ids: list[int]) -> None:
    marks = _marks(inbox_ids)
    connection.execute(f"DELETE FROM address WHERE inbox_id IN ({marks})", inbox_ids)
    connection.execute(f"UPDATE inbox SET swept = 1, creator = NULL WHERE id IN ({marks})", inbox_ids)


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
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if free * 4 <= pages:
        return False
    # execute() would free one page a call: the pragma returns a row for each.
    connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
    return True


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
