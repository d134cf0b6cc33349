"""The operations on inboxes: create one, delete one of its messages or several, set its expiry or end it, sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tmpmaild.errors import (
    AddressExpired,
    AddressNotFound,
    AddressTaken,
    MailboxFull,
    MessageNotFound,
    RequestError,
    StorageFull,
)
from tmpmaild.model import NAME_HELD_MS, ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, NewInbox
from tmpmaild.storage import ids
from tmpmaild.storage.base import DELETED_AT_ONCE, OPERATOR_MAIL_MS
from tmpmaild.storage.enginestorage import Deleted, Doomed, deleted_at_once
from tmpmaild.storage.postgresql.partitions import slot
from tmpmaild.storage.postgresql.quotas import INBOX_BYTES, LEAST_STORED_BYTES, allowed
from tmpmaild.storage.postgresql.writer import Batch, NotTogether, Operation
from tmpmaild.storage.rows import verdict_reached

_CREATE: Final = """
SELECT * FROM create_inboxes($1, $2, $3, $4, $5, $6, $7::bytea[], $8::text[], $9::bigint[], $10::bigint[],
                             $11::integer[], $12::boolean[], $13::bytea[], $14::bytea[])
"""
_DELETE: Final = "SELECT * FROM delete_messages($1, $2::bigint[], $3::bigint[], $4::bigint[])"
_DOOMED: Final = """
SELECT m.key, c.stored_bytes FROM inbox AS i
CROSS JOIN LATERAL (
    SELECT slot, key, content_id FROM message
    WHERE message.slot = i.slot AND message.inbox_id = i.id AND {condition} ORDER BY key LIMIT $3 OFFSET 0
) AS m
CROSS JOIN LATERAL (
    SELECT stored_bytes FROM content WHERE content.slot = m.slot AND content.id = m.content_id OFFSET 0
) AS c
WHERE i.id = $1 ORDER BY m.key
"""
_DOOMED_KEYS: Final = _DOOMED.format(condition="message.key = ANY($2::bigint[])")
_DOOMED_UP_TO: Final = _DOOMED.format(condition="message.key <= $2")
_SET_VERDICTS: Final = "SELECT set_verdicts($1, $2::bigint[], $3::bigint[], $4::text[])"
_SET_EXPIRY: Final = "SELECT * FROM set_expiry($1, $2, $3::bigint[], $4, $5, $6)"
_TAKEN: Final = -1
_SHARE_FULL: Final = -2
_NO_INBOX: Final = -1

_STEP_ROWS: Final = 500
_STEP_BYTES: Final = 8 * 1024 * 1024
_SWEEP: Final = "SELECT * FROM sweep($1, $2, $3, $4, $5, $6, $7)"


@dataclass(eq=False)
class CreateInbox(Operation):
    """Store an address; the result is the new inbox's id."""

    new: NewInbox
    name_hash: bytes
    creator_hash: bytes | None

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["CreateInbox"]) -> list[Any]:
        """Create each inbox whose name is free and whose creator is within its share; reject the others."""
        if len({one.name_hash for one in operations}) < len(operations):
            raise NotTogether  # of those who want one name the first may be refused it for another reason
        results = await _create(batch, operations)
        if len(operations) > 1 and any(isinstance(result, StorageFull) for result in results):
            raise NotTogether
        return results


async def _create(batch: Batch, operations: Sequence[CreateInbox]) -> list[Any]:
    usage = batch.usage
    news = [operation.new for operation in operations]
    found = await batch.connection.fetchrow(
        _CREATE,
        usage.shard,
        batch.now_ms,
        NAME_HELD_MS,
        usage.limits.cap_bytes,
        INBOX_BYTES,
        usage.limits.max_creator_bytes - LEAST_STORED_BYTES,
        [operation.name_hash for operation in operations],
        [new.address for new in news],
        [new.created_at_ms for new in news],
        [new.expires_at_ms for new in news],
        [slot(new.expires_at_ms, new.created_at_ms) for new in news],  # has partitions: see _have_slot in storage.py
        [new.private for new in news],
        [new.token_hash for new in news],
        [operation.creator_hash for operation in operations],
    )
    usage.note(found["totals"])
    return [_created(result) for result in found["results"]]


def _created(result: int) -> Any:
    if result > 0:
        return str(result)
    if result == _TAKEN:
        return AddressTaken("the name is in use or in quarantine")
    if result == _SHARE_FULL:
        return MailboxFull("the creator has no room for mail to another address")
    return StorageFull("storage.max_bytes is reached")


@dataclass(eq=False)
class DeleteMessage(Operation):
    """Delete one message of an inbox; ``MessageNotFound`` when the inbox holds none with that key."""

    inbox_key: int
    message_key: int

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["DeleteMessage"]) -> list[Any]:
        """Delete each message; of two operations for the same one the first succeeds."""
        wanted = [(operation.inbox_key, operation.message_key) for operation in operations]
        there = await _delete(batch, list(dict.fromkeys(wanted)))
        return [_first(there, place) for place in wanted]


async def _delete(batch: Batch, places: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Delete messages by the keys of their inboxes and their own, and tell of it; return those that were there."""
    usage = batch.usage
    values = (usage.shard, allowed(usage.limits), [inbox for inbox, _ in places], [key for _, key in places])
    found = await batch.connection.fetchrow(_DELETE, *values)
    usage.note(found["totals"])
    there = set()
    states = zip(places, found["deleted"], found["is_full"], found["share_full"], strict=True)
    for (inbox_key, key), is_there, full, share_full in states:
        if is_there:
            there.add((inbox_key, key))
            notice = MessageDeleted(ids.inbox_message_id(inbox_key, key))
            batch.changes.append(InboxChange(str(inbox_key), full=full, share_full=share_full, notice=notice))
    return there


def _first(left: set[tuple[int, int]], place: tuple[int, int]) -> Any:
    if place not in left:
        return MessageNotFound("no such message in this inbox")
    left.remove(place)
    return None


@dataclass(eq=False)
class DeleteMessages(Operation):
    """Delete some of the messages that are doomed, oldest first; the result is a ``Deleted``.

    They are chosen first, then deleted by the statement that is the transaction.
    """

    is_alone: ClassVar[bool] = True
    inbox_key: int
    doomed: Doomed

    async def apply(self, batch: Batch) -> Deleted:
        """Delete as many as one transaction should."""
        up_to_key, keys = self.doomed
        sql, wanted = (_DOOMED_UP_TO, up_to_key) if keys is None else (_DOOMED_KEYS, keys)
        rows = await batch.connection.fetch(sql, self.inbox_key, wanted, DELETED_AT_ONCE + 1)
        chosen = rows[: deleted_at_once(row["stored_bytes"] for row in rows)]
        places = [(self.inbox_key, row["key"]) for row in chosen]
        deleted = await _delete(batch, places) if places else set()
        return Deleted(len(deleted), more=len(rows) > len(chosen))


@dataclass(eq=False)
class SetVerdict(Operation):
    """Store the verdict on a message; ``MessageNotFound`` when that or its inbox has ended, or has a verdict."""

    inbox_key: int
    message_key: int
    authentication: str

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["SetVerdict"]) -> list[Any]:
        """Store them, and tell the inboxes."""
        values = [(one.inbox_key, one.message_key, one.authentication) for one in operations]
        stored = await batch.connection.fetchval(_SET_VERDICTS, batch.now_ms, *map(list, zip(*values, strict=True)))
        outcomes: list[Any] = []
        for (inbox_key, key, text), is_stored in zip(values, stored, strict=True):
            if is_stored:
                notice = verdict_reached(ids.inbox_message_id(inbox_key, key), text)
                batch.changes.append(InboxChange(str(inbox_key), full=False, notice=notice))
            outcomes.append(None if is_stored else MessageNotFound("no such message without a verdict in a live inbox"))
        return outcomes


def refusal(result: int | None) -> RequestError | None:
    """Return why an inbox could not be changed: it has expired, or has been forgotten."""
    if result == _NO_INBOX:
        return AddressNotFound("no such inbox")
    return None if result is None else AddressExpired(result)


@dataclass(eq=False)
class SetExpiry(Operation):
    """Set when an inbox expires; without ``expires_at_ms`` it ends now.

    ``AddressExpired`` when it has expired, ``AddressNotFound`` when it has been forgotten.
    """

    is_alone: ClassVar[bool] = True
    inbox_key: int
    now_ms: int
    expires_at_ms: int | None = None

    async def apply(self, batch: Batch) -> RequestError | None:
        """Set the expiry of the inbox if it is alive."""
        expires_at_ms, usage = self.expires_at_ms, batch.usage
        # An inbox that expired while this operation was queued may have lost mail to a sweep.
        now_ms = max(self.now_ms, batch.now_ms)
        ends_at_ms = self.now_ms if expires_at_ms is None else expires_at_ms
        new_slot = None if expires_at_ms is None else slot(expires_at_ms, self.now_ms)
        values = (usage.shard, now_ms, allowed(usage.limits), self.inbox_key, ends_at_ms, new_slot)
        found = await batch.connection.fetchrow(_SET_EXPIRY, *values)
        usage.note(found["totals"])
        refused = refusal(found["refusal"])
        if refused is not None:
            return refused
        if expires_at_ms is None:  # "full" means that it accepts no mail
            change = InboxChange(str(self.inbox_key), full=True, notice=InboxDeleted())
        else:
            state = {"full": found["is_full"], "share_full": found["share_full"]}
            change = InboxChange(str(self.inbox_key), **state, notice=ExpiryMoved(expires_at_ms))
        batch.changes.append(change)
        return None


@dataclass(eq=False)
class Sweep(Operation):
    """Delete some of what has expired. The result says whether there may be more."""

    is_alone: ClassVar[bool] = True
    now_ms: int

    async def apply(self, batch: Batch) -> bool:
        """Run one step."""
        operator_before = ids.first_key(max(self.now_ms - OPERATOR_MAIL_MS, 0))
        values = (batch.usage.shard, self.now_ms, NAME_HELD_MS, INBOX_BYTES, operator_before, _STEP_ROWS, _STEP_BYTES)
        found = await batch.connection.fetchrow(_SWEEP, *values)
        batch.usage.note(found["totals"])
        more: bool = found["more"]
        return more


class CountUsage(Operation):
    """Ask what all daemons together have stored."""

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["CountUsage"]) -> list[Any]:
        """Ask once for all of them."""
        batch.usage.note(await batch.connection.fetchval("SELECT count_usage($1, 0, 0, 0)", batch.usage.shard))
        return [None for _ in operations]
