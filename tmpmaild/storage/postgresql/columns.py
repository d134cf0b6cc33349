"""The columns of a stored mail: how each is made, and which reads select it.

To add a stored field to a message: a migration that adds the column, a line at the end of ``CONTENT``, and one in
``ListedRow`` or ``FullRow``. All files to touch are named in ``docs/architecture.md``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from tmpmaild.model import NewMail, Verbatim
from tmpmaild.storage import sessions
from tmpmaild.storage.postgresql.quotas import LEAST_STORED_BYTES

_encode = msgspec.json.Encoder().encode


class Column(NamedTuple):
    """A column of ``content``: the type of an array of it, and how its value is made."""

    name: str
    kind: str
    value: Callable[[NewMail], Any]


def _body_at(mail: NewMail) -> int | None:
    body = mail.parsed.body
    return body.start if isinstance(body, Verbatim) else None


def _body_bytes(mail: NewMail) -> int:
    body = mail.parsed.body
    return body.end - body.start if isinstance(body, Verbatim) else octets(body)


def _body(mail: NewMail) -> str | None:
    body = mail.parsed.body
    return None if isinstance(body, Verbatim) else body


def _json(value: object) -> str:
    return _encode(value).decode() if value else "[]"


def _text(text: str) -> str:
    # What a client says in a command may hold NUL, which no text of PostgreSQL does.
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def stored_bytes(mail: NewMail) -> int:
    """Return what each of its inboxes is charged for a mail."""
    parsed, body = mail.parsed, mail.parsed.body
    return (
        LEAST_STORED_BYTES
        + len(mail.raw)
        + (0 if isinstance(body, Verbatim) else octets(body))
        + octets(parsed.html or "")
        + sum(len(name) + len(value) for name, value in parsed.headers)
        + sum(len(one.filename) for one in parsed.attachments)
    )


def octets(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


CONTENT = (
    Column("stored_bytes", "bigint", stored_bytes),
    Column("size_bytes", "integer", lambda mail: len(mail.raw)),
    Column("body_at", "integer", _body_at),
    Column("body_bytes", "integer", _body_bytes),
    Column("tls", "boolean", lambda mail: mail.envelope.tls),
    Column("sender", "text", lambda mail: _text(mail.parsed.from_address or mail.envelope.sender)),
    Column("sender_name", "text", lambda mail: _text(mail.parsed.from_name)),
    Column("subject", "text", lambda mail: _text(mail.parsed.subject)),
    Column("attachments", "text", lambda mail: _json(mail.parsed.attachments)),
    Column("envelope_from", "text", lambda mail: _text(mail.envelope.sender)),
    Column("helo", "text", lambda mail: _text(mail.envelope.helo)),
    Column("remote_ip", "text", lambda mail: mail.envelope.remote_ip),
    Column("session", "text", sessions.encode),
    Column("warnings", "text", lambda mail: _json(mail.parsed.warnings)),
    Column("headers", "text", lambda mail: _json(mail.parsed.headers)),
    Column("body", "text", _body),
    Column("html", "text", lambda mail: mail.parsed.html),
    Column("source", "bytea", lambda mail: mail.raw),
)
"""The columns of ``content`` in the order of the table, in which the function ``deliver`` takes them."""


class ListedRow(NamedTuple):
    """What a list reads of a message; of the body the text, or the octets in the source."""

    key: int
    recipient: str
    received_at_ms: int
    sender: str
    sender_name: str
    subject: str
    size_bytes: int
    has_html: bool
    attachments: str
    body_bytes: int
    body: str | None
    verbatim: bytes | None

    @property
    def text(self) -> str | None:
        """The body; None if it was not read."""
        return body_text(self.body, self.verbatim)


class FullRow(NamedTuple):
    """What is read of one message besides ``ListedRow``."""

    envelope_from: str
    helo: str
    remote_ip: str
    tls: bool
    session: str
    headers: str
    warnings: str
    head: bytes
    html: str | None


class SourceRow(NamedTuple):
    """What is read with the source of a message."""

    recipient: str
    received_at_ms: int
    envelope_from: str
    helo: str
    remote_ip: str
    tls: bool
    size_bytes: int
    source: bytes | None


def body_text(body: str | None, verbatim: bytes | None) -> str | None:
    """Return a body with LF line ends, wherever it was read from; None if it was not read."""
    if verbatim is None:
        return body
    return verbatim.decode(errors="ignore").replace("\r\n", "\n")


_EXPRESSIONS = {
    "key": "m.key",
    "recipient": "m.recipient",
    "has_html": "c.html IS NOT NULL AS has_html",
    "verbatim": "substr(c.source, c.body_at + 1, c.body_bytes) AS verbatim",
}


def selected(names: Sequence[str], **expressions: str) -> str:
    """Return what a SELECT reads for the fields of a row: the column of that name, or the given expression."""
    known = _EXPRESSIONS | {name: f"{expression} AS {name}" for name, expression in expressions.items()}
    return ", ".join(known.get(name, f"c.{name}") for name in names)


def if_small(condition: str) -> dict[str, str]:
    """Return the expressions of a body that is read only on a condition."""
    return {
        "body": f"CASE WHEN {condition} THEN c.body END",
        "verbatim": f"CASE WHEN {condition} THEN substr(c.source, c.body_at + 1, c.body_bytes) END",
    }


def beginning(characters: str) -> dict[str, str]:
    """Return the expressions of the beginning of a body; ``characters`` is a parameter.

    A character has at most four octets, a line end two. So a character that the cut divides is always beyond those.
    """
    return {
        "body": f"left(c.body, {characters})",
        "verbatim": f"substr(c.source, c.body_at + 1, least(c.body_bytes, 4 * {characters}))",
    }
