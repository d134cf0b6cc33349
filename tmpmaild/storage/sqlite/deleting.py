"""What an owner can delete or change: a message, an inbox, its expiry. Expired mail is deleted in ``sweeping.py``."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tmpmaild import ids
from tmpmaild.errors import AddressExpired, AddressNotFound, MessageNotFound, RequestError
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted
from tmpmaild.storage.sqlite.quotas import Limits, changed
from tmpmaild.storage.sqlite.writer import MAX_BATCH_BYTES, Batch, Operation

_SPARE_PAGES = 64


class DeletionState:
    """State that all deleting operations share. Changed in the writer's thread only, so in the order of commits.

    ``unerased``: deleted text may still be in the WAL.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.unerased = True  # an earlier process may have left some
        self._connection = connection
        self.note_cap()

    def note_cap(self) -> None:
        """Take the connection's present cap for the one that is to be raised."""
        (self._max_pages,) = self._connection.execute("PRAGMA max_page_count").fetchone()

    @contextmanager
    def spare_pages(self) -> Iterator[None]:
        """Raise the cap by a few pages: changing an index may split a page before deleting frees one."""
        self._cap(self._max_pages + _SPARE_PAGES)
        try:
            yield
        finally:
            self._cap(self._max_pages)

    def _cap(self, pages: int) -> None:
        self._connection.execute(f"PRAGMA max_page_count = {pages}")


class MessageRow(NamedTuple):
    """What is needed of a message to delete it."""

    message_id: int
    inbox_id: int
    content_id: int
    recipient_at: int
    recipient_bytes: int
    stored_bytes: int


MESSAGE_ROWS = (
    "SELECT m.id, m.inbox_id, m.content_id, m.recipient_at, m.recipient_bytes, c.stored_bytes"
    " FROM message AS m JOIN content AS c ON c.id = m.content_id"
)
"""Selects each ``MessageRow``; the caller adds the condition."""


def delete_messages(batch: Batch, rows: Sequence[MessageRow]) -> None:
    """Delete messages, and each content with the last message that refers to it."""
    if not rows:
        return
    connection = batch.connection
    # Stored here because the highest id may be among the deleted messages.
    connection.execute("UPDATE daemon SET last_message_id = ?", (batch.last_message_key,))
    message_ids = json_array([row.message_id for row in rows])
    content_ids = json_array(sorted({row.content_id for row in rows}))
    connection.execute("DELETE FROM message WHERE id IN (SELECT value FROM json_each(?))", (message_ids,))
    connection.execute(
        "DELETE FROM content WHERE id IN (SELECT value FROM json_each(?))"
        " AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.id = content.id)"
        " AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.content_id = content.id AND m.content_id <> m.id)",
        (content_ids,),
    )
    _blank_recipients(connection, rows, content_ids)
    batch.added_messages -= len(rows)


def _blank_recipients(connection: sqlite3.Connection, rows: Sequence[MessageRow], content_ids: str) -> None:
    """Blank the recipients of deleted messages in contents that other messages still refer to."""
    sql = "SELECT id FROM content WHERE id IN (SELECT value FROM json_each(?))"
    shared = {content_id for (content_id,) in connection.execute(sql, (content_ids,))}
    # No blobopen(): before Python 3.11.4 it takes no id over 31 bits. SQLite writes a row of the same size in place.
    blank = (
        "UPDATE content SET recipients = CAST(substr(recipients, 1, ?) || ? || substr(recipients, ?) AS BLOB)"
        " WHERE id = ?"
    )
    connection.executemany(
        blank,
        [
            (row.recipient_at, b" " * row.recipient_bytes, row.recipient_at + row.recipient_bytes + 1, row.content_id)
            for row in rows
            if row.content_id in shared
        ],
    )


def json_array(values: Sequence[int]) -> str:
    """Return numbers for ``json_each(?)``: one statement for any number of them."""
    return str(list(values))


class DeleteMessage(Operation):
    """Delete one message of an inbox; ``MessageNotFound`` when the inbox holds none with that key."""

    size_bytes = (
        MAX_BATCH_BYTES // 2
    )  # what it will be is not known; 10 MiB take some 40 ms, so two of them go together

    def __init__(self, inbox_key: int, message_key: int, limits: Limits, deletion_state: DeletionState) -> None:
        self.inbox_key = inbox_key
        self.message_key = message_key
        self.limits = limits
        self.deletion_state = deletion_state

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["DeleteMessage"]) -> list[Any]:
        """Delete each message; of two operations for the same one the first succeeds."""
        with operations[0].deletion_state.spare_pages():
            return [operation._delete(batch) for operation in operations]  # noqa: SLF001 - our own kind

    def _delete(self, batch: Batch) -> RequestError | None:
        sql = f"{MESSAGE_ROWS} WHERE m.id = ? AND m.inbox_id = ?"
        row = batch.connection.execute(sql, (self.message_key, self.inbox_key)).fetchone()
        if row is None:
            return MessageNotFound("no such message in this inbox")
        self.deletion_state.unerased = True
        delete_messages(batch, [MessageRow(*row)])
        notice = MessageDeleted(ids.message_id(self.message_key))
        batch.changes.append(changed(batch, self.limits, str(self.inbox_key), notice))
        return None


class DeleteInbox(Operation):
    """End an inbox now; the sweep deletes it, like one that expired.

    ``AddressExpired`` when it has expired, ``AddressNotFound`` when it has been forgotten.
    """

    def __init__(self, inbox_key: int, now_ms: int, deletion_state: DeletionState) -> None:
        self.inbox_key = inbox_key
        self.now_ms = now_ms
        self.deletion_state = deletion_state

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["DeleteInbox"]) -> list[Any]:
        """End each inbox that is alive."""
        with operations[0].deletion_state.spare_pages():
            return [operation._end(batch) for operation in operations]  # noqa: SLF001 - our own kind

    def _end(self, batch: Batch) -> RequestError | None:
        refusal = _set_expiry(batch, self.inbox_key, self.now_ms, self.now_ms)
        if refusal is None:
            # "Full" means that it accepts no mail.
            batch.changes.append(InboxChange(str(self.inbox_key), full=True, notice=InboxDeleted()))
        return refusal


class MoveExpiry(Operation):
    """Set when an inbox expires. Rejected as ``DeleteInbox``."""

    def __init__(
        self, inbox_key: int, expires_at_ms: int, now_ms: int, limits: Limits, deletion_state: DeletionState
    ) -> None:
        self.inbox_key = inbox_key
        self.expires_at_ms = expires_at_ms
        self.now_ms = now_ms
        self.limits = limits
        self.deletion_state = deletion_state

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["MoveExpiry"]) -> list[Any]:
        """Set the expiry of each inbox that is alive."""
        with operations[0].deletion_state.spare_pages():
            return [operation._move(batch) for operation in operations]  # noqa: SLF001 - our own kind

    def _move(self, batch: Batch) -> RequestError | None:
        refusal = _set_expiry(batch, self.inbox_key, self.expires_at_ms, self.now_ms)
        if refusal is None:
            notice = ExpiryMoved(self.expires_at_ms)
            batch.changes.append(changed(batch, self.limits, str(self.inbox_key), notice))
        return refusal


def _set_expiry(batch: Batch, inbox_key: int, expires_at_ms: int, now_ms: int) -> RequestError | None:
    """Set the expiry of an inbox that is alive, or return the error."""
    execute = batch.connection.execute
    row = execute("SELECT expires_at_ms, swept FROM inbox WHERE id = ?", (inbox_key,)).fetchone()
    if row is None:
        return AddressNotFound("no such inbox")
    old_expires_at_ms, swept = row
    # An inbox that expired while this operation was queued may have lost mail to a sweep.
    now_ms = max(now_ms, batch.now_ms)
    if swept or old_expires_at_ms <= now_ms:
        return AddressExpired(min(old_expires_at_ms, now_ms))
    execute("UPDATE inbox SET expires_at_ms = ? WHERE id = ?", (expires_at_ms, inbox_key))
    return None
