"""Finds where elements end whose end tag is missing or misplaced (HTML, section 13.2.6).

This is not a parser of the standard: it only keeps the names of open elements, so that time and memory are bounded.
"""

from collections.abc import Iterable, Iterator

from tmpmaild.mail.htmltokens import BLOCKS, FORMATTING, TABLE_PARTS, names

MAX_DEPTH = 100
"""Of the elements that are followed; an element nested deeper ends only with its own end tag."""

_HEADINGS = names("h1 h2 h3 h4 h5 h6")
_CELLS = names("td th caption")
# Tags within these end nothing around them.
_SCOPES = _CELLS | names("table template object applet marquee")
_SPECIAL = BLOCKS | TABLE_PARTS | _SCOPES | names("button fieldset form hgroup listing search select")
_ENDS_PARAGRAPHS = BLOCKS | names("fieldset form hgroup hr listing plaintext search table xmp")
_PARAGRAPH, _AROUND_PARAGRAPHS = names("p"), _SCOPES | names("button")
_AROUND_TABLES = names("table template")
_ROWS = names("tbody tfoot thead")
# The elements that the start of an element ends, and the barriers of the search for them.
_ENDS_AT_START = {
    "li": (names("li"), _SPECIAL - names("address div p li")),
    **dict.fromkeys(("dd", "dt"), (names("dd dt"), _SPECIAL - names("address div p dd dt"))),
    **dict.fromkeys(("td", "th"), (_CELLS, _AROUND_TABLES)),
    "tr": (names("tr"), _AROUND_TABLES),
    **dict.fromkeys(_ROWS, (_ROWS, _AROUND_TABLES)),
    "a": (names("a"), _SCOPES),
}
_NOTHING = (names(""), names(""))
_UNNESTED = names("html head body area base br col embed hr img input link meta param source track wbr")


def nested(parts: Iterable[tuple[str, str, str]], *, has_type: bool) -> Iterator[tuple[str, str, str]]:
    """Yield tokens, and an end tag wherever a browser would end an element that has none there.

    End tags of what is not open are left out if a browser would ignore them. Formatting goes on behind a block that
    ends, up to the end of its cell. A table ends a paragraph if the page has a document type (``has_type``).
    """
    page = _Open(_ENDS_PARAGRAPHS if has_type else _ENDS_PARAGRAPHS - {"table"})
    for kind, name, attributes in parts:
        if kind == "start" and name not in _UNNESTED:
            yield from page.start(name)
        elif kind == "end" and name not in _UNNESTED:
            yield from page.end(name)
            continue
        yield kind, name, attributes


def may_end(name: str, beginning: str) -> bool:
    """Return whether an element may end, without an end tag, where another one begins."""
    if name == "p":
        return beginning in _ENDS_PARAGRAPHS
    return (name in _HEADINGS and beginning in _HEADINGS) or name in _ENDS_AT_START.get(beginning, _NOTHING)[0]


class _Open:
    """The names of the open elements, the innermost last."""

    def __init__(self, ending_paragraphs: frozenset[str]) -> None:
        self._ending_paragraphs = ending_paragraphs
        self._names: list[str] = []

    def start(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Yield the ends of the elements that end where an element begins, and open it."""
        if name in self._ending_paragraphs:
            yield from self._close(self._find(_PARAGRAPH, _AROUND_PARAGRAPHS))
        if name in _HEADINGS and self._names and self._names[-1] in _HEADINGS:
            yield from self._close(len(self._names) - 1)
        if name in _ENDS_AT_START:
            yield from self._close(self._find(*_ENDS_AT_START[name]))
        if len(self._names) < MAX_DEPTH:
            self._names.append(name)

    def end(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Yield the ends of the elements that an end tag ends, its own last; nothing if a browser would ignore it."""
        wanted = _HEADINGS if name in _HEADINGS else frozenset([name])
        at = self._find(wanted, _barriers(name))
        if at >= 0 and name in FORMATTING:
            yield "end", self._names.pop(at), ""
        elif at >= 0:
            yield from self._close(at)
        elif name not in self._names:
            yield "end", name, ""  # of an element that nobody follows, or of a paragraph, which breaks the line

    def _find(self, wanted: frozenset[str], barriers: frozenset[str]) -> int:
        """Return the index of the innermost of these elements, unless a barrier is within it; else -1."""
        for at in range(len(self._names) - 1, -1, -1):
            if self._names[at] in wanted:
                return at
            if self._names[at] in barriers:
                break
        return -1

    def _close(self, at: int) -> Iterator[tuple[str, str, str]]:
        """End the element at an index, if there is one, and the elements within it."""
        if at < 0:
            return
        name, within = self._names[at], self._names[at + 1 :]
        goes_on = frozenset[str]() if name in TABLE_PARTS or name in _SCOPES else FORMATTING
        self._names[at:] = [one for one in within if one in goes_on]
        for one in reversed(within):
            if one not in goes_on:
                yield "end", one, ""
        yield "end", name, ""


def _barriers(name: str) -> frozenset[str]:
    if name in TABLE_PARTS:
        return _AROUND_TABLES
    return _SCOPES if name in _SPECIAL or name in FORMATTING or name == "p" else _SPECIAL
