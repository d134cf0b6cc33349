"""What the words of a line say of the numbers in it, and how surely numbers that no noun names are codes all the same.

A cue means what it means in its phrase (``Line``); which number a noun names is told by ``naming``; how numbers are set
in the mail is rated by ``rate_by_signs``.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from tmpmaild.findings import candidates, lexicon
from tmpmaild.findings.candidates import (
    COLONS,
    DETERMINERS,
    LEXICON,
    LOGINS,
    NOUNS,
    NUMBERS,
    OTHER_KINDS,
    PLAIN_WORDS,
    TYPED,
    VERIFYING,
    Cue,
    Kind,
    Mark,
    Shape,
)

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


_LOGIN = re.compile(r"[A-Za-z]{2,}+[0-9]{1,4}")
_BEFORE_VALUE = " *_\"'" + "".join(COLONS)
_MOST_TAGS = 3
_ENVIRONMENT = re.compile(
    r"[^\w\s]{0,4}(?:staging|stage|stg|test|testing|dev|development|uat|qa|sandbox|demo|integration|pre-?prod|prod|production"
    r"|preview|local|localhost|spam|ext|extern|externe|externo|external)(?:[ _-]?[a-z]{0,3}[0-9]{1,2})?"
    r"(?:[\])}\u3011*]{1,4}[:\s]*+|\s?[:|]\s*+|\s[-\u2013\u2014]\s+)",
    re.IGNORECASE,
)
_SUBJECT_TAG = re.compile(r"\A\s*+(?:[\[(\u3010][^\W\d_][^\W\d_ .&-]{0,30}+[\])\u3011]|\*{1,3}[^\W\d_]{1,20}\*)")


class Line:
    """A line, what may be a code in it, and its cues, which are read when first asked for."""

    def __init__(self, text: str, shapes: list[Shape]) -> None:
        self.text = text
        self.shapes = shapes
        self._used: set[int] = set()

    @cached_property
    def marks(self) -> list[Mark]:
        """The cues and where they stand, with "promo code" as a LABEL and "verification code" as an OTP."""
        found = LEXICON.marks(self.text)
        return [
            mark._replace(cue=_in_its_phrase(self.text, found, at)) if mark.cue in _CHANGED_BY_ITS_PHRASE else mark
            for at, mark in enumerate(found)
        ]

    @cached_property
    def cues(self) -> frozenset[Cue]:
        """The cues, wherever they stand."""
        return frozenset([mark.cue for mark in self.marks])

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

    def is_login(self, shape: Shape) -> bool:
        """Return whether a label says that a word is a user's name: "Login: jsmith42"."""
        if not _LOGIN.fullmatch(shape.value):
            return False
        label = lexicon.fold(self.text[: shape.start]).rstrip(_BEFORE_VALUE)
        name = next((one for one in LOGINS if label.endswith(one)), None)
        if name is None or not any(colon in self.text[len(label) : shape.start] for colon in COLONS):
            return False
        return not any(mark.cue in NOUNS and mark.start < len(label) - len(name) for mark in self.marks)

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
        texts = candidates.plain_lines(_without_tags(subject))
        self.first = len(texts)
        texts += candidates.plain_lines(text)
        found = candidates.find(texts)
        self.lines = [Line(text, found.get(number, [])) for number, text in enumerate(texts)]
        self.numbers = sorted(found)

    def cues(self, begin: int, end: int) -> frozenset[Cue]:
        """Return the cues of some lines."""
        return frozenset[Cue]().union(*[line.cues for line in self.lines[begin:end]])


def _without_tags(subject: str) -> str:
    """Return a subject without what a test environment or a gateway puts before it: "[STAGING]", "EXTERNAL:".

    Other tags, such as the name of a list, keep their meaning, but their capitals are no code.
    """
    for _ in range(_MOST_TAGS):
        found = _ENVIRONMENT.match(subject)
        if found is None:
            break
        subject = subject[found.end() :]
    return _SUBJECT_TAG.sub(lambda tag: tag[0].lower(), subject, count=1)


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


_JOINED = 1.0
_JOINED_FROM_BEHIND = 0.98
_OTP_ELSEWHERE = 0.6
_NOUN_ELSEWHERE = 0.5
_NUMBER_OF_THINGS = 0.3

_NAMING_CHARACTERS = 12
_NEAR_CHARACTERS = 60
_WORDS_OF_IT = 2

_OTHER_NAMES = OTHER_KINDS | NUMBERS | {Cue.THING}
_NAMED_PURPOSES = VERIFYING | {Cue.CONFIRM, Cue.DELIVERY}
_CLAUSE_END = re.compile(r"[,;(|\u3001\uff0c]")
_HEAD_END = re.compile(r"[:\])] ?[A-Za-z]")
_BREAK = re.compile(r"[,;!?]")
_UP_TO_DIGIT = re.compile(r"\A.*[0-9]", re.DOTALL)
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
        if _is_passed_over(line, noun, index):
            return _SOMETHING_ELSE
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
    return any(
        mark.cue in _NAMED_PURPOSES and 0 <= shape.start - mark.end <= _TOUCHING_CHARACTERS for mark in line.marks
    )


def _is_passed_over(line: Line, noun: Mark, index: int) -> bool:
    """Return whether a noun leads to a later number: what "is" or a colon leads to wins over what "for" names.

    As in "OTP for A/c XX1245 is 811739". What follows the noun at once is its own: "use code 1234 for card no.: 5678".
    """
    shape = line.shapes[index]
    is_own = shape.start - noun.end <= _TOUCHING_CHARACTERS or _is_led(line, shape)
    if is_own or shape.kind is Kind.PHRASE:
        return False
    later = (other for other in line.shapes[index + 1 :] if other.kind in TYPED and _is_led(line, other))
    return any(_is_of_this(line, shape, other) for other in later)


def _is_led(line: Line, shape: Shape) -> bool:
    """Return whether a copula, a verb or a colon is right before a number."""
    is_behind_colon = line.text[: shape.start].rstrip(_QUOTES).endswith(COLONS)
    is_entered = shape.kind is not Kind.LETTERS and line.leads_to(shape, Cue.ENTER)  # not "using HDFC"
    return is_behind_colon or is_entered or line.leads_to(shape, Cue.IS)


def _is_of_this(line: Line, shape: Shape, other: Shape) -> bool:
    """Return whether nothing between two numbers names the second, or ends the clause of a first that may be a code."""
    if shape.kind is Kind.DIGITS and _CLAUSE_END.search(line.text, shape.end, other.start):
        return False
    between = line.text[shape.end : other.start]
    after = other.start - len(_UP_TO_DIGIT.sub("", between))  # what named a number between has named it
    return not any(mark.cue in _OTHER_NAMES | NOUNS and after <= mark.start < other.start for mark in line.marks)


def _is_next_to(line: Line, name: Mark, shape: Shape) -> bool:
    """Return whether a name may belong to a number; a salutation does not: "Dear customer, 1234 is"."""
    return shape.start - name.end <= _NAMING_CHARACTERS and not _BREAK.search(line.text, name.end, shape.start)


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
    purposes = [mark for mark in line.marks if noun.end <= mark.start < name.start and mark.cue in _NAMED_PURPOSES]
    return bool(purposes) and (is_opened or OF.fullmatch(line.text, purposes[-1].end, name.start) is not None)


def _closeness(line: Line, noun: Mark, shape: Shape) -> float:
    """Return how closely a noun is joined to a number behind it."""
    if is_joined(line, noun, shape):
        return _JOINED
    if shape.kind not in TYPED:
        return 0
    if _COUNTED.match(line.text, shape.end) and not line.follows(shape, Cue.IS):
        return _NUMBER_OF_THINGS
    return _OTP_ELSEWHERE if noun.cue is Cue.OTP else _NOUN_ELSEWHERE


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
        return _JOINED
    if not gap[:2].strip().isalnum() and (shape.kind is not Kind.YEAR or gap[:1] in "])"):
        return _JOINED_FROM_BEHIND
    between = {mark.cue for mark in line.marks if shape.end <= mark.start < noun.start}
    is_many = line.text[noun.end - 1] in "sS"  # "1234 one-time codes"
    return 0 if noun.cue is not Cue.OTP or between & OTHER_KINDS or is_many else _OTP_ELSEWHERE


LEAST = 0.45

# What the signs of mail weigh together, at least 0, makes a number a code that no noun names.
_WITHOUT_SIGNS = -2.75
_EACH_WEIGHT = 0.04
_MOST_BY_SIGNS = 0.7
_SIGN_WEIGHTS: dict[str, float] = lexicon.load("signs")

_MOST_AROUND = sum(weight for sign, weight in _SIGN_WEIGHTS.items() if weight > 0 and sign.startswith("around"))

_MOST_LINES = 300
_FEWEST_LINES = 2
_LINES_AROUND = 3
_EARLY_LINES = 5
_LINES_THAT_REFER = 6
_LATE_SHARE = 2 / 3
_TITLE_CHARACTERS = 40
_MOST_COUNTED = 2
_WEAK_SHAPE = 0.7

_QUOTES = " *_\"'\u00ab\u201c\u201e\u2018\u300c\u3010"
_SENTENCE_ENDS = (".", "!", "?", ",", "\u3002", "\uff0c", "\uff01", "\u0964")
_NUMBER_SIGNS = ("#", "\u2116", "\u00ba", "\u00b0")
# As a whole subject: "Auth0", "Log4Shell", "WEB3".
_BRAND = re.compile(r"(?=[^a-z]*+[a-z])[A-Za-z]++[0-9]{1,3}[A-Za-z]*+|[A-Z]{3,}+[0-9]{1,2}")
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
            if shape.kind is not Kind.PHRASE and not line.is_login(shape)
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


def rate_by_signs(mail: Mail) -> dict[str, float]:
    """Return the values that are set as codes are, with their confidence."""
    if sum(bool(line.text) for line in mail.lines) < _FEWEST_LINES:
        return {}
    counted = _Counted(mail)
    found: dict[str, float] = {}
    for one in counted.placed:
        confidence = _confidence(_signs(counted, one))
        if confidence:
            found[one.shape.value] = max(confidence, found.get(one.shape.value, 0))
    return found


def _signs(mail: _Counted, one: _Placed) -> set[str]:
    """Return the signs that a number is a code or is none; where a noun stands, words have said what it is."""
    own = mail.lines[one.number].cues
    if one.place in _WITHIN and one.number >= mail.first and own.isdisjoint(_CUES["enter"]):
        return set()
    if _is_brand(mail, one):
        return set()
    title = mail.title(one)
    if _is_named(mail.lines[one.number]) or (title and _is_named(title)):
        return set()
    signs = {one.place, *mail.competition(one), *_of_shape(one.shape), *_of_place(mail, one), *_named("own", own)}
    signs |= {*_of_names(mail, one), *_named("subject", mail.cues(0, mail.first))}
    if _weight(signs) + _MOST_AROUND > 0:  # the words around take the most time, so only where they can still decide
        above = mail.cues(max(one.number - _LINES_AROUND, mail.first), one.number)
        signs |= set(_named("around", above | mail.cues(one.number + 1, one.number + 1 + _LINES_AROUND)))
    return signs


def _is_brand(mail: _Counted, one: _Placed) -> bool:
    """Return whether a whole subject is a name with a digit."""
    is_whole = one.number < mail.first and one.place == "alone"
    return is_whole and _BRAND.fullmatch(one.shape.value) is not None and not mail.refers_to_subject()


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


def _weight(signs: Iterable[str]) -> float:
    return _WITHOUT_SIGNS + sum([_SIGN_WEIGHTS.get(sign, 0) for sign in signs])


def _confidence(signs: Iterable[str]) -> float:
    """Return the confidence that signs give together, 0 where they speak against a code."""
    weight = _weight(signs)
    return min(LEAST + _EACH_WEIGHT * weight, _MOST_BY_SIGNS) if weight > 0 else 0
