"""Messages one by one, parsed: all of one, or how the texts of some begin. Mail as it came stands in ``sources.py``."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from msgspec import json

from tmpmaild import ids
from tmpmaild.model import Envelope, FullMessage, Texts
from tmpmaild.storage.sqlite.keys import message_key
from tmpmaild.storage.sqlite.reading import BEGINNING, COLUMNS, Row, message

_HEAD_BYTES = 256 * 1024
_STEP_BYTES = 1024 * 1024
_WHOLE_BYTES = 1 << 62

_decode_headers = json.Decoder(tuple[tuple[str, str], ...]).decode
_decode_warnings = json.Decoder(tuple[str, ...]).decode

_MESSAGE = f"""
SELECT {COLUMNS.format(whole="c.size_bytes <= :up_to_bytes")},
       o.envelope_from, o.helo, o.remote_ip, o.tls, o.headers, o.warnings,
       coalesce(substr(o.source, 1, :head_bytes), x''), CASE WHEN c.size_bytes <= :up_to_bytes THEN o.html END
FROM message AS m JOIN readable AS c ON c.id = m.content_id JOIN content AS o ON o.id = m.content_id
WHERE m.id = :key AND m.inbox_id = :inbox_id
"""

_TEXTS = f"""
SELECT m.id, c.size_bytes, {BEGINNING}, coalesce(substr(c.html, 1, :characters), '')
FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.id IN (SELECT value FROM json_each(:keys)) AND m.inbox_id = :inbox_id
ORDER BY m.id
"""


def select_message(
    connection: sqlite3.Connection, inbox_id: str, message_id: str, up_to_bytes: int | None
) -> FullMessage | None:
    """Read one message, without its texts if its source has more than ``up_to_bytes``."""
    key = message_key(message_id)
    if key is None:
        return None
    values = {
        "key": key,
        "inbox_id": int(inbox_id),
        "up_to_bytes": _WHOLE_BYTES if up_to_bytes is None else up_to_bytes,
        "head_bytes": _HEAD_BYTES,
    }
    found = connection.execute(_MESSAGE, values).fetchone()
    if found is None:
        return None
    row = Row(*found[: len(Row._fields)])
    envelope_from, helo, remote_ip, tls, headers, warnings, head, html = found[len(Row._fields) :]
    return FullMessage(
        message=message(row, row.body or "", row.body is None and row.body_bytes > 0),
        envelope=Envelope(envelope_from, (row.recipient,), helo, remote_ip, bool(tls)),
        headers=_decode_headers(headers),
        warnings=_decode_warnings(warnings),
        head=head,
        html=html,
        complete=row.body is not None,
    )


def select_texts(
    connection: sqlite3.Connection, inbox_key: int, keys: Sequence[int], up_to_characters: int
) -> tuple[list[Texts], list[int]]:
    """Read the beginnings of some texts, and return the keys that are left for another read."""
    values = {"inbox_id": inbox_key, "keys": json.encode(keys).decode(), "characters": up_to_characters}
    texts: list[Texts] = []
    looked_at_bytes = 0
    with closing(connection.execute(_TEXTS, values)) as rows:
        for key, size_bytes, body, html in rows:
            texts.append(Texts(ids.message_id(key), body, html))
            looked_at_bytes += size_bytes
            if looked_at_bytes >= _STEP_BYTES:
                return texts, [later for later in keys if later > key]
    return texts, []
