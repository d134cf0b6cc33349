"""A line of a mail: what may be a code in it, and its cues, each with the meaning it has in its phrase.

Which number a cue names is for ``naming.py``.
"""

import re

from tmpmaild.findings import lexicon
from tmpmaild.findings.codes import shapes
from tmpmaild.findings.codes.cues import (
    DETERMINERS,
    LEXICON,
    NOUNS,
    NUMBERS,
    OTHER_KINDS,
    PLAIN_WORDS,
    VERIFYING,
    Cue,
    Mark,
)
from tmpmaild.findings.codes.shapes import Kind, Shape

_PURPOSES = VERIFYING | {Cue.CONFIRM, Cue.AUTHORIZE, Cue.PARCEL}
_KNOWN = VERIFYING | {Cue.CONFIRM, Cue.IS, Cue.THING}
_CHANGED_BY_ITS_PHRASE = frozenset({Cue.CODE, Cue.COMPOUND, Cue.PASSWORD}) | NUMBERS

_TOUCHING_CHARACTERS = 4
_UNIT_CHARACTERS = 2
_PHRASE_CHARACTERS = 20
_LEADING_CHARACTERS = 7  # an adverb or a pronoun may stand between
_NEGATION_CHARACTERS = 8
_LONGEST_WORD = 40
_SHORT_WORD = 3
_ABBREVIATION = 2
_WORDS_AROUND = 12
_TOLD_BEFORE_CHARACTERS = 30
_MOST_MODIFIERS = 3

# "code promo", "code de suivi", "mot de passe à usage unique"
OF = re.compile(
    r"[ -]?(?:(?:d(?:e(?:l|s| la|lla|ll['\u2019])?|['\u2019]|[aiou])|of|van|voor|pro|na|dla|a|\u00e0|(?:yako )?[yw]a) ?"
    r"|\u05d4|\u0627\u0644|\u7528?\u306e?)"
)
OPENS_VALUE = frozenset(
    ":=>-*\"'([{|_\uff1a\u2013\u2014\u300c\u300e\u3010\u00ab\u201c\u201e\u2018\u2192\u27a1\U0001f449"
)

_PAUSE = re.compile(r"[.,;!?]")
_NEGATED = re.compile(
    r"(?:n['\u2019]t|\b(?:not|never|nicht|nie|pas|no|n[a\u00e3]o|non|niet|\u043d\u0435)) \Z",
    re.IGNORECASE,
)
# Particles of Chinese, Japanese and Korean end a word without a space.
_WORD_BEFORE = re.compile(rf"()([^\W\d_]{{1,{_LONGEST_WORD}}}+)(?<![\u7684\u306e\u306f\ub294\uc740\uc758])[ -]?\Z")
_WORD_BEHIND = re.compile(r" ()([^\W\d_]++)")
_TOLD_MORE_BEHIND = re.compile("codi.*|cod|codul.*|claves?|kod(?:y|em|om|ow|i|o)?|\u043a\u043e\u0434.*")
_FIRST_EAST_ASIAN = "\u1100"


class Line:
    """A line, what may be a code in it, and its cues, which are read when first asked for."""

    def __init__(self, text: str, shapes: list[Shape]) -> None:
        self.text = text
        self.shapes = shapes
        self._marks: list[Mark] | None = None
        self._cues: frozenset[Cue] | None = None
        self._used: set[int] = set()

    @property
    def marks(self) -> list[Mark]:
        """The cues and where they stand, with "promo code" as a LABEL and "verification code" as an OTP."""
        if self._marks is None:
            found = LEXICON.marks(self.text)
            self._marks = [
                Mark(mark.start, mark.end, _in_its_phrase(self.text, found, at))
                if mark.cue in _CHANGED_BY_ITS_PHRASE
                else mark
                for at, mark in enumerate(found)
            ]
        return self._marks

    @property
    def cues(self) -> frozenset[Cue]:
        """The cues, wherever they stand."""
        if self._cues is None:
            self._cues = frozenset([mark.cue for mark in self.marks])
        return self._cues

    def nouns(self, *, used: bool = False) -> list[Mark]:
        """Return the nouns that have not named a number yet, or with ``used`` all."""
        return [mark for mark in self.marks if mark.cue in NOUNS and (used or mark.start not in self._used)]

    def use(self, noun: Mark) -> None:
        """Note that a noun has named its number."""
        self._used.add(noun.start)

    def is_alone(self, shape: Shape) -> bool:
        """Return whether there are no words and no numbers next to a shape."""
        return not any(map(str.isalnum, self.text[: shape.start] + self.text[shape.end :]))

    def is_counted(self, shape: Shape) -> bool:
        """Return whether a unit follows: "4815 points"."""
        return shape.kind is Kind.DIGITS and self.follows(shape, Cue.UNIT, _UNIT_CHARACTERS)

    def is_word(self, shape: Shape) -> bool:
        """Return whether letters are one of the words that speak of codes."""
        if shape.kind is Kind.PHRASE and not PLAIN_WORDS.isdisjoint(lexicon.fold(shape.value).split()):
            return True
        is_letters = shape.kind >= Kind.LETTERS and not any(map(str.isdigit, shape.value[:-_SHORT_WORD]))
        return is_letters and any(mark.start < shape.end and shape.start < mark.end for mark in self.marks)

    def is_asked_for(self, shape: Shape) -> bool:
        """Return whether a line asks to enter a number, in whatever order of words."""
        if self.leads_to(shape, Cue.ENTER) or self.follows(shape, Cue.ENTERED, _PHRASE_CHARACTERS):
            return True
        return any(mark.cue is Cue.ENTER and self._opens(mark, shape) for mark in self.marks)

    def leads_to(self, shape: Shape, cue: Cue) -> bool:
        """Return whether a copula or a verb is right before a number: "is 1234", "enter 1234"."""
        return any(
            mark.cue is cue
            and 0 <= shape.start - mark.end <= _LEADING_CHARACTERS
            and not _PAUSE.search(self.text, mark.end, shape.start)
            and not self._is_negated(mark)
            for mark in self.marks
        )

    def follows(self, shape: Shape, cue: Cue, gap_characters: int = _TOUCHING_CHARACTERS) -> bool:
        """Return whether a cue is right behind a number: "1234 is"."""
        return any(
            mark.cue is cue
            and 0 <= mark.start - shape.end < gap_characters
            and not _PAUSE.search(self.text, shape.end, mark.start)
            for mark in self.marks
        )

    def _opens(self, verb: Mark, shape: Shape) -> bool:
        """Return whether a number ends what a verb begins: "enter in the app: 1234", "enter here to go on 1234"."""
        gap = self.text[verb.end : shape.start]
        if verb.end > shape.start or _PAUSE.search(gap) or any(map(str.isdigit, gap)) or self._is_negated(verb):
            return False
        return gap.rstrip()[-1:] in OPENS_VALUE or PLAIN_WORDS.issuperset(lexicon.fold(gap).split())

    def _is_negated(self, verb: Mark) -> bool:
        return _NEGATED.search(self.text, max(verb.start - _NEGATION_CHARACTERS, 0), verb.start) is not None


class Mail:
    """The lines of a mail, of which the first ``first`` are its subject; ``numbers`` are those with a shape."""

    def __init__(self, subject: str, text: str) -> None:
        texts = shapes.plain_lines(subject)
        self.first = len(texts)
        texts += shapes.plain_lines(text)
        found = shapes.find(texts)
        self.lines = [Line(text, found.get(number, [])) for number, text in enumerate(texts)]
        self.numbers = sorted(found)

    def cues(self, begin: int, end: int) -> frozenset[Cue]:
        """Return the cues of some lines."""
        return frozenset[Cue]().union(*[line.cues for line in self.lines[begin:end]])


def _in_its_phrase(text: str, found: list[Mark], at: int) -> Cue:
    """Return what a cue means together with those next to it."""
    cue = found[at].cue
    before, behind = _touching_before(text, found, at), _touching_behind(text, found, at)
    if cue is Cue.PASSWORD:
        return _password(found, at, before | behind)
    if cue in NUMBERS and not (before | behind) & (VERIFYING | {Cue.OTP}):
        return _number(text, found, at, before | behind)
    if before & OTHER_KINDS or (behind & OTHER_KINDS and Cue.CONFIRM not in before):
        return Cue.LABEL
    if (before | behind) & (VERIFYING | {Cue.DELIVERY, Cue.OTP}):
        return Cue.OTP
    if cue is Cue.CODE or (before | behind) & {Cue.CONFIRM, Cue.PREMISES}:
        return Cue.CODE
    return Cue.ASKED if is_told(found, at) else cue


def _password(found: list[Mark], at: int, neighbours: set[Cue]) -> Cue:
    if neighbours & {Cue.ONCE, Cue.DELIVERY}:
        return Cue.OTP
    if Cue.PREMISES in neighbours:
        return Cue.CODE
    return Cue.ASKED if is_told(found, at) else Cue.PASSWORD


def _number(text: str, found: list[Mark], at: int, neighbours: set[Cue]) -> Cue:
    cue = found[at].cue
    if neighbours & (OTHER_KINDS | {Cue.THING}):
        return cue
    if Cue.PREMISES in neighbours:
        return Cue.CODE
    if at and found[at - 1].cue is Cue.ENTER and found[at].start - found[at - 1].end == 1:
        return Cue.ASKED
    if Cue.CONFIRM in neighbours and found[at].end - found[at].start > _ABBREVIATION:
        return Cue.ASKED
    is_due = cue is Cue.DIGITS or (_is_for_a_purpose(found, at) and _is_unqualified(text, found, at))
    return Cue.ASKED if is_due and is_told(found, at) else cue


def _is_unqualified(text: str, found: list[Mark], at: int) -> bool:
    """Distinguish "enter the number" from "enter the member number" and "enter your number"."""
    start = found[at].start
    before = _WORD_BEFORE.search(text, max(start - _LONGEST_WORD, 0), start)
    if before is None or lexicon.fold(before[2]) in DETERMINERS:
        return True
    return any(mark.cue is Cue.ENTER and mark.end == before.end(2) for mark in found[max(at - 3, 0) : at])


def _is_for_a_purpose(found: list[Mark], at: int) -> bool:
    """Return whether the words around a number speak of verifying; only the near ones, for the sake of long lines."""
    return any(mark.cue in _PURPOSES for mark in found[max(at - _WORDS_AROUND, 0) : at + _WORDS_AROUND])


def _touching_before(text: str, found: list[Mark], at: int) -> set[Cue]:
    """Return the cues that touch a word from before, those of its own parts included."""
    start = found[at].start
    return {
        mark.cue
        for mark in (*found[max(at - 4, 0) : at], *found[at + 1 : at + 3])
        if mark.start <= start and (mark.end >= start or OF.fullmatch(text, mark.end, start))
    }


def _touching_behind(text: str, found: list[Mark], at: int) -> set[Cue]:
    end = found[at].end
    return {mark.cue for mark in found[at + 1 : at + 5] if mark.start >= end and OF.fullmatch(text, end, mark.start)}


def is_told(found: list[Mark], at: int) -> bool:
    """Return whether a verb asks to enter what a noun names: "type in the app the number", "numarayi girin"."""
    start, end = found[at].start, found[at].end
    return any(
        mark.cue is Cue.ENTER
        and (0 <= start - mark.end <= _TOLD_BEFORE_CHARACTERS or 0 <= mark.start - end <= _PHRASE_CHARACTERS)
        for mark in found[max(at - 6, 0) : at + 4]
    )


def touching(line: Line, noun: Mark) -> set[Cue]:
    """Return the cues right next to a noun, those of its own parts included."""
    at = line.marks.index(noun)
    return _touching_before(line.text, line.marks, at) | _touching_behind(line.text, line.marks, at)


def is_plain(line: Line, noun: Mark, rest: str) -> bool:
    """Return whether no word of unknown meaning makes a noun another kind of code: "access code", not "gym code".

    ``rest`` is what stands between the noun and its number; when short it may tell more: "codice palestra".
    """
    if line.text[: noun.start].endswith("("):
        return False
    if Cue.CONFIRM in touching(line, noun):
        return True
    before = _WORD_BEFORE.search(line.text, max(noun.start - _LONGEST_WORD, 0), noun.start)
    if before and not _is_harmless(line, before):
        word = lexicon.fold(line.text[noun.start : noun.end])
        if not _TOLD_MORE_BEHIND.fullmatch(word):
            return False
    behind = _WORD_BEHIND.match(line.text, noun.end)
    return behind is None or rest.count(" ") > _MOST_MODIFIERS + 1 or _is_harmless(line, behind)


def _is_harmless(line: Line, found: re.Match[str]) -> bool:
    """Return whether a word is short, of known meaning, or a name in capitals."""
    word, start, end = found[2], found.start(2), found.end(2)
    if len(word) <= _SHORT_WORD and word < _FIRST_EAST_ASIAN:
        return True
    if (word != word.lower() and start > 0) or lexicon.fold(word) in PLAIN_WORDS:
        return True
    return any(mark.cue in _KNOWN and (mark.start == start or mark.end == end) for mark in line.marks)
