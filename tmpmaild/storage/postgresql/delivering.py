"""The operation that stores mail."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from tmpmaild.errors import AddressNotFound, MailboxFull, RequestError, StorageFull
from tmpmaild.model import InboxChange, NewMail
from tmpmaild.storage import ids
from tmpmaild.storage.postgresql.columns import CONTENT
from tmpmaild.storage.postgresql.quotas import allowed
from tmpmaild.storage.postgresql.writer import Batch, NotTogether, Operation
from tmpmaild.storage.rows import body, octets

_FULL: Final = 2

_ARRAYS: Final = (
    *("bigint[]", "integer[]", "bigint[]"),
    *("integer[]", "integer[]", "integer[]", "text[]"),
    *(f"{column.kind}[]" for column in CONTENT),
)
_SQL: Final = "SELECT * FROM deliver($1, $2, $3, $4::bigint[], {})".format(
    ", ".join(f"${number}::{kind}" for number, kind in enumerate(_ARRAYS, 5))
)
_VALUES: Final = tuple(column.value for column in CONTENT)
_COST: Final = next(number for number, column in enumerate(CONTENT) if column.name == "stored_bytes")


class AddMessage(Operation):
    """Store a mail for all of its live inboxes, or for none; the result is its first id."""

    def __init__(self, mail: NewMail) -> None:
        self.mail = mail
        self.recipients = [
            (int(inbox_id), recipient)
            for inbox_id, recipient in dict(
                zip(reversed(mail.inbox_ids), reversed(mail.envelope.recipients), strict=True)
            ).items()
        ][::-1]
        self.rows = len(self.recipients)
        self.size_bytes = len(mail.raw) + octets(body(mail))

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["AddMessage"]) -> list[Any]:
        """Store the mails together, or none of them."""
        left = [operation for operation in operations if operation.recipients]
        if len(left) < len(operations):
            stored = iter(await cls.run(batch, left) if left else ())
            return [next(stored) if one.recipients else AddressNotFound("no recipient is left") for one in operations]
        delivery = _Delivery(operations)
        found = await delivery.run(batch)
        if found["missing"]:
            for operation in operations:
                operation.recipients = [one for one in operation.recipients if one[0] not in found["missing"]]
            return await cls.run(batch, operations)
        if found["refusal"] is None:
            batch.changes += delivery.changes(found)
            return delivery.message_ids(found["keys_before"])
        if len(operations) > 1:
            raise NotTogether
        return [_refused(found["refusal"])]


class _Delivery:
    """The mails of one statement, and the inboxes they are for: places count from 1, in the order of their keys."""

    def __init__(self, operations: Sequence[AddMessage]) -> None:
        mails = [operation.mail for operation in operations]
        self._columns = [[value(mail) for mail in mails] for value in _VALUES]
        self._inbox_keys = sorted({inbox_key for operation in operations for inbox_key, _ in operation.recipients})
        self._messages = [0] * len(self._inbox_keys)
        self._bytes = [0] * len(self._inbox_keys)
        self._rows: list[tuple[int, int, int, str]] = []
        self._firsts: list[int] = []
        places = {inbox_key: place for place, inbox_key in enumerate(self._inbox_keys)}
        for number, (operation, cost) in enumerate(zip(operations, self._columns[_COST], strict=True), 1):
            self._firsts.append(len(self._rows))
            for inbox_key, recipient in operation.recipients:
                place = places[inbox_key]
                self._messages[place] += 1
                self._bytes[place] += cost
                self._rows.append((number, place + 1, self._messages[place], recipient))

    async def run(self, batch: Batch) -> asyncpg.Record:
        """Run the statement."""
        usage = batch.usage
        found = await batch.connection.fetchrow(
            _SQL,
            usage.shard,
            batch.now_ms,
            usage.limits.cap_bytes,
            allowed(usage.limits),
            self._inbox_keys,
            self._messages,
            self._bytes,
            *zip(*self._rows, strict=True),
            *self._columns,
        )
        usage.note(found["totals"])
        return found

    def changes(self, found: asyncpg.Record) -> list[InboxChange]:
        """Return the state of each inbox after it."""
        states = zip(self._inbox_keys, found["is_full"], found["share_full"], strict=True)
        return [InboxChange(str(key), full=full or share, share_full=share) for key, full, share in states]

    def message_ids(self, keys_before: Sequence[int]) -> list[Any]:
        """Return the id of the first message of each mail."""
        firsts = (self._rows[first] for first in self._firsts)
        return [
            ids.inbox_message_id(self._inbox_keys[place - 1], keys_before[place - 1] + rank)
            for _, place, rank, _ in firsts
        ]


def _refused(reason: int) -> RequestError:
    return MailboxFull("a recipient has no room") if reason == _FULL else StorageFull("storage.max_bytes is reached")
