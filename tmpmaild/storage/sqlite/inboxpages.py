"""Reads which inboxes there are, a page at a time and in the order of their expiry, for the operator."""

import sqlite3
from typing import Any, NamedTuple

from msgspec import json

from tmpmaild.model import InboxEntry, InboxPage
from tmpmaild.storage.inboxpages import PAGE_ROWS, Between, place
from tmpmaild.storage.sqlite.layout import SLOT_BYTES, SLOTS

# The index holds the inboxes by (swept, expires_at_ms, id).
_ROWS = """
SELECT id, created_at_ms, expires_at_ms, private, message_count, stored_bytes, creator
FROM inbox
WHERE swept = 0 AND (expires_at_ms, id) > (:after_ms, :after_id) AND expires_at_ms <= :up_to_ms
ORDER BY expires_at_ms, id LIMIT :limit
"""

_ADDRESSES = f"""
SELECT json_each.value, CAST(rtrim(substr(a.slots, json_each.value % {SLOTS} * {SLOT_BYTES} + 1, {SLOT_BYTES})) AS TEXT)
FROM json_each(?) JOIN address AS a ON a.id = json_each.value / {SLOTS}
"""


class _Row(NamedTuple):
    id: int
    created_at_ms: int
    expires_at_ms: int
    private: int
    message_count: int
    stored_bytes: int
    creator: bytes | None


def select_inboxes(connection: sqlite3.Connection, between: Between, creator_hash: bytes | None) -> InboxPage:
    """Read a page; with ``creator_hash`` only the inboxes of that creator."""
    values = {**between._asdict(), "limit": PAGE_ROWS}
    rows = [_Row(*row) for row in connection.execute(_ROWS, values)]
    wanted = [row for row in rows if creator_hash in (None, row.creator)]
    found: list[tuple[Any, ...]] = connection.execute(
        _ADDRESSES, (json.encode([row.id for row in wanted]).decode(),)
    ).fetchall()
    addresses = dict(found)
    return InboxPage(
        tuple(_entry(row, addresses[row.id]) for row in wanted),
        place(rows[-1].expires_at_ms, rows[-1].id) if len(rows) == PAGE_ROWS else None,
    )


def _entry(row: _Row, address: str) -> InboxEntry:
    return InboxEntry(
        id=str(row.id),
        address=address,
        created_at_ms=row.created_at_ms,
        expires_at_ms=row.expires_at_ms,
        private=bool(row.private),
        message_count=row.message_count,
        stored_bytes=row.stored_bytes,
    )
