"""Decides which noun of a line names which number, and with what confidence."""

import re
from typing import NamedTuple

from tmpmaild.findings.candidates import COLONS, QUOTES, TYPED, Candidate, Kind
from tmpmaild.findings.cues import NOUNS, NUMBERS, OTHER_KINDS, PLAIN_WORDS, VERIFYING, Cue, Span
from tmpmaild.findings.lines import ADJACENT_CHARACTERS, OF, OPENS_VALUE, Line, is_noun_to_be_entered

# The confidence that a noun names a number, depending on how it is attached.
_ATTACHED = 1.0
_ATTACHED_FROM_BEHIND = 0.98
_OTP_ELSEWHERE = 0.6
_NOUN_ELSEWHERE = 0.5
_NUMBER_OF_THINGS = 0.3

LABEL_CHARACTERS = 12
_NEAR_CHARACTERS = 60
_WORDS_OF_IT = 2

_OTHER_LABELS = OTHER_KINDS | NUMBERS | {Cue.THING}
_NAMED_PURPOSES = VERIFYING | {Cue.CONFIRM, Cue.DELIVERY}
_CLAUSE_END = re.compile(r"[,;(|\u3001\uff0c]")
_HEAD_END = re.compile(r"[:\])] ?[A-Za-z]")
_BREAK = re.compile(r"[,;!?]")
_UP_TO_DIGIT = re.compile(r"\A.*[0-9]", re.DOTALL)
_COUNTED = re.compile(r" [^\W\d_A-Z]{4}")


class Attachment(NamedTuple):
    """The noun that names a number, and the confidence (0 to 1).

    Without a noun, a different label names the number.
    """

    noun: Span | None
    score: float


_OTHER_LABEL = Attachment(None, 0)


def attachment(line: Line, index: int) -> Attachment | None:
    """Return the noun and the confidence with which a line names the candidate ``index``, or None."""
    candidate = line.candidates[index]
    labels = [span for span in line.spans if span.cue in _OTHER_LABELS and span.end <= candidate.start]
    noun = next((span for span in reversed(line.nouns()) if span.end <= candidate.start), None)
    if noun is not None:
        if _names_a_later_number(line, noun, index):
            return _OTHER_LABEL
        if _is_intercepted(line, noun, [label for label in labels if label.start >= noun.end], candidate):
            return _OTHER_LABEL
        score = _score(line, noun, candidate)
        return Attachment(noun, score) if score else None
    noun = _noun_behind(line, index)
    score = _score_from_behind(line, noun, candidate) if noun else 0
    if labels and _is_next_to(line, labels[-1], candidate) and not line.is_preceded_by(candidate, Cue.ENTER):
        gap = line.text[labels[-1].end : candidate.start]
        if score < 1 or (len(gap) <= ADJACENT_CHARACTERS and ":" not in gap):
            return _OTHER_LABEL
    return Attachment(noun, score) if score else None


def is_attached(line: Line, noun: Span, candidate: Candidate) -> bool:
    """Return whether a noun and a number after it form one phrase, as in "code: 1234" or "code for you is 1234"."""
    gap = line.text[noun.end : candidate.start].rstrip()
    is_short = candidate.start - noun.end <= ADJACENT_CHARACTERS or _is_purpose_before(line, candidate)
    if gap.endswith(("...", "\u2026")) or (gap[-1:] in OPENS_VALUE and (is_short or gap[-1] not in "([{")):
        return True
    if is_short and candidate.kind in TYPED:
        return True
    if is_short and candidate.kind is Kind.YEAR and is_noun_to_be_entered(line.spans, line.spans.index(noun)):
        return True
    return line.is_preceded_by(candidate, Cue.IS) or line.is_preceded_by(candidate, Cue.ENTER)


def continues(line: Line, candidate: Candidate) -> bool:
    """Return whether a line refers to a noun in an earlier line, as in "It is 1234"; the copula may be at the end."""
    is_said = line.is_preceded_by(candidate, Cue.IS) or line.is_followed_by(candidate, Cue.IS)
    words_before = line.text.count(" ", 0, candidate.start)
    return is_said and words_before <= _WORDS_OF_IT and line.cues.isdisjoint(_OTHER_LABELS)


def _is_purpose_before(line: Line, candidate: Candidate) -> bool:
    """Return whether the purpose of a code is stated immediately before a number, as in "code for your login 1234"."""
    return any(
        span.cue in _NAMED_PURPOSES and 0 <= candidate.start - span.end <= ADJACENT_CHARACTERS for span in line.spans
    )


def _names_a_later_number(line: Line, noun: Span, index: int) -> bool:
    """Return whether a noun names a later number: a number after "is" or a colon outranks a number after "for".

    For example: "OTP for A/c XX1245 is 811739". A number directly after the noun belongs to it: "use code 1234 for card
    no.: 5678".
    """
    candidate = line.candidates[index]
    is_own = candidate.start - noun.end <= ADJACENT_CHARACTERS or _is_introduced(line, candidate)
    if is_own or candidate.kind is Kind.PHRASE:
        return False
    later = (other for other in line.candidates[index + 1 :] if other.kind in TYPED and _is_introduced(line, other))
    return any(_is_of_same_noun(line, candidate, other) for other in later)


def _is_introduced(line: Line, candidate: Candidate) -> bool:
    """Return whether a copula, a verb or a colon directly precedes a number."""
    is_behind_colon = line.text[: candidate.start].rstrip(QUOTES).endswith(COLONS)
    # Letters after such a verb may be a name, as in "using HDFC".
    is_entered = candidate.kind is not Kind.LETTERS and line.is_preceded_by(candidate, Cue.ENTER)
    return is_behind_colon or is_entered or line.is_preceded_by(candidate, Cue.IS)


def _is_of_same_noun(line: Line, first: Candidate, second: Candidate) -> bool:
    """Return whether no label, and no end of a clause if the first number may be a code, separates two numbers."""
    if first.kind is Kind.DIGITS and _CLAUSE_END.search(line.text, first.end, second.start):
        return False
    between = line.text[first.end : second.start]
    after = second.start - len(_UP_TO_DIGIT.sub("", between))  # a label belongs to the number that follows it
    return not any(span.cue in _OTHER_LABELS | NOUNS and after <= span.start < second.start for span in line.spans)


def _is_next_to(line: Line, label: Span, candidate: Candidate) -> bool:
    """Return whether a label may belong to a number, but not in a salutation such as "Dear customer, 1234 is"."""
    is_near = candidate.start - label.end <= LABEL_CHARACTERS
    return is_near and not _BREAK.search(line.text, label.end, candidate.start)


def _is_intercepted(line: Line, noun: Span, labels: list[Span], candidate: Candidate) -> bool:
    """Return whether a label between a noun and a number names the number, as in "with the code call 1234"."""
    if not labels or not _is_next_to(line, labels[-1], candidate):
        return False
    label = labels[-1]
    is_opened = line.text[label.end : candidate.start].rstrip()[-1:] in OPENS_VALUE
    if is_opened and _is_in_same_clause(line, noun, label):
        return False
    if line.is_preceded_by(candidate, Cue.IS) or (is_opened and label.cue is Cue.THING):
        return False
    return not _is_in_same_phrase(line, noun, label, is_opened=is_opened)


def _is_in_same_clause(line: Line, noun: Span, label: Span) -> bool:
    """Return whether a label is in the same clause as its noun, as in "enter the code on the page: 1234".

    A label for a parcel may be in the next clause, as in "give it, when he hands over the parcel: 1234".
    """
    is_parcel = any(span.cue is Cue.PARCEL and span.start == label.start for span in line.spans)
    return is_parcel or not _CLAUSE_END.search(line.text, noun.end, label.start)


def _is_in_same_phrase(line: Line, noun: Span, label: Span, *, is_opened: bool) -> bool:
    """Return whether a noun and a label are connected by a purpose, as in "code to verify your order: 1234"."""
    purposes = [span for span in line.spans if noun.end <= span.start < label.start and span.cue in _NAMED_PURPOSES]
    return bool(purposes) and (is_opened or OF.fullmatch(line.text, purposes[-1].end, label.start) is not None)


def _score(line: Line, noun: Span, candidate: Candidate) -> float:
    """Return the confidence that a noun names a number after it."""
    if is_attached(line, noun, candidate):
        return _ATTACHED
    if candidate.kind not in TYPED:
        return 0
    if _COUNTED.match(line.text, candidate.end) and not line.is_followed_by(candidate, Cue.IS):
        return _NUMBER_OF_THINGS
    return _OTP_ELSEWHERE if noun.cue is Cue.OTP else _NOUN_ELSEWHERE


def _noun_behind(line: Line, index: int) -> Span | None:
    """Return the noun that may name a number before it, unless it is more likely to name a number after it."""
    candidate = line.candidates[index]
    noun = next((span for span in line.nouns() if 0 <= span.start - candidate.end <= _NEAR_CHARACTERS), None)
    following = next((other for other in line.candidates[index + 1 :] if other.kind in TYPED), None)
    if noun is None or following is None:
        return noun
    return None if following.start < noun.start or is_attached(line, noun, following) else noun


def _score_from_behind(line: Line, noun: Span, candidate: Candidate) -> float:
    """Return the confidence that a noun names a number before it: "1234 is your code", but not "1234 lines of code"."""
    gap = line.text[candidate.end : noun.start]
    is_heading = _HEAD_END.match(gap) and PLAIN_WORDS.isdisjoint(gap[1:].lower().split())
    if candidate.kind is Kind.WORDS or is_heading:
        return 0
    if line.is_followed_by(candidate, Cue.IS):
        return _ATTACHED
    if not gap[:2].strip().isalnum() and (candidate.kind is not Kind.YEAR or gap[:1] in "])"):
        return _ATTACHED_FROM_BEHIND
    between = {span.cue for span in line.spans if candidate.end <= span.start < noun.start}
    is_plural = line.text[noun.end - 1] in "sS"  # such as "1234 one-time codes"
    return 0 if noun.cue is not Cue.OTP or between & OTHER_KINDS or is_plural else _OTP_ELSEWHERE
