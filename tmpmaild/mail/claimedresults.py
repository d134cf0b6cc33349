"""Renames ``Authentication-Results`` fields that claim to be ours (RFC 8601 §5), and their ARC equivalents.

A program that reads the source may be more lenient than the RFC. Python treats a lone CR as the end of a line. Java
trims every control character around a name, and treats U+017F as "s". Other programs decode encoded-words or drop
comments. Instead of imitating their rules, this module leaves a field unchanged only if it clearly specifies a
different host according to the strict grammar.
"""

import re
from collections.abc import Iterator

_NAME = "authentication-results"
_MAX_JUNK_BYTES = 1024
# A byte outside printable ASCII may be trimmed or skipped, or may be read as the "i" or "s" that it folds to.
_JUNK = rb"[^!-~]*+"
_LETTERS = {name: [re.escape(one).encode() + b"?" * (one in "is") for one in name] for name in ("arc-", _NAME)}
_CLAIM = re.compile(
    rb"(%b)?%b" % (_JUNK.join([*_LETTERS["arc-"], b""]), _JUNK.join([*_LETTERS[_NAME], b":"])), re.IGNORECASE
)
_NOT_PRINTABLE = bytes([*range(0x21), *range(0x7F, 0x100)])
# The line boundaries of Python's ``splitlines``, in UTF-8 and in ISO-8859-1.
_LINE_END = re.compile(rb"[\r\n\v\f\x1c-\x1e\x85]|\xe2\x80[\xa8\xa9]")
_SPACE = rb"(?>(?:[ \t]|\r\n[ \t])*)"
_VERSION = rb"(?>(?:[0-9]{1,9}+)?)"
# Precedes the host in ARC-Authentication-Results (RFC 8617 §4.1.1).
_INSTANCE = re.compile(_SPACE + rb"i" + _SPACE + rb"=" + _SPACE + rb"[0-9]{1,9}+" + _SPACE + rb";", re.IGNORECASE)
_PLAIN_HOST = re.compile(_SPACE + rb"([A-Za-z0-9._-]{1,255}+)" + _SPACE + _VERSION + _SPACE + rb";")


def without_ours(raw: bytes, hostname: str) -> bytes:
    """Return a message without ``Authentication-Results`` fields, or their ARC equivalents, from this host.

    The name of every field that a program could read as such a field is prefixed with ``X-Claimed-``. This is too slow
    for the event loop.
    """
    end = 0 if raw.startswith(b"\r\n") else raw.find(b"\r\n\r\n")
    header = raw if end < 0 else raw[:end]
    pieces, position = [], 0
    for start in _claims(header, hostname.lower().encode()):
        pieces += [raw[position:start], b"X-Claimed-"]
        position = start
    return b"".join([*pieces, raw[position:]]) if pieces else raw


def _claims(header: bytes, hostname: bytes) -> Iterator[int]:
    """Yield the offset of each field name that a program could read as coming from this host."""
    for field in _CLAIM.finditer(header):
        instance = _INSTANCE.match(header, field.end()) if field[1] else None
        host = _PLAIN_HOST.match(header, instance.end() if instance else field.end())
        is_anothers = host is not None and not host[1].lower().startswith(hostname)
        if not is_anothers and _may_start_line(header, field.start()):
            yield field.start()


def _may_start_line(header: bytes, at: int) -> bool:
    """Return whether a program could read this as the start of a line that does not continue a folded field."""
    before = header[max(at - _MAX_JUNK_BYTES, 0) : at]
    junk = before[len(before.rstrip(_NOT_PRINTABLE)) :]
    if len(junk) == _MAX_JUNK_BYTES:
        return True
    if len(junk) == at:  # the junk is at the start of the message; our trace fields will precede it
        junk = b"\r\n" + junk
    _, is_after_line, indent = junk.rpartition(b"\r\n")
    is_fold = bool(is_after_line and indent) and not indent.strip(b" \t")
    return not is_fold and _LINE_END.search(junk) is not None
