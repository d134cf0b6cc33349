"""Names of attached files, as senders state them and as they are safe to show and to save under."""

import re

MAX_BYTES = 255
"""Of a file name, a content id and a media type; all are in every list."""

_MAX_EXTENSION_BYTES = 20

_PATH_SEPARATOR = re.compile(r"[/\\]")

# Characters that turn the order of what follows, so that "exe.gpj" reads as "jpg.exe" (Unicode TR 36).
_BIDI = {
    ord(character): None for character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}


def clean(name: str) -> str:
    """Return the last path component of a stated name, safe to show and to save under; "" for none.

    It has no control characters and no bidirectional overrides, and at most 255 octets of UTF-8: of a longer name the
    stem is cut and runs of spaces become one, so that its last extension tells what it is.
    """
    text = last_component(name)
    return text if len(text.encode("utf-8", "replace")) <= MAX_BYTES else shortened(text, MAX_BYTES)


def shortened(name: str, max_bytes: int) -> str:
    """Return a file name with single spaces, its stem cut so that it has at most so many octets of UTF-8.

    The last extension stays, since it tells what the file is, unless it is too long to be one.
    """
    octets = " ".join(name.split()).encode("utf-8", "replace")
    if len(octets) <= max_bytes:
        return octets.decode()
    _, dot, extension = octets.rpartition(b".")
    kept = dot + extension if len(extension) < _MAX_EXTENSION_BYTES else b""
    return octets[: max_bytes - len(kept)].decode("utf-8", "ignore").rstrip(". ") + kept.decode()


def last_component(name: str) -> str:
    """Return what ``clean`` does, whatever its length."""
    text = _PATH_SEPARATOR.split(name)[-1].translate(_BIDI)
    text = "".join([character if character.isprintable() else " " for character in text]).strip()
    return text if text.strip(". ") else ""
