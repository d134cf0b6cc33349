"""Scores the numbers that no noun identifies as codes, by features: form, position and surrounding words.

The scores come from a linear model, which adds up the weights of a number's features (``words/features.toml``). A sum
above the bias is converted to a score.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tmpmaild.findings import lexicon
from tmpmaild.findings.candidates import COLONS, QUOTES, Candidate, Kind
from tmpmaild.findings.cues import NOUNS, NUMBERS, OTHER_KINDS, VERIFYING, Cue
from tmpmaild.findings.lines import Document, Line, has_known_modifiers
from tmpmaild.findings.naming import LABEL_CHARACTERS

LEAST = 0.45
"""The lowest score of a code."""

_BIAS = -2.75
_SCORE_PER_WEIGHT = 0.04
_MAX_FEATURE_SCORE = 0.7
_WEIGHTS = lexicon.load("features", dict[str, float])
_MAX_AROUND_WEIGHT = sum(weight for name, weight in _WEIGHTS.items() if weight > 0 and name.startswith("around"))

_MAX_LINES = 300
_MIN_LINES = 2
_LINES_AROUND = 3
_EARLY_LINES = 5
_LINES_THAT_REFER = 6
_LATE_SHARE = 2 / 3
_TITLE_CHARACTERS = 40
_MAX_COUNTED = 2
_WEAK_CANDIDATE = 0.7

_SENTENCE_ENDS = (".", "!", "?", ",", "\u3002", "\uff0c", "\uff01", "\u0964")
_NUMBER_SIGNS = ("#", "\u2116", "\u00ba", "\u00b0")
# Names that may make up the entire subject: "Auth0", "Log4Shell", "WEB3".
_BRAND = re.compile(r"(?=[^a-z]*+[a-z])[A-Za-z]++[0-9]{1,3}[A-Za-z]*+|[A-Z]{3,}+[0-9]{1,2}")
_NO_WORDS = re.compile(r"(?:[^.!?]{1,20}[.!?] )?[^\w+(%#$\u20a0-\u20cf]*")
_NOTHING_MORE = re.compile(r"[^\w%$\u20a0-\u20cf]*\Z")
_CONTINUES = re.compile(r"\*{0,2} (?:[\u2013\u2014-] |[^\W\d_A-Z])|[^\x00-\u10ff]")
_AMOUNT = re.compile(
    "[$\u00a3\u00a5\u20a0-\u20cf] ?[0-9]|[0-9] ?(?:[$\u00a3\u00a5\u20a0-\u20cf\u5143\u5186\uc6d0]"
    r"|(?i:usd|eur|kr|z\u0142|k\u010d|tl|\u0440\u0443\u0431|lei|\u0433\u0440\u043d|ft|rp)\b)"
)
# "10 minutes", in any language.
_DURATION = re.compile(r"(?<![\w.,:/-])(?:5|10|15|20|24|30|48|60|90)[ -]?(?![0-9/.:,%$\u20a0-\u20cf])[^\W\d_]")

_REFERRING = NOUNS | NUMBERS | {Cue.ENTER}
# The cues used as features, keyed by their names in features.toml.
_CUES = {
    "noun": NOUNS,
    "verify": VERIFYING,
    "confirm": frozenset({Cue.CONFIRM, Cue.AUTHORIZE, Cue.PASSWORD}),
    "enter": frozenset({Cue.ENTER, Cue.ENTERED}),
    "hint": frozenset({Cue.HINT, Cue.LASTS}),
    "label": NUMBERS | {Cue.LABEL, Cue.THING},
    "trade": frozenset({Cue.TRADE}),
}
# A number inside a sentence of the text is a code only if the sentence asks the reader to enter it.
_WITHIN = frozenset({"inside", "ends"})
_FAR = " " * 9  # a word after a noun does not qualify it, except in a title
# Maps a number's place to the places of the numbers that compete with it.
_RIVALS = {"alone": frozenset({"alone"}), "colon": frozenset({"alone", "colon"})}


class _Placed(NamedTuple):
    """A candidate, its line number, and its place in the line."""

    number: int
    candidate: Candidate
    place: str


class _Counts:
    """A document, and counts over all its lines."""

    def __init__(self, document: Document) -> None:
        self.lines, self.first, self.cues = document.lines[:_MAX_LINES], document.first, document.cues
        self.late = self.first + max(_EARLY_LINES, int(_LATE_SHARE * (len(self.lines) - self.first)))
        self.placed = [
            _Placed(number, candidate, _place(line, candidate))
            for number, line in enumerate(self.lines)
            for candidate in line.candidates
            if candidate.kind is not Kind.PHRASE and not line.is_user_name(candidate)
        ]
        self._has_amounts = any(_AMOUNT.search(line.text) for line in self.lines)
        self._rivals = {place: self._values_at(places) for place, places in _RIVALS.items()}
        self._values = {one.candidate.value for one in self.placed if one.candidate.kind is not Kind.LETTERS}

    def _values_at(self, places: frozenset[str]) -> set[str]:
        body = (one for one in self.placed if self.first <= one.number < self.late)
        return {one.candidate.value for one in body if one.place in places}

    def competition(self, one: _Placed) -> Iterator[str]:
        """Yield the features that depend on the number of competing candidates."""
        rivals = self._rivals.get(one.place, self._rivals["colon"]) - {one.candidate.value}
        if self._has_amounts:
            yield "amounts"
        yield f"rivals {min(len(rivals), _MAX_COUNTED)}"
        if len(self._values) == 1:
            yield "sole"

    def refers_to_subject(self) -> bool:
        """Return whether the text refers to the subject, as in "your code is in the subject"."""
        cues = self.cues(self.first, self.first + _LINES_THAT_REFER)
        return Cue.SUBJECT in cues and not cues.isdisjoint(_REFERRING)

    def title(self, one: _Placed) -> Line | None:
        """Return the line directly above a number that is alone on its line, if it is short or ends in a colon."""
        if one.place != "alone" or one.number <= self.first:
            return None
        above = self.lines[one.number - 1]
        is_short = len(above.text) <= _TITLE_CHARACTERS and not above.text.endswith(_SENTENCE_ENDS)
        return above if is_short or above.text.endswith(COLONS) else None


def score_by_features(document: Document) -> dict[str, float]:
    """Return the values that have the features of codes, with their scores."""
    if sum(bool(line.text) for line in document.lines) < _MIN_LINES:
        return {}
    counts = _Counts(document)
    found: dict[str, float] = {}
    for one in counts.placed:
        weight = _weight(_features(counts, one))
        if weight > 0:
            score = min(LEAST + _SCORE_PER_WEIGHT * weight, _MAX_FEATURE_SCORE)
            found[one.candidate.value] = max(score, found.get(one.candidate.value, 0))
    return found


def _features(counts: _Counts, one: _Placed) -> set[str]:
    """Return a candidate's features; empty if a noun names the candidate, because the noun then decides."""
    own = counts.lines[one.number].cues
    if one.place in _WITHIN and one.number >= counts.first and own.isdisjoint(_CUES["enter"]):
        return set()
    if _is_brand(counts, one):
        return set()
    title = counts.title(one)
    if _is_named(counts.lines[one.number]) or (title and _is_named(title)):
        return set()
    features = {one.place, *counts.competition(one), *_of_form(one.candidate), *_of_place(counts, one)}
    features |= {*_of_cues("own", own), *_of_label(counts, one)}
    features |= {*_of_cues("subject", counts.cues(0, counts.first))}
    if _weight(features) + _MAX_AROUND_WEIGHT > 0:  # searching the surrounding lines is expensive
        above = counts.cues(max(one.number - _LINES_AROUND, counts.first), one.number)
        below = counts.cues(one.number + 1, one.number + 1 + _LINES_AROUND)
        features |= {*_of_cues("around", above | below)}
    return features


def _is_brand(counts: _Counts, one: _Placed) -> bool:
    """Return whether the entire subject is a name that contains a digit."""
    is_whole = one.number < counts.first and one.place == "alone"
    return is_whole and _BRAND.fullmatch(one.candidate.value) is not None and not counts.refers_to_subject()


def _is_named(line: Line) -> bool:
    """Return whether a noun without unknown modifiers names a line's number: "access code", not "gatekeeper code"."""
    rest = _FAR if line.candidates else ""
    nouns = line.nouns(attached=True)
    return any(noun.cue is not Cue.CODE or has_known_modifiers(line, noun, rest) for noun in nouns)


def _place(line: Line, candidate: Candidate) -> str:
    """Return the place of a candidate in its line: alone, after a colon, first, last or inside."""
    before, behind = line.text[: candidate.start], line.text[candidate.end :]
    is_last = _NOTHING_MORE.match(behind) is not None
    if _NO_WORDS.fullmatch(before):
        return "alone" if is_last else "leads" if _CONTINUES.match(behind) else "inside"
    if not is_last:
        return "inside"
    return "colon" if before.rstrip(QUOTES).endswith(COLONS) else "ends"


def _of_form(candidate: Candidate) -> Iterator[str]:
    kind = candidate.kind
    yield f"{len(candidate.value)} digits" if kind is Kind.DIGITS else kind.name.lower()
    if candidate.end - candidate.start > len(candidate.value):
        yield "grouped"
    if "-" in candidate.value and kind is Kind.MIXED:
        yield "hyphen"
    if candidate.score <= _WEAK_CANDIDATE:
        yield "weak candidate"


def _of_place(counts: _Counts, one: _Placed) -> Iterator[str]:
    number = one.number
    if number < counts.first and counts.refers_to_subject():
        yield "referred to"
    elif number < counts.first + _EARLY_LINES:
        yield "early"
    elif number >= counts.late:
        yield "late"
    near = counts.lines[max(number - 1, counts.first) : number + 1 + _LINES_AROUND]
    if any(_DURATION.search(line.text) for line in near):
        yield "duration"
    title = counts.title(one)
    if title and not title.text.endswith(COLONS) and title.cues.isdisjoint(VERIFYING):
        yield "below title"


def _of_cues(where: str, cues: frozenset[Cue]) -> Iterator[str]:
    for name, wanted in _CUES.items():
        if not cues.isdisjoint(wanted):
            yield f"{where} {name}"


def _of_label(counts: _Counts, one: _Placed) -> Iterator[str]:
    """Yield a number's features from its line: a different kind, a quantity, or a number to enter."""
    line, candidate = counts.lines[one.number], one.candidate
    label = _label(counts, one)
    is_numbered = line.text[: candidate.start].rstrip().endswith(_NUMBER_SIGNS)
    if is_numbered or (label & OTHER_KINDS and not label & VERIFYING):
        yield "other kind"
    elif not label.isdisjoint(_CUES["label"]):
        yield "labelled"
    if line.is_to_be_entered(candidate):
        yield "asked"
    if line.is_quantity(candidate):
        yield "unit"


def _label(counts: _Counts, one: _Placed) -> set[Cue]:
    """Return the cues that label a number: directly before it, at the end of its title, or on the line below it."""
    title, line, below = counts.title(one), counts.lines[one.number], counts.lines[one.number + 1 : one.number + 2]
    if title and not title.cues.isdisjoint(VERIFYING):
        return set()
    if title:
        return {span.cue for span in title.spans if len(title.text) - span.end <= LABEL_CHARACTERS}
    if one.place == "alone" and below and below[0].text[:1].islower():
        return set(below[0].cues)
    return {span.cue for span in line.spans if 0 <= one.candidate.start - span.end <= LABEL_CHARACTERS}


def _weight(features: Iterable[str]) -> float:
    """Return the sum of the weights; a sum above 0 indicates a code."""
    return _BIAS + sum([_WEIGHTS.get(name, 0) for name in features])
