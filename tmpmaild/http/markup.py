"""HTML made of elements, in which every text is escaped."""

from collections.abc import Iterable
from html import escape


class Html(str):
    """Text that is HTML already; any other ``str`` is escaped before it becomes a part of a page."""

    __slots__ = ()

    def join(self, parts: Iterable[str], /) -> "Html":
        """Join parts, escaping those that are not HTML."""
        return Html(str.join(self, [html(part) for part in parts]))


def html(text: str) -> Html:
    """Return a text as HTML."""
    return text if isinstance(text, Html) else Html(escape(text))


def tag(name: str, *children: str, **attributes: str) -> Html:
    """Return an element. Attributes are named as in Python: ``class_``, ``aria_label``."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{given}>{Html().join(children)}</{name}>")
