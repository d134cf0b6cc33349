"""One-time passwords and verification codes in a mail, found by rules; links are found in ``links.py``.

A number is a code when words call it one. What calls it so is a noun ("code"), the more surely when something about
verification stands near it; it names a number behind it ("your code is 1234"), before it ("1234 is your code") or
alone in a line below, and only one. What something else names ("order no. 1234") is no code, whatever it looks like.
Where no noun names any, or one only weakly, the signs of how a number is set in the mail decide.

What may be a code at all is in ``candidates.py``, what words and signs say in ``judging.py``, how much what names a
number counts in ``words/strengths.toml``.
"""

from tmpmaild.findings import judging, lexicon
from tmpmaild.findings.candidates import COLONS, NOUNS, Cue, Kind, Mark, Shape
from tmpmaild.findings.judging import LEAST, Line, Mail, is_plain, touching
from tmpmaild.model import Code

_NAMING = NOUNS | {Cue.ENTER, Cue.PASSWORD}
_WORDED = frozenset({Cue.WORDED, Cue.ASKED})
_LETTERS = frozenset({Cue.DIGITS, Cue.ENTER})

_LINES_ABOVE = 4
_LINES_AROUND = 3
_OLD_CHARACTERS = 15
_LONG_LETTERS = 6
_WEAKLY_NAMED = 0.65
_LEAST_BESIDES = 0.7
_LINE_COST = 0.04

_OLD_FACTOR = 0.5
_DOUBTFUL_LETTERS = 0.75
_SURE = 0.85


def find(subject: str, text: str) -> tuple[Code, ...]:
    """Return the codes of a mail, best first; ``text`` is its text part or the text of its HTML.

    A value is what somebody would type: ASCII digits without what groups them; other codes as they stand. Hardly
    ever there is more than one. The time it takes is in proportion to the length of the texts.
    """
    mail = Mail(subject, text)
    if not mail.numbers:
        return ()
    found: dict[str, float] = {}
    for number in mail.numbers:
        for index, shape in enumerate(mail.lines[number].shapes):
            confidence = shape.score * _confidence(mail, number, index)
            if confidence >= LEAST:
                found[shape.value] = max(confidence, found.get(shape.value, 0))
    if max(found.values(), default=0) < _WEAKLY_NAMED:
        found = judging.rate_by_signs(mail) or found
    best_first = sorted(found.items(), key=lambda item: -item[1])
    # Letters behind the best may be a brand.
    listed = best_first[:1] + [one for one in best_first[1:] if one[1] >= _LEAST_BESIDES and not one[0].isalpha()]
    return tuple(Code(value, round(confidence, 2)) for value, confidence in listed)


def _confidence(mail: Mail, number: int, index: int) -> float:
    """Return how surely words make something a code, 0 when none does."""
    line = mail.lines[number]
    shape = line.shapes[index]
    if line.is_word(shape) or line.is_counted(shape) or line.is_login(shape):
        return 0
    if shape.kind is Kind.PHRASE:
        return _labelled(mail, number, shape)
    if not line.cues & _NAMING:
        return _named_above(mail, number, shape)
    named = judging.naming(line, index)
    if named is None:
        return _named_by_verb(mail, number, shape) or _named_above(mail, number, shape)
    if named.noun is None:
        return 0
    confidence = named.closeness * _strength(mail, number, named.noun, shape, line.text[named.noun.end : shape.start])
    if confidence * shape.score >= LEAST:
        line.use(named.noun)
    return confidence


def _named_by_verb(mail: Mail, number: int, shape: Shape) -> float:
    """Rate "enter 1234 to sign in" and "password: 1234", where no noun stands."""
    line = mail.lines[number]
    is_typed = shape.kind is not Kind.WORDS and (shape.kind is not Kind.LETTERS or len(shape.value) >= _LONG_LETTERS)
    if is_typed and line.is_asked_for(shape):
        strength = _rate("verb", mail, number)
        if strength:
            return strength
    passwords = [mark for mark in line.marks if mark.cue is Cue.PASSWORD and mark.end <= shape.start]
    if not passwords or not judging.is_joined(line, passwords[-1], shape):
        return 0
    return _rate("password", mail, number)


def _labelled(mail: Mail, number: int, shape: Shape) -> float:
    """Rate words behind "code word:"; with a number, behind whatever names a code or asks to enter it."""
    label = mail.lines[number if shape.start > 1 else number - 1].cues
    is_named = label & _WORDED or label >= _LETTERS or (label & _NAMING and shape.value[-1].isdigit())
    return 0 if not is_named else _rate("verb", mail, number)


def _named_above(mail: Mail, number: int, shape: Shape) -> float:
    """Rate a number that stands by itself, by the lines above."""
    line = mail.lines[number]
    if not line.is_alone(shape) and not judging.is_it(line, shape):
        return 0
    for distance in range(1, min(_LINES_ABOVE, number - mail.first) + 1):
        above = mail.lines[number - distance]
        nouns = above.nouns(used=above.text.endswith(COLONS))
        if nouns:
            above.use(nouns[-1])
            nearness = 1 - _LINE_COST * (distance - 1)
            strengths = (_strength(mail, number - distance, one, shape, above.text[one.end :]) for one in nouns[-2:])
            return nearness * max(strengths)
        if distance == 1 and Cue.ENTER in above.cues:
            return _rate("verb", mail, number)
    return 0


def _strength(mail: Mail, number: int, noun: Mark, shape: Shape, rest: str) -> float:
    """Return how surely a noun means a code for verification, by the words around it.

    ``rest`` is what stands between the noun and the number, or behind the noun in its line.
    """
    line = mail.lines[number]
    strength = _rate(_kind_of_noun(line, noun, rest), mail, number)
    if any(mark.cue is Cue.OLD and _is_next_to(mark, noun, shape) for mark in line.marks):
        strength *= _OLD_FACTOR
    if shape.kind in {Kind.LETTERS, Kind.WORDS} and strength < _SURE:
        strength *= _DOUBTFUL_LETTERS
    return strength


def _kind_of_noun(line: Line, noun: Mark, rest: str) -> str:
    """Return the name that a noun has in ``strengths.toml``."""
    if noun.cue is not Cue.OTP and Cue.AUTHORIZE in touching(line, noun):
        return "authorization"
    if noun.cue is Cue.ASKED and Cue.CONFIRM in touching(line, noun):
        return "confirmation"
    if noun.cue is Cue.CODE and not is_plain(line, noun, rest):
        return "unknown code"
    return noun.cue.name.lower()


def _is_next_to(mark: Mark, noun: Mark, shape: Shape) -> bool:
    """Distinguish "your old code" and "1234 has expired" from what is said of other codes."""
    return 0 <= noun.start - mark.end <= _OLD_CHARACTERS or 0 <= mark.start - shape.end <= _OLD_CHARACTERS


class _Places(dict[str, frozenset[Cue]]):
    """The cues of each place around a line, as ``strengths.toml`` names them."""

    def __init__(self, mail: Mail, number: int) -> None:
        self._mail = mail
        self._number = number
        self["near"] = mail.lines[number].cues

    def __missing__(self, place: str) -> frozenset[Cue]:
        self[place] = self["above"] | self["below"] if place == "around" else self._of_lines(place)
        return self[place]

    def _of_lines(self, place: str) -> frozenset[Cue]:
        mail, number = self._mail, self._number
        if place == "below":
            return mail.cues(max(number + 1, mail.first), number + 1 + _LINES_AROUND)
        begin = max(number - _LINES_AROUND, mail.first)
        return mail.cues(begin, number + (place == "above")) | mail.cues(0, mail.first)


def _conditions(text: str) -> list[tuple[str, frozenset[Cue], bool]]:
    """Return the place, the cues and whether they must be there, of each condition of a row."""
    found = []
    for condition in text.split():
        place, _, names = condition.removeprefix("-").partition(":")
        cues = (NOUNS if name == "noun" else {Cue[name.upper()]} for name in names.split("|"))
        found.append((place, frozenset[Cue]().union(*cues), not condition.startswith("-")))
    return found


_ROWS: dict[str, list[tuple[list[tuple[str, frozenset[Cue], bool]], float]]] = {
    name: [(_conditions(text), score) for text, score in rows.items()]
    for name, rows in lexicon.load("strengths").items()
}


def _rate(name: str, mail: Mail, number: int) -> float:
    """Return how surely what names a number makes it a code, by the cues of each place around its line."""
    cues = _Places(mail, number)
    for conditions, score in _ROWS[name]:
        for place, wanted, holds in conditions:
            if cues[place].isdisjoint(wanted) is holds:
                break
        else:
            return score
    return 0
