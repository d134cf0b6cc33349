"""The readable text of an HTML mail; nothing is sanitised here, the result is plain text.

One pass over the tags, without a tree: for text it is enough to know which tags break lines, and what hides what it
holds, which ``visibility`` knows.
"""

import re
from collections.abc import Iterator
from itertools import islice

from tmpmaild import charsets
from tmpmaild.mail.htmltokens import attributes_of, tokens, unescaped
from tmpmaild.mail.htmltree import names
from tmpmaild.mail.visibility import Visibility

MAX_CHARACTERS = 2 * 1024 * 1024
MAX_TOKENS_FOR_LINKS = 20_000
BEFORE_CHARACTERS = 200

_BREAKING = names(
    "address article aside body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form header hr html legend li main nav option section summary table tbody tfoot thead tr"
)
_SPACED = names("blockquote h1 h2 h3 h4 h5 h6 ol p pre ul")
_WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
# What the URL standard of browsers takes off an address.
_LINE_ENDS = re.compile(r"[\t\n\r]")
_AROUND_ADDRESS = "".join(map(chr, range(0x21)))
_INVISIBLE_CHARACTERS = "\u00ad\u034f\u200b\u200c\u200d\u2060\ufeff"
_STEP_CHARACTERS = 64 * 1024
# Newsletters pad their preview line with hundreds of these.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u200b\u2060\ufeff]++"
    # Joiners mean something within a word; the look-behind keeps a long run of them linear.
    "|(?<=\\s)[\u200c\u200d]++|(?<![\u200c\u200d])[\u200c\u200d]++(?=\\s)"
)


def to_text(html: str) -> str:
    """Return what a reader of the HTML would read, with LF line ends and at most one empty line in a row.

    A link is followed by its address in angle brackets when that is of the web and not its text; an image
    is its alternative text. Of very large HTML the beginning is read.
    """
    source = charsets.scrub(html[:MAX_CHARACTERS])
    page, seen = _Page(), Visibility(source)
    page.read(source, seen)
    if seen.hides_the_rest and not page.text():  # rather a line too much than a mail without text
        page = _Page()
        page.read(source, Visibility(source, is_followed=False))
    return page.text()


def links(html: str) -> Iterator[tuple[str, str, str]]:
    """Yield the text before it, the address and the text of each link of the HTML to the web, in order.

    The text before reaches back to the link before, or BEFORE_CHARACTERS; an image is its alternative text. The
    address is what a browser would follow: without spaces around it, and without line ends. White space is
    collapsed. Hidden links are left out. Of very large HTML the beginning is read.
    """
    source = charsets.scrub(html[:MAX_CHARACTERS])
    reader = _Links(Visibility(source))
    for kind, text, attributes in islice(tokens(source), MAX_TOKENS_FOR_LINKS):
        yield from reader.take(kind, text, attributes)
    yield from reader.end()


class _Links:
    """The link that is open, and what is shown before and in it."""

    def __init__(self, seen: Visibility) -> None:
        self._seen = seen
        self._before = self._href = ""
        self._link: list[str] = []
        self._has_unseen = self._has_image = False

    def take(self, kind: str, text: str, attributes: str) -> Iterator[tuple[str, str, str]]:
        """Take the next token; yield the link that it ends."""
        if kind == "text":
            self._text(text)
        elif not (self._seen.start(text, attributes) if kind == "start" else self._seen.end(text)):
            return
        elif text == "img" and kind == "start":
            self._add(attributes_of(attributes).get("alt", ""))
            self._has_image = True
        elif text != "a":
            self._add(" " if text in _BREAKING or text in _SPACED or text in ("br", "td", "th") else "")
        else:
            yield from self.end()
            self._href = _address(attributes) if kind == "start" else ""

    def end(self) -> Iterator[tuple[str, str, str]]:
        """Yield the open link, if something of it is seen."""
        link = _collapsed("".join(self._link))
        if self._href and (link or self._has_image or not self._has_unseen):
            yield _collapsed(self._before), self._href, link
            self._before = ""
        self._href = ""
        self._link.clear()
        self._has_unseen = self._has_image = False

    def _text(self, text: str) -> None:
        if self._seen.shows_text:
            self._add(unescaped(text))
        elif self._seen.shows:
            self._add(_space_of(text))
            self._has_unseen = self._has_unseen or not text.isspace()

    def _add(self, piece: str) -> None:
        if self._href:
            self._link.append(piece)
        else:
            self._before = (self._before + piece)[-BEFORE_CHARACTERS:]


def _address(attributes: str) -> str:
    """Return the address of a link when it is of the web, else ""."""
    address = _LINE_ENDS.sub("", attributes_of(attributes).get("href", "")).strip(_AROUND_ADDRESS)
    return address if _WEB_ADDRESS.match(address) else ""


def _space_of(text: str) -> str:
    """Return the space that text leaves which is not seen itself."""
    return " " if text[:1].isspace() or text[-1:].isspace() else ""


class _Page:
    """The lines written so far, the line being written, and the link that is open."""

    def __init__(self) -> None:
        self._preformatted = 0
        self._lines: list[str] = []
        self._line: list[str] = []
        self._href = ""
        self._link: list[str] = []
        self._has_unseen = self._has_image = False

    def read(self, source: str, seen: Visibility) -> None:
        """Take in what can be seen of a page."""
        for kind, text, attributes in tokens(source):
            if kind == "text":
                if seen.shows_text:
                    self._write(unescaped(text))
                elif seen.shows:
                    self._write(_space_of(text))
                    self._has_unseen = self._has_unseen or not text.isspace()
            elif kind == "start":
                if seen.start(text, attributes):
                    self._start(text, attributes)
            elif seen.end(text):
                self._end(text)

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
            self._href = "".join(attributes_of(attributes).get("href", "").split())
        elif name == "img":
            self._write(attributes_of(attributes).get("alt", ""))
            self._has_image = True
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
        """Add the address of the link that ends here."""
        shown = _collapsed("".join(self._link))
        is_seen = shown or self._has_image or not self._has_unseen
        if is_seen and shown != self._href and _WEB_ADDRESS.match(self._href):
            self._line.append(f" <{self._href}>")
        self._href = ""
        self._has_unseen = self._has_image = False
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
