"""Inputs for which a regular expression may take more than linear time, derived from the expression itself.

The cause is a repeat that is retried at every position, or that backtracks one character at a time. The inputs are
therefore long runs of the repeated text, of the text before it, or of both alternately, followed by an ending that
makes the whole match fail.
"""

import re
from itertools import islice, permutations
from re import _constants as op  # Python has no public way to get the structure of an expression
from re import _parser as parser
from typing import NamedTuple

ENDS = ("\0", "\n!")
PALETTE = "a A0\n\t-_.,:;<>\"'\\/@=()[]{}*é中\0\x1f"
CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
MOST_CHARACTERS_OF_A_CLASS = 3
MOST_IN_PAIRS = 5


class Bad(NamedTuple):
    """A text of any length: the start, the repeated unit, an optional second repeated unit, and the end."""

    start: str
    unit: str
    then: str
    end: str

    def text(self, characters):
        runs = [part * (characters // len(part)) for part in (self.unit, self.then) if part]
        return "".join([self.start, *runs, self.end])


def bad_inputs(expression):
    """Return texts that an expression may match slowly; for a bytes expression, the texts are decoded as Latin-1."""
    source = expression.pattern
    repeats, letters = _take_apart(parser.parse(source if isinstance(source, str) else source.decode("latin-1")))
    runs = {(start, unit, "") for start, unit in repeats if unit}
    runs |= {("", run, "") for start, unit in repeats for run in (start, start + unit) if run}
    for one, other in permutations(list(letters)[:MOST_IN_PAIRS], 2):
        runs |= {("", one + other, ""), ("", one, other)}
    return [Bad(*run, end) for run in sorted(runs) for end in ENDS]


def _take_apart(tree):
    """Return the repeated texts, each with its preceding text, and the characters that the expression contains."""
    repeats, letters = {}, {}

    def walk(nodes, start):
        for kind, value in nodes:
            sample = _sample([(kind, value)])
            if kind in REPEATS:
                _, _, body = value
                repeats[start, _sample(body)] = None
                repeats.update(dict.fromkeys((start, letter) for letter in _letters(body)))
                walk(body, start)
            elif kind is op.BRANCH:
                for way in value[1]:
                    walk(way, start)
            elif kind in {op.SUBPATTERN, op.ATOMIC_GROUP, op.ASSERT, op.ASSERT_NOT}:
                walk(value[-1] if kind is not op.ATOMIC_GROUP else value, start)
            else:
                letters.update(dict.fromkeys(_letters([(kind, value)])))
            start += sample
        repeats[start, ""] = None

    walk(tree, "")
    for _, unit in list(repeats):
        if len(unit) == 1:
            letters[unit] = None
    return repeats, letters


def _letters(nodes):
    """Return some of the characters that a match of the nodes can start with."""
    kind, value = next(iter(nodes), (None, None))
    if kind is op.LITERAL:
        return [chr(value)]
    if kind is op.NOT_LITERAL:
        return [letter for letter in PALETTE if ord(letter) != value][:1]
    if kind is op.ANY:
        return ["a"]
    if kind is op.IN:
        own = [
            chr(item[0] if isinstance(item, tuple) else item) for name, item in value if name in {op.LITERAL, op.RANGE}
        ]
        return list(islice((one for one in [*PALETTE, *own] if _is_in(one, value)), MOST_CHARACTERS_OF_A_CLASS))
    sample = _sample(nodes)
    return [sample[0]] if sample else []


def _is_in(letter, items):
    is_negated = items[0][0] is op.NEGATE
    return is_negated != any(
        (name is op.LITERAL and value == ord(letter))
        or (name is op.RANGE and value[0] <= ord(letter) <= value[1])
        or (name is op.CATEGORY and re.match(CATEGORIES[value], letter) is not None)
        for name, value in items
    )


def _sample(nodes):
    """Return a short text that matches the nodes, ignoring lookarounds."""
    text = ""
    for kind, value in nodes:
        if kind in REPEATS:
            text += _sample(value[2]) * value[0]
        elif kind is op.BRANCH:
            text += _sample(value[1][0])
        elif kind is op.SUBPATTERN:
            text += _sample(value[-1])
        elif kind is op.ATOMIC_GROUP:
            text += _sample(value)
        elif kind in {op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN}:
            text += (_letters([(kind, value)]) or [""])[0]
    return text
