"""Converts the attachment file names that senders declare to a form that is safe for display and saving."""

import re

MAX_BYTES = 255
"""The limit for a file name, a Content-ID and a media type, which every message list contains."""

_MAX_EXTENSION_BYTES = 20

_PATH_SEPARATOR = re.compile(r"[/\\]")

# Characters that reverse the text that follows, so that "exe.gpj" reads as "jpg.exe" (Unicode TR 36).
_BIDI = {
    ord(character): None for character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}


def clean(name: str) -> str:
    """Return the last path component of a declared name, in a safe form for display and saving; "" if there is none.

    It has no control characters, no bidirectional overrides, and at most 255 bytes of UTF-8. In a longer name, each run
    of spaces becomes one space, and the stem is cut to keep the last extension, which shows the type.
    """
    text = last_component(name)
    return text if len(text.encode("utf-8", "replace")) <= MAX_BYTES else shortened(text, MAX_BYTES)


def shortened(name: str, max_bytes: int) -> str:
    """Return a file name with single spaces and its stem cut to fit into ``max_bytes`` of UTF-8.

    The last extension is kept, because it shows the type, unless it is too long to be an extension.
    """
    encoded = " ".join(name.split()).encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    _, dot, extension = encoded.rpartition(b".")
    suffix = dot + extension if len(extension) < _MAX_EXTENSION_BYTES else b""
    return encoded[: max_bytes - len(suffix)].decode("utf-8", "ignore").rstrip(". ") + suffix.decode()


def last_component(name: str) -> str:
    """Return the same name as ``clean``, but without a length limit."""
    text = _PATH_SEPARATOR.split(name)[-1].translate(_BIDI)
    text = "".join([character if character.isprintable() else " " for character in text]).strip()
    return text if text.strip(". ") else ""
