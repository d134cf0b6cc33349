"""Reads which inboxes there are, a page at a time and in the order of their expiry, for the operator."""

from typing import Final

import asyncpg

from tmpmaild.model import InboxPage
from tmpmaild.storage.inboxpages import PAGE_ROWS, Between, by_creator, page
from tmpmaild.storage.rows import InboxRow

_ROWS: Final = f"""
SELECT {", ".join(InboxRow._fields)}, address
FROM inbox
WHERE NOT swept AND (expires_at_ms, id) > ($1, $2) AND expires_at_ms <= $3
ORDER BY expires_at_ms, id LIMIT $4
"""


async def select_inboxes(connection: asyncpg.Connection, *, between: Between, creator_hash: bytes | None) -> InboxPage:
    """Read a page; with ``creator_hash`` only the inboxes of that creator."""
    addresses: dict[int, str] = {}
    rows: list[InboxRow] = []
    for *row, address in await connection.fetch(_ROWS, *between, PAGE_ROWS):
        rows.append(InboxRow._make(row))
        addresses[rows[-1].id] = address
    return page(rows, by_creator(rows, creator_hash), addresses)
