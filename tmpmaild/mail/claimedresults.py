"""Renames the fields ``Authentication-Results`` that a message brings in our name (RFC 8601 §5), also those of ARC.

A reader of the source may be more lenient than the RFC. Python takes a lone CR for the end of a line; Java trims every
control character around a name, and takes U+017F for "s"; others decode encoded words or drop comments. So nothing
here follows their rules. A field stays as it is only if it plainly names another host, by the strict grammar.
"""

import re
from collections.abc import Iterator

_NAME = "authentication-results"
_MOST_JUNK_BYTES = 1024
# What is not printable ASCII may be trimmed, skipped, or stand for the "i" and "s" that some languages fold to it.
_JUNK = rb"[^!-~]*+"
_LETTERS = {name: [re.escape(one).encode() + b"?" * (one in "is") for one in name] for name in ("arc-", _NAME)}
_CLAIM = re.compile(
    rb"(%b)?%b" % (_JUNK.join([*_LETTERS["arc-"], b""]), _JUNK.join([*_LETTERS[_NAME], b":"])), re.IGNORECASE
)
_NOT_PRINTABLE = bytes([*range(0x21), *range(0x7F, 0x100)])
# As Python's ``splitlines`` has them, in UTF-8 and in ISO-8859-1.
_LINE_END = re.compile(rb"[\r\n\v\f\x1c-\x1e\x85]|\xe2\x80[\xa8\xa9]")
_SPACE = rb"(?>(?:[ \t]|\r\n[ \t])*)"
_VERSION = rb"(?>(?:[0-9]{1,9}+)?)"
# Before the host in the field of ARC (RFC 8617 §4.1.1).
_INSTANCE = re.compile(_SPACE + rb"i" + _SPACE + rb"=" + _SPACE + rb"[0-9]{1,9}+" + _SPACE + rb";", re.IGNORECASE)
_PLAIN_HOST = re.compile(_SPACE + rb"([A-Za-z0-9._-]{1,255}+)" + _SPACE + _VERSION + _SPACE + rb";")


def without_ours(raw: bytes, hostname: str) -> bytes:
    """Return a message in which no reader finds a field ``Authentication-Results`` of this host, or that of ARC.

    A field that may be read as one gets ``X-Claimed-`` before its name. Takes long for the event loop.
    """
    end = 0 if raw.startswith(b"\r\n") else raw.find(b"\r\n\r\n")
    header = raw if end < 0 else raw[:end]
    pieces, position = [], 0
    for start in _claims(header, hostname.lower().encode()):
        pieces += [raw[position:start], b"X-Claimed-"]
        position = start
    return b"".join([*pieces, raw[position:]]) if pieces else raw


def _claims(header: bytes, hostname: bytes) -> Iterator[int]:
    """Yield where the name of each field starts that may be read as one of this host."""
    for field in _CLAIM.finditer(header):
        instance = _INSTANCE.match(header, field.end()) if field[1] else None
        host = _PLAIN_HOST.match(header, instance.end() if instance else field.end())
        is_anothers = host is not None and not host[1].lower().startswith(hostname)
        if not is_anothers and _may_start_line(header, field.start()):
            yield field.start()


def _may_start_line(header: bytes, at: int) -> bool:
    """Return whether any reader may see a line start here, one that does not continue the line before."""
    before = header[max(at - _MOST_JUNK_BYTES, 0) : at]
    junk = before[len(before.rstrip(_NOT_PRINTABLE)) :]
    if len(junk) == _MOST_JUNK_BYTES:
        return True
    if len(junk) == at:  # it reaches back to the start, before which is a line of ours
        junk = b"\r\n" + junk
    _, is_after_line, indent = junk.rpartition(b"\r\n")
    is_fold = bool(is_after_line and indent) and not indent.strip(b" \t")
    return not is_fold and _LINE_END.search(junk) is not None
