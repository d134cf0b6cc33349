"""The readable text of an HTML mail; nothing is sanitised here, the result is plain text.

One pass over the tags (``htmltokens``), on purpose without a tree: a parser that follows the HTML standard builds, from
24 KB of unclosed ``<b>`` and ``<p>``, a tree of nearly 1 GiB, and no cheap look at the tags tells that
beforehand. For text it is enough to know which tags break lines and which hide what they hold.
"""

import re
from collections.abc import Iterator
from itertools import islice

from tmpmaild.mail import charsets, hiding
from tmpmaild.mail.htmltokens import Budget, attributes_of, tokens, unescaped
from tmpmaild.mail.htmltree import BLOCKS, names

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

# Elements within may set these anew, as layouts of tables do with the size: they hide only the text up to the next tag.
_NO_ALPHA = r"[,/]\s*+(?:0?\.0++|0|none)%?\s*+\)"
_MAY_BLANK = re.compile(
    rf"font(?:-size)?\s*+:|transparent|text-indent|{_NO_ALPHA}|#[0-9a-f]{{3}}(?:[0-9a-f]{{3}}0)?0|color\s*+[:=]\s*+[\"']?+\s*+(?:white|#fff)",
    re.IGNORECASE,
)
_TINY = r"(?:0(?:px|pt|em|rem|%)?|0?\.0++(?:em|rem|%)?|0\.0*(?:em|rem|%)|[01]?\.[0-9]++(?:px|pt)|[01]px|[01]\.px)"
_BLANKING_STYLE = re.compile(
    rf"(?:^|[;\s])(?:font-size\s*+:\s*+{_TINY}|font\s*+:(?:\s*+[a-z]++)*?\s*+{_TINY}(?:/\S++)?\s[^;]*+"
    rf"|color\s*+:\s*+(?:transparent|#[0-9a-f]{{3}}0|#[0-9a-f]{{6}}00"
    rf"|[a-z]{{3,5}}\((?:[^(,/);]*+|(?:[^(,);]*+,){{2}}[^(,);]*+){_NO_ALPHA}))\s*+(?:!|;|$)",
    re.IGNORECASE,
)
_GRADIENT_LETTERS = re.compile(r"background-clip\s*+:\s*+text\b", re.IGNORECASE)
_INDENTED_AWAY = re.compile(r"(?:^|[;\s])text-indent\s*+:\s*+-[0-9]{4,6}px", re.IGNORECASE)
_WHITE = re.compile(r"(?:^|[;\s])color\s*+:\s*+(?:white|#fff(?:fff)?)\s*+(?:!|;|$)", re.IGNORECASE)
_COLOURS_A_PAGE = re.compile(r"background|bgcolor|<style|<link", re.IGNORECASE)
# What may end without an end tag, when the next begins (HTML, 13.1.2.4).
_ENDS_BY_ITSELF = names("p li dt dd tr td th thead tbody tfoot option optgroup colgroup")
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


def to_text(html: str, budget: Budget | None = None) -> str:
    """Return what a reader of the HTML would read, with LF line ends and at most one empty line in a row.

    A link is followed by its address in angle brackets when that is of the web and not its text; an image
    is its alternative text. Of very large HTML, and where the budget ends, the beginning is read.
    """
    budget = budget or Budget()
    source = charsets.scrub(html[:MAX_CHARACTERS])
    page, hidden = _Page(), _Hidden(_classes_of(source), budget)
    page.read(source, hidden, budget)
    if hidden.hides_too_much(found_nothing=not page.text()):
        page = _Page()
        page.read(source, _Hidden({}, budget, skips=False), budget)
    return page.text()


def links(html: str) -> Iterator[tuple[str, str, str]]:
    """Yield the text before it, the address and the text of each link of the HTML to the web, in order.

    The text before reaches back to the link before, or BEFORE_CHARACTERS; an image is its alternative text. The
    address is what a browser would follow: without spaces around it, and without line ends. White space is
    collapsed. Hidden links are left out. Of very large HTML the beginning is read.
    """
    source, budget = charsets.scrub(html[:MAX_CHARACTERS]), Budget()
    hidden = _Hidden(_classes_of(source), budget)
    found = list(_links(source, hidden, budget))
    shown = _Hidden({}, budget, skips=False)
    yield from _links(source, shown, budget) if hidden.hides_too_much(found_nothing=False) else found


def _links(source: str, hidden: "_Hidden", budget: Budget) -> Iterator[tuple[str, str, str]]:
    before, link, href = "", "", ""
    for kind, text, attributes in islice(tokens(source, budget), MAX_TOKENS_FOR_LINKS):
        if (hidden.name or kind == "start") and hidden.holds(kind, text, attributes):
            continue
        if kind == "text":
            piece = unescaped(text)
        elif text == "img" and kind == "start":
            piece = attributes_of(attributes).get("alt", "")
        elif text != "a":
            piece = " " if text in _BREAKING or text in _SPACED or text in ("br", "td", "th") else ""
        else:
            if href:
                yield _collapsed(before), href, _collapsed(link)
                before, link = "", ""
            href = _address(attributes) if kind == "start" else ""
            continue
        if href:
            link += piece
        else:
            before = (before + piece)[-BEFORE_CHARACTERS:]
    if href:
        yield _collapsed(before), href, _collapsed(link)


def _address(attributes: str) -> str:
    """Return the address of a link when it is of the web, else ""."""
    address = _LINE_ENDS.sub("", attributes_of(attributes).get("href", "")).strip(_AROUND_ADDRESS)
    return address if _WEB_ADDRESS.match(address) else ""


def _classes_of(source: str) -> dict[str, hiding.Declared]:
    """Return the classes that the sheets of a mail hide, and how; read up to the last sheet."""
    end = source.rfind("</style")
    # A budget of its own: what hides matters less than what is read.
    return hiding.hidden_classes(tokens(source[: end + 8], Budget(_STEPS_FOR_SHEETS), sheets=True)) if end >= 0 else {}


def _hides(name: str, attributes: str, classes: dict[str, hiding.Declared], budget: Budget) -> bool:
    """Return whether a tag plainly hides what it holds."""
    named = [one for one in classes if one in attributes] if classes else []
    if name == "dialog" and "open" not in attributes_of(attributes):
        return True
    if name == "object" and "data" in attributes_of(attributes):  # what it holds is for those who cannot show that
        return True
    if not attributes or not (named or hiding.may_hide(attributes)):
        return False
    budget.take(_STEPS_A_STYLE + len(named))
    found = attributes_of(attributes)
    own = set(found.get("class", "").split())
    styles = [*(classes[one] for one in named if one in own), hiding.declared(found.get("style", ""))]
    style = hiding.together(styles)
    return ("hidden" in found and "display" not in style) or hiding.hides(name, style)


def _blanks(name: str, attributes: str, budget: Budget, *, on_white: bool) -> str:
    """Return whether text right behind a tag cannot be seen: "" (it can), a "line" of it, or "all".

    White text cannot be seen where the page is surely white.
    """
    if _MAY_BLANK.search(attributes) is None:
        return ""
    budget.take(_STEPS_A_STYLE)
    found = attributes_of(attributes)
    style = found.get("style", "")
    if "gradient(" in style and style.count("transparent") == 1 and _GRADIENT_LETTERS.search(style):
        style = style.replace("transparent", "")  # letters that let a gradient through are seen, if it has colours
    if _BLANKING_STYLE.search(style):
        return "all"
    if on_white and _WHITE.search(f"color:{found.get('color', '')};{style}"):
        return "all"
    return "line" if name in BLOCKS and _INDENTED_AWAY.search(style) else ""


class _Hidden:
    """Knows whether what is read is in an element that hides it (``name``); without ``skips`` only templates do."""

    def __init__(self, classes: dict[str, hiding.Declared], budget: Budget, *, skips: bool = True) -> None:
        self._classes = classes
        self._budget = budget
        self._skips = skips
        self._decided: dict[tuple[str, str], bool] = {}  # a mail repeats its tags
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
        is_hidden = name == "template" or (self._skips and (name in _UNSEEN or self._hides(name, attributes)))
        if is_hidden and kind == "start" and name not in _VOID:
            self.name, self._depth = name, 1
        return self.name != "" or (is_hidden and name == "img")

    def _hides(self, name: str, attributes: str) -> bool:
        known = self._decided.get((name, attributes))
        if known is None:
            known = self._decided[name, attributes] = _hides(name, attributes, self._classes, self._budget)
        return known

    def hides_too_much(self, *, found_nothing: bool) -> bool:
        """Return, at the end, whether something hidden has no end that we know of."""
        return self.name in _ENDS_BY_ITSELF or (self.name != "" and found_nothing)


class _Page:
    """The lines written so far, the line being written, and what is open: a link, an element whose text is not seen."""

    def __init__(self) -> None:
        self._blank = ""
        self._preformatted = 0
        self._lines: list[str] = []
        self._line: list[str] = []
        self._href = ""
        self._link: list[str] = []

    def read(self, source: str, hidden: _Hidden, budget: Budget) -> None:
        """Take in what is not hidden of a page."""
        on_white = _COLOURS_A_PAGE.search(source) is None
        for kind, text, attributes in tokens(source, budget):
            if (hidden.name or kind == "start") and hidden.holds(kind, text, attributes):
                continue
            if kind == "text":
                self._write("" if self._blank else unescaped(text))
            elif kind == "end":
                self._blank = ""
                self._end(text)
            else:
                goes_on = text in _VOID and (text != "br" or self._blank == "all")
                self._blank = (self._blank if goes_on else "") or _blanks(text, attributes, budget, on_white=on_white)
                self._start(text, attributes)

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
        if _WEB_ADDRESS.match(self._href) and _collapsed("".join(self._link)) != self._href:
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
