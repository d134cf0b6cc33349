"""How a mail is laid out as a row, and how names are hashed; what is read back stands in ``reading.py``."""

import hashlib
from typing import Any

import msgspec

from tmpmaild.model import NewMail
from tmpmaild.storage.layout import FILLER, padding

_encode = msgspec.json.Encoder().encode


def keyed_hash(key: bytes, text: str) -> bytes:
    """Hash what must be found again but not read: an address, a client."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).digest()


def content_columns(mail: NewMail, recipients: bytes, now_ms: int) -> tuple[Any, ...]:
    """Lay a mail out as the columns of ``content``, the id aside."""
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
    numbers = (now_ms, len(mail.raw), body_bytes, envelope.tls)
    return (*numbers, FILLER, *short, parsed.body, parsed.html, mail.raw, padding(text_bytes))


def _octets(text: str | bytes) -> int:
    return len(text) if text.isascii() or isinstance(text, bytes) else len(text.encode())
