"""The columns of a mail as the functions of the database take them, and what its reads select of them."""

from collections.abc import Sequence
from typing import Any, Final

from tmpmaild.model import NewMail
from tmpmaild.storage import rows
from tmpmaild.storage.postgresql.quotas import LEAST_STORED_BYTES
from tmpmaild.storage.rows import Column, ListedRow, body, octets


def stored_bytes(mail: NewMail) -> int:
    """Return what each of its inboxes is charged for a mail."""
    parsed = mail.parsed
    return (
        LEAST_STORED_BYTES
        + len(mail.raw)
        + octets(body(mail))
        + octets(parsed.html or "")
        + sum(len(name) + len(value) for name, value in parsed.headers)
        + sum(len(one.filename) for one in parsed.attachments)
    )


def _without_nul(column: Column) -> Column:
    # What a client says in a command may hold NUL, which no text of PostgreSQL does.
    def value(mail: NewMail) -> Any:
        text = column.value(mail)
        return text and text.replace("\0", "\N{REPLACEMENT CHARACTER}")

    return column._replace(value=value) if column.kind == "text" else column


CONTENT: Final = (Column("stored_bytes", "bigint", stored_bytes), *map(_without_nul, rows.CONTENT))
"""The columns of ``content`` in the order of the table, in which the function ``deliver`` takes them."""

LISTED: Final = (*ListedRow._fields, "verbatim")
"""What a list selects for a ``ListedRow``: of the body the text, or the octets in the source."""


def listed(read: Sequence[Any]) -> ListedRow:
    """Return the row of what was read for ``LISTED``."""
    *others, body, verbatim = read
    return ListedRow._make((*others, body_text(body, verbatim)))


def body_text(body: str | None, verbatim: bytes | None) -> str | None:
    """Return a body with LF line ends, wherever it was read from; None if it was not read."""
    if verbatim is None:
        return body
    return verbatim.decode(errors="ignore").replace("\r\n", "\n")


_EXPRESSIONS = {
    "key": "m.key",
    "recipient": "m.recipient",
    "authentication": "m.authentication",
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
