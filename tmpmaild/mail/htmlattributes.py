"""Which attributes and styles of an HTML mail may stay, and how they are written; images are not decided here.

Nothing that stays can load anything: style sheets are read value by value, and what names an address, calls
a function or escapes a character is left out, as is each property that takes a thing out of its place.
"""

import html as entities
import re
from collections.abc import Mapping

from tmpmaild.mail.htmltree import names

# One set for all elements: an attribute on an element that does not know it does nothing.
ANYWHERE = names(
    "align bgcolor border cellpadding cellspacing clear color colspan dir face height hspace lang leftmargin link "
    "marginheight marginwidth noshade nowrap rowspan size span start style text title topmargin type valign value "
    "vlink vspace width"
)
STYLES = names(
    "background background-color border border-bottom border-bottom-color border-bottom-left-radius "
    "border-bottom-right-radius border-bottom-style border-bottom-width border-collapse border-color border-left "
    "border-left-color border-left-style border-left-width border-radius border-right border-right-color "
    "border-right-style border-right-width border-spacing border-style border-top border-top-color "
    "border-top-left-radius border-top-right-radius border-top-style border-top-width border-width box-sizing "
    "caption-side clear color direction display empty-cells float font font-family font-size font-style "
    "font-variant font-weight height letter-spacing line-height list-style list-style-type margin margin-bottom "
    "margin-left margin-right margin-top max-height max-width min-height min-width opacity overflow overflow-wrap "
    "padding padding-bottom padding-left padding-right padding-top table-layout text-align text-decoration "
    "text-indent text-transform vertical-align visibility white-space width word-break word-spacing word-wrap"
)
SCHEMES = names("http https mailto")
REL = "noopener noreferrer nofollow"

_MAX_STYLE_VALUE_CHARACTERS = 300
_SPANS = names("colspan rowspan span")
_SPAN = re.compile(r"[1-9][0-9]?")
_PLAIN = re.compile(r"[\w\s#%.,;:()'\"+/*&-]{0,200}+")
_FREE = names("style title")
_ANY_TEXT = re.compile(r".{0,4096}+", re.DOTALL)
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f]", re.IGNORECASE)
_IGNORED_IN_ADDRESSES = str.maketrans("", "", "\t\n\r")
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))

_PIXELS = re.compile(r"(?<![\w-])(width|height)\s*+:\s*+([0-9]+)px")
_MIN_PICTURE_PIXELS = 24

# A parenthesis ends the unquoted form too, so that a row of unclosed ones is read once.
_STYLE_URL = re.compile(r"url\(\s*+(?:\"[^\"]*+\"|'[^']*+'|[^()\"']*+)\s*+\)", re.IGNORECASE)
_REMOTE_STYLE_URL = re.compile(r"url\(\s*+[\"']?\s*+(?:https?:)?//", re.IGNORECASE)
_STYLE_VALUE = re.compile(r"[\w\s#%.,!+*/'\"()-]++")
_STYLE_FUNCTIONS = ("rgb", "rgba", "hsl", "hsla", "calc")


def start_tag(name: str, attributes: Mapping[str, str]) -> str:
    """Write a start tag with attributes that may be in double quotes whatever they hold."""
    written = "".join(f' {key}="{entities.escape(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>"


def allowed(name: str, attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that an element may keep; the source of an image is none of them."""
    kept = {key: value for key, value in attributes.items() if key in ANYWHERE and _value_of(key).fullmatch(value)}
    if declarations := style(kept.pop("style", "")):
        kept["style"] = declarations
    if name == "a" and (address := link(attributes.get("href", ""))):
        kept["href"] = address
    return kept


def _value_of(key: str) -> re.Pattern[str]:
    if key in _SPANS:
        return _SPAN
    return _ANY_TEXT if key in _FREE else _PLAIN


def link(address: str) -> str:
    """Return an address of the web or of mail as a browser reads it, or "" for any other."""
    address = address.translate(_IGNORED_IN_ADDRESSES).strip(_CONTROLS_AND_SPACE)
    return address if _LINK.match(address) else ""


def style(text: str) -> str:
    """Return the declarations of a style attribute that are known to be harmless."""
    kept = []
    for declaration in _STYLE_URL.sub(" ", text).split(";"):
        name, _, value = declaration.partition(":")
        name, value = name.strip().lower(), value.strip()
        if name in STYLES and _is_harmless(value):
            kept.append(f"{name}:{value}")
    return ";".join(kept)


def _is_harmless(value: str) -> bool:
    """Return whether a value of a style is of names, numbers, colours and quoted names only."""
    return (
        len(value) <= _MAX_STYLE_VALUE_CHARACTERS
        and _STYLE_VALUE.fullmatch(value) is not None
        and "//" not in value
        and "/*" not in value
        and value.count("'") % 2 == value.count('"') % 2 == 0
        and all(before.lower().endswith(_STYLE_FUNCTIONS) for before in value.split("(")[:-1])
    )


def is_picture(attributes: Mapping[str, str]) -> bool:
    """Return whether an image is stated to be large enough to show something, not only to hold others apart."""
    stated = dict(_PIXELS.findall(attributes.get("style", "")))
    sizes = [stated.get(side) or attributes.get(side, "") for side in ("width", "height")]
    return all(size.isascii() and size.isdigit() and int(size[:5]) >= _MIN_PICTURE_PIXELS for size in sizes)


def remote_backgrounds(attributes: Mapping[str, str]) -> int:
    """Return how many remote images the attributes would load behind an element."""
    address = attributes.get("background", "").strip().lower()
    return address.startswith(("http:", "https:", "//")) + len(_REMOTE_STYLE_URL.findall(attributes.get("style", "")))
