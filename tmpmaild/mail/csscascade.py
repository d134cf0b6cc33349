"""Which declarations count for an element of a mail, of those in its sheets, in its ``style`` and in its attributes.

A rule of which it is not sure that it applies may show what another hides, but hides nothing itself.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tmpmaild.mail import cssblocks
from tmpmaild.mail.csseffects import NO_EFFECT, Effect, effect
from tmpmaild.mail.cssmatching import Element, Matcher
from tmpmaild.mail.cssrules import Declared, Reader, Rule, Rules
from tmpmaild.mail.cssvalues import UNKNOWN, Value
from tmpmaild.mail.htmlhints import hints
from tmpmaild.mail.htmltokens import attributes_of

MAX_STYLE_CHARACTERS = 256 * 1024  # of different attributes of one mail
# A mail may cost half as many steps as it has characters; what is no comparison counts as many as take as long.
_MIN_STEPS = 10_000
_STEPS_OF_TAG = 40
_STEPS_OF_ELEMENT = 12
_MAX_KNOWN = 2000
_OF_HINTS = (-1, 0, 0)
_OF_STYLES = (0, 0, 0)


class Known(NamedTuple):
    """What a tag says by itself, and the rules that mean it if it lies in certain others."""

    element: Element
    declared: list[Declared]
    rules: list[Rule]
    effects: dict[tuple[int, ...], Effect]


class Cascade:
    """The styles of one mail. What passes a bound is not looked at, so that nothing is hidden by it."""

    def __init__(self, rules: Rules, characters: int, *, is_quirky: bool) -> None:
        self._is_quirky = is_quirky
        self._rules = rules
        self._matcher = Matcher(max(_MIN_STEPS, characters // 2))
        self._reader = Reader(rules.texts)
        self._known: dict[tuple[str, str], Known] = {}
        self._style_characters = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the mail has cost so much that nothing more of it is looked at."""
        return self._matcher.is_exhausted

    def known(self, name: str, attributes: str) -> Known:
        """Read a tag; equal ones are read once."""
        found = self._known.get((name, attributes))
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._matcher.spend(_STEPS_OF_TAG + len(attributes) // 4)
            found = self._known[name, attributes] = self._read(name, attributes)
        return found

    def effect(self, known: Known, around: Callable[[], Sequence[Element]]) -> Effect:
        """Return what an element does, given those that it lies in, the outermost first."""
        rules = known.rules
        if not rules and not known.declared:
            return NO_EFFECT
        self._matcher.spend(_STEPS_OF_ELEMENT)
        if rules:
            outer = around()
            rules = [rule for rule in rules if self._matcher.lies_right(rule.selector, outer)]
        key = tuple([rule.number for rule in rules])
        found = known.effects.get(key)
        if found is None:
            found = known.effects[key] = self._effect(known, rules)
        return found

    def _effect(self, known: Known, rules: list[Rule]) -> Effect:
        declared = [*known.declared, *(one for rule in rules for one in rule.declared(self._reader))]
        self._matcher.spend(len(declared))
        values = _counting(declared)
        if not self._rules.is_animated:
            values.pop("animation", None)
        return effect(known.element.name, values) if values else NO_EFFECT

    def _read(self, name: str, text: str) -> Known:
        attributes = attributes_of(text) if text else {}
        own_id, classes = attributes.get("id", ""), attributes.get("class", "")
        if self._is_quirky:
            own_id, classes = own_id.lower(), classes.lower()
        element = Element(name, attributes, own_id, frozenset(classes.split()))
        declared = [
            Declared(one, value, (False, False, _OF_HINTS, 0, at), is_sure=True)
            for at, (one, value) in enumerate(hints(name, attributes, is_quirky=self._is_quirky))
        ]
        style = attributes.get("style", "")
        self._style_characters += len(style)
        if style and self._style_characters <= MAX_STYLE_CHARACTERS:
            declared += self._reader.declared(
                cssblocks.plain(style), (True, _OF_STYLES, 0), is_sure=True, is_image=name == "img"
            )
        if not self._rules:
            return Known(element, declared, [], {})
        rules = [rule for rule in self._rules.may_mean(element) if self._matcher.asks_for(rule.selector, element)]
        declared += [one for rule in rules if rule.selector.is_alone for one in rule.declared(self._reader)]
        return Known(element, declared, [rule for rule in rules if not rule.selector.is_alone], {})


def _counting(declared: list[Declared]) -> dict[str, Value]:
    """Return the value of each property that counts."""
    values = {one.name: one.value for one in declared}
    if len(values) == len(declared) and all(one.is_sure for one in declared):
        return values
    by_name: dict[str, list[Declared]] = {}
    for one in declared:
        by_name.setdefault(one.name, []).append(one)
    return {
        name: ones[0].value if len(ones) == 1 and ones[0].is_sure else _first(ones) for name, ones in by_name.items()
    }


def _first(declared: list[Declared]) -> Value:
    """Return the sure value of the highest rank, UNKNOWN if one that is not sure stands above it."""
    above: list[Value] = []
    for one in sorted(declared, key=lambda one: one.rank, reverse=True):
        if one.is_sure:
            return UNKNOWN if any(value != one.value for value in above) else one.value
        above.append(one.value)
    return UNKNOWN
