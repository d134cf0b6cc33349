"""What may be a code in a mail: its plain lines, and the numbers and words in them that look like one.

Also the cues, the words that tell something about the numbers around them; which words do is in ``words/codes.toml``.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum, auto
from itertools import accumulate, islice
from typing import NamedTuple, TypeAlias

from tmpmaild.findings import lexicon
from tmpmaild.mail import urls


class Cue(IntEnum):
    """What a word tells; integers, because an Enum takes long to hash. ``words/codes.toml`` describes each."""

    OTP = auto()
    CODE = auto()
    COMPOUND = auto()
    ASKED = auto()
    PASSWORD = auto()
    ONCE = auto()
    VERIFY = auto()
    DELIVERY = auto()
    CONFIRM = auto()
    WORDED = auto()
    ENTER = auto()
    ENTERED = auto()
    HINT = auto()
    LASTS = auto()
    AUTHORIZE = auto()
    LABEL = auto()
    NUMBER = auto()
    DIGITS = auto()
    PARCEL = auto()
    PREMISES = auto()
    THING = auto()
    TRADE = auto()
    SUBJECT = auto()
    OLD = auto()
    UNIT = auto()
    IS = auto()


Mark: TypeAlias = lexicon.Mark[Cue]

NOUNS = frozenset({Cue.OTP, Cue.CODE, Cue.COMPOUND, Cue.ASKED})
NUMBERS = frozenset({Cue.NUMBER, Cue.DIGITS})
VERIFYING = frozenset({Cue.VERIFY, Cue.ONCE})
OTHER_KINDS = frozenset({Cue.LABEL, Cue.TRADE})

_TABLES = lexicon.load("codes")
LEXICON = lexicon.read(Cue, _TABLES)
PLAIN_WORDS = frozenset(_TABLES["lists"]["plain"].split())
DETERMINERS = frozenset(_TABLES["lists"]["determiners"].split())
_LOGIN_WORDS = lexicon.fold(_TABLES["lists"]["logins"]).split()
LOGINS = tuple(word.replace("_", " ") for word in sorted(_LOGIN_WORDS, key=len, reverse=True))

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

MAX_LINES = 2000
MAX_SHAPES = 100
MAX_LOOKS = 5000

_SHORTEST = 4
_SMALLEST_EVEN_GROUP = 3
_LONGEST_RUN = 40
_LONGEST_LINE = 800

# What no reader sees, and accents that stand apart from their letters; a keycap's frame too.
_UNSEEN = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\u20d0-\u20ff\ufe0e\ufe0f\ufeff]+"
)
_FOREIGN_DIGITS = re.compile(r"[^\D0-9]+")
_WIDE_LETTERS = re.compile("[\uff21-\uff3a\uff41-\uff5a]")
_WIDE_OFFSET = 0xFEE0
# Without a scheme, and paths: "/login/code".
_BARE_ADDRESS = re.compile(r"(?:[wW]{3}\.|(?<!\S)/\w)[^\s<>\"\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef]++")
_MAIL_ADDRESS = re.compile(r"(?<![\w.%+*-])[\w.%+*-]++@[\w-]++\.[\w.-]++", re.ASCII)
_LEFT_OUT = " \ufffc "
_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,300}+>")
_EMPTY_LINES = re.compile(r"\n\s+")
# "No." and "Tel." end no sentence, unless a capital letter follows.
_SENTENCE_END = re.compile(
    r"[.!?](?:(?<=\w{4}.)|(?<=[%)$\u20a0-\u20cf].)|(?<=\w{3}.)(?= [A-Z\u00c0-\u00de\u0410-\u042f])) "
)
# What an earlier mail said; without words it may be emphasis.
_QUOTED = re.compile(r"^>(?!>).*[^\W\d_]{2}.*$", re.MULTILINE)
# A mail that was answered or passed on: a line of hyphens, then at least two lines of its header.
_EARLIER = re.compile(r"^-{4,}+[^\n]*+\n++(?:[^\W\d_][^\n:]{1,20}+: [^\n]*+\n++){2}.*+", re.MULTILINE | re.DOTALL)
_WIDE_SENTENCE_END = re.compile("[\u3002\uff01\uff1f]")
# One in each item of a list, too.
_ONE_A_LINE = re.compile(r"\n(?:-\s)?[0-9A-Z](?:\n(?:-\s)?[0-9A-Z]){3,7}(?=\n)")
# What is struck out, in a text part that somebody wrote in HTML, and as the text of HTML has it.
_STRUCK = re.compile(r"<(del|s|strike)\b[^<>]{0,300}+>[^<>]{0,300}+</\1\s*+>|~~[^~\n]{1,300}+~~", re.IGNORECASE)
# Android's SMS Retriever: the last 11 characters tell for which app a message is.
_APP_HASH = re.compile(r"[0-9A-Za-z+/]{11}")
_APP_HASH_CHARACTERS = 11
_APP_SIGN = "<#>"
_SOME_NUMBER = re.compile(r"(?<![0-9])[0-9]{4,8}(?![0-9])")
_PIECES = re.compile(rf".{{1,{_LONGEST_LINE}}}(?:\s|$)|.{{{_LONGEST_LINE}}}")

_IN_WORD = "0-9A-Za-z_\u00c0-\u0559\u0560-\u0588\u5e74\ub144"  # the sign of a year too
_JOINT = " ?[-\u2010-\u2015|\u00b7\u2022] ?| "
_NUMBER = re.compile(rf"[0-9](?<![{_IN_WORD}].)[0-9]*+(?:(?>[.,:/'\u2019]|{_JOINT})[0-9]++)*")
_JOINTS = re.compile(rf"({_JOINT})")
_SMALL = "a-z\u00df-\u00f6\u00f8-\u00ff\u0101-\u017f"
_HUMPS = "(?:[A-Z]*+[a-z]++[A-Z]){2}"
_TOKEN = re.compile(
    rf"(?<![{_IN_WORD}-])(?=[0-9A-Za-z{_SMALL}])(?>"
    r"[0-9A-Z](?: [0-9A-Z]){3,7}"
    # A line of nothing but single letters and digits, small ones too.
    r"|(?<![^\n])(?=(?:[A-Za-z] ){1,7}[0-9]|[0-9] )[0-9A-Za-z](?: [0-9A-Za-z]){3,7}(?![^\n])"
    r"|(?=[0-9A-Z]{3,4} [0-9A-Z]{3})(?<![0-9A-Z]{3} )(?=[0-9A-Z ]{0,7}(?:[0-9][A-Z]|[A-Z][0-9]))"
    r"(?:[0-9A-Z]{3} [0-9A-Z]{3}|[0-9A-Z]{4} [0-9A-Z]{4})(?! [0-9A-Z]{3}|-)"
    r"|(?=[A-Za-z_-]*+[0-9])(?![0-9]++(?:-[aeo\u00f6]s\b|(?![A-Za-z_-])))[0-9A-Za-z]++(?:[-_][0-9A-Za-z]++)*"
    rf"|(?={_HUMPS})[A-Za-z]++"
    r"|[A-Z]{3,}+(?:-[A-Z]++)*"
    rf"|[{_SMALL}]{{3,}}+(?:-[{_SMALL}]++)+(?:-[0-9]{{1,4}})?"
    rf")(?![{_IN_WORD}])"
)

# A password with signs in it, from where a token is found.
_SIGNS = frozenset("!$%^&*_+=?~#@")
_SECRET = re.compile(
    r"(?<![!-~])(?=\S{0,20}[a-z])(?=\S{0,20}[A-Z])"
    r"[0-9A-Za-z-]{1,12}[!$%^&*_+=?~#@][0-9A-Za-z][!-~]{2,16}(?<=[^.,;])(?=[.,;]?(?![!-~]))"
)

_CURRENCIES = "$\u00a2-\u00a5\u0e3f\u20a0-\u20cf"
# Behind these a number is an amount, the year of a copyright, a part of something longer, or the rest of a masked one;
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

# Chinese mail often writes "882016,5\u5206\u949f\u5185\u6709\u6548" with an ASCII comma.
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
# Of a parcel on a shelf; typed with its hyphens.
_SHELF = re.compile(r"[0-9]{1,2}-(?:[0-9]{1,2}-)?[0-9]{4,5}")
# A line that is nothing but groups of capital letters and digits; not "PIN 4815", a time or a British postcode.
_VALUE_LINE = re.compile(
    r"[^\w(+$]*+(?!(?:OTP|PIN|TAN|CODE|TOKEN) |[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][A-Z]{2}$|[0-9:. -]+ ?(?:AM|PM|[A-Z]{3})$)"
    r"([0-9A-Z]{1,8}(?:(?: ?[-.] ?| )[0-9A-Z]{1,8}){0,13})[^\w%]*"
)
# A code, then the sender's number that Turkish operators add: "123456 B001".
_WITH_SENDER = re.compile("[0-9]{4,8} B[0-9]{3}")
# The end of a masked number ("XX1245"), a PAN and a GSTIN of India: they name somebody.
_IDENTIFIER = re.compile(
    "[Xx]{2,}[0-9]{1,6}|[0-9]{1,6}[Xx]{2,}[0-9]{0,6}|(?:[0-9]{2})?[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z](?:[0-9A-Z]Z[0-9A-Z])?"
)
_MOST_TYPED = 14
_LONG_GROUP = 12  # of a hash or a UUID
_LONGEST_TYPED = 10  # longer ones are copied
_MEASURE = re.compile(r"[0-9]{1,5}(?:x[0-9]+)?[a-z]{0,4}")
_COUPON = re.compile(r"(?=[A-Z]*[AEIOUY])[A-Z]{4,}-?[0-9]{1,4}", re.IGNORECASE)
_PREFIXED = re.compile(r"[A-Z]{1,2}-[0-9]{4,8}")
_WORDS = re.compile(rf"[{_SMALL}]{{3,}}(?:-[{_SMALL}]{{3,}})+(?:-[0-9]{{1,4}})?")
_SMALL_AND_CAPITALS = re.compile(rf"{_HUMPS}[A-Za-z]*|(?=.{8})[^\W_]*+_.*")
# Of letters that are not Latin: capital letters, or up to two of those that have no capitals, with digits.
_CAPITALS = "\u0386-\u03ab\u0400-\u042f"
_FOREIGN = re.compile(
    r"(?<![\w-])(?=[0-9-]*+[^\W\d_A-Za-z])(?=[^\s0-9]{0,40}+[0-9])(?:"
    rf"[0-9{_CAPITALS}]++(?:-[0-9{_CAPITALS}]++)*|[\u05d0-\u064a\u0900-\u30ff\uac00-\ud7a3]{{1,2}}-[0-9]{{4,6}})(?![\w-])"
)
# Words, of which a number may be the last: what stands alone behind a colon.
_PART = r"[^\W\d_][^\s!-/:-@\[-`{-~\u3001\u3002]{1,14}"
_PHRASE = re.compile(
    rf"[\"'*\u00ab\u201c\u201e\u300c]?({_PART}(?:[ -](?:{_PART}|[0-9]{{1,3}}\b)){{0,5}})[\"'*\u00bb\u201d\u300d.]?"
)
_GROUPS = re.compile(
    r"(?=.{6})(?!\d+(?:-\d+)*\Z|\d{4}-\d\d-)(?:[0-9A-Za-z]{2,6}(?:-[0-9A-Za-z]{2,6}){1,3}|[0-9A-Za-z]{1,6}(?:-[0-9A-Za-z]{1,6}){2})"
)


class Kind(IntEnum):
    """What a shape is made of; years, letters and words need plainer words around them."""

    DIGITS = auto()
    MIXED = auto()
    YEAR = auto()
    VALUE = auto()
    LETTERS = auto()
    WORDS = auto()
    PHRASE = auto()


TYPED = frozenset({Kind.DIGITS, Kind.MIXED})
COLONS = (":", "\uff1a")


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
    """Return the lines and sentences of a text as the shapes are looked for; at most about MAX_LINES."""
    text = _without_addresses(_without_app_hash(text))
    if not text.isascii():
        text = _with_ascii_digits(_UNSEEN.sub("", text))
    if "~~" in text or "</" in text:
        text = _STRUCK.sub(" ", text)
    if "</" in text:  # a text part that somebody wrote in HTML
        text = _MARKUP.sub(" ", text)
    text = _BARE_ADDRESS.sub(_LEFT_OUT, text)
    if "@" in text:
        text = _MAIL_ADDRESS.sub(_LEFT_OUT, text)
    if "\n----" in text:
        text = _EARLIER.sub("", text)
    if "\n>" in text:
        text = _QUOTED.sub("", text)
    lines = _EMPTY_LINES.sub("\n", text).split("\n", MAX_LINES)[:MAX_LINES]
    text = "\n".join(" ".join(line.split()) for line in lines)
    text = _ONE_A_LINE.sub(lambda match: "\n" + " ".join(match[0].replace("-", "").split()), f"\n{text}\n")
    text = _SENTENCE_END.sub(lambda match: f"{match[0][0]}\n", text)
    if not text.isascii():
        text = _WIDE_SENTENCE_END.sub("\n", text)
    lines = text.strip("\n").split("\n", MAX_LINES)[:MAX_LINES]
    return [piece for line in lines for piece in _pieces(line)]


def _without_app_hash(text: str) -> str:
    """Leave out the last word of a message if it names an app: one that is marked so, or in a line below a number."""
    body = text.rstrip()
    rest, last = body[:-_APP_HASH_CHARACTERS], body[-_APP_HASH_CHARACTERS:]
    if not _APP_HASH.fullmatch(last) or not rest[-1:].isspace() or last.isalpha() or last.isdigit():
        return text
    is_marked = text.lstrip().startswith(_APP_SIGN)
    is_below = rest[-1:] == "\n" and not last.isupper() and not last.islower() and _SOME_NUMBER.search(rest) is not None
    return rest if is_marked or is_below else text


def _without_addresses(text: str) -> str:
    """Put a sign where a web address is."""
    kept, last = [], 0
    for start, end in urls.occurrences(text):
        kept.append(text[last:start])
        last = end
    return _LEFT_OUT.join([*kept, text[last:]])


def _with_ascii_digits(text: str) -> str:
    """Turn digits of all scripts, and the wide letters of East Asia, into those that are typed."""
    foreign = {*"".join(_FOREIGN_DIGITS.findall(text)), *_WIDE_LETTERS.findall(text)}
    if not foreign:
        return text
    return text.translate({ord(one): str(int(one)) if one.isdecimal() else ord(one) - _WIDE_OFFSET for one in foreign})


def _pieces(line: str) -> list[str]:
    """Break a line of inhuman length, so that what is done for each number in it stays cheap."""
    return [line] if len(line) <= _LONGEST_LINE else _PIECES.findall(line)


def find(lines: list[str]) -> dict[int, list[Shape]]:
    """Return what may be a code by the number of its line, in order; the first MAX_SHAPES of a mail."""
    text = "\n".join(lines)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    found: dict[int, list[Shape]] = {}
    for start, end, value, score, kind in islice(_shapes(text), MAX_SHAPES):
        number = bisect_right(starts, start) - 1
        offset = starts[number]
        found.setdefault(number, []).append(Shape(start - offset, end - offset, value, score, kind))
    for shapes in found.values():
        shapes.sort()
    for number, line in enumerate(lines):
        start = max(line.rfind(": "), line.rfind("\uff1a")) + 1
        whole = _whole(line, start)
        if whole and [shape.value for shape in found.get(number, [])] != [whole.value]:
            found[number] = [whole]
        elif number not in found and (phrase := _phrase(line, lines[number - 1][-1:] if number else "")):
            found[number] = [phrase]
    return found


def _whole(line: str, start: int) -> Shape | None:
    """Return what fills the rest of its line: groups of capital letters and digits."""
    rest = line[start:]
    if len(rest) > _LONGEST_RUN or not rest.isupper() or rest.isalpha():
        return None
    match = _VALUE_LINE.fullmatch(line, start)
    if match and not _WITH_SENDER.fullmatch(match[1]) and any(map(str.isdigit, match[1])):
        value = match[1].replace(" ", "")
        if _SHORTEST <= sum(map(str.isalnum, value)) <= _MOST_TYPED:
            return Shape(*match.span(1), value, VALUE_LINE, Kind.VALUE)
    return None


def _phrase(line: str, last_before: str) -> Shape | None:
    """Return the words that stand behind the last colon, or in the line below one."""
    colon = max(map(line.rfind, COLONS))
    if len(line) - colon > _LONGEST_RUN or (colon < 0 and last_before not in COLONS):
        return None
    start = colon + 1 + (line[colon + 1 : colon + 2] == " ")
    match = _PHRASE.fullmatch(line, start)
    return Shape(*match.span(1), match[1], PHRASE, Kind.PHRASE) if match else None


def _shapes(text: str) -> Iterator[Shape]:
    for match in islice(_FOREIGN.finditer(text), MAX_LOOKS):
        stand_in = "".join(one if one.isascii() else "X" for one in match[0])
        kind, score = _kind_and_score(stand_in, stand_in)
        if score:
            yield Shape(*match.span(), match[0], score, kind)
    text = _FOREIGN.sub(lambda match: "\ufffc" * len(match[0]), text)
    for match in islice(_NUMBER.finditer(text), MAX_LOOKS):
        if match.end() - match.start() >= _SHORTEST:
            yield from _of_number(text, match.start(), match.end())
    for match in islice(_TOKEN.finditer(text), MAX_LOOKS):
        token, (start, end) = match[0], match.span()
        secret = None
        if text[end : end + 1] in _SIGNS or text[start - 1] in _SIGNS:
            before = _PRINTED.match(text[max(start - _LONGEST_START, 0) : start][::-1])
            secret = _SECRET.match(text, start - len(before[0]) if before else start)
        if secret:
            yield Shape(*secret.span(), secret[0], SECRET, Kind.WORDS)
        elif _SHORTEST <= len(token) <= _LONGEST_RUN and not token.isdigit():
            yield from _of_token(text, start, token)


def _of_number(text: str, start: int, end: int) -> Iterator[Shape]:
    """Judge a run of digits and what joins them."""
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
        # "481516 2nd": what runs on into a word does not belong to the number before.
        end -= len("".join(parts[-2:]))
        del parts[-2:]
    atoms = parts[::2]
    is_one = len({len(atom) for atom in atoms}) == 1 or _UNEVEN.fullmatch(text, start, end)
    if is_one and _SHELF.fullmatch(run):
        yield Shape(start, end, run, SHELF, Kind.DIGITS)
    elif is_one and all(map(str.isdigit, atoms)):
        yield from _digits(start, end, "".join(atoms))


def _may_begin(text: str, start: int, end: int) -> bool:
    """Return whether a number may be behind what is before it."""
    if _NO_START.search(text, max(start - _NO_START_CHARACTERS, 0), start) is None:
        return True
    return text[start - 1] == "*" == text[end : end + 1]


def _digits(start: int, end: int, value: str) -> Iterator[Shape]:
    grouped = LONG_GROUPS if end - start > len(value) else {}
    score, kind = DIGITS.get(len(value), 0) or grouped.get(len(value), 0), Kind.DIGITS
    if end - start == len(value) and (_YEAR.fullmatch(value) or _DATE.fullmatch(value)):
        score, kind = YEAR, Kind.YEAR
    if score:
        yield Shape(start, end, value, score, kind)


def _of_token(text: str, start: int, token: str) -> Iterator[Shape]:
    """Judge a word of letters and digits."""
    end = start + len(token)
    if _NO_TOKEN_START.search(text, max(start - 2, 0), start) or _NO_TOKEN_END.match(text, end):
        return
    if _IDENTIFIER.fullmatch(token):
        return
    if _WITH_SENDER.fullmatch(token):
        return
    value = token.replace(" ", "")
    kind, score = _kind_and_score(token, value)
    is_label = kind is Kind.LETTERS and text.startswith(COLONS, end)
    if score and not value.isdigit() and not is_label:
        yield Shape(start, end, value, score, kind)


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
    """Score letters with digits, or capital letters, in one piece."""
    if _MEASURE.fullmatch(token):
        return 0
    if token.isalpha():
        return LETTERS.get(len(token), 0)
    score = MIXED.get(len(token), 0)
    return score if token.isupper() or len(token) > _LONGEST_TYPED else max(score - SMALL_LETTERS_COST, 0)


def _group_score(token: str, kind: Kind) -> float:
    """Score two to four groups joined by hyphens."""
    if not _GROUPS.fullmatch(token):
        return LONG_GROUP if len(max(token.split("-"), key=len)) >= _LONG_GROUP else 0
    sizes = {len(group) for group in token.split("-")}
    if len(sizes) == 1 and min(sizes) >= _SMALLEST_EVEN_GROUP:
        return EVEN_GROUPS - (0 if token.isupper() else SMALL_LETTERS_COST)
    if kind is Kind.LETTERS:
        return 0
    return NEARLY_EVEN_GROUPS if max(sizes) - min(sizes) <= 1 else UNEVEN_GROUPS
