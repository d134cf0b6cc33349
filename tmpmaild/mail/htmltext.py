"""The readable text of an HTML mail; nothing is sanitised here, the result is plain text.

One pass over the tags (``htmltokens``), on purpose without a tree: a parser that follows the HTML standard builds, from
24 KB of unclosed ``<b>`` and ``<p>``, a tree of nearly 1 GiB, and no cheap look at the tags tells that
beforehand. For text it is enough to know which tags break lines and which hide what they hold.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from tmpmaild.mail import charsets, hiding
from tmpmaild.mail.hiding import Cascade, sheets_of
from tmpmaild.mail.htmltokens import Budget, address_of, attributes_of, names, tokens, unescaped

MAX_CHARACTERS = 2 * 1024 * 1024
MAX_TOKENS_FOR_LINKS = 20_000
_STEPS_FOR_SHEETS = 20_000
_STEPS_A_STYLE = 4
BEFORE_CHARACTERS = 200


_BREAKING = names(
    "address article aside body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form header hr html legend li main nav option section summary table tbody tfoot thead tr"
)
_SPACED = names("blockquote h1 h2 h3 h4 h5 h6 ol p pre ul")
# What browsers show of these is not what they hold: pictures, sounds, choices; drawings and descriptions in SVG.
_UNSEEN = names("audio canvas datalist defs desc video")
_VOID = names("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")

# A sheet cannot without one of these words, or an escape.
_COLOURS_A_PAGE = re.compile(r"background|bgcolor|<link|color-scheme|@import|\\", re.IGNORECASE)
# What may end without an end tag, when the next begins (HTML, 13.1.2.4).
_ENDS_BY_ITSELF = names("p li dt dd tr td th thead tbody tfoot option optgroup colgroup")
_STYLE_TAG = re.compile("</?style", re.IGNORECASE)
_WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_INVISIBLE_CHARACTERS = "\u00ad\u034f\u200b\u200c\u200d\u2060\ufeff"
_STEP_CHARACTERS = 64 * 1024
# Newsletters pad their preview line with hundreds of these.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u200b\u2060\ufeff]++"
    # Joiners mean something within a word; the look-behind keeps a long run of them linear.
    "|(?<=\\s)[\u200c\u200d]++|(?<![\u200c\u200d])[\u200c\u200d]++(?=\\s)"
)


def to_text(html: str, budget: Budget | None = None) -> str:
    """Return what a reader of the HTML would read, with LF line ends and at most one empty line in a row.

    A link is followed by its address in angle brackets when that is of the web and not its text; an image
    is its alternative text. Of very large HTML, and where the budget ends, the beginning is read.
    """
    budget = budget or Budget()
    source = charsets.scrub(html[:MAX_CHARACTERS])
    styles = _Styles(source, budget)
    page, hidden = _Page(), _Hidden(styles)
    page.read(_seen(tokens(source, budget), hidden))
    if hidden.hides_too_much(found_nothing=not page.text()):
        page = _Page()
        page.read(_seen(tokens(source, budget), _Hidden(styles, skips=False)))
    return page.text()


def links(html: str) -> Iterator[tuple[str, str, str]]:
    """Yield the text before it, the address and the text of each link of the HTML to the web, in order.

    The text before reaches back to the link before, or BEFORE_CHARACTERS; an image is its alternative text. The
    address is what a browser would follow: without spaces around it, and without line ends. White space is
    collapsed. Hidden links are left out, and those whose text is invisible. Of very large HTML the beginning is read.
    """
    source, budget = charsets.scrub(html[:MAX_CHARACTERS]), Budget()
    styles = _Styles(source, budget)
    hidden = _Hidden(styles)
    found = list(_links(source, hidden, budget))
    shown = _Hidden(styles, skips=False)
    yield from _links(source, shown, budget) if hidden.hides_too_much(found_nothing=False) else found


def _links(source: str, hidden: "_Hidden", budget: Budget) -> Iterator[tuple[str, str, str]]:
    before, link, href = "", "", ""
    has_blank = has_image = False  # of the link
    for kind, text, attributes in _seen(islice(tokens(source, budget), MAX_TOKENS_FOR_LINKS), hidden):
        if kind == "text":
            piece = unescaped(text)
        elif kind == "blank":
            has_blank = True
            continue
        elif text == "img" and kind == "start":
            piece = attributes_of(attributes).get("alt", "")
            has_image = True
        elif text != "a":
            piece = " " if text in _BREAKING or text in _SPACED or text in ("br", "td", "th") else ""
        else:
            if href and (has_image or not has_blank or link.strip()):
                yield _collapsed(before), href, _collapsed(link)
                before, link = "", ""
            href = _address(attributes) if kind == "start" else ""
            has_blank = has_image = False
            continue
        if href:
            link += piece
        else:
            before = (before + piece)[-BEFORE_CHARACTERS:]
    if href and (has_image or not has_blank or link.strip()):
        yield _collapsed(before), href, _collapsed(link)


def _address(attributes: str) -> str:
    """Return the address of a link when it is of the web, else ""."""
    address = address_of(attributes_of(attributes).get("href", ""))
    return address if _WEB_ADDRESS.match(address) else ""


def _cascade_of(source: str, *, on_white: bool) -> Cascade:
    """Return the rules of the sheets of a mail; read up to the last sheet."""
    tags = deque(_STYLE_TAG.finditer(source), maxlen=1)
    if not tags:
        return Cascade()
    last = tags[0]
    before = source[: last.end() + 1] if last[0][1] == "/" else source  # the last sheet may have no end
    # A budget of its own: what hides matters less than what is read.
    return Cascade(sheets_of(tokens(before, Budget(_STEPS_FOR_SHEETS), sheets=True)), on_white=on_white)


class _Styles:
    """What the styles and sheets of a mail do to the text of its elements; each different tag is looked at once."""

    def __init__(self, source: str, budget: Budget) -> None:
        self._budget = budget
        self._on_white = _COLOURS_A_PAGE.search(source) is None
        self._cascade = _cascade_of(source, on_white=self._on_white)
        self._known: dict[tuple[str, str], tuple[bool, str]] = {}

    def look(self, name: str, attributes: str) -> tuple[bool, str]:
        """Return whether an element hides what it holds, and what ``hiding.blanks`` says of the text behind its tag."""
        known = self._known.get((name, attributes))
        if known is None:
            known = self._known[name, attributes] = self._judge(name, attributes)
        return known

    def _judge(self, name: str, attributes: str) -> tuple[bool, str]:
        if name == "dialog" and "open" not in attributes_of(attributes):
            return True, ""
        if name == "object" and "data" in attributes_of(attributes):  # what it holds is for those who cannot show that
            return True, ""
        by_rule = self._cascade.may_hide(name, attributes)
        if not (by_rule or (attributes and hiding.may_hide(attributes))):
            return False, ""
        self._budget.take(_STEPS_A_STYLE)
        found = attributes_of(attributes)
        style = self._cascade.style(name, found, self._budget) if by_rule else None
        if style is None:
            style = hiding.in_style(found.get("style", ""))
        is_hidden = ("hidden" in found and "display" not in style) or hiding.hides(name, style)
        return is_hidden, hiding.blanks(name, style, self._colour(name, found, style), on_white=self._on_white)

    def _colour(self, name: str, attributes: dict[str, str], style: dict[str, str]) -> str:
        """Return the colour of an element, "" for one that it inherits."""
        by_attribute = attributes.get("color", "").strip().lower()
        colour = style.get("color", by_attribute)
        if self._on_white and hiding.is_white(colour):  # a rule may make it another
            return self._cascade.colour(name, attributes, self._budget) or by_attribute
        return colour


class _Hidden:
    """Knows whether what is read is in an element that hides it (``name``); without ``skips`` only templates do."""

    def __init__(self, styles: _Styles, *, skips: bool = True) -> None:
        self.styles = styles
        self._skips = skips
        self.name = ""
        self._depth = 0

    def holds(self, kind: str, name: str, attributes: str) -> bool:
        """Take the next token; return whether it is hidden, the tags that hide included."""
        if self.name:
            if name == self.name and kind != "text":
                self._depth += 1 if kind == "start" else -1
                if self._depth == 0:
                    self.name = ""
            return True
        is_hidden = name == "template" or (self._skips and (name in _UNSEEN or self.styles.look(name, attributes)[0]))
        if is_hidden and kind == "start" and name not in _VOID:
            self.name, self._depth = name, 1
        return self.name != "" or (is_hidden and name == "img")

    def hides_too_much(self, *, found_nothing: bool) -> bool:
        """Return, at the end, whether something hidden has no end that we know of."""
        return self.name in _ENDS_BY_ITSELF or (self.name != "" and found_nothing)


def _seen(parts: Iterable[tuple[str, str, str]], hidden: _Hidden) -> Iterator[tuple[str, str, str]]:
    """Yield the tokens that are not hidden; text that is invisible as ("blank", "", "")."""
    blank = ""
    for kind, text, attributes in parts:
        if (hidden.name or kind == "start") and hidden.holds(kind, text, attributes):
            continue
        if kind == "text" and blank:
            if text and not text.isspace():
                yield "blank", "", ""
            continue
        if kind == "end":
            blank = ""
        elif kind == "start":
            goes_on = text in _VOID and (text != "br" or blank == "all")
            blank = (blank if goes_on else "") or hidden.styles.look(text, attributes)[1]
        yield kind, text, attributes


class _Page:
    """The lines written so far, the line being written, and what is open: a link, preformatted text."""

    def __init__(self) -> None:
        self._preformatted = 0
        self._lines: list[str] = []
        self._line: list[str] = []
        self._href = ""
        self._link: list[str] = []
        self._has_blank = self._has_image = False  # of the link

    def read(self, parts: Iterable[tuple[str, str, str]]) -> None:
        """Take in what is seen of a page."""
        for kind, text, attributes in parts:
            if kind == "text":
                self._write(unescaped(text))
            elif kind == "end":
                self._end(text)
            elif kind == "start":
                self._start(text, attributes)
            else:
                self._has_blank = True

    def text(self) -> str:
        """Return the lines, without empty ones at either end."""
        self._close_link()
        self._break()
        return "\n".join(self._lines).strip("\n")

    def _start(self, name: str, attributes: str) -> None:
        if name == "br":
            self._break(keeps_empty=True)
        elif name == "a":
            self._close_link()
            self._has_blank = self._has_image = False
            self._href = "".join(attributes_of(attributes).get("href", "").split())
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

    def _end(self, name: str) -> None:
        if name == "a":
            self._close_link()
        elif name in _SPACED:
            self._paragraph()
            self._preformatted -= name == "pre" and self._preformatted > 0
        elif name in _BREAKING:
            self._break()
        elif name == "br":
            self._break(keeps_empty=True)

    def _write(self, text: str) -> None:
        """Add text to the line, or lines when it is preformatted."""
        if self._href:
            self._link.append(text)
        if not self._preformatted:
            self._line.append(text)
            return
        first, *others = text.replace("\r\n", "\n").split("\n")
        self._line.append(first)
        for other in others:
            self._break(keeps_empty=True)
            self._line.append(other)

    def _close_link(self) -> None:
        """Add the address of the link that ends here, unless nobody sees the link."""
        text = _collapsed("".join(self._link))
        is_seen = text or self._has_image or not self._has_blank
        if is_seen and _WEB_ADDRESS.match(self._href) and text != self._href:
            self._line.append(f" <{self._href}>")
        self._href = ""
        self._link.clear()

    def _break(self, *, keeps_empty: bool = False) -> None:
        """End the line; an empty one counts only where it was asked for."""
        text = "".join(self._line)
        self._line.clear()
        text = text.rstrip() if self._preformatted else _collapsed(text)
        if text or keeps_empty:
            self._add(text)

    def _paragraph(self) -> None:
        """End the line and leave one empty."""
        self._break()
        self._add("")

    def _add(self, line: str) -> None:
        if line or (self._lines and self._lines[-1]):
            self._lines.append(line)


def _collapsed(text: str) -> str:
    """Make each run of white space, no-break spaces included, one space."""
    if any(character in text for character in _INVISIBLE_CHARACTERS):
        # One call of a pattern over megabytes would keep the GIL all the while.
        steps = range(0, len(text), _STEP_CHARACTERS)
        text = "".join([_INVISIBLE.sub("", text[start : start + _STEP_CHARACTERS]) for start in steps])
    return " ".join(text.split())
