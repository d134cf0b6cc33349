"""Joins several parts of a message into one HTML text at delivery, and splits the text again when it is read.

Each part is a separate document: neither its style sheets nor its unclosed elements affect the next part.
"""

from collections.abc import Iterable
from html import escape

MARK = "\n<!-- next part of the message -->\n"
"""Separates two parts. If a message contains this text, one part is read as two, which is harmless."""


def joined(parts: Iterable[str]) -> str:
    """Return the HTML of several parts as one text."""
    return MARK.join(parts)


def separate(html: str) -> list[str]:
    """Return the parts that were joined."""
    return html.split(MARK)


def of_text(text: str) -> str:
    """Return the text of a plain part as HTML that shows it unchanged, except that long lines wrap."""
    # A parser drops a line end directly after the tag.
    return f'<pre style="white-space:pre-wrap;font-family:inherit">\n{escape(text, quote=False)}</pre>'
