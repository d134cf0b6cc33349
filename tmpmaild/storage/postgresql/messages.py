"""Reads single messages: one whole, its source, or the beginnings of the texts of some. Lists are in ``reading.py``."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from tmpmaild.model import FullMessage, Inbox, Source, Texts
from tmpmaild.storage import ids
from tmpmaild.storage.keys import message_key
from tmpmaild.storage.postgresql.columns import LISTED, beginning, body_text, if_small, listed, selected
from tmpmaild.storage.postgresql.reading import Found, InboxLookup, with_inbox
from tmpmaild.storage.rows import HEAD_BYTES, FullRow, SourceRow, is_of_html

_NO_KEY: Final = -1
_TEXTS_AT_ONCE: Final = 50

_LISTED: Final = selected(LISTED, **if_small("c.size_bytes <= $6::bigint"))
_FULL: Final = selected(
    FullRow._fields,
    head=f"substr(c.source, 1, {HEAD_BYTES})",
    html="CASE WHEN c.size_bytes <= $6::bigint THEN c.html END",
)
_MESSAGE: Final = with_inbox(f"{_LISTED}, {_FULL}", "m.key = $5")
_SOURCE_COLUMNS: Final = selected(SourceRow._fields, source="CASE WHEN c.size_bytes <= $6::bigint THEN c.source END")
_SOURCE: Final = with_inbox(_SOURCE_COLUMNS, "m.key = $5")
_NEXT_SOURCE: Final = with_inbox(f"m.key, {_SOURCE_COLUMNS}", "m.key > $5", "ORDER BY m.key LIMIT 1")
_TEXTS: Final = f"""
SELECT m.key, {selected(("body", "verbatim"), **beginning("$3"))}, coalesce(left(c.html, $3), ''), c.headers
FROM inbox AS i
CROSS JOIN LATERAL (
    SELECT * FROM message
    WHERE message.slot = i.slot AND message.inbox_id = i.id AND message.key = ANY($2::bigint[]) OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT * FROM content WHERE content.slot = m.slot AND content.id = m.content_id OFFSET 0) AS c
WHERE i.id = $1
"""


async def select_message(
    connection: asyncpg.Connection, lookup: InboxLookup, message_id: str, up_to_bytes: int
) -> tuple[Inbox, FullMessage | None] | None:
    """Read one message and its inbox, without its texts if its source has more than ``up_to_bytes``."""

    async def use(found: Found, rows: list[tuple[Any, ...]]) -> tuple[Inbox, FullMessage | None]:
        return found.inbox, _full(found, message_id, rows[0]) if rows else None

    return await lookup.read(connection, _MESSAGE, _one(message_id, up_to_bytes), use)


def _one(message_id: str, up_to_bytes: int) -> Any:
    def values(found: Found) -> tuple[int, int]:
        key = message_key(message_id, found.key)
        return _NO_KEY if key is None else key, up_to_bytes

    return values


def _full(found: Found, message_id: str, columns: tuple[Any, ...]) -> FullMessage:
    full = FullRow._make(columns[len(LISTED) :])
    return full.message(listed(columns[: len(LISTED)]), message_id, found.inbox.id)


async def select_source(
    connection: asyncpg.Connection, lookup: InboxLookup, message_id: str, up_to_bytes: int
) -> tuple[Inbox, Source | None] | None:
    """Read the source of one message and its inbox, without its octets if they are more than ``up_to_bytes``."""

    async def use(found: Found, rows: list[tuple[Any, ...]]) -> tuple[Inbox, Source | None]:
        return found.inbox, SourceRow._make(rows[0]).of(message_id) if rows else None

    return await lookup.read(connection, _SOURCE, _one(message_id, up_to_bytes), use)


async def select_next_source(
    connection: asyncpg.Connection, lookup: InboxLookup, after: str, up_to_bytes: int
) -> tuple[Inbox, Source | None] | None:
    """Read the source of the oldest message after this id, without its octets if they are more than ``up_to_bytes``."""

    def values(found: Found) -> tuple[int, int]:
        return max(ids.key_not_above(after, found.key), -1) if after else -1, up_to_bytes

    async def use(found: Found, rows: list[tuple[Any, ...]]) -> tuple[Inbox, Source | None]:
        if not rows:
            return found.inbox, None
        key, *columns = rows[0]
        return found.inbox, SourceRow._make(columns).of(ids.inbox_message_id(found.key, key))

    return await lookup.read(connection, _NEXT_SOURCE, values, use)


async def select_texts(
    connection: asyncpg.Connection, inbox_key: int, keys: Sequence[int], up_to_characters: int
) -> list[Texts]:
    """Read the beginnings of the texts of these messages."""
    texts: list[Texts] = []
    for start in range(0, len(keys), _TEXTS_AT_ONCE):
        part = keys[start : start + _TEXTS_AT_ONCE]
        for key, body, verbatim, html, headers in await connection.fetch(_TEXTS, inbox_key, part, up_to_characters):
            text = (body_text(body, verbatim) or "")[:up_to_characters]
            texts.append(Texts(ids.inbox_message_id(inbox_key, key), text, html, is_of_html(html, headers)))
    return texts
