"""How a mail is laid out as a row, and how names are hashed; what is read back stands in ``reading.py``."""

import hashlib
from typing import Any

import msgspec

from tmpmaild.model import NewMail, Verbatim
from tmpmaild.storage.sqlite.layout import FILLER, padding, stored_bytes

_encode = msgspec.json.Encoder().encode


def keyed_hash(key: bytes, text: str) -> bytes:
    """Hash what must be found again but not read: an address, a client."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16).digest()


def content_columns(mail: NewMail, recipients: bytes, now_ms: int) -> tuple[int, tuple[Any, ...]]:
    """Lay a mail out as the columns of ``content``, the id aside; the number is what they will take in the file."""
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
    body_at, body_bytes, body = _body(parsed.body)
    texts = (*short, body, parsed.html, mail.raw)
    text_bytes = sum(map(_octets, texts))
    filled_up = padding(text_bytes)
    cost_bytes = stored_bytes(text_bytes + len(filled_up))
    numbers = (now_ms, len(mail.raw), cost_bytes, body_at, body_bytes, envelope.tls)
    return cost_bytes, (*numbers, FILLER, *texts, filled_up)


def _body(body: str | Verbatim) -> tuple[int | None, int, str]:
    """Return where the body stands in the source, its octets there or here, and what stands here."""
    if isinstance(body, Verbatim):
        return body.start, body.end - body.start, ""
    return None, _octets(body), body


def _octets(text: str | bytes | None) -> int:
    if text is None:
        return 0
    return len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode())
