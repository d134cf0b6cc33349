"""The columns of a stored mail that every engine has: how each is made of the mail.

To add a stored field to a message: a migration of each engine that adds the column, a line at the end of ``CONTENT``,
and one in ``ListedRow`` or ``FullRow`` (``rows.py``). All files to touch are named in ``docs/architecture.md``.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tmpmaild.model import NewMail, Verbatim
from tmpmaild.storage import sessions

_encode = msgspec.json.Encoder().encode


class Column(NamedTuple):
    """A column of ``content``: its type, by the name it has in PostgreSQL, and how its value is made."""

    name: str
    kind: Literal["bigint", "integer", "boolean", "text", "bytea"]
    value: Callable[[NewMail], Any]

    @property
    def is_number(self) -> bool:
        """Whether it has no text of any length."""
        return self.kind not in ("text", "bytea")


def octets(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _body_at(mail: NewMail) -> int | None:
    body = mail.parsed.body
    return body.start if isinstance(body, Verbatim) else None


def _body_bytes(mail: NewMail) -> int:
    body = mail.parsed.body
    return body.end - body.start if isinstance(body, Verbatim) else octets(body)


def body(mail: NewMail) -> str:
    """Return the body; "" if it is in the source unchanged."""
    parsed = mail.parsed.body
    return "" if isinstance(parsed, Verbatim) else parsed


def _json(value: object) -> str:
    return _encode(value).decode() if value else "[]"


CONTENT: Final = (
    Column("size_bytes", "integer", lambda mail: len(mail.raw)),
    Column("body_at", "integer", _body_at),
    Column("body_bytes", "integer", _body_bytes),
    Column("tls", "boolean", lambda mail: mail.envelope.tls),
    Column("sender", "text", lambda mail: mail.parsed.from_address or mail.envelope.sender),
    Column("sender_name", "text", lambda mail: mail.parsed.from_name),
    Column("subject", "text", lambda mail: mail.parsed.subject),
    Column("attachments", "text", lambda mail: _json(mail.parsed.attachments)),
    Column("envelope_from", "text", lambda mail: mail.envelope.sender),
    Column("helo", "text", lambda mail: mail.envelope.helo),
    Column("remote_ip", "text", lambda mail: mail.envelope.remote_ip),
    Column("session", "text", sessions.encode),
    Column("warnings", "text", lambda mail: _json(mail.parsed.warnings)),
    Column("headers", "text", lambda mail: _json(mail.parsed.headers)),
    Column("body", "text", body),
    Column("html", "text", lambda mail: mail.parsed.html),
    Column("source", "bytea", lambda mail: mail.raw),
)
"""In the order of the tables. What an engine needs besides is in its ``layout.py`` or ``columns.py``."""
