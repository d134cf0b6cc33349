"""Several parts of a message as one HTML text: joined at delivery, and split again wherever it is read.

Each part is a document of its own: neither its style sheets nor its unclosed elements affect the next part.
"""

from collections.abc import Iterable
from html import escape

MARK = "\n<!-- next part of the message -->\n"
"""Separates two parts. If a sender writes it, one part is read as two, which does no harm."""


def joined(parts: Iterable[str]) -> str:
    """Return the HTML of several parts as one text."""
    return MARK.join(parts)


def separate(html: str) -> list[str]:
    """Return the parts that were joined."""
    return html.split(MARK)


def of_text(text: str) -> str:
    """Return the text of a plain part as HTML that shows it unchanged, except that long lines wrap."""
    # A parser drops a line end behind the tag.
    return f'<pre style="white-space:pre-wrap;font-family:inherit">\n{escape(text, quote=False)}</pre>'
