"""Making untrusted text safe for a terminal, and measuring it in columns. Nothing here writes to a terminal."""

import unicodedata
from collections.abc import Iterator

# Controls, marks that turn the direction of text around, halves of characters, line separators (UAX #44, table 12).
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # Cf too, but emoji and Persian need them
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")
_CHARACTERS_PER_COLUMN = 4  # or many combining marks on one letter would never fill a line


def shown(text: str, keep: str = "") -> str:
    """Replace by U+FFFD what would move a terminal's cursor, change its state, or hide other text."""
    unshown = {
        ord(character): "\ufffd"
        for character in set(text) - set(keep + _JOINERS)
        if unicodedata.category(character) in _UNSHOWN
    }
    return text.translate(unshown)


def width(text: str) -> int:
    """Count the columns a text takes on a terminal (UAX #11)."""
    return sum(map(_columns, text))


def cut(text: str, columns: int) -> str:
    """Shorten a text to at most ``columns``, with an ellipsis if something was cut."""
    return text if _fitting(text, columns) == len(text) else text[: _fitting(text, columns - 1)] + "…"


def wrapped(line: str, columns: int) -> Iterator[str]:
    """Break a line into pieces of at most ``columns`` (2 or more), between words if possible."""
    while (fitting := _fitting(line, columns)) < len(line):
        at = line.rfind(" ", 0, fitting + 1)
        at = at if at > 0 else fitting
        yield line[:at].rstrip()
        line = line[at:].lstrip()
    yield line


def _fitting(text: str, columns: int) -> int:
    """Count the characters from the left that fit into ``columns``."""
    left = columns
    for index, character in enumerate(text):
        left -= _columns(character)
        if left < 0 or index == columns * _CHARACTERS_PER_COLUMN:
            return index
    return len(text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
