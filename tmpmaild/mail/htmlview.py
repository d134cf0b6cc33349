"""A hostile HTML mail made a page for a sandboxed frame; who may see it and with which headers is not here.

The page loads nothing but ``data:`` images, and ``https:`` ones when they are asked for. nh3 repairs tag soup as
browsers do and has the last word on what may stay; ``Bounds`` leaves out before what would cost it much. The addresses
of images are put in after nh3: it need not read megabytes of them, nor allow ``data:``. Styles are written by ``css``
alone: nh3's own filter breaks functions within functions.
"""

import html as entities
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

import nh3
from msgspec import Struct

from tmpmaild.mail import charsets, htmlparts, stylesheets, urls
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.declarations import StyleAttributes
from tmpmaild.mail.htmltext import to_text
from tmpmaild.mail.htmltokens import (
    BLOCKS,
    ELEMENTS,
    FORMATTING,
    INLINE,
    TABLE_PARTS,
    VOIDS,
    address_of,
    attributes_of,
    collapsed,
    names,
    tokens,
    unescaped,
    unescaped_attribute,
)
from tmpmaild.mail.selectors import own_name, own_names
from tmpmaild.mail.viewsheet import DARK_ID, LIGHT_ID, Sheet

MAX_CHARACTERS = 4 * 1024 * 1024
MAX_IMAGE_CHARACTERS = 8 * 1024 * 1024
_MAX_ALT_CHARACTERS = 1000
_MAX_CONTENT_IDS = 1000
_MAX_BODY_CHARACTERS = 4096

# What work takes of the budget, as measured.
_STEPS_A_TAG = 3
_STEPS_A_DIFFERENT_TAG = 5
_STEPS_A_REFERENCE = 5
_ATTRIBUTES_A_STEP = 6
_WALKED_A_STEP = 16
_DEPTH_A_STEP = 32
_REPEATED_CHARACTERS_A_STEP = 128
# nh3 takes quadratic time to write "&" and what begins with 0xC2 in UTF-8, as a no-break space does (U+0080 to U+00BF).
_SQUARE_ESCAPED_A_STEP = 60_000
_TEXT_SHARE = 8  # the part of the steps that is kept to show the text instead

# One set for all elements: an attribute on an element that does not know it does nothing.
ANYWHERE = names(
    "align bgcolor border cellpadding cellspacing class clear color colspan dir face height hspace id lang "
    "leftmargin link marginheight marginwidth noshade nowrap rowspan size span start style text title topmargin type "
    "valign value vlink vspace width"
)
SCHEMES = names("http https mailto")
REL = "noopener noreferrer nofollow"
# Controls work nowhere in a view, but what they hold keeps its place; ``type`` tells our style sheet what it was.
_SHOWN_AS: Final = {"button": "span", "fieldset": "div", "form": "div", "label": "span", "legend": "div"}
_SINGULAR = names("area body html image img style")  # whose tags mean more than themselves
_WRITTEN = ELEMENTS | _SINGULAR | frozenset(_SHOWN_AS)
_CLEANER = nh3.Cleaner(
    tags=ELEMENTS,
    attributes={"*": ANYWHERE, "a": {"href"}, "img": {"src", "alt", "role"}},
    url_schemes=SCHEMES | {"cid"},
    url_relative="deny",
    link_rel=REL,
    set_tag_attribute_values={"a": {"target": "_blank"}, "img": {"referrerpolicy": "no-referrer"}},
)

# Begins the id of the element that a part is shown in, where there are several; those of the mail have a prefix.
_PART = "part-"
_INLINE_IMAGE = re.compile(
    r"data:image/(?:png|gif|jpe?g|webp|bmp|avif);(?:[\w=.-]++;)?base64,[A-Za-z0-9+/=]++", re.IGNORECASE
)
# Browsers take any number of slashes of either kind.
_REMOTE_IMAGE = re.compile(r"(?:https?:[/\\]*+|[/\\]{2,}+)(?=.)", re.IGNORECASE)
_CONTENT_ID = re.compile(r"""=\s*+(?:"\s*+cid:([^"]*+)"|'\s*+cid:([^']*+)'|cid:([^\s"'>]++))""", re.IGNORECASE)
# nh3 writes no bare quote and no bare "<" but in tags, so text cannot look like this.
_NUMBERED_IMAGE = re.compile(r'(?<=<img src=")cid:([0-9]++)(?=")')
_TEXT_NOTE = "<p><em>This mail is too large or too intricate to be shown as it was designed. This is its text.</em></p>"


class View(Struct, frozen=True):
    """A page for a sandboxed frame, and how many remote images the mail would have loaded."""

    html: str
    remote_images: int


def render(html: str, images: Mapping[str, str], *, remote_images: bool, budget: Budget | None = None) -> View:
    """Make a page of the HTML of a mail; never raises. Without the rules, or as text, where it costs too much.

    ``images`` maps Content-IDs without angle brackets to ``data:`` URLs (RFC 2392). A remote image shows its
    alternative text in the size that the mail states, unless remote images are asked for; ``http:`` ones are then
    fetched over ``https:``, since the frame allows no others. The ones counted are those of ``img``, of
    ``background`` attributes and of styles; the latter two are never loaded. Of a mail shown as text those up to
    the bound are counted.
    """
    source = charsets.scrub(html[: MAX_CHARACTERS + 1])
    budget = budget or Budget.of(len(source))
    mail = _Mail(images, budget, remote_images=remote_images)
    if len(html) > MAX_CHARACTERS or not mail.read(htmlparts.separate(source)):
        return View(text_page(to_text(html, budget), _TEXT_NOTE), mail.remote_images)
    return View(mail.page(source), mail.remote_images)


def render_text(text: str) -> View:
    """Make a page of the text of a mail that has no HTML."""
    return View(text_page(text), remote_images=0)


def titled(page: str, title: str, time: str) -> str:
    """Return a page with a title for its tab; on paper the title and the time stand above the mail."""
    printed = _OWN["printed"] % _css_string(f"{title[:_HEAD_CHARACTERS]} · {time}")
    # Without an icon of its own browsers ask for one, which the policy blocks.
    own = f'<title>{entities.escape(title)}</title><link rel="icon" href="data:,"><style>{printed}</style>'
    return page.replace(_END_OF_HEAD, f"{_END_OF_HEAD}{own}", 1)


def served_by(page: str, host: str) -> str:
    """Return a page that says at its top, on a screen, that a service shows what it did not write."""
    said = f"{host} shows you a message that somebody sent to a disposable address. {host} did not write it."
    return page.replace(_END_OF_HEAD, f"{_END_OF_HEAD}<style>{_OWN['served'] % _css_string(said)}</style>", 1)


def content_ids(html: str) -> frozenset[str]:
    """Return the Content-IDs that the HTML may show as images, a thousand at most.

    A quick look at the source: it may name some that ``render`` will not ask for.
    """
    references = {match[1] or match[2] or match[3] for match in _CONTENT_ID.finditer(html[:MAX_CHARACTERS])}
    found = (_content_id(unescaped_attribute(reference or "")) for reference in islice(references, _MAX_CONTENT_IDS))
    return frozenset(found) - {""}


def _content_id(reference: str) -> str:
    """Decode what follows ``cid:`` (RFC 2392, section 2); some clients write the angle brackets too."""
    return unquote(reference).strip().removeprefix("<").removesuffix(">")


class _Tag(NamedTuple):
    """The tag of an element, written anew; a mail has many that are alike."""

    name: str
    text: str
    attributes: dict[str, str]
    remote_images: int
    width: int
    """The pixels that the element takes whatever the screen has, 0 if it adapts."""


class _Mail:
    """One mail on its way to be a page: its markup and the addresses of its images, by number."""

    def __init__(self, images: Mapping[str, str], budget: Budget, *, remote_images: bool) -> None:
        self._images = images
        self._base = ""
        self._loads_remote = remote_images
        self._budget = budget
        self._leave = budget.left // _TEXT_SHARE
        self._bounds = Bounds(budget, leave=self._leave)
        self._parts: list[Bounds] = []
        self._bodies: list[dict[str, str]] = []
        self._sources: list[str] = []
        self._source_characters = 0
        self._styles = StyleAttributes(budget, leave=self._leave)
        self._sheet = Sheet(budget, leave=self._leave)
        self._elements = 0
        self._sheet_media: str | None = ""
        self._remote_images = 0
        self._width = 0
        self._tags: dict[tuple[str, str], _Tag] = {}

    def read(self, sources: Sequence[str]) -> bool:
        """Take in the HTML, part by part; False when it passes a bound."""
        for number, source in enumerate(sources, 1):
            self._begin(f"#{_PART}{number}" if len(sources) > 1 else "")
            if not self._read(source):
                return False
        tags = [start_tag("div", body) for body in self._bodies]
        octets = "".join([*tags, *[part.markup() for part in self._parts]]).encode()
        escaped = octets.count(b"&") + octets.count(b"\xc2")
        return self._budget.take(escaped * escaped // _SQUARE_ESCAPED_A_STEP, leave=self._leave)

    def _begin(self, root: str) -> None:
        """Begin a part, which is a document of its own: in the element ``root``, or in the body of the page."""
        self._bounds, self._sheet_media = Bounds(self._budget, leave=self._leave), ""
        self._parts.append(self._bounds)
        self._bodies.append({})
        self._tags.clear()
        self._sheet.confine(root)

    def _read(self, source: str) -> bool:
        parts = list(tokens(source, self._budget, sheets=True, leave=self._leave))
        self._elements += sum(kind == "start" for kind, _, _ in parts)
        self._base = urls.base_of(parts)
        steps = _steps_of(parts, _STEPS_A_REFERENCE if self._base else 0)
        if self._budget.is_spent or not self._budget.take(steps, leave=self._leave):
            return False
        try:
            for part in parts:
                self._take(*part)
        except TooLargeError:
            return False
        return True

    @property
    def remote_images(self) -> int:
        """How many remote images the mail would have loaded."""
        return self._remote_images + self._sheet.remote_images

    def page(self, source: str) -> str:
        """Return the page of what may stay, with the addresses of its images."""
        bodies = [_CLEANER.clean(start_tag("div", body)) for body in self._bodies]
        markups = [self._with_images(_CLEANER.clean(part.markup())) for part in self._parts]
        body, markup = bodies[0], markups[0]
        if len(self._parts) > 1:
            pairs = enumerate(zip(bodies, markups, strict=True), 1)
            body = "<div></div>"
            markup = "".join(
                f'<div id="{_PART}{number}">{own.removesuffix("</div>")}{held}</div></div>'
                for number, (own, held) in pairs
            )
        sheet = self._sheet.written(self._elements, max(part.depth for part in self._parts))
        # A sheet that asks for the width of the screen adapts the mail to it.
        width = 0 if "(max-width" in sheet else self._width
        has_dark_styles = f"#{DARK_ID}:target" in sheet
        return mail_page(source, body, markup, sheet, has_dark_styles=has_dark_styles, width=width)

    def _with_images(self, markup: str) -> str:
        return _NUMBERED_IMAGE.sub(lambda match: self._sources[int(match[1])], markup)

    def _take(self, kind: str, text: str, attributes: str) -> None:
        if kind == "text":
            self._bounds.text(_escaped(text))
        elif kind == "sheet":
            if self._sheet_media is not None:
                self._sheet.add(text, self._sheet_media)
        elif kind == "start":
            self._start(text, attributes)
        elif (name := _SHOWN_AS.get(text, text)) in ELEMENTS:
            self._bounds.end(name)

    def _start(self, name: str, attributes: str) -> None:
        if name in _SINGULAR:
            self._take_singular(name, self._with_references(attributes_of(attributes)))
            return
        tag = self._tags.get((name, attributes))
        if tag is None:
            found = self._with_references(attributes_of(attributes))
            tag = self._tags[name, attributes] = self._written_anew(name, found)
        self._remote_images += tag.remote_images
        if tag.name not in ELEMENTS:
            return
        if tag.name in VOIDS:
            self._bounds.void(tag.name, tag.text)
        else:
            self._bounds.start(tag.name, tag.text)
        if tag.width and not self._adapts(tag.name, tag.attributes):
            self._width = max(self._width, tag.width + self._inset(tag.name, tag.text))

    def _written_anew(self, name: str, attributes: dict[str, str]) -> "_Tag":
        remote = remote_backgrounds(attributes)
        if name in _SHOWN_AS:
            name, attributes = _SHOWN_AS[name], attributes | {"type": name}
        kept = allowed(name, attributes, self._styles) if name in ELEMENTS else {}
        return _Tag(name, start_tag(name, kept), kept, remote, fixed_width(kept))

    def _take_singular(self, name: str, attributes: dict[str, str]) -> None:
        self._remote_images += remote_backgrounds(attributes)
        if name in ("body", "html"):
            self._take_body(allowed(name, attributes, self._styles))
        elif name == "style":
            self._sheet_media = stylesheets.media_of(attributes)
        elif name == "area":
            self._area(attributes)
        else:
            self._image(attributes)

    def _with_references(self, attributes: dict[str, str]) -> dict[str, str]:
        """Resolve the references in attributes, where the mail has a base for them."""
        for key in _REFERENCES & attributes.keys() if self._base else ():
            attributes[key] = urls.resolve(self._base, attributes[key]) or attributes[key]
        return attributes

    def _area(self, attributes: dict[str, str]) -> None:
        """Write an area of an image map as a link with its alternative text: its picture is hardly ever loaded."""
        if address := link(attributes.get("href", "")):
            self._bounds.text(" ")
            self._bounds.start("a", start_tag("a", {"href": address}))
            self._bounds.text(entities.escape(attributes.get("alt", "")[:_MAX_ALT_CHARACTERS] or address, quote=False))
            self._bounds.end("a")

    def _adapts(self, name: str, attributes: dict[str, str]) -> bool:
        return "width:" not in attributes.get("style", "") and self._sheet.adapts(name, attributes.get("class", ""))

    def _inset(self, name: str, tag: str) -> int:
        """Return the pixels left and right of an element of a fixed width that was just opened; cells shrink."""
        if name == "table" or "box-sizing:border-box" in tag:  # its width includes its own padding
            return self._bounds.inset - inset(tag)
        return self._bounds.inset if name in BLOCKS else 0

    def _take_body(self, attributes: dict[str, str]) -> None:
        """Merge the attributes of ``html`` and of each ``body``; the first counts, styles and classes add up."""
        body = self._bodies[-1]
        merged = {**body, **{key: value for key, value in attributes.items() if key not in body}}
        for key, mark in (("style", ";"), ("class", " ")):
            before, more = body.get(key, ""), attributes.get(key, "")
            if before and more and len(before) < _MAX_BODY_CHARACTERS:
                merged[key] = f"{before}{mark}{more}"
        self._bodies[-1] = merged

    def _image(self, attributes: dict[str, str]) -> None:
        """Write an image; one that cannot be shown has no address, so that a browser shows its alternative text."""
        alt = collapsed(attributes.get("alt", ""))[:_MAX_ALT_CHARACTERS]
        written = {"alt": alt} | allowed("img", attributes, self._styles)
        source = self._source(address_of(attributes.get("src", "")))
        self._source_characters += len(source)
        if source and self._source_characters <= MAX_IMAGE_CHARACTERS:
            self._sources.append(entities.escape(source))
            written = {"src": f"cid:{len(self._sources) - 1}"} | written
        else:
            written |= placeholder(written)
        self._bounds.void("img", start_tag("img", written))

    def _source(self, address: str) -> str:
        """Return the address to load an image from, "" for none or a blocked one; a remote one is counted."""
        if address[:4].lower() == "cid:":
            source = self._images.get(_content_id(address[4:]), "")
            return source if source.startswith("data:image/") else ""
        if remote := _REMOTE_IMAGE.match(address):
            self._remote_images += 1
            return f"https://{address[remote.end() :]}" if self._loads_remote else ""
        address = address.replace(" ", "")
        return address if _INLINE_IMAGE.fullmatch(address) else ""


def _steps_of(parts: list[tuple[str, str, str]], steps_a_reference: int) -> int:
    """Return what it takes to write the tags; those that are alike are written once."""
    tags = [part for part in parts if part[0] in ("start", "end")]
    singular = [part for part in tags if part[1] in _SINGULAR]
    different = [*singular, *{part for part in tags if part[0] == "start" and part[1] not in _SINGULAR}]
    steps = sum(len(attributes) // _ATTRIBUTES_A_STEP for _, _, attributes in different)
    steps += (_STEPS_A_DIFFERENT_TAG + steps_a_reference) * len(different)
    return steps + _STEPS_A_TAG * sum(name in _WRITTEN for _, name, _ in tags)


def _escaped(text: str) -> str:
    """Write text anew, so that a reference or a line end cannot be read in two ways."""
    text = unescaped(text).replace("\r\n", "\n").replace("\r", "\n")
    return entities.escape(text, quote=False)


_REFERENCES = names("background href src")
_SPANS = names("colspan rowspan span")
_SPAN = re.compile(r"[1-9][0-9]?")
_PLAIN = re.compile(r"[\w\s#%.,;:()'\"+/*&-]{0,200}+")
_FREE = names("class id style title")
_RENAMED = {"class": own_names, "id": own_name}
_ANY_TEXT = re.compile(r".{0,4096}+", re.DOTALL)
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f]", re.IGNORECASE)

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
    """Return an address of the web or of mail as a browser reads it, or "" for any other."""
    address = address_of(address)
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


MAX_DEPTH = 256
MAX_MARKUP_CHARACTERS = 1024 * 1024
MAX_FORMATTING = 8  # open in one cell
MAX_REPEATED_CHARACTERS = 256 * 1024  # of formatting that is made anew
_NODE_CHARACTERS = 32  # as which an element counts besides its tag
_MAX_CROSSED = 8  # blocks out of which an end tag moves formatting

_PARAGRAPH = names("p")
_TABLE = names("table")
_HEADINGS = names("h1 h2 h3 h4 h5 h6")
_CELLS = names("caption td th")
_SCOPE = names("caption table td th")
_SPECIAL = BLOCKS | TABLE_PARTS
# An item ends the one before it, whatever of these stands between them.
_PASSED_BY_ITEMS = names("address div p")
_ITEMS = {"li": names("li"), "dd": names("dd dt"), "dt": names("dd dt")}
# What a part of a table lies in.
_PARENTS = {
    "td": names("table tbody tfoot thead tr"),
    "th": names("table tbody tfoot thead tr"),
    "tr": names("table tbody tfoot thead"),
    "col": names("colgroup table"),
}


class TooLargeError(Exception):
    """The markup would pass ``MAX_MARKUP_CHARACTERS``, or what its parser does the budget."""


class _Element:
    """An open element; ``around`` is the formatting that is open around the cell that it is."""

    __slots__ = ("around", "inset", "name", "size")

    def __init__(self, name: str, tag: str) -> None:
        self.name = name
        self.size = len(tag) + _NODE_CHARACTERS
        self.inset = inset(tag)
        self.around: list[_Element] = []


class Bounds:
    """Tag soup written as it comes, without the tags that would cost its parser too much.

    A parser that follows the HTML standard makes unclosed formatting anew in each block, and looks through what is open
    for each tag: 24 KB of ``<b>`` and ``<p>`` become a tree of nearly 1 GiB. So this follows what the parser has open
    (section 13.2.6 of https://html.spec.whatwg.org), as far as the costs depend on it.

    Names must be of the sets above, tags are written as they are given, text must be escaped.
    ``depth`` is how deep they have been nested.
    """

    def __init__(self, budget: Budget | None = None, *, leave: int = 0) -> None:
        self.depth = 0
        self._budget = budget or Budget()
        self._leave = leave
        self._written: list[str] = []
        self._characters = 0
        self._repeatable = MAX_REPEATED_CHARACTERS
        self._open: list[_Element] = []
        # Goes on behind the blocks that end around it, until its own end tag or that of its cell.
        self._formatting: list[_Element] = []
        self._count = Counter[str]()
        self._left_out = Counter[str]()

    @property
    def inset(self) -> int:
        """How many pixels of the width the padding of the open elements takes."""
        return sum(element.inset for element in self._open)

    def markup(self) -> str:
        """Return what was written; the parser closes what is open."""
        return "".join(self._written)

    def text(self, escaped: str) -> None:
        """Write text."""
        if self._written and self._written[-1].startswith("<pre"):
            escaped = escaped.lstrip("\n")  # a parser drops the first, so a second pass would drop another
        if escaped and not escaped.isspace():
            self._repeat_formatting()
        self._write(escaped)

    def void(self, name: str, tag: str) -> None:
        """Write a tag that holds nothing."""
        if name == "hr":
            self._close_innermost(_PARAGRAPH)
        self._repeat_formatting()
        self._write(tag)

    def start(self, name: str, tag: str) -> None:
        """Write the tag of an element; one that lies too deep is left out, not what it holds."""
        if name in TABLE_PARTS:
            if not self._make_room_in_table(name):
                return
        elif name in BLOCKS:
            self._make_room_for_block(name)
        else:
            if name == "a":
                self._end_formatting("a")
            self._repeat_formatting()
        if len(self._open) >= MAX_DEPTH or (name in FORMATTING and not self._may_format()):
            self._left_out[name] += 1
            return
        self._write(tag)
        if name != "col":
            element = _Element(name, tag)
            self._push(element)
            if name in FORMATTING:
                self._formatting.append(element)
            elif name in _CELLS:
                element.around, self._formatting = self._formatting, []

    def end(self, name: str) -> None:
        """Write an end tag, unless its start was left out."""
        if self._left_out[name]:
            self._left_out[name] -= 1
            return
        self._write(f"</{name}>")
        if name in FORMATTING:
            self._end_formatting(name)
        elif name in TABLE_PARTS:
            self._close_innermost(frozenset((name,)), _TABLE)
        elif name in INLINE:
            self._close_innermost(frozenset((name,)), _SPECIAL)
        else:
            self._close_innermost(_HEADINGS if name in _HEADINGS else frozenset((name,)))

    def _write(self, piece: str) -> None:
        self._characters += len(piece)
        if self._characters > MAX_MARKUP_CHARACTERS:
            raise TooLargeError
        self._written.append(piece)

    def _push(self, element: _Element) -> None:
        self._pay(len(self._open) // _DEPTH_A_STEP)
        self._open.append(element)
        self._count[element.name] += 1
        self.depth = max(self.depth, len(self._open))

    def _close_to(self, depth: int) -> None:
        for element in reversed(self._open[depth:]):
            self._count[element.name] -= 1
            if element.name in _CELLS:
                self._formatting = element.around
        del self._open[depth:]

    def _innermost(self, wanted: frozenset[str], barriers: frozenset[str] = _SCOPE) -> int:
        """Return the depth of the innermost open element of these names within the barriers, or -1."""
        if not any(self._count[name] for name in wanted):
            return -1
        for depth in range(len(self._open) - 1, -1, -1):
            name = self._open[depth].name
            if name in wanted or name in barriers:
                self._pay((len(self._open) - depth) // _WALKED_A_STEP)
                return depth if name in wanted else -1
        self._pay(len(self._open) // _WALKED_A_STEP)
        return -1

    def _pay(self, steps: int) -> None:
        """Count what takes long here and in the parser."""
        if steps and not self._budget.take(steps, leave=self._leave):
            raise TooLargeError

    def _close_innermost(self, wanted: frozenset[str], barriers: frozenset[str] = _SCOPE) -> None:
        depth = self._innermost(wanted, barriers)
        if depth >= 0:
            self._close_to(depth)

    def _make_room_for_block(self, name: str) -> None:
        if name in _ITEMS:
            self._close_innermost(_ITEMS[name], _SPECIAL - _PASSED_BY_ITEMS)
        self._close_innermost(_PARAGRAPH)
        if name in _HEADINGS and self._open and self._open[-1].name in _HEADINGS:
            self._close_to(len(self._open) - 1)

    def _make_room_in_table(self, name: str) -> bool:
        """Close what ends before a part of a table; False where there is no table for it."""
        if name == "table":
            depth = self._innermost(_SCOPE)
            if depth >= 0 and self._open[depth].name == "table":  # a table between cells ends the one around it
                self._close_to(depth)
            self._close_innermost(_PARAGRAPH)
            return True
        depth = self._innermost(_PARENTS.get(name, _TABLE), frozenset())
        if depth >= 0:
            self._close_to(depth + 1)
        return depth >= 0

    def _may_format(self) -> bool:
        return len(self._formatting) < MAX_FORMATTING and self._repeatable > 0

    def _repeat_formatting(self) -> None:
        """Count what the parser makes anew before text: the formatting whose block has ended."""
        if not self._formatting:
            return
        ended = list(takewhile(lambda element: element not in self._open, reversed(self._formatting)))
        self._pay(len(ended) + sum(element.size for element in ended) // _REPEATED_CHARACTERS_A_STEP)
        for element in ended if self._repeatable <= 0 else ():
            self._write(f"</{element.name}>")
            self._formatting.remove(element)
        for element in reversed(ended) if self._repeatable > 0 else ():
            self._repeatable -= element.size
            self._push(element)

    def _end_formatting(self, name: str) -> None:
        element = next((one for one in reversed(self._formatting) if one.name == name), None)
        if element is None:
            self._close_innermost(frozenset((name,)), _SPECIAL)
        elif element not in self._open:
            self._formatting.remove(element)
        else:
            self._move_formatting(element, self._open.index(element))

    def _move_formatting(self, element: _Element, depth: int) -> None:
        """End formatting as the parser does: moved into each block that lies in it, with what lies between them."""
        inner = self._open[depth + 1 :]
        crossed = sum(one.name in _SPECIAL for one in inner)
        if any(one.name == "table" for one in inner):
            return
        if not crossed:
            self._close_to(depth)
        else:
            self._count[element.name] -= 1
            del self._open[depth]
            self._repeatable -= crossed * sum(one.size for one in self._formatting)
        if crossed < _MAX_CROSSED:
            self._formatting.remove(element)


_HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f'<meta name="referrer" content="no-referrer" id="{LIGHT_ID}"><base target="_blank">'
)
_STANDARD = "<!doctype html>"
# Images in cells leave no gap for descenders, as senders of such mails expect.
_ALMOST_STANDARD = '<!doctype html public "-//W3C//DTD XHTML 1.0 Transitional//EN">'
_END_OF_HEAD = '<base target="_blank">'
_HEAD_CHARACTERS = 300
_DOCTYPE = re.compile(r"(?is)(?>(?:[\s\ufeff]++|<!--.*?-->|<\?[^>]*+>)*)<!doctype\s++html\b([^>]*+)>")
_DOCTYPE_CHARACTERS = 10_000
_ALMOST = re.compile(r"xhtml 1\.0 (?:transitional|frameset)|html 4\.01 (?:transitional|frameset).*http", re.DOTALL)
_QUIRKY = re.compile(r"html (?:2|3|4\.0\b(?!1)|4\.01 (?:transitional|frameset))")


def _parts_of(sheet: str) -> dict[str, str]:
    """Return the parts of ``view.css``, each by the name in the comment that begins it, without comments."""
    parts, name = {"": ""}, ""
    for piece in sheet.split("/*"):
        comment, _, rules = piece.rpartition("*/")
        title, colon, _ = comment.strip().partition(": ")
        if colon and title.isidentifier():
            name = title
        parts[name] = parts.get(name, "") + "".join([line.strip() for line in rules.splitlines()])
    return parts


_OWN = _parts_of(Path(__file__).with_name("view.css").read_text("utf-8"))
_SIZE = '<input type="checkbox" id="size" aria-label="100 %">'
_NARROWEST, _WIDEST, _STEP, _MARGINS = 240, 2000, 20, 16
_INVERTED = "filter:invert(1) hue-rotate(180deg)"
_GROUND = re.compile(r'(?i)(?:\bbgcolor="|\bbackground(?:-color)?:)\s*+(#(?:[0-9a-f]{6}|[0-9a-f]{3})\b|[a-z]++)')
_GROUND_CHARACTERS = 4096
_BEGINNING_CHARACTERS = 64 * 1024  # with the white space that is not counted
_DARK_SUM = 12  # of three digits, each up to 15
_DARK = f":root:has(#{DARK_ID}:target),:root:has(#{DARK_ID}:target) img[src]{{{_INVERTED}}}"


def mail_page(source: str, body: str, markup: str, sheet: str, *, has_dark_styles: bool = False, width: int = 0) -> str:
    """Return the page of a sanitised mail.

    ``body`` is an empty ``div`` with the attributes of the mail's body, none if its parts have their own. ``markup`` is
    what it holds, ``sheet`` is the style sheet of the mail, all harmless; of ``source``, the mail as it came, only the
    doctype is looked at. ``width`` are the pixels that the mail takes whatever the frame has: in a narrower one it is
    shown smaller.
    """
    doctype, quirks = _mode(source)
    fit = _fit(width + _MARGINS) if _NARROWEST < width <= _WIDEST else ""
    beginnings = [collapsed(text[:_BEGINNING_CHARACTERS])[:_GROUND_CHARACTERS] for text in (body, markup)]
    is_dark = has_dark_styles or has_dark_ground("".join(beginnings))
    own = f"{_OWN['mail']}{quirks}{fit}{'' if is_dark else _DARK}"
    styles = f'<style id="{DARK_ID}">{own}</style>' + (f"<style>{sheet}</style>" if sheet else "")
    opened = body.removeprefix("<div").removesuffix("</div>")
    return f"{doctype}{_HEAD}{styles}<body{opened}{markup}{_SIZE if fit else ''}</body>"


def has_dark_ground(markup: str) -> bool:
    """Return whether the first background that is stated is dark: such a mail stays as it is for dark readers."""
    ground = _GROUND.search(markup)
    if ground is None or not ground[1].startswith("#"):
        return ground is not None and ground[1].lower() == "black"
    digits = ground[1].removeprefix("#")
    parts = digits if len(digits) == 3 else digits[::2]  # noqa: PLR2004 - #rgb and #rrggbb; the second digits say little
    return sum(int(part, 16) for part in parts) <= _DARK_SUM


def _fit(width: int) -> str:
    steps = range((width - 1) // _STEP * _STEP, _NARROWEST - 1, -_STEP)
    sizes = (
        f"@media screen and (max-width:{step + _STEP - 1}px){{body{{--fit:{step / width:.3f}}}}}" for step in steps
    )
    return _OWN["fit"] % (width - 1) + "".join(sizes)


def text_page(text: str, note: str = "") -> str:
    """Return a page that shows a text as it is, after a note in HTML."""
    return f"{_STANDARD}{_HEAD}<style>{_OWN['text']}</style>{note}<pre>\n{entities.escape(text, quote=False)}</pre>"


def _css_string(text: str) -> str:
    """Write a text as a string of CSS, with nothing in it that could end the string or its element."""
    return '"' + re.sub(r"[^\w .@:-]", lambda match: f"\\{ord(match[0]):x} ", text, flags=re.ASCII) + '"'


def _mode(source: str) -> tuple[str, str]:
    """Return a doctype and styles for the mode in which browsers would show the mail (HTML standard, 13.2.6.4.1)."""
    doctype = _DOCTYPE.match(source[:_DOCTYPE_CHARACTERS])
    identifiers = doctype[1].lower() if doctype else ""
    if _ALMOST.search(identifiers):
        return _ALMOST_STANDARD, ""
    if doctype is None or _QUIRKY.search(identifiers):
        return _ALMOST_STANDARD, _OWN["quirks"]
    return _STANDARD, ""
