"""Reads single messages: one whole, its source, or the beginnings of the texts of some. Lists are in ``reading.py``."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from msgspec import json

from tmpmaild.model import FullMessage, Source, Texts
from tmpmaild.storage import ids
from tmpmaild.storage.keys import message_key
from tmpmaild.storage.rows import HEAD_BYTES, FullRow, ListedRow, SourceRow, is_of_html
from tmpmaild.storage.sqlite.layout import selected
from tmpmaild.storage.sqlite.reading import BEGINNING

_STEP_BYTES = 1024 * 1024

_LISTED = selected(ListedRow._fields, body="CASE WHEN c.size_bytes <= :up_to_bytes THEN c.body END")
_FULL = selected(
    FullRow._fields,
    "o",
    head="coalesce(substr(o.source, 1, :head_bytes), x'')",
    html="CASE WHEN c.size_bytes <= :up_to_bytes THEN o.html END",
)
_MESSAGE = f"""
SELECT {_LISTED}, {_FULL}
FROM message AS m JOIN readable AS c ON c.id = m.content_id JOIN content AS o ON o.id = m.content_id
WHERE m.id = :key AND m.inbox_id = :inbox_id
"""

_SOURCE_COLUMNS = selected(SourceRow._fields, source="CASE WHEN c.size_bytes <= :up_to_bytes THEN c.source END")
_SOURCE = f"""
SELECT {_SOURCE_COLUMNS}
FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.id = :key AND m.inbox_id = :inbox_id
"""

_NEXT_SOURCE = f"""
SELECT m.id, {_SOURCE_COLUMNS}
FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.inbox_id = :inbox_id AND m.id > :after
ORDER BY m.id LIMIT 1
"""

_TEXTS = f"""
SELECT m.id, c.size_bytes, {BEGINNING}, coalesce(substr(c.html, 1, :characters), ''), c.headers
FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.id IN (SELECT value FROM json_each(:keys)) AND m.inbox_id = :inbox_id
ORDER BY m.id
"""


def select_message(
    connection: sqlite3.Connection, inbox_id: str, message_id: str, up_to_bytes: int
) -> FullMessage | None:
    """Read one message, without its texts if its source has more than ``up_to_bytes``."""
    key = message_key(message_id)
    if key is None:
        return None
    values = {"key": key, "inbox_id": int(inbox_id), "up_to_bytes": up_to_bytes, "head_bytes": HEAD_BYTES}
    found = connection.execute(_MESSAGE, values).fetchone()
    if found is None:
        return None
    listed, full = found[: len(ListedRow._fields)], found[len(ListedRow._fields) :]
    return FullRow._make(full).message(ListedRow._make(listed), message_id, inbox_id)


def select_source(connection: sqlite3.Connection, inbox_id: str, message_id: str, up_to_bytes: int) -> Source | None:
    """Read the source of one message, without its octets if they are more than ``up_to_bytes``."""
    key = message_key(message_id)
    if key is None:
        return None
    values = {"key": key, "inbox_id": int(inbox_id), "up_to_bytes": up_to_bytes}
    found = connection.execute(_SOURCE, values).fetchone()
    return SourceRow._make(found).of(message_id) if found else None


def select_next_source(connection: sqlite3.Connection, inbox_id: str, after: str, up_to_bytes: int) -> Source | None:
    """Read the source of the oldest message after this id, without its octets if they are more than ``up_to_bytes``."""
    after_key = ids.key_not_above(after) if after else -1
    values = {"after": after_key, "inbox_id": int(inbox_id), "up_to_bytes": up_to_bytes}
    found = connection.execute(_NEXT_SOURCE, values).fetchone()
    return SourceRow._make(found[1:]).of(ids.message_id(found[0])) if found else None


def select_texts(
    connection: sqlite3.Connection, inbox_key: int, keys: Sequence[int], up_to_characters: int
) -> tuple[list[Texts], list[int]]:
    """Read the beginnings of some texts, and return the keys that are left for another read."""
    values = {"inbox_id": inbox_key, "keys": json.encode(keys).decode(), "characters": up_to_characters}
    texts: list[Texts] = []
    looked_at_bytes = 0
    with closing(connection.execute(_TEXTS, values)) as rows:
        for key, size_bytes, body, html, headers in rows:
            texts.append(Texts(ids.message_id(key), body, html, is_of_html(html, headers)))
            looked_at_bytes += size_bytes
            if looked_at_bytes >= _STEP_BYTES:
                return texts, [later for later in keys if later > key]
    return texts, []
