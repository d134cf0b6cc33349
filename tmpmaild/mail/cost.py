"""Estimates the cost of parsing a message by a quick scan of its bytes. Cheap messages are parsed in the event loop.

Each cost was measured with messages that contain almost nothing but the measured feature, so estimates tend to be too
high rather than too low.
"""

import re
from codecs import BOM_UTF8

from tmpmaild.mail.transferencoding import decode_quoted_printable

_ALWAYS_CHEAP_BYTES = 512
_CHEAP_BYTES = 32 * 1024
_CHEAP_COSTS = 2000  # in microseconds, like all costs in this module
_LINE_COSTS = 0.4
_HTML_OCTET_COSTS = 0.08
_WIDE_OCTET_COSTS = 0.12
_HEADER_OCTET_COSTS = 0.12
_FIELD_COSTS = 3
_PARAMETER_COSTS = 2
_EXTENDED_PARAMETER_COSTS = 9
_COSTLY_OCTET_COSTS = 4.2  # the cost per byte in From fields and encoded words
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


def is_cheap(raw: bytes) -> bool:
    """Return whether ``parse`` takes at most two milliseconds, according to an estimate that errs on the high side.

    Plain messages are cheap. Base64 and multi-byte characters may contain anything, so they are assumed to be costly.
    """
    if len(raw) <= _ALWAYS_CHEAP_BYTES or len(raw) > _CHEAP_BYTES:
        return len(raw) <= _ALWAYS_CHEAP_BYTES
    message = raw.removeprefix(BOM_UTF8)
    header = b"\n" + message[: message.find(b"\r\n\r\n") + 1 or None].lower()
    content_fields = _content_fields(header)
    has_parts = b"boundary" in content_fields or b"=?" in content_fields
    is_ascii, lines = raw.isascii(), raw.count(b"\n")
    if has_parts:
        blocks = _PART_HEADER.findall(message)
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


def _has_escapes(data: bytes) -> bool:
    """Return whether text may be in ISO-2022 or HZ, even if this is not declared."""
    return b"\x1b" in data or (b"~" in data and b"~{" in data)


def _content_fields(header: bytes) -> bytes:
    """Return the Content-* fields, or all fields if one ends in a semicolon, as a parameter may be on the next line."""
    fields = _fields(header, b"\ncontent-")
    if any(field.rstrip().endswith(b";") for field in fields):
        return header
    return b"".join(fields)


def _content_costs(raw: bytes, fields: bytes) -> float:
    """Return the maximum cost of a message's content, given its ``Content-*`` fields in lower case."""
    costs = 0.0
    if b"quoted-printable" in fields:
        costs += _WIDE_OCTET_COSTS * len(raw)
        raw = decode_quoted_printable(raw)[0]
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
    """Return the maximum cost of headers, which must be in lower case."""
    costs = _HEADER_OCTET_COSTS * len(lower) + _FIELD_COSTS * lower.count(b"\n") + _PARAMETER_COSTS * lower.count(b";")
    if b"*" in lower:
        costs += _EXTENDED_PARAMETER_COSTS * lower.count(b"*=")
    costs += _COSTLY_OCTET_COSTS * sum(map(len, _fields(lower, b"\nfrom")))
    if b"?" in lower and b"=?" in lower:
        costs += _COSTLY_OCTET_COSTS * sum([len(field) for field in _FOLDED_FIELD.findall(lower) if b"=?" in field])
    return costs


def _fields(header: bytes, beginning: bytes) -> list[bytes]:
    """Return the fields that start with ``beginning``, which includes a line end.

    Searching for bytes is faster than matching a pattern.
    """
    found = []
    at = header.find(beginning)
    while at >= 0 and (field := _FOLDED_FIELD.match(header, at)):
        found.append(field[0])
        at = header.find(beginning, field.end())
    return found
