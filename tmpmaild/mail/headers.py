"""Finds header fields, decodes their text, and reads parameters and address lists; MIME parts are handled elsewhere.

A *raw value* is an unfolded field body in which bytes above 127 are escaped by ``surrogateescape``. Structure is always
parsed from raw values before the pieces are decoded, so an encoded comma or angle bracket never becomes structure. All
functions here take linear time.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from tmpmaild.mail import charsets
from tmpmaild.mail.transferencoding import decode_base64

MAX_FIELDS = 1000
MAX_FIELD_BYTES = 8 * 1024
MAX_HEADER_BYTES = 64 * 1024
HEADER_CUT = "The header is too large and was cut."
FIELD_CUT = "A header field is too long and was cut."
NO_FIELD = "Header lines that are not fields were skipped."

# The size of the part of a header that is searched for fields. The limit of 64 KiB applies to the fields after each has
# been cut.
_SCANNED_BYTES = 4 * MAX_HEADER_BYTES
_PLAIN_CHARACTERS = 998  # RFC 5322 §2.1.1: the maximum length of a line

_FIELD = re.compile(r"([!-9;-~]++)[ \t]*+:([^\n]*+(?:\n[ \t][^\n]*+)*)\n?")
# A parameter on its own line that the sending program forgot to indent.
_PARAMETER_LINE = re.compile(r"[A-Za-z][A-Za-z0-9*-]*+[ \t]*+=[^\n]*+(?:\n[ \t][^\n]*+)*\n?")
_WITH_PARAMETERS = frozenset({"content-type", "content-disposition"})
_FIELDS = re.compile(r"^([!-9;-~]++)[ \t]*+:([^\n]*+(?:\n[ \t][^\n]*+)*)\n", re.MULTILINE)
_READ = frozenset("from sender reply-to to cc bcc subject date message-id mime-version".split())
_BYTE_ORDER_MARK = "\udcef\udcbb\udcbf"
_FOLD = re.compile(r"\r?\n")
_SPACE = re.compile(r"[ \t]++")
_EMPTY_LINE = re.compile(rb"\n\r?\n")
_WORD_START = re.compile(r"=\?([^?\s]{0,80})\?([bBqQ])\?")
_HEX_OCTET = re.compile(rb"=([0-9A-Fa-f]{2})")
_FOREIGN_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_SPACES = dict.fromkeys(map(ord, "\t\n\v\f\r\x85\u2028\u2029"), " ")
_CONTROLS = {**dict.fromkeys([*range(32), *range(127, 160)], "\ufffd"), **_SPACES}

_PARAMETER = re.compile(r';\s*+([^=;\s"]++)\s*+=\s*+(?:"((?>(?:[^"\\]|\\.)*))"?|([^;]*+))', re.DOTALL)
# The common case: at most one parameter, which needs no decoding.
_PLAIN_PARAMETER = re.compile(
    r'([A-Za-z0-9+./_-]++)(?:;[ \t]*+([A-Za-z]++)=(?:"([ !#->@-\[\]-~]*+)"|([A-Za-z0-9+./_=\'-]++)))?'
)
# For values in which the semicolon is missing before one of the known parameters.
_KNOWN = r"(?:boundary|charset|filename|name|format|delsp)(?:\*[0-9]*+\*?)?\s*+="
_MAIN = re.compile(rf"(?!{_KNOWN})(?>(?:[^;\s]++|\s++(?!{_KNOWN}))*)", re.IGNORECASE)
_LOOSE_PARAMETER = re.compile(
    rf"(?:;\s*+|(?:\A|(?<=[\s\"]))(?={_KNOWN}))"
    r'([^=;\s"]++)\s*+=\s*+(?:"((?>(?:[^"\\]|\\.)*))"?'
    rf"|((?>(?:[^;\s]++|\s++(?!{_KNOWN}))*)))",
    re.DOTALL | re.IGNORECASE,
)
_COMMENT = re.compile(r"\([^()]*+\)")
_COMMENT_BEHIND = re.compile(r"(?<!\s)\s++\(.*", re.DOTALL)
_QUOTED_PAIR = re.compile(r'\\(["\\])')
_CONTINUATION = re.compile(r"([^*]+)(?:\*(\d{1,4}))?(\*?)")

_ADDRESS_TOKEN = re.compile(
    r"(?P<word>=\?[^?\s]{0,80}\?[bBqQ]\?[^?]*+\?=)"
    r"|<(?P<angle>[^<>]*+)>?"
    r"|(?P<space>\s++)"
    r"|(?P<atom>[^\s\"<>(),:;=\[]++|\[[^\]\s]*+\]?|=)"
    r"|(?P<special>.)",
    re.DOTALL,
)
_QUOTED_STRING = re.compile(r'"(?>(?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN_MAILBOX = re.compile(
    r"(?:(?:\"([A-Za-z0-9 .,'&+_-]*+)\" *+|([A-Za-z0-9 .'&+_-]*+))<)?([A-Za-z0-9.+_-]++@[A-Za-z0-9.-]++)>?"
)
_COMMENT_PIECE = re.compile(r"\\.|[()]|[^()\\]++|\\", re.DOTALL)
_BRACKETED = re.compile(r"\[([^\[\]]++)\]")
_ROUTE = re.compile(r"(?:@[^:]*+|mailto):", re.IGNORECASE)


class Cut(Struct, frozen=True):
    """A header split into fields: pairs of a name and the unchanged text after the colon, including folds.

    Lines that are not fields were skipped. If such lines are at the end, they count as a body without a preceding empty
    line. In that case, ``end`` is the offset at which they start; otherwise, it is the length of the block.
    """

    fields: list[tuple[str, str]]
    end: int
    has_skipped: bool = False
    has_rest: bool = False
    is_cut: bool = False
    is_short: bool = False
    """Whether the header consists only of fields, has no escape sequences, and fits the limit of one field."""

    @property
    def has_other_lines(self) -> bool:
        """Whether any line is not a field, in which case programs may disagree on where the header ends."""
        return self.has_skipped or self.has_rest


def of_mail(raw: bytes) -> tuple[Cut, int]:
    """Return the header of a message, and the start of its body (RFC 5322 §2.1).

    This result is used both to display a message and to verify its signatures. If display and verification split the
    header differently, the message shown could differ from the verified message.
    """
    if raw.startswith((b"\n", b"\r\n")):
        return Cut([], 0), raw.index(b"\n") + 1
    empty_line = _EMPTY_LINE.search(raw)
    block = raw[: empty_line.start() + 1] if empty_line else raw
    found = cut(block)
    return found, empty_line.end() if empty_line and found.end == len(block) else found.end


def cut(block: bytes, max_fields: int = MAX_FIELDS) -> Cut:
    """Find the fields (RFC 5322 §2.2) of a header block, in order."""
    text = block[:_SCANNED_BYTES].decode("ascii", "surrogateescape")
    if len(text) <= MAX_FIELD_BYTES and text.endswith("\n"):  # fast path: a short header with only fields
        found = _FIELDS.findall(text)
        folds = "".join([value for _, value in found]).count("\n")
        if len(found) + folds == text.count("\n") and len(found) <= max_fields:
            return Cut(found, len(block), is_short="\x1b" not in text)
    fields: list[tuple[str, str]] = []
    position, strange_at, room, has_skipped = 0, -1, MAX_HEADER_BYTES, False
    if text.startswith(_BYTE_ORDER_MARK):  # other programs may read it as part of the first field name
        position, has_skipped = len(_BYTE_ORDER_MARK), True
    while position < len(text) and room > 0 and max_fields > 0:
        match = _FIELD.match(text, position)
        max_fields -= 1
        if match is None:
            if strange_at < 0 and (line := _parameter_line(text, position, fields)):
                name, value = fields[-1]
                fields[-1] = (name, f"{value}\n {line[0]}")
                room -= len(line[0])
                position, has_skipped = line.end(), True  # other programs may not see it as part of the field
                continue
            strange_at = position if strange_at < 0 else strange_at
            position = text.find("\n", position) + 1 or len(text)
            continue
        has_skipped, strange_at = has_skipped or strange_at >= 0, -1
        fields.append((match[1], match[2]))
        room -= min(len(match[2]), MAX_FIELD_BYTES) + len(match[1])
        position = match.end()
    if strange_at >= 0:
        return Cut(fields, strange_at, has_skipped, has_rest=True, is_cut=position < len(block))
    return Cut(fields, len(block), has_skipped, is_cut=position < len(block))


def _parameter_line(text: str, position: int, fields: list[tuple[str, str]]) -> re.Match[str] | None:
    """Return the line that continues the last field, if that field has parameters and ends with a semicolon."""
    if not fields or fields[-1][0].lower() not in _WITH_PARAMETERS or not fields[-1][1].rstrip().endswith(";"):
        return None
    return _PARAMETER_LINE.match(text, position)


def shown(found: Cut, warnings: dict[str, None]) -> list[tuple[str, str]]:
    """Return the fields of a header with raw values."""
    if found.is_short:
        return [
            (name, (line.replace("\r\n", "").replace("\n", "") if "\n" in line else line).strip(" \t\r"))
            for name, line in found.fields
        ]
    if found.has_skipped:
        warnings[NO_FIELD] = None
    if found.is_cut:
        warnings[HEADER_CUT] = None
    fields = []
    for name, line in found.fields:
        is_long = len(line) > _PLAIN_CHARACTERS or "\n" in line
        value = _unfolded(line, warnings) if is_long else line.strip(" \t\r")
        # ISO-2022 bytes can look like quotes and brackets, so they are decoded before structure is parsed.
        is_escaped = "\x1b" in value and value.isascii() and charsets.by_escapes(value.encode()) is not None
        fields.append((name, _literal(value, warnings) if is_escaped else value))
    return fields


def first_values(fields: list[tuple[str, str]]) -> dict[str, str]:
    """Return values by lower-case name; if a field is repeated, its first value is used."""
    return {name.lower(): value for name, value in reversed(fields)}


def _unfolded(value: str, warnings: dict[str, None]) -> str:
    """Join the lines of a field body (RFC 5322 §2.2.3) and cut the result to the limit.

    White space is collapsed before the value is cut, since it can be added to a signed field (RFC 6376 §3.4.2).
    """
    if "\n" in value:
        value = _FOLD.sub("", value)
    if len(value) > MAX_FIELD_BYTES:
        value = _SPACE.sub(" ", value)
    if len(value) > MAX_FIELD_BYTES:
        warnings[FIELD_CUT] = None
        value = value[:MAX_FIELD_BYTES]
    return value.strip(" \t\r\n")


def is_read(name: str) -> bool:
    """Return whether a field is shown as written by the author, or determines how the body is decoded.

    All other fields, such as ``Received`` and ``List-Unsubscribe``, may have been added by a server that forwarded the
    message.
    """
    lowered = name.lower()
    return lowered in _READ or lowered.startswith("content-")


def is_plain(value: str) -> bool:
    """Return whether a raw value is already a single line of text that needs no decoding."""
    return value.isascii() and value.isprintable() and "=?" not in value


def decode(value: str, warnings: dict[str, None] | None = None) -> str:
    """Decode a raw value to a single line of text: encoded-words (RFC 2047), raw UTF-8 or windows-1252.

    This accepts more than the RFC allows, because such input occurs in practice: encoded-words inside quotes and other
    words, spaces inside encoded-words, characters split across adjacent encoded-words. Nothing is dropped.
    """
    if value.isascii() and "=?" not in value:
        if value.isprintable():
            return value
        if "\t" in value and "~" not in value and (spaced := value.replace("\t", " ")).isprintable():  # was folded
            return spaced
    text = _decode_words(value, warnings) if "=?" in value else _literal(value, warnings)
    return text if text.isprintable() else text.translate(_CONTROLS)


def _octets(value: str) -> bytes:
    """Return the original bytes of a raw value."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _FOREIGN_SURROGATE.sub("\ufffd", value).encode("utf-8", "surrogateescape")


def in_charset(value: str, charset: str) -> str:
    """Return a raw value decoded in ``charset`` if its bytes are not UTF-8 and fit that charset, else unchanged.

    Use this before parsing structure, because an encoded character may contain the byte value of a quote or a
    backslash.
    """
    if value.isascii() or not charset:
        return value
    text = charsets.fitting(_octets(value), charset)
    return value if text is None else charsets.scrub(text)


def _literal(value: str, warnings: dict[str, None] | None) -> str:
    """Decode text outside encoded-words."""
    return charsets.to_text(_octets(value), "", warnings)


def _decode_words(value: str, warnings: dict[str, None] | None) -> str:
    """Decode the encoded-words of a value and the text around them."""
    pieces: list[str] = []
    run: list[bytes] = []
    run_charset, position = "", -1
    for start, end, charset, word in _encoded_words(value):
        gap = value[max(position, 0) : start]
        # White space between two encoded-words is not shown (RFC 2047 §6.2).
        joins = position >= 0 and (not gap or gap.isspace())
        if run and not (joins and _is_same(charset, run_charset)):
            pieces.append(charsets.to_text(b"".join(run), run_charset, warnings))
            run.clear()
        if not joins:
            pieces.append(_literal(gap, warnings))
        run.append(word)
        run_charset, position = charset, end
    if run:
        pieces.append(charsets.to_text(b"".join(run), run_charset, warnings))
    pieces.append(_literal(value[max(position, 0) :], warnings))
    return "".join(pieces)


def _is_same(charset: str, other: str) -> bool:
    """Return whether two names refer to the same charset, such as "utf8" and "utf-8"."""
    return charset == other or None is not charsets.codec_of(charset) == charsets.codec_of(other)


def _encoded_words(value: str) -> Iterator[tuple[int, int, str, bytes]]:
    """Yield the start, end, lower-case charset and bytes of each encoded-word (RFC 2047 §2)."""
    close = -1
    start = _WORD_START.search(value)
    while start is not None:
        if close < start.end():
            close = value.find("?=", start.end())
        if close < 0:
            return
        following = _WORD_START.search(value, start.end())
        if following is None or following.start() >= close:
            payload = _octets(value[start.end() : close])
            yield start.start(), close + 2, start[1].lower(), _word_octets(payload, start[2])
            following = _WORD_START.search(value, close + 2)
        start = following


def _word_octets(payload: bytes, encoding: str) -> bytes:
    """Decode the B or Q encoding (RFC 2047 §4) of one encoded-word; malformed escapes are kept unchanged."""
    if encoding in "bB":
        return decode_base64(payload)[0]
    return _HEX_OCTET.sub(lambda octet: bytes((int(octet[1], 16),)), payload.replace(b"_", b" "))


def parameters(value: str, warnings: dict[str, None] | None = None) -> tuple[str, dict[str, str]]:
    """Parse a raw ``Content-Type`` or ``Content-Disposition`` value (RFC 2045 §5.1, RFC 2183).

    Returns the value before the first semicolon in lower case, and the parameters by lower-case name. Parameters are
    decoded from any encoding: RFC 2231, encoded-words or raw bytes. If a parameter occurs several times, an RFC 2231
    value takes precedence; otherwise, the first value is used. A missing semicolon is tolerated before the parameters
    that are used here.
    """
    if value.count(";") <= 1 and (plain := _PLAIN_PARAMETER.fullmatch(value)):
        main, name, quoted, token = plain.groups()
        return main.lower(), {name.lower(): token or quoted} if name else {}
    main, pattern = value.partition(";")[0], _PARAMETER
    if value.count("=") > value.rstrip("; ").count(";"):  # a semicolon may be missing
        match = _MAIN.match(value)
        main, pattern = match[0] if match else "", _LOOSE_PARAMETER
    found: dict[str, str] = {}
    pieces: dict[str, list[tuple[int, bool, str]]] = {}
    for match in pattern.finditer(value, len(main)):
        name, quoted, token = match.groups()
        name = name.lower()
        if quoted is not None:
            text = _QUOTED_PAIR.sub(r"\1", quoted) if "\\" in quoted else quoted
        else:
            text = _COMMENT_BEHIND.sub("", token.strip()) if name == "boundary" else token.strip()
        continuation = _CONTINUATION.fullmatch(name) if "*" in name else None
        if continuation is None:
            found.setdefault(name, decode(text, warnings))
        else:
            piece = (int(continuation[2] or 0), bool(continuation[3]), text)
            pieces.setdefault(continuation[1], []).append(piece)
    for name, segments in pieces.items():
        found[name] = _joined(segments, warnings)
    if "(" in main:
        main = _COMMENT.sub(" ", main)
    return main.strip().lower(), found


def _joined(segments: list[tuple[int, bool, str]], warnings: dict[str, None] | None) -> str:
    """Join the numbered pieces of one parameter (RFC 2231 §3 and §4)."""
    segments.sort(key=lambda segment: segment[0])
    charset = ""
    value = bytearray()
    for index, (_, extended, text) in enumerate(segments):
        piece = text
        if index == 0 and extended and text.count("'") >= 2:  # noqa: PLR2004 - charset'language'text
            charset, _, piece = text.split("'", 2)
        value += unquote_to_bytes(_octets(piece)) if extended else _octets(piece)
    if charset:
        return charsets.to_text(bytes(value), charset, warnings).translate(_CONTROLS)
    # Some programs put encoded-words into the extended form.
    return decode(value.decode("ascii", "surrogateescape"), warnings)


def first_mailbox(value: str) -> tuple[str, str]:
    """Return the display name and bare address of the first mailbox in a raw address list (RFC 5322 §3.4).

    Either value is "" when absent. Unquoted commas in a name, missing angle brackets, groups and comments are
    tolerated.
    """
    plain = _PLAIN_MAILBOX.fullmatch(value)
    if plain is not None:
        return " ".join((plain[1] or plain[2] or "").split()), plain[3]
    return next(iter(mailboxes(value)), ("", ""))


def mailboxes(value: str) -> list[tuple[str, str]]:
    """Return the display name and bare address of each mailbox in a raw address list, in order.

    Text after an address is not a name, and an entry without an address, such as ``<mailto:>``, is not a mailbox. If
    the list contains no address, encoded-words are decoded once to find an address (RFC 2047 §5 forbids them there). If
    there is still no address, a name without an address counts as a mailbox.
    """
    found = list(_mailboxes(value))
    with_address = [mailbox for mailbox in found if mailbox[1]]
    if not with_address and "=?" in value:  # some programs put the whole list into encoded-words
        with_address = [mailbox for mailbox in _mailboxes(decode(value)) if mailbox[1]]
    return with_address or [mailbox for mailbox in found if mailbox[0]]


def _mailboxes(value: str) -> Iterator[tuple[str, str]]:
    """Yield the name and address of each mailbox; for the last mailbox, either or both may be ""."""
    phrase: list[tuple[str, str]] = []
    comments: list[str] = []
    member_at, complete = 0, False
    # Unless a semicolon ends the group, a colon is an ordinary character in an unquoted name.
    separators = ",;:" if ";" in value else ","
    for kind, text in _tokens(value):
        if kind == "angle" and text.strip():
            yield _name(phrase, comments), _bare(text)
            phrase, comments, member_at, complete = [], [], 0, True
        elif kind == "comment":
            comments.append(text)
        elif kind == "special" and text in separators:
            if address := _address_in(phrase[member_at:]):
                yield _without_angle(phrase, address, comments)
            if address or complete:
                phrase, comments, complete = [], [], False
            else:
                phrase = _continued(phrase, text)
            member_at = len(phrase)
        elif text not in '"<>':
            phrase.append((kind, text))
    address = _address_in(phrase[member_at:])
    yield _without_angle(phrase, address, comments) if address else (_name(phrase, comments), "")


def _without_angle(phrase: list[tuple[str, str]], address: str, comments: list[str]) -> tuple[str, str]:
    """Return the name and address if there are no angle brackets, for example in Outlook's ``[mailto:a@b.example]``."""
    bracketed = _BRACKETED.fullmatch(address)
    if bracketed is None:
        return _name([], comments), _bare(address)
    before = phrase[: phrase.index(("atom", address))] if ("atom", address) in phrase else []
    return _name(before, comments), _bare(bracketed[1])


def _continued(phrase: list[tuple[str, str]], separator: str) -> list[tuple[str, str]]:
    """Add a comma to an unquoted name; text before any other separator was the name of a group, and is dropped."""
    if separator != ",":
        return [("atom", " ")]
    phrase.append(("atom", ","))
    return phrase


def _address_in(phrase: list[tuple[str, str]]) -> str:
    """Return the first address without spaces, including any quotes around its local part; "" if none is found."""
    run, is_address = "", False
    for kind, text in [*phrase, ("space", " ")]:
        if kind != "space":
            run += f'"{text}"' if kind == "quoted" else text
            is_address = is_address or (kind == "atom" and "@" in text)
        elif is_address:
            return run
        else:
            run = ""
    return ""


def _bare(address: str) -> str:
    """Decode an address and remove the source route (RFC 5322 §4.4), scheme and spaces from it."""
    text = decode(address).strip()
    if '"' not in text:
        text = "".join(text.split())
    route = _ROUTE.match(text)
    return text[route.end() :] if route else text


def _name(phrase: list[tuple[str, str]], comments: list[str]) -> str:
    """Return the display name from a phrase, or else from the first comment."""
    text = "".join(re.sub(r"\\(.)", r"\1", text) if kind == "quoted" else text for kind, text in phrase)
    name = " ".join(decode(text.strip(" ,")).split())
    return name or next((" ".join(decode(comment).split()) for comment in comments), "")


def without_comments(value: str) -> str:
    """Return a raw value with comments (RFC 5322 §3.2.2) replaced by spaces, optionally without quotation marks."""
    if "(" not in value:
        return value
    return "".join([" " if kind == "comment" else text for kind, text in _tokens(value)])


def _tokens(value: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of each token of an address list (RFC 5322 §3.2)."""
    position, enclosing = 0, {'"': _quoted_end, "(": _comment_end}
    while position < len(value):
        character = value[position]
        if character in enclosing:
            end = enclosing[character](value, position)
            if end > 0:
                yield "quoted" if character == '"' else "comment", value[position + 1 : end - 1]
                position = end
                continue
            # The quote or parenthesis is never closed, so treat it as an ordinary character from now on. Searching
            # again would take quadratic time.
            del enclosing[character]
        match = _ADDRESS_TOKEN.match(value, position)
        kind = (match and match.lastgroup) or "special"
        yield kind, match[kind] if match else character
        position = match.end() if match else position + 1


def _quoted_end(value: str, start: int) -> int:
    """Return the end of the quoted string (RFC 5322 §3.2.4) that starts at ``start``, or -1 if it is unterminated."""
    match = _QUOTED_STRING.match(value, start)
    return match.end() if match else -1


def _comment_end(value: str, start: int) -> int:
    """Return the end of the nested comment (RFC 5322 §3.2.2) that starts at ``start``, or -1 if it is unterminated."""
    depth = 0
    for piece in _COMMENT_PIECE.finditer(value, start):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if depth == 0:
            return piece.end()
    return -1
