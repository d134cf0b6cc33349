"""Decodes bytes to text in any charset that a message declares; headers and transfer encodings are handled elsewhere.

A name from a message is never passed to :func:`codecs.lookup`. That function would import modules chosen by an
untrusted sender, cache each unknown name forever, and return codecs that are not text encodings (a zlib bomb).
"""

import codecs
import contextlib
import re
import tomllib
from collections.abc import Iterable
from encodings.aliases import aliases
from functools import lru_cache
from pathlib import Path

from webencodings.labels import LABELS

from tmpmaild.mail import japanese

UNKNOWN_CHARSET = "A charset is unknown; the text was decoded with a charset that fits."
UNDECODABLE_TEXT = "Some text does not fit its charset and was repaired."

# Codecs other than UTF-8 handle errors byte by byte, at 5 MB/s.
_MAX_REPAIRED_BYTES = 256 * 1024
_STEP_BYTES = 64 * 1024
_STRICT_STEP_BYTES = 1024 * 1024

_NO_TEXT = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}
_OF_THE_MACHINE = {"mbcs", "oem"}
_WITHOUT_ALIAS = ("cp720", "cp737", "cp874", "koi8_t", "koi8_u", "mac_arabic", "mac_croatian", "mac_romanian")

_PUNCTUATION = re.compile(r"[^a-z0-9]+")
_FAMILY = re.compile(r"(?:(?:iso)?8859([0-9]{1,2})[ei]?|(?:cp|ms|win|windows|ansi|mswin|ibm|codepage)([0-9]{3,5}))")
_ESCAPE, _TILDE = b"\x1b~"
_JAPANESE = re.compile(rb"\x1b(?:\$[@AB]|\$\([@-DOPQ]|\([IJ])")
_KOREAN = re.compile(rb"\x1b\$\)C")
_HZ = re.compile(rb"~\{((?>(?:[!-w][!-~])+))~\}")
_COMMON_IN_HZ = bytes([*range(0x21, 0x2A), *range(0x30, 0x58)])
# Text in a Western charset hardly ever contains the characters that UTF-8 bytes represent in it, such as "Ã©" for "é".
# A single two-byte character beyond Latin-1 does not count, because it could be intended as two characters, such as
# "É®".
_WESTERN = frozenset({"cp1252", "latin_1", "iso8859_15"})
_SURELY_UTF_8 = re.compile("[\xa0-\xff\u0800-\U0010ffff]|[^\0-\x7f][\0-\x7f]*+[^\0-\x7f]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# Maps the surrogate that errors="surrogateescape" produces for a byte to that byte's character in windows-1252.
_AS_WINDOWS_1252 = {0xDC00 + octet: bytes((octet,)).decode("cp1252", "replace") for octet in range(128, 256)}


def _codec_table() -> dict[str, str]:
    """Return the codec for each text encoding name: Encoding Standard labels, our own names, and Python's names."""
    ours = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    known: dict[str, str] = {}
    for label, encoding in LABELS.items():
        codec = ours["encodings"].get(encoding, encoding).replace("-", "_")
        known[_squeezed(label)] = aliases.get(codec, codec)
    known |= ours["names"]
    names = {**aliases, **{codec: codec for codec in (*aliases.values(), *_WITHOUT_ALIAS)}}
    for name, codec in names.items():
        if codec not in _NO_TEXT | _OF_THE_MACHINE:
            own = "iso2022_jp" if codec.startswith("iso2022_jp") else codec
            # A codec whose name is a label decodes the standard's encoding for that label, because messages declare the
            # smaller charset but use the larger charset.
            known.setdefault(_squeezed(name), known.get(_squeezed(own), own))
    return known


def _squeezed(name: str) -> str:
    """Return a charset name in lower case without punctuation."""
    return _PUNCTUATION.sub("", name[:80].lower())


_CODECS = _codec_table()
_OWN = {"iso2022_jp": japanese.iso_2022_jp, "euc_jp": japanese.euc_jp}
"""The encodings for which Python's codec of the same name is not sufficient."""


@lru_cache(maxsize=256)
def codec_of(charset: str) -> str | None:
    """Return the Python codec for a charset name as found in messages, or None if it is unknown.

    Comments, quotes and an RFC 2231 language suffix after the name are ignored, as are the prefixes ``x-`` and ``cs``.
    Abbreviations such as "win-1251" and "8859_2" are recognised.
    """
    name = charset.strip(" \t'\"").partition("*")[0]
    known = _CODECS.get(_squeezed(name.partition(" ")[0]))
    return known or _codec_of_variant(_squeezed(name.partition("(")[0]))


def _codec_of_variant(name: str) -> str | None:
    for plain in (name, name.removeprefix("x"), name.removeprefix("cs")):
        family = _FAMILY.fullmatch(plain)
        names = (f"iso8859{family[1]}", f"windows{family[2]}", f"cp{family[2]}") if family else (plain,)
        if found := next(filter(None, map(_CODECS.get, names)), None):
            return found
    return None


def to_text(data: bytes, charset: str, warnings: dict[str, None] | None = None, others: Iterable[str] = ()) -> str:
    """Decode ``data`` into readable text; the declared ``charset`` may be wrong, or "".

    UTF-8 that is declared as Latin-1 or windows-1252 is decoded as UTF-8. Bytes that do not fit the charset are decoded
    according to their escape sequences (ISO-2022-JP and -KR, HZ), as UTF-8, in the first of the ``others`` that fits,
    or as windows-1252. The result contains no NUL, no lone surrogates and no byte order mark. Problems are added to
    ``warnings``.
    """
    codec = codec_of(charset) if charset else "utf_8"
    if codec is None:
        _warn(warnings, UNKNOWN_CHARSET)
        codec = "utf_8"
    if data.isascii():
        if _ESCAPE in data or _TILDE in data:
            codec = by_escapes(data) or codec
        if codec == "utf_8":
            return data.decode().replace("\0", "\ufffd")
    elif codec in _WESTERN and is_utf8(data) and _SURELY_UTF_8.search(data.decode()):
        codec = "utf_8"
    text, is_sound = _strictly(data, codec)
    if not is_sound:
        _warn(warnings, UNDECODABLE_TEXT)
        text = _repaired(data, codec, text, others)
    if codec != "utf_8":
        text = _LONE_SURROGATE.sub("\ufffd", text)
    return text.removeprefix("\ufeff").replace("\0", "\ufffd")


def _strictly(data: bytes, codec: str) -> tuple[str, bool]:
    """Decode bytes, and return the text and whether they fit the codec."""
    if own := _OWN.get(codec):
        return own(data)
    try:
        return data.decode(codec), True
    except ValueError:
        return "", False


def fitting(data: bytes, charset: str) -> str | None:
    """Return the bytes decoded with this charset, or None if they are UTF-8 or do not fit the charset."""
    codec = codec_of(charset)
    if codec is None or is_utf8(data):
        return None
    text, is_sound = _strictly(data, codec)
    return text if is_sound else None


def by_escapes(data: bytes) -> str | None:
    """Return the codec whose escape sequences occur in 7-bit bytes, or None if they contain no escape sequences."""
    if _JAPANESE.search(data):
        return "iso2022_jp"
    if _KOREAN.search(data):
        return "iso2022_kr"
    if b"~{" not in data:
        return None
    # Source code may also contain "~{". In HZ, common Chinese characters start with bytes that are digits and capitals.
    leads = b"".join(_HZ.findall(data))[::2]
    is_chinese = len(leads) > 1 and 4 * len(leads.translate(None, _COMMON_IN_HZ)) <= len(leads)
    return "hz" if is_chinese and _strictly(data, "hz")[1] else None


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are well-formed UTF-8 (RFC 3629)."""
    try:
        if len(data) <= _STRICT_STEP_BYTES:
            data.decode()
            return True
        decoder = codecs.getincrementaldecoder("utf-8")()
        for at in range(0, len(data), _STRICT_STEP_BYTES):
            decoder.decode(data[at : at + _STRICT_STEP_BYTES], at + _STRICT_STEP_BYTES >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def scrub(text: str) -> str:
    """Replace lone surrogates and NUL, which neither SQLite nor JSON accepts, with U+FFFD."""
    if not text.isascii():
        text = _LONE_SURROGATE.sub("\ufffd", text)
    return text.replace("\0", "\ufffd")


def _repaired(data: bytes, codec: str, begun: str, others: Iterable[str]) -> str:
    """Decode bytes that do not fit their codec; each invalid byte becomes its windows-1252 character.

    ``begun`` is the text that one of our own decoders has already decoded, or "".
    """
    # 7-bit bytes are also valid UTF-8, but decoding them as UTF-8 would show ISO-2022 escape sequences instead of the
    # text.
    if not data.isascii() and b"\0" not in data:
        if is_utf8(data):
            return data.decode()
        for other in others:
            if codec_of(other) != codec and (text := fitting(data, other)) is not None:
                return text
    if begun:
        return begun
    if codec == "utf_7" and not data.isascii():
        codec = "utf_8"  # UTF-7 never sets the eighth bit (RFC 2152), so this is a different encoding
    handlers = ("surrogateescape", "replace")
    for handler in handlers if codec == "utf_8" or len(data) <= _MAX_REPAIRED_BYTES else handlers[1:]:
        with contextlib.suppress(ValueError):
            return _decoded_in_steps(data, codec, handler)
    return _decoded_in_steps(data, "utf_8", "surrogateescape")


def _decoded_in_steps(data: bytes, codec: str, handler: str) -> str:
    """Decode with a slow error handler in steps, because other threads cannot acquire the GIL during a step."""
    decoder = codecs.getincrementaldecoder(codec)(handler)
    repairs = _AS_WINDOWS_1252 if handler == "surrogateescape" else {}
    pieces = [
        decoder.decode(data[at : at + _STEP_BYTES], at + _STEP_BYTES >= len(data)).translate(repairs)
        for at in range(0, len(data), _STEP_BYTES)
    ]
    return "".join(pieces)


def _warn(warnings: dict[str, None] | None, sentence: str) -> None:
    if warnings is not None:
        warnings[sentence] = None
