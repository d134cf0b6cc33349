"""Changes of inboxes as text, as one daemon tells them to the others: ids and times only, nothing of a mail.

Any role that may connect can send such a text. So what is heard of an end is held against the database, and what is not
so there is left out: a false end would be believed by followers, who then look no more. What a
verdict says is read there too.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import asyncpg
from msgspec.structs import replace

from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, VerdictReached
from tmpmaild.storage.keys import message_key
from tmpmaild.storage.rows import verdict_reached

MISSED: Final = "!"
"""In place of a change: some could not be told."""

BLOCKS: Final = "b"
"""In place of a change: the blocks have been changed."""

MAX_OCTETS: Final = 7_900  # the server takes less than 8,000
_FULL: Final = "f"
_SHARE_FULL: Final = "s"
_MESSAGE_DELETED: Final = "-"
_INBOX_DELETED: Final = "x"
_EXPIRY_MOVED: Final = "@"
_VERDICT_REACHED: Final = "v"
_MAX_DIGITS: Final = 18  # fits into the server's bigint
_LAST_TIME_MS: Final = 253_402_300_799_999  # of the year 9999, the last that can be written as text

_STATES: Final = """
SELECT i.id, i.expires_at_ms, m.keys, m.verdicts FROM inbox AS i CROSS JOIN LATERAL (
    SELECT array_agg(key) AS keys, array_agg(authentication) AS verdicts
    FROM message WHERE inbox_id = i.id AND slot = i.slot AND key = ANY($2::bigint[])
) AS m WHERE i.id = ANY($1::bigint[])
"""


def word(change: InboxChange) -> str:
    """Return a change as one word: the inbox, flags, and the notice."""
    flags = _FULL * change.full + _SHARE_FULL * change.share_full
    return f"{change.inbox_id},{flags},{_notice(change)}"


def _notice(change: InboxChange) -> str:
    match change.notice:
        case MessageDeleted(message_id):
            return f"{_MESSAGE_DELETED}{message_id}"
        case ExpiryMoved(expires_at_ms):
            return f"{_EXPIRY_MOVED}{expires_at_ms}"
        case VerdictReached(message_id):
            return f"{_VERDICT_REACHED}{message_id}"
        case InboxDeleted():
            return _INBOX_DELETED
        case _:
            return ""


def payloads(words: Iterable[str]) -> Iterator[str]:
    """Join words to texts that a notification can carry."""
    held: list[str] = []
    octets = 0
    for one in words:
        if octets + len(one) >= MAX_OCTETS:
            yield " ".join(held)
            held, octets = [], 0
        held.append(one)
        octets += len(one) + 1
    if held:
        yield " ".join(held)


def changes(words: Iterable[str]) -> list[InboxChange]:
    """Return the changes that words tell. What a newer daemon may tell besides is left out."""
    return [found for one in words if (found := _change(one)) is not None]


def _change(one: str) -> InboxChange | None:
    inbox_id, flags, notice = [*one.split(",", 2), "", ""][:3]
    if not _is_number(inbox_id):
        return None
    told: MessageDeleted | InboxDeleted | ExpiryMoved | VerdictReached | None = None
    if notice.startswith(_MESSAGE_DELETED):
        told = MessageDeleted(notice[1:])
    elif notice.startswith(_EXPIRY_MOVED) and _is_number(notice[1:]):
        told = ExpiryMoved(min(int(notice[1:]), _LAST_TIME_MS))
    elif notice.startswith(_VERDICT_REACHED):
        told = VerdictReached(notice[1:])
    elif notice == _INBOX_DELETED:
        told = InboxDeleted()
    return InboxChange(inbox_id, full=_FULL in flags, share_full=_SHARE_FULL in flags, notice=told)


def _is_number(text: str) -> bool:
    """Return whether it is a number that the server takes: any role that may connect can send what is heard here."""
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


async def true_ones(connection: asyncpg.Connection, told: Sequence[InboxChange], now_ms: int) -> list[InboxChange]:
    """Return the changes that are so: all without a notice, and of the others those that the database confirms.

    Verdicts are those of the database.
    """
    doubted = [int(change.inbox_id) for change in told if change.notice is not None]
    keys = [key for change in told if (key := _message_key(change)) is not None]
    rows = {row["id"]: row for row in await connection.fetch(_STATES, doubted, keys)}
    return [
        _with_verdict(change, row) for change in told if _is_so(change, row := rows.get(int(change.inbox_id)), now_ms)
    ]


def _message_key(change: InboxChange) -> int | None:
    """Return the key of the message that a notice is of; None if there can be none in that inbox."""
    message_id = change.notice.message_id if isinstance(change.notice, MessageDeleted | VerdictReached) else ""
    return message_key(message_id, int(change.inbox_id))


def _verdicts(row: asyncpg.Record) -> dict[int | None, str | None]:
    """Return the verdicts on the messages that are there, by their keys."""
    return dict(zip(row["keys"] or (), row["verdicts"] or (), strict=True))


def _with_verdict(change: InboxChange, row: asyncpg.Record | None) -> InboxChange:
    """Return a change that is so, with the verdict that it tells of."""
    match change.notice:
        case VerdictReached(message_id) if row is not None:
            return replace(change, notice=verdict_reached(message_id, _verdicts(row)[_message_key(change)] or ""))
        case _:
            return change


def _is_so(change: InboxChange, row: asyncpg.Record | None, now_ms: int) -> bool:
    match change.notice:
        case None:
            return True
        case MessageDeleted():
            key = _message_key(change)
            return key is not None and (row is None or key not in _verdicts(row))
        case VerdictReached():
            return row is not None and _verdicts(row).get(_message_key(change)) is not None
        case ExpiryMoved(expires_at_ms):  # one that has been moved again since is told of that too
            return row is not None and row["expires_at_ms"] == expires_at_ms
        case InboxDeleted():
            return row is None or row["expires_at_ms"] <= now_ms
