"""Decodes content transfer encodings (RFC 2045 §6): base64, quoted-printable and uuencode, repairing malformed content.

Megabytes are decoded step by step, since no other thread can acquire the GIL during a step.
"""

import binascii
import contextlib
import re
from collections.abc import Iterator

from tmpmaild.mail.structure import Part

IDENTITIES = ("", "7bit", "8bit", "binary")
"""The content transfer encodings that leave the bytes unchanged (RFC 2045 §6.2)."""

_UUENCODED = ("x-uuencode", "uuencode", "x-uue", "uue")

BROKEN_BASE64 = "Some base64 is malformed and was repaired."

BROKEN_QUOTED_PRINTABLE = "Some quoted-printable is malformed and was repaired."
UNKNOWN_ENCODING = "A content transfer encoding is unknown; the content is shown unchanged."

_STEP_BYTES = 256 * 1024
_BASE64_STEP_BYTES = 256 * 1024
_NOT_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))
_MAX_RUNS = 1000

_BROKEN_ESCAPE = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*+\r?\n|[ \t\r]*+\Z)")
_UU_BEGIN = re.compile(rb"^begin [0-7]{3,4} [^\n]*+\n", re.MULTILINE)
_SPACE_AFTER_SOFT_BREAK = re.compile(rb"=[ \t]++(?=\r?\n)")


def content(raw: bytes, part: Part, warnings: dict[str, None]) -> bytes:
    """Decode the content of a part; malformed content is repaired, and a warning is added to ``warnings``."""
    if part.encoding == "base64":
        decoded, sound = decode_base64(memoryview(raw)[part.start : part.end])
        if not sound:
            warnings[BROKEN_BASE64] = None
        return decoded
    data = raw[part.start : part.end]
    if part.encoding in IDENTITIES:
        return data
    if part.encoding == "quoted-printable":
        decoded, sound = decode_quoted_printable(data)
        if not sound:
            warnings[BROKEN_QUOTED_PRINTABLE] = None
        return decoded
    if part.encoding in _UUENCODED and (begin := _UU_BEGIN.search(data)):
        decoded = b"".join(_uudecoded_lines(data[begin.end() :]))
        if decoded:
            return decoded
    warnings[UNKNOWN_ENCODING] = None
    return data


def _uudecoded_lines(data: bytes) -> Iterator[bytes]:
    """Decode uuencoded lines (POSIX) up to the last line; the first character of each line is its length."""
    for lines in _line_steps(data):
        for line in lines.splitlines():
            if line.rstrip() == b"end":
                return
            length = (line[0] - ord(" ")) & 63 if line else 0
            with contextlib.suppress(binascii.Error):  # trailing spaces may be missing, or extra data may follow
                yield binascii.a2b_uu(line[: 1 + (length + 2) // 3 * 4])


def decode_quoted_printable(data: bytes) -> tuple[bytes, bool]:
    """Decode quoted-printable (RFC 2045 §6.7), and return whether it was well-formed; broken escapes are kept."""
    decoded, sound = [], True
    for lines in _line_steps(data):
        sound = sound and _BROKEN_ESCAPE.search(lines) is None
        decoded.append(binascii.a2b_qp(_SPACE_AFTER_SOFT_BREAK.sub(b"=", lines)))
    return b"".join(decoded), sound


def _line_steps(data: bytes) -> Iterator[bytes]:
    """Yield whole lines, step by step."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _STEP_BYTES) + 1 or len(data)
        yield data[start:end]
        start = end


def decode_base64(data: bytes | memoryview) -> tuple[bytes, bool]:
    """Decode base64 (RFC 2045 §6.8), and return whether it was well-formed; invalid characters are skipped."""
    with contextlib.suppress(binascii.Error):
        return b"".join(_strict_base64_steps(data)), True
    compact = bytes(data).translate(None, _NOT_BASE64)
    # Padding in the middle ends an encoded run; excessive padding is ignored.
    runs = compact.split(b"=") if compact.count(b"=") <= _MAX_RUNS else [compact.translate(None, b"=")]
    return b"".join(map(_run_octets, runs)), False


def _strict_base64_steps(data: bytes | memoryview) -> Iterator[bytes]:
    """Decode well-formed base64 step by step. Raises ``binascii.Error``."""
    carried, ended = b"", False
    for at in range(0, len(data), _BASE64_STEP_BYTES):
        compact = carried + bytes(data[at : at + _BASE64_STEP_BYTES]).translate(None, b" \t\r\n")
        if (ended and compact) or compact.startswith(b"="):
            raise binascii.Error("padding in a position where it is not allowed")
        whole = len(compact) // 4 * 4
        carried, ended = compact[whole:], ended or compact.endswith(b"=", 0, whole)
        yield binascii.a2b_base64(compact[:whole], strict_mode=True)
    if carried:
        raise binascii.Error("the last group of four characters is incomplete")


def _run_octets(run: bytes) -> bytes:
    """Decode base64 characters without padding; a single character at the end does not encode a byte."""
    whole = run[:-1] if len(run) % 4 == 1 else run
    return binascii.a2b_base64(whole + b"=" * (-len(whole) % 4))
