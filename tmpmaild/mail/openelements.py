"""Which elements of an HTML mail are open: what a start tag ends besides, and what an end tag ends.

By the rules of the standard for tags that are missing or stray (section 13.2.6 of https://html.spec.whatwg.org), as far
as these need no tree. Formatting is not begun anew where the standard would do so.
"""

from typing import Final, Generic, Protocol, TypeVar

from tmpmaild.mail.htmltree import BLOCKS, FORMATTING, TABLE_PARTS, names

SPECIAL: Final = BLOCKS | TABLE_PARTS | names("button dialog fieldset form object select template")
ROOTS: Final = 2  # html and body, which no end tag ends
_SCOPES = names("button caption object table td template th")
_TABLES = names("table")
_HEADINGS = names("h1 h2 h3 h4 h5 h6")
_SECTIONS = names("tbody tfoot thead")
_CELLS = names("td th")
_PARAGRAPH = names("p")
_ENDS_PARAGRAPHS = BLOCKS | names("fieldset form hr")
# A start tag ends the outermost of the first that is open within the second.
_ENDS: Final = {
    "li": (names("li"), _SCOPES | names("ol ul")),
    **dict.fromkeys(("dd", "dt"), (names("dd dt"), _SCOPES | names("dl"))),
    **dict.fromkeys(_CELLS, (_CELLS, TABLE_PARTS - _CELLS)),
    "tr": (_CELLS | names("tr"), _SECTIONS | _TABLES),
    **dict.fromkeys(_SECTIONS, (_CELLS | _SECTIONS | names("tr"), _TABLES)),
    "option": (names("option"), names("select")),
}
_NOTHING: frozenset[str] = frozenset()
_MAX_LOOK_BACK = 64


class Named(Protocol):
    """What is known of an open element here."""

    @property
    def name(self) -> str:
        """Its name in lower case."""


ElementT = TypeVar("ElementT", bound=Named)


class OpenElements(Generic[ElementT]):
    """The open elements, the outermost first."""

    def __init__(self, *, is_quirky: bool) -> None:
        self.all: list[ElementT] = []
        self._paragraphs = 0
        self._ends_paragraphs = _ENDS_PARAGRAPHS if is_quirky else _ENDS_PARAGRAPHS | _TABLES

    def push(self, element: ElementT) -> None:
        """Open an element in the innermost one."""
        self.all.append(element)
        if element.name == "p":
            self._paragraphs += 1

    def close(self, at: int) -> None:
        """Close an element and all within it; none for -1."""
        if at >= 0:
            if self._paragraphs:
                self._paragraphs -= sum(one.name == "p" for one in self.all[at:])
            del self.all[at:]

    def make_way(self, name: str) -> None:
        """Close what ends without an end tag where an element of this name begins."""
        if self._paragraphs and name in self._ends_paragraphs:
            self.close(self._innermost(_PARAGRAPH, _SCOPES))
        if name in _ENDS:
            self.close(self._outermost(*_ENDS[name]))

    def ended_by(self, name: str) -> int:
        """Return which element an end tag ends, -1 for a stray one."""
        last = len(self.all) - 1
        if last >= ROOTS and self.all[last].name == name:
            return last
        if name in TABLE_PARTS:
            return self._innermost({name}, _NOTHING if name == "table" else _TABLES)
        if name in _HEADINGS:
            return self._innermost(_HEADINGS, _SCOPES)
        return self._innermost({name}, _SCOPES if name in SPECIAL or name in FORMATTING else SPECIAL)

    def _innermost(self, wanted: frozenset[str] | set[str], barriers: frozenset[str]) -> int:
        last = len(self.all) - 1
        for at in range(last, max(ROOTS - 1, last - _MAX_LOOK_BACK), -1):
            name = self.all[at].name
            if name in wanted:
                return at
            if name in barriers:
                break
        return -1

    def _outermost(self, wanted: frozenset[str], barriers: frozenset[str]) -> int:
        found = -1
        last = len(self.all) - 1
        for at in range(last, max(ROOTS - 1, last - _MAX_LOOK_BACK), -1):
            name = self.all[at].name
            if name in wanted:
                found = at
            elif name in barriers:
                break
        return found
