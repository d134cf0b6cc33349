"""Between rows and values: how inboxes and messages stand in the tables, and what a reader selects."""

import hashlib
import sqlite3
from typing import Any

import msgspec

from tmpmaild import ids
from tmpmaild.model import QUARANTINE_MS, Attachment, Inbox, Listing, Message, NewMail, Page
from tmpmaild.storage.layout import FILLER, padding

_encode = msgspec.json.Encoder().encode
_decode_attachments = msgspec.json.Decoder(tuple[Attachment, ...]).decode
_TRUNCATED_BYTES = 1024

# What has been swept is over, even if the clock has been set back since.
_INBOX = """
SELECT i.id, i.created_at_ms, CASE WHEN i.swept THEN min(i.expires_at_ms, :now_ms) ELSE i.expires_at_ms END,
       i.private, i.token_hash, i.message_count,
       i.message_count >= :max_messages OR i.stored_bytes >= :max_bytes
           OR coalesce(c.stored_bytes, 0) >= :max_creator_bytes
FROM inbox AS i
LEFT JOIN creator AS c ON c.hash = i.creator
WHERE i.name_hash = :name_hash AND i.expires_at_ms > :forgotten_ms
"""

# Small bodies come with the page; a large one is read on its own, when the answer has room for it.
_MESSAGES = """
SELECT m.id, substr(c.recipients, m.recipient_at + 1, m.recipient_bytes), c.received_at_ms, c.sender, c.sender_name,
       c.subject, c.size_bytes, c.html IS NOT NULL, c.attachments, c.body_bytes,
       CASE WHEN c.body_bytes <= :small_bytes THEN c.body END, c.id
FROM message AS m JOIN content AS c ON c.id = m.content_id
WHERE m.inbox_id = :inbox_id AND m.id > :after AND m.id < :before
ORDER BY m.id {direction} LIMIT :limit
"""
_MESSAGES_OLDEST_FIRST = _MESSAGES.format(direction="ASC")
_MESSAGES_NEWEST_FIRST = _MESSAGES.format(direction="DESC")


def keyed_hash(key: bytes, text: str) -> bytes:
    """Hash what must be found again but not read: an address, a client."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).digest()


def content_row(mail: NewMail, recipients: bytes, key: int, now_ms: int) -> tuple[Any, ...]:
    """Lay a mail out for ``INSERT INTO content``."""
    parsed, envelope = mail.parsed, mail.envelope
    short = (
        parsed.from_address or envelope.sender,
        parsed.from_name,
        parsed.subject,
        _encode(parsed.attachments).decode(),
        recipients,
        envelope.sender,
        envelope.helo,
        envelope.remote_ip,
        _encode(parsed.warnings).decode(),
        _encode(parsed.headers).decode(),
    )
    body_bytes = _octets(parsed.body)
    text_bytes = sum(_octets(text) for text in short) + body_bytes + _octets(parsed.html or "") + len(mail.raw)
    numbers = (key, now_ms, len(mail.raw), body_bytes, envelope.tls)
    return (*numbers, FILLER, *short, parsed.body, parsed.html, mail.raw, padding(text_bytes))


def _octets(text: str | bytes) -> int:
    return len(text) if text.isascii() or isinstance(text, bytes) else len(text.encode())


def select_inbox(
    connection: sqlite3.Connection, address: str, name_hash: bytes, now_ms: int, limits: dict[str, int]
) -> Inbox | None:
    """Read an address that is not forgotten yet. ``limits`` has the three numbers an inbox is full at."""
    values = {"name_hash": name_hash, "now_ms": now_ms, "forgotten_ms": now_ms - QUARANTINE_MS, **limits}
    row = connection.execute(_INBOX, values).fetchone()
    if row is None:
        return None
    inbox_id, created_at_ms, expires_at_ms, private, token_hash, message_count, full = row
    return Inbox(
        id=str(inbox_id),
        address=address,
        created_at_ms=created_at_ms,
        expires_at_ms=expires_at_ms,
        private=bool(private),
        token_hash=token_hash,
        message_count=message_count,
        full=bool(full),
    )


def select_messages(connection: sqlite3.Connection, inbox: Inbox, page: Page) -> Listing:
    """Read a page of messages, one more than asked for being the sign of another page."""
    sql = _MESSAGES_OLDEST_FIRST if page.ascending else _MESSAGES_NEWEST_FIRST
    small_bytes = page.bodies_bytes // max(page.limit, 1)
    rows = connection.execute(
        sql,
        {
            "inbox_id": int(inbox.id),
            "after": ids.key_not_above(page.after) if page.after else -1,
            "before": ids.key_not_below(page.before) if page.before else ids.MAX_KEY,
            "limit": page.limit + 1,
            "small_bytes": small_bytes,
        },
    ).fetchall()
    has_more = len(rows) > page.limit
    rows = rows[: page.limit]
    bodies = _large_bodies(connection, rows, page)
    messages = [_message(row, *bodies.get(row[0], (row[10], False))) for row in rows]
    return Listing(inbox, tuple(messages), has_more)


def _large_bodies(
    connection: sqlite3.Connection, rows: list[tuple[Any, ...]], page: Page
) -> dict[int, tuple[str, bool]]:
    """Read the bodies that did not come with the page, newest first, whole while the answer has room."""
    large = sorted((row for row in rows if row[10] is None), reverse=True)
    room_bytes = page.bodies_bytes - sum(row[9] for row in rows if row[10] is not None)
    bodies = {}
    for row in large:
        whole = row[9] <= max(room_bytes, _TRUNCATED_BYTES)
        bodies[row[0]] = (_body(connection, row[11], whole=whole), not whole)
        room_bytes -= row[9] if whole else _TRUNCATED_BYTES
    return bodies


def _body(connection: sqlite3.Connection, content_key: int, *, whole: bool) -> str:
    length = -1 if whole else _TRUNCATED_BYTES
    sql = "SELECT CASE WHEN :length < 0 THEN body ELSE substr(body, 1, :length) END FROM content WHERE id = :id"
    (body,) = connection.execute(sql, {"length": length, "id": content_key}).fetchone()
    return str(body) if whole else body.encode()[:_TRUNCATED_BYTES].decode(errors="ignore")


def _message(row: tuple[Any, ...], body: str, truncated: bool) -> Message:  # noqa: FBT001 - both come from one tuple
    key, recipient, received_at_ms, sender, sender_name, subject, size_bytes, has_html, attachments, *_ = row
    return Message(
        id=ids.message_id(key),
        received_at_ms=received_at_ms,
        recipient=recipient.decode(),
        from_address=sender,
        from_name=sender_name,
        subject=subject,
        body=body,
        truncated=truncated,
        size_bytes=size_bytes,
        has_html=bool(has_html),
        attachments=() if attachments == "[]" else _decode_attachments(attachments),
    )
