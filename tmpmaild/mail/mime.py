"""From the octets of a mail to what a reader sees of it: its parts, their text and what is attached.

``parse`` takes whatever arrives: it never raises, and its time and memory grow with the size of the mail only. The
syntax of headers is in ``headers.py``, charsets are in ``charsets.py``.
"""

import binascii
import contextlib
import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import chain, islice

from tmpmaild.mail import charsets, headers, htmlparts, htmltext, htmlview, structure
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.structure import HTML, PLAIN, Multipart, Part
from tmpmaild.model import Attachment, ParsedMail, Verbatim

MAX_PARTS = 1000
MAX_DEPTH = 100
MAX_PART_FIELDS = 100
MAX_TEXT_BYTES = 2 * 1024 * 1024  # repairing a text takes up to twenty times its size
MAX_NAME_BYTES = 255
"""Of a file name, a content id and a media type; all are in every list."""
MAX_ADDRESS_BYTES = 320
"""Of a From address: 64 before the @ and 255 behind it (RFC 5321 §4.5.3.1) are the longest that mail can come from."""
MAX_INLINE_BYTES = 5 * 1024 * 1024
"""Of the decoded images that a view shows, together."""
IMAGE_TYPES = frozenset(f"image/{name}" for name in "png x-png gif jpeg jpg pjpeg webp bmp x-bmp x-ms-bmp avif".split())
"""The images that a view of the HTML shows, by what mail calls them, registered or not."""
IDENTITIES = ("", "7bit", "8bit", "binary")
"""The content transfer encodings that leave the octets as they are (RFC 2045 §6.2)."""
_UUENCODED = ("x-uuencode", "uuencode", "x-uue", "uue")

NO_HEADER = "The mail has no header."
UNREADABLE = "The mail could not be understood; only its source is whole."
TOO_MANY_PARTS = "The mail has too many parts; the rest was not looked at."
TOO_DEEP = "The mail is nested too deeply; the innermost parts were not looked at."
NO_BOUNDARY = "A multipart has no boundary and is shown as text."
NO_PARTS = "A multipart has no parts and is shown as text."
NOT_CLOSED = "A multipart does not end with its boundary."
STRANGE_TYPE = "A content type is malformed; what the part is was guessed."
BROKEN_BASE64 = "Some base64 is malformed and was repaired."
BROKEN_QUOTED_PRINTABLE = "Some quoted-printable is malformed and was repaired."
UNKNOWN_ENCODING = "A content transfer encoding is unknown; the content is shown as it is."
ONLY_IN_PART = "The HTML is too intricate and was read only in part; the source is whole."
LINES_KEPT = "The lines of a flowed text were not joined: its signature does not cover the spaces that join them."
TEXT_CUT = "The text is very long and was cut; the source is whole."

# Of a whole mail of nothing but such lines, this many cost 0.1 s.
_MAX_HYPHEN_LINES = 200_000
_STEP_BYTES = 256 * 1024
_SCAN_STEP_BYTES = 1024 * 1024
_SMALL_BYTES = 8 * 1024
_GUESSED_BY_BYTES = 1024
_GUESSED_WITHIN_BYTES = 512 * 1024  # white space may have been added to a signed body
_MAX_TYPES = 5
_MAX_COMPARED_PARTS = 4
_MOST_DECODED_IN_DETAIL_BYTES = 512 * 1024
_MAX_STATED, _MAX_CHARSETS = 20, 4
_MAX_EXTENSION_BYTES = 20
_META_WITHIN_BYTES = 4096
_PREAMBLE_BYTES = 4096

_ALWAYS_CHEAP_BYTES = 512
_CHEAP_BYTES = 32 * 1024
_CHEAP_COSTS = 2000  # in microseconds, as all costs here; they were measured for mail of nothing but what is named
_LINE_COSTS = 0.4
_HTML_OCTET_COSTS = 0.08
_WIDE_OCTET_COSTS = 0.12
_HEADER_OCTET_COSTS = 0.12
_FIELD_COSTS = 3
_PARAMETER_COSTS = 2
_EXTENDED_PARAMETER_COSTS = 9
_COSTLY_OCTET_COSTS = 4.2  # in From fields and encoded words
_PART_COSTS = 25
_TAG_COSTS = 11
_STYLE_COSTS = 9
_RULE_COSTS = 30
_MATCH_COSTS = 0.5
_REFERENCE_COSTS = 1
_FLOWED_LINE_COSTS = 3.2
_HIDDEN_OCTET_COSTS = 1.5
_PART_HEADER = re.compile(rb"\n--[^\n]*+\n(?>(?:(?!\r?\n)[^\n]*+\n?+)*)")
_FOLDED_FIELD = re.compile(rb"\n[^\n]*+(?:\n[ \t][^\n]*+)*")
_STRANGE_CHARSET = re.compile(rb"charset(?!=\"?(?:utf-8|us-ascii|iso-8859-[0-9]+|windows-125[0-9])(?:[\"\s;]|\Z))")

_HYPHEN_LINE = re.compile(rb"\n--([^\n]*)")
# White space at the end of a line may have been added to a signed body (RFC 6376 §3.4.4), and more of it within one.
_HEADER_END = re.compile(rb"\n(?:[ \t]*+\r?\n|(?=--))")
_SPACE = re.compile(rb"[ \t]++")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}", re.IGNORECASE)
_ENCODING = re.compile(r"\s*\"?([a-z0-9-]*)", re.IGNORECASE)
# In one line with the field before it.
_ENCODING_BEHIND = re.compile(r"[\s\";]content-transfer-encoding:\s*+([a-z0-9-]+)", re.IGNORECASE)
_BROKEN_ESCAPE = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*+\r?\n|[ \t\r]*+\Z)")
_UU_BEGIN = re.compile(rb"^begin [0-7]{3,4} [^\n]*+\n", re.MULTILINE)
_SPACE_AFTER_SOFT_BREAK = re.compile(rb"=[ \t]++(?=\r?\n)")
_RELAXED_BODY = re.compile(r"/\s*+relaxed", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta[^>]{1,200}?charset\s*+=\s*+[\"']?([\w:-]{1,40})|<\?xml[^>]{1,100}?encoding\s*+=\s*+[\"']([\w:-]{1,40})",
    re.IGNORECASE,
)
_VISIBLE = re.compile(rb"[!-~]")
# Neither white space nor what Unicode shows nothing for.
_VISIBLE_TEXT = re.compile(
    r"[^\s\0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff]"
)
# Text right behind a tag that is none of a head's: enough to see that most HTML says something.
_SURELY_VISIBLE_HTML = re.compile(
    r"(?:\A|<(?!head|html|link|meta|script|style|template|title)[a-z][^<>]*+>)\s*+[^<\s&]", re.IGNORECASE
)
_IMAGE = re.compile(r"<(?:img|image|svg|video)\b|background\s*+=|url\(", re.IGNORECASE)
_NAME_PARAMETERS = (("content-disposition", "filename"), ("content-type", "name"))
_WORD = re.compile(r"\w++")
_PATH_SEPARATOR = re.compile(r"[/\\]")

_UTF_8 = ("", "utf-8")
_LIKE_ASCII = (*_UTF_8, "us-ascii", "iso-8859-1", "windows-1252")
# Characters that turn the order of what follows, so that "exe.gpj" reads as "jpg.exe" (Unicode TR 36).
_BIDI = {
    ord(character): None for character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}
_SIGNATURE = "-- "
_MARKS = (" ", ">")


def parse(raw: bytes, *, is_checked: bool = False) -> ParsedMail:
    """Read a mail (RFC 5322, RFC 2045 to 2049) for showing it; it never raises.

    Which parts are text, HTML and attachments is decided in ``structure.py``; flowed text is unflowed (RFC 3676), and
    the text of HTML alone is derived from it. A ``message/rfc822`` is not entered.
    With ``is_checked``, where senders are, a body that a signature covers in its relaxed form keeps the lines of flowed
    texts: the space that joins two of them is what anyone may add or take (RFC 6376 §3.4.4).
    """
    try:
        return _parsed(raw, is_checked=is_checked)
    except Exception:  # noqa: BLE001 - a mistake in here must not refuse a mail whose source is sound
        return ParsedMail("", "", "", "", None, (), (), (UNREADABLE,))


def is_cheap(raw: bytes) -> bool:
    """Return whether ``parse`` takes two milliseconds at most, by an estimate that is too high rather than too low.

    Plain mail is cheap. Where content is in base64, or a character is more than one octet, anything may be in it.
    """
    if len(raw) <= _ALWAYS_CHEAP_BYTES or len(raw) > _CHEAP_BYTES:
        return len(raw) <= _ALWAYS_CHEAP_BYTES
    octets = raw.removeprefix(BOM_UTF8)
    header = b"\n" + octets[: octets.find(b"\r\n\r\n") + 1 or None].lower()
    content_fields = _content_fields(header)
    has_parts = b"boundary" in content_fields or b"=?" in content_fields
    is_ascii, lines = raw.isascii(), raw.count(b"\n")
    if has_parts:
        blocks = _PART_HEADER.findall(octets)
        header += b"".join(blocks).lower() if is_ascii else b"".join(blocks).replace(BOM_UTF8, b"").lower()
        content_fields = _content_fields(header)
    costs = _LINE_COSTS * lines + _content_costs(raw, content_fields) + (not is_ascii) * _WIDE_OCTET_COSTS * len(raw)
    if costs > _CHEAP_COSTS:
        return False
    if _has_escapes(raw):
        costs += _HIDDEN_OCTET_COSTS * len(raw)
    if has_parts:
        costs += _PART_COSTS * raw.count(b"\n--")
    return costs + _header_costs(header) <= _CHEAP_COSTS


def _has_escapes(octets: bytes) -> bool:
    """Return whether text may be in ISO-2022 or HZ, declared or not."""
    return b"\x1b" in octets or (b"~" in octets and b"~{" in octets)


def _content_fields(header: bytes) -> bytes:
    """Return the fields about content, or all if one ends in a semicolon: a parameter may be in the line behind it."""
    fields = _fields(header, b"\ncontent-")
    if any(field.rstrip().endswith(b";") for field in fields):
        return header
    return b"".join(fields)


def _content_costs(raw: bytes, fields: bytes) -> float:
    """Return what the content of a mail may cost that has these fields about content, in lower case."""
    costs = 0.0
    if b"quoted-printable" in fields:
        costs += _WIDE_OCTET_COSTS * len(raw)
        raw = b"".join(_quoted_printable_steps(raw, {}))
        if _has_escapes(raw):
            costs += _HIDDEN_OCTET_COSTS * len(raw)
    if b"html" in fields:
        tags, rules, styles = raw.count(b"<"), raw.count(b"{"), raw.lower().count(b"style")
        costs += _HTML_OCTET_COSTS * len(raw) + _REFERENCE_COSTS * raw.count(b"&")
        costs += _TAG_COSTS * tags + _STYLE_COSTS * styles + _RULE_COSTS * rules + _MATCH_COSTS * tags * rules
    if b"flowed" in fields:
        costs += _FLOWED_LINE_COSTS * raw.count(b"\n")
    if b"base64" in fields or b"uue" in fields or b"=?" in fields or _STRANGE_CHARSET.search(fields):
        costs += _HIDDEN_OCTET_COSTS * len(raw)
    return costs


def _header_costs(lower: bytes) -> float:
    """Return what headers may cost, in lower case."""
    costs = _HEADER_OCTET_COSTS * len(lower) + _FIELD_COSTS * lower.count(b"\n") + _PARAMETER_COSTS * lower.count(b";")
    if b"*" in lower:
        costs += _EXTENDED_PARAMETER_COSTS * lower.count(b"*=")
    costs += _COSTLY_OCTET_COSTS * sum(map(len, _fields(lower, b"\nfrom")))
    if b"?" in lower and b"=?" in lower:
        costs += _COSTLY_OCTET_COSTS * sum([len(field) for field in _FOLDED_FIELD.findall(lower) if b"=?" in field])
    return costs


def _fields(header: bytes, beginning: bytes) -> list[bytes]:
    """Return the fields that begin so, a line end included; searching for octets is faster than for a pattern."""
    found = []
    at = header.find(beginning)
    while at >= 0 and (field := _FOLDED_FIELD.match(header, at)):
        found.append(field[0])
        at = header.find(beginning, field.end())
    return found


def parts_of(raw: bytes) -> list[Part]:
    """Return the leaves of a message by number, without decoding any."""
    warnings: dict[str, None] = {}
    fields, start = header(raw, warnings)
    return leaves(raw, fields, start, warnings)


def readable_header(raw: bytes) -> list[tuple[str, str]]:
    """Return the fields of a message as raw values, as ``parse`` reads them: octets in the charset of its text."""
    fields, start = header(raw, {})
    if all(value.isascii() for _, value in fields):
        return fields
    tree, parts = _structure(raw, fields, first_values(fields), start, {})
    reader = _Reader(raw, parts, {})
    roles = structure.choose(tree, parts, reader.says)
    for part in (*roles.text, *roles.html):
        reader.text(part)
    return reader.in_charset(fields)


def header(raw: bytes, warnings: dict[str, None]) -> tuple[list[tuple[str, str]], int]:
    """Return the fields of a mail as raw values, and where its body begins (RFC 5322 §2.1)."""
    found, start = headers.of_mail(raw)
    if not found.fields:
        warnings[NO_HEADER] = None
    return headers.shown(found, warnings), start


def first_values(fields: list[tuple[str, str]]) -> dict[str, str]:
    """Return values by lower-case name; of a repeated field the first counts."""
    found: dict[str, str] = {}
    for name, value in fields:
        found.setdefault(name.lower(), value)
    return found


def _parsed(raw: bytes, *, is_checked: bool) -> ParsedMail:
    warnings: dict[str, None] = {}
    fields, start = header(raw, warnings)
    first = first_values(fields)
    tree, parts = _structure(raw, fields, first, start, warnings)
    if is_checked and _has_relaxed_body(fields):
        _keep_lines(parts, warnings)
    reader = _Reader(raw, parts, warnings)
    roles = structure.choose(tree, parts, reader.says)
    html = reader.html(roles.html) if roles.html else None
    body = reader.body(roles.text)
    if reader.charset and not all(value.isascii() for _, value in fields):
        fields = reader.in_charset(fields)
        first = first_values(fields)
    from_name, from_address = headers.first_mailbox(first.get("from", ""))
    return ParsedMail(
        _cut(from_address, MAX_ADDRESS_BYTES),
        from_name,
        headers.decode(first.get("subject", "")).strip(),
        body,
        html,
        _attachments(reader, roles.attached, html or "") if roles.attached else (),
        _decoded(fields, warnings),
        tuple(warnings),
    )


def _decoded(fields: list[tuple[str, str]], warnings: dict[str, None]) -> tuple[tuple[str, str], ...]:
    if headers.is_plain("".join([value for _, value in fields])):
        return tuple(fields)
    return tuple([(name, headers.decode(value, warnings)) for name, value in fields])


class _Reader:
    """Reads the texts of one message, each once, and knows the charset that they state."""

    __slots__ = ("_budget", "_derived", "_parts", "_taken_bytes", "_texts", "charset", "raw", "warnings")

    def __init__(self, raw: bytes, parts: list[Part], warnings: dict[str, None]) -> None:
        self.raw = raw
        self.warnings = warnings
        self.charset = ""
        self._parts = parts
        self._texts: dict[Part, str] = {}
        self._derived: dict[Part, str] = {}  # from HTML
        self._taken_bytes: dict[str, int] = {}  # by type
        self._budget: Budget | None = None  # of all HTML together; most mail needs none

    def says(self, part: Part) -> bool:
        """Return whether a text has anything that a reader would see."""
        if (
            part.encoding in IDENTITIES
            and part.content_type == PLAIN
            and _VISIBLE.search(self.raw, part.start, part.end)
        ):
            return True
        text = self.text(part)
        if part.content_type == PLAIN:
            return _VISIBLE_TEXT.search(text) is not None
        return _SURELY_VISIBLE_HTML.search(text) is not None or bool(_IMAGE.search(text) or self._shown(part))

    def text(self, part: Part) -> str:
        """Decode a text in its charset (RFC 2046 §4.1.2)."""
        text = self._texts.get(part)
        if text is None:
            text = self._texts[part] = self._decode(part)
        return text

    def html(self, parts: list[Part]) -> str:
        """Return some parts as one HTML text; plain ones are left out whose text the others have already."""
        if len(parts) == 1:
            return self.text(parts[0])
        told = self._told(parts, HTML)
        return htmlparts.joined(
            self.text(part) if part.content_type == HTML else htmlparts.of_text(self._plain(part))
            for part in parts
            if part.content_type == HTML or _words(self._plain(part)) not in told
        )

    def body(self, parts: list[Part]) -> str | Verbatim:
        """Return the text of some parts with LF line ends, or where it is in the source without encoding.

        HTML is left out whose text the plain parts have already.
        """
        if len(parts) == 1 and parts[0].content_type == PLAIN:
            part = parts[0]
            # Who lists bodies reads the source up to their end: not megabytes of attachments for a line of text.
            is_near = len(self.raw) <= 2 * max(part.end - part.start, _SMALL_BYTES)
            return Verbatim(part.start, part.end) if is_near and _is_verbatim(self.raw, part) else self._plain(part)
        texts = [(part, self._shown(part)) for part in parts]
        told = self._told(parts, PLAIN)
        shown = [text for part, text in texts if not told or part.content_type == PLAIN or _words(text) not in told]
        return shown[0] if len(shown) == 1 else "\n\n".join([text.strip("\n") for text in shown])

    def _told(self, parts: list[Part], content_type: str) -> str:
        """Return the words of the parts of a type if they are not all; "" of more than a few."""
        such = [part for part in parts if part.content_type == content_type]
        if not len(such) < len(parts) <= _MAX_COMPARED_PARTS:
            return ""
        return _words("\n".join(map(self._shown, such)))

    def _shown(self, part: Part) -> str:
        if part.content_type == PLAIN:
            return self._plain(part)
        text = self._derived.get(part)
        if text is None:
            text = self._derived[part] = self._text_of_html(self.text(part))
        return text

    def _plain(self, part: Part) -> str:
        text = self.text(part)
        text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
        return unflow(text, part) if is_flowed(part) else text

    def _text_of_html(self, html: str) -> str:
        if self._budget is None:
            self._budget = Budget.of(len(self.raw))
        text = htmltext.to_text(html, self._budget)
        if self._budget.is_spent:
            self.warnings[ONLY_IN_PART] = None
        return text

    def _decode(self, part: Part) -> str:
        octets = content(self.raw, part, self.warnings)
        taken = self._taken_bytes.get(part.content_type, 0)
        room = MAX_TEXT_BYTES - taken
        if len(octets) > room:
            self.warnings[TEXT_CUT] = None
            octets = octets[: octets.rfind(b"\n", 0, room) + 1 or room]
        self._taken_bytes[part.content_type] = taken + len(octets)
        charset = part.parameters.get("charset", "")
        named: tuple[str, ...] = ()
        if part.content_type == HTML and not octets.isascii() and not charsets.is_utf8(octets):
            named = _charset_in_html(octets)
            charset = charset or "".join(named)
        if charset and not self.charset and charsets.codec_of(charset) not in (None, "utf_8"):
            self.charset = charset
        if taken > _MOST_DECODED_IN_DETAIL_BYTES and charsets.codec_of(charset) in ("euc_jp", "iso2022_jp"):
            return charsets.to_text(octets, "", self.warnings)  # a thousand broken texts would take long
        others = () if octets.isascii() else chain(named, self._stated())
        return charsets.to_text(octets, charset, self.warnings, others)

    def _stated(self) -> Iterator[str]:
        """Yield the first few charsets that texts of the message state."""
        stated = (part.parameters.get("charset", "") for part in self._parts if part.content_type in (PLAIN, HTML))
        yield from islice(dict.fromkeys(filter(None, islice(stated, _MAX_STATED))), _MAX_CHARSETS)

    def in_charset(self, fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the fields with octets that are not UTF-8 read in the charset that the texts state."""
        return [(name, headers.in_charset(value, self.charset)) for name, value in fields]

    def filename(self, part: Part) -> str:
        """Return the name of a file, its octets in the charset that the texts state."""
        if not self.charset or all(part.stated.get(field, "").isascii() for field, _ in _NAME_PARAMETERS):
            return part.filename
        for field, parameter in _NAME_PARAMETERS:
            value = part.stated.get(field, "")
            name = headers.parameters(headers.in_charset(value, self.charset))[1].get(parameter, "") if value else ""
            if name:
                return name
        return ""


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text))} "


def _charset_in_html(octets: bytes) -> tuple[str, ...]:
    """Return the charset that HTML itself names (HTML standard §13.2.3.2), in a ``meta`` or as XML."""
    # More white space may have been added to a signed body: where the element stands is counted without it.
    beginning = b" ".join(octets.split(maxsplit=_META_WITHIN_BYTES))
    found = _META_CHARSET.search(beginning, 0, _META_WITHIN_BYTES)
    return (found[found.lastindex or 0].decode("ascii", "replace"),) if found else ()


def _is_verbatim(raw: bytes, part: Part) -> bool:
    """Return whether a text needs no decoding; ``True`` for nearly all mail that programs write in English."""
    start, end = part.start, part.end
    if part.encoding not in IDENTITIES or is_flowed(part) or raw.find(b"\0", start, end) >= 0:
        return False
    # ISO-2022 and HZ escape from ASCII.
    if raw.find(b"\x1b", start, end) >= 0 or raw.find(b"~{", start, end) >= 0:
        return False
    charset = part.parameters.get("charset", "").lower()
    ascii_only = raw.isascii()
    readable = charset in (_LIKE_ASCII if ascii_only else _UTF_8)
    # A lone CR would be another line end, a byte order mark no part of the text.
    plain = not raw.startswith(BOM_UTF8, start) and not _has_lone_cr(raw, start, end)
    return readable and plain and (ascii_only or charsets.is_utf8(raw[start:end]))


def _has_lone_cr(raw: bytes, start: int, end: int) -> bool:
    """Look step by step: no other thread gets the GIL while octets are counted."""
    for at in range(start, end, _SCAN_STEP_BYTES):
        to = min(at + _SCAN_STEP_BYTES, end)
        step = raw[at:to]
        # Single octets are replaced faster than pairs are counted; a line end may be cut.
        if step.replace(b"\r", b"").replace(b"\n", b"\r\n") == step:
            continue
        if raw.count(b"\r", at, to) != raw.count(b"\r\n", at, min(to + 1, end)):
            return True
    return False


def _attachments(reader: _Reader, parts: list[Part], html: str) -> tuple[Attachment, ...]:
    referred_to, left_bytes = _referred_to(parts, html), MAX_INLINE_BYTES
    attachments = []
    for index, part in enumerate(parts):
        octets = content(reader.raw, part, reader.warnings)
        inline = index in referred_to and len(octets) <= left_bytes
        left_bytes -= len(octets) if inline else 0
        attachments.append(_attachment(index, part, reader.filename(part), octets, inline=inline))
    return tuple(attachments)


def _referred_to(others: list[Part], html: str) -> set[int]:
    """Return the indexes of the images that the HTML refers to by ``cid:`` (RFC 2392); of one id the first counts.

    Only these may be left out of a list of files: Apple Mail calls every image inline and puts it between two texts,
    without a reference, so a reader would not see it anywhere.
    """
    first: dict[str, int] = {}
    for index, part in enumerate(others):
        first.setdefault(part.content_id, index)
    first.pop("", None)
    wanted = htmlview.content_ids(html) if first else frozenset()
    named = {index for content_id, index in first.items() if content_id in wanted}
    return {one for one in named if others[one].content_type in IMAGE_TYPES and others[one].disposition != "attachment"}


def _attachment(index: int, part: Part, filename: str, octets: bytes, *, inline: bool) -> Attachment:
    return Attachment(
        index=index,
        filename=clean_filename(filename),
        content_type=_cut(part.content_type, MAX_NAME_BYTES),
        size_bytes=len(octets),
        sha256=hashlib.sha256(octets).hexdigest(),
        inline=inline,
        content_id=_cut(part.content_id, MAX_NAME_BYTES) or None,
        part=part.number,
    )


def clean_filename(name: str) -> str:
    """Return the last path component of a stated name, safe to show and to save under; "" for none.

    It has no control characters and no bidirectional overrides, and at most 255 octets of UTF-8: of a longer name the
    stem is cut and runs of spaces become one, so that its last extension tells what it is.
    """
    text = last_component(name)
    return text if len(text.encode("utf-8", "replace")) <= MAX_NAME_BYTES else shortened(text, MAX_NAME_BYTES)


def shortened(name: str, max_bytes: int) -> str:
    """Return a file name with single spaces, its stem cut so that it has at most so many octets of UTF-8.

    The last extension stays, since it tells what the file is, unless it is too long to be one.
    """
    octets = " ".join(name.split()).encode("utf-8", "replace")
    if len(octets) <= max_bytes:
        return octets.decode()
    _, dot, extension = octets.rpartition(b".")
    kept = dot + extension if len(extension) < _MAX_EXTENSION_BYTES else b""
    return octets[: max_bytes - len(kept)].decode("utf-8", "ignore").rstrip(". ") + kept.decode()


def last_component(name: str) -> str:
    """Return what ``clean_filename`` does, whatever its length."""
    text = _PATH_SEPARATOR.split(name)[-1].translate(_BIDI)
    text = "".join([character if character.isprintable() else " " for character in text]).strip()
    return text if text.strip(". ") else ""


def _cut(text: str, max_bytes: int) -> str:
    """Return as many whole characters as fit into so many octets of UTF-8."""
    if text.isascii():
        return text[:max_bytes]
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def leaves(raw: bytes, fields: list[tuple[str, str]], start: int, warnings: dict[str, None]) -> list[Part]:
    """Return the parts of a mail that are not ``multipart``, in order; ``message/rfc822`` is not entered.

    ``fields`` are those of the mail's header as raw values, ``start`` is where its body begins.
    """
    return _structure(raw, fields, first_values(fields), start, warnings)[1]


def _structure(
    raw: bytes, fields: list[tuple[str, str]], stated: dict[str, str], start: int, warnings: dict[str, None]
) -> tuple[Part | Multipart, list[Part]]:
    """Return the parts of a mail as a tree, and its leaves in order; ``stated`` are the first values of its fields."""
    if len(stated) < len(fields) and "content-type" in stated:
        types = [value for name, value in fields if name.lower() == "content-type"]
        stated = {**stated, "content-type": _usable(raw, types[:_MAX_TYPES])}
    part = _described(raw, start, stated, PLAIN, warnings)
    part.end = len(raw)
    if not part.content_type.startswith("multipart/"):
        return part, [part]
    if "boundary" not in part.parameters:
        warnings[NO_BOUNDARY] = None
        part = Part(start=start, end=len(raw))
        return part, [part]
    return _Splitter(raw, warnings).split(part)


def _usable(raw: bytes, types: list[str]) -> str:
    """Return the content type that counts of several: the first multipart whose boundary comes, else the first other.

    Without either it is the first.
    """
    others = []
    for stated in types:
        media_type, parameters = headers.parameters(stated)
        if not _MEDIA_TYPE.match(media_type):
            continue
        if not media_type.startswith("multipart/"):
            others.append(stated)
        elif (boundary := parameters.get("boundary")) and f"\n--{boundary}".encode("utf-8", "replace") in raw:
            return stated
    return next(iter(others), types[0])


def _described(raw: bytes, start: int, stated: dict[str, str], default_type: str, warnings: dict[str, None]) -> Part:
    """Read the fields that say what a part is (RFC 2045, RFC 2183); its body begins at ``start``."""
    part = Part(content_type=default_type, start=start, stated=stated)
    media_type = ""
    if value := stated.get("content-type"):
        media_type, part.parameters = headers.parameters(value, warnings)
        if "=?" in media_type:
            media_type, part.parameters = headers.parameters(headers.decode(value), warnings)
        part.content_type = _media_type(media_type)
        part.filename = part.parameters.get("name", "")
    if value := stated.get("content-disposition"):
        part.disposition, parameters = headers.parameters(value, warnings)
        if "=?" in part.disposition:
            part.disposition, parameters = headers.parameters(headers.decode(value), warnings)
        part.filename = parameters.get("filename", "") or part.filename
    if value := stated.get("content-transfer-encoding"):
        match = _ENCODING.match(value)
        part.encoding = match[1].lower() if match else ""
    elif match := _ENCODING_BEHIND.search(stated.get("content-type", "")):
        part.encoding = match[1].lower()
    if value := stated.get("content-id"):
        part.content_id = headers.decode(value, warnings).strip("<> ")
    if not part.content_type:
        part.content_type = PLAIN if media_type == "text" else _guessed_type(raw, part)
        if media_type != "text":
            warnings[STRANGE_TYPE] = None
    return part


def _media_type(stated: str) -> str:
    """Return a media type that is one, "" for anything else."""
    if stated in (PLAIN, HTML):
        return stated
    match = _MEDIA_TYPE.match(stated)
    return match[0] if match else ""


def _guessed_type(raw: bytes, part: Part) -> str:
    """Return what a part with a malformed media type is: plain text (RFC 2045 §5.2), unless it is clearly not."""
    if "boundary" in part.parameters:
        return "multipart/mixed"
    if part.filename or "binary" in (part.encoding, part.parameters.get("charset", "").lower()):
        return "application/octet-stream"
    beginning = raw[part.start : part.start + _GUESSED_WITHIN_BYTES].translate(None, b" \t\r\n")[:_GUESSED_BY_BYTES]
    if part.encoding == "base64" and b"\0" in headers.base64_octets(beginning)[0]:
        return "application/octet-stream"
    return PLAIN


def content(raw: bytes, part: Part, warnings: dict[str, None]) -> bytes:
    """Undo the content transfer encoding of a part (RFC 2045 §6), repairing what is broken."""
    if part.encoding == "base64":
        octets, sound = headers.base64_octets(memoryview(raw)[part.start : part.end])
        if not sound:
            warnings[BROKEN_BASE64] = None
        return octets
    data = raw[part.start : part.end]
    if part.encoding in IDENTITIES:
        return data
    if part.encoding == "quoted-printable":
        return b"".join(_quoted_printable_steps(data, warnings))
    if part.encoding in _UUENCODED and (begin := _UU_BEGIN.search(data)):
        octets = b"".join(_uudecoded_lines(data[begin.end() :]))
        if octets:
            return octets
    warnings[UNKNOWN_ENCODING] = None
    return data


def _uudecoded_lines(data: bytes) -> Iterator[bytes]:
    """Decode the lines of uuencode (POSIX) up to the one that ends it; the first character of each is its length."""
    for lines in _line_steps(data):
        for line in lines.splitlines():
            if line.rstrip() == b"end":
                return
            length = (line[0] - ord(" ")) & 63 if line else 0
            with contextlib.suppress(binascii.Error):  # spaces at its end may be missing, or more may follow
                yield binascii.a2b_uu(line[: 1 + (length + 2) // 3 * 4])


def _quoted_printable_steps(data: bytes, warnings: dict[str, None]) -> Iterator[bytes]:
    for lines in _line_steps(data):
        if _BROKEN_ESCAPE.search(lines):
            warnings[BROKEN_QUOTED_PRINTABLE] = None
        yield binascii.a2b_qp(_SPACE_AFTER_SOFT_BREAK.sub(b"=", lines))


def _line_steps(data: bytes) -> Iterator[bytes]:
    """Yield whole lines step by step: no other thread gets the GIL during a step."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _STEP_BYTES) + 1 or len(data)
        yield data[start:end]
        start = end


class _Splitter:
    """One pass over a multipart mail: the containers that are open, and the leaf that is being read."""

    def __init__(self, raw: bytes, warnings: dict[str, None]) -> None:
        self._raw = raw
        self._warnings = warnings
        self._open: list[Multipart] = []
        self._depth_of: dict[bytes, int] = {}
        self._leaf: Part | None = None
        self._leaves: list[Part] = []
        self._begun = 0

    def split(self, top: Part) -> tuple[Multipart | Part, list[Part]]:
        """Return the multipart ``top`` as a tree, and all leaves below it."""
        tree = self._enter(top) or top
        # A body may begin with a delimiter; the line break before it is then the header's.
        position = max(top.start - 1, 0)
        for _ in range(_MAX_HYPHEN_LINES):
            line = _HYPHEN_LINE.search(self._raw, position) if self._open else None
            if line is None:
                break
            position = self._take(line)
        else:
            self._stop(TOO_MANY_PARTS)
        self._finish()
        for number, leaf in enumerate(self._leaves):
            leaf.number = number
        return tree, self._leaves

    def _take(self, line: re.Match[bytes]) -> int:
        """Act on one line of two hyphens; return where to look on."""
        depth, closing = self._delimited(_one_spaced(line[1].rstrip(b" \t\r")))
        if depth < 0:
            return line.end()
        self._close(depth + 1, line.start())
        if closing:
            self._close(depth, line.start())
        elif self._begun >= MAX_PARTS:
            self._stop(TOO_MANY_PARTS)
        else:
            return self._begin(min(line.end() + 1, len(self._raw)), self._open[depth])
        return line.end()

    def _delimited(self, text: bytes) -> tuple[int, bool]:
        """Return which container a line delimits (-1: none), and whether it closes it (RFC 2046 §5.1.1)."""
        depth = self._depth_of.get(text, -1)
        if depth < 0 and text.endswith(b"--"):
            return self._depth_of.get(text[:-2], -1), True
        return depth, False

    def _begin(self, start: int, container: Multipart) -> int:
        """Read the header of a part that starts here; return where to look for the next delimiter."""
        self._begun += 1
        end = _HEADER_END.search(self._raw, start - 1)
        block = self._raw[start : end.start() + 1 if end else len(self._raw)]
        found = headers.cut(block, MAX_PART_FIELDS)
        values = first_values(headers.shown(found, self._warnings))
        body_at = end.end() if end and found.end == len(block) else start + found.end
        part = _described(self._raw, body_at, values, container.part_type, self._warnings)
        if not (part.content_type.startswith("multipart/") and self._enter(part)):
            self._leaf = part
            container.children.append(part)
        return part.start - 1

    def _enter(self, part: Part) -> Multipart | None:
        """Open a multipart; one that cannot be opened becomes a leaf."""
        boundary = _one_spaced(part.parameters.get("boundary", "").rstrip().encode("utf-8", "replace"))
        # Apostrophes may be a boundary's own (RFC 2046 §5.1.1), but for some programs they are quotes.
        if boundary[:1] == b"'" == boundary[-1:]:
            begun = self._raw[max(part.start - 1, 0) : part.start + _PREAMBLE_BYTES]
            boundary = boundary if b"\n--" + boundary in begun else boundary.strip(b"'")
        if not boundary or len(self._open) >= MAX_DEPTH:
            self._warnings[TOO_DEEP if boundary else NO_BOUNDARY] = None
            if not boundary:
                part.content_type = PLAIN
            return None
        multipart = Multipart(part.content_type.partition("/")[2], boundary, part.start, content_id=part.content_id)
        multipart.root = part.parameters.get("start", "").strip("<> ")
        if multipart.subtype == "digest":  # RFC 2046 §5.1.5: the type that need not be said is another one
            multipart.part_type = "message/rfc822"
        if self._open:
            self._open[-1].children.append(multipart)
        self._open.append(multipart)
        self._depth_of[boundary] = len(self._open) - 1
        return multipart

    def _close(self, depth: int, line_start: int) -> None:
        """End the leaf and all containers from ``depth`` on.

        The line break before a delimiter belongs to it (RFC 2046 §5.1.1).
        """
        end = line_start - 1 if self._raw[line_start - 1 : line_start] == b"\r" else line_start
        if self._leaf is not None:
            self._leaf.end = max(end, self._leaf.start)
            self._leaves.append(self._leaf)
            self._leaf = None
        if len(self._open) <= depth:
            return
        for multipart in reversed(self._open[depth:]):
            if not multipart.children:
                self._warnings[NO_PARTS] = None
                leaf = Part(start=multipart.start, end=max(end, multipart.start))
                multipart.children.append(leaf)
                self._leaves.append(leaf)
        del self._open[depth:]
        self._depth_of = {multipart.boundary: at for at, multipart in enumerate(self._open)}

    def _stop(self, sentence: str) -> None:
        """Look no further."""
        self._warnings[sentence] = None
        self._open.clear()

    def _finish(self) -> None:
        """End what the end of the mail ends."""
        if any(multipart.children for multipart in self._open):
            self._warnings[NOT_CLOSED] = None
        self._close(0, len(self._raw))


def _one_spaced(boundary: bytes) -> bytes:
    return _SPACE.sub(b" ", boundary) if b" " in boundary or b"\t" in boundary else boundary


def _has_relaxed_body(fields: list[tuple[str, str]]) -> bool:
    """Return whether a signature states ``c=…/relaxed`` (RFC 6376 §3.5)."""
    return any(name.lower() == "dkim-signature" and _RELAXED_BODY.search(value) for name, value in fields)


def _keep_lines(parts: list[Part], warnings: dict[str, None]) -> None:
    """Leave flowed texts as they are."""
    for part in parts:
        if is_flowed(part):
            del part.parameters["format"]
            warnings[LINES_KEPT] = None


def is_flowed(part: Part) -> bool:
    """Return whether the lines of a part are to be put together (RFC 3676 §4)."""
    stated = part.parameters.get("format")
    return stated is not None and part.content_type == PLAIN and stated.strip().lower() == "flowed"


def unflow(text: str, part: Part) -> str:
    """Return the text of a flowed part with a line for each paragraph; line ends are LF.

    Quoted lines begin with one ``>`` for each level and a space. A soft break joins lines of one level only, and no
    line with the separator of a signature or with an empty one, which some senders take for the end of a paragraph.
    """
    deletes_space = part.parameters.get("delsp", "").strip().lower() == "yes"
    shown: list[str] = []
    begun: list[str] = []  # the lines of a paragraph whose last one ended with a soft break
    level = 0
    for line in text.split("\n"):
        if not begun and line[:1] not in _MARKS and line[-1:] != " ":
            shown.append(line)
            continue
        depth, content = _unquoted(line)
        if begun and (depth != level or content in ("", _SIGNATURE)):
            shown.append(_quoted(level, begun))
            begun = []
        level = depth
        if content.endswith(" ") and content != _SIGNATURE:
            begun.append(content[:-1] if deletes_space else content)
        else:
            shown.append(_quoted(level, [*begun, content]))
            begun = []
    return "\n".join([*shown, _quoted(level, begun)] if begun else shown)


def _unquoted(line: str) -> tuple[int, str]:
    """Return the quote depth of a line, and its content without the space that was stuffed (RFC 3676 §4.4, §4.5)."""
    content = line.lstrip(">")
    return len(line) - len(content), content.removeprefix(" ")


def _quoted(level: int, lines: list[str]) -> str:
    content = "".join(lines)
    return f"{'>' * level} {content}" if level and content else ">" * level + content
