"""A quick look at a tag: whether anything about it could hide text, so that all others need not be read.

It may say so of too many, not of too few: what it passes over neither hides text nor has the colours of hidden text.
"""

import re
from collections.abc import Iterable
from typing import Final

from tmpmaild.mail.csscolours import BLACK, WHITE, Colour, colour, is_clear, of_attribute
from tmpmaild.mail.cssrules import Rules
from tmpmaild.mail.cssvalues import FAR
from tmpmaild.mail.htmltree import names

_WORDS: Final = (
    *("hidden", "popover", "visibility", "opacity", "overflow", "clip", "transform", "scale", "filter", "text-fill"),
    *("transparent", "font:", "font :", "\\", "/*"),
)
# Each begins with what is quickly looked for; they are held against lower case.
_FORMS: Final = (
    re.compile(r"display\s*+:\s*+none"),
    re.compile(r"font-size\s*+:\s*+(?:0|1(?![0-9])|\.|[0-9]{1,2}(?:\.[0-9]*+)?%)"),
    FAR,
    # Named references give no letters, but marks of CSS.
    re.compile(r"&(?!amp;|quot;|nbsp;)"),
)
_RESETS: Final = (
    *("font", "size", "color", "visibility", "background", "fill", "shadow", "stroke", "indent", "animation"),
    *("all:", "all :"),
)
_RESETTING = names("a button dialog input mark select textarea")
_SMALL_IMAGE = re.compile(r"(?:width|height)\s*+[:=]\s*+[\"']?\s*+(?:0|1(?![0-9.]))")
_NAMES = names("datalist dialog template")
_STYLES = re.compile(r"style\s*+=\s*+(?:\"([^\"]*+)|'([^']*+))")
_COLOURED = re.compile(r"color\s*+[:=]\s*+[\"']?\s*+(#?[a-z0-9]++(?:\([^)]{0,80}\))?)")
_BACKGROUND = re.compile(r"background\s*+[:=]\s*+[\"']?\s*+([^;\"'>}]{1,200})")
_TEXT = re.compile(r"text\s*+=\s*+[\"']?\s*+(#?[a-z0-9]++)")
_COLOUR = re.compile(r"#?[a-z0-9]++(?:\([^)]{0,80}\))?")
_CLEAR = ()
_OWN = ""  # a colour that need not be written: black letters, and a white ground
_MAX_SIGNS = 64
_MAX_COLOURS = 400
# What there may be a sign of.
_NOTHING, _IS_GROUND, _HIDES = range(3)


class Signs:
    """Looks at the tags of one mail."""

    def __init__(self, source: str, rules: Rules, *, is_quirky: bool) -> None:
        self._seen: dict[str, int] = {}
        lower = source.lower()
        self._letters, self._shared, self._has_black_ground = _shared_colours(
            [lower, *(text.lower() for text in rules.texts if text not in source)]
        )
        self._words: dict[str, int] = {}
        self._names: dict[str, int] = dict.fromkeys(_NAMES, _HIDES)
        self._resets: dict[str, bool] = {}
        self._resetting = _RESETTING | _keys_of(rules) | ({"table"} if is_quirky else set())
        self._is_any = "\\" in source or _has_odd_styles(lower) or not self._take(rules)

    def may_hide(self, name: str, attributes: str, *, is_coloured: bool) -> bool:
        """Return whether an element may hide text, or have the colours of hidden text.

        A ground alone hides text only where what is around it may have that colour: where it ``is_coloured``.
        """
        if self._is_any:
            return True
        found = self._names.get(name, _NOTHING)
        if attributes and found != _HIDES:
            sign = self._seen.get(attributes)
            if sign is None:
                sign = self._seen[attributes] = self._sign(attributes.lower())
            found = max(found, sign)
        return found == _HIDES or (found == _IS_GROUND and (is_coloured or self._has_black_ground))

    def may_show(self, name: str, attributes: str) -> bool:
        """Return whether an element may show text where what is around it hides text."""
        if self._is_any or name in self._resetting or "*" in self._resetting:
            return True
        found = self._resets.get(attributes)
        if found is None:
            lower = attributes.lower()
            marks = (key[1:] for key in self._resetting if key[0] in ".#")
            found = any(word in lower for word in _RESETS) or any(mark in lower for mark in marks)
            self._resets[attributes] = found
        return found

    def may_hide_image(self, attributes: str) -> bool:
        """Return whether an image may be hidden, or too small to be seen."""
        return (
            self.may_hide("img", attributes, is_coloured=False) or _SMALL_IMAGE.search(attributes.lower()) is not None
        )

    def _sign(self, text: str) -> int:
        """Return what the lower case of an element's attributes, or of a rule's block, may do."""
        for word in _WORDS:
            if word in text:
                return _HIDES
        if any(form.search(text) for form in _FORMS):
            return _HIDES
        found = max((kind for word, kind in self._words.items() if word in text), default=_NOTHING)
        if found == _HIDES or not any(one in text for one in self._shared):
            return found
        letters, _ = _colours(text)
        return _IS_GROUND if self._letters.isdisjoint(letters) else _HIDES

    def _take(self, rules: Rules) -> bool:
        """Take in what rules that may hide look for; return False if these are too many, or for all elements."""
        words: dict[str, int] = {}
        for block, keys in rules.blocks:
            sign = self._sign(block.lower())
            if sign == _NOTHING:
                continue
            for key in keys:
                if key == "*":
                    return False
                kept, one = (words, key[1:].lower()) if key[0] in ".#" else (self._names, key)
                kept[one] = max(sign, kept.get(one, _NOTHING))
        self._words = words
        return len(words) + len(self._shared) <= _MAX_SIGNS


def _keys_of(rules: Rules) -> set[str]:
    """Return what rules that may show text look for."""
    blocks = ((block.lower(), keys) for block, keys in rules.blocks)
    return {key.lower() for block, keys in blocks if any(word in block for word in _RESETS) for key in keys}


def _has_odd_styles(lower: str) -> bool:
    """Return whether a style attribute is written so that what it says cannot be looked for in the source."""
    if "&#" not in lower and "/*" not in lower:
        return False
    return any("&#" in style or "/*" in style for pair in _STYLES.findall(lower) for style in pair)


def _shared_colours(texts: list[str]) -> tuple[set[str], set[str], bool]:
    """Return how colours are written that letters and a ground share: in letters, in either; and if black is one."""
    letters, grounds = set[str](), set[str]()
    for text in texts:
        of_letters, of_grounds = _colours(text)
        letters |= of_letters
        grounds |= of_grounds
    if len(letters) + len(grounds) > _MAX_COLOURS:
        return letters, letters | grounds, True
    by_letters, by_ground = _by_colour(letters, BLACK), _by_colour(grounds, WHITE)
    shared = by_letters.keys() & by_ground.keys()
    of_letters = set[str]().union(*(by_letters[one] for one in shared), by_letters.get(_CLEAR, ()))
    of_either = of_letters.union(*(by_ground[one] for one in shared))
    return of_letters - {_OWN}, of_either - {_OWN}, _OWN in of_letters


def _colours(text: str) -> tuple[set[str], set[str]]:
    """Return which colours a text in lower case gives to letters, and which to what is behind them."""
    letters = set(_TEXT.findall(text))
    grounds = {one for value in set(_BACKGROUND.findall(text)) for one in _COLOUR.findall(value)}
    for found in _COLOURED.finditer(text):
        before = text[max(0, found.start() - 11) : found.start()]
        if before.endswith(("background-", "bg")):
            grounds.add(found[1])
        elif before[-1:] != "-":
            letters.add(found[1])
    return letters, grounds


def _by_colour(spellings: Iterable[str], own: Colour) -> dict[tuple[int, ...], set[str]]:
    """Return the spellings by colour, as far as one can tell colours apart; those of clear ones by none."""
    found: dict[tuple[int, ...], set[str]] = {_rounded(own): {_OWN}}
    for one in spellings:
        value = colour(of_attribute(one))
        if value:
            found.setdefault(_CLEAR if is_clear(value) else _rounded(value), set()).add(one)
    return found


def _rounded(value: Colour) -> tuple[int, ...]:
    return tuple([int(part * 255.5) >> 3 for part in value[:3]])
