"""Converts a message's text to plain lines of one sentence each, without addresses, markup or quoted messages."""

import re

from tmpmaild.mail import urls

MAX_LINES = 2000
_LONGEST_LINE = 800

# Invisible characters, combining accents, and the frame of a keycap.
_UNSEEN = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\u20d0-\u20ff\ufe0e\ufe0f\ufeff]+"
)
_FOREIGN_DIGITS = re.compile(r"[^\D0-9]+")
_WIDE_LETTERS = re.compile("[\uff21-\uff3a\uff41-\uff5a]")
_WIDE_OFFSET = 0xFEE0
# Addresses without a scheme, and paths: "/login/code".
_BARE_ADDRESS = re.compile(r"(?:[wW]{3}\.|(?<!\S)/\w)[^\s<>\"\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef]++")
_MAIL_ADDRESS = re.compile(r"(?<![\w.%+*-])[\w.%+*-]++@[\w-]++\.[\w.-]++", re.ASCII)
_LEFT_OUT = " \ufffc "
_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,300}+>")
_EMPTY_LINES = re.compile(r"\n\s+")
# "No." and "Tel." do not end a sentence, unless a capital letter follows.
_SENTENCE_END = re.compile(
    r"[.!?](?:(?<=\w{4}.)|(?<=[%)$\u20a0-\u20cf].)|(?<=\w{3}.)(?= [A-Z\u00c0-\u00de\u0410-\u042f])) "
)
# A quoted message; a quotation mark without words may be emphasis.
_QUOTED = re.compile(r"^>(?!>).*[^\W\d_]{2}.*$", re.MULTILINE)
# A message that was replied to or forwarded: a line of hyphens, then at least two lines of its header.
_EARLIER = re.compile(r"^-{4,}+[^\n]*+\n++(?:[^\W\d_][^\n:]{1,20}+: [^\n]*+\n++){2}.*+", re.MULTILINE | re.DOTALL)
_WIDE_SENTENCE_END = re.compile("[\u3002\uff01\uff1f]")
# A code with one character on each line, or in each item of a list.
_ONE_A_LINE = re.compile(r"\n(?:-\s)?[0-9A-Z](?:\n(?:-\s)?[0-9A-Z]){3,7}(?=\n)")
# Struck-through text: HTML in a text part, or marks in text extracted from HTML.
_STRUCK = re.compile(r"<(del|s|strike)\b[^<>]{0,300}+>[^<>]{0,300}+</\1\s*+>|~~[^~\n]{1,300}+~~", re.IGNORECASE)
# Android's SMS Retriever: the last 11 characters identify the app that a message is for.
_APP_HASH = re.compile(r"[0-9A-Za-z+/]{11}")
_APP_HASH_CHARACTERS = 11
_APP_SIGN = "<#>"
_SOME_NUMBER = re.compile(r"(?<![0-9])[0-9]{4,8}(?![0-9])")
_PIECES = re.compile(rf".{{1,{_LONGEST_LINE}}}(?:\s|$)|.{{{_LONGEST_LINE}}}")


def plain_lines(text: str) -> list[str]:
    """Return the lines and sentences of a text that are searched for candidates, at most about MAX_LINES."""
    text = _without_addresses(_without_app_hash(text))
    if not text.isascii():
        text = _with_ascii_digits(_UNSEEN.sub("", text))
    if "~~" in text or "</" in text:
        text = _STRUCK.sub(" ", text)
    if "</" in text:  # a text part that contains HTML
        text = _MARKUP.sub(" ", text)
    if "/" in text or "www." in text.lower():
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
    # Very long lines are split, to limit the cost of each number in them.
    return [piece for line in lines for piece in ([line] if len(line) <= _LONGEST_LINE else _PIECES.findall(line))]


def _without_app_hash(text: str) -> str:
    """Remove a message's last word if it identifies an app: if it is marked, or is alone on a line below a number."""
    body = text.rstrip()
    rest, last = body[:-_APP_HASH_CHARACTERS], body[-_APP_HASH_CHARACTERS:]
    if not _APP_HASH.fullmatch(last) or not rest[-1:].isspace() or last.isalpha() or last.isdigit():
        return text
    is_marked = text.lstrip().startswith(_APP_SIGN)
    is_below = rest[-1:] == "\n" and not last.isupper() and not last.islower() and _SOME_NUMBER.search(rest) is not None
    return rest if is_marked or is_below else text


def _without_addresses(text: str) -> str:
    """Replace web addresses with a placeholder."""
    kept, last = [], 0
    for start, end in urls.occurrences(text):
        kept.append(text[last:start])
        last = end
    return _LEFT_OUT.join([*kept, text[last:]])


def _with_ascii_digits(text: str) -> str:
    """Replace the digits of all scripts, and full-width letters, with their ASCII equivalents."""
    foreign = {*"".join(_FOREIGN_DIGITS.findall(text)), *_WIDE_LETTERS.findall(text)}
    if not foreign:
        return text
    return text.translate({ord(one): str(int(one)) if one.isdecimal() else ord(one) - _WIDE_OFFSET for one in foreign})
