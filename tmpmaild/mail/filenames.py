"""Names of attached files, as senders state them and as they are safe to show and to save under."""

import re

MAX_BYTES = 255
"""Of a file name, a Content-ID and a media type, which every list contains."""

_MAX_EXTENSION_BYTES = 20

_PATH_SEPARATOR = re.compile(r"[/\\]")

# Characters that reverse the text that follows, so that "exe.gpj" reads as "jpg.exe" (Unicode TR 36).
_BIDI = {
    ord(character): None for character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}


def clean(name: str) -> str:
    """Return the last path component of a stated name, safe to show and to save under; "" if there is none.

    It has no control characters, no bidirectional overrides, and at most 255 bytes of UTF-8. In a longer name runs of
    spaces become one space and the stem is cut, so that the last extension still shows the type.
    """
    text = last_component(name)
    return text if len(text.encode("utf-8", "replace")) <= MAX_BYTES else shortened(text, MAX_BYTES)


def shortened(name: str, max_bytes: int) -> str:
    """Return a file name with single spaces, its stem cut to fit into ``max_bytes`` of UTF-8.

    The last extension stays, since it shows the type, unless it is too long for an extension.
    """
    octets = " ".join(name.split()).encode("utf-8", "replace")
    if len(octets) <= max_bytes:
        return octets.decode()
    _, dot, extension = octets.rpartition(b".")
    kept = dot + extension if len(extension) < _MAX_EXTENSION_BYTES else b""
    return octets[: max_bytes - len(kept)].decode("utf-8", "ignore").rstrip(". ") + kept.decode()


def last_component(name: str) -> str:
    """Return the same as ``clean``, but of any length."""
    text = _PATH_SEPARATOR.split(name)[-1].translate(_BIDI)
    text = "".join([character if character.isprintable() else " " for character in text]).strip()
    return text if text.strip(". ") else ""
