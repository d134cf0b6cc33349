"""Codes that no noun names, or only weakly: how a number is set in its mail tells as much, in every language.

What somebody is to type is in a line of its own, behind a colon or first in its sentence, in a mail with few other
numbers and hardly any amount; a receipt has many, each with a label. What each sign weighs is in ``words/signs.toml``.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tmpmaild.findings.codes import scores
from tmpmaild.findings.codes.cues import NOUNS, NUMBERS, OTHER_KINDS, VERIFYING, Cue
from tmpmaild.findings.codes.lines import Line, Mail, is_plain
from tmpmaild.findings.codes.shapes import COLONS, Kind, Shape

_MOST_LINES = 300
_FEWEST_LINES = 2
_LINES_AROUND = 3
_EARLY_LINES = 5
_LINES_THAT_REFER = 6
_LATE_SHARE = 2 / 3
_TITLE_CHARACTERS = 40
_NAMING_CHARACTERS = 12
_MOST_COUNTED = 2
_WEAK_SHAPE = 0.7

_QUOTES = " *_\"'\u00ab\u201c\u201e\u2018\u300c\u3010"
_SENTENCE_ENDS = (".", "!", "?", ",", "\u3002", "\uff0c", "\uff01", "\u0964")
_NUMBER_SIGNS = ("#", "\u2116", "\u00ba", "\u00b0")
_NO_WORDS = re.compile(r"(?:[^.!?]{1,20}[.!?] )?[^\w+(%#$\u20a0-\u20cf]*")
_NOTHING_MORE = re.compile(r"[^\w%$\u20a0-\u20cf]*\Z")
_GOES_ON = re.compile(r"\*{0,2} (?:[\u2013\u2014-] |[^\W\d_A-Z])|[^\x00-\u10ff]")
_AMOUNT = re.compile(
    "[$\u00a3\u00a5\u20a0-\u20cf] ?[0-9]|[0-9] ?(?:[$\u00a3\u00a5\u20a0-\u20cf\u5143\u5186\uc6d0]"
    r"|(?i:usd|eur|kr|z\u0142|k\u010d|tl|\u0440\u0443\u0431|lei|\u0433\u0440\u043d|ft|rp)\b)"
)
# "10 minutes", in whatever language.
_DURATION = re.compile(r"(?<![\w.,:/-])(?:5|10|15|20|24|30|48|60|90)[ -]?(?![0-9/.:,%$\u20a0-\u20cf])[^\W\d_]")

_REFERRING = NOUNS | NUMBERS | {Cue.ENTER}
_CUES = {
    "noun": NOUNS,
    "verify": VERIFYING,
    "confirm": frozenset({Cue.CONFIRM, Cue.AUTHORIZE, Cue.PASSWORD}),
    "enter": frozenset({Cue.ENTER, Cue.ENTERED}),
    "hint": frozenset({Cue.HINT, Cue.LASTS}),
    "label": NUMBERS | {Cue.LABEL, Cue.THING},
    "trade": frozenset({Cue.TRADE}),
}
# Within a sentence of the text a number is a code only where one is asked to enter it.
_WITHIN = frozenset({"inside", "ends"})
_FAR = " " * 9  # what is said behind a noun does not count; in a title it does
# With which other numbers one competes for being the code.
_RIVALS = {"alone": frozenset({"alone"}), "colon": frozenset({"alone", "colon"})}


class _Placed(NamedTuple):
    """What may be a code, the number of its line, and its position in it."""

    number: int
    shape: Shape
    place: str


class _Counted:
    """A mail, and what is counted in all of its lines."""

    def __init__(self, mail: Mail) -> None:
        self.lines, self.first, self.cues = mail.lines[:_MOST_LINES], mail.first, mail.cues
        first = mail.first
        self.late = first + max(_EARLY_LINES, int(_LATE_SHARE * (len(self.lines) - first)))
        self.placed = [
            _Placed(number, shape, _place(line, shape))
            for number, line in enumerate(self.lines)
            for shape in line.shapes
            if shape.kind is not Kind.PHRASE
        ]
        self._has_amounts = any(_AMOUNT.search(line.text) for line in self.lines)
        self._rivals = {place: self._values_at(places) for place, places in _RIVALS.items()}
        self._values = {one.shape.value for one in self.placed if one.shape.kind is not Kind.LETTERS}

    def _values_at(self, places: frozenset[str]) -> set[str]:
        body = (one for one in self.placed if self.first <= one.number < self.late)
        return {one.shape.value for one in body if one.place in places}

    def competition(self, one: _Placed) -> Iterator[str]:
        """Yield the signs of how many other numbers there are."""
        rivals = self._rivals.get(one.place, self._rivals["colon"]) - {one.shape.value}
        if self._has_amounts:
            yield "amounts"
        yield f"rivals {min(len(rivals), _MOST_COUNTED)}"
        if len(self._values) == 1:
            yield "sole"

    def refers_to_subject(self) -> bool:
        """Return whether the text says so: "your code is in the subject of this mail"."""
        cues = self.cues(self.first, self.first + _LINES_THAT_REFER)
        return Cue.SUBJECT in cues and not cues.isdisjoint(_REFERRING)

    def title(self, one: _Placed) -> Line | None:
        """Return the line right above a lone number that ends in a colon or is short."""
        if one.place != "alone" or one.number <= self.first:
            return None
        above = self.lines[one.number - 1]
        is_short = len(above.text) <= _TITLE_CHARACTERS and not above.text.endswith(_SENTENCE_ENDS)
        return above if is_short or above.text.endswith(COLONS) else None


def weigh(mail: Mail) -> dict[str, float]:
    """Return the values that are set as codes are, with their confidence."""
    if sum(bool(line.text) for line in mail.lines) < _FEWEST_LINES:
        return {}
    counted = _Counted(mail)
    found: dict[str, float] = {}
    for one in counted.placed:
        confidence = scores.of_signs(_signs(counted, one))
        if confidence:
            found[one.shape.value] = max(confidence, found.get(one.shape.value, 0))
    return found


def _signs(mail: _Counted, one: _Placed) -> set[str]:
    """Return the signs that a number is a code or is none; where a noun stands, words have said what it is."""
    own = mail.lines[one.number].cues
    if one.place in _WITHIN and one.number >= mail.first and own.isdisjoint(_CUES["enter"]):
        return set()
    title = mail.title(one)
    if _is_named(mail.lines[one.number]) or (title and _is_named(title)):
        return set()
    signs = {one.place, *mail.competition(one), *_of_shape(one.shape), *_of_place(mail, one), *_named("own", own)}
    signs |= {*_of_names(mail, one), *_named("subject", mail.cues(0, mail.first))}
    if scores.may_be_code(signs):  # the words around take the most time
        signs |= set(_around(mail, one))
    return signs


def _is_named(line: Line) -> bool:
    """Return whether a noun says what its number is; behind an unknown word ("gatekeeper code") it is a label."""
    nouns, behind = line.nouns(used=True), _FAR if line.shapes else ""
    return any(noun.cue is not Cue.CODE or is_plain(line, noun, behind) for noun in nouns)


def _place(line: Line, shape: Shape) -> str:
    """Return the position of a number in its line: alone, behind a colon, first, last or inside."""
    before, behind = line.text[: shape.start], line.text[shape.end :]
    is_last = _NOTHING_MORE.match(behind) is not None
    if _NO_WORDS.fullmatch(before):
        return "alone" if is_last else "leads" if _GOES_ON.match(behind) else "inside"
    if not is_last:
        return "inside"
    return "colon" if before.rstrip(_QUOTES).endswith(COLONS) else "ends"


def _of_shape(shape: Shape) -> Iterator[str]:
    yield f"{len(shape.value)} digits" if shape.kind is Kind.DIGITS else shape.kind.name.lower()
    if shape.end - shape.start > len(shape.value):
        yield "grouped"
    if "-" in shape.value and shape.kind is Kind.MIXED:
        yield "hyphen"
    if shape.score <= _WEAK_SHAPE:
        yield "weak shape"


def _of_place(mail: _Counted, one: _Placed) -> Iterator[str]:
    number = one.number
    if number < mail.first and mail.refers_to_subject():
        yield "referred to"
    elif number < mail.first + _EARLY_LINES:
        yield "early"
    elif number >= mail.late:
        yield "late"
    near = mail.lines[max(number - 1, mail.first) : number + 1 + _LINES_AROUND]
    if any(_DURATION.search(line.text) for line in near):
        yield "duration"
    title = mail.title(one)
    if title and not title.text.endswith(COLONS) and title.cues.isdisjoint(VERIFYING):
        yield "below title"


def _around(mail: _Counted, one: _Placed) -> Iterator[str]:
    """Yield what the words tell up to three lines above and below."""
    number = one.number
    above = mail.cues(max(number - _LINES_AROUND, mail.first), number)
    yield from _named("around", above | mail.cues(number + 1, number + 1 + _LINES_AROUND))


def _named(place: str, cues: frozenset[Cue]) -> Iterator[str]:
    for name, wanted in _CUES.items():
        if not cues.isdisjoint(wanted):
            yield f"{place} {name}"


def _of_names(mail: _Counted, one: _Placed) -> Iterator[str]:
    """Yield what is said of the number itself: another kind of number, an amount, or that one types it."""
    line, shape = mail.lines[one.number], one.shape
    names = _names(mail, one)
    if line.text[: shape.start].rstrip().endswith(_NUMBER_SIGNS) or (names & OTHER_KINDS and not names & VERIFYING):
        yield "other kind"
    elif not names.isdisjoint(_CUES["label"]):
        yield "labelled"
    if line.is_asked_for(shape):
        yield "asked"
    if line.is_counted(shape):
        yield "unit"


def _names(mail: _Counted, one: _Placed) -> set[Cue]:
    """Return the cues right before a number, at the end of its title, or below: "1234", then "is your order number"."""
    title, line, below = mail.title(one), mail.lines[one.number], mail.lines[one.number + 1 : one.number + 2]
    if title and not title.cues.isdisjoint(VERIFYING):
        return set()
    if title:
        return {mark.cue for mark in title.marks if len(title.text) - mark.end <= _NAMING_CHARACTERS}
    if one.place == "alone" and below and below[0].text[:1].islower():
        return set(below[0].cues)
    return {mark.cue for mark in line.marks if 0 <= one.shape.start - mark.end <= _NAMING_CHARACTERS}
