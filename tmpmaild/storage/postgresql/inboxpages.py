"""Reads which inboxes there are, a page at a time and in the order of their expiry, for the operator."""

from typing import Final

import asyncpg

from tmpmaild.model import InboxEntry, InboxPage
from tmpmaild.storage.inboxpages import PAGE_ROWS, Between, place

_ROWS: Final = """
SELECT id, address, created_at_ms, expires_at_ms, private, message_count, stored_bytes, creator
FROM inbox
WHERE NOT swept AND (expires_at_ms, id) > ($1, $2) AND expires_at_ms <= $3
ORDER BY expires_at_ms, id LIMIT $4
"""


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
        place(rows[-1]["expires_at_ms"], rows[-1]["id"]) if len(rows) == PAGE_ROWS else None,
    )
