"""Limits the cost of tag soup for an HTML parser by omitting tags that would be too costly."""

from collections import Counter
from itertools import takewhile

from tmpmaild.mail.budget import Budget
from tmpmaild.mail.htmltokens import BLOCKS, FORMATTING, INLINE, TABLE_PARTS, names
from tmpmaild.mail.viewattributes import inset

MAX_DEPTH = 256
MAX_MARKUP_CHARACTERS = 1024 * 1024
MAX_FORMATTING = 8  # the maximum number of open formatting elements per cell
MAX_REPEATED_CHARACTERS = 256 * 1024  # the maximum total size of reopened formatting
_NODE_CHARACTERS = 32  # the size counted for each element in addition to its tag
_MAX_CROSSED = 8  # block elements that an end tag moves formatting out of
_WALKED_PER_STEP = 16
_DEPTH_PER_STEP = 32
_REPEATED_CHARACTERS_PER_STEP = 128
_PARAGRAPH = names("p")
_TABLE = names("table")
_HEADINGS = names("h1 h2 h3 h4 h5 h6")
_CELLS = names("caption td th")
_SCOPE = names("caption table td th")
_SPECIAL = BLOCKS | TABLE_PARTS
# An item ends the previous item even if these elements are open between them.
_PASSED_BY_ITEMS = names("address div p")
_ITEMS = {"li": names("li"), "dd": names("dd dt"), "dt": names("dd dt")}
# The possible parents of a table part.
_PARENTS = {
    "td": names("table tbody tfoot thead tr"),
    "th": names("table tbody tfoot thead tr"),
    "tr": names("table tbody tfoot thead"),
    "col": names("colgroup table"),
}


class TooLargeError(Exception):
    """Raised if the markup would exceed ``MAX_MARKUP_CHARACTERS``, or if parsing it would exceed the budget."""


class _Element:
    """An open element; if it is a cell, ``around`` is the formatting that is open around it."""

    __slots__ = ("around", "inset", "name", "size")

    def __init__(self, name: str, tag: str) -> None:
        self.name = name
        self.size = len(tag) + _NODE_CHARACTERS
        self.inset = inset(tag)
        self.around: list[_Element] = []


class Bounds:
    """Writes tag soup unchanged, except for tags that would be too costly for its parser.

    A conforming HTML parser reopens unclosed formatting in each block, and searches the open elements for each tag. It
    turns 24 KB of ``<b>`` and ``<p>`` into a tree of nearly 1 GiB. Therefore, this class tracks the parser's open
    elements (section 13.2.6 of https://html.spec.whatwg.org), to the extent that they affect the cost.

    Element names must be in the sets above. Tags are written unchanged, and text must already be escaped. ``depth`` is
    the greatest depth of nesting so far.
    """

    def __init__(self, budget: Budget | None = None, *, reserved: int = 0) -> None:
        self.depth = 0
        self._budget = budget or Budget()
        self._reserved = reserved
        self._written: list[str] = []
        self._characters = 0
        self._repeatable = MAX_REPEATED_CHARACTERS
        self._open: list[_Element] = []
        # Formatting continues after the blocks around it have ended, until its own end tag or the end of its cell.
        self._formatting: list[_Element] = []
        self._count = Counter[str]()
        self._left_out = Counter[str]()

    @property
    def inset(self) -> int:
        """The total width of the open elements' padding in pixels."""
        return sum(element.inset for element in self._open)

    def markup(self) -> str:
        """Return the markup; the parser closes the open elements."""
        return "".join(self._written)

    def text(self, escaped: str) -> None:
        """Write text."""
        if self._written and self._written[-1].startswith("<pre"):
            escaped = escaped.lstrip(
                "\n"
            )  # a parser drops the first line end; without this, a second pass drops the next
        if escaped and not escaped.isspace():
            self._repeat_formatting()
        self._write(escaped)

    def void(self, name: str, tag: str) -> None:
        """Write the tag of a void element."""
        if name == "hr":
            self._close_innermost(_PARAGRAPH)
        self._repeat_formatting()
        self._write(tag)

    def start(self, name: str, tag: str) -> None:
        """Write the tag of an element; if it is nested too deeply, omit the tag but not its content."""
        if name in TABLE_PARTS:
            if not self._make_room_in_table(name):
                return
        elif name in BLOCKS:
            self._make_room_for_block(name)
        else:
            if name == "a":
                self._end_formatting("a")
            self._repeat_formatting()
        if len(self._open) >= MAX_DEPTH or (name in FORMATTING and not self._may_format()):
            self._left_out[name] += 1
            return
        self._write(tag)
        if name != "col":
            element = _Element(name, tag)
            self._push(element)
            if name in FORMATTING:
                self._formatting.append(element)
            elif name in _CELLS:
                element.around, self._formatting = self._formatting, []

    def end(self, name: str) -> None:
        """Write an end tag, unless its start tag was omitted."""
        if self._left_out[name]:
            self._left_out[name] -= 1
            return
        self._write(f"</{name}>")
        if name in FORMATTING:
            self._end_formatting(name)
        elif name in TABLE_PARTS:
            self._close_innermost(frozenset((name,)), _TABLE)
        elif name in INLINE:
            self._close_innermost(frozenset((name,)), _SPECIAL)
        else:
            self._close_innermost(_HEADINGS if name in _HEADINGS else frozenset((name,)))

    def _write(self, piece: str) -> None:
        self._characters += len(piece)
        if self._characters > MAX_MARKUP_CHARACTERS:
            raise TooLargeError
        self._written.append(piece)

    def _push(self, element: _Element) -> None:
        self._take_steps(len(self._open) // _DEPTH_PER_STEP)
        self._open.append(element)
        self._count[element.name] += 1
        self.depth = max(self.depth, len(self._open))

    def _close_to(self, depth: int) -> None:
        for element in reversed(self._open[depth:]):
            self._count[element.name] -= 1
            if element.name in _CELLS:
                self._formatting = element.around
        del self._open[depth:]

    def _innermost(self, wanted: frozenset[str], barriers: frozenset[str] = _SCOPE) -> int:
        """Return the depth of the innermost open element with one of these names inside the barriers, or -1."""
        if not any(self._count[name] for name in wanted):
            return -1
        for depth in range(len(self._open) - 1, -1, -1):
            name = self._open[depth].name
            if name in wanted or name in barriers:
                self._take_steps((len(self._open) - depth) // _WALKED_PER_STEP)
                return depth if name in wanted else -1
        self._take_steps(len(self._open) // _WALKED_PER_STEP)
        return -1

    def _take_steps(self, steps: int) -> None:
        """Take steps for work that is slow in this class and in the parser."""
        if steps and not self._budget.take(steps, reserved=self._reserved):
            raise TooLargeError

    def _close_innermost(self, wanted: frozenset[str], barriers: frozenset[str] = _SCOPE) -> None:
        depth = self._innermost(wanted, barriers)
        if depth >= 0:
            self._close_to(depth)

    def _make_room_for_block(self, name: str) -> None:
        if name in _ITEMS:
            self._close_innermost(_ITEMS[name], _SPECIAL - _PASSED_BY_ITEMS)
        self._close_innermost(_PARAGRAPH)
        if name in _HEADINGS and self._open and self._open[-1].name in _HEADINGS:
            self._close_to(len(self._open) - 1)

    def _make_room_in_table(self, name: str) -> bool:
        """Close the elements that a table part ends; return False if no table is open."""
        if name == "table":
            depth = self._innermost(_SCOPE)
            if depth >= 0 and self._open[depth].name == "table":  # a table between cells ends the table around it
                self._close_to(depth)
            self._close_innermost(_PARAGRAPH)
            return True
        depth = self._innermost(_PARENTS.get(name, _TABLE), frozenset())
        if depth >= 0:
            self._close_to(depth + 1)
        return depth >= 0

    def _may_format(self) -> bool:
        return len(self._formatting) < MAX_FORMATTING and self._repeatable > 0

    def _repeat_formatting(self) -> None:
        """Count the formatting that the parser reopens before text because its block has ended."""
        if not self._formatting:
            return
        ended = list(takewhile(lambda element: element not in self._open, reversed(self._formatting)))
        self._take_steps(len(ended) + sum(element.size for element in ended) // _REPEATED_CHARACTERS_PER_STEP)
        for element in ended if self._repeatable <= 0 else ():
            self._write(f"</{element.name}>")
            self._formatting.remove(element)
        for element in reversed(ended) if self._repeatable > 0 else ():
            self._repeatable -= element.size
            self._push(element)

    def _end_formatting(self, name: str) -> None:
        element = next((one for one in reversed(self._formatting) if one.name == name), None)
        if element is None:
            self._close_innermost(frozenset((name,)), _SPECIAL)
        elif element not in self._open:
            self._formatting.remove(element)
        else:
            self._move_formatting(element, self._open.index(element))

    def _move_formatting(self, element: _Element, depth: int) -> None:
        """End formatting as the parser does, which moves the formatting into each block within it."""
        inner = self._open[depth + 1 :]
        crossed = sum(one.name in _SPECIAL for one in inner)
        if any(one.name == "table" for one in inner):
            return
        if not crossed:
            self._close_to(depth)
        else:
            self._count[element.name] -= 1
            del self._open[depth]
            self._repeatable -= crossed * sum(one.size for one in self._formatting)
        if crossed < _MAX_CROSSED:
            self._formatting.remove(element)
