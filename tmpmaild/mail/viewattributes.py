"""Decides which attributes an element keeps in a view, and derives its width from them."""

import html as entities
import re
from collections.abc import Mapping

from tmpmaild.mail.declarations import StyleAttributes
from tmpmaild.mail.htmltokens import address_of, collapsed, names
from tmpmaild.mail.selectors import own_name, own_names

# The same set is used for all elements, because an attribute has no effect on an element that does not support it.
ANYWHERE = names(
    "align bgcolor border cellpadding cellspacing class clear color colspan dir face height hspace id lang "
    "leftmargin link marginheight marginwidth noshade nowrap rowspan size span start style text title topmargin type "
    "valign value vlink vspace width"
)
_SPANS = names("colspan rowspan span")
_SPAN = re.compile(r"[1-9][0-9]?")
_PLAIN = re.compile(r"[\w\s#%.,;:()'\"+/*&-]{0,200}+")
_FREE = names("class id style title")
_RENAMED = {"class": own_names, "id": own_name}
_ANY_TEXT = re.compile(r".{0,4096}+", re.DOTALL)
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f]", re.IGNORECASE)
_PIXELS = re.compile(r"(?<![\w-])(width|height)\s*+:\s*+([0-9]+)px")
_FIXED_WIDTH = re.compile(r"(?<![\w-])(?:min-)?width:([0-9]{3,4})(?:\.[0-9]++)?px")
# The patterns match attributes in the form that this module writes.
_PADDING = re.compile(r"(?<![\w-])padding(-left|-right|):([^;\"]+)")
_PIXELS_ALONE = re.compile(r"([0-9]{1,3})(?:\.[0-9]++)?px")
_CELL_PADDING = re.compile(r' cellpadding="([0-9]{1,3})"')
_MIN_PICTURE_PIXELS = 24
_WIDE_PIXELS = 100
# Possessive quantifiers keep the search linear.
_REMOTE_STYLE_URL = re.compile(r"url\(\s*+[\"']?\s*+(?:https?:)?//", re.IGNORECASE)


def start_tag(name: str, attributes: Mapping[str, str]) -> str:
    """Write a start tag with its attributes in double quotes."""
    written = "".join(f' {key}="{entities.escape(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>"


def allowed(name: str, attributes: Mapping[str, str], styles: StyleAttributes) -> dict[str, str]:
    """Return the attributes that an element may keep, without the source of an image."""
    stated = {key: collapsed(value) for key, value in attributes.items() if key in ANYWHERE}
    kept = {key: value for key, value in stated.items() if _value_of(key).fullmatch(value)}
    for key, renamed in _RENAMED.items():
        if key in kept:
            kept[key] = renamed(kept[key])
    if declarations := styles.written(kept.pop("style", "")):
        kept["style"] = declarations
    if name == "a" and (address := link(attributes.get("href", ""))):
        kept["href"] = address
    return kept


def _value_of(key: str) -> re.Pattern[str]:
    if key in _SPANS:
        return _SPAN
    return _ANY_TEXT if key in _FREE else _PLAIN


def link(address: str) -> str:
    """Return an ``http:``, ``https:`` or ``mailto:`` address as a browser reads it, or "" for any other address."""
    address = address_of(address)
    return address if _LINK.match(address) else ""


def placeholder(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes that mark a blocked image as a spacer, or as too small for its text."""
    stated = dict(_PIXELS.findall(attributes.get("style", "")))
    sizes = [stated.get(side) or attributes.get(side, "") for side in ("width", "height")]
    width, height = (int(size[:5]) if size.isascii() and size.isdigit() else None for size in sizes)
    if alt := attributes.get("alt"):
        return {"role": "img", "title": attributes.get("title", alt)} if (width or _WIDE_PIXELS) < _WIDE_PIXELS else {}
    is_picture = min(width or 0, height or 0) >= _MIN_PICTURE_PIXELS
    return {} if is_picture else {"role": "presentation"}


def fixed_width(attributes: Mapping[str, str]) -> int:
    """Return an element's width in pixels if its kept attributes fix the width on every screen, otherwise 0."""
    style = attributes.get("style", "")
    if "width:" in style:
        return 0 if "max-width:" in style else max(map(int, _FIXED_WIDTH.findall(style)), default=0)
    width = attributes.get("width", "").removesuffix("px")
    return int(width[:5]) if width.isascii() and width.isdigit() else 0


def inset(tag: str) -> int:
    """Return the horizontal padding in pixels that an element's tag declares."""
    if "padding" not in tag:
        return 0
    cells = _CELL_PADDING.search(tag)
    left = right = int(cells[1]) if cells else 0
    for side, value in _PADDING.findall(tag):
        found = [_PIXELS_ALONE.match(one) for one in value.split()]
        sizes = [int(one[1]) if one else 0 for one in found] or [0]  # the list is empty if a title contains "padding: "
        _, at_right, _, at_left = ([*sizes, sizes[1]] if len(sizes) == 3 else 4 * sizes)[:4]  # noqa: PLR2004 - CSS
        left = left if side == "-right" else at_left
        right = right if side == "-left" else at_right
    return left + right


def remote_backgrounds(attributes: Mapping[str, str]) -> int:
    """Return the number of remote background images that the attributes would load."""
    address = attributes.get("background", "").strip().lower()
    return address.startswith(("http:", "https:", "//")) + len(_REMOTE_STYLE_URL.findall(attributes.get("style", "")))
