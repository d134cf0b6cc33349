"""Renders a hostile message's HTML as a page for a sandboxed frame; access and response headers are handled elsewhere.

The page loads only ``data:`` images and, on request, ``https:`` images. nh3 repairs tag soup as browsers do, and makes
the final decision on what is allowed. Before nh3 runs, ``Bounds`` omits markup that would be costly for it. Image
addresses are inserted after nh3 has run, so nh3 need not process megabytes of addresses or allow ``data:``. Styles are
not filtered by nh3, because its filter breaks nested functions.
"""

import html as entities
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import nh3
from msgspec import Struct

from tmpmaild.mail import charsets, htmlparts, stylesheets, urls
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.contentids import content_id
from tmpmaild.mail.declarations import StyleAttributes
from tmpmaild.mail.htmltext import to_text
from tmpmaild.mail.htmltokens import (
    BLOCKS,
    ELEMENTS,
    VOIDS,
    address_of,
    attributes_of,
    collapsed,
    names,
    tokens,
    unescaped,
)
from tmpmaild.mail.tagsoup import Bounds, TooLargeError
from tmpmaild.mail.viewattributes import (
    ANYWHERE,
    allowed,
    fixed_width,
    inset,
    link,
    placeholder,
    remote_backgrounds,
    start_tag,
)
from tmpmaild.mail.viewpage import mail_page, text_page
from tmpmaild.mail.viewsheet import DARK_ID, Sheet

MAX_CHARACTERS = 4 * 1024 * 1024
MAX_IMAGE_CHARACTERS = 8 * 1024 * 1024
_MAX_ALT_CHARACTERS = 1000
_MAX_BODY_CHARACTERS = 4096
# The measured cost of work, in budget steps.
_STEPS_PER_TAG = 3
_STEPS_PER_DIFFERENT_TAG = 5
_STEPS_PER_REFERENCE = 5
_ATTRIBUTES_PER_STEP = 6
# nh3 takes quadratic time to write "&" and U+0080 to U+00BF, which start with 0xC2 in UTF-8, such as a no-break space.
_SQUARE_ESCAPED_PER_STEP = 60_000
_TEXT_SHARE = 8  # one step in eight is reserved for showing only the text
_STRUCTURE_SHARE = 8  # a style sheet leaves one in eight of the remaining steps for the structure
_STYLED_PER_STEP = 2  # characters of attributes per step
_WORDS_PER_STEP = 64  # characters of attributes per step
SCHEMES = names("http https mailto")
REL = "noopener noreferrer nofollow"
# Form controls do not work in a view, but their content is kept; ``type`` identifies the control for our style sheet.
_SHOWN_AS: Final = {"button": "span", "fieldset": "div", "form": "div", "label": "span", "legend": "div"}
_SINGULAR = names("area body html image img style")  # elements with special handling
_WRITTEN = ELEMENTS | _SINGULAR | frozenset(_SHOWN_AS)
_REFERENCES = names("background href src")
_CLEANER = nh3.Cleaner(
    tags=ELEMENTS,
    attributes={"*": ANYWHERE, "a": {"href"}, "img": {"src", "alt", "role"}},
    url_schemes=SCHEMES | {"cid"},
    url_relative="deny",
    link_rel=REL,
    set_tag_attribute_values={"a": {"target": "_blank"}, "img": {"referrerpolicy": "no-referrer"}},
)
# The id prefix for elements that show parts, if a message has several. Ids in the message have a different prefix.
_PART = "part-"
_INLINE_IMAGE = re.compile(
    r"data:image/(?:png|gif|jpe?g|webp|bmp|avif);(?:[\w=.-]++;)?base64,[A-Za-z0-9+/=]++", re.IGNORECASE
)
# Browsers accept any number of slashes of either kind.
_REMOTE_IMAGE = re.compile(r"(?:https?:[/\\]*+|[/\\]{2,}+)(?=.)", re.IGNORECASE)
_words = re.compile(r"[\w-]+").findall
# nh3 writes unescaped quotes and "<" only in tags, so text cannot match this pattern.
_NUMBERED_IMAGE = re.compile(r'(?<=<img src=")cid:([0-9]++)(?=")')
_TEXT_NOTE = (
    "<p><em>This message is too large or too complex to be shown as it was designed. This is its text.</em></p>"
)


class View(Struct, frozen=True):
    """A page for a sandboxed frame, and the number of remote images that the message would have loaded."""

    html: str
    remote_images: int


def render(html: str, images: Mapping[str, str], *, remote_images: bool, budget: Budget | None = None) -> View:
    """Render the HTML of a message; never raises.

    If the HTML is too costly to render, style rules are omitted, or only text is shown. ``images`` maps Content-IDs
    without angle brackets to ``data:`` URLs (RFC 2392). Unless ``remote_images`` are requested, a remote image shows
    its alternative text at its declared size. If they are requested, ``http:`` images are fetched over ``https:``,
    because the frame allows nothing else. Remote images of ``img`` elements, ``background`` attributes and styles are
    counted, but only ``img`` elements may load them. If the message is shown as text, only the remote images before the
    limit was reached are counted.
    """
    source = charsets.scrub(html[: MAX_CHARACTERS + 1])
    budget = budget or Budget.of(len(source))
    mail = _Mail(images, budget, remote_images=remote_images)
    if len(html) > MAX_CHARACTERS or not mail.read(htmlparts.separate(source)):
        return View(text_page(to_text(html, budget), _TEXT_NOTE), mail.remote_images)
    return View(mail.page(source), mail.remote_images)


def render_text(text: str) -> View:
    """Render the text of a message without HTML."""
    return View(text_page(text), remote_images=0)


class _Tag(NamedTuple):
    """The rewritten tag of an element. Many tags of a message are identical."""

    name: str
    text: str
    attributes: dict[str, str]
    remote_images: int
    width: int
    """The fixed width of the element in pixels, or 0 if it adapts to the screen."""


class _Mail:
    """The state of rendering one message: its markup, and the numbered addresses of its images."""

    def __init__(self, images: Mapping[str, str], budget: Budget, *, remote_images: bool) -> None:
        self._images = images
        self._base = ""
        self._loads_remote = remote_images
        self._budget = budget
        self._reserved = budget.remaining // _TEXT_SHARE
        self._bounds = Bounds(budget, reserved=self._reserved)
        self._parts: list[Bounds] = []
        self._bodies: list[dict[str, str]] = []
        self._sources: list[str] = []
        self._source_characters = 0
        self._styles = StyleAttributes(budget)
        self._sheet = Sheet(budget)
        self._elements = 0
        self._sheet_media: str | None = ""
        self._remote_images = 0
        self._width = 0
        self._tags: dict[tuple[str, str], _Tag] = {}

    def read(self, sources: Sequence[str]) -> bool:
        """Read the HTML, part by part; return False if it exceeds a limit."""
        for number, source in enumerate(sources, 1):
            self._begin(f"#{_PART}{number}" if len(sources) > 1 else "")
            if not self._read(source):
                return False
        tags = [start_tag("div", body) for body in self._bodies]
        encoded = "".join([*tags, *[part.markup() for part in self._parts]]).encode()
        escaped = encoded.count(b"&") + encoded.count(b"\xc2")
        return self._budget.take(escaped * escaped // _SQUARE_ESCAPED_PER_STEP, reserved=self._reserved)

    def _begin(self, root: str) -> None:
        """Start a part (a separate document) in the element ``root``, or in the body of the page."""
        self._bounds, self._sheet_media = Bounds(self._budget, reserved=self._reserved), ""
        self._parts.append(self._bounds)
        self._bodies.append({})
        self._tags.clear()
        self._sheet.confine(root)

    def _read(self, source: str) -> bool:
        parts = list(tokens(source, self._budget, sheets=True, reserved=self._reserved))
        self._elements += sum(kind == "start" for kind, _, _ in parts)
        self._base = urls.base_of(parts)
        steps = _steps_of(parts, _STEPS_PER_REFERENCE if self._base else 0)
        if self._budget.is_spent or not self._budget.take(steps, reserved=self._reserved):
            return False
        self._reserve(parts)
        try:
            for part in parts:
                self._take(*part)
        except TooLargeError:
            return False
        return True

    def _reserve(self, parts: list[tuple[str, str, str]]) -> None:
        """Reserve steps for the structure and the style attributes, because a large style sheet could use all steps.

        Without steps for the structure, only the text is shown. Without steps for the attributes, a message whose rules
        an inliner has copied into them would lose its colours.
        """
        available = self._budget.remaining - self._reserved
        structure = available // _STRUCTURE_SHARE
        styled = {attributes for kind, _, attributes in parts if kind == "start" and "style" in attributes}
        attributes = min(available // 2, sum(map(len, styled)) // _STYLED_PER_STEP)
        self._styles.reserved = self._reserved + structure // 2
        self._sheet.reserved = self._reserved + structure + attributes
        self._sheet.words = self._words_of({attributes for kind, _, attributes in parts if kind == "start"})

    def _words_of(self, attributes: set[str]) -> set[str] | None:
        """Return all words in the attributes, among them all classes and ids; None if that costs too much."""
        text = " ".join(attributes)
        steps = len(text) // _WORDS_PER_STEP + text.count("&")
        if steps > self._budget.remaining - self._sheet.reserved:
            return None
        self._budget.take(steps)
        return {*_words(text), *(_words(unescaped(text)) if "&" in text else ())}

    @property
    def remote_images(self) -> int:
        """The number of remote images that the message would have loaded."""
        return self._remote_images + self._sheet.remote_images

    def page(self, source: str) -> str:
        """Return the page with the sanitised HTML and the addresses of its images."""
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
        # A style sheet that queries the width of the screen adapts the message to the screen.
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
        """Resolve the references in attributes if the message has a base URL."""
        for key in _REFERENCES & attributes.keys() if self._base else ():
            attributes[key] = urls.resolve(self._base, attributes[key]) or attributes[key]
        return attributes

    def _area(self, attributes: dict[str, str]) -> None:
        """Write an area of an image map as a link with its alternative text, because its image is rarely loaded."""
        if address := link(attributes.get("href", "")):
            self._bounds.text(" ")
            self._bounds.start("a", start_tag("a", {"href": address}))
            self._bounds.text(entities.escape(attributes.get("alt", "")[:_MAX_ALT_CHARACTERS] or address, quote=False))
            self._bounds.end("a")

    def _adapts(self, name: str, attributes: dict[str, str]) -> bool:
        return "width:" not in attributes.get("style", "") and self._sheet.adapts(name, attributes.get("class", ""))

    def _inset(self, name: str, tag: str) -> int:
        """Return the total padding in pixels around a fixed-width element that has just been opened; 0 for a cell."""
        if name == "table" or "box-sizing:border-box" in tag:  # such a width includes the element's padding
            return self._bounds.inset - inset(tag)
        return self._bounds.inset if name in BLOCKS else 0

    def _take_body(self, attributes: dict[str, str]) -> None:
        """Merge the attributes of ``html`` and each ``body``.

        Styles and classes are combined; for all other attributes, the first value is used.
        """
        body = self._bodies[-1]
        merged = {**body, **{key: value for key, value in attributes.items() if key not in body}}
        for key, mark in (("style", ";"), ("class", " ")):
            before, more = body.get(key, ""), attributes.get(key, "")
            if before and more and len(before) < _MAX_BODY_CHARACTERS:
                merged[key] = f"{before}{mark}{more}"
        self._bodies[-1] = merged

    def _image(self, attributes: dict[str, str]) -> None:
        """Write an image, without an address if it cannot be shown, so that a browser shows its alternative text."""
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
        """Return the address to load an image from, or "" if it is missing or blocked; count remote images."""
        if address[:4].lower() == "cid:":
            source = self._images.get(content_id(address[4:]), "")
            return source if source.startswith("data:image/") else ""
        if remote := _REMOTE_IMAGE.match(address):
            self._remote_images += 1
            return f"https://{address[remote.end() :]}" if self._loads_remote else ""
        address = address.replace(" ", "")
        return address if _INLINE_IMAGE.fullmatch(address) else ""


def _steps_of(parts: list[tuple[str, str, str]], steps_a_reference: int) -> int:
    """Return the budget steps for writing the tags; identical tags are written once."""
    tags = [part for part in parts if part[0] in ("start", "end")]
    singular = [part for part in tags if part[1] in _SINGULAR]
    different = [*singular, *{part for part in tags if part[0] == "start" and part[1] not in _SINGULAR}]
    steps = sum(len(attributes) // _ATTRIBUTES_PER_STEP for _, _, attributes in different)
    steps += (_STEPS_PER_DIFFERENT_TAG + steps_a_reference) * len(different)
    return steps + _STEPS_PER_TAG * sum(name in _WRITTEN for _, name, _ in tags)


def _escaped(text: str) -> str:
    """Rewrite text so that references and line ends have only one interpretation."""
    text = unescaped(text).replace("\r\n", "\n").replace("\r", "\n")
    return entities.escape(text, quote=False)
