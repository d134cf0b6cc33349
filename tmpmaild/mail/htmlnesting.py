"""Finds the ends of elements whose end tag is missing or misplaced (HTML standard, section 13.2.6).

This is not a conforming parser. It keeps only the names of open elements, so its time and memory are bounded.
"""

from collections.abc import Iterable, Iterator

from tmpmaild.mail.htmltokens import BLOCKS, FORMATTING, TABLE_PARTS, names

MAX_DEPTH = 100
"""The depth to which elements are tracked; an element nested more deeply ends only at its own end tag."""

_HEADINGS = names("h1 h2 h3 h4 h5 h6")
_CELLS = names("td th caption")
# A tag inside one of these elements does not end any element outside it.
_SCOPES = _CELLS | names("table template object applet marquee")
_SPECIAL = BLOCKS | TABLE_PARTS | _SCOPES | names("button fieldset form hgroup listing search select")
_ENDS_PARAGRAPHS = BLOCKS | names("fieldset form hgroup hr listing plaintext search table xmp")
_PARAGRAPH, _AROUND_PARAGRAPHS = names("p"), _SCOPES | names("button")
_AROUND_TABLES = names("table template")
_ROWS = names("tbody tfoot thead")
# For each element: the elements that its start tag ends, and the barriers at which the search for them stops.
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
    """Yield tokens, adding an end tag wherever a browser would end an element implicitly.

    End tags of elements that are not open are omitted if a browser would ignore them. Formatting continues after the
    end of the block that contains it, up to the end of the cell. A table ends a paragraph if the page has a document
    type (``has_type``).
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
    """Return whether the start tag ``beginning`` ends the element ``name``, which has no end tag."""
    if name == "p":
        return beginning in _ENDS_PARAGRAPHS
    return (name in _HEADINGS and beginning in _HEADINGS) or name in _ENDS_AT_START.get(beginning, _NOTHING)[0]


class _Open:
    """The names of the open elements, innermost last."""

    def __init__(self, ending_paragraphs: frozenset[str]) -> None:
        self._ending_paragraphs = ending_paragraphs
        self._names: list[str] = []

    def start(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Yield end tags for the elements that a start tag ends, then open its own element."""
        if name in self._ending_paragraphs:
            yield from self._close(self._find(_PARAGRAPH, _AROUND_PARAGRAPHS))
        if name in _HEADINGS and self._names and self._names[-1] in _HEADINGS:
            yield from self._close(len(self._names) - 1)
        if name in _ENDS_AT_START:
            yield from self._close(self._find(*_ENDS_AT_START[name]))
        if len(self._names) < MAX_DEPTH:
            self._names.append(name)

    def end(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Yield end tags for the elements that an end tag ends, its own last; nothing if browsers ignore the tag."""
        wanted = _HEADINGS if name in _HEADINGS else frozenset([name])
        at = self._find(wanted, _barriers(name))
        if at >= 0 and name in FORMATTING:
            yield "end", self._names.pop(at), ""
        elif at >= 0:
            yield from self._close(at)
        elif name not in self._names:
            yield "end", name, ""  # the element is not tracked, or is a paragraph, whose end tag breaks the line

    def _find(self, wanted: frozenset[str], barriers: frozenset[str]) -> int:
        """Return the index of the innermost element in ``wanted``, or -1 if it is absent or has a barrier inside it."""
        for at in range(len(self._names) - 1, -1, -1):
            if self._names[at] in wanted:
                return at
            if self._names[at] in barriers:
                break
        return -1

    def _close(self, at: int) -> Iterator[tuple[str, str, str]]:
        """End the element at an index and the elements within it; do nothing for a negative index."""
        if at < 0:
            return
        name, within = self._names[at], self._names[at + 1 :]
        reopened = frozenset[str]() if name in TABLE_PARTS or name in _SCOPES else FORMATTING
        self._names[at:] = [one for one in within if one in reopened]
        for one in reversed(within):
            if one not in reopened:
                yield "end", one, ""
        yield "end", name, ""


def _barriers(name: str) -> frozenset[str]:
    if name in TABLE_PARTS:
        return _AROUND_TABLES
    return _SCOPES if name in _SPECIAL or name in FORMATTING or name == "p" else _SPECIAL
