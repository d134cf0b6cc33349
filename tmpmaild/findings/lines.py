"""The lines of a message, with the candidates and the cues in each.

The meaning of a cue depends on its phrase: "promo code" labels a different kind of number, "verification code" does
not.
"""

import re
from functools import cached_property

from tmpmaild.findings import lexicon
from tmpmaild.findings.candidates import COLONS, Candidate, Kind, find
from tmpmaild.findings.cues import (
    DETERMINERS,
    LEXICON,
    NOUNS,
    NUMBERS,
    OTHER_KINDS,
    PLAIN_WORDS,
    USER_NAME_LABELS,
    VERIFYING,
    Cue,
    Span,
)
from tmpmaild.findings.plaintext import plain_lines

_PURPOSES = VERIFYING | {Cue.CONFIRM, Cue.AUTHORIZE, Cue.PARCEL}
_KNOWN = VERIFYING | {Cue.CONFIRM, Cue.IS, Cue.THING}
_CHANGED_BY_ITS_PHRASE = frozenset({Cue.CODE, Cue.COMPOUND, Cue.PASSWORD}) | NUMBERS

ADJACENT_CHARACTERS = 4
_UNIT_CHARACTERS = 2
_PHRASE_CHARACTERS = 20
_PRECEDING_CHARACTERS = 7  # an adverb or a pronoun may be in between
_NEGATION_CHARACTERS = 8
_LONGEST_WORD = 40
_SHORT_WORD = 3
_ABBREVIATION = 2
_WORDS_AROUND = 12
_ENTER_BEFORE_CHARACTERS = 30
_MAX_MODIFIERS = 3

# Joins a noun and its modifier: "code promo", "code de suivi", "mot de passe à usage unique"
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
# In Chinese, Japanese and Korean, a particle can end a word without a space.
_WORD_BEFORE = re.compile(
    rf"(?P<word>[^\W\d_]{{1,{_LONGEST_WORD}}}+)(?<![\u7684\u306e\u306f\ub294\uc740\uc758])[ -]?\Z"
)
_WORD_AFTER = re.compile(r" (?P<word>[^\W\d_]++)")
_MODIFIER_FOLLOWS = re.compile("codi.*|cod|codul.*|claves?|kod(?:y|em|om|ow|i|o)?|\u043a\u043e\u0434.*")
_FIRST_EAST_ASIAN = "\u1100"

_USER_NAME = re.compile(r"[A-Za-z]{2,}+[0-9]{1,4}")
_BEFORE_VALUE = " *_\"'" + "".join(COLONS)
_MAX_TAGS = 3
_ENVIRONMENT = re.compile(
    r"[^\w\s]{0,4}(?:staging|stage|stg|test|testing|dev|development|uat|qa|sandbox|demo|integration|pre-?prod|prod|production"
    r"|preview|local|localhost|spam|ext|extern|externe|externo|external)(?:[ _-]?[a-z]{0,3}[0-9]{1,2})?"
    r"(?:[\])}\u3011*]{1,4}[:\s]*+|\s?[:|]\s*+|\s[-\u2013\u2014]\s+)",
    re.IGNORECASE,
)
_SUBJECT_TAG = re.compile(r"\A\s*+(?:[\[(\u3010][^\W\d_][^\W\d_ .&-]{0,30}+[\])\u3011]|\*{1,3}[^\W\d_]{1,20}\*)")


class Line:
    """A line, the candidates in it, and its cues, which are looked up when first needed."""

    def __init__(self, text: str, candidates: list[Candidate]) -> None:
        self.text = text
        self.candidates = candidates
        self._attached: set[int] = set()

    @cached_property
    def spans(self) -> list[Span]:
        """The cues and their positions, with "promo code" as a LABEL and "verification code" as an OTP."""
        found = LEXICON.spans(self.text)
        return [
            span._replace(cue=_in_its_phrase(self.text, found, at)) if span.cue in _CHANGED_BY_ITS_PHRASE else span
            for at, span in enumerate(found)
        ]

    @cached_property
    def cues(self) -> frozenset[Cue]:
        """The cues, regardless of their position in the line."""
        return frozenset([span.cue for span in self.spans])

    def nouns(self, *, attached: bool = False) -> list[Span]:
        """Return the nouns that do not yet name a number, or all nouns if ``attached``."""
        return [span for span in self.spans if span.cue in NOUNS and (attached or span.start not in self._attached)]

    def attach(self, noun: Span) -> None:
        """Record that a noun names a number; a noun names only one number."""
        self._attached.add(noun.start)

    def is_alone(self, candidate: Candidate) -> bool:
        """Return whether the line has no words or numbers other than a candidate."""
        return not any(map(str.isalnum, self.text[: candidate.start] + self.text[candidate.end :]))

    def is_quantity(self, candidate: Candidate) -> bool:
        """Return whether a candidate is followed by a unit, as in "4815 points"."""
        return candidate.kind is Kind.DIGITS and self.is_followed_by(candidate, Cue.UNIT, _UNIT_CHARACTERS)

    def is_cue(self, candidate: Candidate) -> bool:
        """Return whether a candidate that consists of letters is a word related to codes."""
        if candidate.kind is Kind.PHRASE and not PLAIN_WORDS.isdisjoint(lexicon.fold(candidate.value).split()):
            return True
        is_letters = candidate.kind >= Kind.LETTERS and not any(map(str.isdigit, candidate.value[:-_SHORT_WORD]))
        return is_letters and any(span.start < candidate.end and candidate.start < span.end for span in self.spans)

    def is_user_name(self, candidate: Candidate) -> bool:
        """Return whether a label identifies a candidate as a user name, as in "Login: jsmith42"."""
        if not _USER_NAME.fullmatch(candidate.value):
            return False
        label = lexicon.fold(self.text[: candidate.start]).rstrip(_BEFORE_VALUE)
        name = next((one for one in USER_NAME_LABELS if label.endswith(one)), None)
        if name is None or not any(colon in self.text[len(label) : candidate.start] for colon in COLONS):
            return False
        return not any(span.cue in NOUNS and span.start < len(label) - len(name) for span in self.spans)

    def is_to_be_entered(self, candidate: Candidate) -> bool:
        """Return whether a line asks the reader to enter a candidate, in any word order."""
        if self.is_preceded_by(candidate, Cue.ENTER) or self.is_followed_by(candidate, Cue.ENTERED, _PHRASE_CHARACTERS):
            return True
        return any(span.cue is Cue.ENTER and self._is_object(candidate, span) for span in self.spans)

    def is_preceded_by(self, candidate: Candidate, cue: Cue) -> bool:
        """Return whether a copula or a verb directly precedes a candidate, as in "is 1234" or "enter 1234"."""
        return any(
            span.cue is cue
            and 0 <= candidate.start - span.end <= _PRECEDING_CHARACTERS
            and not _PAUSE.search(self.text, span.end, candidate.start)
            and not self._is_negated(span)
            for span in self.spans
        )

    def is_followed_by(self, candidate: Candidate, cue: Cue, gap_characters: int = ADJACENT_CHARACTERS) -> bool:
        """Return whether a cue directly follows a candidate, as in "1234 is"."""
        return any(
            span.cue is cue
            and 0 <= span.start - candidate.end < gap_characters
            and not _PAUSE.search(self.text, candidate.end, span.start)
            for span in self.spans
        )

    def _is_object(self, candidate: Candidate, verb: Span) -> bool:
        """Return whether a candidate is the object of a verb, as in "enter in the app: 1234" or "enter here: 1234"."""
        gap = self.text[verb.end : candidate.start]
        if verb.end > candidate.start or _PAUSE.search(gap) or any(map(str.isdigit, gap)) or self._is_negated(verb):
            return False
        return gap.rstrip()[-1:] in OPENS_VALUE or PLAIN_WORDS.issuperset(lexicon.fold(gap).split())

    def _is_negated(self, verb: Span) -> bool:
        return _NEGATED.search(self.text, max(verb.start - _NEGATION_CHARACTERS, 0), verb.start) is not None


class Document:
    """The lines of a message. The first ``first`` lines are its subject; ``numbers`` are the lines with a candidate."""

    def __init__(self, subject: str, text: str) -> None:
        texts = plain_lines(_without_tags(subject))
        self.first = len(texts)
        texts += plain_lines(text)
        found = find(texts)
        self.lines = [Line(text, found.get(number, [])) for number, text in enumerate(texts)]
        self.numbers = sorted(found)

    def cues(self, begin: int, end: int) -> frozenset[Cue]:
        """Return all cues in a range of lines."""
        return frozenset[Cue]().union(*[line.cues for line in self.lines[begin:end]])


def _without_tags(subject: str) -> str:
    """Return a subject without the prefix of a test environment or a gateway, such as "[STAGING]" or "EXTERNAL:".

    Other tags, such as the name of a mailing list, keep their meaning, but capital letters in them do not form a code.
    """
    for _ in range(_MAX_TAGS):
        found = _ENVIRONMENT.match(subject)
        if found is None:
            break
        subject = subject[found.end() :]
    return _SUBJECT_TAG.sub(lambda tag: tag[0].lower(), subject, count=1)


def _in_its_phrase(text: str, spans: list[Span], at: int) -> Cue:
    """Return the meaning of a cue, taking the adjacent cues into account."""
    cue = spans[at].cue
    before, behind = _adjacent_before(text, spans, at), _adjacent_after(text, spans, at)
    if cue is Cue.PASSWORD:
        return _password_in_its_phrase(spans, at, before | behind)
    if cue in NUMBERS and not (before | behind) & (VERIFYING | {Cue.OTP}):
        return _number_in_its_phrase(text, spans, at, before | behind)
    if before & OTHER_KINDS or (behind & OTHER_KINDS and Cue.CONFIRM not in before):
        return Cue.LABEL
    if (before | behind) & (VERIFYING | {Cue.DELIVERY, Cue.OTP}):
        return Cue.OTP
    if cue is Cue.CODE or (before | behind) & {Cue.CONFIRM, Cue.PREMISES}:
        return Cue.CODE
    return Cue.ASKED if is_noun_to_be_entered(spans, at) else cue


def _password_in_its_phrase(spans: list[Span], at: int, adjacent: set[Cue]) -> Cue:
    if adjacent & {Cue.ONCE, Cue.DELIVERY}:
        return Cue.OTP
    if Cue.PREMISES in adjacent:
        return Cue.CODE
    return Cue.ASKED if is_noun_to_be_entered(spans, at) else Cue.PASSWORD


def _number_in_its_phrase(text: str, spans: list[Span], at: int, adjacent: set[Cue]) -> Cue:
    cue = spans[at].cue
    if adjacent & (OTHER_KINDS | {Cue.THING}):
        return cue
    if Cue.PREMISES in adjacent:
        return Cue.CODE
    if at and spans[at - 1].cue is Cue.ENTER and spans[at].start - spans[at - 1].end == 1:
        return Cue.ASKED
    if Cue.CONFIRM in adjacent and spans[at].end - spans[at].start > _ABBREVIATION:
        return Cue.ASKED
    is_due = cue is Cue.DIGITS or (_is_for_a_purpose(spans, at) and _is_unqualified(text, spans, at))
    return Cue.ASKED if is_due and is_noun_to_be_entered(spans, at) else cue


def _is_unqualified(text: str, spans: list[Span], at: int) -> bool:
    """Return whether a noun is unqualified, as in "enter the number", but not in "enter the member number"."""
    start = spans[at].start
    before = _WORD_BEFORE.search(text, max(start - _LONGEST_WORD, 0), start)
    if before is None or lexicon.fold(before["word"]) in DETERMINERS:
        return True
    return any(span.cue is Cue.ENTER and span.end == before.end("word") for span in spans[max(at - 3, 0) : at])


def _is_for_a_purpose(spans: list[Span], at: int) -> bool:
    """Return whether the words near a number are about verification; other words are ignored (lines may be long)."""
    return any(span.cue in _PURPOSES for span in spans[max(at - _WORDS_AROUND, 0) : at + _WORDS_AROUND])


def _adjacent_before(text: str, spans: list[Span], at: int) -> set[Cue]:
    """Return the cues directly before a word, including the cues of the word's parts."""
    start = spans[at].start
    return {
        span.cue
        for span in (*spans[max(at - 4, 0) : at], *spans[at + 1 : at + 3])
        if span.start <= start and (span.end >= start or OF.fullmatch(text, span.end, start))
    }


def _adjacent_after(text: str, spans: list[Span], at: int) -> set[Cue]:
    end = spans[at].end
    return {span.cue for span in spans[at + 1 : at + 5] if span.start >= end and OF.fullmatch(text, end, span.start)}


def is_noun_to_be_entered(spans: list[Span], at: int) -> bool:
    """Return whether a noun is the object of a verb such as "enter" or "type", as in "type in the app the number"."""
    start, end = spans[at].start, spans[at].end
    return any(
        span.cue is Cue.ENTER
        and (0 <= start - span.end <= _ENTER_BEFORE_CHARACTERS or 0 <= span.start - end <= _PHRASE_CHARACTERS)
        for span in spans[max(at - 6, 0) : at + 4]
    )


def adjacent_cues(line: Line, noun: Span) -> set[Cue]:
    """Return the cues directly next to a noun, including the cues of the noun's parts."""
    at = line.spans.index(noun)
    return _adjacent_before(line.text, line.spans, at) | _adjacent_after(line.text, line.spans, at)


def has_known_modifiers(line: Line, noun: Span, rest: str) -> bool:
    """Return whether all modifiers of a noun are known, as in "access code" but not in "gym code".

    ``rest`` is the text between the noun and its number. A short ``rest`` may be a modifier, as in "codice palestra".
    """
    if line.text[: noun.start].endswith("("):
        return False
    if Cue.CONFIRM in adjacent_cues(line, noun):
        return True
    before = _WORD_BEFORE.search(line.text, max(noun.start - _LONGEST_WORD, 0), noun.start)
    if before and not _is_known_word(line, before):
        word = lexicon.fold(line.text[noun.start : noun.end])
        if not _MODIFIER_FOLLOWS.fullmatch(word):
            return False
    behind = _WORD_AFTER.match(line.text, noun.end)
    return behind is None or rest.count(" ") > _MAX_MODIFIERS + 1 or _is_known_word(line, behind)


def _is_known_word(line: Line, found: re.Match[str]) -> bool:
    """Return whether a word is short, has a known meaning, or is a name in capitals."""
    word, (start, end) = found["word"], found.span("word")
    if len(word) <= _SHORT_WORD and word < _FIRST_EAST_ASIAN:
        return True
    if (word != word.lower() and start > 0) or lexicon.fold(word) in PLAIN_WORDS:
        return True
    return any(span.cue in _KNOWN and (span.start == start or span.end == end) for span in line.spans)
