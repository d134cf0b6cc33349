"""Reads single messages: one whole, its source, or the beginnings of the texts of some. Lists are in ``reading.py``."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
from msgspec import json

from tmpmaild import ids
from tmpmaild.model import Envelope, FullMessage, Inbox, Source, Texts
from tmpmaild.storage import sessions
from tmpmaild.storage.keys import message_key
from tmpmaild.storage.postgresql.columns import FullRow, ListedRow, SourceRow, beginning, body_text, if_small, selected
from tmpmaild.storage.postgresql.reading import Found, InboxLookup, message, with_inbox

_HEAD_BYTES: Final = 256 * 1024
_WHOLE_BYTES: Final = 1 << 62
_NO_KEY: Final = -1
_TEXTS_AT_ONCE: Final = 50

_decode_headers = json.Decoder(tuple[tuple[str, str], ...]).decode
_decode_warnings = json.Decoder(tuple[str, ...]).decode

_LISTED: Final = selected(ListedRow._fields, **if_small("c.size_bytes <= $6::bigint"))
_FULL: Final = selected(
    FullRow._fields,
    head=f"substr(c.source, 1, {_HEAD_BYTES})",
    html="CASE WHEN c.size_bytes <= $6::bigint THEN c.html END",
)
_MESSAGE: Final = with_inbox(f"{_LISTED}, {_FULL}", "m.key = $5")
_SOURCE: Final = with_inbox(
    selected(SourceRow._fields, source="CASE WHEN c.size_bytes <= $6::bigint THEN c.source END"), "m.key = $5"
)
_TEXTS: Final = f"""
SELECT m.key, {selected(("body", "verbatim"), **beginning("$3"))}, coalesce(left(c.html, $3), '')
FROM inbox AS i
CROSS JOIN LATERAL (
    SELECT * FROM message
    WHERE message.slot = i.slot AND message.inbox_id = i.id AND message.key = ANY($2::bigint[]) OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT * FROM content WHERE content.slot = m.slot AND content.id = m.content_id OFFSET 0) AS c
WHERE i.id = $1
"""


async def select_message(
    connection: asyncpg.Connection, lookup: InboxLookup, message_id: str, up_to_bytes: int | None
) -> tuple[Inbox, FullMessage | None] | None:
    """Read one message and its inbox, without its texts if its source has more than ``up_to_bytes``."""

    async def use(found: Found, rows: list[tuple[Any, ...]]) -> tuple[Inbox, FullMessage | None]:
        return found.inbox, _full(found, rows[0]) if rows else None

    return await lookup.read(connection, _MESSAGE, _one(message_id, up_to_bytes), use)


def _one(message_id: str, up_to_bytes: int | None) -> Any:
    def values(found: Found) -> tuple[int, int]:
        key = message_key(message_id, found.key)
        return _NO_KEY if key is None else key, _WHOLE_BYTES if up_to_bytes is None else up_to_bytes

    return values


def _full(found: Found, columns: tuple[Any, ...]) -> FullMessage:
    row = ListedRow._make(columns[: len(ListedRow._fields)])
    full = FullRow._make(columns[len(ListedRow._fields) :])
    complete = row.text is not None
    return FullMessage(
        message=message(found.key, row, row.text, not complete and row.body_bytes > 0),
        envelope=Envelope(
            full.envelope_from,
            (row.recipient,),
            full.helo,
            full.remote_ip,
            full.tls,
            sessions.decode(full.session, found.inbox.id),
        ),
        headers=_decode_headers(full.headers),
        warnings=_decode_warnings(full.warnings),
        head=full.head,
        html=full.html,
        complete=complete,
    )


async def select_source(
    connection: asyncpg.Connection, lookup: InboxLookup, message_id: str, up_to_bytes: int | None
) -> tuple[Inbox, Source | None] | None:
    """Read the source of one message and its inbox, without its octets if they are more than ``up_to_bytes``."""

    async def use(found: Found, rows: list[tuple[Any, ...]]) -> tuple[Inbox, Source | None]:
        return found.inbox, _source(message_id, SourceRow._make(rows[0])) if rows else None

    return await lookup.read(connection, _SOURCE, _one(message_id, up_to_bytes), use)


def _source(message_id: str, row: SourceRow) -> Source:
    envelope = Envelope(row.envelope_from, (row.recipient,), row.helo, row.remote_ip, row.tls)
    return Source(message_id, row.received_at_ms, envelope, row.size_bytes, row.source)


async def select_texts(
    connection: asyncpg.Connection, inbox_key: int, keys: Sequence[int], up_to_characters: int
) -> list[Texts]:
    """Read the beginnings of the texts of these messages."""
    texts: list[Texts] = []
    for start in range(0, len(keys), _TEXTS_AT_ONCE):
        part = keys[start : start + _TEXTS_AT_ONCE]
        for key, body, verbatim, html in await connection.fetch(_TEXTS, inbox_key, part, up_to_characters):
            text = (body_text(body, verbatim) or "")[:up_to_characters]
            texts.append(Texts(ids.inbox_message_id(inbox_key, key), text, html))
    return texts
