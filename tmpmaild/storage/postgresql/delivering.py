"""The operation that stores mail."""

from collections.abc import Sequence
from typing import Any, Final

from tmpmaild import ids
from tmpmaild.errors import AddressNotFound, MailboxFull, RequestError, StorageFull
from tmpmaild.model import InboxChange, NewMail, Verbatim
from tmpmaild.storage.postgresql.columns import CONTENT, octets
from tmpmaild.storage.postgresql.writer import Batch, Operation

_NOT_FOUND: Final = -1
_FULL: Final = (-2, -4)
_FITS_ALONE: Final = (-4, -5)

_ARRAYS: Final = ("bigint[]", "integer[]", "bigint[]", "text[]", *(f"{column.kind}[]" for column in CONTENT))
_SQL: Final = "SELECT * FROM deliver($1, $2, $3, $4::bigint[], {})".format(
    ", ".join(f"${number}::{kind}" for number, kind in enumerate(_ARRAYS, 5))
)
_VALUES: Final = tuple(column.value for column in CONTENT)


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
        body = mail.parsed.body
        self.size_bytes = len(mail.raw) + (0 if isinstance(body, Verbatim) else octets(body))

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["AddMessage"]) -> list[Any]:
        """Store the mails together, and alone those that do not fit with all others."""
        keys = await _deliver(batch, operations)
        for number, (key, _) in enumerate(keys):
            if len(operations) > 1 and key in _FITS_ALONE:
                (keys[number],) = await _deliver(batch, [operations[number]])
        return [_outcome(*key) for key in keys]


async def _deliver(batch: Batch, operations: Sequence[AddMessage]) -> list[tuple[int, int | None]]:
    usage = batch.usage
    named = [
        (number, inbox_key, recipient)
        for number, operation in enumerate(operations, 1)
        for inbox_key, recipient in operation.recipients
    ]
    mails = [operation.mail for operation in operations]
    found = await batch.connection.fetchrow(
        _SQL,
        usage.shard,
        batch.now_ms,
        usage.limits.cap_bytes,
        usage.limits.composite,
        sorted({inbox_key for _, inbox_key, _ in named}),
        *zip(*named, strict=True),
        *([value(mail) for mail in mails] for value in _VALUES),
    )
    usage.note(found["totals"])
    if found["changed"]:
        states = zip(found["changed"], found["changed_full"], found["changed_share_full"], strict=True)
        batch.changes += [InboxChange(str(key), full=full, share_full=share_full) for key, full, share_full in states]
    return list(zip(found["keys"], found["inboxes"], strict=True))


def _outcome(key: int, inbox_key: int | None) -> str | RequestError:
    if inbox_key is not None:
        return ids.inbox_message_id(inbox_key, key)
    if key == _NOT_FOUND:
        return AddressNotFound("no recipient is left")
    return MailboxFull("a recipient has no room") if key in _FULL else StorageFull("storage.max_bytes is reached")
