"""A hostile HTML mail made a page for a sandboxed frame; who may see it and with which headers is not here.

The page loads nothing but ``data:`` images, and ``https:`` ones when they are asked for. nh3 repairs the mail by the
HTML standard and has the last word on what may stay; what would cost it much is left out before. The addresses of images are put in after nh3: it need not read megabytes of them, nor allow ``data:``. Styles are
written by ``cssdeclarations`` and ``csssheets`` alone: nh3's own filter breaks functions within functions.
"""

import html as entities
import re
from collections.abc import Mapping
from itertools import islice
from typing import Final
from urllib.parse import unquote

import nh3
from msgspec import Struct

from tmpmaild.mail import charsets, htmltokens, htmltree
from tmpmaild.mail.css import StyleAttributes
from tmpmaild.mail.htmltext import to_text
from tmpmaild.mail.htmltokens import Budget, attributes_of, tokens, unescaped, unescaped_attribute
from tmpmaild.mail.sheets import DARK_ID, LIGHT_ID, Sheet

_HEAD = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f'<meta name="referrer" content="no-referrer" id="{LIGHT_ID}"><base target="_blank">'
)
_STANDARD = "<!doctype html>"
# Images in cells leave no gap for descenders, as senders of such mails expect.
_ALMOST_STANDARD = '<!doctype html public "-//W3C//DTD XHTML 1.0 Transitional//EN">'
_END_OF_HEAD = '<base target="_blank">'
_PRINTED = (
    '<link rel="icon" href="data:,">'  # else browsers ask for one, which the policy blocks
    # Rows of layout tables are taller than what is left of a page.
    "<style>@media print{:where(body){margin:0}:where(img,li,tr:not(:has(table,div,p,ul,ol))){break-inside:avoid}"
    # An element of its own would no longer leave the mail's first one the first.
    "body::before{content:%s;display:block;margin-bottom:1em;border-bottom:1px solid;"
    "font:13px/2 sans-serif;overflow-wrap:anywhere}}</style>"
)
_HEAD_CHARACTERS = 300
_DOCTYPE = re.compile(r"(?is)(?>(?:[\s\ufeff]++|<!--.*?-->|<\?[^>]*+>)*)<!doctype\s++html\b([^>]*+)>")
_DOCTYPE_CHARACTERS = 10_000
_ALMOST = re.compile(r"xhtml 1\.0 (?:transitional|frameset)|html 4\.01 (?:transitional|frameset).*http", re.DOTALL)
_QUIRKY = re.compile(r"html (?:2|3|4\.0\b(?!1)|4\.01 (?:transitional|frameset))")

# Mails are written for white paper: their colours cannot be turned dark one by one.
_MAIL_STYLE = (
    ":root{color-scheme:only light;font-family:Helvetica,Arial,sans-serif;overflow-wrap:break-word}"
    ":where(body:not([bgcolor])){background:#fff}"
    # A share of a cell's width would let the cell shrink, so images in tables are held by the frame's only.
    ":where(img){max-width:100%}:where(table img){max-width:100vw}"
    # A blocked image has no address: it has the size that the mail states, or that of its alternative text.
    ":where(img:not([src])){display:inline-block;overflow:hidden;font-size:max(12px,1em);line-height:normal}"
    ":where(img:not([src],[role=presentation])){outline:1px solid #8886;outline-offset:-1px;background:#8881}"
    ":where(img:not([src])[role=img]){white-space:nowrap}"
    ":where(span[type=button]){display:inline-block;padding:1px 6px;border:1px solid #767676;border-radius:3px;"
    "background:#efefef;color:#000;font:13.33px Arial,sans-serif;text-align:center}"
    ":where(div[type=fieldset]){margin:0 2px;padding:.35em .75em .625em;border:2px groove silver}"
)
# What browsers do in the mode for pages without a doctype, where mails differ from it most.
_QUIRKS = (
    # "initial" as a size would not be made smaller with the mail by Firefox.
    ":where(table){font-weight:initial;font-style:initial;font-variant:initial;font-size:medium;line-height:initial;"
    "white-space:initial;text-align:initial}"
)
# A mail that is wider than its frame is shown smaller, in steps, until its reader ticks the box in the corner. That is
# at the top: the lower end of the frame is out of sight until the page is scrolled.
_FIT = (
    "body{zoom:var(--fit,1)}body:has(#size:checked){--fit:1}:where(table img){max-width:calc(100vw / var(--fit,1))}"
    "#size{display:none}@media screen and (max-width:%dpx){#size{display:block;position:fixed;margin:0;appearance:none;"
    "right:calc(8px / var(--fit,1));top:calc(8px / var(--fit,1));width:calc(36px / var(--fit,1));height:calc(36px / "
    "var(--fit,1));border-radius:50%%;background:#2229;color:#fff;text-align:center;cursor:pointer;"
    "font:calc(20px / var(--fit,1))/1.8 sans-serif}#size::before{content:'\\2922'}#size:checked{opacity:.5}}"
)
_SIZE = '<input type="checkbox" id="size" aria-label="100 %">'
_NARROWEST, _WIDEST, _STEP, _MARGINS = 240, 2000, 20, 16
_INVERTED = "filter:invert(1) hue-rotate(180deg)"
_DARK = f":root:has(#{DARK_ID}:target),:root:has(#{DARK_ID}:target) img[src]{{{_INVERTED}}}"
_TEXT_STYLE = (
    "<style>:root{color-scheme:light dark}body{margin:16px;font:15px/1.5 system-ui,sans-serif}"
    "pre{font:inherit;white-space:pre-wrap;overflow-wrap:anywhere}</style>"
)


def mail_page(source: str, body: str, markup: str, sheet: str, *, has_dark_styles: bool = False, width: int = 0) -> str:
    """Return the page of a sanitised mail.

    ``body`` is an empty ``div`` with the attributes of the mail's body, ``markup`` is what it holds, ``sheet`` is the
    style sheet of the mail, all harmless; of ``source``, the mail as it came, only the doctype is looked at. ``width``
    are the pixels that the mail takes whatever the frame has: in a narrower one it is shown smaller.
    """
    doctype, quirks = _mode(source)
    fit = _fit(width + _MARGINS) if _NARROWEST < width <= _WIDEST else ""
    own = f"{_MAIL_STYLE}{quirks}{fit}{'' if has_dark_styles else _DARK}"
    styles = f'<style id="{DARK_ID}">{own}</style>' + (f"<style>{sheet}</style>" if sheet else "")
    opened = body.removeprefix("<div").removesuffix("</div>")
    return f"{doctype}{_HEAD}{styles}<body{opened}{markup}{_SIZE if fit else ''}</body>"


def _fit(width: int) -> str:
    steps = range((width - 1) // _STEP * _STEP, _NARROWEST - 1, -_STEP)
    sizes = (
        f"@media screen and (max-width:{step + _STEP - 1}px){{body{{--fit:{step / width:.3f}}}}}" for step in steps
    )
    return _FIT % (width - 1) + "".join(sizes)


def text_page(text: str, note: str = "") -> str:
    """Return a page that shows a text as it is, after a note in HTML."""
    return f"{_STANDARD}{_HEAD}{_TEXT_STYLE}{note}<pre>\n{entities.escape(text, quote=False)}</pre>"


def titled(page: str, title: str, time: str) -> str:
    """Return a page with a title for its tab; on paper the title and the time stand above the mail."""
    printed = _PRINTED % _css_string(f"{title[:_HEAD_CHARACTERS]} · {time}")
    return page.replace(_END_OF_HEAD, f"{_END_OF_HEAD}<title>{entities.escape(title)}</title>{printed}", 1)


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
        return _ALMOST_STANDARD, _QUIRKS
    return _STANDARD, ""


MAX_CHARACTERS = 4 * 1024 * 1024
MAX_TAGS = 20_000
MAX_IMAGE_CHARACTERS = 8 * 1024 * 1024
# nh3 takes quadratic time to write "&" and what begins with 0xC2 in UTF-8, as a no-break space does (U+0080 to U+00BF):
# 0.1 s for so many in a row, 3 s for eight times as many.
MAX_ESCAPED = 50_000
_MAX_ALT_CHARACTERS = 1000
_MAX_CONTENT_IDS = 1000
_MAX_BODY_CHARACTERS = 4096

_ELEMENTS: Final = htmltree.FORMATTING | htmltree.INLINE | htmltree.BLOCKS | htmltree.VOIDS | htmltree.TABLE_PARTS
# Controls work nowhere in a view, but what they hold keeps its place; ``type`` tells our style sheet what it was.
_SHOWN_AS: Final = {"button": "span", "fieldset": "div", "form": "div", "label": "span", "legend": "div"}
_CLEANER = nh3.Cleaner(
    tags=_ELEMENTS,
    attributes={"*": htmltokens.ANYWHERE, "a": {"href"}, "img": {"src", "alt", "role"}},
    url_schemes=htmltokens.SCHEMES | {"cid"},
    url_relative="deny",
    link_rel=htmltokens.REL,
    set_tag_attribute_values={"a": {"target": "_blank"}, "img": {"referrerpolicy": "no-referrer"}},
)

_INLINE_IMAGE = re.compile(
    r"data:image/(?:png|gif|jpe?g|webp|bmp|avif);(?:[\w=.-]++;)?base64,[A-Za-z0-9+/=]++", re.IGNORECASE
)
# Browsers take any number of slashes of either kind.
_REMOTE_IMAGE = re.compile(r"(?:https?:[/\\]*+|[/\\]{2,}+)(?=.)", re.IGNORECASE)
_IGNORED_IN_ADDRESSES = str.maketrans("", "", "\t\n\r")
_CONTENT_ID = re.compile(r"""=\s*+(?:"\s*+cid:([^"]*+)"|'\s*+cid:([^']*+)'|cid:([^\s"'>]++))""", re.IGNORECASE)
# nh3 writes no bare quote and no bare "<" but in tags, so text cannot look like this.
_NUMBERED_IMAGE = re.compile(r'(?<=<img src=")cid:([0-9]++)(?=")')

_TEXT_NOTE = "<p><em>This mail is too large or too intricate to be shown as it was designed. This is its text.</em></p>"


class View(Struct, frozen=True):
    """A page for a sandboxed frame, and how many remote images the mail would have loaded."""

    html: str
    remote_images: int


def render(html: str, images: Mapping[str, str], *, remote_images: bool) -> View:
    """Make a page of the HTML of a mail; never raises, and what costs too much is shown as text.

    ``images`` maps Content-IDs without angle brackets to ``data:`` URLs (RFC 2392). A remote image shows its
    alternative text in the size that the mail states, unless remote images are asked for; ``http:`` ones are then
    fetched over ``https:``, since the frame allows no others. The ones counted are those of ``img``, of
    ``background`` attributes and of styles; the latter two are never loaded. Of a mail shown as text those up to
    the bound are counted.
    """
    mail = _Mail(images, remote_images=remote_images)
    source = charsets.scrub(html[: MAX_CHARACTERS + 1])
    if len(html) > MAX_CHARACTERS or not mail.read(source):
        return View(text_page(to_text(html), _TEXT_NOTE), mail.remote_images)
    return View(mail.page(source), mail.remote_images)


def render_text(text: str) -> View:
    """Make a page of the text of a mail that has no HTML."""
    return View(text_page(text), remote_images=0)


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


class _Mail:
    """One mail on its way to be a page: its markup and the addresses of its images, by number."""

    def __init__(self, images: Mapping[str, str], *, remote_images: bool) -> None:
        self._images = images
        self._loads_remote = remote_images
        self._bounds = htmltree.Bounds(htmltokens.inset)
        self._sources: list[str] = []
        self._source_characters = 0
        self._styles = StyleAttributes()
        self._sheet = Sheet()
        self._elements = 0
        self._sheet_media: str | None = ""
        self._body: dict[str, str] = {}
        self._markup = ""
        self._remote_images = 0
        self._width = 0

    def read(self, source: str) -> bool:
        """Take in the HTML; False when it passes a bound."""
        tags = 0
        try:
            for kind, text, attributes in tokens(source, Budget(), sheets=True):
                tags += kind != "text"
                self._elements += kind == "start"
                if tags > MAX_TAGS:
                    return False
                self._take(kind, text, attributes)
            self._markup = self._bounds.markup()
        except htmltree.TooLargeError:
            return False
        octets = self._markup.encode()
        return octets.count(b"&") + octets.count(b"\xc2") <= MAX_ESCAPED

    @property
    def remote_images(self) -> int:
        """How many remote images the mail would have loaded."""
        return self._remote_images + self._sheet.remote_images

    def page(self, source: str) -> str:
        """Return the page of what may stay, with the addresses of its images."""
        body = _CLEANER.clean(htmltokens.start_tag("div", self._body))
        markup = _NUMBERED_IMAGE.sub(lambda match: self._sources[int(match[1])], _CLEANER.clean(self._markup))
        sheet = self._sheet.written(self._elements, self._bounds.depth)
        # A sheet that asks for the width of the screen adapts the mail to it.
        width = 0 if "(max-width" in sheet else self._width
        has_dark_styles = f"#{DARK_ID}:target" in sheet
        return mail_page(source, body, markup, sheet, has_dark_styles=has_dark_styles, width=width)

    def _take(self, kind: str, text: str, attributes: str) -> None:
        if kind == "text":
            self._bounds.text(_escaped(text))
        elif kind == "sheet":
            if self._sheet_media is not None:
                self._sheet.add(text, self._sheet_media)
        elif kind == "start":
            self._start(text, attributes_of(attributes))
        elif (name := _SHOWN_AS.get(text, text)) in _ELEMENTS:
            self._bounds.end(name)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._remote_images += htmltokens.remote_backgrounds(attributes)
        if name in _SHOWN_AS:
            name, attributes = _SHOWN_AS[name], attributes | {"type": name}
        if name in ("body", "html"):
            self._take_body(self._allowed(name, attributes))
        elif name == "style":
            self._sheet_media = attributes.get("media", "") if _is_css(attributes) else None
        elif name in ("img", "image"):
            self._image(attributes)
        elif name in _ELEMENTS:
            kept = self._allowed(name, attributes)
            tag = htmltokens.start_tag(name, kept)
            if name in htmltree.VOIDS:
                self._bounds.void(name, tag)
            else:
                self._bounds.start(name, tag)
            if (width := htmltokens.fixed_width(kept)) and not self._adapts(name, kept):
                self._width = max(self._width, width + self._inset(name, tag))

    def _adapts(self, name: str, attributes: dict[str, str]) -> bool:
        return "width:" not in attributes.get("style", "") and self._sheet.adapts(name, attributes.get("class", ""))

    def _inset(self, name: str, tag: str) -> int:
        """Return the pixels left and right of an element of a fixed width that was just opened; cells shrink."""
        if name == "table" or "box-sizing:border-box" in tag:  # its width includes its own padding
            return self._bounds.inset - htmltokens.inset(tag)
        return self._bounds.inset if name in htmltree.BLOCKS else 0

    def _allowed(self, name: str, attributes: dict[str, str]) -> dict[str, str]:
        return htmltokens.allowed(name, attributes, self._styles)

    def _take_body(self, attributes: dict[str, str]) -> None:
        """Merge the attributes of ``html`` and of each ``body``; the first counts, styles and classes add up."""
        merged = {**self._body, **{key: value for key, value in attributes.items() if key not in self._body}}
        for key, mark in (("style", ";"), ("class", " ")):
            before, more = self._body.get(key, ""), attributes.get(key, "")
            if before and more and len(before) < _MAX_BODY_CHARACTERS:
                merged[key] = f"{before}{mark}{more}"
        self._body = merged

    def _image(self, attributes: dict[str, str]) -> None:
        """Write an image; one that cannot be shown has no address, so that a browser shows its alternative text."""
        written = {"alt": attributes.get("alt", "")[:_MAX_ALT_CHARACTERS]} | self._allowed("img", attributes)
        source = self._source(attributes.get("src", "").translate(_IGNORED_IN_ADDRESSES).strip())
        self._source_characters += len(source)
        if source and self._source_characters <= MAX_IMAGE_CHARACTERS:
            self._sources.append(entities.escape(source))
            written = {"src": f"cid:{len(self._sources) - 1}"} | written
        else:
            written |= htmltokens.placeholder(written)
        self._bounds.void("img", htmltokens.start_tag("img", written))

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


def _is_css(attributes: dict[str, str]) -> bool:
    """Return whether a style element holds CSS, and not what a tool makes CSS of."""
    return attributes.get("type", "").strip().lower() in ("", "text/css")


def _escaped(text: str) -> str:
    """Write text anew, so that a reference or a line end cannot be read in two ways."""
    text = unescaped(text).replace("\r\n", "\n").replace("\r", "\n")
    return entities.escape(text, quote=False)
