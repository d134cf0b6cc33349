"""Tag soup made well-formed at a cost known beforehand; what is allowed is not decided here.

A parser that follows the HTML standard repairs unclosed and crossed tags by making elements anew: 24 KB of
``<b>`` and ``<p>`` become a tree of nearly 1 GiB. So nothing is given to one that it would have to repair:
``Tree`` writes every tag in its place and closed, by the rules of the standard for stray and missing tags
(section 13.2.6 of https://html.spec.whatwg.org), with bounds where the standard has none.
"""

from collections.abc import Callable

MAX_DEPTH = 256
MAX_CHARACTERS = 1024 * 1024
MAX_REOPENED_CHARACTERS = 256 * 1024
_MAX_INLINE_DEPTH = MAX_DEPTH // 2  # unclosed ones by the hundred leave room for tables
_MAX_REOPENED = 8


def names(words: str) -> frozenset[str]:
    """Return the names in a line of words."""
    return frozenset(words.split())


FORMATTING = names("a b big code em font i s small strike strong tt u")
INLINE = names("abbr acronym bdi bdo cite del dfn ins kbd mark q samp span sub sup time var")
BLOCKS = names(
    "address article aside blockquote center dd details dir div dl dt figcaption figure footer "
    "h1 h2 h3 h4 h5 h6 header li main menu nav ol p pre section summary ul"
)
VOIDS = names("br hr img wbr")
TABLE_PARTS = names("caption col colgroup table tbody td tfoot th thead tr")

_HEADINGS = names("h1 h2 h3 h4 h5 h6")
_PARAGRAPH = names("p")
_LINK = names("a")
_LISTS = names("ol ul")
_CELLS = names("caption td th")
_SECTIONS = names("tbody tfoot thead")
_SPECIAL = BLOCKS | TABLE_PARTS
_BETWEEN_CELLS = TABLE_PARTS - _CELLS
# An item ends the one before it, whatever of these stands between them.
_PASSED_BY_ITEMS = names("address div p")
_ITEMS = {"li": names("li"), "dd": names("dd dt"), "dt": names("dd dt")}


class TooLargeError(Exception):
    """The markup would pass ``MAX_CHARACTERS``."""


class _Element:
    """An open element; ``waiting`` is what waited to be reopened around the cell that it is."""

    __slots__ = ("ended", "inset", "name", "tag", "waiting")

    def __init__(self, name: str, tag: str, inset: int) -> None:
        self.name = name
        self.tag = tag
        self.inset = inset
        self.ended = False
        self.waiting: list[_Element] = []


class Tree:
    """Writes tags and text in the order of a mail so that each element lies wholly in another.

    Names must be of the sets above, tags are written as they are given, text must be escaped.
    ``depth`` is how deep they have been nested, ``inset`` the sum of what ``inset_of`` returns of the open tags.
    """

    def __init__(self, inset_of: Callable[[str], int] = lambda _: 0) -> None:
        self._inset_of = inset_of
        self.inset = 0
        self._written: list[str] = []
        self._characters = 0
        self._reopened_characters = 0
        self._open: list[_Element] = []
        self.depth = 0
        self._tables: list[int] = []
        # Formatting that its block took along when it ended and that goes on in the next text.
        self._waiting: list[_Element] = []

    def markup(self) -> str:
        """Return what was written, with every element closed."""
        self._close_to(0)
        return "".join(self._written)

    def text(self, escaped: str) -> None:
        """Write text; between the cells of a table it gets a cell, space there is dropped."""
        if self._written and self._written[-1].startswith("<pre"):
            escaped = escaped.lstrip("\n")  # a parser drops the first, so a second pass would drop another
        if not escaped or escaped.isspace():
            if escaped and not self._is_between_cells():
                self._write(escaped)
            return
        self._flow()
        self._write(escaped)

    def void(self, name: str, tag: str) -> None:
        """Write a tag that holds nothing."""
        if name == "img" or not self._is_between_cells():
            if name == "hr":
                self._close_paragraph()
            else:
                self._flow()
            self._write(tag)

    def start(self, name: str, tag: str) -> None:
        """Open an element; one that has no place here or lies too deep is left out, not what it holds."""
        if name in TABLE_PARTS:
            self._start_table_part(name, tag)
        elif self._is_between_cells() or len(self._open) >= MAX_DEPTH:
            return
        elif name in BLOCKS:
            self._start_block(name, tag)
        elif len(self._open) < _MAX_INLINE_DEPTH:
            if name == "a":
                self._end_link()
            self._flow()
            self._push(name, tag)

    def end(self, name: str) -> None:
        """Close an element; an end tag without its start is left out."""
        if name in TABLE_PARTS:
            self._end_table_part(name)
        elif name in FORMATTING:
            self._end_formatting(name)
        else:
            self._end_ordinary(name)

    def _write(self, piece: str) -> None:
        self._characters += len(piece)
        if self._characters > MAX_CHARACTERS:
            raise TooLargeError
        self._written.append(piece)

    def _push(self, name: str, tag: str) -> None:
        self._write(tag)
        element = _Element(name, tag, self._inset_of(tag))
        self.inset += element.inset
        if name in _CELLS:
            element.waiting, self._waiting = self._waiting, []
        elif name == "table":
            self._tables.append(len(self._open))
        self._open.append(element)
        self.depth = max(self.depth, len(self._open))

    def _close_to(self, depth: int) -> None:
        """Close elements until so many are open; formatting among them waits for the next text."""
        waiting: list[_Element] = []
        while len(self._open) > depth or (self._open and self._open[-1].ended):
            element = self._open.pop()
            self.inset -= element.inset
            self._write(f"</{element.name}>")
            if element.name in _CELLS:
                self._waiting, waiting = element.waiting, []
            elif element.name == "table":
                self._tables.pop()
            elif element.name in FORMATTING and not element.ended:
                waiting.append(element)
        self._waiting = [*reversed(waiting), *self._waiting][:_MAX_REOPENED]

    def _flow(self) -> None:
        """Make place for text: a cell if between cells, and the formatting that goes on."""
        if self._is_between_cells():
            self._start_cell("td", "<td>")
        waiting, self._waiting = self._waiting, []
        for element in waiting:
            self._reopen(element)

    def _reopen(self, element: _Element) -> None:
        self._reopened_characters += len(element.tag)
        if len(self._open) < _MAX_INLINE_DEPTH and self._reopened_characters <= MAX_REOPENED_CHARACTERS:
            if element.name in FORMATTING:
                self._push(element.name, element.tag)
            else:
                self.start(element.name, element.tag)

    def _is_between_cells(self) -> bool:
        return bool(self._open) and self._open[-1].name in _BETWEEN_CELLS

    def _innermost(
        self, wanted: frozenset[str], barriers: frozenset[str] = TABLE_PARTS, *, even_ended: bool = False
    ) -> int:
        """Return the depth of the innermost open element of these names within the barriers, or -1."""
        for depth in range(len(self._open) - 1, -1, -1):
            element = self._open[depth]
            if element.name in wanted and (even_ended or not element.ended):
                return depth
            if element.name in barriers:
                break
        return -1

    def _start_block(self, name: str, tag: str) -> None:
        if name in _ITEMS:
            self._close_innermost(_ITEMS[name], _SPECIAL - _PASSED_BY_ITEMS)
        self._close_paragraph()
        if name in _HEADINGS:
            # The standard looks at the last element only, but formatting that has ended may stand between.
            self._close_innermost(_HEADINGS, _SPECIAL)
        self._push(name, tag)

    def _close_paragraph(self) -> None:
        self._close_innermost(_PARAGRAPH)

    def _close_innermost(self, wanted: frozenset[str], barriers: frozenset[str] = TABLE_PARTS) -> None:
        depth = self._innermost(wanted, barriers)
        if depth >= 0:
            self._close_to(depth)

    def _end_ordinary(self, name: str) -> None:
        wanted = _HEADINGS if name in _HEADINGS else frozenset((name,))
        barriers = _SPECIAL if name in INLINE else TABLE_PARTS
        self._close_innermost(wanted, barriers | _LISTS if name == "li" else barriers)

    def _end_formatting(self, name: str) -> None:
        """Close formatting; around blocks still open it lasts until they end, so that they stay whole."""
        depth = self._innermost(frozenset((name,)))
        if depth < 0:
            self._waiting = _without_last(name, self._waiting)
            return
        self._open[depth].ended = True
        if not any(element.name in _SPECIAL for element in self._open[depth + 1 :]):
            self._close_to(depth)

    def _end_link(self) -> None:
        """Close an open link before another; blocks that were begun in it begin again."""
        self._waiting = [element for element in self._waiting if element.name != "a"]
        depth = self._innermost(_LINK, even_ended=True)
        if depth < 0:
            return
        inner = [element for element in self._open[depth + 1 :] if element.name not in FORMATTING]
        self._open[depth].ended = True
        self._close_to(depth)
        if any(element.name in _SPECIAL for element in inner):
            for element in inner[:_MAX_REOPENED]:
                self._reopen(element)

    def _start_table_part(self, name: str, tag: str) -> None:
        if name == "table":
            self._start_table(tag)
        elif self._tables:
            if name in ("td", "th"):
                self._start_cell(name, tag)
            elif name == "tr":
                self._start_row(tag)
            elif name == "col":
                self._start_column(tag)
            else:
                self._close_to(self._tables[-1] + 1)
                self._push(name, tag)

    def _start_table(self, tag: str) -> None:
        if self._is_between_cells():
            self._close_to(self._tables[-1])
        self._close_paragraph()
        if len(self._open) < MAX_DEPTH:
            self._push("table", tag)

    def _start_column(self, tag: str) -> None:
        if self._open[-1].name != "colgroup":
            self._start_table_part("colgroup", "<colgroup>")
        self._write(tag)

    def _start_row(self, tag: str) -> None:
        if self._table_part(1) in _SECTIONS:
            self._close_to(self._tables[-1] + 2)
        else:
            self._start_table_part("tbody", "<tbody>")
        self._push("tr", tag)

    def _start_cell(self, name: str, tag: str) -> None:
        if self._table_part(2) == "tr":
            self._close_to(self._tables[-1] + 3)
        else:
            self._start_row("<tr>")
        self._push(name, tag)

    def _end_table_part(self, name: str) -> None:
        if not self._tables:
            return
        level = {"table": 0, "tr": 2, "td": 3, "th": 3}.get(name, 1)
        open_name = self._table_part(level)
        if open_name == name or (level == 3 and open_name):  # noqa: PLR2004 - cells end each other
            self._close_to(self._tables[-1] + level)

    def _table_part(self, level: int) -> str:
        """Return what is open in the innermost table: 0 itself, 1 its section, 2 the row, 3 the cell."""
        depth = self._tables[-1] + level
        return self._open[depth].name if depth < len(self._open) else ""


def _without_last(name: str, elements: list[_Element]) -> list[_Element]:
    """Return the elements without the last one of a name."""
    last = max((n for n, element in enumerate(elements) if element.name == name), default=-1)
    return elements[:last] + elements[last + 1 :] if last >= 0 else elements
