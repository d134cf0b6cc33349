"""Computes, in linear time, the canonical forms of a message (RFC 6376 §3.4) that signatures cover.

A relaxed form is also a valid message, but without the white space that anyone may add.
"""

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from tmpmaild.mail import headers

_PIECE_BYTES: Final = 64 * 1024


class Form(NamedTuple):
    """Whether the header and the body are in relaxed form; otherwise they are covered unchanged."""

    header: bool
    body: bool


def message(raw: bytes, form: Form) -> bytes:
    """Return the canonical form of a message, including the fields that the signature does not cover."""
    found, start = headers.of_mail(raw)
    header = b"".join(map(relaxed_field, found.fields)) + b"\r\n" if form.header else raw[:start]
    return header + (b"".join(relaxed_body(raw, start)) if form.body else raw[start:])


def relaxed_field(field: tuple[str, str]) -> bytes:
    """Return a field, as split by ``headers``, on one line with single spaces (§3.4.2)."""
    name, value = field
    text = value.replace("\r\n", "").replace("\n", "").removesuffix("\r").replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return f"{name.lower()}:{text.strip(' ')}\r\n".encode("ascii", "surrogateescape")


def body_digest(raw: bytes, start: int, *, relaxed: bool, most: int | None) -> tuple[bytes, int]:
    """Return the SHA-256 of the first ``most`` bytes of the canonical body, and the body's total size."""
    hasher = hashlib.sha256()
    length = 0
    for piece in relaxed_body(raw, start) if relaxed else _simple_body(raw, start):
        hasher.update(piece if most is None else piece[: max(most - length, 0)])
        length += len(piece)
    return hasher.digest(), length


def _simple_body(raw: bytes, start: int) -> Iterator[bytes]:
    end, _ = _without_line_ends(raw, start, len(raw))
    yield from (raw[at : min(at + _PIECE_BYTES, end)] for at in range(start, end, _PIECE_BYTES))
    yield b"\r\n"


def relaxed_body(raw: bytes, start: int) -> Iterator[bytes]:
    """Yield the body with single spaces, without trailing white space on lines, and without blank lines at the end."""
    pending, line_ends, is_empty = b"", 0, True
    for at in range(start, len(raw), _PIECE_BYTES):
        piece = pending + raw[at : at + _PIECE_BYTES].replace(b"\t", b" ")
        while b"  " in piece:
            piece = piece.replace(b"  ", b" ")
        # A run of white space may continue in the next piece.
        pending = next((end for end in (b" \r", b" ", b"\r") if piece.endswith(end)), b"")
        piece = piece[: len(piece) - len(pending)].replace(b" \r\n", b"\r\n")
        content_bytes, more = _without_line_ends(piece, 0, len(piece))
        if content_bytes:
            yield from (b"\r\n" * min(_PIECE_BYTES, line_ends - done) for done in range(0, line_ends, _PIECE_BYTES))
            yield piece[:content_bytes]
            line_ends, is_empty = 0, False
        line_ends += more
    if not is_empty:
        yield b"\r\n"


def _without_line_ends(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the position and the number of the line ends at the end of the body."""
    count = 0
    while data.endswith(b"\r\n", start, end):
        end -= 2
        count += 1
    return end, count
