"""The writer's operations, most of which call one database function (``migrations/postgresql/``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import asyncpg

from tmpmaild.errors import (
    AddressExpired,
    AddressNotFound,
    AddressTaken,
    MailboxFull,
    MessageNotFound,
    RequestError,
    StorageFull,
)
from tmpmaild.model import (
    NAME_HELD_MS,
    Block,
    ExpiryMoved,
    InboxChange,
    InboxDeleted,
    MessageDeleted,
    NewInbox,
    NewMail,
)
from tmpmaild.storage import rows
from tmpmaild.storage.base import DELETED_AT_ONCE, OPERATOR_INBOX_ID, OPERATOR_MAIL_MS, retired_domains
from tmpmaild.storage.deleting import Deleted, Selection, deleted_at_once
from tmpmaild.storage.keys import InboxKey, MessageKey, first_key, message_id_in
from tmpmaild.storage.postgresql.partitions import slot
from tmpmaild.storage.postgresql.reading import operator_box
from tmpmaild.storage.postgresql.writer import (
    INBOX_BYTES,
    MIN_STORED_BYTES,
    Batch,
    NotCombinable,
    Operation,
    Standalone,
    allowed,
)
from tmpmaild.storage.rows import Column, StateRow, Value, body, other_inboxes, utf8_bytes, verdict_reached

# Values that database functions return instead of a result.
_FULL: Final = 2
_TAKEN: Final = -1
_SHARE_FULL: Final = -2
_NO_INBOX: Final = -1

_STEP_ROWS: Final = 500
_STEP_BYTES: Final = 8 * 1024 * 1024

_CREATE: Final = """
SELECT * FROM create_inboxes($1, $2, $3, $4, $5, $6, $7::bytea[], $8::text[], $9::bigint[], $10::bigint[],
                             $11::integer[], $12::boolean[], $13::bytea[], $14::bytea[])
"""
_LOCK: Final = "SELECT lock_inboxes($1::bigint[])"
_DELETE: Final = "SELECT * FROM delete_messages($1, $2::bigint[], $3::bigint[], $4::bigint[])"
_SELECTED: Final = """
SELECT m.key, m.content_id, c.* FROM inbox AS i
CROSS JOIN LATERAL (
    SELECT slot, key, content_id FROM message
    WHERE message.slot = i.slot AND message.inbox_id = i.id AND {condition} ORDER BY key LIMIT $3 OFFSET 0
) AS m
CROSS JOIN LATERAL (
    SELECT stored_bytes{more} FROM content WHERE content.slot = m.slot AND content.id = m.content_id OFFSET 0
) AS c
WHERE i.id = $1 ORDER BY m.key
"""
_KEYS: Final = "message.key = ANY($2::bigint[])"
_UP_TO: Final = "message.key <= $2"
# A message and its copies are stored together, so a copy has one of the first keys that its inbox assigned at that time
# or later.
_COPIES: Final = """
SELECT w.inbox_id, m.key
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS w(inbox_id, content_id, first_key)
CROSS JOIN LATERAL (SELECT slot FROM inbox WHERE inbox.id = w.inbox_id OFFSET 0) AS i
CROSS JOIN LATERAL (
    SELECT key FROM (
        SELECT key, content_id FROM message
        WHERE message.slot = i.slot AND message.inbox_id = w.inbox_id AND message.key >= w.first_key
        ORDER BY key LIMIT 1000
    ) AS later
    WHERE later.content_id = w.content_id LIMIT 1
) AS m
"""
_SET_VERDICTS: Final = "SELECT set_verdicts($1, $2::bigint[], $3::bigint[], $4::text[])"
_SET_EXPIRY: Final = "SELECT * FROM set_expiry($1, $2, $3::bigint[], $4, $5, $6)"
_SWEEP: Final = "SELECT * FROM sweep($1, $2, $3, $4, $5, $6, $7)"
_SET_WEBHOOK: Final = "SELECT set_webhook($1, $2, $3, $4)"
# Daemons up to version 1.0.2 acquire leases with take_webhooks() and store states with settle_webhooks(). Rows are
# locked in the order of their inboxes before they are compared, so that concurrent changes by other daemons are
# detected.
_STORE_WEBHOOKS: Final = """
WITH wanted AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::bigint[],
                         $7::bigint[], $8::text[])
        WITH ORDINALITY AS n(id, version, message, verdict, failures, next_ms, called_ms, result, place)
), locked AS (
    SELECT inbox_id FROM webhook WHERE inbox_id = ANY($1) ORDER BY inbox_id FOR UPDATE
), stored AS (
    UPDATE webhook AS w SET version = w.version + 1, told_message = n.message, told_verdict = n.verdict,
            failures = n.failures, next_at_ms = n.next_ms, called_at_ms = n.called_ms, result = n.result
        FROM wanted AS n
        WHERE w.inbox_id = n.id AND w.version = n.version AND n.next_ms IS NOT NULL
            AND w.inbox_id = ANY(ARRAY(SELECT inbox_id FROM locked))
        RETURNING n.place
), deleted AS (
    DELETE FROM webhook AS w USING wanted AS n
        WHERE w.inbox_id = n.id AND w.version = n.version AND n.next_ms IS NULL
            AND w.inbox_id = ANY(ARRAY(SELECT inbox_id FROM locked))
        RETURNING n.place
)
SELECT place FROM stored UNION ALL SELECT place FROM deleted
"""
_VERSION: Final = "WITH changed AS (UPDATE service SET blocks_version = blocks_version + 1)"
_ADD_BLOCKS: Final = f"""
{_VERSION}
INSERT INTO block SELECT DISTINCT ON (n.kind, n.value) n.kind, n.value, n.created_at_ms, n.expires_at_ms
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) WITH ORDINALITY
        AS n(kind, value, created_at_ms, expires_at_ms, place)
    ORDER BY n.kind, n.value, n.place DESC
    ON CONFLICT (kind, value)
        DO UPDATE SET created_at_ms = excluded.created_at_ms, expires_at_ms = excluded.expires_at_ms
"""
_REMOVE_BLOCKS: Final = f"""
{_VERSION}
DELETE FROM block AS b USING unnest($1::text[], $2::text[]) AS n(kind, value)
    WHERE b.kind = n.kind AND b.value = n.value
"""
_DOMAINS: Final = "SELECT name, kept_until_ms FROM domain"
_SET_DOMAINS: Final = """
INSERT INTO domain SELECT * FROM unnest($1::text[], $2::bigint[])
    ON CONFLICT (name) DO UPDATE SET kept_until_ms = excluded.kept_until_ms
"""
_LAST_EXPIRY: Final = """
SELECT expires_at_ms FROM inbox WHERE NOT swept AND expires_at_ms < 9223372036854775807
    ORDER BY expires_at_ms DESC LIMIT 1
"""


def stored_bytes(mail: NewMail) -> int:
    """Return the number of bytes that are charged for a message in each of its inboxes."""
    parsed = mail.parsed
    return (
        MIN_STORED_BYTES
        + len(mail.raw)
        + utf8_bytes(body(mail))
        + utf8_bytes(parsed.html or "")
        + sum(len(name) + len(value) for name, value in parsed.headers)
        + sum(len(one.filename) for one in parsed.attachments)
    )


def _without_nul(column: Column) -> Column:
    # A client's SMTP commands may contain NUL, which PostgreSQL does not allow in text.
    def value(mail: NewMail) -> Value:
        text = column.value(mail)
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(text, str) else text

    return column._replace(value=value) if column.kind == "text" else column


CONTENT: Final = (Column("stored_bytes", "bigint", stored_bytes), *map(_without_nul, rows.CONTENT))
"""The columns of ``content``, in the order of both the table and ``deliver``'s parameters; the first is the cost."""

_ARRAYS: Final = (
    *("bigint[]", "integer[]", "bigint[]"),
    *("integer[]", "integer[]", "integer[]", "text[]"),
    *(f"{column.kind}[]" for column in CONTENT),
)
_DELIVER: Final = "SELECT * FROM deliver($1, $2, $3, $4::bigint[], {})".format(
    ", ".join(f"${number}::{kind}" for number, kind in enumerate(_ARRAYS, 5))
)
_OTHER_VALUES: Final = tuple(column.value for column in CONTENT[1:])


class AddMessage(Operation[str]):
    """Store a message in all of its live inboxes or in none of them; the result is its id in the first inbox."""

    def __init__(self, mail: NewMail) -> None:
        self.mail = mail
        self.recipients: dict[InboxKey, str] = {}
        for inbox_id, recipient in zip(mail.inbox_ids, mail.envelope.recipients, strict=True):
            self.recipients.setdefault(InboxKey(int(inbox_id)), recipient)
        self.rows = len(self.recipients)
        self.size_bytes = len(mail.raw) + utf8_bytes(body(mail))

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> list[str | RequestError]:
        """Store all messages in one statement, or none of them."""
        left = [operation for operation in operations if operation.recipients]
        if len(left) < len(operations):
            stored = iter(await cls.run(batch, left) if left else ())
            return [next(stored) if one.recipients else AddressNotFound("no recipient is left") for one in operations]
        delivery = _Delivery(operations)
        found = await delivery.run(batch)
        if found["missing"]:
            for operation in operations:
                for inbox_key in found["missing"]:
                    operation.recipients.pop(inbox_key, None)
            return await cls.run(batch, operations)
        if found["refusal"] is None:
            batch.changes += delivery.changes(found)
            return [*delivery.message_ids(found["keys_before"])]
        if len(operations) > 1:
            raise NotCombinable
        return [_refused(found["refusal"])]


class AddOperatorMessage(AddMessage):
    """Store a message whose recipients include the operator; delete older messages if the operator's inbox is full."""

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> list[str | RequestError]:
        """Store a single message and, in the same transaction, delete older messages to make room for it."""
        if len(operations) > 1:
            raise NotCombinable
        (operation,) = operations
        mail, cost_bytes = operation.mail, stored_bytes(operation.mail)
        try:
            async with batch.connection.transaction():
                await batch.connection.execute(_LOCK, sorted(operation.recipients))
                box = await operator_box(batch.connection)
                if box.refuses(mail.client, cost_bytes):
                    return [MailboxFull("the client's share of the operator's inbox is used up")]
                if gone := box.to_evict(cost_bytes):
                    await _delete(batch, [(InboxKey(int(OPERATOR_INBOX_ID)), key) for key in gone])
                (outcome,) = await AddMessage.run(batch, [operation])
                if gone and isinstance(outcome, RequestError):
                    raise outcome  # nothing was stored, so roll back the deletions
        except RequestError as refused:
            batch.changes.clear()
            return [refused]
        batch.evicted = len(gone)
        return [outcome]


def addition(mail: NewMail) -> AddMessage:
    """Return the operation that stores a message."""
    return AddOperatorMessage(mail) if OPERATOR_INBOX_ID in mail.inbox_ids else AddMessage(mail)


class _Delivery:
    """The messages that one statement stores, and their inboxes. The inboxes are numbered from 1 in key order."""

    def __init__(self, operations: Sequence[AddMessage]) -> None:
        mails = [operation.mail for operation in operations]
        costs = [stored_bytes(mail) for mail in mails]
        self._columns = [costs, *[[value(mail) for mail in mails] for value in _OTHER_VALUES]]
        self._inbox_keys = sorted({inbox_key for operation in operations for inbox_key in operation.recipients})
        self._messages = [0] * len(self._inbox_keys)
        self._bytes = [0] * len(self._inbox_keys)
        self._rows: list[tuple[int, int, int, str]] = []
        self._firsts: list[int] = []
        places = {inbox_key: place for place, inbox_key in enumerate(self._inbox_keys)}
        for number, (operation, cost) in enumerate(zip(operations, costs, strict=True), 1):
            self._firsts.append(len(self._rows))
            for inbox_key, recipient in operation.recipients.items():
                place = places[inbox_key]
                self._messages[place] += 1
                self._bytes[place] += cost
                self._rows.append((number, place + 1, self._messages[place], recipient))

    async def run(self, batch: Batch) -> asyncpg.Record:
        """Run the statement."""
        limits = batch.usage.limits
        return await batch.call(
            _DELIVER,
            batch.now_ms,
            limits.max_bytes,
            allowed(limits),
            self._inbox_keys,
            self._messages,
            self._bytes,
            *zip(*self._rows, strict=True),
            *self._columns,
        )

    def changes(self, found: asyncpg.Record) -> list[InboxChange]:
        """Return the state of each inbox after the statement."""
        states = zip(self._inbox_keys, found["is_full"], found["share_full"], strict=True)
        return [InboxChange(str(key), full=full or share, share_full=share) for key, full, share in states]

    def message_ids(self, keys_before: Sequence[MessageKey]) -> list[str]:
        """Return the first id of each message."""
        firsts = (self._rows[first] for first in self._firsts)
        return [
            message_id_in(self._inbox_keys[place - 1], MessageKey(keys_before[place - 1] + rank))
            for _, place, rank, _ in firsts
        ]


def _refused(reason: int) -> RequestError:
    return MailboxFull("an inbox is full") if reason == _FULL else StorageFull("storage.max_bytes is reached")


@dataclass(eq=False, kw_only=True)
class CreateInbox(Operation[str]):
    """Store an address; the result is the new inbox's id."""

    new: NewInbox
    name_hash: bytes
    creator_hash: bytes | None

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> list[str | RequestError]:
        """Create each inbox whose name is free and whose creator's share is not used up; reject all other inboxes."""
        if len({one.name_hash for one in operations}) < len(operations):
            raise NotCombinable  # of two inboxes with the same name, the first may be rejected for a different reason
        if len({one.new.name_held_ms for one in operations}) > 1:
            raise NotCombinable
        results = await _create(batch, operations)
        if len(operations) > 1 and any(isinstance(result, StorageFull) for result in results):
            raise NotCombinable
        return results


async def _create(batch: Batch, operations: Sequence[CreateInbox]) -> list[str | RequestError]:
    limits = batch.usage.limits
    news = [operation.new for operation in operations]
    found = await batch.call(
        _CREATE,
        batch.now_ms,
        news[0].name_held_ms,
        limits.max_bytes,
        INBOX_BYTES,
        limits.creator_bytes - MIN_STORED_BYTES,
        [operation.name_hash for operation in operations],
        [new.address for new in news],
        [new.created_at_ms for new in news],
        [new.expires_at_ms for new in news],
        [slot(new.expires_at_ms, new.created_at_ms) for new in news],  # _make_place has added the slot's partitions
        [new.private for new in news],
        [new.token_hash for new in news],
        [operation.creator_hash for operation in operations],
    )
    return [_created(result) for result in found["results"]]


def _created(result: int) -> str | RequestError:
    if result > 0:
        return str(result)
    if result == _TAKEN:
        return AddressTaken("the name is in use or in quarantine")
    if result == _SHARE_FULL:
        return MailboxFull("the creator's quota has no room for another address")
    return StorageFull("storage.max_bytes is reached")


@dataclass(eq=False)
class DeleteMessage(Operation[Deleted]):
    """Delete one message from an inbox; several single deletions can share a statement."""

    inbox_key: InboxKey
    message_key: MessageKey

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> list[Deleted]:
        """Delete each message; if several operations specify a message, only the first reports it as deleted."""
        wanted = [(operation.inbox_key, operation.message_key) for operation in operations]
        places = list(dict.fromkeys(wanted))
        counts = dict.fromkeys(await _delete(batch, places), 1)
        return [Deleted(counts.pop(place, 0), more=False) for place in wanted]


async def _delete(batch: Batch, places: Sequence[tuple[InboxKey, MessageKey]]) -> set[tuple[InboxKey, MessageKey]]:
    """Delete messages by inbox key and message key, and report the deletions; return the messages that existed."""
    columns = map(list, zip(*places, strict=True))
    found = await batch.call(_DELETE, allowed(batch.usage.limits), *columns)
    there = set()
    states = zip(places, found["deleted"], found["is_full"], found["share_full"], strict=True)
    for (inbox_key, key), is_there, full, share_full in states:
        if is_there:
            there.add((inbox_key, key))
            notice = MessageDeleted(message_id_in(inbox_key, key))
            batch.changes.append(InboxChange(str(inbox_key), full=full, share_full=share_full, notice=notice))
    return there


@dataclass(eq=False)
class SetVerdict(Operation[None]):
    """Store the verdict on a message.

    The result is ``MessageNotFound`` if the message no longer exists or already has a verdict, or if its inbox has
    expired.
    """

    inbox_key: InboxKey
    message_key: MessageKey
    authentication: str

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> list[RequestError | None]:
        """Store the verdicts, and report them."""
        values = [(one.inbox_key, one.message_key, one.authentication) for one in operations]
        stored = await batch.connection.fetchval(_SET_VERDICTS, batch.now_ms, *map(list, zip(*values, strict=True)))
        outcomes: list[RequestError | None] = []
        for (inbox_key, key, text), is_stored in zip(values, stored, strict=True):
            if is_stored:
                notice = verdict_reached(message_id_in(inbox_key, key), text)
                batch.changes.append(InboxChange(str(inbox_key), full=False, notice=notice))
            outcomes.append(None if is_stored else MessageNotFound("no such message, or it already has a verdict"))
        return outcomes


@dataclass(eq=False)
class StoreWebhook(Operation[bool]):
    """Store a webhook's state, which may start or end a lease; the result is False if its version has changed."""

    row: StateRow

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> list[bool]:
        """Store each state whose version matches the stored row; if two states have this version, store only one."""
        columns = zip(*[one.row for one in operations], strict=True)
        places = {row["place"] for row in await batch.connection.fetch(_STORE_WEBHOOKS, *map(list, columns))}
        return [place in places for place in range(1, len(operations) + 1)]


# Each change increments a version, so that a daemon that missed the notification detects the change.


async def delete_messages(batch: Batch, inbox_key: InboxKey, selected: Selection) -> Deleted:
    """Delete selected messages, oldest first, up to the limit of one transaction.

    One statement selects the messages and, if ``selected.copies`` is true, a second statement finds their copies. The
    last statement deletes the messages and copies in a separate transaction.
    """
    condition, wanted = (_UP_TO, selected.up_to_key) if selected.keys is None else (_KEYS, selected.keys)
    more = ", received_at_ms, session" if selected.copies else ""
    sql = _SELECTED.format(condition=condition, more=more)
    rows = await batch.connection.fetch(sql, inbox_key, wanted, DELETED_AT_ONCE + 1)
    inboxes = [other_inboxes(row["session"], inbox_key) for row in rows] if selected.copies else []
    chosen = rows[: deleted_at_once((row["stored_bytes"] for row in rows), map(len, inboxes))]
    places = [(inbox_key, row["key"]) for row in chosen]
    of_copies = [
        (other, row["content_id"], first_key(row["received_at_ms"]))
        for row, others in zip(chosen, inboxes, strict=False)
        for other in others
    ]
    if of_copies:
        found = await batch.connection.fetch(_COPIES, *map(list, zip(*of_copies, strict=True)))
        places += [(row["inbox_id"], row["key"]) for row in found]
    deleted = await _delete(batch, places) if places else set()
    return Deleted(sum(inbox == inbox_key for inbox, _ in deleted), more=len(rows) > len(chosen))


async def move_expiry(
    batch: Batch, inbox_key: InboxKey, *, expires_at_ms: int, requested_at_ms: int
) -> RequestError | None:
    """Set the expiry of a live inbox. If it is not after ``requested_at_ms``, the inbox expires now.

    Returns ``AddressExpired`` if the inbox has expired, ``AddressNotFound`` if it has been forgotten.
    """
    # If the inbox expired while this operation was queued, a sweep may have deleted some of its messages.
    now_ms, is_end = max(requested_at_ms, batch.now_ms), expires_at_ms <= requested_at_ms
    new_slot = None if is_end else slot(expires_at_ms, requested_at_ms)
    found = await batch.call(_SET_EXPIRY, now_ms, allowed(batch.usage.limits), inbox_key, expires_at_ms, new_slot)
    refused = _refusal(found["refusal"])
    if refused is not None:
        return refused
    if is_end:  # "full" means that the inbox accepts no mail
        change = InboxChange(str(inbox_key), full=True, notice=InboxDeleted())
    else:
        state = {"full": found["is_full"], "share_full": found["share_full"]}
        change = InboxChange(str(inbox_key), **state, notice=ExpiryMoved(expires_at_ms))
    batch.changes.append(change)
    return None


async def set_webhook(
    batch: Batch, inbox_key: InboxKey, webhook: str | None, *, requested_at_ms: int, version: int
) -> RequestError | None:
    """Set or replace the webhook of a live inbox, or remove it; returns the same errors as ``move_expiry``."""
    now_ms = max(requested_at_ms, batch.now_ms)
    return _refusal(await batch.connection.fetchval(_SET_WEBHOOK, now_ms, inbox_key, version, webhook))


def _refusal(result: int | None) -> RequestError | None:
    """Return the error for an inbox that could not be changed because it has expired or been forgotten."""
    if result == _NO_INBOX:
        return AddressNotFound("no such inbox")
    return None if result is None else AddressExpired(result)


async def sweep(batch: Batch, now_ms: int) -> bool:
    """Delete some expired data; return whether there may be more."""
    operator_before = first_key(max(now_ms - OPERATOR_MAIL_MS, 0))
    values = (now_ms, NAME_HELD_MS, INBOX_BYTES, operator_before, _STEP_ROWS, _STEP_BYTES)
    more: bool = (await batch.call(_SWEEP, *values))["more"]
    return more


async def count_usage(batch: Batch) -> None:
    """Read the total usage of all daemons."""
    batch.usage.note(await batch.connection.fetchval("SELECT count_usage($1, 0, 0, 0)", batch.usage.shard))


async def change_blocks(batch: Batch, added: Sequence[Block], removed: Sequence[tuple[str, str]]) -> None:
    """Store blocks, replacing blocks of the same kind and value, and delete the ``removed`` blocks."""
    connection = batch.connection
    async with connection.transaction():
        await connection.execute(
            _ADD_BLOCKS, *([getattr(one, name) for one in added] for name in Block.__struct_fields__)
        )
        await connection.execute(_REMOVE_BLOCKS, [kind for kind, _ in removed], [value for _, value in removed])


async def serve_domains(batch: Batch, domains: Sequence[str], *, now_ms: int, until_ms: int) -> Mapping[str, int]:
    """Store the domains that accept new addresses; return the retired domains, each with its removal time."""
    connection = batch.connection
    async with connection.transaction():
        await connection.execute("LOCK TABLE domain IN SHARE ROW EXCLUSIVE MODE")  # another daemon may be starting too
        known: dict[str, int | None] = {row["name"]: row["kept_until_ms"] for row in await connection.fetch(_DOMAINS)}
        last_expiry_ms = await connection.fetchval(_LAST_EXPIRY) or 0
        retired = retired_domains(known, domains, now_ms=now_ms, until_ms=max(until_ms, last_expiry_ms))
        wanted: dict[str, int | None] = dict.fromkeys(domains) | retired
        gone = [name for name in known if name not in wanted]
        await connection.execute("DELETE FROM domain WHERE name = ANY($1::text[])", gone)
        await connection.execute(_SET_DOMAINS, list(wanted), list(wanted.values()))
    return retired


def deletion(inbox_key: InboxKey, selected: Selection) -> Operation[Deleted]:
    """Return the operation that deletes the selected messages; deletions of single messages can share a statement."""
    key = selected.only_key
    return Standalone(delete_messages, inbox_key, selected) if key is None else DeleteMessage(inbox_key, key)
