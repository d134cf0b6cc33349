"""The rules of a mail's style sheets, found by the elements that they may mean; which counts is not known here."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tmpmaild.mail import cssblocks, cssmedia
from tmpmaild.mail.cssmatching import NEVER, Element, InvalidError, Selector, keyed, keys, selector
from tmpmaild.mail.csstokens import nodes_of
from tmpmaild.mail.cssvalues import FAR, Value, longhands, properties

MAX_CHARACTERS = 128 * 1024
MAX_SELECTORS = 2000
_MAX_KNOWN = 2000
_MAX_QUERIES_CHARACTERS = 3000  # read by tinycss2, at 4 µs a character
_WIDTH = re.compile(
    r"\s*+(?:(?:only\s++)?(?:screen|all)\s++and\s*+)?\(\s*+(min|max)-(?:device-)?width\s*+:\s*+([0-9]{1,5})px\s*+\)\s*+",
    re.IGNORECASE,
)

Weight = tuple[int, int, int]


class Declared(NamedTuple):
    """A value of a property, how much it counts, and whether it is sure that it applies."""

    name: str
    value: Value
    # Whether it is important, whether it is in the ``style`` of the element, weight of the selector, order.
    rank: tuple[bool, bool, Weight, int, int]
    is_sure: bool


class Reader:
    """Reads declarations, as far as they matter in a mail with such sheets; equal ones are read once."""

    def __init__(self, sheets: list[str]) -> None:
        self._has_boxes = any("overflow" in sheet.lower() for sheet in sheets)
        self._has_places = any(FAR.search(sheet) for sheet in sheets)
        self._known: dict[tuple[str, str], list[tuple[str, Value]]] = {}

    def declared(
        self, block: str, rank: tuple[bool, Weight, int], *, is_sure: bool, is_image: bool = False
    ) -> list[Declared]:
        """Return what a plain block declares; ``rank`` is what ``Declared`` has between importance and order."""
        found: list[Declared] = []
        has_places = self._has_places or FAR.search(block) is not None
        has_boxes = has_places or self._has_boxes or is_image or "overflow" in block.lower()
        wanted = properties(boxes=has_boxes, places=has_places)
        for name, value, is_important in cssblocks.declarations(block, wanted):
            values = self._known.get((name, value))
            if values is None:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                values = self._known[name, value] = longhands(name, value)
            for one, read in values:
                found.append(Declared(one, read, (is_important, *rank, len(found)), is_sure))
        return found


class Rule:
    """A selector and a block of declarations; they are read when they are first needed."""

    __slots__ = ("_block", "_declared", "_is_quirky", "_is_sure", "_selector", "_text", "number")

    def __init__(self, number: int, text: str, block: str, *, is_sure: bool, is_quirky: bool) -> None:
        self.number = number
        self._text = text
        self._block = block
        self._is_sure = is_sure
        self._is_quirky = is_quirky
        self._selector: Selector | None = None
        self._declared: list[Declared] | None = None

    @property
    def selector(self) -> Selector:
        """What the rule means."""
        if self._selector is None:
            try:
                self._selector = selector(self._text, is_quirky=self._is_quirky)
            except InvalidError:
                self._selector = NEVER
        return self._selector

    def declared(self, reader: Reader) -> list[Declared]:
        """Return what the rule declares."""
        if self._declared is None:
            rank = (False, self.selector.weight, self.number)
            self._declared = reader.declared(self._block, rank, is_sure=self._is_sure and self.selector.is_sure)
        return self._declared


class Rules:
    """The rules of all sheets that may apply on a desk, up to the bounds."""

    def __init__(self, sheets: Iterable[tuple[str, str]], *, is_quirky: bool) -> None:
        self._is_quirky = is_quirky
        self._by_key: dict[str, list[Rule]] = {}
        self._queries: dict[str, bool | None] = {}
        self._query_characters = self._number = 0
        self.texts: list[str] = []
        self.blocks: list[tuple[str, list[str]]] = []
        left = MAX_CHARACTERS
        for text, media in sheets:
            left -= len(text)
            holds = self._media(media)
            if left >= 0 and holds is not False:
                self.texts.append(cssblocks.plain(text))
                self._add(self.texts[-1], is_sure=holds is True)
        self.is_animated = any("@keyframes" in text.lower() for text in self.texts)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._by_key)

    def may_mean(self, element: Element) -> list[Rule]:
        """Return the rules whose last compound may mean an element."""
        return [rule for key in keys(element) for rule in self._by_key.get(key, ())]

    def _add(self, text: str, *, is_sure: bool) -> None:
        for around, listed, block in cssblocks.rules(text):
            holds = [self._holds(one) for one in around]
            if False in holds:
                continue
            found = keyed(listed, is_quirky=self._is_quirky)
            if self._number + len(found) > MAX_SELECTORS:
                return
            self.blocks.append((block, [key for _, key in found]))
            for one, key in found:
                self._number += 1
                rule = Rule(self._number, one, block, is_sure=is_sure and None not in holds, is_quirky=self._is_quirky)
                self._by_key.setdefault(key, []).append(rule)

    def _holds(self, head: str) -> bool | None:
        """Return whether a condition holds on a desk; None if that cannot be told."""
        return self._media(head[6:]) if head[:6].lower() == "@media" else None

    def _media(self, query: str) -> bool | None:
        if query not in self._queries:
            if found := _WIDTH.fullmatch(query):
                written: str | None = f"({found[1].lower()}-width:{found[2]}px)"
            else:
                self._query_characters += len(query)
                if self._query_characters > _MAX_QUERIES_CHARACTERS:
                    return None
                written = cssmedia.written(nodes_of(query))
            self._queries[query] = False if written is None else cssmedia.on_desk(written)
        return self._queries[query]
