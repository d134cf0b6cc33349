"""Decoders for ISO-2022-JP and EUC-JP that use the Encoding Standard's index jis0208, which Python's codecs lack.

Python's codecs for these charsets support neither NEC row 13 nor the IBM characters, which the standard's index
includes. Mail programs on Windows have always sent these characters under both charset names. Python's cp932 has the
same index in a different order.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

_REPLACEMENT = "\ufffd"
_ROWS = range(0x21, 0x7F)
_HIGH = bytes([octet | 0x80 for octet in range(256)])
_LOW = bytes([octet & 0x7F for octet in range(256)])
_HALF_WIDTH = {octet: chr(octet + 0xFF40) for octet in range(0x21, 0x60)}  # JIS X 0201 katakana
_ROMAN = {ord("\\"): "¥", ord("~"): "\N{OVERLINE}"}

_ESCAPE = re.compile(rb"\x1b(\([BHIJ]|\$[@AB]|\$\([@-DOPQ])")
# The characters between shift out and shift in are katakana (cp50222).
_SINGLE = re.compile(rb"[\x00-\x0d\x10-\x7f]++|\x0e([^\x0f]*+)\x0f?+|[\xa1-\xdf]++|[\x80-\xa0\xe0-\xff]++|\x0f")
_PAIRS = re.compile(rb"(?>(?:[\x21-\x7e]{2})*)")
_DOUBLE = re.compile(rb"(?>(?:[\x21-\x7e]{2})+)|[\x00-\x20]++|[\x7f-\xff]++|[\x21-\x7e]")
_EUC = re.compile(
    rb"[\x00-\x7f]++|(?>(?:[\xa1-\xfe]{2})+)|(?>(?:\x8e[\xa1-\xdf])+)|(?>(?:\x8f[\xa1-\xfe]{2})+)|[\x80-\x8d\x90-\xa0\xff]++|[\x80-\xff]"
)
# For these bytes, Python returns JIS X 0208 characters, but the standard requires the Windows characters.
_AS_WINDOWS = dict(zip("\u301c\u2016\u2212\u00a2\u00a3\u00ac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2", strict=True))
_MAX_BYTES = 256 * 1024


class Decoded(NamedTuple):
    """A decoded text, and whether its encoding was well-formed throughout."""

    text: str
    is_sound: bool


def iso_2022_jp(data: bytes) -> Decoded:
    """Decode ISO-2022-JP, with half-width katakana (cp50220 to cp50222) and the character sets of later versions."""
    return _by_python(data, "iso2022_jp_ext") or _decoded(_in_sets(data))


def euc_jp(data: bytes) -> Decoded:
    """Decode EUC-JP (Encoding Standard §12.1.1)."""
    return _by_python(data, "euc_jp") or _decoded(_euc_pieces(data))


def _by_python(data: bytes, codec: str) -> Decoded | None:
    """Decode with Python's codec if it supports every character or the input is too large for ours, else None."""
    if b"\x0e" in data and len(data) <= _MAX_BYTES:
        return None
    try:
        text, is_sound = data.decode(codec), True
    except UnicodeDecodeError:
        if len(data) <= _MAX_BYTES:
            return None
        text, is_sound = data.decode(codec, "replace"), False
    for theirs, standard in _AS_WINDOWS.items():
        text = text.replace(theirs, standard)
    return Decoded(text, is_sound)


def _decoded(pieces: Iterator[str]) -> Decoded:
    text = "".join(pieces)
    return Decoded(text, _REPLACEMENT not in text)


def _in_sets(data: bytes) -> Iterator[str]:
    """Yield the text after each escape sequence, decoded in the set that the sequence designates (RFC 1468)."""
    first, *rest = _ESCAPE.split(data)
    yield from _single(first, {})
    for escape, piece in zip(rest[::2], rest[1::2], strict=True):
        if not piece:
            continue
        if escape[:1] == b"$":
            yield from _double(piece, _DOUBLE_SETS[escape])
        else:
            yield from _single(piece, _SINGLE_SETS.get(escape, {}))


def _single(data: bytes, shown_as: dict[int, str]) -> Iterator[str]:
    if data.isascii() and b"\x0e" not in data and b"\x0f" not in data:
        text = data.decode("ascii")
        yield text.translate(shown_as) if shown_as else text
        return
    for match in _SINGLE.finditer(data):
        piece = match[0]
        if match[1] is not None:
            yield match[1].decode("ascii", "replace").translate(_HALF_WIDTH)
        elif piece == b"\x0f":
            continue
        elif piece.isascii():
            yield piece.decode("ascii").translate(shown_as)
        else:
            yield piece.decode("cp932") if 0xA1 <= piece[0] <= 0xDF else _REPLACEMENT  # noqa: PLR2004 - katakana


def _double(data: bytes, decode: Callable[[bytes], str]) -> Iterator[str]:
    if _PAIRS.fullmatch(data):
        yield decode(data)
        return
    for match in _DOUBLE.finditer(data):
        piece = match[0]
        if piece[0] <= 0x20:  # noqa: PLR2004 - line ends and spaces, which do not belong to any set
            yield piece.decode("ascii")
        else:
            yield decode(piece) if len(piece) % 2 == 0 and piece.isascii() else _REPLACEMENT


def _euc_pieces(data: bytes) -> Iterator[str]:
    for match in _EUC.finditer(data):
        piece = match[0]
        if piece.isascii():
            yield piece.decode("ascii")
        elif piece[0] == 0x8E and len(piece) > 1:  # noqa: PLR2004 - katakana
            yield piece.translate(None, b"\x8e").decode("cp932")
        elif piece[0] == 0x8F and len(piece) > 1:  # noqa: PLR2004 - JIS X 0212
            yield piece.decode("euc_jp", "replace")
        elif 0xA1 <= piece[0] <= 0xFE and len(piece) > 1:  # noqa: PLR2004 - JIS X 0208
            yield _jis_x_0208(piece.translate(_LOW))
        else:
            yield _REPLACEMENT


def _jis_x_0208(pairs: bytes) -> str:
    """Decode pairs of bytes from 0x21 to 0x7E."""
    return pairs.decode("utf-16-be").translate(_index())


@cache
def _index() -> dict[int, str]:
    """Return the Encoding Standard's index jis0208; each key is a pair of bytes, combined into one number."""
    # Two rows of JIS X 0208 correspond to one row of Shift_JIS, which skips 0x7F and, because of katakana, 0xA0 to
    # 0xDF.
    leads, trails = (*range(0x81, 0xA0), *range(0xE0, 0xF0)), (*range(0x40, 0x7F), *range(0x80, 0xFD))
    data = bytes([octet for lead in leads for trail in trails for octet in (lead, trail, 0x0A)])
    lines = data.decode("cp932", "replace").splitlines()
    codes = [row << 8 | cell for row in _ROWS for cell in _ROWS]
    return {code: _REPLACEMENT if text[1:] else text for code, text in zip(codes, lines, strict=True)}


def _by_codec(codec: str, shift: bytes = b"") -> Callable[[bytes], str]:
    """Return a decoder for byte pairs: it sets the eighth bits, prepends ``shift`` to each and applies a codec."""

    def decode(pairs: bytes) -> str:
        data = pairs.translate(_HIGH)
        if shift:
            data = b"".join([shift + data[at : at + 2] for at in range(0, len(data), 2)])
        return data.decode(codec, "replace")

    return decode


_SINGLE_SETS = {b"(I": _HALF_WIDTH, b"(J": _ROMAN}
_DOUBLE_SETS: dict[bytes, Callable[[bytes], str]] = {
    b"$@": _jis_x_0208,
    b"$B": _jis_x_0208,
    b"$(@": _jis_x_0208,
    b"$(B": _jis_x_0208,
    b"$A": _by_codec("gb2312"),
    b"$(A": _by_codec("gb2312"),
    b"$(C": _by_codec("euc_kr"),
    b"$(D": _by_codec("euc_jp", b"\x8f"),
    b"$(O": _by_codec("euc_jis_2004"),
    b"$(P": _by_codec("euc_jis_2004", b"\x8f"),
    b"$(Q": _by_codec("euc_jis_2004"),
}
