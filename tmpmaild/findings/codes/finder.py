"""One-time passwords and verification codes in a mail, found without any model.

A number is a code when words call it one. What calls it so is a noun ("code"), the more surely when something about
verification stands near it; it names a number behind it ("your code is 1234"), before it ("1234 is your code") or
alone in a line below, and only one. What something else names ("order no. 1234") is no code, whatever it looks like.

The looks are in codeshapes, the words in codewords; what a line says by itself is for codelines and codenaming.
"""

from tmpmaild.findings.codes import lines as codelines
from tmpmaild.findings.codes import naming as codenaming
from tmpmaild.findings.codes import shapes as codeshapes
from tmpmaild.findings.codes.cues import Cue
from tmpmaild.findings.codes.lines import NOUNS, OF_A_BOX, VERIFYING, Line, Mark
from tmpmaild.findings.codes.naming import NEAR_CHARACTERS
from tmpmaild.findings.codes.shapes import Kind, Shape
from tmpmaild.model import Code

_NAMING = NOUNS | {Cue.ENTER, Cue.PASSWORD}
_CONFIRMING = frozenset({Cue.CONFIRM, Cue.PASSWORD})
_PARCEL_IN_BOX = frozenset({Cue.PARCEL, Cue.PREMISES})

_LEAST = 0.45
_LEAST_BESIDES_THE_BEST = 0.7
_STRONG = 0.85

_LINES_ABOVE = 4
_LINES_BELOW = 2
_LINES_AROUND = 3
_LABEL_CHARACTERS = 40
_OLD_CHARACTERS = 15
_TOUCHING_CHARACTERS = 2
_LEAST_UNNAMED_DIGITS = 5


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

    def around(self, number: int, *, above: int, below: int) -> frozenset[Cue]:
        """Return the cues of the lines around one, and of the subject."""
        lines = self.lines[max(number - above, self.first) : number + below + 1] + self.subject()
        return frozenset[Cue]().union(*(line.cues for line in lines))


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
    if not line.cues & _NAMING:
        return shape.score * _named_elsewhere(mail, number, shape)
    if _is_amount(line, shape) or _is_word(line, shape):
        return 0
    naming = codenaming.naming(line, index)
    if naming is None:
        asked = _asked_for(mail, number, shape) or _named_password(mail, number, shape)
        return shape.score * (asked or _named_elsewhere(mail, number, shape))
    if naming.noun is None:
        return 0
    confidence = (
        shape.score
        * naming.closeness
        * _strength(mail, number, naming.noun, shape, line.text[naming.noun.end : shape.start])
    )
    if confidence >= _LEAST:
        line.use(naming.noun)
    return confidence


def _is_amount(line: Line, shape: Shape) -> bool:
    """Return whether a unit follows: "4815 points"."""
    return shape.kind is Kind.DIGITS and any(
        mark.cue is Cue.UNIT and 0 <= mark.start - shape.end < _TOUCHING_CHARACTERS for mark in line.marks
    )


def _is_word(line: Line, shape: Shape) -> bool:
    """Return whether letters are one of the words that speak of codes."""
    return shape.kind in {Kind.LETTERS, Kind.WORDS} and any(
        mark.start < shape.end and shape.start < mark.end for mark in line.marks
    )


def _asked_for(mail: _Mail, number: int, shape: Shape) -> float:
    """Rate "enter 1234 to sign in" and "1234 is what to enter", where no noun stands."""
    line = mail.lines[number]
    if shape.kind not in {Kind.DIGITS, Kind.MIXED} or not line.is_asked_for(shape):
        return 0
    around = mail.around(number, above=2, below=0)
    if Cue.TRADE in around:
        return 0
    if around & (NOUNS | VERIFYING):
        return 0.85
    return 0.7 if around & {Cue.CONFIRM, Cue.AUTHORIZE} else 0


def _named_password(mail: _Mail, number: int, shape: Shape) -> float:
    """Rate "password: 1234" where nobody must be told, or something gets authorized."""
    line = mail.lines[number]
    passwords = [mark for mark in line.marks if mark.cue is Cue.PASSWORD and mark.end <= shape.start]
    if shape.kind is not Kind.DIGITS or not passwords or not codenaming.is_joined(line, passwords[-1], shape):
        return 0
    around = mail.around(number, above=1, below=2)
    is_due = around & {Cue.HINT, Cue.AUTHORIZE} or around >= _PARCEL_IN_BOX
    return 0.6 if Cue.TRADE not in around and is_due else 0


def _named_elsewhere(mail: _Mail, number: int, shape: Shape) -> float:
    """Rate a number that stands by itself, by the lines above and below and the subject."""
    if not mail.lines[number].is_alone(shape) and not _continues(mail, number, shape):
        return 0
    for distance in range(1, min(_LINES_ABOVE, number - mail.first) + 1):
        above = mail.lines[number - distance]
        nouns = above.nouns()
        if nouns:
            above.use(nouns[-1])
            nearness = 1.04 - 0.04 * distance
            return nearness * _strength(mail, number - distance, nouns[-1], shape, above.text[nouns[-1].end :])
        if distance == 1 and _is_label(above):
            return 0
    return _named_below(mail, number, shape) or _named_by_subject(mail, number, shape)


def _continues(mail: _Mail, number: int, shape: Shape) -> bool:
    """Return whether a number begins its line and belongs to the one above: "Your code:", then "1234 (10 minutes)"."""
    line = mail.lines[number]
    if number <= mail.first or any(map(str.isalpha, line.text[: shape.start])):
        return False
    if mail.lines[number - 1].text.endswith((":", "\uff1a")) and not line.text[shape.end :].lstrip()[:1].isalpha():
        return True
    behind = next((mark for mark in line.marks if mark.start >= shape.end), None)
    return behind is not None and behind.cue is Cue.HINT and behind.start - shape.end <= _TOUCHING_CHARACTERS


def _is_label(line: Line) -> bool:
    """Return whether a line names the number below it as something else; a salutation does not: "Dear customer,"."""
    is_short = len(line.text) <= _LABEL_CHARACTERS and not line.text.endswith((",", "!", "\uff0c"))
    return is_short and bool(line.cues & {Cue.LABEL, Cue.NUMBER, Cue.DIGITS})


def _named_below(mail: _Mail, number: int, shape: Shape) -> float:
    for below in range(number + 1, min(number + 1 + _LINES_BELOW, len(mail.lines))):
        line = mail.lines[below]
        nouns = line.nouns()
        if nouns and not line.shapes:
            return 0.9 * _strength(mail, below, nouns[0], shape, "")
    return 0


def _named_by_subject(mail: _Mail, number: int, shape: Shape) -> float:
    """Rate a number by itself in a mail whose subject has a noun, or at least speaks of verification."""
    for above, line in enumerate(mail.subject()):
        nouns = line.nouns()
        if nouns:
            return 0.9 * _strength(mail, above, nouns[0], shape, line.text[nouns[0].end :])
    around = mail.around(number, above=2, below=0)
    if shape.kind is not Kind.DIGITS or len(shape.value) < _LEAST_UNNAMED_DIGITS or around & {Cue.TRADE, Cue.LABEL}:
        return 0
    if around & VERIFYING:
        return 0.65
    return 0.55 if Cue.CONFIRM in around else 0


def _strength(mail: _Mail, number: int, noun: Mark, shape: Shape, rest: str) -> float:
    """Return how surely a noun means a code for verification, by the words around it.

    ``rest`` is what stands between the noun and the number, or behind the noun in its line.
    """
    line = mail.lines[number]
    strength = _strength_of_noun(mail, number, noun, shape, rest)
    if any(mark.cue is Cue.OLD and _is_next_to(mark, noun, shape) for mark in line.marks):
        strength /= 2
    if shape.kind in {Kind.LETTERS, Kind.WORDS} and strength < _STRONG:
        strength *= 0.75
    return strength


def _strength_of_noun(mail: _Mail, number: int, noun: Mark, shape: Shape, rest: str) -> float:
    """Return the same for the noun as such, without regard to what is said of old codes."""
    line = mail.lines[number]
    near = {
        mark.cue
        for mark in line.marks
        if mark.start - noun.end <= NEAR_CHARACTERS and noun.start - mark.end <= NEAR_CHARACTERS
    }
    if noun.cue is Cue.OTP:
        return 0.75 if Cue.TRADE in near else 1.0
    if Cue.AUTHORIZE in codelines.touching(line, noun):
        return 0.66 if line.is_said(shape) else _strength_of_authorization(mail, number)
    if noun.cue is Cue.COMPOUND:
        return _strength_of_compound(mail, number)
    if noun.cue is Cue.ASKED:
        return _strength_of_asked(mail, number, near)
    holds_parcel = near & OF_A_BOX and Cue.PARCEL in mail.around(number, above=_LINES_ABOVE, below=_LINES_BELOW)
    if holds_parcel or (Cue.PREMISES in near and not near & VERIFYING):
        return 0.9 if holds_parcel else 0.3
    is_plain = codelines.is_plain(line, noun, rest)
    return _strength_of_code(mail, number, near, is_plain=is_plain)


def _is_next_to(mark: Mark, noun: Mark, shape: Shape) -> bool:
    """Distinguish "your old code" and "1234 has expired" from what is said of other codes."""
    return 0 <= noun.start - mark.end <= _OLD_CHARACTERS or 0 <= mark.start - shape.end <= _OLD_CHARACTERS


def _strength_of_code(mail: _Mail, number: int, near: set[Cue], *, is_plain: bool) -> float:
    """Return how surely the mere word "code" means one for verification."""
    if Cue.TRADE in near:
        return 0.3
    above = mail.around(number, above=_LINES_AROUND, below=0)
    trade = 0.45 if Cue.TRADE in above else 1.0
    plain = 1.0 if is_plain else 0.8
    if near & VERIFYING:
        return 0.98 * max(trade, 0.8) * plain
    if above & VERIFYING:
        return 0.86 * trade * plain
    around = above | mail.around(number, above=0, below=_LINES_AROUND)
    if Cue.TRADE in around - above:
        trade = 0.85 if Cue.CONFIRM in above - near or _is_confirmed_by(mail, number, near) else 0.45
    return trade * (_strength_of_plain_code(near, around) if is_plain else _strength_of_unknown_code(around))


def _is_confirmed_by(mail: _Mail, number: int, near: set[Cue]) -> bool:
    """Return whether "enter the confirmation code" is in a mail that asks for confirmation elsewhere too."""
    lines = mail.lines[max(number - _LINES_AROUND, mail.first) : number] + mail.subject()
    return Cue.ENTER in near and any(Cue.CONFIRM in line.cues for line in lines)


def _strength_of_plain_code(near: set[Cue], around: frozenset[Cue]) -> float:
    if near & _CONFIRMING:
        return 0.88
    for cues, strength in (
        (VERIFYING, 0.86),
        (_CONFIRMING, 0.82),
        ({Cue.HINT}, 0.78),
        ({Cue.LASTS, Cue.ENTER}, 0.7),
    ):
        if around & cues:
            return strength
    return 0.4 if Cue.PREMISES in around else 0.66


def _strength_of_authorization(mail: _Mail, number: int) -> float:
    """Return how surely an "authorization code" is still to be entered, and not printed on a receipt."""
    around = mail.around(number, above=_LINES_AROUND, below=_LINES_AROUND)
    if Cue.TRADE in around:
        return 0.3
    if around & (VERIFYING | {Cue.ENTER, Cue.HINT}):
        return 0.82
    if Cue.UNIT in around:
        return 0.3
    return 0.82 if Cue.CONFIRM in around else 0.66


def _strength_of_asked(mail: _Mail, number: int, near: set[Cue]) -> float:
    """Return how surely a password, number or token to be entered is for verification."""
    above = mail.around(number, above=_LINES_AROUND, below=0)
    around = above | mail.around(number, above=0, below=_LINES_AROUND)
    if Cue.TRADE in near or (Cue.TRADE in above and Cue.HINT not in around):
        return 0.3
    if Cue.LABEL in near and not near & (VERIFYING | {Cue.CONFIRM, Cue.PARCEL}):
        return 0.3
    if near & (VERIFYING | {Cue.CONFIRM, Cue.AUTHORIZE}):
        return 0.8
    return 0.72 if around & (VERIFYING | {Cue.CONFIRM, Cue.HINT}) or around >= _PARCEL_IN_BOX else 0.3


def _strength_of_compound(mail: _Mail, number: int) -> float:
    """Return how surely a word such as "Sternencode" means one for verification: clubs and radios have codes too."""
    around = mail.around(number, above=_LINES_AROUND, below=_LINES_AROUND)
    is_due = Cue.HINT in around or around >= _PARCEL_IN_BOX or (Cue.ENTER in around and around & VERIFYING)
    if Cue.TRADE in around or not is_due:
        return 0.3
    return 0.69 if around & VERIFYING else 0.62


def _strength_of_unknown_code(around: frozenset[Cue]) -> float:
    """Return how surely "gym code" means one for verification after all."""
    if around & VERIFYING:
        return 0.69
    return 0.62 if Cue.HINT in around else 0.3
