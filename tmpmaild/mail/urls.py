"""Finds web addresses in plain text, and resolves references in HTML. The purpose of a link is decided elsewhere.

All code that searches text for links uses this module, so the end of an address is determined consistently:

- In angle brackets, the address is everything between them (RFC 3986, appendix C), even if a long address was broken
  into lines. ``joined`` returns the address without the line breaks.
- In ASCII, white space, controls, ``<``, ``>``, ``"`` and a backtick end an address. A closing bracket that the address
  has not opened also ends it (UTS #58, "Close"). Punctuation at the end belongs to the sentence. ``*``, ``_`` and ``~``
  are part of an address (RFC 3986, section 2.3: ``_`` and ``~`` are unreserved), unless the same character opens
  emphasis before the address on the same line.
- Beyond ASCII, an address continues with characters that may continue an identifier (XID_Continue of UAX #31: letters,
  marks, decimal digits). Punctuation and symbols of all scripts, joiners, direction marks (UAX #9) and spaces end it.
  There are two exceptions, which depend on the adjacent characters: a joiner between letters of a script that needs it
  (UAX #31, section 2.3.1), and the middle dot between two "l" (RFC 5892, appendix A.3).
- In scripts without spaces between words, text follows an address directly, so letters of these scripts can belong only
  to a host.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urljoin

from tmpmaild.mail.htmltokens import address_of, attributes_of

MAX_BASE_CHARACTERS = 512
"""A longer base is ignored, because every reference in a message may repeat it."""

_START = re.compile(r"https?://(?=[\w\[])", re.IGNORECASE)
# Mail programs break lines at 72 characters or more.
_IN_ANGLE_BRACKETS = re.compile(r"(?>(?:[^\s<>\"]{60,}+\n){0,100})[^\s<>\"]++(?=>)")
# The common characters of an address: ASCII except brackets; letters of Latin, Greek, Cyrillic, Hebrew, Arabic, Hindi.
_PLAIN = re.compile(
    r"[^\x00-\x20\x7f<>\"`()\[\]{}\u0080-\U0010ffff]++"
    r"|[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0388-\u03f5\u03f7-\u0481\u048a-\u052f"
    r"\u05d0-\u05ea\u0620-\u0669\u0671-\u06d3\u0904-\u0939]++"
)
_PAIRS = {")": "(", "]": "[", "}": "{"}
_OPENING = frozenset(_PAIRS.values())
_BEHIND_SENTENCE = ".,;:!?'|\\([{"
_EMPHASIS = "*_~"
_EMPHASIS_RUN = {mark: re.compile(rf"\{mark}+") for mark in _EMPHASIS}
_LINE_CHARACTERS = 200

# Letters of South-East Asia and Tibet, then of East Asia, including wide forms.
_SPACELESS = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
    "\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    "\U00016fe0-\U00018dff\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_SPACELESS_LETTER = re.compile(f"[{_SPACELESS}]")
_HOST_CHARACTERS = 253
# Labels in any script; ``\w`` does not include the vowel signs of South-East Asia.
_LABELS = re.compile(rf"[\w.\u0e31-\u0e4e\u0eb1-\u0ece\u1000-\u109f\u1780-\u17d3\u3099\u309a-]{{1,{_HOST_CHARACTERS}}}")
# According to UAX #31, these letters and invisible marks (Default_Ignorable_Code_Point) may continue an identifier.
_LEFT_OUT = re.compile(
    f"[{_SPACELESS}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
# Arabic, Syriac, Mongolian and the scripts of India use joiners to shape their letters.
_JOINED = re.compile("[\u0600-\u08ff\u0900-\u0dff\u1800-\u18af]")
_JOINERS = "\u200c\u200d"
_MIDDLE_DOTS = "\u00b7\u0387"  # U+0387 is the Greek semicolon

_WEB = re.compile(r"https?://[^\s/?#\\]", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*+:", re.IGNORECASE)
_SPECIAL = re.compile(r"(https?):[/\\]*+(?=[^/\\])", re.IGNORECASE)
_BEFORE_QUERY = re.compile(r"[^?#]*+")


def occurrences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each http or https address in a text, in time proportional to the text's length."""
    earlier: list[tuple[int, int]] = []  # the preceding addresses on the same line
    end = 0
    while found := _START.search(text, end):
        start = found.start()
        line = max(text.rfind("\n", end, start) + 1, start - _LINE_CHARACTERS)
        earlier = [span for span in earlier if span[0] >= line] if line <= end else []
        bracketed = _IN_ANGLE_BRACKETS.match(text, start) if text[start - 1 : start] == "<" else None
        stop = bracketed.end() if bracketed else _trimmed(text, start, _stop(text, found.end()), line, earlier)
        end = max(stop, found.end())
        if stop > found.end():
            earlier.append((start, stop))
            yield start, stop


def joined(address: str) -> str:
    """Return an address found in a text, without its line breaks."""
    return address.replace("\n", "")


def _stop(text: str, start: int) -> int:
    """Return the last possible end of an address with a host at ``start``; the address may still be trimmed."""
    at = _host_end(text, start)
    opened: list[str] = []
    while at < len(text):
        plain = _PLAIN.match(text, at)
        if plain:
            at = plain.end()
            continue
        character = text[at]
        if character in _OPENING:
            opened.append(character)
        elif character in _PAIRS:
            if not opened or opened.pop() != _PAIRS[character]:
                break
        elif character.isascii() or not _continues(text, at):
            break
        at += 1
    return at


def _continues(text: str, at: int) -> bool:
    """Return whether a non-ASCII character belongs to the address before it."""
    character, before, behind = text[at], text[at - 1], text[at + 1 : at + 2]
    if character in _JOINERS:
        return _JOINED.match(before) is not None and _JOINED.match(behind) is not None
    if character in _MIDDLE_DOTS:
        return character == _MIDDLE_DOTS[0] and before.lower() == "l" == behind.lower()
    return _LEFT_OUT.match(character) is None and f"a{character}".isidentifier()


def _host_end(text: str, start: int) -> int:
    """Return the end of a host with letters of a script without spaces, or ``start`` if it has no such letters.

    In the first label, such letters belong to the host, unless they follow other letters and no further label follows.
    A later label belongs to the host if it starts with such letters and follows the first label or a label that has
    them. Directly after "x.example", such letters belong to the next word.
    """
    host = _LABELS.match(text, start)
    if host is None or not _SPACELESS_LETTER.search(host[0]):
        return start
    at, may_follow = start, True
    first, *others = host[0].split(".")
    for label in (first, *others):
        spaceless = _SPACELESS_LETTER.search(label)
        is_first = at == start
        if spaceless and not (may_follow and (not spaceless.start() or (is_first and others))):
            return at + spaceless.start()
        may_follow = is_first or spaceless is not None
        at += len(label) + 1
    return at - 1


def _trimmed(text: str, start: int, end: int, line: int, earlier: list[tuple[int, int]]) -> int:
    """Return the end of an address, excluding characters of its sentence and of emphasis opened before it."""
    opened: dict[str, int] = {}
    while end > start:
        last = text[end - 1]
        if last in _EMPHASIS:
            if last not in opened:
                opened[last] = _open_marks(text, start, line, earlier, last)
            if not opened[last]:
                break
            opened[last] -= 1
        elif last not in _BEHIND_SENTENCE:
            break
        end -= 1
    return end


def _open_marks(text: str, start: int, line: int, earlier: list[tuple[int, int]], mark: str) -> int:
    """Return the number of unclosed emphasis marks before an address on its line, ignoring earlier addresses."""
    before, at = "", line
    for first, last in earlier:
        before += f"{text[at:first]}x"
        at = last
    before += text[at:start]
    opened = 0
    for run in _EMPHASIS_RUN[mark].finditer(before):
        left, right = before[: run.start()][-1:], before[run.end() : run.end() + 1] or "h"
        if opened and not left.isspace() and not right.isalnum():
            opened = 0
        elif not left.isalnum() and not right.isspace():
            opened = run.end() - run.start()
    return opened


def resolve(base: str, reference: str) -> str:
    """Return the web address that a reference in HTML leads to, or "" (https://url.spec.whatwg.org, section 4.4).

    ``base`` is the result of ``base_of``. Without a base, only absolute addresses can be resolved. An empty or
    fragment-only reference stays within the message. A backslash counts as a slash, and any number of slashes may
    follow the scheme.
    """
    reference = address_of(reference)
    if _WEB.match(reference):
        return reference
    if special := _SPECIAL.match(reference):
        whole = f"{special[1]}://{reference[special.end() :]}"
        return whole if _WEB.match(whole) else ""
    if not base or not reference or reference.startswith("#") or _SCHEME.match(reference):
        return ""
    try:
        return urljoin(base, _BEFORE_QUERY.sub(lambda path: path[0].replace("\\", "/"), reference, count=1))
    except ValueError:  # raised for an invalid host, as in "//["
        return ""


def base_of(parts: Iterable[tuple[str, str, str]]) -> str:
    """Return the web address that the references of an HTML document are relative to, or "" if it declares none.

    The first ``base`` element with an ``href`` is used, regardless of its position (section 4.2.3 of
    https://html.spec.whatwg.org).
    """
    for kind, name, attributes in parts:
        if kind == "start" and name == "base" and "href" in (found := attributes_of(attributes)):
            base = resolve("", found["href"])
            return base if len(base) <= MAX_BASE_CHARACTERS else ""
    return ""
