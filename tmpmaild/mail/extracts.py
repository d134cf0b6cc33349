"""Extracts details, attachments and images from a stored raw source, on request.

``mime.py`` determines which parts are attachments, as it does at delivery, so the results agree.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from tmpmaild.mail import headers, mime, transferencoding
from tmpmaild.mail.structure import Part
from tmpmaild.model import Attachment, HeaderDetails, Person

MAX_MAILBOXES = 100
MAX_MESSAGE_ID_CHARACTERS = 998

_MS = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
_LEAP_SECOND = 60
_MAX_DATE_CHARACTERS = 200

# For dates of at most 200 characters, in which each run of white space has been replaced by one space.
_DAY = r"[0-9]{1,2}"
_NAME = r"[a-z]{3,9}"
_CLOCK = (
    r"(?P<hour>[0-9]{1,2})[:.](?P<minute>[0-9]{2})(?:[:.](?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]++))?)?"
    r"(?: ?(?P<half>[ap]m\b))?(?: ?(?P<zone>[a-z]{1,5}\b))?"
)
_OFFSET = r"(?: ?(?P<sign>[+-])(?P<offset_hours>[0-9]{1,2})(?::?(?P<offset_minutes>[0-9]{2}))?(?![0-9]))?"
_WHEN = _CLOCK + _OFFSET
_DATES = [
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        # Sat, 21 Nov 2026 03:00:57 +0100 (RFC 5322 §3.3), and common variants.
        rf"(?:[a-z]{{1,9}}+[., ]++)?(?P<day>{_DAY})[ -]?(?P<month>{_NAME})[ .,-]*+(?P<year>[0-9]{{2,4}})[ ,]++{_WHEN}",
        # Sat Nov 21 03:00:57 CET 2026, the format of the C library.
        rf"[a-z]{{1,9}}+[, ]++(?P<month>{_NAME}) (?P<day>{_DAY})[, ]++{_CLOCK} (?P<year>[0-9]{{4}})(?![0-9:]){_OFFSET}",
        # Sat Nov 21 2026 03:00:57 GMT+0100, the format of JavaScript.
        rf"(?:[a-z]{{1,9}}+[., ]++)?(?P<month>{_NAME}) (?P<day>{_DAY})[, ]++(?P<year>[0-9]{{4}})[, ]++{_WHEN}",
        # 2026-11-21T03:00:57+01:00 (ISO 8601).
        rf"(?P<year>[0-9]{{4}})-(?P<month>[0-9]{{2}})-(?P<day>{_DAY})[t ]{_WHEN}",
    )
]
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTHS = {text: month for month, name in enumerate(_MONTH_NAMES, 1) for text in (name, f"{month:02}")}
# RFC 5322 §4.3: all other names, including military zones, mean that the zone is unknown.
_ZONE_HOURS = {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}

_ANGLE = re.compile(r"<([^<>]+)")
_NO_MESSAGE_ID = re.compile(r"[\0- <>\x7f]+")
_IMAGE_BEGINNINGS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/webp": re.compile(rb"RIFF.{4}WEBPVP8[ LX]", re.DOTALL),
    # Text may also start with these two letters, so the reserved zeros and a valid header size are required too.
    "image/bmp": re.compile(rb"BM.{4}\0{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0", re.DOTALL),
    # The brand, or one of the compatible brands.
    "image/avif": re.compile(rb"\0\0\0.ftyp(?:.{4}){0,16}?avi[fs]", re.DOTALL),
}


def details(head: bytes) -> HeaderDetails:
    """Return the details of a header, except the sender and the subject; never raises.

    ``head`` is the start of the source, including at least its header. Repeated Cc and Reply-To fields are combined, up
    to ``MAX_MAILBOXES`` each; for every other field, only the first occurrence is used.
    """
    fields = mime.readable_header(head)
    first = headers.first_values(fields)
    return HeaderDetails(
        cc=_mailboxes(fields, "cc"),
        reply_to=_mailboxes(fields, "reply-to"),
        date_ms=_date_ms(first.get("date", "")),
        message_id=_message_id(first.get("message-id", "")),
    )


def attachment(raw: bytes, listed: Attachment) -> bytes | None:
    """Return the decoded content of an attachment that was listed at delivery; None if the message does not contain it.

    This is the part with the stored number, or else the first part with the same content. Version 1.0 stored no numbers
    and did not decode uuencode, and later versions may split a malformed message differently. Call this in a thread if
    the message is large.
    """
    parts = mime.parts_of(raw)
    first = parts[listed.part : listed.part + 1] if listed.part >= 0 else []
    for part in (*first, *parts):
        for content in (transferencoding.content(raw, part, {}), raw[part.start : part.end]):
            if len(content) == listed.size_bytes and hashlib.sha256(content).hexdigest() == listed.sha256:
                return content
    return None


def images(raw: bytes, content_ids: Collection[str], up_to_bytes: int) -> dict[str, str]:
    """Return ``data:`` URLs (RFC 2397) of the images that the HTML refers to, by the text after ``cid:``.

    A content id is looked up as written, otherwise after percent-decoding (RFC 2392 §2); if several parts have the same
    id, the first part is used. Images are included in message order as long as their decoded sizes add up to at most
    ``up_to_bytes``; an image that does not fit is skipped. If an id has several spellings, they share one URL, and the
    image counts only once.

    Only raster image types that every browser shows are included. The type in the URL is detected from the bytes, not
    copied from the message. SVG images are not included, because they are documents. An SVG image can run scripts and
    load other files when opened separately, and can be designed to take minutes to render.
    """
    by_id: dict[str, Part] = {}
    for part in mime.parts_of(raw):
        by_id.setdefault(part.content_id, part)
    by_id.pop("", None)
    spellings: dict[str, list[str]] = {}
    for written in content_ids:
        spellings.setdefault(written if written in by_id else unquote(written), []).append(written)
    urls: dict[str, str] = {}
    for content_id, part in by_id.items():
        if content_id in spellings and part.content_type in mime.IMAGE_TYPES:
            content = transferencoding.content(raw, part, {})
            if len(content) <= up_to_bytes and (recognised := image_type(content)):
                up_to_bytes -= len(content)
                url = f"data:{recognised};base64,{b64encode(content).decode('ascii')}"
                urls.update(dict.fromkeys(spellings[content_id], url))
    return urls


def image_type(content: bytes) -> str:
    """Return the media type of bytes that start like a supported image, or ""."""
    return next((name for name, beginning in _IMAGE_BEGINNINGS.items() if beginning.match(content)), "")


def _mailboxes(fields: list[tuple[str, str]], wanted: str) -> tuple[Person, ...]:
    """Parse the address lists of all fields with a given name."""
    found: list[tuple[str, str]] = []
    for name, value in fields:
        if name.lower() == wanted and len(found) < MAX_MAILBOXES:
            found += headers.mailboxes(value)
    return tuple([Person(address, name) for name, address in found[:MAX_MAILBOXES]])


def _message_id(value: str) -> str:
    """Parse an identification field (RFC 5322 §3.6.4); remove brackets, spaces and control characters."""
    angle = _ANGLE.search(value)
    text = headers.decode(_NO_MESSAGE_ID.sub("", angle[1] if angle else value))
    printable = "".join([character for character in text if character.isprintable()])
    return _NO_MESSAGE_ID.sub("", printable)[:MAX_MESSAGE_ID_CHARACTERS]


def _date_ms(value: str) -> int | None:
    """Parse a date (RFC 5322 §3.3 and §4.3, ISO 8601); None if it is malformed or not between 1970 and 9999."""
    spaced = " ".join(value.split())[:_MAX_DATE_CHARACTERS]
    text = " ".join(headers.without_comments(spaced).split())
    match = next(filter(None, (date.match(text) for date in _DATES)), None)
    try:
        return _time_ms(match.groupdict("")) if match else None
    except ValueError:
        return None


def _time_ms(pieces: dict[str, str]) -> int | None:
    """Convert the pieces of a date to Unix milliseconds. Raises ``ValueError`` for a date that does not exist."""
    month = _MONTHS.get(pieces["month"][:3].lower(), 0)
    hour, minute, second = (int(pieces[name] or 0) for name in ("hour", "minute", "second"))
    if half := pieces["half"].lower():
        hour = hour % 12 + 12 * (half == "pm")
    start = datetime(_year(pieces["year"]), month, int(pieces["day"]), hour, minute, tzinfo=UTC)
    # datetime is not used here, because it supports neither leap seconds nor times that the zone shifts before year 1
    # or after year 9999.
    thousandths = int(pieces["fraction"][:3].ljust(3, "0"))
    time_ms = (start - _EPOCH) // _MS + (second - 60 * _offset_minutes(pieces)) * 1000 + thousandths
    return time_ms if second <= _LEAP_SECOND and 0 <= time_ms <= _LAST_MS else None


def _year(text: str) -> int:
    """Return the full year for a year of two to four digits (RFC 5322 §4.3)."""
    return int(text) + {2: 2000 if text < "50" else 1900, 3: 1900, 4: 0}[len(text)]


def _offset_minutes(pieces: dict[str, str]) -> int:
    """Return a zone's offset from UTC in minutes; a numeric offset takes precedence over a zone name."""
    if not pieces["sign"]:
        return 60 * _ZONE_HOURS.get(pieces["zone"].lower(), 0)
    minutes = 60 * int(pieces["offset_hours"]) + int(pieces["offset_minutes"] or 0)
    return -minutes if pieces["sign"] == "-" else minutes
