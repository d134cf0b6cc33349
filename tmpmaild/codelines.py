"""One line of a mail: which of its words name which of its numbers; other lines and confidence are in codes."""

import re
from typing import NamedTuple

from tmpmaild import cues
from tmpmaild.codeshapes import Kind, Shape
from tmpmaild.codewords import LEXICON, Cue

Mark = cues.Mark[Cue]

NOUNS = frozenset({Cue.OTP, Cue.CODE})
VERIFYING = frozenset({Cue.VERIFY, Cue.ONCE, Cue.PASSWORD})
_ELSE = frozenset({Cue.LABEL, Cue.TRADE})
_CHANGED_BY_ITS_PHRASE = frozenset({Cue.CODE, Cue.PASSWORD, Cue.NUMBER})
_OTHER_NAMES = _ELSE | {Cue.NUMBER, Cue.THING}

NEAR_CHARACTERS = 60
_TOUCHING_CHARACTERS = 4
_NAMING_CHARACTERS = 12

# "code promo", "code de suivi", "mot de passe à usage unique"
_OF = re.compile(r"[ -]?(?:(?:de|d['\u2019]|di|del|de la|dell['\u2019]|della|do|da|du|des|of|van|voor|a|\u00e0) ?)?")
_CLAUSE_END = re.compile(r"[,;(|\u3001\uff0c]")
_LETTER = re.compile(r"[^\W\d_]")
_OPENS_VALUE = frozenset(":=>-*\"'([{|_\uff1a\u2013\u2014\u300c\u300e\u3010\u00ab\u201c\u201e\u2018")


class Naming(NamedTuple):
    """What a line says of a number: ``noun`` names it, the more surely the nearer ``closeness`` is to 1.

    Without a noun something else names it.
    """

    noun: Mark | None
    closeness: float


_SOMETHING_ELSE = Naming(None, 0)


class Line:
    """A line, what may be a code in it, and its cues, which are read when first asked for."""

    def __init__(self, text: str, shapes: list[Shape]) -> None:
        self.text = text
        self.shapes = shapes
        self._marks: list[Mark] | None = None
        self._used: set[int] = set()

    @property
    def marks(self) -> list[Mark]:
        """The cues, with "promo code" as a LABEL and "verification code" as an OTP."""
        if self._marks is None:
            found = LEXICON.marks(self.text)
            self._marks = [mark._replace(cue=_in_its_phrase(self.text, found, at)) for at, mark in enumerate(found)]
        return self._marks

    def nouns(self) -> list[Mark]:
        """Return the nouns that have not named a number yet."""
        return [mark for mark in self.marks if mark.cue in NOUNS and mark.start not in self._used]

    def use(self, noun: Mark) -> None:
        """Let a noun have named its number."""
        self._used.add(noun.start)

    def has_letters_outside(self, shape: Shape) -> bool:
        """Tell whether there are words beside a number."""
        return bool(_LETTER.search(self.text[: shape.start]) or _LETTER.search(self.text[shape.end :]))

    def entered(self, shape: Shape) -> bool:
        """Tell whether a verb stands right before a number: "enter 1234"."""
        return self._joins(Cue.ENTER, shape)

    def equals(self, shape: Shape) -> bool:
        """Tell whether a copula stands right before a number: "is 1234"."""
        return self._joins(Cue.IS, shape)

    def _joins(self, cue: Cue, shape: Shape) -> bool:
        return any(mark.cue is cue and 0 <= shape.start - mark.end <= _TOUCHING_CHARACTERS - 1 for mark in self.marks)


def _in_its_phrase(text: str, found: list[Mark], at: int) -> Cue:
    """Return what a cue means together with those beside it."""
    mark = found[at]
    if mark.cue not in _CHANGED_BY_ITS_PHRASE:
        return mark.cue
    before, behind = _before(text, found, at), _behind(text, found, at)
    if mark.cue is Cue.CODE:
        if before & _ELSE:
            return Cue.LABEL
        if before & VERIFYING:
            return Cue.OTP
        if behind & _ELSE and Cue.CONFIRM not in before:
            return Cue.LABEL
        return Cue.OTP if behind & VERIFYING else Cue.CODE
    wanted = {Cue.ONCE} if mark.cue is Cue.PASSWORD else VERIFYING
    return Cue.OTP if (before | behind) & wanted else mark.cue


def _before(text: str, found: list[Mark], at: int) -> set[Cue]:
    """Return the cues that touch a word from before, those of its own parts included."""
    start = found[at].start
    return {
        mark.cue
        for mark in (*found[max(at - 4, 0) : at], *found[at + 1 : at + 3])
        if mark.start <= start and (mark.end >= start or _OF.fullmatch(text, mark.end, start))
    }


def _behind(text: str, found: list[Mark], at: int) -> set[Cue]:
    end = found[at].end
    return {
        mark.cue for mark in found[at + 1 : at + 5] if mark.start >= end and _OF.fullmatch(text, end, mark.start)
    }


def naming(line: Line, index: int) -> Naming | None:
    """Return what the words of a line say of its number ``index``; None when they say nothing."""
    shape = line.shapes[index]
    begin = line.shapes[index - 1].end if index else 0
    names = [mark for mark in line.marks if begin <= mark.start and mark.end <= shape.start and mark.cue in _OTHER_NAMES]
    noun = next((mark for mark in reversed(line.nouns()) if mark.end <= shape.start), None)
    if noun is not None:
        if _another_is_nearer(line, noun, [name for name in names if name.start >= noun.end], shape):
            return _SOMETHING_ELSE
        closeness = _closeness(line, noun, shape)
        return Naming(noun, closeness) if closeness else None
    noun = _noun_behind(line, index)
    closeness = _closeness_from_behind(line, shape, noun) if noun else 0
    if names and shape.start - names[-1].end <= _NAMING_CHARACTERS and closeness < 1:
        return _SOMETHING_ELSE
    return Naming(noun, closeness) if closeness else None


def _another_is_nearer(line: Line, noun: Mark, names: list[Mark], shape: Shape) -> bool:
    """Tell whether another name stands between a noun and a number and takes it: "with the code call 1234"."""
    if not names or shape.start - names[-1].end > _NAMING_CHARACTERS:
        return False
    name = names[-1]
    if _CLAUSE_END.search(line.text, noun.end, name.start):
        return True
    if line.equals(shape) or (name.cue is Cue.THING and ":" in line.text[name.end : shape.start]):
        return False
    return not _is_of_one_phrase(line, noun, name)


def _is_of_one_phrase(line: Line, noun: Mark, name: Mark) -> bool:
    """Tell "code for receipt of order 1234" from "code for order 1234"."""
    qualifiers = [mark for mark in line.marks if noun.end <= mark.start < name.start and mark.cue is Cue.VERIFY]
    return bool(qualifiers) and _OF.fullmatch(line.text, qualifiers[-1].end, name.start) is not None


def _closeness(line: Line, noun: Mark, shape: Shape) -> float:
    """Return how closely a noun is joined to a number behind it."""
    gap = line.text[noun.end : shape.start]
    if gap.rstrip()[-1:] in _OPENS_VALUE or line.equals(shape) or line.entered(shape):
        return 1
    if shape.kind not in {Kind.DIGITS, Kind.MIXED}:
        return 0
    if len(gap) <= _TOUCHING_CHARACTERS:
        return 1
    asked = any(mark.cue is Cue.ENTER and mark.end <= shape.start for mark in line.marks)
    if len(gap) <= NEAR_CHARACTERS:
        return 0.95 if asked else 0.7
    return 0.8 if asked else 0.5


def _noun_behind(line: Line, index: int) -> Mark | None:
    """Return the noun that may name a number before it, unless there is one behind it that it names rather."""
    shape = line.shapes[index]
    nouns = (mark for mark in line.nouns() if shape.end <= mark.start <= shape.end + NEAR_CHARACTERS)
    noun = next(nouns, None)
    following = line.shapes[index + 1] if index + 1 < len(line.shapes) else None
    if noun is None or following is None:
        return noun
    if following.start < noun.start or following.start - noun.end <= 2 * _TOUCHING_CHARACTERS:
        return None
    return noun


def _closeness_from_behind(line: Line, shape: Shape, noun: Mark) -> float:
    """Return how closely a noun is joined to a number before it: "1234 is your code", but not "1234 lines of code"."""
    gap = line.text[shape.end : noun.start]
    if shape.kind is Kind.WORDS:
        return 0
    if any(mark.cue is Cue.IS and 0 <= mark.start - shape.end < _TOUCHING_CHARACTERS for mark in line.marks):
        return 1
    if not _LETTER.search(gap) or not gap[:2].strip().isalnum() or line.entered(shape):
        return 0.98
    if noun.cue is Cue.OTP:
        return 0.95 if len(gap) <= NEAR_CHARACTERS / 2 else 0.75
    return 0
