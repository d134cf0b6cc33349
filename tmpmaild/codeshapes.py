"""What could be a code by its looks, and what somebody would type of it; nothing about the words around.

A text is first made plain: lines (a sentence is a line too) with single spaces, ASCII digits, and without
web and mail addresses, whose numbers are never codes.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum, auto
from itertools import accumulate, islice
from typing import NamedTuple

MAX_LINES = 2000
MAX_SHAPES = 100
MAX_LOOKS = 5000

_SHORTEST = 4
_LONGEST_RUN = 40

# What no reader sees, and accents that stand apart from their letters; a keycap's frame too.
_UNSEEN = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\u20d0-\u20ff\ufe0e\ufe0f\ufeff]+",
)
_FOREIGN_DIGITS = re.compile(r"[^\D0-9]+")
_WIDE_LETTERS = re.compile("[\uff21-\uff3a\uff41-\uff5a]")
_WEB_ADDRESS = re.compile(r"[hHwW](?:[tT][tT][pP][sS]?://|[wW]{2}\.)[^\s<>\"\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef]++")
_MAIL_ADDRESS = re.compile(r"(?<![\w.%+*-])[\w.%+*-]++@[\w.-]++", re.ASCII)
_EMPTY_LINES = re.compile(r"\n\s+")
# "No." and "Tel." end no sentence.
_SENTENCE_END = re.compile(r"[.!?](?<=[\w%)]{4}.) ")
_WIDE_SENTENCE_END = re.compile("[\u3002\uff01\uff1f]")
_ONE_A_LINE = re.compile(r"\n[0-9A-Z](?:\n[0-9A-Z]){3,7}(?=\n)")
_LONGEST_LINE = 800
_PIECES = re.compile(rf".{{1,{_LONGEST_LINE}}}(?:\s|$)|.{{{_LONGEST_LINE}}}")
_LEFT_OUT = " \ufffc "

_IN_WORD = "0-9A-Za-z_\u00c0-\u058f"
_JOINT = " ?[-\u2010-\u2015|\u00b7\u2022] ?| "
_NUMBER = re.compile(rf"[0-9](?<![{_IN_WORD}].)[0-9]*+(?:(?>[.,:/'\u2019]|{_JOINT})[0-9]++)*")
_JOINTS = re.compile(rf"({_JOINT})")
_TOKEN = re.compile(
    rf"(?<![{_IN_WORD}-])(?>"
    r"[0-9A-Z](?: [0-9A-Z]){3,7}"
    r"|(?=[A-Za-z-]*+[0-9])[0-9A-Za-z]++(?:-[0-9A-Za-z]++)*"
    r"|[A-Z]{3,}+(?:-[A-Z]++)*"
    r"|[a-z]{3,}+(?:-[a-z]++)+"
    rf")(?![{_IN_WORD}])",
)
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_DAY = re.compile(
    r"20[0-9]{2}(?:0[1-9]|1[0-2])(?:[0-2][0-9]|3[01])|(?:[0-2][0-9]|3[01])(?:0[1-9]|1[0-2])20[0-9]{2}",
)
_MASKED = re.compile(r"(?:[*\u2022\u00b7xX#]{2,}|[.\u2026]{2,}|\u2026)[ -]?$")
_CURRENCY = re.compile("[$\u00a2-\u00a5\u0e3f\u20a0-\u20cf]")
_FILE_NAME_REST = re.compile(r"\.[a-z]{2,4}\b")
_MEASURE = re.compile(r"[0-9]+[a-z]{1,4}")
_COUPON = re.compile(r"(?=[A-Z]*[AEIOUY])[A-Z]{4,}[0-9]{1,4}", re.IGNORECASE)
_PREFIXED = re.compile(r"[A-Z]{1,2}-([0-9]{4,8})")
_WORDS = re.compile(r"[a-z]{3,}(?:-[a-z]{3,})+(?:-[0-9]{1,4})?")

_LENGTH_SCORES = {4: 0.9, 5: 0.95, 6: 1.0, 7: 0.9, 8: 0.92}


class Kind(Enum):
    """What a shape is made of; the later ones need plainer words around them."""

    DIGITS = auto()
    MIXED = auto()
    LETTERS = auto()
    WORDS = auto()


class Shape(NamedTuple):
    """What may be a code, in a line from ``start`` to ``end``.

    ``score``, above 0 and at most 1, tells how much it looks like one.
    """

    start: int
    end: int
    value: str
    score: float
    kind: Kind


def plain_lines(text: str) -> list[str]:
    """Return the lines and sentences of a text as the shapes are looked for; at most MAX_LINES."""
    if not text.isascii():
        text = _UNSEEN.sub("", text)
        foreign = {*"".join(_FOREIGN_DIGITS.findall(text)), *_WIDE_LETTERS.findall(text)}
        if foreign:
            text = text.translate({ord(character): _to_ascii(character) for character in foreign})
    text = _WEB_ADDRESS.sub(_LEFT_OUT, text)
    if "@" in text:
        text = _MAIL_ADDRESS.sub(_LEFT_OUT, text)
    lines = _EMPTY_LINES.sub("\n", text).split("\n", MAX_LINES)[:MAX_LINES]
    text = "\n".join(" ".join(line.split()) for line in lines)
    text = _ONE_A_LINE.sub(lambda match: "\n" + " ".join(match[0].split()), f"\n{text}\n")
    text = _SENTENCE_END.sub(lambda match: match[0][0] + "\n", text)
    if not text.isascii():
        text = _WIDE_SENTENCE_END.sub("\n", text)
    lines = text.strip("\n").split("\n", MAX_LINES)[:MAX_LINES]
    return [piece for line in lines for piece in _pieces(line)]


def _pieces(line: str) -> list[str]:
    """Break a line of inhuman length, so that what is done for each number in it stays cheap."""
    return [line] if len(line) <= _LONGEST_LINE else _PIECES.findall(line)


def _to_ascii(character: str) -> str:
    return str(int(character)) if character.isdecimal() else chr(ord(character) - 0xFEE0)


def find(lines: list[str]) -> dict[int, list[Shape]]:
    """Return what may be a code by the number of its line, in order; the first MAX_SHAPES of a mail."""
    text = "\n".join(lines)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    found: dict[int, list[Shape]] = {}
    for shape in islice(_shapes(text), MAX_SHAPES):
        number = bisect_right(starts, shape.start) - 1
        offset = starts[number]
        moved = shape._replace(start=shape.start - offset, end=shape.end - offset)
        found.setdefault(number, []).append(moved)
    for shapes in found.values():
        shapes.sort()
    return found


def _shapes(text: str) -> Iterator[Shape]:
    for match in islice(_NUMBER.finditer(text), MAX_LOOKS):
        yield from _of_number(text, match.start(), match.end())
    for match in islice(_TOKEN.finditer(text), MAX_LOOKS):
        yield from _of_token(text, match.start(), match[0])


def _of_number(text: str, start: int, end: int) -> Iterator[Shape]:
    """Judge a run of digits and what joins them."""
    run = text[start:end]
    if not _SHORTEST <= len(run) <= _LONGEST_RUN or not _may_begin(text, start):
        return
    parts = [run] if run.isdigit() else _JOINTS.split(run)
    if not _may_end(text, end):
        # "481516 2nd": what runs on into a word does not belong to the number before.
        end -= len("".join(parts[-2:]))
        del parts[-2:]
    atoms, joints = parts[::2], set(parts[1::2])
    if atoms and all(map(str.isdigit, atoms)) and len(joints) <= 1 and len(set(map(len, atoms))) == 1:
        yield from _digits(start, end, "".join(atoms))
    elif len(atoms) > 1:
        yield from _longest_atom(start, parts)


def _digits(start: int, end: int, value: str) -> Iterator[Shape]:
    score = _LENGTH_SCORES.get(len(value), 0)
    if end - start == len(value) and (_YEAR.fullmatch(value) or _DAY.fullmatch(value)):
        score = 0.5 if len(value) == 4 else 0.75
    if score:
        yield Shape(start, end, value, score, Kind.DIGITS)


def _longest_atom(start: int, parts: list[str]) -> Iterator[Shape]:
    """Judge a number beside others that are plainly not of it, as in "481516 10 min"."""
    atoms = parts[::2]
    longest = max(atoms, key=len)
    others = [atom for atom in atoms if atom is not longest]
    at = parts.index(longest)
    apart = all(" " in joint for joint in parts[max(at - 1, 0) : at + 2 : 2] if joint is not longest)
    if longest.isdigit() and apart and all(len(atom) < 3 or _YEAR.fullmatch(atom) or ":" in atom for atom in others):
        before = start + len("".join(parts[:at]))
        yield from _digits(before, before + len(longest), longest)


def _may_begin(text: str, start: int) -> bool:
    """Tell whether a number may stand behind what is before it: no amount, card ending, name of a file."""
    before = text[max(start - 6, 0) : start]
    if not before:
        return True
    if before[-1] in "+/.@=\\" or (before[-1] == "-" and before[-2:-1].isalnum()):
        return False
    if _CURRENCY.match(before.rstrip(" ")[-1:]):
        return False
    return not _MASKED.search(before) or before.endswith("**")


def _may_end(text: str, end: int) -> bool:
    """Tell whether a number may stand before what is behind it."""
    after = text[end : end + 6]
    if not after:
        return True
    if after[0] in "/%@=\\\u00b0" or re.match(rf"-?[{_IN_WORD}]", after) or _FILE_NAME_REST.match(after):
        return False
    after = after.lstrip(" ")
    return not (after.startswith("%") or _CURRENCY.match(after))


def _of_token(text: str, start: int, token: str) -> Iterator[Shape]:
    """Judge a word of letters and digits."""
    end = start + len(token)
    if len(token) > _LONGEST_RUN or token.isdigit() or not _token_stands_free(text, start, end):
        return
    prefixed = _PREFIXED.fullmatch(token)
    if prefixed:
        yield Shape(start, end, prefixed[1], 0.95, Kind.DIGITS)
    elif " " in token:
        value = token.replace(" ", "")
        if not value.isdigit():
            yield Shape(start, end, value, 0.9, Kind.LETTERS if value.isalpha() else Kind.MIXED)
    elif _WORDS.fullmatch(token):
        yield Shape(start, end, token, 0.9 if token.count("-") > 1 else 0.6, Kind.WORDS)
    else:
        score = _group_score(token) if "-" in token else _word_score(token)
        if score:
            letters = token.replace("-", "").isalpha()
            yield Shape(start, end, token, score, Kind.LETTERS if letters else Kind.MIXED)


def _token_stands_free(text: str, start: int, end: int) -> bool:
    before, after = text[max(start - 2, 0) : start], text[end : end + 6]
    if before[-1:] and before[-1] in "#/@=\\+&$" or (before[-1:] in {".", "'"} and before[:1].isalnum()):
        return False
    return not (after[:1] and after[0] in "/@=\\+%") and not _FILE_NAME_REST.match(after)


def _word_score(token: str) -> float:
    """Score letters with digits, or capital letters, in one piece."""
    length = len(token)
    if not 4 <= length <= 12 or _MEASURE.fullmatch(token):
        return 0
    if token.isalpha():
        return 0.8 if length <= 10 else 0
    if _COUPON.fullmatch(token):
        return 0.55
    score = 0.9 if 5 <= length <= 10 else 0.65
    return score if token.isupper() else score - 0.15


def _group_score(token: str) -> float:
    """Score two to four groups joined by hyphens."""
    groups = token.split("-")
    sizes = [len(group) for group in groups]
    if not (2 <= len(groups) <= 4 and 2 <= min(sizes) and max(sizes) <= 6 and sum(sizes) >= 6):
        return 0
    if token.replace("-", "").isdigit():
        return 0
    if len(set(sizes)) > 1 or min(sizes) == 2:
        return 0 if token.replace("-", "").isalpha() else 0.5 if max(sizes) - min(sizes) <= 1 else 0.35
    return 0.9 if token.isupper() else 0.75
