"""HTML taken apart into tags and text, in one pass and without a tree; what they mean is decided elsewhere.

How much work the reading of one mail may cost is counted here.
"""

import html as entities
import re
from collections.abc import Iterator, Mapping
from html.entities import html5

from tmpmaild.mail.css import StyleAttributes
from tmpmaild.mail.htmltree import names
from tmpmaild.mail.sheets import own_name, own_names

MAX_STEPS = 150_000
"""Of about 10 µs: some seconds of the largest mail that people send, and less than anybody notices of others."""

_CHARACTERS_A_STEP = 64  # of attributes

_RAW_TEXT = names("iframe noembed noframes script style textarea title xmp")
_SHOWN_RAW_TEXT = names("textarea xmp")

_MARKUP = re.compile(r"<(?=[a-zA-Z/!?])")
_TAG = re.compile(
    r"<(/?)([a-zA-Z][^\s/>]*+)((?>(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'>][^\s>]*+)?){0,1000}))>",
)
_TAG_NAME = re.compile(r"</?[a-zA-Z]")
_ATTRIBUTE = re.compile(
    r"([^\s\"'>/=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>][^\s>]*+)))?",
)
_HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")
_REFERENCE = re.compile(r"(&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[^\t\n\f <&#;]{1,32}+;?))")  # as the standard library's
# "&region=eu" in an address is no "&reg" (section 13.2.5.73 of https://html.spec.whatwg.org).
_BARE_NAMES = "|".join(name for name in html5 if not name.endswith(";"))
_PLAIN_AMPERSAND = re.compile(rf"&(?=(?:{_BARE_NAMES})[=0-9A-Za-z])(?![0-9A-Za-z]++;)")
_STEP_CHARACTERS = 16 * 1024
_RAW_TEXT_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW_TEXT}


class Budget:
    """The steps that are left for one mail. Who counts them stops with what there is once they are used up."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    @property
    def is_spent(self) -> bool:
        """Whether anything was left out."""
        return self._left < 0

    def take(self, steps: int = 1) -> bool:
        """Count steps before they are done; False once there are none left."""
        self._left -= steps
        return self._left >= 0


def tokens(source: str, budget: Budget, *, sheets: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield ("text", text, ""), ("start", name, attributes) and ("end", name, "") in order.

    With ``sheets`` also ("sheet", text, ""), what a style element holds, after its start. Comments and declarations
    are left out; so is a tag without an end, as in a browser. A piece of markup is a step, long attributes are more.
    """
    position = 0
    while budget.take():
        opening = _MARKUP.search(source, position)
        if opening is None:
            yield "text", source[position:], ""
            return
        yield "text", source[position : opening.start()], ""
        position = opening.start()
        tag = _TAG.match(source, position)
        if tag is None:
            position = _after_declaration(source, position)
            if position < 0:
                return
            continue
        position = tag.end()
        name = tag[2].lower()
        budget.take(-(-len(tag[3]) // _CHARACTERS_A_STEP))
        yield "end" if tag[1] else "start", name, tag[3]
        if name in _RAW_TEXT and not tag[1]:
            end = _RAW_TEXT_END[name].search(source, position)
            if name in _SHOWN_RAW_TEXT or (sheets and name == "style"):
                kind = "text" if name in _SHOWN_RAW_TEXT else "sheet"
                yield kind, source[position : end.start() if end else len(source)], ""
            if end is None:
                return
            position = end.start()


def _after_declaration(source: str, position: int) -> int:
    """Return where the comment or declaration ends that begins here, or -1; a broken tag never ends."""
    if _TAG_NAME.match(source, position):
        return -1
    closing = "-->" if source.startswith("<!--", position) else ">"
    # "<!-->" is a whole comment, so its hyphens may be shared.
    end = source.find(closing, position + 2)
    return end + len(closing) if end >= 0 else -1


def attributes_of(text: str) -> dict[str, str]:
    """Read the attributes of a tag; the first of a name counts."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        found.setdefault(match[1].lower(), unescaped_attribute(match[2] or match[3] or match[4] or ""))
    return found


def unescaped_attribute(value: str) -> str:
    """Decode character references as in an attribute, where one that lacks its semicolon may be plain text."""
    return unescaped(_PLAIN_AMPERSAND.sub("&amp;", value) if "&" in value else value)


def unescaped(text: str) -> str:
    """Decode character references; the standard library refuses numbers of thousands of digits."""
    if "&" not in text:
        return text
    text = _HUGE_REFERENCE.sub("\ufffd", text)
    return entities.unescape(text) if len(text) <= _STEP_CHARACTERS else "".join(_unescaped_in_steps(text))


def _unescaped_in_steps(text: str) -> Iterator[str]:
    """Decode each different reference of a step once: megabytes of them would take seconds."""
    start = 0
    while start < len(text):
        before = text.rfind("&", start + 1, start + _STEP_CHARACTERS)  # where no reference is cut in two
        end = before if before > start and len(text) > start + _STEP_CHARACTERS else start + _STEP_CHARACTERS
        pieces = _REFERENCE.split(text[start:end])
        decoded = {reference: entities.unescape(reference) for reference in set(pieces[1::2])}
        pieces[1::2] = map(decoded.__getitem__, pieces[1::2])
        yield "".join(pieces)
        start = end


# One set for all elements: an attribute on an element that does not know it does nothing.
ANYWHERE = names(
    "align bgcolor border cellpadding cellspacing class clear color colspan dir face height hspace id lang "
    "leftmargin link marginheight marginwidth noshade nowrap rowspan size span start style text title topmargin type "
    "valign value vlink vspace width"
)
SCHEMES = names("http https mailto")
REL = "noopener noreferrer nofollow"

_SPANS = names("colspan rowspan span")
_SPAN = re.compile(r"[1-9][0-9]?")
_PLAIN = re.compile(r"[\w\s#%.,;:()'\"+/*&-]{0,200}+")
_FREE = names("class id style title")
_RENAMED = {"class": own_names, "id": own_name}
_ANY_TEXT = re.compile(r".{0,4096}+", re.DOTALL)
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f]", re.IGNORECASE)
_IGNORED_IN_ADDRESSES = str.maketrans("", "", "\t\n\r")
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))

_PIXELS = re.compile(r"(?<![\w-])(width|height)\s*+:\s*+([0-9]+)px")
_FIXED_WIDTH = re.compile(r"(?<![\w-])(?:min-)?width:([0-9]{3,4})(?:\.[0-9]++)?px")
# As they are written in a tag here.
_PADDING = re.compile(r"(?<![\w-])padding(-left|-right|):([^;\"]+)")
_PIXELS_ALONE = re.compile(r"([0-9]{1,3})(?:\.[0-9]++)?px")
_CELL_PADDING = re.compile(r' cellpadding="([0-9]{1,3})"')
_MIN_PICTURE_PIXELS = 24
_WIDE_PIXELS = 100

# A parenthesis ends the unquoted form too, so that a row of unclosed ones is read once.
_REMOTE_STYLE_URL = re.compile(r"url\(\s*+[\"']?\s*+(?:https?:)?//", re.IGNORECASE)


def start_tag(name: str, attributes: Mapping[str, str]) -> str:
    """Write a start tag with attributes that may be in double quotes whatever they hold."""
    written = "".join(f' {key}="{entities.escape(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>"


def allowed(name: str, attributes: Mapping[str, str], styles: StyleAttributes) -> dict[str, str]:
    """Return the attributes that an element may keep; the source of an image is none of them."""
    kept = {key: value for key, value in attributes.items() if key in ANYWHERE and _value_of(key).fullmatch(value)}
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
    """Return an address of the web or of mail as a browser reads it, or "" for any other."""
    address = address.translate(_IGNORED_IN_ADDRESSES).strip(_CONTROLS_AND_SPACE)
    return address if _LINK.match(address) else ""


def placeholder(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return what marks an image that is not shown: as a spacer without words, or as too small for its words."""
    stated = dict(_PIXELS.findall(attributes.get("style", "")))
    sizes = [stated.get(side) or attributes.get(side, "") for side in ("width", "height")]
    width, height = (int(size[:5]) if size.isascii() and size.isdigit() else None for size in sizes)
    if alt := attributes.get("alt"):
        return {"role": "img", "title": attributes.get("title", alt)} if (width or _WIDE_PIXELS) < _WIDE_PIXELS else {}
    is_picture = min(width or 0, height or 0) >= _MIN_PICTURE_PIXELS
    return {} if is_picture else {"role": "presentation"}


def fixed_width(attributes: Mapping[str, str]) -> int:
    """Return how many pixels an element takes whatever the screen has, 0 if it adapts; of attributes that may stay."""
    style = attributes.get("style", "")
    if "width:" in style:
        return 0 if "max-width:" in style else max(map(int, _FIXED_WIDTH.findall(style)), default=0)
    width = attributes.get("width", "").removesuffix("px")
    return int(width[:5]) if width.isascii() and width.isdigit() else 0


def inset(tag: str) -> int:
    """Return how many pixels of an element's width its padding takes, as far as its tag says."""
    if "padding" not in tag:
        return 0
    cells = _CELL_PADDING.search(tag)
    left = right = int(cells[1]) if cells else 0
    for side, value in _PADDING.findall(tag):
        found = [_PIXELS_ALONE.match(one) for one in value.split()]
        sizes = [int(one[1]) if one else 0 for one in found] or [0]  # as in a title that says "padding: "
        _, at_right, _, at_left = ([*sizes, sizes[1]] if len(sizes) == 3 else 4 * sizes)[:4]  # noqa: PLR2004 - as in CSS
        left = left if side == "-right" else at_left
        right = right if side == "-left" else at_right
    return left + right


def remote_backgrounds(attributes: Mapping[str, str]) -> int:
    """Return how many remote images the attributes would load behind an element."""
    address = attributes.get("background", "").strip().lower()
    return address.startswith(("http:", "https:", "//")) + len(_REMOTE_STYLE_URL.findall(attributes.get("style", "")))
