"""From the octets of a mail to what a reader sees of it: its parts, their text and what is attached.

``parse`` takes whatever arrives: it never raises, and its time and memory grow with the size of the mail only. The
syntax of headers is in ``headers.py``, charsets are in ``charsets.py``.
"""

import binascii
import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from tmpmaild.mail import charsets, headers, htmltext, htmlview
from tmpmaild.mail.htmltokens import Budget
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

NO_HEADER = "The mail has no header."
UNREADABLE = "The mail could not be understood; only its source is whole."
TOO_MANY_PARTS = "The mail has too many parts; the rest was not looked at."
TOO_DEEP = "The mail is nested too deeply; the innermost parts were not looked at."
NO_BOUNDARY = "A multipart has no boundary and is shown as text."
NO_PARTS = "A multipart has no parts and is shown as text."
NOT_CLOSED = "A multipart does not end with its boundary."
STRANGE_TYPE = "A content type is malformed and was read as text/plain."
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
_META_WITHIN_BYTES = 4096

_ALWAYS_CHEAP_BYTES = 512
_CHEAP_BYTES = 32 * 1024
_CHEAP_COSTS = 1000  # in microseconds, as all costs here; they were measured for mail of nothing but what is named
_LINE_COSTS = 0.4
_HTML_OCTET_COSTS = 0.08
_WIDE_OCTET_COSTS = 0.12
_HEADER_OCTET_COSTS = 0.12
_FIELD_COSTS = 3
_PARAMETER_COSTS = 2
_EXTENDED_PARAMETER_COSTS = 9
_COSTLY_OCTET_COSTS = 2.5  # in From fields and encoded words
_PART_COSTS = 25
_TAG_COSTS = 6
_RULE_COSTS = 30
_MATCH_COSTS = 0.5
_REFERENCE_COSTS = 1
_FLOWED_LINE_COSTS = 1.5
_HIDDEN_OCTET_COSTS = 1.5
_FOLDED_FIELD = re.compile(rb"\n[^\n]*+(?:\n[ \t][^\n]*+)*")
_FROM_FIELD = re.compile(rb"\nfrom[^\n]*+(?:\n[ \t][^\n]*+)*")
_STRANGE_CHARSET = re.compile(rb"charset(?!=\"?(?:utf-8|us-ascii|iso-8859-[0-9]+|windows-125[0-9])(?:[\"\s;]|\Z))")

_HYPHEN_LINE = re.compile(rb"\n--([^\n]*)")
# White space at the end of a line may have been added to a signed body (RFC 6376 §3.4.4), and more of it within one.
_HEADER_END = re.compile(rb"\n(?:[ \t]*+\r?\n|(?=--))")
_SPACE = re.compile(rb"[ \t]++")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}", re.IGNORECASE)
_ENCODING = re.compile(r"\s*\"?([a-z0-9-]*)", re.IGNORECASE)
_BROKEN_ESCAPE = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*+\r?\n|[ \t\r]*+\Z)")
_SPACE_AFTER_SOFT_BREAK = re.compile(rb"=[ \t]++(?=\r?\n)")
_META_CHARSET = re.compile(rb"<meta[^>]{1,200}?charset\s*+=\s*+[\"']?([\w:-]{1,40})", re.IGNORECASE)
_RELAXED_BODY = re.compile(r"/\s*+relaxed", re.IGNORECASE)
_PATH_SEPARATOR = re.compile(r"[/\\]")

_UTF_8 = ("", "utf-8")
_LIKE_ASCII = (*_UTF_8, "us-ascii", "iso-8859-1", "windows-1252")
# Characters that turn the order of what follows, so that "exe.gpj" reads as "jpg.exe" (Unicode TR 36).
_BIDI = {
    ord(character): None for character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}
_SIGNATURE = "-- "
_MARKS = (" ", ">")


@dataclass(slots=True)
class Part:
    """One entity (RFC 2045 §2.4): what its header says, and where in the mail its body stands.

    Names and types are in lower case; ``content_id`` has no angle brackets and is "" when absent.
    """

    content_type: str = "text/plain"
    parameters: dict[str, str] = field(default_factory=dict)
    disposition: str = ""
    filename: str = ""
    encoding: str = ""
    content_id: str = ""
    start: int = 0
    end: int = 0


def parse(raw: bytes, *, is_checked: bool = False) -> ParsedMail:
    """Read a mail (RFC 5322, RFC 2045 to 2049) for showing it; it never raises.

    The body is the first ``text/plain`` that is no attachment, unflowed (RFC 3676), else the text of the first such
    ``text/html``; every other leaf, a ``message/rfc822`` included, is an attachment.
    With ``is_checked``, where senders are, a body that a signature covers in its relaxed form keeps the lines of flowed
    texts: the space that joins two of them is what anyone may add or take (RFC 6376 §3.4.4).
    """
    try:
        return _parsed(raw, is_checked=is_checked)
    except Exception:  # noqa: BLE001 - a mistake in here must not refuse a mail whose source is sound
        return ParsedMail("", "", "", "", None, (), (), (UNREADABLE,))


def is_cheap(raw: bytes) -> bool:
    """Return whether ``parse`` takes about a millisecond at most, by an estimate that is too high rather than too low.

    Plain mail is cheap. Where content is encoded, or a character is more than one octet, anything may be in it.
    """
    if len(raw) <= _ALWAYS_CHEAP_BYTES or len(raw) > _CHEAP_BYTES:
        return len(raw) <= _ALWAYS_CHEAP_BYTES
    lower = b"\n" + raw.lower()
    header = lower[: lower.find(b"\r\n\r\n") + 1] or lower
    parts = lower.count(b"\n--") if b"multipart" in header else 0
    # Only with parts there are more headers than that of the mail.
    costs = _PART_COSTS * parts + _header_costs(lower if parts else header)
    costs += _LINE_COSTS * lower.count(b"\n") + (0 if raw.isascii() else _WIDE_OCTET_COSTS * len(raw))
    if b"content-" in header:
        costs += _content_costs(lower, lower if parts else header)
    return costs <= _CHEAP_COSTS


def _header_costs(lower: bytes) -> float:
    """Return what headers may cost, in lower case."""
    costs = _HEADER_OCTET_COSTS * len(lower) + _FIELD_COSTS * lower.count(b"\n") + _PARAMETER_COSTS * lower.count(b";")
    costs += _COSTLY_OCTET_COSTS * sum(map(len, _FROM_FIELD.findall(lower)))
    costs += _EXTENDED_PARAMETER_COSTS * lower.count(b"*=")
    if b"=?" in lower:
        costs += _COSTLY_OCTET_COSTS * sum([len(field) for field in _FOLDED_FIELD.findall(lower) if b"=?" in field])
    return costs


def _content_costs(lower: bytes, headers: bytes) -> float:
    """Return what the content of a mail may cost that has these headers, all in lower case."""
    costs = 0.0
    if b"html" in headers:
        tags, rules = lower.count(b"<"), lower.count(b"{")
        costs += _HTML_OCTET_COSTS * len(lower) + _REFERENCE_COSTS * lower.count(b"&")
        costs += _TAG_COSTS * tags + _RULE_COSTS * rules + _MATCH_COSTS * tags * rules
    if b"flowed" in headers:
        costs += _FLOWED_LINE_COSTS * lower.count(b"\n")
    is_encoded = b"base64" in headers or b"quoted-printable" in headers or b"uuencode" in headers
    if is_encoded or _STRANGE_CHARSET.search(headers):
        costs += _HIDDEN_OCTET_COSTS * len(lower)
    return costs


def attached(raw: bytes) -> list[Part]:
    """Return the parts that ``parse`` lists as attachments, in the same order, without decoding any."""
    warnings: dict[str, None] = {}
    fields, start = header(raw, warnings)
    return _roles(leaves(raw, first_values(fields), start, warnings))[2]


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
    from_name, from_address = headers.first_mailbox(first.get("from", ""))
    parts = leaves(raw, first, start, warnings)
    if is_checked and _has_relaxed_body(fields):
        _keep_lines(parts, warnings)
    body_part, html_part, others = _roles(parts)
    html = _text(raw, html_part, warnings) if html_part else None
    return ParsedMail(
        _cut(from_address, MAX_ADDRESS_BYTES),
        from_name,
        headers.decode(first.get("subject", "")),
        _body(raw, body_part, html, warnings),
        html,
        _attachments(raw, others, html or "", warnings) if others else (),
        _decoded(fields, warnings),
        tuple(warnings),
    )


def _decoded(fields: list[tuple[str, str]], warnings: dict[str, None]) -> tuple[tuple[str, str], ...]:
    if headers.is_plain("".join(map(itemgetter(1), fields))):
        return tuple(fields)
    return tuple([(name, headers.decode(value, warnings)) for name, value in fields])


def _roles(parts: list[Part]) -> tuple[Part | None, Part | None, list[Part]]:
    """Choose the parts that are the text and the HTML of the mail; all others are attachments."""
    body = html = None
    others: list[Part] = []
    for part in parts:
        is_shown = part.disposition in ("", "inline")
        if is_shown and body is None and part.content_type == "text/plain":
            body = part
        elif is_shown and html is None and part.content_type == "text/html":
            html = part
        else:
            others.append(part)
    return body, html, others


def _body(raw: bytes, part: Part | None, html: str | None, warnings: dict[str, None]) -> str | Verbatim:
    """Return the text of the mail with LF line ends, or where it is in the source without encoding."""
    if part is None:
        return _text_of_html(html, warnings) if html else ""
    # Who lists bodies reads the source up to their end: not megabytes of attachments for a line of text.
    if len(raw) <= 2 * max(part.end - part.start, _SMALL_BYTES) and _is_verbatim(raw, part):
        return Verbatim(part.start, part.end)
    text = _text(raw, part, warnings)
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    return unflow(text, part) if is_flowed(part) else text


def _text_of_html(html: str, warnings: dict[str, None]) -> str:
    budget = Budget.of(len(html))
    text = htmltext.to_text(html, budget)
    if budget.is_spent:
        warnings[ONLY_IN_PART] = None
    return text


def _is_verbatim(raw: bytes, part: Part) -> bool:
    """Return whether a text needs no decoding; ``True`` for nearly all mail that programs write in English."""
    start, end = part.start, part.end
    if part.encoding not in IDENTITIES or is_flowed(part) or raw.find(b"\0", start, end) >= 0:
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


def _text(raw: bytes, part: Part, warnings: dict[str, None]) -> str:
    """Decode a text part in its charset (RFC 2046 §4.1.2)."""
    octets = content(raw, part, warnings)
    if len(octets) > MAX_TEXT_BYTES:
        warnings[TEXT_CUT] = None
        octets = octets[: octets.rfind(b"\n", 0, MAX_TEXT_BYTES) + 1 or MAX_TEXT_BYTES]
    charset = part.parameters.get("charset", "")
    if not charset and part.content_type == "text/html" and not charsets.is_utf8(octets):
        # More white space may have been added to a signed body: where the element stands is counted without it.
        beginning = b" ".join(octets.split(maxsplit=_META_WITHIN_BYTES))
        meta = _META_CHARSET.search(beginning, 0, _META_WITHIN_BYTES)
        charset = meta[1].decode("ascii", "replace") if meta else ""
    return charsets.to_text(octets, charset, warnings)


def _attachments(raw: bytes, others: list[Part], html: str, warnings: dict[str, None]) -> tuple[Attachment, ...]:
    referred_to, left_bytes = _referred_to(others, html), MAX_INLINE_BYTES
    attachments = []
    for index, part in enumerate(others):
        octets = content(raw, part, warnings)
        inline = index in referred_to and len(octets) <= left_bytes
        left_bytes -= len(octets) if inline else 0
        attachments.append(_attachment(index, part, octets, inline=inline))
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


def _attachment(index: int, part: Part, octets: bytes, *, inline: bool) -> Attachment:
    return Attachment(
        index=index,
        filename=clean_filename(part.filename),
        content_type=_cut(part.content_type, MAX_NAME_BYTES),
        size_bytes=len(octets),
        sha256=hashlib.sha256(octets).hexdigest(),
        inline=inline,
        content_id=_cut(part.content_id, MAX_NAME_BYTES) or None,
    )


def clean_filename(name: str) -> str:
    """Return the last path component of a stated name, safe to show and to save under; "" for none.

    It has no control characters and no bidirectional overrides, and at most 255 octets of UTF-8.
    """
    return _cut(last_component(name), MAX_NAME_BYTES)


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


def leaves(raw: bytes, fields: dict[str, str], start: int, warnings: dict[str, None]) -> list[Part]:
    """Return the parts of a mail that are not ``multipart``, in order; ``message/rfc822`` is not entered.

    ``fields`` are the raw values of the mail's header by lower-case name, ``start`` is where its body
    begins.
    """
    part = _described(fields, "text/plain", warnings)
    part.start, part.end = start, len(raw)
    if not part.content_type.startswith("multipart/"):
        return [part]
    if "boundary" not in part.parameters:
        warnings[NO_BOUNDARY] = None
        return [Part(start=start, end=len(raw))]
    return _Splitter(raw, warnings).split(part)


def _described(fields: dict[str, str], default_type: str, warnings: dict[str, None]) -> Part:
    """Read the fields that say what a part is (RFC 2045, RFC 2183)."""
    part = Part(content_type=default_type)
    if stated := fields.get("content-type"):
        media_type, part.parameters = headers.parameters(stated, warnings)
        part.content_type = _media_type(media_type, warnings)
        part.filename = part.parameters.get("name", "")
    if stated := fields.get("content-disposition"):
        part.disposition, parameters = headers.parameters(stated, warnings)
        part.filename = parameters.get("filename", "") or part.filename
    if stated := fields.get("content-transfer-encoding"):
        match = _ENCODING.match(stated)
        part.encoding = match[1].lower() if match else ""
    if stated := fields.get("content-id"):
        part.content_id = headers.decode(stated, warnings).strip("<> ")
    return part


def _media_type(stated: str, warnings: dict[str, None]) -> str:
    """Return a media type that is one; anything else is plain text (RFC 2045 §5.2)."""
    match = _MEDIA_TYPE.match(stated)
    if match is None:
        if stated != "text":
            warnings[STRANGE_TYPE] = None
        return "text/plain"
    return match[0]


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
    warnings[UNKNOWN_ENCODING] = None
    return data


def _quoted_printable_steps(data: bytes, warnings: dict[str, None]) -> Iterator[bytes]:
    """Decode whole lines step by step: no other thread gets the GIL during a step."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _STEP_BYTES) + 1 or len(data)
        lines = data[start:end]
        if _BROKEN_ESCAPE.search(lines):
            warnings[BROKEN_QUOTED_PRINTABLE] = None
        yield binascii.a2b_qp(_SPACE_AFTER_SOFT_BREAK.sub(b"=", lines))
        start = end


@dataclass(slots=True)
class _Container:
    """A multipart whose closing delimiter has not come yet."""

    boundary: bytes
    part_type: str
    start: int
    empty: bool = True


class _Splitter:
    """One pass over a multipart mail: the containers that are open, and the leaf that is being read."""

    def __init__(self, raw: bytes, warnings: dict[str, None]) -> None:
        self._raw = raw
        self._warnings = warnings
        self._open: list[_Container] = []
        self._depth_of: dict[bytes, int] = {}
        self._leaf: Part | None = None
        self._leaves: list[Part] = []
        self._begun = 0

    def split(self, top: Part) -> list[Part]:
        """Find all leaves below the multipart ``top``."""
        self._enter(top)
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
        return self._leaves

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

    def _begin(self, start: int, container: _Container) -> int:
        """Read the header of a part that starts here; return where to look for the next delimiter."""
        self._begun += 1
        container.empty = False
        end = _HEADER_END.search(self._raw, start - 1)
        block = self._raw[start : end.start() + 1 if end else len(self._raw)]
        found = headers.cut(block, MAX_PART_FIELDS)
        values = first_values(headers.shown(found, self._warnings))
        part = _described(values, container.part_type, self._warnings)
        part.start = end.end() if end and found.end == len(block) else start + found.end
        if not (part.content_type.startswith("multipart/") and self._enter(part)):
            self._leaf = part
        return part.start - 1

    def _enter(self, part: Part) -> bool:
        """Open a multipart; one that cannot be opened becomes a leaf."""
        boundary = _one_spaced(part.parameters.get("boundary", "").rstrip().encode("utf-8", "replace"))
        if boundary and len(self._open) < MAX_DEPTH:
            # RFC 2046 §5.1.5: within a digest the type that need not be said is another one.
            part_type = "message/rfc822" if part.content_type == "multipart/digest" else "text/plain"
            self._open.append(_Container(boundary, part_type, part.start))
            self._depth_of[boundary] = len(self._open) - 1
            return True
        self._warnings[TOO_DEEP if boundary else NO_BOUNDARY] = None
        if not boundary:
            part.content_type = "text/plain"
        return False

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
        for container in reversed(self._open[depth:]):
            if container.empty:
                self._warnings[NO_PARTS] = None
                self._leaves.append(Part(start=container.start, end=max(end, container.start)))
        del self._open[depth:]
        self._depth_of = {container.boundary: at for at, container in enumerate(self._open)}

    def _stop(self, sentence: str) -> None:
        """Look no further."""
        self._warnings[sentence] = None
        self._open.clear()

    def _finish(self) -> None:
        """End what the end of the mail ends."""
        if any(not container.empty for container in self._open):
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
    return part.content_type == "text/plain" and part.parameters.get("format", "").strip().lower() == "flowed"


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
