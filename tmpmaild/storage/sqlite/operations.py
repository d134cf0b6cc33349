"""Operations on inboxes, messages and webhooks, and the rows that they read and write.

Expired messages are deleted in ``sweeping.py``.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Self

from msgspec.structs import astuple

from tmpmaild.errors import AddressExpired, AddressNotFound, AddressTaken, MailboxFull, MessageNotFound, RequestError
from tmpmaild.model import (
    Block,
    ExpiryMoved,
    InboxChange,
    InboxDeleted,
    MessageDeleted,
    NewInbox,
    NewMail,
)
from tmpmaild.storage.base import DELETED_AT_ONCE, OPERATOR_INBOX_ID, Limits, retired_domains
from tmpmaild.storage.deleting import Deleted, Selection, deleted_at_once
from tmpmaild.storage.keys import InboxKey, MessageKey, message_id_of
from tmpmaild.storage.paging import NEVER_MS
from tmpmaild.storage.rows import StateRow, verdict_reached
from tmpmaild.storage.sqlite.layout import (
    EMPTY_SLOTS,
    FILLER,
    MAX_ROWS,
    NO_CONTENT,
    SLOT_BYTES,
    InboxQuotas,
    Row,
    address_place,
    content_columns,
    creator_is_full,
    insert,
    padding_bytes,
)
from tmpmaild.storage.sqlite.reading import operator_box
from tmpmaild.storage.sqlite.space import DiskSpace, cap_pages
from tmpmaild.storage.sqlite.writer import MAX_BATCH_BYTES, Batch, Operation

_LAST_EXPIRY: Final = (
    "SELECT expires_at_ms FROM inbox WHERE swept = 0 AND expires_at_ms < ? ORDER BY expires_at_ms DESC LIMIT 1"
)

_WRITE_SLOT: Final = (
    "UPDATE address SET slots = CAST(substr(slots, 1, ?) || ? || substr(slots, ?) AS BLOB) WHERE id = ?"
)


def create_inbox(batch: Batch, new: NewInbox, *, name_hash: bytes, creator_hash: bytes | None) -> str | RequestError:
    """Store an address if its name is free and its creator is within the quota; return the new inbox's id."""
    execute, limits = batch.connection.execute, batch.state.quotas.limits
    forgotten_ms = batch.now_ms - new.name_held_ms
    known = execute("SELECT expires_at_ms > ? FROM inbox WHERE name_hash = ?", (forgotten_ms, name_hash)).fetchone()
    if known == (1,):
        return AddressTaken("the name is in use or in quarantine")
    if creator_hash is not None and creator_is_full(batch.connection, creator_hash, limits):
        return MailboxFull("the creator's quota has no room for another address")
    if known:
        # The name is free again, but the old inbox has not been swept yet: keep its row, so that its mail is deleted.
        execute("UPDATE inbox SET name_hash = randomblob(16) WHERE name_hash = ?", (name_hash,))
    inbox_id = execute(
        "INSERT INTO inbox (name_hash, created_at_ms, expires_at_ms, private, token_hash, creator)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (name_hash, new.created_at_ms, new.expires_at_ms, new.private, new.token_hash, creator_hash),
    ).lastrowid
    assert inbox_id is not None
    _write_address(batch, InboxKey(inbox_id), new.address)
    batch.added_inboxes += 1
    return str(inbox_id)


def _write_address(batch: Batch, inbox_key: InboxKey, address: str) -> None:
    row_id, _ = address_place(inbox_key)
    batch.connection.execute("INSERT OR IGNORE INTO address VALUES (?, ?, ?)", (row_id, FILLER, EMPTY_SLOTS))
    write_slots(batch.connection, [inbox_key], address.encode().ljust(SLOT_BYTES))


def write_slots(connection: sqlite3.Connection, inbox_keys: Iterable[InboxKey], slot: bytes) -> None:
    """Overwrite the slots of these inboxes; slots in missing rows are skipped.

    SQLite updates a row in place if its size does not change. ``blobopen()`` is not used because each call leaks about
    90 bytes until the connection is closed (CPython 3.11 to 3.14).
    """
    places = [address_place(inbox_key) for inbox_key in inbox_keys]
    connection.executemany(_WRITE_SLOT, [(offset, slot, offset + SLOT_BYTES + 1, row_id) for row_id, offset in places])


class MessageRow(NamedTuple):
    """The fields of a message that are needed to delete it."""

    key: MessageKey
    inbox_key: InboxKey
    content_id: int
    recipient_at: int
    recipient_bytes: int
    stored_bytes: int


MESSAGE_ROWS = (
    "SELECT m.id, m.inbox_id, m.content_id, m.recipient_at, m.recipient_bytes, c.stored_bytes"
    " FROM message AS m JOIN content AS c ON c.id = m.content_id"
)
"""Selects the columns of ``MessageRow``; the caller adds a WHERE clause."""

# The first message of a transaction has the id of the content; the index contains the other messages.
_COUNT_COPIES: Final = (
    "SELECT (SELECT count(*) FROM message AS m WHERE m.content_id = json_each.value AND m.content_id <> m.id)"
    " FROM json_each(?)"
)
_FIRST: Final = f"{MESSAGE_ROWS} WHERE m.id IN (SELECT value FROM json_each(?))"
_OTHERS: Final = f"{MESSAGE_ROWS} WHERE m.content_id IN (SELECT value FROM json_each(?)) AND m.content_id <> m.id"


def delete_messages(batch: Batch, rows: Sequence[MessageRow]) -> None:
    """Delete messages, and each content that no other message refers to."""
    if not rows:
        return
    connection = batch.connection
    # Store the highest id, because it may belong to a deleted message.
    connection.execute("UPDATE daemon SET last_message_id = ?", (batch.last_message_key,))
    message_ids = json_array([row.key for row in rows])
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
    # SQLite updates a row in place if its size does not change.
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
    """Return the numbers as a JSON array for ``json_each(?)``: one statement can then process any number of values."""
    return str(list(values))


def delete_selected(batch: Batch, inbox_key: InboxKey, selected: Selection) -> Deleted:
    """Delete selected messages, oldest first, up to the limit of one transaction."""
    condition = "m.id <= ?" if selected.keys is None else "m.id IN (SELECT value FROM json_each(?))"
    sql = f"{MESSAGE_ROWS} WHERE m.inbox_id = ? AND {condition} ORDER BY m.id LIMIT ?"
    wanted = selected.up_to_key if selected.keys is None else json_array(selected.keys)
    found = batch.connection.execute(sql, (inbox_key, wanted, DELETED_AT_ONCE + 1))
    rows = list(map(MessageRow._make, found))
    copies = _count_copies(batch.connection, rows) if selected.copies else ()
    chosen = rows[: deleted_at_once((row.stored_bytes for row in rows), copies)]
    if chosen:
        batch.state.unerased = True
        gone = _with_copies(batch.connection, chosen) if selected.copies else chosen
        delete_messages(batch, gone)
        batch.report([(row.inbox_key, MessageDeleted(message_id_of(row.key))) for row in gone])
    return Deleted(len(chosen), more=len(rows) > len(chosen))


def _count_copies(connection: sqlite3.Connection, rows: Sequence[MessageRow]) -> list[int]:
    """For each message, return the number of other messages that share its content."""
    found = connection.execute(_COUNT_COPIES, (json_array([row.content_id for row in rows]),))
    return [count for (count,) in found]


def _with_copies(connection: sqlite3.Connection, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Return all messages that share the contents of these messages."""
    content_ids = (json_array([row.content_id for row in rows]),)
    return [MessageRow._make(row) for sql in (_FIRST, _OTHERS) for row in connection.execute(sql, content_ids)]


class DeleteMessages(Operation[Deleted]):
    """Delete selected messages of an inbox, up to the limit of one transaction."""

    def __init__(self, inbox_key: InboxKey, selected: Selection) -> None:
        self._inbox_key = inbox_key
        self._selected = selected
        # The messages' sizes are not known here. Deleting 10 MiB takes about 40 ms, so up to two deletions of single
        # messages may share a batch.
        self.size_bytes = MAX_BATCH_BYTES if selected.only_key is None else MAX_BATCH_BYTES // 2

    def apply(self, batch: Batch) -> Deleted:
        """Delete the messages."""
        return delete_selected(batch, self._inbox_key, self._selected)


def set_verdict(batch: Batch, inbox_key: InboxKey, message_key: MessageKey, authentication: str) -> RequestError | None:
    """Store the verdict on a message.

    Returns ``MessageNotFound`` if the message no longer exists or already has a verdict, or if its inbox has expired.
    """
    sql = (
        "INSERT OR IGNORE INTO verdict SELECT m.id, ?, ?, zeroblob(?) FROM message AS m JOIN inbox AS i"
        " ON i.id = m.inbox_id WHERE m.id = ? AND +m.inbox_id = ? AND +i.swept = 0 AND i.expires_at_ms > ?"
    )
    text = (authentication, padding_bytes(len(authentication.encode())))
    if not batch.connection.execute(sql, (FILLER, *text, message_key, inbox_key, batch.now_ms)).rowcount:
        return MessageNotFound("no such message, or it already has a verdict")
    batch.report([(inbox_key, verdict_reached(message_id_of(message_key), authentication))])
    return None


def _refusal(batch: Batch, inbox_key: InboxKey, now_ms: int) -> RequestError | None:
    """Return an error if an inbox cannot be changed because it has expired or has been forgotten."""
    sql = "SELECT expires_at_ms, swept FROM inbox WHERE id = ?"
    row = batch.connection.execute(sql, (inbox_key,)).fetchone()
    if row is None:
        return AddressNotFound("no such inbox")
    expires_at_ms, swept = row
    # If the inbox expired while the operation was queued, a sweep may have deleted some of its messages.
    now_ms = max(now_ms, batch.now_ms)
    return AddressExpired(min(expires_at_ms, now_ms)) if swept or expires_at_ms <= now_ms else None


def move_expiry(batch: Batch, inbox_key: InboxKey, *, expires_at_ms: int, now_ms: int) -> RequestError | None:
    """Set the expiry of a live inbox. If it is not in the future, the inbox expires now and the sweep deletes it."""
    refused = _refusal(batch, inbox_key, now_ms)
    if refused is not None:
        return refused
    batch.connection.execute("UPDATE inbox SET expires_at_ms = ? WHERE id = ?", (expires_at_ms, inbox_key))
    if expires_at_ms <= now_ms:  # "full" means that the inbox accepts no mail
        batch.changes.append(InboxChange(str(inbox_key), full=True, notice=InboxDeleted()))
    else:
        batch.report([(inbox_key, ExpiryMoved(expires_at_ms))])
    return None


class AddMessage(Operation[str]):
    """Store a message in all of its live inboxes or in none of them; the result is its first id."""

    changes: ClassVar[bool] = False

    def __init__(self, mail: NewMail) -> None:
        self.mail = mail
        body = mail.parsed.body
        self.size_bytes = len(mail.raw) + (len(body) if isinstance(body, str) else 0)

    @classmethod
    def is_one_statement(cls, operations: Sequence[Self]) -> bool:
        """Return whether all rows fit in one INSERT, given that a message has a row for each of its inboxes."""
        return sum([len(operation.mail.inbox_ids) for operation in operations]) <= MAX_ROWS

    @classmethod
    def run(cls, batch: Batch, operations: Sequence[Self]) -> list[str | RequestError]:
        """Store a batch of messages in as few statements as possible: each SQLite call releases the GIL."""
        inbox_ids = {inbox_id for operation in operations for inbox_id in operation.mail.inbox_ids}
        quotas = batch.state.quotas
        quotas.load(batch.connection, batch.now_ms, inbox_ids)
        rows: list[Row] = []
        outcomes: list[str | RequestError] = []
        for operation in operations:
            laid_out = operation._rows(batch, quotas)  # noqa: SLF001 - a private method of the same class
            if isinstance(laid_out, RequestError):
                outcomes.append(laid_out)
                continue
            first_key, messages = laid_out
            rows += messages
            outcomes.append(message_id_of(first_key))
        insert(batch.connection, rows)
        batch.added_messages += len(rows)
        batch.changes += quotas.changes()
        return outcomes

    def _recipients(self, quotas: InboxQuotas) -> dict[str, bytes]:
        """Return the live inboxes, each with its first recipient."""
        recipients: dict[str, bytes] = {}
        for inbox_id, recipient in zip(self.mail.inbox_ids, self.mail.envelope.recipients, strict=True):
            if quotas.is_live(inbox_id):
                recipients.setdefault(inbox_id, recipient.encode())
        return recipients

    def _rows(self, batch: Batch, quotas: InboxQuotas) -> tuple[MessageKey, list[Row]] | RequestError:
        """Return the first key and the rows for ``delivery``, one per inbox; only the first row contains the content.

        Returns an error instead if no live inbox remains or an inbox is full.
        """
        recipients = self._recipients(quotas)
        if not recipients:
            return AddressNotFound("no recipient is left")
        cost_bytes, columns = content_columns(self.mail, b"".join(recipients.values()), batch.now_ms)
        if not quotas.charge(recipients, cost_bytes):
            return MailboxFull("a recipient's inbox has no room")
        rows: list[Row] = []
        start, first_key = 0, MessageKey(0)
        for inbox_id, recipient in recipients.items():
            key = batch.draw_message_key()
            first_key = first_key or key
            # The values are in the order of ``MessageColumns``.
            rows.append((key, int(inbox_id), first_key, start, len(recipient), *columns))
            columns = NO_CONTENT
            start += len(recipient)
        return first_key, rows


class AddOperatorMessage(AddMessage):
    """Store a message, also in the operator's inbox; if that inbox is full, its older messages are deleted."""

    changes: ClassVar[bool] = True

    @classmethod
    def is_one_statement(cls, operations: Sequence[Self]) -> bool:
        """Return False, because older messages may have to be deleted first."""
        del operations
        return False

    @classmethod
    def run(cls, batch: Batch, operations: Sequence[Self]) -> list[str | RequestError]:
        """Store the messages one after the other."""
        return [_store_for_operator(batch, operation) for operation in operations]


def _store_for_operator(batch: Batch, operation: AddMessage) -> str | RequestError:
    mail, box = operation.mail, operator_box(batch.connection)
    recipients = dict(zip(mail.inbox_ids, mail.envelope.recipients, strict=True))
    cost_bytes, _ = content_columns(mail, "".join(recipients.values()).encode(), batch.now_ms)
    if box.refuses(mail.client, cost_bytes):
        return MailboxFull("the client's share of the operator's inbox is used up")
    if gone := box.to_evict(cost_bytes):
        sql = f"{MESSAGE_ROWS} WHERE m.id IN (SELECT value FROM json_each(?))"
        found = batch.connection.execute(sql, (json_array(gone),))
        delete_messages(batch, list(map(MessageRow._make, found)))
        batch.state.unerased = True
        batch.state.quotas.forget()
        batch.evicted += len(gone)
    (outcome,) = AddMessage.run(batch, [operation])
    if gone and isinstance(outcome, RequestError):
        raise outcome  # nothing was stored, so the caller must roll back the deletions
    return outcome


def addition(mail: NewMail) -> AddMessage:
    """Return the operation that stores a message."""
    return AddOperatorMessage(mail) if OPERATOR_INBOX_ID in mail.inbox_ids else AddMessage(mail)


def set_webhook(
    batch: Batch, inbox_key: InboxKey, webhook: str | None, *, now_ms: int, version: int
) -> RequestError | None:
    """Set or replace the webhook of a live inbox, or remove it if ``webhook`` is None."""
    refused = _refusal(batch, inbox_key, now_ms)
    if refused is not None:
        return refused
    execute = batch.connection.execute
    if execute("DELETE FROM webhook WHERE inbox_id = ?", (inbox_key,)).rowcount:
        batch.state.unerased = True
    if webhook is not None:
        newest = batch.last_message_key
        execute("INSERT INTO webhook VALUES (?, ?, ?, ?, 0, 0, NULL, '')", (inbox_key, version, newest, newest))
        text = (webhook, padding_bytes(len(webhook.encode())))
        execute("INSERT INTO webhook_text VALUES (?, ?, ?, zeroblob(?))", (inbox_key, FILLER, *text))
    return None


def store_webhook(batch: Batch, row: StateRow) -> bool:
    """Store the state of a webhook, or remove the webhook; return False if its version has changed."""
    inbox_key, version, *state = row
    execute = batch.connection.execute
    if row.next_at_ms is None:
        if not execute("DELETE FROM webhook WHERE inbox_id = ? AND version = ?", (inbox_key, version)).rowcount:
            return False
        batch.state.unerased = True
        return True
    sql = (
        "UPDATE webhook SET version = version + 1, told_message_id = ?, told_verdict_id = ?, failures = ?,"
        " next_at_ms = ?, called_at_ms = ?, result = ? WHERE inbox_id = ? AND version = ?"
    )
    return execute(sql, (*state, inbox_key, version)).rowcount > 0


def change_blocks(batch: Batch, added: Sequence[Block], removed: Sequence[tuple[str, str]]) -> None:
    """Store blocks, replacing blocks of the same kind and value, and delete the ``removed`` blocks."""
    executemany = batch.connection.executemany
    executemany(
        "REPLACE INTO block (kind, value, created_at_ms, expires_at_ms) VALUES (?, ?, ?, ?)", map(astuple, added)
    )
    executemany("DELETE FROM block WHERE kind = ? AND value = ?", removed)
    batch.state.unerased = True


def serve_domains(batch: Batch, domains: Sequence[str], *, now_ms: int, until_ms: int) -> Mapping[str, int]:
    """Store the domains that accept new addresses; return the retired domains, each with its removal time."""
    connection = batch.connection
    known: dict[str, int | None] = dict(connection.execute("SELECT name, kept_until_ms FROM domain").fetchall())
    last = connection.execute(_LAST_EXPIRY, (NEVER_MS,)).fetchone()
    retired = retired_domains(known, domains, now_ms=now_ms, until_ms=max(until_ms, *last) if last else until_ms)
    wanted = dict.fromkeys(domains) | retired
    gone = [(name,) for name in known if name not in wanted]
    connection.executemany("DELETE FROM domain WHERE name = ?", gone)
    connection.executemany("REPLACE INTO domain (name, kept_until_ms) VALUES (?, ?)", wanted.items())
    return retired


def change_limits(batch: Batch, limits: Limits, space: DiskSpace) -> None:
    """Apply new limits, including the file's cap; the writer's next measurement uses them."""
    cap_pages(batch.connection, limits.max_bytes)
    space.change(cap_bytes=limits.max_bytes, reserve_bytes=limits.reserve_bytes)
    batch.state.quotas = InboxQuotas(limits)
