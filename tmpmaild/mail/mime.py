"""From the octets of a mail to what a reader sees of it. Parts are in ``parts.py``, header syntax in ``headers.py``.

``parse`` takes whatever arrives: it never raises, and its time and memory grow with the size of the mail
only. Boundaries are ``parts.py``, header syntax ``headers.py``, charsets ``charsets.py``.
"""

import hashlib
import re
from codecs import BOM_UTF8

from tmpmaild.mail import addresslists, charsets, flowed, headers, htmltext, htmlview, parts
from tmpmaild.mail.htmltokens import Budget
from tmpmaild.mail.parts import Part
from tmpmaild.model import Attachment, ParsedMail, Verbatim

NO_HEADER = "The mail has no header."
UNREADABLE = "The mail could not be understood; only its source is whole."

ONLY_IN_PART = "The HTML is too intricate and was read only in part; the source is whole."
TEXT_CUT = "The text is very long and was cut; the source is whole."

MAX_NAME_BYTES = 255
"""Of a file name, a content id and a media type; all are in every list."""
MAX_ADDRESS_BYTES = 320
"""Of a From address: 64 before the @ and 255 behind it (RFC 5321 §4.5.3.1) are the longest that mail can come from."""

IMAGE_TYPES = frozenset(f"image/{name}" for name in "png x-png gif jpeg jpg pjpeg webp bmp x-bmp x-ms-bmp avif".split())
"""The images that a view of the HTML shows, by what mail calls them, registered or not."""
MAX_INLINE_BYTES = 5 * 1024 * 1024
"""Of the decoded images that a view shows, together."""

_STEP_BYTES = 1024 * 1024
MAX_TEXT_BYTES = 2 * 1024 * 1024  # repairing a text takes up to twenty times its size

_SMALL_BYTES = 8 * 1024
_UTF_8 = ("", "utf-8")
_LIKE_ASCII = (*_UTF_8, "us-ascii", "iso-8859-1", "windows-1252")
_META_CHARSET = re.compile(rb"<meta[^>]{1,200}?charset\s*+=\s*+[\"']?([\w:-]{1,40})", re.IGNORECASE)
_META_WITHIN_BYTES = 4096
# Characters that turn the order of what follows, so that "exe.gpj" reads as "jpg.exe" (Unicode TR 36).
_BIDI = {
    ord(character): None for character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}
_PATH_SEPARATOR = re.compile(r"[/\\]")


def parse(raw: bytes) -> ParsedMail:
    """Read a mail (RFC 5322, RFC 2045 to 2049) for showing it; it never raises.

    The body is the first ``text/plain`` that is no attachment, unflowed (RFC 3676), else the text of the first such
    ``text/html``; every other leaf, a ``message/rfc822`` included, is an attachment.
    """
    try:
        return _parsed(raw)
    except Exception:  # noqa: BLE001 - a mistake in here must not refuse a mail whose source is sound
        return ParsedMail("", "", "", "", None, (), (), (UNREADABLE,))


def attached(raw: bytes) -> list[Part]:
    """Return the parts that ``parse`` lists as attachments, in the same order, without decoding any."""
    warnings: dict[str, None] = {}
    fields, start = header(raw, warnings)
    return _roles(parts.leaves(raw, first_values(fields), start, warnings))[2]


def header(raw: bytes, warnings: dict[str, None]) -> tuple[list[tuple[str, str]], int]:
    """Return the fields of a mail as raw values, and where its body begins (RFC 5322 §2.1)."""
    found, start = headers.of_mail(raw)
    if not found.fields:
        warnings[NO_HEADER] = None
    return headers.shown(found, warnings), start


def first_values(fields: list[tuple[str, str]]) -> dict[str, str]:
    """Return values by lower-case name; of a repeated field the first counts."""
    return {name.lower(): value for name, value in reversed(fields)}


def _parsed(raw: bytes) -> ParsedMail:
    warnings: dict[str, None] = {}
    fields, start = header(raw, warnings)
    first = first_values(fields)
    from_name, from_address = addresslists.first_mailbox(first.get("from", ""))
    body_part, html_part, others = _roles(parts.leaves(raw, first, start, warnings))
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
    if headers.is_plain("".join([value for _, value in fields])):
        return tuple(fields)
    return tuple([(name, headers.decode(value, warnings)) for name, value in fields])


def _roles(parts: list[Part]) -> tuple[Part | None, Part | None, list[Part]]:
    """Choose the parts that are the text and the HTML of the mail; all others are attachments."""
    body = html = None
    for part in parts:
        if part.disposition in ("", "inline"):
            if part.content_type == "text/plain":
                body = body or part
            elif part.content_type == "text/html":
                html = html or part
    return body, html, [part for part in parts if part is not body and part is not html]


def _body(raw: bytes, part: Part | None, html: str | None, warnings: dict[str, None]) -> str | Verbatim:
    """Return the text of the mail with LF line ends, or where it is in the source without encoding."""
    if part is None:
        return _text_of_html(html, warnings) if html else ""
    # Who lists bodies reads the source up to their end: not megabytes of attachments for a line of text.
    if len(raw) <= 2 * max(part.end - part.start, _SMALL_BYTES) and _is_verbatim(raw, part):
        return Verbatim(part.start, part.end)
    text = _text(raw, part, warnings)
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    return flowed.unflow(text, part) if flowed.is_flowed(part) else text


def _text_of_html(html: str, warnings: dict[str, None]) -> str:
    budget = Budget()
    text = htmltext.to_text(html, budget)
    if budget.is_spent:
        warnings[ONLY_IN_PART] = None
    return text


def _is_verbatim(raw: bytes, part: Part) -> bool:
    """Return whether a text needs no decoding; ``True`` for nearly all mail that programs write in English."""
    start, end = part.start, part.end
    if part.encoding not in parts.IDENTITIES or flowed.is_flowed(part) or raw.find(b"\0", start, end) >= 0:
        return False
    charset = part.parameters.get("charset", "").lower()
    ascii_only = raw.isascii()
    readable = charset in (_LIKE_ASCII if ascii_only else _UTF_8)
    # A lone CR would be another line end, a byte order mark no part of the text.
    plain = not raw.startswith(BOM_UTF8, start) and not _has_lone_cr(raw, start, end)
    return readable and plain and (ascii_only or charsets.is_utf8(raw[start:end]))


def _has_lone_cr(raw: bytes, start: int, end: int) -> bool:
    """Look step by step: no other thread gets the GIL while octets are counted."""
    for at in range(start, end, _STEP_BYTES):
        to = min(at + _STEP_BYTES, end)
        step = raw[at:to]
        # Single octets are replaced faster than pairs are counted; a line end may be cut.
        if step.replace(b"\r", b"").replace(b"\n", b"\r\n") == step:
            continue
        if raw.count(b"\r", at, to) != raw.count(b"\r\n", at, min(to + 1, end)):
            return True
    return False


def _text(raw: bytes, part: Part, warnings: dict[str, None]) -> str:
    """Decode a text part in its charset (RFC 2046 §4.1.2)."""
    octets = parts.content(raw, part, warnings)
    if len(octets) > MAX_TEXT_BYTES:
        warnings[TEXT_CUT] = None
        octets = octets[: octets.rfind(b"\n", 0, MAX_TEXT_BYTES) + 1 or MAX_TEXT_BYTES]
    charset = part.parameters.get("charset", "")
    if not charset and part.content_type == "text/html" and not charsets.is_utf8(octets):
        meta = _META_CHARSET.search(octets, 0, _META_WITHIN_BYTES)
        charset = meta[1].decode("ascii", "replace") if meta else ""
    return charsets.to_text(octets, charset, warnings)


def _attachments(raw: bytes, others: list[Part], html: str, warnings: dict[str, None]) -> tuple[Attachment, ...]:
    referred_to, left_bytes = _referred_to(others, html), MAX_INLINE_BYTES
    attachments = []
    for index, part in enumerate(others):
        octets = parts.content(raw, part, warnings)
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


def _cut(text: str, max_bytes: int) -> str:
    """Return as many whole characters as fit into so many octets of UTF-8."""
    if text.isascii():
        return text[:max_bytes]
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def last_component(name: str) -> str:
    """Return what ``clean_filename`` does, whatever its length."""
    text = _PATH_SEPARATOR.split(name)[-1].translate(_BIDI)
    text = "".join([character if character.isprintable() else " " for character in text]).strip()
    return text if text.strip(". ") else ""
