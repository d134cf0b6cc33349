"""Which word of a line names which number; how surely that makes it a code is for ``finder.py``."""

import re
from typing import NamedTuple

from tmpmaild.findings.codes import scores
from tmpmaild.findings.codes.cues import NUMBERS, OTHER_KINDS, PLAIN_WORDS, VERIFYING, Cue, Mark
from tmpmaild.findings.codes.lines import OF, OPENS_VALUE, Line, is_told
from tmpmaild.findings.codes.shapes import TYPED, Kind, Shape

_NAMING_CHARACTERS = 12
_NEAR_CHARACTERS = 60
_TOUCHING_CHARACTERS = 4
_WORDS_OF_IT = 2

_OTHER_NAMES = OTHER_KINDS | NUMBERS | {Cue.THING}
_PURPOSES = VERIFYING | {Cue.CONFIRM, Cue.DELIVERY}
_CLAUSE_END = re.compile(r"[,;(|\u3001\uff0c]")
_HEAD_END = re.compile(r"[:\])] ?[A-Za-z]")
_PAUSE = re.compile(r"[,;!?]")
_COUNTED = re.compile(r" [^\W\d_A-Z]{4}")


class Naming(NamedTuple):
    """What a line says of a number: ``noun`` names it, the more surely the nearer ``closeness`` is to 1.

    Without a noun something else names it.
    """

    noun: Mark | None
    closeness: float


_SOMETHING_ELSE = Naming(None, 0)


def naming(line: Line, index: int) -> Naming | None:
    """Return what the words of a line say of its number ``index``; None when they say nothing."""
    shape = line.shapes[index]
    names = [mark for mark in line.marks if mark.cue in _OTHER_NAMES and mark.end <= shape.start]
    noun = next((mark for mark in reversed(line.nouns()) if mark.end <= shape.start), None)
    if noun is not None:
        if _another_is_nearer(line, noun, [name for name in names if name.start >= noun.end], shape):
            return _SOMETHING_ELSE
        closeness = _closeness(line, noun, shape)
        return Naming(noun, closeness) if closeness else None
    noun = _noun_behind(line, index)
    closeness = _closeness_from_behind(line, noun, shape) if noun else 0
    if names and _is_next_to(line, names[-1], shape) and not line.leads_to(shape, Cue.ENTER):
        gap = line.text[names[-1].end : shape.start]
        if closeness < 1 or (len(gap) <= _TOUCHING_CHARACTERS and ":" not in gap):
            return _SOMETHING_ELSE
    return Naming(noun, closeness) if closeness else None


def is_joined(line: Line, noun: Mark, shape: Shape) -> bool:
    """Return whether a noun and a number behind it are plainly one phrase: "code: 1234", "code for you is 1234"."""
    gap = line.text[noun.end : shape.start].rstrip()
    is_short = shape.start - noun.end <= _TOUCHING_CHARACTERS or _ends_in_purpose(line, shape)
    if gap.endswith(("...", "\u2026")) or (gap[-1:] in OPENS_VALUE and (is_short or gap[-1] not in "([{")):
        return True
    if is_short and (shape.kind in TYPED or (shape.kind is Kind.YEAR and is_told(line.marks, line.marks.index(noun)))):
        return True
    return line.leads_to(shape, Cue.IS) or line.leads_to(shape, Cue.ENTER)


def is_it(line: Line, shape: Shape) -> bool:
    """Return whether a line goes on about what was named before: "It is 1234"; a copula may end it."""
    is_said = line.leads_to(shape, Cue.IS) or line.follows(shape, Cue.IS)
    return is_said and line.text.count(" ", 0, shape.start) <= _WORDS_OF_IT and line.cues.isdisjoint(_OTHER_NAMES)


def _ends_in_purpose(line: Line, shape: Shape) -> bool:
    """Return whether what a code is for is right before a number: "code for your login 1234"."""
    return any(mark.cue in _PURPOSES and 0 <= shape.start - mark.end <= _TOUCHING_CHARACTERS for mark in line.marks)


def _is_next_to(line: Line, name: Mark, shape: Shape) -> bool:
    """Return whether a name may belong to a number; a salutation does not: "Dear customer, 1234 is"."""
    return shape.start - name.end <= _NAMING_CHARACTERS and not _PAUSE.search(line.text, name.end, shape.start)


def _another_is_nearer(line: Line, noun: Mark, names: list[Mark], shape: Shape) -> bool:
    """Return whether another name stands between a noun and a number and takes it: "with the code call 1234"."""
    if not names or not _is_next_to(line, names[-1], shape):
        return False
    name = names[-1]
    gap = line.text[name.end : shape.start]
    is_opened = gap.rstrip()[-1:] in OPENS_VALUE
    if is_opened and _is_of_one_clause(line, noun, name):
        return False
    if line.leads_to(shape, Cue.IS) or (is_opened and name.cue is Cue.THING):
        return False
    return not _is_of_one_phrase(line, noun, name, is_opened=is_opened)


def _is_of_one_clause(line: Line, noun: Mark, name: Mark) -> bool:
    """Distinguish "enter the code on the page: 1234" and "give it, when he hands over the parcel: 1234"."""
    is_parcel = any(mark.cue is Cue.PARCEL and mark.start == name.start for mark in line.marks)
    return is_parcel or not _CLAUSE_END.search(line.text, noun.end, name.start)


def _is_of_one_phrase(line: Line, noun: Mark, name: Mark, *, is_opened: bool) -> bool:
    """Distinguish "code for receipt of order 1234" and "code to verify your order: 1234" from "code for order 1234"."""
    purposes = [mark for mark in line.marks if noun.end <= mark.start < name.start and mark.cue in _PURPOSES]
    return bool(purposes) and (is_opened or OF.fullmatch(line.text, purposes[-1].end, name.start) is not None)


def _closeness(line: Line, noun: Mark, shape: Shape) -> float:
    """Return how closely a noun is joined to a number behind it."""
    if is_joined(line, noun, shape):
        return scores.JOINED
    if shape.kind not in TYPED:
        return 0
    if _COUNTED.match(line.text, shape.end) and not line.follows(shape, Cue.IS):
        return scores.COUNTED
    return scores.OTP_ELSEWHERE if noun.cue is Cue.OTP else scores.NOUN_ELSEWHERE


def _noun_behind(line: Line, index: int) -> Mark | None:
    """Return the noun that may name a number before it, unless there is one behind it that it names rather."""
    shape = line.shapes[index]
    noun = next((mark for mark in line.nouns() if 0 <= mark.start - shape.end <= _NEAR_CHARACTERS), None)
    others = (other for other in line.shapes[index + 1 :] if other.kind in TYPED)
    following = next(others, None)
    if noun is None or following is None:
        return noun
    return None if following.start < noun.start or is_joined(line, noun, following) else noun


def _closeness_from_behind(line: Line, noun: Mark, shape: Shape) -> float:
    """Return how closely a noun is joined to a number before it: "1234 is your code", but not "1234 lines of code"."""
    gap = line.text[shape.end : noun.start]
    is_heading = _HEAD_END.match(gap) and PLAIN_WORDS.isdisjoint(gap[1:].lower().split())
    if shape.kind is Kind.WORDS or is_heading:
        return 0
    if line.follows(shape, Cue.IS):
        return scores.JOINED
    if not gap[:2].strip().isalnum() and (shape.kind is not Kind.YEAR or gap[:1] in "])"):
        return scores.JOINED_FROM_BEHIND
    between = {mark.cue for mark in line.marks if shape.end <= mark.start < noun.start}
    is_many = line.text[noun.end - 1] in "sS"  # "1234 one-time codes"
    return 0 if noun.cue is not Cue.OTP or between & OTHER_KINDS or is_many else scores.OTP_ELSEWHERE
