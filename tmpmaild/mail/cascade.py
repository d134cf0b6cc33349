"""Decides which style sheet rules apply to an element, to the extent that they may hide its text.

A rule applies certainly or possibly (only on some screens, or only to some elements with these names). A value is
undecided if a rule that possibly applies may override it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from tmpmaild.mail import hiding, mediaqueries, selectors, stylesheets
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.hiding import Declared
from tmpmaild.mail.htmltokens import attributes_of, collapsed

MAX_SELECTORS = 5000

# The measured cost of work in budget steps, for each selector, character or value.
_STEPS_PER_SHEET = 3
_STEPS_PER_SELECTOR = 3
_STEPS_PER_STYLE = 12
_ESCAPES_PER_STEP = 2
_SHEET_PER_STEP = 16
_NAMES_PER_STEP = 8
_VALUES_PER_STEP = 4

_MEDIA = re.compile(r"@media(?![\w-])", re.IGNORECASE)

_Rank = tuple[int, int, int, int]
"""The rank of ``selectors.Requirements``, followed by the position of the rule in the sheets."""

_Claim = tuple[str | None, str | None]
"""The value that certainly applies to a property, and a value that may apply instead, or ``"?"`` for several values."""


class _Block:
    """The block of a rule, or of several rules that share it; its declarations are read when first needed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_suspect = hiding.is_suspicious(text)

    @cached_property
    def declared(self) -> Declared:
        """The block's known declarations."""
        return hiding.declared(self.text)

    @cached_property
    def values(self) -> int:
        """The number of declared values."""
        return len(self.declared[0]) + len(self.declared[1])


class Rule(NamedTuple):
    """One selector with its block. A matching element has at least ``required_names``."""

    rank: _Rank
    required_names: frozenset[str]
    block: _Block
    is_sure: bool

    def may_hide(self, *, on_white: bool) -> bool:
        """Return whether the rule certainly applies and declares anything that may hide text."""
        return (
            self.block.is_suspect and self.is_sure and hiding.may_hide_by_rule(self.block.declared, on_white=on_white)
        )

    @property
    def key(self) -> str:
        """The most specific name that the rule requires: an id, else a class, else a tag name."""
        return max(self.required_names, key=lambda name: (name[0] == "#", name[0] == "."), default="*")


class _Applied:
    """The combined declarations of the rules for a set of names, grouped by importance."""

    def __init__(self, rules: list[Rule], hiding: set[Rule], budget: Budget) -> None:
        self.hides = not hiding.isdisjoint(rules)
        self._claims: tuple[dict[str, _Claim], dict[str, _Claim]] = {}, {}
        for rule in sorted(rules, key=attrgetter("rank"), reverse=True):
            if not budget.take(1 + rule.block.values // _VALUES_PER_STEP):
                break
            for claims, values in zip(self._claims, rule.block.declared, strict=True):
                _claim(claims, values, is_sure=rule.is_sure)
        self._alone = {name: self._value(name, None, None) for name in self._claims[0] | self._claims[1]}

    def with_style(self, style: str) -> dict[str, str]:
        """Return the values that apply together with a style attribute, with ``"?"`` for an undecided value."""
        ordinary, important = hiding.declared(style)
        own = {name: self._value(name, ordinary.get(name), important.get(name)) for name in ordinary | important}
        return self._alone | own

    def _value(self, name: str, ordinary: str | None, important: str | None) -> str:
        """Return the strongest value that certainly applies, or ``"?"`` if a different value may apply."""
        by_rule, by_important_rule = (claims.get(name, (None, None)) for claims in self._claims)
        value, instead = None, None
        for sure, other in (by_rule, (ordinary, None), by_important_rule, (important, None)):
            value, instead = (sure, other) if sure is not None else (value, _either(instead, other))
        return value if value is not None and instead in (None, value) else "?"


def _claim(claims: dict[str, _Claim], values: dict[str, str], *, is_sure: bool) -> None:
    """Add the values of a rule to the values of the rules that override it."""
    for name, value in values.items():
        sure, instead = claims.get(name, (None, None))
        if sure is None:
            claims[name] = (value, instead) if is_sure else (None, _either(instead, value))


def _either(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return other if one is None else one
    return one if one == other else "?"


class Cascade:
    """The style sheet rules of one document.

    The rules are kept if any of them may hide text, or if white text is invisible. Declarations are resolved once for
    each set of names that selectors contain, not once for each element.
    """

    def __init__(
        self, sheets: Iterable[tuple[str, bool]] = (), budget: Budget | None = None, *, on_white: bool = False
    ) -> None:
        self._rules: dict[str, list[Rule]] = {}
        self._applied: dict[frozenset[str], _Applied] = {}
        self._hiding: set[Rule] = set()
        self._hiding_keys: set[str] = set()
        self._required_counts: dict[str, int] = {}
        self._required: frozenset[str] = frozenset()
        self._names: list[str] = []
        if sheets:
            self._keep(list(_rules_of(sheets, budget or Budget(), wanted=on_white)), on_white=on_white)

    def _keep(self, found: list[Rule], *, on_white: bool) -> None:
        self._hiding = {rule for rule in found if rule.may_hide(on_white=on_white)}
        self._hiding_keys = {rule.key for rule in self._hiding}
        if self._hiding or on_white:
            for rule in found:
                self._rules.setdefault(rule.key, []).append(rule)
        self._required_counts = {
            key: sum(1 + len(rule.required_names) for rule in rules) for key, rules in self._rules.items()
        }
        self._required = frozenset[str]().union(*[rule.required_names for rule in found], self._rules)
        self._names = [one.lstrip(".#").partition("?")[0] for one in self._hiding_keys if one[0] in ".#"]

    def may_hide(self, name: str, attributes: str) -> bool:
        """Return whether a quick check finds that a rule may hide an element."""
        if not self._hiding:
            return False
        if name in self._hiding_keys or "*" in self._hiding_keys:
            return True
        return bool(attributes and self._names) and (
            "&" in attributes or len(self._names) > 50 or any(one in attributes for one in self._names)  # noqa: PLR2004
        )

    def style(self, name: str, attributes: dict[str, str], budget: Budget) -> dict[str, str] | None:
        """Return the values for an element, with ``"?"`` for an undecided value, or None if no rule may hide it."""
        own = selectors.names_of(name, attributes)
        if own.isdisjoint(self._hiding_keys):
            return None
        applied = self._for(own, budget)
        return applied.with_style(attributes.get("style", "")) if applied.hides else None

    def colour(self, name: str, attributes: dict[str, str], budget: Budget) -> str | None:
        """Return the colour that the kept rules declare for an element."""
        applied = self._for(selectors.names_of(name, attributes), budget)
        return applied.with_style(attributes.get("style", "")).get("color")

    def _for(self, own: set[str], budget: Budget) -> _Applied:
        names = self._required & own
        applied = self._applied.get(names)
        if applied is None:
            names_examined = sum([self._required_counts.get(one, 0) for one in names])
            is_affordable = budget.take(_STEPS_PER_STYLE + names_examined // _NAMES_PER_STEP)
            examined = [rule for one in names for rule in self._rules.get(one, ())] if is_affordable else []
            matching = [rule for rule in examined if rule.required_names <= names]
            applied = self._applied[names] = _Applied(matching, self._hiding, budget)
        return applied


def sheets_of(parts: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, bool]]:
    """Yield each style sheet among HTML tokens, except print style sheets, and whether it applies on every screen."""
    remaining, applies = stylesheets.MAX_CHARACTERS, None
    is_read = False
    for kind, text, attributes in parts:
        if kind == "start" and text == "style":
            media = stylesheets.media_of(attributes_of(attributes))
            applies = None if media is None else mediaqueries.applies(media)
            is_read = media is not None and applies is not False
        elif kind == "sheet" and is_read:
            sheet = collapsed(text)
            yield sheet[:remaining], applies is True
            remaining = max(0, remaining - len(sheet))


def _rules_of(sheets: Iterable[tuple[str, bool]], budget: Budget, *, wanted: bool) -> Iterator[Rule]:
    """Yield the sheets' rules if any rule may hide text, or if they are ``wanted``; use up to half of the budget."""
    reserved = budget.remaining // 2
    texts = [(_affordable(text, budget, (budget.remaining + reserved) // 2), is_sure) for text, is_sure in sheets]
    if not wanted and not any(is_sure and hiding.is_suspicious(hiding.plain(text).lower()) for text, is_sure in texts):
        return
    order = 0
    for text, is_sure in texts:
        for applies, prelude, block_text in _blocks(text, budget, reserved):
            block = _Block(block_text)
            is_doubtful = block.is_suspect and ("animation" in block.text or not selectors.is_valid(prelude))
            surely_applies = is_sure and applies and not is_doubtful
            for one in selectors.requirements(prelude):
                if order == MAX_SELECTORS or not budget.take(_STEPS_PER_SELECTOR, reserved=reserved):
                    return
                order += 1
                yield Rule((*one.rank, order), one.names, block, surely_applies and one.is_sure)


def _affordable(sheet: str, budget: Budget, reserved: int) -> str:
    """Return the rules from the beginning of a sheet, as far as the budget allows."""
    whole = len(sheet)
    while sheet and not budget.take(
        _STEPS_PER_SHEET + len(sheet) // _SHEET_PER_STEP + sheet.count("\\") // _ESCAPES_PER_STEP, reserved=reserved
    ):
        sheet = sheet[: len(sheet) // 2]
    return sheet if len(sheet) == whole else sheet[: sheet.rfind("}") + 1]


def _blocks(sheet: str, budget: Budget, reserved: int) -> Iterator[tuple[bool, str, str]]:
    """Yield each rule as three values: whether it applies on every screen, its selectors, and its block in lower case.

    A rule that applies on no screen is omitted. A rule that is nested in another rule is treated as possibly applying.
    """
    around: list[bool | None] = [True]  # whether each open at-rule applies
    for kind, prelude, block in stylesheets.pieces_of(sheet, budget, reserved=reserved):
        if kind == "end":
            around.pop()
        elif kind == "start":
            own = _applies(hiding.plain(prelude))
            around.append(False if own is False or around[-1] is False else own and around[-1])
        elif around[-1] is not False and "{" in block:
            yield from _with_nested(prelude, block, budget, reserved, is_sure=around[-1] is True)
        elif around[-1] is not False:
            yield around[-1] is True, hiding.plain(prelude), hiding.plain(block).lower()


def _with_nested(
    prelude: str, block: str, budget: Budget, reserved: int, *, is_sure: bool
) -> Iterator[tuple[bool, str, str]]:
    """Yield a rule and the rules nested in its block; each of the nested rules only possibly applies."""
    found = [(is_sure, prelude, block)]
    for applies, selectors_text, text in found:  # ``found`` grows in this loop
        own = text.partition("{")[0].rpartition(";")[0] if "{" in text else text
        yield applies, hiding.plain(selectors_text), hiding.plain(own).lower()
        pieces = stylesheets.pieces_of(text, budget, reserved=reserved) if "{" in text else ()
        found += [
            (False, inner.rpartition(";")[2].strip(), content) for kind, inner, content in pieces if kind == "rule"
        ]


def _applies(prelude: str) -> bool | None:
    """Return whether the rules in an at-rule apply on every screen (True), on no screen (False) or on some (None)."""
    media = _MEDIA.match(prelude)
    return mediaqueries.applies(prelude[media.end() :].strip()) if media else None
