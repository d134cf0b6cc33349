"""Extracts the readable text and the links of an HTML message. Nothing is sanitised, because the result is plain text.

This is a single pass over the tags (``htmltokens``), deliberately without a tree. From 24 KB of unclosed ``<b>`` and
``<p>``, a conforming HTML parser builds a tree of nearly 1 GiB, and no cheap check of the tags can predict that. To
extract text it is sufficient to know which tags break lines and which tags hide their content.

Styles may hide an element, or the text that directly follows a tag. They may be in the element itself or in a style
sheet; ``Cascade`` determines the rules that apply to an element.
"""

import re
from collections.abc import Iterable

from tmpmaild.mail import charsets, htmlparts, urls
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.htmlnesting import nested
from tmpmaild.mail.htmltokens import attributes_of, names, tokens, unescaped
from tmpmaild.mail.visible import VOID, Hidden, Styles, seen

MAX_CHARACTERS = 2 * 1024 * 1024
BEFORE_CHARACTERS = 200

# The measured cost of work, in budget steps.
_STEPS_PER_TAG = 2
_STEPS_PER_NESTED_TAG = 3
_STEPS_PER_REFERENCE = 5
_STYLES_SHARE = 4  # one step in four is reserved for styles
_MIN_READ = 1000  # the minimum number of tokens to read

_BREAKING = names(
    "address article aside body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form header hr html legend li main nav option section summary table tbody tfoot thead tr"
)
_SPACED = names("blockquote h1 h2 h3 h4 h5 h6 ol p pre ul")
_STRUCK = names("del s strike")
_STRIKING = "line-through"
_STRIKE = "~~"  # the mark that people type around struck-out text

_FIRST = re.compile(r"<(?:(!doctype)\b|[a-z])", re.IGNORECASE)
_INVISIBLE_CHARACTERS = "\u00ad\u034f\u200b\u200c\u200d\u2060\ufeff"
_STEP_CHARACTERS = 64 * 1024
# Newsletters pad their preview line with hundreds of these characters.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u200b\u2060\ufeff]++"
    # Joiners are significant within a word; with the look-behind, searching a long run of joiners takes linear time.
    "|(?<=\\s)[\u200c\u200d]++|(?<![\u200c\u200d])[\u200c\u200d]++(?=\\s)"
)


def to_text(html: str, budget: Budget | None = None) -> str:
    """Return the text that a person reads in the HTML, with LF line ends and at most one empty line in a row.

    A web link is followed by its address in angle brackets, unless its text is the address. An image is replaced with
    its alternative text, and struck-out text is enclosed in "~~". If the HTML is very large, only its beginning is
    read, as far as the budget allows.
    """
    return read(html, budget).text()


def links(html: str) -> list[tuple[str, str, str]]:
    """Return the preceding text, the address and the text of each web link, in order.

    The preceding text starts at the previous link, or BEFORE_CHARACTERS earlier. The address has the form that a
    browser would open, without surrounding spaces and line ends. White space is collapsed. A relative reference is
    resolved against ``base``; images and areas of image maps are replaced with their alternative text. Links that are
    hidden, or whose text is invisible, are omitted. If the HTML is very large, only its beginning is read.
    """
    return read(html).links


class Page:
    """The text and the links of HTML; each part of the message is a separate document."""

    def __init__(self, documents: Iterable["_Document"]) -> None:
        self._documents = list(documents)

    @property
    def links(self) -> list[tuple[str, str, str]]:
        """The preceding text, the address and the text of each link."""
        return [link for document in self._documents for link in document.links]

    def text(self) -> str:
        """Return the text of all parts, separated by empty lines."""
        return "\n\n".join(filter(None, [document.text() for document in self._documents]))


def read(html: str, budget: Budget | None = None) -> Page:
    """Read HTML, by default with the budget for HTML of this length."""
    if not html:
        return Page(())
    source = charsets.scrub(html[:MAX_CHARACTERS])
    shared = budget or Budget.of(len(source))
    return Page([_read(part, shared) for part in htmlparts.separate(source)])


def _read(source: str, budget: Budget) -> "_Document":
    """Read the visible text; if there is none and a hidden element never ends, read everything except templates."""
    reserved = budget.remaining // _STYLES_SHARE
    parts = list(tokens(source, budget, sheets=True, steps=_STEPS_PER_TAG, reserved=reserved))
    lower = source.lower()
    styles = Styles(lower, parts, budget)
    base = urls.base_of(parts) if "<base" in lower else ""
    if base and not budget.take(_STEPS_PER_REFERENCE * sum(name in ("a", "area") for _, name, _ in parts)):
        base = ""
    hidden = Hidden(styles)
    page = _Document(seen(parts, hidden), base)
    if hidden.ends_elsewhere and budget.take(len(parts) * _STEPS_PER_NESTED_TAG):
        hidden = Hidden(styles)
        page = _Document(seen(nested(parts, has_type=_has_type(source)), hidden), base)
    if hidden.name and not page.text():
        affordable = max(budget.remaining // _STEPS_PER_TAG, _MIN_READ)
        budget.take(min(len(parts), affordable) * _STEPS_PER_TAG)
        page = _Document(seen(parts[:affordable], Hidden(styles, skips=False)), base)
    return page


def _has_type(source: str) -> bool:
    """Return whether a document type precedes the first tag."""
    first = _FIRST.search(source)
    return first is not None and first[1] is not None


class _Document:
    """The lines and links of a document, the line that is being written, and the open link or preformatted text."""

    def __init__(self, parts: Iterable[tuple[str, str, str]], base: str) -> None:
        self.links: list[tuple[str, str, str]] = []
        self._base = base
        self._struck: int | None = None  # the start of struck-out text in the line, and its element
        self._struck_by = ""
        self._preformatted = 0
        self._lines: list[str] = []
        self._line: list[str] = []
        self._before: list[str] = []  # the text since the last link
        self._href = ""
        self._link: list[str] = []
        self._has_blank = self._has_image = False  # whether the open link contains a space or an image
        for kind, text, attributes in parts:
            if kind == "text":
                self._write(unescaped(text))
            elif kind == "end":
                self._end(text)
            elif kind == "start":
                self._start(text, attributes)
            else:
                self._has_blank = True
        self._close_link()
        self._break()

    def text(self) -> str:
        """Return the lines, without empty lines at either end."""
        return "\n".join(self._lines).strip("\n")

    def _start(self, name: str, attributes: str) -> None:
        if name == "br":
            self._break(keeps_empty=True)
        elif name == "a":
            self._open_link(attributes_of(attributes))
        elif name == "area":
            self._area(attributes_of(attributes))
        elif name == "img":
            self._has_image = True
            self._write(attributes_of(attributes).get("alt", ""))
        elif name in ("td", "th"):
            self._write(" ")
        elif name in _SPACED:
            self._paragraph()
            self._preformatted += name == "pre"
        elif name in _BREAKING:
            self._break()
            if name == "li":
                self._line.append("- ")
        if name in _STRUCK or (_STRIKING in attributes and name not in VOID):
            self._start_strike(name)

    def _end(self, name: str) -> None:
        if name == self._struck_by:
            self._end_strike()
        if name == "a":
            self._close_link()
        elif name in _SPACED:
            self._paragraph()
            self._preformatted -= name == "pre" and self._preformatted > 0
        elif name in _BREAKING:
            self._break()
        elif name == "br":
            self._break(keeps_empty=True)

    def _area(self, attributes: dict[str, str]) -> None:
        """Write an area of an image map as a link on its own line."""
        self._break()
        self._open_link(attributes)
        if self._href:
            self._write(attributes.get("alt", ""))
            self._close_link()
            self._break()

    def _start_strike(self, name: str) -> None:
        self._end_strike()
        self._struck, self._struck_by = len(self._line), name
        self._line.append(_STRIKE)

    def _end_strike(self) -> None:
        """Mark the end of struck-out text in this line; remove the opening mark if there is no text."""
        start, self._struck, self._struck_by = self._struck, None, ""
        if start is not None and "".join(self._line[start + 1 :]).strip():
            self._line.append(_STRIKE)
        elif start is not None:
            del self._line[start]

    def _write(self, text: str) -> None:
        """Add text to the line; preformatted text keeps its lines."""
        self._add_link_text(text)
        if not self._preformatted:
            self._line.append(text)
            return
        first, *others = text.replace("\r\n", "\n").split("\n")
        self._line.append(first)
        for other in others:
            self._break(keeps_empty=True)
            self._line.append(other)

    def _add_link_text(self, text: str) -> None:
        """Add text to the open link, or to the text that precedes the next link."""
        (self._link if self._href else self._before).append(text)

    def _open_link(self, attributes: dict[str, str]) -> None:
        self._close_link()
        self._has_blank = self._has_image = False
        self._href = urls.resolve(self._base, attributes.get("href", ""))

    def _close_link(self) -> None:
        """Add the link that ends here, unless it is invisible."""
        text = _collapsed("".join(self._link))
        if self._href and (text or self._has_image or not self._has_blank):
            before = _collapsed("".join(self._before))[-BEFORE_CHARACTERS:].lstrip()
            self.links.append((before, self._href, text))
            self._before.clear()
            address = "".join(self._href.split())
            if text != address:
                self._line.append(f" <{address}>")
        self._href = ""
        self._link.clear()

    def _break(self, *, keeps_empty: bool = False) -> None:
        """End the line; keep an empty line only with ``keeps_empty``."""
        self._add_link_text(" ")
        if self._struck is not None:
            self._end_strike()
        text = "".join(self._line)
        self._line.clear()
        text = text.rstrip() if self._preformatted else _collapsed(text)
        if text or keeps_empty:
            self._add(text)

    def _paragraph(self) -> None:
        """End the line and add an empty line."""
        self._break()
        self._add("")

    def _add(self, line: str) -> None:
        if line or (self._lines and self._lines[-1]):
            self._lines.append(line)


def _collapsed(text: str) -> str:
    """Replace each run of white space, including no-break spaces, with one space."""
    if len(text) > _STEP_CHARACTERS:
        return _collapsed_in_steps(text)
    if not text.isascii() and any(character in text for character in _INVISIBLE_CHARACTERS):
        text = _INVISIBLE.sub("", text)
    return " ".join(text.split())


def _collapsed_in_steps(text: str) -> str:
    """Collapse megabytes step by step, because a pattern match or ``split`` call holds the GIL."""
    steps = [text[start : start + _STEP_CHARACTERS] for start in range(0, len(text), _STEP_CHARACTERS)]
    text = "".join([f"{' ' * one[0].isspace()}{_collapsed(one)}{' ' * one[-1].isspace()}" for one in steps])
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip()
