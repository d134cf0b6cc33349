"""One-time passwords and verification codes in a mail, found without any model.

A number is a code when words call it one. What calls it so is a noun ("code"), the more surely when something about
verification stands near it; it names a number behind it ("your code is 1234"), before it ("1234 is your code") or
alone in a line below, and only one. What something else names ("order no. 1234") is no code, whatever it looks like.

The looks are in codeshapes, the words in codewords, what a line says by itself in codelines.
"""

from tmpmaild import codelines, codeshapes
from tmpmaild.codelines import NEAR_CHARACTERS, NOUNS, VERIFYING, Line, Mark
from tmpmaild.codeshapes import Kind, Shape
from tmpmaild.codewords import Cue
from tmpmaild.model import Code

_LEAST = 0.45
_LEAST_BESIDES_THE_BEST = 0.7

_LINES_ABOVE = 4
_LINES_BELOW = 2
_LINES_AROUND = 3
_LABEL_CHARACTERS = 40


class _Mail:
    """The lines of a mail, those of its subject first."""

    def __init__(self, subject: str, text: str) -> None:
        texts = codeshapes.plain_lines(subject)
        self.first = len(texts)
        texts += codeshapes.plain_lines(text)
        shapes = codeshapes.find(texts)
        self.lines = [Line(text, shapes.get(number, [])) for number, text in enumerate(texts)]
        self.numbers = sorted(shapes)

    def subject(self) -> list[Line]:
        return self.lines[: self.first]

    def around(self, number: int, *, above: int, below: int) -> set[Cue]:
        """Return the cues of the lines around one, and of the subject."""
        lines = self.lines[max(number - above, self.first) : number + below + 1] + self.subject()
        return {mark.cue for line in lines for mark in line.marks}


def find(subject: str, text: str) -> tuple[Code, ...]:
    """Return the codes of a mail, best first; ``text`` is its text part or the text of its HTML.

    A value is what somebody would type: ASCII digits without what groups them; other codes as they stand. Hardly
    ever there is more than one. The time it takes is in proportion to the length of the texts.
    """
    mail = _Mail(subject, text)
    found: dict[str, float] = {}
    for number in mail.numbers:
        for index, shape in enumerate(mail.lines[number].shapes):
            confidence = _confidence(mail, number, index)
            if confidence >= _LEAST:
                found[shape.value] = max(confidence, found.get(shape.value, 0))
    best_first = sorted(found.items(), key=lambda item: -item[1])
    listed = best_first[:1] + [item for item in best_first[1:] if item[1] >= _LEAST_BESIDES_THE_BEST]
    return tuple(Code(value, round(confidence, 2)) for value, confidence in listed)


def _confidence(mail: _Mail, number: int, index: int) -> float:
    """Return how surely something is a code, 0 when no word calls it one."""
    line = mail.lines[number]
    shape = line.shapes[index]
    if _is_amount(line, shape):
        return 0
    naming = codelines.naming(line, index)
    if naming is None:
        return shape.score * (_asked_for(mail, number, shape) or _named_elsewhere(mail, number, shape))
    if naming.noun is None:
        return 0
    line.use(naming.noun)
    return shape.score * naming.closeness * _strength(mail, number, naming.noun, shape)


def _is_amount(line: Line, shape: Shape) -> bool:
    """Tell whether a unit follows: "4815 points"."""
    return shape.kind is Kind.DIGITS and any(
        mark.cue is Cue.UNIT and 0 <= mark.start - shape.end <= 1 for mark in line.marks
    )


def _asked_for(mail: _Mail, number: int, shape: Shape) -> float:
    """Rate "enter 1234 to sign in", where no noun stands."""
    if shape.kind not in {Kind.DIGITS, Kind.MIXED} or not mail.lines[number].entered(shape):
        return 0
    cues = mail.around(number, above=2, below=0)
    if Cue.TRADE in cues:
        return 0
    if cues & (NOUNS | VERIFYING):
        return 0.85
    return 0.7 if Cue.CONFIRM in cues else 0


def _named_elsewhere(mail: _Mail, number: int, shape: Shape) -> float:
    """Rate a number that stands by itself, by the lines above and below and the subject."""
    if mail.lines[number].has_letters_outside(shape) and not _continues(mail, number, shape):
        return 0
    for distance in range(1, min(_LINES_ABOVE, number - mail.first) + 1):
        above = mail.lines[number - distance]
        nouns = above.nouns()
        if nouns:
            above.use(nouns[-1])
            return (1.04 - 0.04 * distance) * _strength(mail, number - distance, nouns[-1], shape)
        if distance == 1 and _is_label(above):
            return 0
    return _named_below(mail, number, shape) or _named_by_subject(mail, number, shape)


def _continues(mail: _Mail, number: int, shape: Shape) -> bool:
    """Tell whether a number begins its line and belongs to the one above: "Your code:", then "1234 (10 minutes)"."""
    text = mail.lines[number].text
    if number <= mail.first or any(map(str.isalpha, text[: shape.start])):
        return False
    if mail.lines[number - 1].text.endswith((":", "\uff1a")) and not text[shape.end :].lstrip()[:1].isalpha():
        return True
    behind = [mark for mark in mail.lines[number].marks if mark.start >= shape.end]
    return bool(behind) and behind[0].cue is Cue.HINT and behind[0].start - shape.end <= 2


def _is_label(line: Line) -> bool:
    return len(line.text) <= _LABEL_CHARACTERS and any(mark.cue in {Cue.LABEL, Cue.NUMBER} for mark in line.marks)


def _named_below(mail: _Mail, number: int, shape: Shape) -> float:
    for below in range(number + 1, min(number + 1 + _LINES_BELOW, len(mail.lines))):
        line = mail.lines[below]
        nouns = line.nouns()
        if nouns and not line.shapes:
            return 0.9 * _strength(mail, below, nouns[0], shape)
    return 0


def _named_by_subject(mail: _Mail, number: int, shape: Shape) -> float:
    """Rate a number by itself in a mail whose subject has a noun, or at least speaks of verification."""
    for above, line in enumerate(mail.subject()):
        nouns = line.nouns()
        if nouns:
            return 0.9 * _strength(mail, above, nouns[0], shape)
    cues = mail.around(number, above=2, below=0)
    if shape.kind is not Kind.DIGITS or len(shape.value) == 4 or cues & {Cue.TRADE, Cue.LABEL}:
        return 0
    if cues & VERIFYING:
        return 0.65
    return 0.55 if Cue.CONFIRM in cues else 0


def _strength(mail: _Mail, number: int, noun: Mark, shape: Shape) -> float:
    """Return how surely a noun means a code for verification, by the words around it."""
    line = mail.lines[number]
    near = {
        mark.cue
        for mark in line.marks
        if mark.start - noun.end <= NEAR_CHARACTERS and noun.start - mark.end <= NEAR_CHARACTERS
    }
    if noun.cue is Cue.OTP:
        strength = 0.75 if Cue.TRADE in near else 1.0
    else:
        strength = _strength_of_code(mail.around(number, above=_LINES_AROUND, below=_LINES_AROUND), near)
    if any(mark.cue is Cue.OLD and 0 <= noun.start - mark.end <= NEAR_CHARACTERS / 4 for mark in line.marks):
        strength /= 2
    if shape.kind in {Kind.LETTERS, Kind.WORDS} and strength < 0.85:
        strength *= 0.75
    return strength


def _strength_of_code(around: set[Cue], near: set[Cue]) -> float:
    """Return how surely the mere word "code" means one for verification."""
    if Cue.TRADE in near:
        return 0.3
    trade = 0.45 if Cue.TRADE in around else 1.0
    if near & VERIFYING:
        return 0.98 * max(trade, 0.8)
    for cues, strength in (
        (near & {Cue.CONFIRM}, 0.88),
        (around & VERIFYING, 0.86),
        (around & {Cue.CONFIRM}, 0.82),
        (around & {Cue.HINT}, 0.78),
    ):
        if cues:
            return strength * trade
    return 0.66 * trade
