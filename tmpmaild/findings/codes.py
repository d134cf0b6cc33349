"""One-time passwords and verification codes in a message, found by rules; links are found in ``links.py``.

A number is a code if words identify it as a code. A noun ("code") names exactly one number, which follows it ("your
code is 1234"), precedes it ("1234 is your code") or is alone on a line below. The score is higher if nearby words are
about verification. A number with a different label ("order no. 1234") is not a code, even if it looks like a code. If
no noun names a number with sufficient confidence, the features of the numbers decide.

``candidates.py`` finds possible codes, and ``lines.py`` interprets cues in the context of their phrase. ``naming.py``
decides which noun names which number, and ``words/scores.toml`` contains the resulting scores. ``scoring.py`` weighs
features.
"""

from tmpmaild.findings import lexicon
from tmpmaild.findings.candidates import COLONS, Candidate, Kind
from tmpmaild.findings.cues import NOUNS, Cue, Span
from tmpmaild.findings.lines import Document, Line, adjacent_cues, has_known_modifiers
from tmpmaild.findings.naming import attachment, continues, is_attached
from tmpmaild.findings.scoring import LEAST, score_by_features
from tmpmaild.model import Code

_NAMING = NOUNS | {Cue.ENTER, Cue.PASSWORD}
_WORDED = frozenset({Cue.WORDED, Cue.ASKED})
_LETTERS = frozenset({Cue.DIGITS, Cue.ENTER})

_LINES_ABOVE = 4
_LINES_AROUND = 3
_OLD_CHARACTERS = 15
_LONG_LETTERS = 6
_WEAKLY_NAMED = 0.65
_MIN_RUNNER_UP_SCORE = 0.7
_LINE_COST = 0.04

_OLD_FACTOR = 0.5
_DOUBTFUL_LETTERS = 0.75
_SURE = 0.85


def find(subject: str, text: str) -> tuple[Code, ...]:
    """Return the codes of a message, best first; ``text`` is its text part or the text of its HTML.

    A value has the form in which a person would type it: digits as ASCII without separators, other codes unchanged. Few
    messages have more than one code. The running time is linear in the length of the texts.
    """
    document = Document(subject, text)
    if not document.numbers:
        return ()
    found: dict[str, float] = {}
    for number in document.numbers:
        for index, candidate in enumerate(document.lines[number].candidates):
            score = candidate.score * _score(document, number, index)
            if score >= LEAST:
                found[candidate.value] = max(score, found.get(candidate.value, 0))
    if max(found.values(), default=0) < _WEAKLY_NAMED:
        found = score_by_features(document) or found
    best_first = sorted(found.items(), key=lambda item: -item[1])
    # Beyond the best code, a word that consists only of letters may be a brand.
    others = [one for one in best_first[1:] if one[1] >= _MIN_RUNNER_UP_SCORE and not one[0].isalpha()]
    return tuple(Code(value, round(score, 2)) for value, score in best_first[:1] + others)


def _score(document: Document, number: int, index: int) -> float:
    """Return the confidence that words identify a candidate as a code, or 0 if they do not."""
    line = document.lines[number]
    candidate = line.candidates[index]
    if line.is_cue(candidate) or line.is_quantity(candidate) or line.is_user_name(candidate):
        return 0
    if candidate.kind is Kind.PHRASE:
        return _score_of_phrase(document, number, candidate)
    if not line.cues & _NAMING:
        return _score_by_lines_above(document, number, candidate)
    found = attachment(line, index)
    if found is None:
        return _score_by_verb(document, number, candidate) or _score_by_lines_above(document, number, candidate)
    if found.noun is None:
        return 0
    rest = line.text[found.noun.end : candidate.start]
    score = found.score * _score_of_noun(document, number, found.noun, candidate, rest)
    if score * candidate.score >= LEAST:
        line.attach(found.noun)
    return score


def _score_by_verb(document: Document, number: int, candidate: Candidate) -> float:
    """Return the score of a number without a noun, as in "enter 1234 to sign in" and "password: 1234"."""
    line, kind = document.lines[number], candidate.kind
    is_typed = kind is not Kind.WORDS and (kind is not Kind.LETTERS or len(candidate.value) >= _LONG_LETTERS)
    if is_typed and line.is_to_be_entered(candidate):
        score = _score_by_rows("verb", document, number)
        if score:
            return score
    passwords = [span for span in line.spans if span.cue is Cue.PASSWORD and span.end <= candidate.start]
    if not passwords or not is_attached(line, passwords[-1], candidate):
        return 0
    return _score_by_rows("password", document, number)


def _score_of_phrase(document: Document, number: int, candidate: Candidate) -> float:
    """Return the score of words after "code word:" or, if they end in a digit, after any noun or verb for codes."""
    label = document.lines[number if candidate.start > 1 else number - 1].cues
    is_named = label & _WORDED or label >= _LETTERS or (label & _NAMING and candidate.value[-1].isdigit())
    return _score_by_rows("verb", document, number) if is_named else 0


def _score_by_lines_above(document: Document, number: int, candidate: Candidate) -> float:
    """Return the score of a candidate that is alone on its line, based on the lines above it."""
    line = document.lines[number]
    if not line.is_alone(candidate) and not continues(line, candidate):
        return 0
    for distance in range(1, min(_LINES_ABOVE, number - document.first) + 1):
        above = document.lines[number - distance]
        nouns = above.nouns(attached=above.text.endswith(COLONS))
        if nouns:
            above.attach(nouns[-1])
            nearness = 1 - _LINE_COST * (distance - 1)
            return nearness * max(
                _score_of_noun(document, number - distance, noun, candidate, above.text[noun.end :])
                for noun in nouns[-2:]
            )
        if distance == 1 and Cue.ENTER in above.cues:
            return _score_by_rows("verb", document, number)
    return 0


def _score_of_noun(document: Document, number: int, noun: Span, candidate: Candidate, rest: str) -> float:
    """Return the confidence, judging by the surrounding words, that a noun refers to a verification code.

    ``rest`` is the text between the noun and the candidate, or the rest of the noun's line.
    """
    line = document.lines[number]
    score = _score_by_rows(_table_of(line, noun, rest), document, number)
    if any(span.cue is Cue.OLD and _is_next_to(span, noun, candidate) for span in line.spans):
        score *= _OLD_FACTOR
    if candidate.kind in {Kind.LETTERS, Kind.WORDS} and score < _SURE:
        score *= _DOUBTFUL_LETTERS
    return score


def _table_of(line: Line, noun: Span, rest: str) -> str:
    """Return the name of a noun's table in ``scores.toml``."""
    if noun.cue is not Cue.OTP and Cue.AUTHORIZE in adjacent_cues(line, noun):
        return "authorization"
    if noun.cue is Cue.ASKED and Cue.CONFIRM in adjacent_cues(line, noun):
        return "confirmation"
    if noun.cue is Cue.CODE and not has_known_modifiers(line, noun, rest):
        return "unknown code"
    return noun.cue.name.lower()


def _is_next_to(span: Span, noun: Span, candidate: Candidate) -> bool:
    """Return whether a cue is about this code, as in "your old code" or "1234 has expired"."""
    return 0 <= noun.start - span.end <= _OLD_CHARACTERS or 0 <= span.start - candidate.end <= _OLD_CHARACTERS


class _Places(dict[str, frozenset[Cue]]):
    """The cues around a line, keyed by place (see ``scores.toml``); each place is searched when first needed."""

    def __init__(self, document: Document, number: int) -> None:
        self._document = document
        self._number = number
        self["near"] = document.lines[number].cues

    def __missing__(self, place: str) -> frozenset[Cue]:
        self[place] = self["above"] | self["below"] if place == "around" else self._of_lines(place)
        return self[place]

    def _of_lines(self, place: str) -> frozenset[Cue]:
        document, number = self._document, self._number
        if place == "below":
            return document.cues(max(number + 1, document.first), number + 1 + _LINES_AROUND)
        begin = max(number - _LINES_AROUND, document.first)
        return document.cues(begin, number + (place == "above")) | document.cues(0, document.first)


def _conditions(text: str) -> list[tuple[str, frozenset[Cue], bool]]:
    """Return each condition of a row: the place, the cues, and whether any of the cues must occur there."""
    found = []
    for condition in text.split():
        place, _, names = condition.removeprefix("-").partition(":")
        cues = (NOUNS if name == "noun" else {Cue[name.upper()]} for name in names.split("|"))
        found.append((place, frozenset[Cue]().union(*cues), not condition.startswith("-")))
    return found


_ROWS: dict[str, list[tuple[list[tuple[str, frozenset[Cue], bool]], float]]] = {
    name: [(_conditions(text), score) for text, score in rows.items()]
    for name, rows in lexicon.load("scores", dict[str, dict[str, float]]).items()
}


def _score_by_rows(table: str, document: Document, number: int) -> float:
    """Return the score of the first row of a table whose conditions are met around a line, or 0."""
    cues = _Places(document, number)
    for conditions, score in _ROWS[table]:
        for place, wanted, must_be_there in conditions:
            if cues[place].isdisjoint(wanted) is must_be_there:
                break
        else:
            return score
    return 0
