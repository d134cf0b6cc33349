"""Octets to text in whatever charset a mail claims; nothing about headers, parts or transfer encodings.

A name from a mail never reaches :func:`codecs.lookup`: that would import modules named by
a mail, remember each unknown name for ever, and offer codecs that are not text encodings (a zlib bomb).
"""

import codecs
import contextlib
import re
import tomllib
from encodings.aliases import aliases
from pathlib import Path

UNKNOWN_CHARSET = "A charset is unknown; the text was read as UTF-8 or windows-1252."
UNDECODABLE_TEXT = "Some text does not fit its charset and was repaired."

# Octet by octet, codecs other than UTF-8 repair at 5 MB/s.
_MOST_REPAIRED_BYTES = 256 * 1024
_STEP_BYTES = 64 * 1024

# CPython's ISO-2022-JP-2 answers some octets with a RuntimeError, whatever the error handler.
_DECODING_FAILED = (ValueError, RuntimeError)

_NO_TEXT = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}
_OF_THE_MACHINE = {"mbcs", "oem"}
_WITHOUT_ALIAS = ("cp720", "cp737", "cp874", "koi8_t", "koi8_u", "mac_arabic", "mac_croatian", "mac_romanian")

_PUNCTUATION = re.compile(r"[^a-z0-9]+")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# What errors="surrogateescape" leaves of an octet, to the character windows-1252 has for it.
_AS_WINDOWS_1252 = {0xDC00 + octet: bytes((octet,)).decode("cp1252", "replace") for octet in range(128, 256)}


def _codec_table() -> dict[str, str]:
    """Every name a text codec is known by, without case and punctuation, to the codec to use."""
    names = {**aliases, **{codec: codec for codec in (*aliases.values(), *_WITHOUT_ALIAS)}}
    ours = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    table = {
        _PUNCTUATION.sub("", name.lower()): ours["supersets"].get(codec, codec)
        for name, codec in names.items()
        if codec not in _NO_TEXT | _OF_THE_MACHINE
    }
    return {**table, **ours["seen_in_mail"]}


_CODECS = _codec_table()


def codec_of(charset: str) -> str | None:
    """Return the Python codec for the name of a charset as mail writes it, or None when there is none.

    Comments, quotes and an RFC 2231 language suffix after the name are ignored.
    """
    name = charset.strip(" \t'\"").partition("*")[0].partition(" ")[0]
    return _CODECS.get(_PUNCTUATION.sub("", name[:80].lower()))


def to_text(octets: bytes, charset: str, warnings: dict[str, None] | None = None) -> str:
    """Decode ``octets`` so that a person can read them, whatever ``charset`` ("" when absent) claims.

    Octets which the charset cannot explain are read as UTF-8 or windows-1252. The text has neither NUL
    nor lone surrogates nor a byte order mark. What had to be forgiven is added to ``warnings``.
    """
    codec = codec_of(charset) if charset else "utf_8"
    if codec is None:
        _warn(warnings, UNKNOWN_CHARSET)
        codec = "utf_8"
    try:
        text = octets.decode(codec)
    except _DECODING_FAILED:
        _warn(warnings, UNDECODABLE_TEXT)
        text = _repaired(octets, codec)
    if codec != "utf_8":
        text = _LONE_SURROGATE.sub("\ufffd", text)
    return text.removeprefix("\ufeff").replace("\0", "\ufffd")


def is_utf8(octets: bytes) -> bool:
    """Return whether the octets are well-formed UTF-8 (RFC 3629)."""
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def scrub(text: str) -> str:
    """Replace what neither SQLite nor JSON takes, lone surrogates and NUL, by U+FFFD."""
    if not text.isascii():
        text = _LONE_SURROGATE.sub("\ufffd", text)
    return text.replace("\0", "\ufffd")


def _repaired(octets: bytes, codec: str) -> str:
    """Decode octets that do not fit their codec; each stray octet becomes its windows-1252 character."""
    # Octets of seven bits are UTF-8 too, which would show the escapes of ISO-2022 instead of its text.
    if codec != "utf_8" and not octets.isascii() and b"\0" not in octets and is_utf8(octets):
        return octets.decode()
    if codec == "utf_7" and not octets.isascii():
        codec = "utf_8"  # no octet of UTF-7 has its eighth bit (RFC 2152), so it is something else
    handlers = ("surrogateescape", "replace")
    for handler in handlers if codec == "utf_8" or len(octets) <= _MOST_REPAIRED_BYTES else handlers[1:]:
        with contextlib.suppress(*_DECODING_FAILED):
            return _decoded_in_steps(octets, codec, handler)
    return _decoded_in_steps(octets, "utf_8", "surrogateescape")


def _decoded_in_steps(octets: bytes, codec: str, handler: str) -> str:
    """Decode with an error handler, which is slow enough that other threads must get their turn between."""
    decoder = codecs.getincrementaldecoder(codec)(handler)
    repairs = _AS_WINDOWS_1252 if handler == "surrogateescape" else {}
    pieces = [
        decoder.decode(octets[at : at + _STEP_BYTES], at + _STEP_BYTES >= len(octets)).translate(repairs)
        for at in range(0, len(octets), _STEP_BYTES)
    ]
    return "".join(pieces)


def _warn(warnings: dict[str, None] | None, sentence: str) -> None:
    if warnings is not None:
        warnings[sentence] = None
