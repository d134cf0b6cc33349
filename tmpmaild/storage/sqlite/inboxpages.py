"""Reads which inboxes there are, a page at a time and in the order of their expiry, for the operator."""

import sqlite3

from msgspec import json

from tmpmaild.model import InboxPage
from tmpmaild.storage.inboxpages import PAGE_ROWS, Between, by_creator, page
from tmpmaild.storage.rows import InboxRow
from tmpmaild.storage.sqlite.layout import SLOT_BYTES, SLOTS

# The index holds the inboxes by (swept, expires_at_ms, id).
_ROWS = f"""
SELECT {", ".join(InboxRow._fields)}
FROM inbox
WHERE swept = 0 AND (expires_at_ms, id) > (:after_ms, :after_id) AND expires_at_ms <= :up_to_ms
ORDER BY expires_at_ms, id LIMIT :limit
"""

_ADDRESSES = f"""
SELECT json_each.value, CAST(rtrim(substr(a.slots, json_each.value % {SLOTS} * {SLOT_BYTES} + 1, {SLOT_BYTES})) AS TEXT)
FROM json_each(?) JOIN address AS a ON a.id = json_each.value / {SLOTS}
"""


def select_inboxes(connection: sqlite3.Connection, between: Between, creator_hash: bytes | None) -> InboxPage:
    """Read a page; with ``creator_hash`` only the inboxes of that creator."""
    values = {**between._asdict(), "limit": PAGE_ROWS}
    rows = [InboxRow._make(row) for row in connection.execute(_ROWS, values)]
    wanted = by_creator(rows, creator_hash)
    found = connection.execute(_ADDRESSES, (json.encode([row.id for row in wanted]).decode(),))
    return page(rows, wanted, dict(found.fetchall()))
