"""The operations on inboxes, their mail and their webhooks; also the rows that they write and read.

Expired mail is deleted in ``sweeping.py``.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tmpmaild.errors import AddressExpired, AddressNotFound, AddressTaken, MailboxFull, MessageNotFound, RequestError
from tmpmaild.model import NAME_HELD_MS, ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, NewInbox, NewMail
from tmpmaild.storage.base import DELETED_AT_ONCE
from tmpmaild.storage.enginestorage import Deleted, Doomed, deleted_at_once
from tmpmaild.storage.rows import StateRow, WebhookRow, message_id_of, verdict_reached
from tmpmaild.storage.sqlite.layout import (
    EMPTY_SLOTS,
    FILLER,
    MAX_ROWS,
    NO_CONTENT,
    SLOT_BYTES,
    SLOTS,
    InboxQuotas,
    address_place,
    content_columns,
    creator_is_full,
    insert,
    padding_bytes,
)
from tmpmaild.storage.sqlite.writer import MAX_BATCH_BYTES, Batch, Operation

# The inbox of a webhook and its newest message are looked up for each; CROSS JOIN keeps this order.
_WEBHOOKS = f"""
SELECT w.inbox_id, CAST(rtrim(substr(a.slots, w.inbox_id % {SLOTS} * {SLOT_BYTES} + 1, {SLOT_BYTES})) AS TEXT),
       i.expires_at_ms, w.version, w.told_message_id, w.told_verdict_id, w.failures, w.next_at_ms, w.called_at_ms,
       w.result, t.webhook, coalesce((SELECT max(m.id) FROM message AS m WHERE m.inbox_id = w.inbox_id), 0)
FROM webhook AS w CROSS JOIN webhook_text AS t ON t.inbox_id = w.inbox_id CROSS JOIN inbox AS i ON i.id = w.inbox_id
     CROSS JOIN address AS a ON a.id = w.inbox_id / {SLOTS}
WHERE w.inbox_id > :after ORDER BY w.inbox_id LIMIT :limit
"""


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
    row_id, offset = address_place(inbox_id)
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
        batch.tell(self.inbox_key, MessageDeleted(message_id_of(self.message_key)))
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
            batch.tell(self.inbox_key, *[MessageDeleted(message_id_of(row.message_id)) for row in chosen])
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
        batch.tell(self.inbox_key, verdict_reached(message_id_of(self.message_key), self.authentication))
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


class AddMessage(Operation):
    """Store a mail for all of its live inboxes, or for none; the result is its first id."""

    changes: ClassVar[bool] = False

    def __init__(self, mail: NewMail) -> None:
        self.mail = mail
        body = mail.parsed.body
        self.size_bytes = len(mail.raw) + (len(body) if isinstance(body, str) else 0)

    @classmethod
    def is_one_statement(cls, operations: Sequence["AddMessage"]) -> bool:
        """Return whether all messages fit one INSERT; many recipients may make more."""
        return sum([len(operation.mail.inbox_ids) for operation in operations]) <= MAX_ROWS

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["AddMessage"]) -> list[Any]:
        """Store the mails of a whole batch with few statements: each call of SQLite releases the GIL."""
        inbox_ids = {inbox_id for operation in operations for inbox_id in operation.mail.inbox_ids}
        quotas = batch.state.quotas
        quotas.load(batch.connection, batch.now_ms, inbox_ids)
        rows: list[tuple[Any, ...]] = []
        outcomes: list[Any] = []
        for operation in operations:
            messages = operation._rows(batch, quotas)  # noqa: SLF001 - our own kind
            if isinstance(messages, RequestError):
                outcomes.append(messages)
                continue
            rows += messages
            outcomes.append(message_id_of(messages[0][0]))
        insert(batch.connection, rows)
        batch.added_messages += len(rows)
        batch.changes += quotas.changes()
        return outcomes

    def _recipients(self, quotas: InboxQuotas) -> dict[str, bytes]:
        """Return the live inboxes with the recipient that first named each."""
        recipients: dict[str, bytes] = {}
        for inbox_id, recipient in zip(self.mail.inbox_ids, self.mail.envelope.recipients, strict=True):
            if quotas.is_live(inbox_id):
                recipients.setdefault(inbox_id, recipient.encode())
        return recipients

    def _rows(self, batch: Batch, quotas: InboxQuotas) -> list[tuple[Any, ...]] | RequestError:
        """Return the rows to insert into ``delivery``: one for each inbox, the first with the content.

        Returns the error instead when no inbox is left or one is full.
        """
        recipients = self._recipients(quotas)
        if not recipients:
            return AddressNotFound("no recipient is left")
        cost_bytes, columns = content_columns(self.mail, b"".join(recipients.values()), batch.now_ms)
        if not quotas.charge(recipients, cost_bytes):
            return MailboxFull("a recipient has no room")
        rows: list[tuple[Any, ...]] = []
        start = content_id = 0
        for inbox_id, recipient in recipients.items():
            key = batch.draw_message_key()
            content_id = content_id or key
            # The order is that of ``MessageColumns``.
            rows.append((key, int(inbox_id), content_id, start, len(recipient), *columns))
            columns = NO_CONTENT
            start += len(recipient)
        return rows


def select_webhooks(connection: sqlite3.Connection, after: int, limit: int) -> list[WebhookRow]:
    """Read the webhooks of the inboxes that follow."""
    return [WebhookRow._make(row) for row in connection.execute(_WEBHOOKS, {"after": after, "limit": limit})]


@dataclass(eq=False)
class SetWebhook(Operation):
    """Set the webhook of an inbox that is alive, or take it away; refused as ``SetExpiry``."""

    changes: ClassVar[bool] = False
    inbox_key: int
    now_ms: int
    version: int
    webhook: str | None

    def apply(self, batch: Batch) -> RequestError | None:
        """Delete the one before, and insert this one."""
        refused = refusal(batch, self.inbox_key, self.now_ms)
        if refused is not None:
            return refused
        execute = batch.connection.execute
        if execute("DELETE FROM webhook WHERE inbox_id = ?", (self.inbox_key,)).rowcount:
            batch.state.unerased = True
        if self.webhook is not None:
            told = batch.last_message_key
            values = (self.inbox_key, self.version, told, told)
            execute("INSERT INTO webhook VALUES (?, ?, ?, ?, 0, 0, NULL, '')", values)
            text = (self.webhook, padding_bytes(len(self.webhook.encode())))
            execute("INSERT INTO webhook_text VALUES (?, ?, ?, zeroblob(?))", (self.inbox_key, FILLER, *text))
        return None


@dataclass(eq=False)
class StoreWebhook(Operation):
    """Store the state of a webhook, which leases it, or ends a lease; False if it no longer has the version."""

    changes: ClassVar[bool] = False
    row: StateRow

    def apply(self, batch: Batch) -> bool:
        """Store it, or delete the webhook."""
        inbox_key, version, *state = self.row
        execute = batch.connection.execute
        if self.row.next_at_ms is None:
            sql = "DELETE FROM webhook WHERE inbox_id = ? AND version = ?"
            is_done = execute(sql, (inbox_key, version)).rowcount > 0
            batch.state.unerased = batch.state.unerased or is_done
            return is_done
        sql = (
            "UPDATE webhook SET version = version + 1, told_message_id = ?, told_verdict_id = ?, failures = ?,"
            " next_at_ms = ?, called_at_ms = ?, result = ? WHERE inbox_id = ? AND version = ?"
        )
        return execute(sql, (*state, inbox_key, version)).rowcount > 0
