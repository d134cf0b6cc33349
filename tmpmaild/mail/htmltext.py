"""The readable text of an HTML mail and its links; nothing is sanitised here, the result is plain text.

One pass over the tags (``htmltokens``), on purpose without a tree: a parser that follows the HTML standard builds, from
24 KB of unclosed ``<b>`` and ``<p>``, a tree of nearly 1 GiB, and no cheap look at the tags tells that
beforehand. For text it is enough to know which tags break lines and which hide what they hold.

Styles hide, or make the text right behind a tag invisible, wherever they stand: in an element, or in a sheet, of which
``Cascade`` tells the rules that apply to an element.
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

# What work takes of the budget, as measured.
_STEPS_A_TAG = 2
_STEPS_A_NESTED_TAG = 3
_STEPS_A_REFERENCE = 5
_STYLES_SHARE = 4  # the part of the steps that is kept for styles, whatever the text takes
_LEAST_READ = 1000  # tokens of a message without visible text

_BREAKING = names(
    "address article aside body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form header hr html legend li main nav option section summary table tbody tfoot thead tr"
)
_SPACED = names("blockquote h1 h2 h3 h4 h5 h6 ol p pre ul")
_STRUCK = names("del s strike")
_STRIKING = "line-through"
_STRIKE = "~~"  # around struck out text, as people type it

_FIRST = re.compile(r"<(?:(!doctype)\b|[a-z])", re.IGNORECASE)
_INVISIBLE_CHARACTERS = "\u00ad\u034f\u200b\u200c\u200d\u2060\ufeff"
_STEP_CHARACTERS = 64 * 1024
# Newsletters pad their preview line with hundreds of these.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u200b\u2060\ufeff]++"
    # Joiners mean something within a word; the look-behind keeps a long run of them linear.
    "|(?<=\\s)[\u200c\u200d]++|(?<![\u200c\u200d])[\u200c\u200d]++(?=\\s)"
)


def to_text(html: str, budget: Budget | None = None) -> str:
    """Return the text that a person reads in the HTML, with LF line ends and at most one empty line in a row.

    A link to the web is followed by its address in angle brackets, unless that is its text. An image is replaced by its
    alternative text; struck out text is put between "~~". Only the beginning of very large HTML is read, and only as
    much as the budget is enough for.
    """
    return read(html, budget).text()


def links(html: str) -> list[tuple[str, str, str]]:
    """Return the preceding text, the address and the text of each link to the web, in order.

    The preceding text reaches back to the previous link, or BEFORE_CHARACTERS. The address is what a browser would
    follow: without spaces around it, and without line ends. White space is collapsed. A relative reference is resolved
    against ``base``; images and areas of image maps are replaced by their alternative text. Links that are hidden, or
    whose text is invisible, are left out. Only the beginning of very large HTML is read.
    """
    return read(html).links


class Page:
    """The text and the links of HTML; each part of the message is a document of its own."""

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
    leave = budget.left // _STYLES_SHARE
    parts = list(tokens(source, budget, sheets=True, steps=_STEPS_A_TAG, leave=leave))
    lower = source.lower()
    styles = Styles(lower, parts, budget)
    base = urls.base_of(parts) if "<base" in lower else ""
    if base and not budget.take(_STEPS_A_REFERENCE * sum(name in ("a", "area") for _, name, _ in parts)):
        base = ""
    hidden = Hidden(styles)
    page = _Document(seen(parts, hidden), base)
    if hidden.ends_elsewhere and budget.take(len(parts) * _STEPS_A_NESTED_TAG):
        hidden = Hidden(styles)
        page = _Document(seen(nested(parts, has_type=_has_type(source)), hidden), base)
    if hidden.name and not page.text():
        affordable = max(budget.left // _STEPS_A_TAG, _LEAST_READ)
        budget.take(min(len(parts), affordable) * _STEPS_A_TAG)
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
        self._struck: int | None = None  # where in the line that begins, and the element that does it
        self._struck_by = ""
        self._preformatted = 0
        self._lines: list[str] = []
        self._line: list[str] = []
        self._before: list[str] = []  # the text since the last link
        self._href = ""
        self._link: list[str] = []
        self._has_blank = self._has_image = False  # of the link
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
        """Mark the end of struck out text in this line; remove its first mark if there is no text."""
        start, self._struck, self._struck_by = self._struck, None, ""
        if start is not None and "".join(self._line[start + 1 :]).strip():
            self._line.append(_STRIKE)
        elif start is not None:
            del self._line[start]

    def _write(self, text: str) -> None:
        """Add text to the line; preformatted text keeps its lines."""
        self._say(text)
        if not self._preformatted:
            self._line.append(text)
            return
        first, *others = text.replace("\r\n", "\n").split("\n")
        self._line.append(first)
        for other in others:
            self._break(keeps_empty=True)
            self._line.append(other)

    def _say(self, text: str) -> None:
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
        self._say(" ")
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
    """Replace each run of white space, including no-break spaces, by one space."""
    if len(text) > _STEP_CHARACTERS:
        return _collapsed_in_steps(text)
    if not text.isascii() and any(character in text for character in _INVISIBLE_CHARACTERS):
        text = _INVISIBLE.sub("", text)
    return " ".join(text.split())


def _collapsed_in_steps(text: str) -> str:
    """Collapse megabytes step by step: no other thread gets the GIL during one call of a pattern or of ``split``."""
    steps = [text[start : start + _STEP_CHARACTERS] for start in range(0, len(text), _STEP_CHARACTERS)]
    text = "".join([f"{' ' * one[0].isspace()}{_collapsed(one)}{' ' * one[-1].isspace()}" for one in steps])
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip()
