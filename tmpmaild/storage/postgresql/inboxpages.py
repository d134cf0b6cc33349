"""Reads which inboxes there are, a page at a time and in the order of their expiry, for the operator."""

from typing import Final, NamedTuple

import asyncpg

from tmpmaild.model import InboxEntry, InboxPage

PAGE_ROWS: Final = 200
"""How many inboxes a page is chosen from."""

_LAST: Final = (1 << 63) - 1  # when the operator's inbox expires

_ROWS: Final = """
SELECT id, address, created_at_ms, expires_at_ms, private, message_count, stored_bytes, creator
FROM inbox
WHERE NOT swept AND (expires_at_ms, id) > ($1, $2) AND expires_at_ms <= $3
ORDER BY expires_at_ms, id LIMIT $4
"""


class Between(NamedTuple):
    """A part of the list: behind the first two, which are the place of an inbox, up to the third."""

    after_ms: int
    after_id: int
    up_to_ms: int


def live_between(now_ms: int, after: str) -> Between:
    """Return where the inboxes are that are alive at ``now_ms``."""
    return Between(*_place(after), _LAST - 1) if after else Between(now_ms, _LAST, _LAST - 1)


def expired_between(now_ms: int, after: str) -> Between:
    """Return where the inboxes are that have expired at ``now_ms``."""
    return Between(*_place(after), now_ms) if after else Between(-1, 0, now_ms)


def _place(after: str) -> tuple[int, int]:
    expires_at_ms, _, inbox_id = after.partition(".")
    return int(expires_at_ms), int(inbox_id)


async def select_inboxes(connection: asyncpg.Connection, *, between: Between, creator_hash: bytes | None) -> InboxPage:
    """Read a page; with ``creator_hash`` only the inboxes of that creator."""
    rows = await connection.fetch(_ROWS, *between, PAGE_ROWS)
    return InboxPage(
        tuple(
            InboxEntry(
                id=str(row["id"]),
                address=row["address"],
                created_at_ms=row["created_at_ms"],
                expires_at_ms=row["expires_at_ms"],
                private=row["private"],
                message_count=row["message_count"],
                stored_bytes=row["stored_bytes"],
            )
            for row in rows
            if creator_hash in (None, row["creator"])
        ),
        f"{rows[-1]['expires_at_ms']}.{rows[-1]['id']}" if len(rows) == PAGE_ROWS else None,
    )
