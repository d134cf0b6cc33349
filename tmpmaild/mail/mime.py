"""Parses a message: its header, its text, its HTML and its attachments, as a person sees them.

``parse`` accepts any input: it never raises, and its time and memory are linear in the size of the message.
"""

import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import chain, islice

from tmpmaild.mail import (
    charsets,
    contentids,
    filenames,
    flowed,
    headers,
    htmlparts,
    htmltext,
    multipart,
    structure,
    transferencoding,
)
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.structure import HTML, PLAIN, Part
from tmpmaild.model import Attachment, ParsedMail, Verbatim

MAX_TEXT_BYTES = 2 * 1024 * 1024  # repairing a text uses up to twenty times its size in memory
MAX_ADDRESS_BYTES = 320
"""The limit for a From address: 64 bytes before the @ and 255 after it (RFC 5321 §4.5.3.1)."""
MAX_INLINE_BYTES = 5 * 1024 * 1024
"""The limit on the total size of the decoded images in a view."""
IMAGE_TYPES = frozenset(f"image/{name}" for name in "png x-png gif jpeg jpg pjpeg webp bmp x-bmp x-ms-bmp avif".split())
"""The image types that a view shows, including unregistered names that are used in mail."""

NO_HEADER = "The message has no header."
UNREADABLE = "The message could not be parsed; only its source is complete."
ONLY_IN_PART = "The HTML is too complex and was read only in part; the source is complete."
TEXT_CUT = "The text is very long and was cut; the source is complete."

_SCAN_STEP_BYTES = 1024 * 1024
_SMALL_BYTES = 8 * 1024
_MAX_COMPARED_PARTS = 4
_MAX_DECODED_IN_DETAIL_BYTES = 512 * 1024
_MAX_STATED, _MAX_CHARSETS = 20, 4
_META_WITHIN_BYTES = 4096

_META_CHARSET = re.compile(
    rb"<meta[^>]{1,200}?charset\s*+=\s*+[\"']?([\w:-]{1,40})|<\?xml[^>]{1,100}?encoding\s*+=\s*+[\"']([\w:-]{1,40})",
    re.IGNORECASE,
)
_VISIBLE = re.compile(rb"[!-~]")
# Matches a character that is neither white space nor invisible according to Unicode.
_VISIBLE_TEXT = re.compile(
    r"[^\s\0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff]"
)
# Matches text directly after a tag outside the head; if there is a match, the HTML has visible text.
_SURELY_VISIBLE_HTML = re.compile(
    r"(?:\A|<(?!head|html|link|meta|script|style|template|title)[a-z][^<>]*+>)\s*+[^<\s&]", re.IGNORECASE
)
_IMAGE = re.compile(r"<(?:img|image|svg|video)\b|background\s*+=|url\(", re.IGNORECASE)

_NAME_PARAMETERS = (("content-disposition", "filename"), ("content-type", "name"))

_WORD = re.compile(r"\w++")
_UTF_8 = ("", "utf-8")

_LIKE_ASCII = (*_UTF_8, "us-ascii", "iso-8859-1", "windows-1252")


def parse(raw: bytes, *, is_checked: bool = False) -> ParsedMail:
    """Parse a message (RFC 5322, RFC 2045 to 2049) for display; never raises.

    ``structure.py`` decides which parts are text, HTML and attachments. Flowed text is joined (RFC 3676); if there is
    only HTML, the text is derived from it. A ``message/rfc822`` is not parsed. ``is_checked`` means that senders are
    verified. In that case, flowed text keeps its lines if a signature covers the body in relaxed form. Such a signature
    remains valid if spaces that join lines are added or removed (RFC 6376 §3.4.4).
    """
    try:
        return _parsed(raw, is_checked=is_checked)
    except Exception:  # noqa: BLE001 - a bug in this module must not lead to the rejection of an intact message
        return ParsedMail("", "", "", "", None, (), (), (UNREADABLE,))


def parts_of(raw: bytes) -> list[Part]:
    """Return the leaves of a message in the order of their numbers, without decoding them."""
    warnings: dict[str, None] = {}
    fields, start = header(raw, warnings)
    return multipart.leaves(raw, fields, start, warnings)


def readable_header(raw: bytes) -> list[tuple[str, str]]:
    """Return a message's header fields as raw values; bytes that are not UTF-8 are decoded with its text's charset."""
    fields, start = header(raw, {})
    if all(value.isascii() for _, value in fields):
        return fields
    tree, parts = multipart.split(raw, fields, headers.first_values(fields), start, {})
    reader = _Reader(raw, parts, {})
    roles = structure.choose(tree, parts, reader.is_visible)
    for part in (*roles.text, *roles.html):
        reader.text(part)
    return reader.in_charset(fields)


def header(raw: bytes, warnings: dict[str, None]) -> tuple[list[tuple[str, str]], int]:
    """Return the fields of a message as raw values, and the start of its body (RFC 5322 §2.1)."""
    found, start = headers.of_mail(raw)
    if not found.fields:
        warnings[NO_HEADER] = None
    return headers.shown(found, warnings), start


def _parsed(raw: bytes, *, is_checked: bool) -> ParsedMail:
    warnings: dict[str, None] = {}
    fields, start = header(raw, warnings)
    first = headers.first_values(fields)
    tree, parts = multipart.split(raw, fields, first, start, warnings)
    if is_checked and flowed.has_relaxed_body(fields):
        flowed.keep_lines(parts, warnings)
    reader = _Reader(raw, parts, warnings)
    roles = structure.choose(tree, parts, reader.is_visible)
    html = reader.html(roles.html) if roles.html else None
    body = reader.body(roles.text)
    if reader.charset and not all(value.isascii() for _, value in fields):
        fields = reader.in_charset(fields)
        first = headers.first_values(fields)
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
    """Return fields with their values as single-line text; in most headers, only tabs in folded lines change."""
    values = "".join([value for _, value in fields])
    if headers.is_plain(values):
        return tuple(fields)
    if "~" not in values and headers.is_plain(values.replace("\t", " ")):  # "~" may start a text in HZ
        return tuple([(name, value.replace("\t", " ")) for name, value in fields])
    return tuple([(name, headers.decode(value, warnings)) for name, value in fields])


class _Reader:
    """Reads each text part of one message once, and remembers the charsets that the parts declare."""

    __slots__ = ("_budget", "_derived", "_parts", "_taken_bytes", "_texts", "charset", "raw", "warnings")

    def __init__(self, raw: bytes, parts: list[Part], warnings: dict[str, None]) -> None:
        self.raw = raw
        self.warnings = warnings
        self.charset = ""
        self._parts = parts
        self._texts: dict[Part, str] = {}
        self._derived: dict[Part, str] = {}  # from HTML
        self._taken_bytes: dict[str, int] = {}  # by type
        self._budget: Budget | None = None  # shared by all HTML parts; most messages need no budget

    def is_visible(self, part: Part) -> bool:
        """Return whether a text contains anything visible."""
        if (
            part.encoding in transferencoding.IDENTITIES
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
        """Return several parts as one HTML text, without plain parts whose text is also in the HTML parts."""
        if len(parts) == 1:
            return self.text(parts[0])
        other_words = self._words_of_type(parts, HTML)
        return htmlparts.joined(
            self.text(part) if part.content_type == HTML else htmlparts.of_text(self._plain(part))
            for part in parts
            if part.content_type == HTML or _words(self._plain(part)) not in other_words
        )

    def body(self, parts: list[Part]) -> str | Verbatim:
        """Return the text of several parts with LF line ends, or its position in the source if it is not encoded.

        HTML parts whose text is also in the plain parts are omitted.
        """
        if len(parts) == 1 and parts[0].content_type == PLAIN:
            part = parts[0]
            # When messages are listed, each source is read up to the end of its body, so megabytes must not precede a
            # short body.
            is_near = len(self.raw) <= 2 * max(part.end - part.start, _SMALL_BYTES)
            return Verbatim(part.start, part.end) if is_near and _is_verbatim(self.raw, part) else self._plain(part)
        texts = [(part, self._shown(part)) for part in parts]
        other_words = self._words_of_type(parts, PLAIN)
        shown = [
            text
            for part, text in texts
            if not other_words or part.content_type == PLAIN or _words(text) not in other_words
        ]
        return shown[0] if len(shown) == 1 else "\n\n".join([text.strip("\n") for text in shown])

    def _words_of_type(self, parts: list[Part], content_type: str) -> str:
        """Return the text of the parts of one type; "" if all parts have that type, or if there are too many parts."""
        same = [part for part in parts if part.content_type == content_type]
        if not len(same) < len(parts) <= _MAX_COMPARED_PARTS:
            return ""
        return _words("\n".join(map(self._shown, same)))

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
        return flowed.unflow(text, part) if flowed.is_flowed(part) else text

    def _text_of_html(self, html: str) -> str:
        if self._budget is None:
            self._budget = Budget.of(len(self.raw))
        text = htmltext.to_text(html, self._budget)
        if self._budget.is_spent:
            self.warnings[ONLY_IN_PART] = None
        return text

    def _decode(self, part: Part) -> str:
        content = transferencoding.content(self.raw, part, self.warnings)
        taken = self._taken_bytes.get(part.content_type, 0)
        room = MAX_TEXT_BYTES - taken
        if len(content) > room:
            self.warnings[TEXT_CUT] = None
            content = content[: content.rfind(b"\n", 0, room) + 1 or room]
        self._taken_bytes[part.content_type] = taken + len(content)
        charset = part.parameters.get("charset", "")
        named: tuple[str, ...] = ()
        if part.content_type == HTML and not content.isascii() and not charsets.is_utf8(content):
            named = _charset_in_html(content)
            charset = charset or "".join(named)
        if charset and not self.charset and charsets.codec_of(charset) not in (None, "utf_8"):
            self.charset = charset
        if taken > _MAX_DECODED_IN_DETAIL_BYTES and charsets.codec_of(charset) in ("euc_jp", "iso2022_jp"):
            return charsets.to_text(content, "", self.warnings)  # a thousand malformed parts would take a long time
        others = () if content.isascii() else chain(named, self._stated())
        return charsets.to_text(content, charset, self.warnings, others)

    def _stated(self) -> Iterator[str]:
        """Yield the first charsets that the message's text parts declare."""
        stated = (part.parameters.get("charset", "") for part in self._parts if part.content_type in (PLAIN, HTML))
        yield from islice(dict.fromkeys(filter(None, islice(stated, _MAX_STATED))), _MAX_CHARSETS)

    def in_charset(self, fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the fields; bytes that are not UTF-8 are decoded with the charset that the text parts declare."""
        return [(name, headers.in_charset(value, self.charset)) for name, value in fields]

    def filename(self, part: Part) -> str:
        """Return a file name; bytes that are not UTF-8 are decoded with the charset that the text parts declare."""
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


def _charset_in_html(html: bytes) -> tuple[str, ...]:
    """Return the charset that HTML itself declares (HTML standard §13.2.3.2), in a ``meta`` element or as XML."""
    # White space may have been added to a signed body, so it is not counted in the position of the element.
    beginning = b" ".join(html.split(maxsplit=_META_WITHIN_BYTES))
    found = _META_CHARSET.search(beginning, 0, _META_WITHIN_BYTES)
    return (found[found.lastindex or 0].decode("ascii", "replace"),) if found else ()


def _is_verbatim(raw: bytes, part: Part) -> bool:
    """Return whether a text needs no decoding, which is the case for nearly all automated messages in English."""
    start, end = part.start, part.end
    if part.encoding not in transferencoding.IDENTITIES or flowed.is_flowed(part) or raw.find(b"\0", start, end) >= 0:
        return False
    # ISO-2022 and HZ texts start in ASCII and switch charsets with escape sequences.
    if raw.find(b"\x1b", start, end) >= 0 or (raw.find(b"~", start, end) >= 0 and raw.find(b"~{", start, end) >= 0):
        return False
    charset = part.parameters.get("charset", "").lower()
    ascii_only = raw.isascii()
    readable = charset in (_LIKE_ASCII if ascii_only else _UTF_8)
    # A lone CR would be a different line end, and a byte order mark is not part of the text.
    plain = not raw.startswith(BOM_UTF8, start) and not _has_lone_cr(raw, start, end)
    return readable and plain and (ascii_only or charsets.is_utf8(raw[start:end]))


def _has_lone_cr(raw: bytes, start: int, end: int) -> bool:
    """Search step by step, because no other thread can acquire the GIL while bytes are counted."""
    for at in range(start, end, _SCAN_STEP_BYTES):
        to = min(at + _SCAN_STEP_BYTES, end)
        step = raw[at:to]
        # Replacing single bytes is faster than counting pairs. The step may have split a line end.
        if step.replace(b"\r", b"").replace(b"\n", b"\r\n") == step:
            continue
        if raw.count(b"\r", at, to) != raw.count(b"\r\n", at, min(to + 1, end)):
            return True
    return False


def _attachments(reader: _Reader, parts: list[Part], html: str) -> tuple[Attachment, ...]:
    referred_to, left_bytes = _referred_to(parts, html), MAX_INLINE_BYTES
    attachments = []
    for index, part in enumerate(parts):
        content = transferencoding.content(reader.raw, part, reader.warnings)
        inline = index in referred_to and len(content) <= left_bytes
        left_bytes -= len(content) if inline else 0
        attachments.append(_attachment(index, part, reader.filename(part), content, inline=inline))
    return tuple(attachments)


def _referred_to(others: list[Part], html: str) -> set[int]:
    """Return the indexes of the images that the HTML refers to by ``cid:`` (RFC 2392), the first for each id.

    Only these images may be omitted from a list of files. Apple Mail marks every image as inline and inserts it between
    two texts without a reference. If such an image were omitted, it would not be visible anywhere.
    """
    first: dict[str, int] = {}
    for index, part in enumerate(others):
        first.setdefault(part.content_id, index)
    first.pop("", None)
    wanted = contentids.referred_to(html) if first else frozenset()
    named = {index for content_id, index in first.items() if content_id in wanted}
    return {one for one in named if others[one].content_type in IMAGE_TYPES and others[one].disposition != "attachment"}


def _attachment(index: int, part: Part, filename: str, content: bytes, *, inline: bool) -> Attachment:
    return Attachment(
        index=index,
        filename=filenames.clean(filename),
        content_type=_cut(part.content_type, filenames.MAX_BYTES),
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        inline=inline,
        content_id=_cut(part.content_id, filenames.MAX_BYTES) or None,
        part=part.number,
    )


def _cut(text: str, max_bytes: int) -> str:
    """Return the longest prefix of a text that fits into ``max_bytes`` of UTF-8."""
    if text.isascii():
        return text[:max_bytes]
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
