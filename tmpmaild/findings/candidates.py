"""Finds candidates: numbers and words in plain lines that could be codes, scored by their resemblance to codes."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum, auto
from itertools import accumulate, islice
from typing import NamedTuple

# Scores for each form; a score in braces depends on the number of characters.
DIGITS = {4: 0.9, 5: 0.95, 6: 1.0, 7: 0.9, 8: 0.92}
LONG_GROUPS = {9: 0.7, 10: 0.7, 11: 0.7}
PREFIXED_DIGITS = 0.95
YEAR = 0.75
VALUE_LINE = 0.8
SPACED = 0.8
LETTERS = dict.fromkeys(range(4, 11), 0.8)
MIXED = {4: 0.7, **dict.fromkeys(range(5, 11), 0.9), **dict.fromkeys(range(11, 33), 0.59)}
COUPON = 0.54
SHELF = 0.9
EVEN_GROUPS = 0.9
NEARLY_EVEN_GROUPS = 0.7
UNEVEN_GROUPS = LONG_GROUP = 0.55
THREE_WORDS = 0.9
TWO_WORDS = 0.6
SECRET = PHRASE = 0.9
SMALL_LETTERS_COST = 0.15

MAX_CANDIDATES = 100
MAX_MATCHES = 5000

_SHORTEST = 4
_SMALLEST_EVEN_GROUP = 3
_LONGEST_RUN = 40

_IN_WORD = "0-9A-Za-z_\u00c0-\u0559\u0560-\u0588\u5e74\ub144"  # includes the CJK characters for "year"
_JOINT = " ?[-\u2010-\u2015|\u00b7\u2022] ?| "
_NUMBER = re.compile(rf"[0-9](?<![{_IN_WORD}].)[0-9]*+(?:(?>[.,:/'\u2019]|{_JOINT})[0-9]++)*")
_JOINTS = re.compile(rf"({_JOINT})")
_SMALL = "a-z\u00df-\u00f6\u00f8-\u00ff\u0101-\u017f"
_HUMPS = "(?:[A-Z]*+[a-z]++[A-Z]){2}"
_TOKEN = re.compile(
    rf"(?<![{_IN_WORD}-])(?=[0-9A-Za-z{_SMALL}])"
    r"(?![A-Z]?[a-z]{2,}+[ \n.,;:)])"  # skip plain words, which make up most of a text
    r"(?>"
    r"[0-9A-Z](?: [0-9A-Z]){3,7}"
    # A line that consists only of single letters and digits, including lower case.
    r"|(?<![^\n])(?=(?:[A-Za-z] ){1,7}[0-9]|[0-9] )[0-9A-Za-z](?: [0-9A-Za-z]){3,7}(?![^\n])"
    r"|(?=[0-9A-Z]{3,4} [0-9A-Z]{3})(?<![0-9A-Z]{3} )(?=[0-9A-Z ]{0,7}(?:[0-9][A-Z]|[A-Z][0-9]))"
    r"(?:[0-9A-Z]{3} [0-9A-Z]{3}|[0-9A-Z]{4} [0-9A-Z]{4})(?! [0-9A-Z]{3}|-)"
    r"|(?=[A-Za-z_-]*+[0-9])(?![0-9]++(?:-[aeo\u00f6]s\b|(?![A-Za-z_-])))[0-9A-Za-z]++(?:[-_][0-9A-Za-z]++)*"
    rf"|(?={_HUMPS})[A-Za-z]++"
    r"|[A-Z]{3,}+(?:-[A-Z]++)*"
    rf"|[{_SMALL}]{{3,}}+(?:-[{_SMALL}]++)+(?:-[0-9]{{1,4}})?"
    rf")(?![{_IN_WORD}])"
)

# A password that contains symbols; searched for only where a token was found.
_SIGNS = frozenset("!$%^&*_+=?~#@")
_SECRET = re.compile(
    r"(?<![!-~])(?=\S{0,20}[a-z])(?=\S{0,20}[A-Z])"
    r"[0-9A-Za-z-]{1,12}[!$%^&*_+=?~#@][0-9A-Za-z][!-~]{2,16}(?<=[^.,;])(?=[.,;]?(?![!-~]))"
)

_CURRENCIES = "$\u00a2-\u00a5\u0e3f\u20a0-\u20cf"
# A number after these characters is an amount, a copyright year, part of a longer token, or the end of a masked number;
# "**1234**" is emphasis.
_NO_START = re.compile(
    rf"(?:[+/.@\\]|(?<=\S )\*|[(\[]#|[0-9A-Za-z]-|[{_CURRENCIES}] ?|[*\u2022\u00b7xX#]{{2}}[ -]?|[.\u2026]{{2}}|\u2026"
    r"|[0-9]\) ?|(?:\u00a9|\([cC]\)) ?)\Z"
)
_NO_START_CHARACTERS = 6
# "1234 S. Broadway", "1200 Example Ave"
_STREET = r" [NSEW]\. [A-Z]| (?:[A-Z][\w.]{0,15}+ ){1,3}(?:St|Street|Ave|Avenue|Blvd|Rd|Road|Dr|Drive|Ln|Lane|Hwy)\b"
_NO_END = re.compile(
    rf"(?:\) ?|\*+)[0-9]|[/@=#\\\u00b0]|(?!-[aeo\u00f6]s\b)-?[{_IN_WORD}]|\.[a-z]{{2,4}}\b| ?[%{_CURRENCIES}]|{_STREET}"
)
_NO_TOKEN_START = re.compile(r"(?:[#/@=\\+&$]|[0-9A-Za-z][.'!?^~;,])\Z")
_NO_TOKEN_END = re.compile(r"[/@=\\+%]|\.[a-z]{2,4}\b| [0-9A-Z]{4} [0-9A-Z]{4}\b")

# Chinese messages often contain "882016,5\u5206\u949f\u5185\u6709\u6548" with an ASCII comma.
_COMMA_AND_MINUTES = re.compile("([0-9]{4,8}),[0-9]{1,2}(?=[\u5206\u5c0f])")

_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_MONTH_AND_DAY = "(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
_DATE = re.compile(
    rf"(?:19|20)[0-9]{{2}}{_MONTH_AND_DAY}|(?:0[1-9]|[12][0-9]|3[01])(?:0[1-9]|1[0-2])(?:19|20)[0-9]{{2}}"
)
# "5528-1190-37", "30 7714"; not "2025-26", "1-800-555-0199" and "555-0147".
_UNEVEN = re.compile(
    r"(?!(?:19|20)[0-9]{2}-[0-9]{2}(?![0-9])|1-|[2-9][0-9]{2}-[0-9]{4}(?![0-9-]))"
    r"(?:[0-9]{1,5}(?:-[0-9]{1,5}){1,3}|[0-9]{2,4} [0-9]{1,4}|[0-9]{1,3}(?: [0-9]{2,3}){2})"
)
_PRINTED = re.compile(r"[!-~]*+")
_LONGEST_START = 13
# The position of a parcel on a shelf, which is typed with its hyphens.
_SHELF = re.compile(r"[0-9]{1,2}-(?:[0-9]{1,2}-)?[0-9]{4,5}")
# A line that consists only of groups of capital letters and digits; not "PIN 4815", a time or a British postcode.
_VALUE_LINE = re.compile(
    r"[^\w(+$]*+(?!(?:OTP|PIN|TAN|CODE|TOKEN) |[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][A-Z]{2}$|[0-9:. -]+ ?(?:AM|PM|[A-Z]{3})$)"
    r"([0-9A-Z]{1,8}(?:(?: ?[-.] ?| )[0-9A-Z]{1,8}){0,13})[^\w%]*"
)
# A code, then the sender's number that Turkish carriers add: "123456 B001".
_WITH_SENDER = re.compile("[0-9]{4,8} B[0-9]{3}")
# The end of a masked number ("XX1245"), or an Indian PAN or GSTIN: they identify a person.
_IDENTIFIER = re.compile(
    "[Xx]{2,}[0-9]{1,6}|[0-9]{1,6}[Xx]{2,}[0-9]{0,6}|(?:[0-9]{2})?[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z](?:[0-9A-Z]Z[0-9A-Z])?"
)
_MAX_TYPED = 14
_LONG_GROUP = 12  # for example in a hash or a UUID
_LONGEST_TYPED = 10  # longer codes are copied rather than typed
_MEASURE = re.compile(r"[0-9]{1,5}(?:x[0-9]+)?[a-z]{0,4}")
_COUPON = re.compile(r"(?=[A-Z]*[AEIOUY])[A-Z]{4,}-?[0-9]{1,4}", re.IGNORECASE)
_PREFIXED = re.compile(r"[A-Z]{1,2}-[0-9]{4,8}")
_WORDS = re.compile(rf"[{_SMALL}]{{3,}}(?:-[{_SMALL}]{{3,}})+(?:-[0-9]{{1,4}})?")
_SMALL_AND_CAPITALS = re.compile(rf"{_HUMPS}[A-Za-z]*|(?=.{8})[^\W_]*+_.*")
# Digits with letters that are not Latin: Greek and Cyrillic capitals, or up to two letters of a script without case.
_CAPITALS = "\u0386-\u03ab\u0400-\u042f"
_CASELESS = "\u05d0-\u064a\u0900-\u30ff\uac00-\ud7a3"
_FOREIGN_LETTER = re.compile(f"[{_CAPITALS}{_CASELESS}]")
_FOREIGN = re.compile(
    r"(?<![\w-])(?=[0-9-]*+[^\W\d_A-Za-z])(?=[^\s0-9]{0,40}+[0-9])(?:"
    rf"[0-9{_CAPITALS}]++(?:-[0-9{_CAPITALS}]++)*|[{_CASELESS}]{{1,2}}-[0-9]{{4,6}})(?![\w-])"
)
# The words between a colon and the end of the line; the last word may be a number.
_PART = r"[^\W\d_][^\s!-/:-@\[-`{-~\u3001\u3002]{1,14}"
_PHRASE = re.compile(
    rf"[\"'*\u00ab\u201c\u201e\u300c]?({_PART}(?:[ -](?:{_PART}|[0-9]{{1,3}}\b)){{0,5}})[\"'*\u00bb\u201d\u300d.]?"
)
_GROUPS = re.compile(
    r"(?=.{6})(?!\d+(?:-\d+)*\Z|\d{4}-\d\d-)(?:[0-9A-Za-z]{2,6}(?:-[0-9A-Za-z]{2,6}){1,3}|[0-9A-Za-z]{1,6}(?:-[0-9A-Za-z]{1,6}){2})"
)


class Kind(IntEnum):
    """The form of a candidate. For years, letters and words, the surrounding text must contain clearer evidence."""

    DIGITS = auto()
    MIXED = auto()
    YEAR = auto()
    VALUE = auto()
    LETTERS = auto()
    WORDS = auto()
    PHRASE = auto()


TYPED = frozenset({Kind.DIGITS, Kind.MIXED})
COLONS = (":", "\uff1a")
QUOTES = " *_\"'\u00ab\u201c\u201e\u2018\u300c\u3010"


class Candidate(NamedTuple):
    """A part of a line, from ``start`` to ``end``, that could be a code.

    ``score``, above 0 and at most 1, indicates how closely it resembles a code.
    """

    start: int
    end: int
    value: str
    score: float
    kind: Kind


def find(lines: list[str]) -> dict[int, list[Candidate]]:
    """Return each line's candidates in order, keyed by line number; the patterns match at most MAX_CANDIDATES times."""
    text = "\n".join(lines)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    found: dict[int, list[Candidate]] = {}
    for start, end, value, score, kind in islice(_candidates(text), MAX_CANDIDATES):
        number = bisect_right(starts, start) - 1
        offset = starts[number]
        found.setdefault(number, []).append(Candidate(start - offset, end - offset, value, score, kind))
    for candidates in found.values():
        candidates.sort()
    for number, line in enumerate(lines):
        start = max(line.rfind(": "), line.rfind("\uff1a")) + 1
        whole = _whole(line, start)
        if whole and [candidate.value for candidate in found.get(number, [])] != [whole.value]:
            found[number] = [whole]
        elif number not in found and (phrase := _phrase(line, lines[number - 1][-1:] if number else "")):
            found[number] = [phrase]
    return found


def _whole(line: str, start: int) -> Candidate | None:
    """Return the groups of capital letters and digits that make up the entire rest of a line, or None."""
    rest = line[start:]
    if len(rest) > _LONGEST_RUN or not rest.isupper() or rest.isalpha():
        return None
    match = _VALUE_LINE.fullmatch(line, start)
    if match and not _WITH_SENDER.fullmatch(match[1]) and any(map(str.isdigit, match[1])):
        value = match[1].replace(" ", "")
        if _SHORTEST <= sum(map(str.isalnum, value)) <= _MAX_TYPED:
            return Candidate(*match.span(1), value, VALUE_LINE, Kind.VALUE)
    return None


def _phrase(line: str, last_before: str) -> Candidate | None:
    """Return the words after a line's last colon, or the words of a line below a colon."""
    colon = max(map(line.rfind, COLONS))
    if len(line) - colon > _LONGEST_RUN or (colon < 0 and last_before not in COLONS):
        return None
    start = colon + 1 + (line[colon + 1 : colon + 2] == " ")
    match = _PHRASE.fullmatch(line, start)
    return Candidate(*match.span(1), match[1], PHRASE, Kind.PHRASE) if match else None


def _candidates(text: str) -> Iterator[Candidate]:
    if _FOREIGN_LETTER.search(text):  # the check avoids a slow pattern, because such letters are rare
        for match in islice(_FOREIGN.finditer(text), MAX_MATCHES):
            stand_in = "".join(one if one.isascii() else "X" for one in match[0])
            kind, score = _kind_and_score(stand_in, stand_in)
            if score:
                yield Candidate(*match.span(), match[0], score, kind)
        text = _FOREIGN.sub(lambda match: "\ufffc" * len(match[0]), text)
    for match in islice(_NUMBER.finditer(text), MAX_MATCHES):
        if match.end() - match.start() >= _SHORTEST:
            yield from _of_number(text, match.start(), match.end())
    for match in islice(_TOKEN.finditer(text), MAX_MATCHES):
        token, (start, end) = match[0], match.span()
        secret = None
        if text[end : end + 1] in _SIGNS or text[start - 1] in _SIGNS:
            before = _PRINTED.match(text[max(start - _LONGEST_START, 0) : start][::-1])
            secret = _SECRET.match(text, start - len(before[0]) if before else start)
        if secret:
            yield Candidate(*secret.span(), secret[0], SECRET, Kind.WORDS)
        elif _SHORTEST <= len(token) <= _LONGEST_RUN and not token.isdigit():
            yield from _of_token(text, start, token)


def _of_number(text: str, start: int, end: int) -> Iterator[Candidate]:
    """Yield the candidate in a run of digits and separators, if any."""
    run = text[start:end]
    if len(run) > _LONGEST_RUN:
        return
    if not _may_begin(text, start, end):
        masked, joint, rest = run.partition(" - ")  # "*8812 - 330219"
        if not joint or not masked.isdigit():
            return
        start, run = end - len(rest), rest
    before_minutes = _COMMA_AND_MINUTES.match(text, start)
    if before_minutes is not None:
        run, end = before_minutes[1], before_minutes.end(1)
    parts = [run] if run.isdigit() else _JOINTS.split(run)
    if _NO_END.match(text, end):
        # "481516 2nd": digits that continue as a word do not belong to the preceding number.
        end -= len("".join(parts[-2:]))
        del parts[-2:]
    atoms = parts[::2]
    is_one = len({len(atom) for atom in atoms}) == 1 or _UNEVEN.fullmatch(text, start, end)
    if is_one and _SHELF.fullmatch(run):
        yield Candidate(start, end, run, SHELF, Kind.DIGITS)
    elif is_one and all(map(str.isdigit, atoms)):
        yield from _digits(start, end, "".join(atoms))


def _may_begin(text: str, start: int, end: int) -> bool:
    """Return whether a number may be a candidate, judging by the text before it."""
    if _NO_START.search(text, max(start - _NO_START_CHARACTERS, 0), start) is None:
        return True
    return text[start - 1] == "*" == text[end : end + 1]


def _digits(start: int, end: int, value: str) -> Iterator[Candidate]:
    grouped = LONG_GROUPS if end - start > len(value) else {}
    score, kind = DIGITS.get(len(value), 0) or grouped.get(len(value), 0), Kind.DIGITS
    if end - start == len(value) and (_YEAR.fullmatch(value) or _DATE.fullmatch(value)):
        score, kind = YEAR, Kind.YEAR
    if score:
        yield Candidate(start, end, value, score, kind)


def _of_token(text: str, start: int, token: str) -> Iterator[Candidate]:
    """Yield a word of letters and digits as a candidate, if it could be a code."""
    end = start + len(token)
    if _NO_TOKEN_START.search(text, max(start - 2, 0), start) or _NO_TOKEN_END.match(text, end):
        return
    if _IDENTIFIER.fullmatch(token) or _WITH_SENDER.fullmatch(token):
        return
    value = token.replace(" ", "")
    kind, score = _kind_and_score(token, value)
    is_label = kind is Kind.LETTERS and text.startswith(COLONS, end)
    if score and not value.isdigit() and not is_label:
        yield Candidate(start, end, value, score, kind)


def _kind_and_score(token: str, value: str) -> tuple[Kind, float]:
    if _WORDS.fullmatch(token):
        return Kind.WORDS, TWO_WORDS if token.count("-") == 1 else THREE_WORDS
    if _SMALL_AND_CAPITALS.fullmatch(token):
        return Kind.WORDS, SECRET
    kind = Kind.LETTERS if value.replace("-", "").isalpha() else Kind.MIXED
    if _PREFIXED.fullmatch(token):
        return kind, PREFIXED_DIGITS
    if _COUPON.fullmatch(token):
        return kind, COUPON
    if token != value:
        return kind, SPACED
    return kind, _group_score(token, kind) if "-" in token else _word_score(token)


def _word_score(token: str) -> float:
    """Return the score of an unbroken sequence of letters and digits, or of capital letters."""
    if _MEASURE.fullmatch(token):
        return 0
    if token.isalpha():
        return LETTERS.get(len(token), 0)
    score = MIXED.get(len(token), 0)
    return score if token.isupper() or len(token) > _LONGEST_TYPED else max(score - SMALL_LETTERS_COST, 0)


def _group_score(token: str, kind: Kind) -> float:
    """Return the score of two to four groups joined by hyphens."""
    if not _GROUPS.fullmatch(token):
        return LONG_GROUP if len(max(token.split("-"), key=len)) >= _LONG_GROUP else 0
    sizes = {len(group) for group in token.split("-")}
    if len(sizes) == 1 and min(sizes) >= _SMALLEST_EVEN_GROUP:
        return EVEN_GROUPS - (0 if token.isupper() else SMALL_LETTERS_COST)
    if kind is Kind.LETTERS:
        return 0
    return NEARLY_EVEN_GROUPS if max(sizes) - min(sizes) <= 1 else UNEVEN_GROUPS
