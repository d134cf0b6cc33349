"""The operations on inboxes: create one, delete one of its messages or several, set its expiry or end it.

Expired mail is deleted in ``sweeping.py``.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tmpmaild.errors import AddressExpired, AddressNotFound, AddressTaken, MailboxFull, MessageNotFound, RequestError
from tmpmaild.model import NAME_HELD_MS, ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, NewInbox
from tmpmaild.storage import ids
from tmpmaild.storage.base import DELETED_AT_ONCE
from tmpmaild.storage.enginestorage import Deleted, Doomed, deleted_at_once
from tmpmaild.storage.rows import verdict_reached
from tmpmaild.storage.sqlite.batches import MAX_BATCH_BYTES, Batch, Operation
from tmpmaild.storage.sqlite.layout import EMPTY_SLOTS, FILLER, SLOT_BYTES, padding_bytes, slot
from tmpmaild.storage.sqlite.quotas import creator_is_full


@dataclass(eq=False)
class CreateInbox(Operation):
    """Store an address; the result is the new inbox's id."""

    changes: ClassVar[bool] = False
    new: NewInbox
    name_hash: bytes
    creator_hash: bytes | None

    def apply(self, batch: Batch) -> str | RequestError:
        """Create it if its name is free and its creator is within its quota."""
        execute, new = batch.connection.execute, self.new
        forgotten_ms = batch.now_ms - NAME_HELD_MS
        sql = "SELECT expires_at_ms > ? FROM inbox WHERE name_hash = ?"
        known = execute(sql, (forgotten_ms, self.name_hash)).fetchone()
        if known == (1,):
            return AddressTaken("the name is in use or in quarantine")
        limits = batch.state.quotas.limits
        if self.creator_hash is not None and creator_is_full(batch.connection, self.creator_hash, limits):
            return MailboxFull("the creator has no room for mail to another address")
        if known:
            _forget(batch, self.name_hash)
        inbox_id = execute(
            "INSERT INTO inbox (name_hash, created_at_ms, expires_at_ms, private, token_hash, creator)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (self.name_hash, new.created_at_ms, new.expires_at_ms, new.private, new.token_hash, self.creator_hash),
        ).lastrowid
        assert inbox_id is not None
        _write_address(batch, inbox_id, new.address)
        batch.added_inboxes += 1
        return str(inbox_id)


def _write_address(batch: Batch, inbox_id: int, address: str) -> None:
    row_id, offset = slot(inbox_id)
    connection = batch.connection
    connection.execute("INSERT OR IGNORE INTO address VALUES (?, ?, ?)", (row_id, FILLER, EMPTY_SLOTS))
    with connection.blobopen("address", "slots", row_id) as slots:
        slots.seek(offset)
        slots.write(address.encode().ljust(SLOT_BYTES))


def _forget(batch: Batch, name_hash: bytes) -> None:
    # The name is free again, but the inbox has not been swept yet: its mail is deleted with the old row.
    batch.connection.execute("UPDATE inbox SET name_hash = randomblob(16) WHERE name_hash = ?", (name_hash,))


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


@dataclass(eq=False)
class DeleteMessage(Operation):
    """Delete one message of an inbox; ``MessageNotFound`` when the inbox holds none with that key."""

    inbox_key: int
    message_key: int
    # What it will be is not known; 10 MiB take some 40 ms, so two of them go together.
    size_bytes: int = MAX_BATCH_BYTES // 2

    def apply(self, batch: Batch) -> RequestError | None:
        """Delete it; of two operations for the same one the first succeeds."""
        sql = f"{MESSAGE_ROWS} WHERE m.id = ? AND m.inbox_id = ?"
        row = batch.connection.execute(sql, (self.message_key, self.inbox_key)).fetchone()
        if row is None:
            return MessageNotFound("no such message in this inbox")
        batch.state.unerased = True
        delete_messages(batch, [MessageRow(*row)])
        batch.tell(self.inbox_key, MessageDeleted(ids.message_id(self.message_key)))
        return None


@dataclass(eq=False)
class DeleteMessages(Operation):
    """Delete some of the messages that are doomed, oldest first; the result is a ``Deleted``."""

    inbox_key: int
    doomed: Doomed
    size_bytes: int = MAX_BATCH_BYTES

    def apply(self, batch: Batch) -> Deleted:
        """Delete as many as one transaction should."""
        rows = self._rows(batch.connection)
        chosen = rows[: deleted_at_once(row.stored_bytes for row in rows)]
        if chosen:
            batch.state.unerased = True
            delete_messages(batch, chosen)
            batch.tell(self.inbox_key, *[MessageDeleted(ids.message_id(row.message_id)) for row in chosen])
        return Deleted(len(chosen), more=len(rows) > len(chosen))

    def _rows(self, connection: sqlite3.Connection) -> list[MessageRow]:
        """Read one more than may be deleted at once, if there are so many."""
        keys = self.doomed.keys
        condition = "m.id <= ?" if keys is None else "m.id IN (SELECT value FROM json_each(?))"
        sql = f"{MESSAGE_ROWS} WHERE m.inbox_id = ? AND {condition} ORDER BY m.id LIMIT ?"
        values = (self.inbox_key, self.doomed.up_to_key if keys is None else json_array(keys), DELETED_AT_ONCE + 1)
        return list(map(MessageRow._make, connection.execute(sql, values)))


@dataclass(eq=False)
class SetVerdict(Operation):
    """Store the verdict on a message; ``MessageNotFound`` when that or its inbox has ended, or has a verdict."""

    changes: ClassVar[bool] = False
    inbox_key: int
    message_key: int
    authentication: str

    def apply(self, batch: Batch) -> RequestError | None:
        """Store it, and tell the inbox."""
        sql = (
            "INSERT OR IGNORE INTO verdict SELECT m.id, ?, ?, zeroblob(?) FROM message AS m JOIN inbox AS i"
            " ON i.id = m.inbox_id WHERE m.id = ? AND +m.inbox_id = ? AND +i.swept = 0 AND i.expires_at_ms > ?"
        )
        text = (self.authentication, padding_bytes(len(self.authentication.encode())))
        cursor = batch.connection.execute(sql, (FILLER, *text, self.message_key, self.inbox_key, batch.now_ms))
        if not cursor.rowcount:
            return MessageNotFound("no such message without a verdict in a live inbox")
        batch.tell(self.inbox_key, verdict_reached(ids.message_id(self.message_key), self.authentication))
        return None


def refusal(batch: Batch, inbox_key: int, now_ms: int) -> RequestError | None:
    """Return why an inbox cannot be changed: it has expired, or has been forgotten."""
    sql = "SELECT expires_at_ms, swept FROM inbox WHERE id = ?"
    row = batch.connection.execute(sql, (inbox_key,)).fetchone()
    if row is None:
        return AddressNotFound("no such inbox")
    expires_at_ms, swept = row
    # An inbox that expired while the operation was queued may have lost mail to a sweep.
    now_ms = max(now_ms, batch.now_ms)
    return AddressExpired(min(expires_at_ms, now_ms)) if swept or expires_at_ms <= now_ms else None


@dataclass(eq=False)
class SetExpiry(Operation):
    """Set when an inbox expires; without ``expires_at_ms`` it ends now, and the sweep deletes it.

    ``AddressExpired`` when it has expired, ``AddressNotFound`` when it has been forgotten.
    """

    inbox_key: int
    now_ms: int
    expires_at_ms: int | None = None

    def apply(self, batch: Batch) -> RequestError | None:
        """Set the expiry of the inbox if it is alive."""
        refused = refusal(batch, self.inbox_key, self.now_ms)
        if refused is not None:
            return refused
        ends_at_ms = self.now_ms if self.expires_at_ms is None else self.expires_at_ms
        batch.connection.execute("UPDATE inbox SET expires_at_ms = ? WHERE id = ?", (ends_at_ms, self.inbox_key))
        if self.expires_at_ms is None:  # "full" means that it accepts no mail
            batch.changes.append(InboxChange(str(self.inbox_key), full=True, notice=InboxDeleted()))
        else:
            batch.tell(self.inbox_key, ExpiryMoved(self.expires_at_ms))
        return None
