"""The table of scores: what a shape looks like, how closely a noun is joined to it, what the words around say.

Each is above 0 and at most 1; the confidence of a code is their product.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tmpmaild.findings import lexicon
from tmpmaild.findings.codes.cues import NOUNS, Cue

LEAST = 0.45
WEAKLY_NAMED = 0.65
LEAST_BESIDES = 0.7

DIGITS = {4: 0.9, 5: 0.95, 6: 1.0, 7: 0.9, 8: 0.92}
LONG_GROUPS = {9: 0.7, 10: 0.7, 11: 0.7}
PREFIXED_DIGITS = 0.95
YEAR = 0.75
VALUE_LINE = 0.8
SPACED = 0.8
LETTERS = dict.fromkeys(range(4, 11), 0.8)
MIXED = {4: 0.7, **dict.fromkeys(range(5, 11), 0.9), **dict.fromkeys(range(11, 33), 0.59)}
COUPON = 0.54
SHELF = 0.9
EVEN_GROUPS = 0.9
NEARLY_EVEN_GROUPS = 0.7
UNEVEN_GROUPS = LONG_GROUP = 0.55
THREE_WORDS = 0.9
TWO_WORDS = 0.6
SECRET = PHRASE = 0.9
SMALL_LETTERS_COST = 0.15

JOINED = 1.0
JOINED_FROM_BEHIND = 0.98
OTP_ELSEWHERE = 0.6
NOUN_ELSEWHERE = 0.5
COUNTED = 0.3
LINE_COST = 0.04

OLD = 0.5
DOUBTFUL_LETTERS = 0.75
SURE = 0.85

# By what names the number. The first row whose conditions all hold counts; where none does, the score is 0.
# A condition is a place and cues of which one must be there, or with "-" none. The places: "near", the line itself;
# "before" it, up to three lines and the subject; "above", the same and its line; "below", three lines; "around", all.
_STRENGTHS = {
    "otp": {"": 1.0},
    "authorization": {
        "around:trade": 0,
        "around:verify|once|enter|hint": 0.82,
        "around:unit -near:is": 0,
        "": 0.66,
    },
    "compound": {
        "around:trade": 0,
        "around:enter around:verify|once|lasts|confirm": 0.77,
        "around:hint": 0.77,
        "near:verify|once": 0.77,
        "around:parcel around:premises": 0.62,
    },
    "confirmation": {
        "around:trade": 0,
        "around:verify|once|hint|enter": 0.8,
        "near:label": 0,
        "near:is": 0.66,
    },
    "asked": {
        "above:trade -around:hint": 0,
        "near:verify|once|confirm|authorize": 0.8,
        "around:verify|once|confirm|hint": 0.72,
        "around:parcel around:premises": 0.72,
    },
    "code": {
        "near:premises around:parcel": 0.9,
        "near:premises -near:verify|once": 0,
        "near:trade": 0,
        "near:verify|once above:trade": 0.78,
        "near:verify|once": 0.98,
        "above:trade": 0,
        "above:verify|once": 0.86,
        "below:trade -before:confirm": 0,
        "near:confirm|password": 0.88,
        "around:verify|once|confirm|password|hint|lasts|enter": 0.75,
        "around:premises": 0,
        "": 0.66,
    },
    "unknown code": {
        "near:premises around:parcel": 0.9,
        "near:premises -near:verify|once": 0,
        "above:trade": 0,
        "around:verify|once": 0.72,
        "around:hint|enter": 0.6,
    },
    "verb": {
        "above:trade -near:confirm": 0,
        "above:noun|verify|once": 0.85,
        "above:confirm|authorize": 0.7,
    },
    "password": {
        "around:trade": 0,
        "around:hint|authorize|once": 0.6,
        "around:parcel around:premises": 0.6,
    },
}


class _Condition(NamedTuple):
    place: str
    cues: frozenset[Cue]
    holds: bool


def _conditions(text: str) -> list[_Condition]:
    found = []
    for condition in text.split():
        place, _, names = condition.removeprefix("-").partition(":")
        cues = (NOUNS if name == "noun" else {Cue[name.upper()]} for name in names.split("|"))
        found.append(_Condition(place, frozenset[Cue]().union(*cues), not condition.startswith("-")))
    return found


_ROWS = {name: [(_conditions(text), score) for text, score in rows.items()] for name, rows in _STRENGTHS.items()}


def strength(name: str, cues: Mapping[str, frozenset[Cue]]) -> float:
    """Return how surely what names a number makes it a code, by the cues of each place around."""
    for conditions, score in _ROWS[name]:
        for place, wanted, holds in conditions:
            if cues[place].isdisjoint(wanted) is holds:
                break
        else:
            return score
    return 0


# What the signs of ``placement.py`` weigh together, at least 0, makes a number a code that no noun names.
_WITHOUT_SIGNS = -2.75
_EACH_WEIGHT = 0.04
_MOST_BY_SIGNS = 0.7
SIGNS: dict[str, float] = lexicon.load("signs")


_MOST_AROUND = sum(weight for sign, weight in SIGNS.items() if weight > 0 and sign.startswith("around"))


def _weight(signs: Iterable[str]) -> float:
    return _WITHOUT_SIGNS + sum([SIGNS.get(sign, 0) for sign in signs])


def may_be_code(signs: Iterable[str]) -> bool:
    """Return whether the words around can still make a number with these signs a code."""
    return _weight(signs) + _MOST_AROUND > 0


def of_signs(signs: Iterable[str]) -> float:
    """Return the confidence that signs give together, 0 where they speak against a code."""
    weight = _weight(signs)
    return min(LEAST + _EACH_WEIGHT * weight, _MOST_BY_SIGNS) if weight > 0 else 0
