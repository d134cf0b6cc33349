"""What strangers wrote, as a person would see it: without characters that are not shown, and of bounded length."""

import re
import unicodedata
from urllib.parse import quote

from pydantic import BaseModel

_READ_CHARACTERS = 1024 * 1024
# Control, format (zero-width, bidirectional, tags), private, unassigned, halves of characters (UAX #44, table 12).
_UNSHOWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_LINE_ENDS = frozenset({"Zl", "Zp"})
# Letters, marks and symbols without a shape: variation selectors carry any octets, fillers look like nothing.
_WITHOUT_SHAPE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]+"
)


class Cut(BaseModel, frozen=True):
    """A text and whether it is only the beginning."""

    text: str
    is_cut: bool


def visible(text: str, max_characters: int) -> Cut:
    """Remove what is not shown, then cut. Line ends and tabs stay."""
    read = _WITHOUT_SHAPE.sub("", text[:_READ_CHARACTERS])
    clean = read.translate({ord(one): _replacement(one) for one in set(read) - set("\n\t")})
    return Cut(text=clean[:max_characters], is_cut=len(clean) > max_characters or len(text) > _READ_CHARACTERS)


def line(text: str, max_characters: int) -> str:
    """Return the same as one line; an ellipsis says that it was cut."""
    shown = visible(" ".join(text[:_READ_CHARACTERS].split()), max_characters)
    return shown.text + "…" * shown.is_cut


def link(href: str) -> str:
    """Return a link that leads where it led: what is not shown is percent-encoded."""
    return "".join(one if visible(one, 1).text == one else quote(one, errors="replace") for one in href)


def _replacement(character: str) -> str:
    category = unicodedata.category(character)
    if category in _LINE_ENDS:
        return "\n"
    return "" if category in _UNSHOWN else character
