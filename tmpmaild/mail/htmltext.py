"""The readable text of an HTML mail and its links; nothing is sanitised here, the result is plain text.

One pass over the tags (``htmltokens``), on purpose without a tree: a parser that follows the HTML standard builds, from
24 KB of unclosed ``<b>`` and ``<p>``, a tree of nearly 1 GiB, and no cheap look at the tags tells that
beforehand. For text it is enough to know which tags break lines and which hide what they hold.

Styles hide, or make the text right behind a tag invisible, wherever they stand: in an element, or in a sheet, of which
``Cascade`` tells the rules that apply to an element.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from tmpmaild.mail import charsets, htmlparts, selectors, urls
from tmpmaild.mail.htmlnesting import may_end, nested
from tmpmaild.mail.htmltokens import BLOCKS, Budget, attributes_of, collapsed, names, tokens, unescaped

MAX_CHARACTERS = 2 * 1024 * 1024
MAX_SHEET_CHARACTERS = 128 * 1024  # a view shows no more of them
MAX_SELECTORS = 5000
BEFORE_CHARACTERS = 200

# What work takes of the budget, as measured: for each tag, character, selector or value.
_STEPS_A_TAG = 2
_STEPS_A_NESTED_TAG = 3
_STEPS_A_LOOK = 1
_STEPS_A_STYLE = 12
_STEPS_A_SHEET = 3
_STEPS_A_REFERENCE = 5
_STEPS_A_SELECTOR = 3
_ATTRIBUTES_A_STEP = 6
_ESCAPES_A_STEP = 2
_SHEET_A_STEP = 16
_RULES_TEXT_A_STEP = 8
_NAMES_A_STEP = 8
_VALUES_A_STEP = 4
_STYLES_SHARE = 4  # the part of the steps that is kept for styles, whatever the text takes
_LEAST_READ = 1000  # tokens of a mail of which nothing is seen
# Of one tag; images in addresses of theirs are longer.
_MAX_ATTRIBUTES_CHARACTERS = 64 * 1024


_BREAKING = names(
    "address article aside body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form header hr html legend li main nav option section summary table tbody tfoot thead tr"
)
_STRUCK = names("del s strike")
_STRIKING = "line-through"
_STRIKE = "~~"  # around what is struck out, as people write it in text
_SPACED = names("blockquote h1 h2 h3 h4 h5 h6 ol p pre ul")
# What browsers show of these is not what they hold: pictures, sounds, choices; drawings and descriptions in SVG.
_UNSEEN = names("audio canvas datalist defs desc video")
_VOID = names("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")

# A sheet cannot without one of these words, or an escape.
_COLOURING = ("background", "bgcolor", "<link", "color-scheme", "@import", "\\")
_FIRST = re.compile(r"<(?:(!doctype)\b|[a-z])", re.IGNORECASE)
_INVISIBLE_CHARACTERS = "\u00ad\u034f\u200b\u200c\u200d\u2060\ufeff"
_STEP_CHARACTERS = 64 * 1024
# Newsletters pad their preview line with hundreds of these.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u200b\u2060\ufeff]++"
    # Joiners mean something within a word; the look-behind keeps a long run of them linear.
    "|(?<=\\s)[\u200c\u200d]++|(?<![\u200c\u200d])[\u200c\u200d]++(?=\\s)"
)


_MAX_VALUE_CHARACTERS = 200
# What makes room in a box that has none of its own.
_ROOMY = names(
    "flex flex-basis flex-grow min-block-size min-height min-inline-size min-width padding padding-block "
    "padding-block-end padding-block-start padding-bottom padding-inline padding-inline-end padding-inline-start "
    "padding-left padding-right padding-top"
)
_COUNTED = _ROOMY | names(
    "-webkit-background-clip background background-clip background-image clip clip-path color content-visibility "
    "display filter font-size height left margin-left max-height max-width opacity overflow position right "
    "text-indent top transform visibility width"
)
# What sets others too: the value is not read, but for the size of a font.
_SHORTHANDS = {"margin": ("margin-left",), "inset": ("left", "right", "top"), "font": ("font-size",)}
_FONT = "font "  # before the value of ``font``, where that of ``font-size`` is expected
_ODD = re.compile(r"/\*.*?(?:\*/|\Z)|\\(?:([0-9a-fA-F]{1,6}+)\s?|(.))", re.DOTALL)
_IMPORTANT = re.compile(r"(?<!\s)\s*+!\s*+important\Z")
_NOTHING = re.compile(r"(?:0|0?\.0+|0\.0*)(?:px|pt|em|rem|%)?")
_NO_ROOM = re.compile(r"(?:0|0?\.0+|0\.0*|1(?=px))(?:px|pt|em|rem)?")
_FAR = re.compile(r"-[0-9]{4,6}(?:\.[0-9]*)?(?:px|pt)|-[0-9]{3,5}(?:em|rem)")
_WITHOUT_ROOM = dict.fromkeys(("height", "max-height", "width", "max-width"), _NO_ROOM)
_CUT_AWAY = re.compile(r"rect\((?:[01](?:px)?[ ,]*){4}\)")
_SHAPED_AWAY = re.compile(r"inset\((?:[5-9][0-9]|100)%\)|circle\(0(?:px|%)?\)|polygon\(0 0(?:, ?0 0)*\)")


Declared = tuple[dict[str, str], dict[str, str]]
"""The values of the properties that count here, by name: those without ``!important``, and those with it."""

_FAINT = r"(?:-[0-9.]++|0|0?\.0[0-9]*|0\.|[0-9](?=%)|[0-9]\.[0-9]*(?=%))%?"
# Values that hide: whatever the element is, where it is placed freely, where it is a box.
_HIDING = {
    "display": re.compile("none"),
    "visibility": re.compile("hidden|collapse"),
    "opacity": re.compile(_FAINT),
    "filter": re.compile(rf"opacity\({_FAINT}\)"),
    "clip-path": _SHAPED_AWAY,
}
_HIDING_PLACED = {
    "left": _FAR,
    "top": _FAR,
    "right": re.compile(rf"{_FAR.pattern}|[0-9]{{4,6}}px"),
    "clip": _CUT_AWAY,
}
_HIDING_BOXES = {
    "content-visibility": re.compile("hidden"),
    "margin-left": _FAR,
    "transform": re.compile(
        rf"scale(?:x|y|3d)?\({_NOTHING.pattern}(?:,[^()]*+)?\)|translatex?\((?:{_FAR.pattern})(?:,[^()]*+)?\)"
    ),
}
_NO_ALPHA = r"[,/]\s*+(?:0?\.0++|0|none)%?\s*+\)"
_TINY = r"(?:0(?:px|pt|em|rem|%)?|0?\.0++(?:em|rem|%)?|0\.0*(?:em|rem|%)|[01]?\.[0-9]++(?:px|pt)|[01]px|[01]\.px)"
# Values that make text invisible. Elements within may set these anew, as layouts of tables do with the size.
_HIDING_TEXT = {
    "font-size": re.compile(rf"{_TINY}|\A{_FONT}(?:[a-z]++ )*?{_TINY}(?:/\S++)? .*"),
    "color": re.compile(
        rf"transparent|#[0-9a-f]{{3}}0|#[0-9a-f]{{6}}00"
        rf"|[a-z]{{3,5}}\((?:[^(,/);]*+|(?:[^(,);]*+,){{2}}[^(,);]*+){_NO_ALPHA}"
    ),
    "text-indent": re.compile("-[0-9]{4,6}px"),
}
_HIDING_ANYHOW = _HIDING | _HIDING_PLACED | _HIDING_BOXES | _HIDING_TEXT | _WITHOUT_ROOM
_WHITE = re.compile("white|#fff(?:fff)?")
# What is declared where any value above is, and seldom elsewhere. Alternatives that begin with a letter are found fast.
_SUSPECT = re.compile(
    r"display\s*+:\s*+none|visibility\s*+:\s*+(?:hidden|collapse)|opacity\s*+[:(]\s*+(?:[-.0]|[0-9](?:\.[0-9]*+)?%)"
    r"|clip(?:-path)?\s*+:\s*+(?:rect|inset|circle|polygon)|left\s*+:\s*+-[0-9]{3}|top\s*+:\s*+-[0-9]{3}"
    r"|right\s*+:\s*+(?:-[0-9]{3}|[0-9]{4})|transform\s*+:\s*+(?:scale|translate)|indent\s*+:\s*+-[0-9]{4}"
    r"|height\s*+:\s*+(?:[0.]|1px)|width\s*+:\s*+(?:[0.]|1px)|font-size\s*+:\s*+(?:[0.]|1(?:\.[0-9]*+)?p)"
    r"|font\s*+:\s*+(?:[a-z]++\s++)*(?:[0.]|1(?:\.[0-9]*+)?p)"
    r"|color\s*+:\s*+(?:transparent|white|#fff|#[0-9a-f]{3}(?:[0-9a-f]{3}0)?0|[a-z]{3,5}\()"
)
# What else in attributes may hide: other attributes, and what has to be decoded first.
_SUSPECT_ATTRIBUTES = re.compile(rf"{_SUSPECT.pattern}|hidden|\\|/\*|&#|color\s*+=\s*+[\"']?+\s*+(?:white|#fff)")


_MAX_DEPTH = 16

_BRACE = re.compile(r"[{}]")
_EVERY_SCREEN = re.compile(r"@media\s++(?:only\s++)?(?:all|screen)", re.IGNORECASE)
_NO_SCREEN = re.compile(r"@media\s++(?:only\s++)?(?:print|speech)\b[^,]*+", re.IGNORECASE)
_FOR_ALL = re.compile(r"media\s*+=\s*+[\"']?(?:all|screen)\b(?!\s*+and)|type\s*+=\s*+[\"']?text/css\b", re.IGNORECASE)
_FOR_FEW = re.compile(r"\b(?:media|type)\s*+=", re.IGNORECASE)


def to_text(html: str, budget: Budget | None = None) -> str:
    """Return what a reader of the HTML would read, with LF line ends and at most one empty line in a row.

    A link is followed by its address in angle brackets when that is of the web and not its text; an image is its
    alternative text; struck out text stands between "~~". Of very large HTML, and where the budget ends, the beginning
    is read.
    """
    return read(html, budget).text()


def links(html: str) -> list[tuple[str, str, str]]:
    """Return the text before it, the address and the text of each link of the HTML to the web, in order.

    The text before reaches back to the link before, or BEFORE_CHARACTERS; an image is its alternative text. The
    address is what a browser would follow: without spaces around it, and without line ends. White space is
    collapsed. A relative reference leads where ``base`` says, an area of an image map has its alternative text. Hidden
    links are left out, and those whose text is invisible. Of very large HTML the beginning is read.
    """
    return read(html).links


class Page:
    """What is read of HTML, each part of the message by itself."""

    def __init__(self, documents: Iterable["_Document"]) -> None:
        self._documents = list(documents)

    @property
    def links(self) -> list[tuple[str, str, str]]:
        """The text before it, the address and the text of each link."""
        return [link for document in self._documents for link in document.links]

    def text(self) -> str:
        """Return the text of all parts, an empty line between two."""
        return "\n\n".join(filter(None, [document.text() for document in self._documents]))


def read(html: str, budget: Budget | None = None) -> Page:
    """Read HTML. The budget is that of HTML of this length, unless another one is given."""
    if not html:
        return Page(())
    source = charsets.scrub(html[:MAX_CHARACTERS])
    shared = budget or Budget.of(len(source))
    return Page([_read(part, shared) for part in htmlparts.separate(source)])


def _read(source: str, budget: Budget) -> "_Document":
    """Read what is not hidden, or all but templates where nothing is found and what hides has no end."""
    leave = budget.left // _STYLES_SHARE
    parts = list(tokens(source, budget, sheets=True, steps=_STEPS_A_TAG, leave=leave))
    lower = source.lower()
    styles = _Styles(lower, parts, budget)
    base = urls.base_of(parts) if "<base" in lower else ""
    if base and not budget.take(_STEPS_A_REFERENCE * sum(name in ("a", "area") for _, name, _ in parts)):
        base = ""
    hidden = _Hidden(styles)
    page = _Document(_seen(parts, hidden), base)
    if hidden.ends_elsewhere and budget.take(len(parts) * _STEPS_A_NESTED_TAG):
        hidden = _Hidden(styles)
        page = _Document(_seen(nested(parts, has_type=_has_type(source)), hidden), base)
    if hidden.name and not page.text():
        affordable = max(budget.left // _STEPS_A_TAG, _LEAST_READ)
        budget.take(min(len(parts), affordable) * _STEPS_A_TAG)
        page = _Document(_seen(parts[:affordable], _Hidden(styles, skips=False)), base)
    return page


def _has_type(source: str) -> bool:
    """Return whether the HTML begins with a document type, behind what has no tags."""
    first = _FIRST.search(source)
    return first is not None and first[1] is not None


def _colours_a_page(lower: str) -> bool:
    return any(one in lower for one in _COLOURING)


class _Styles:
    """What the styles and sheets of a mail do to the text of its elements; each different tag is looked at once."""

    def __init__(self, lower: str, parts: Iterable[tuple[str, str, str]], budget: Budget) -> None:
        self._budget = budget
        self._on_white = not _colours_a_page(lower)
        sheets = sheets_of(parts) if "<style" in lower else ()
        self._cascade = Cascade(sheets, budget, on_white=self._on_white)
        self._known: dict[tuple[str, str], tuple[bool, str]] = {}

    def look(self, name: str, attributes: str) -> tuple[bool, str]:
        """Return whether an element hides what it holds, and what ``blanks`` says of the text behind its tag."""
        known = self._known.get((name, attributes))
        if known is None:
            known = self._known[name, attributes] = self._judge(name, attributes[:_MAX_ATTRIBUTES_CHARACTERS])
        return known

    def _judge(self, name: str, attributes: str) -> tuple[bool, str]:
        if attributes and not self._budget.take(_STEPS_A_LOOK):
            return False, ""
        if name == "dialog" and "open" not in attributes_of(attributes):
            return True, ""
        if name == "object" and "data" in attributes_of(attributes):  # what it holds is for those who cannot show that
            return True, ""
        by_rule = self._cascade.may_hide(name, attributes)
        if not (by_rule or (attributes and may_hide(attributes))):
            return False, ""
        if not self._budget.take(_STEPS_A_STYLE + len(attributes) // _ATTRIBUTES_A_STEP):
            return False, ""
        found = attributes_of(attributes)
        style = self._cascade.style(name, found, self._budget) if by_rule else None
        if style is None:
            style = in_style(found.get("style", ""))
        is_hidden = ("hidden" in found and "display" not in style) or hides(name, style)
        return is_hidden, blanks(name, style, self._colour(name, found, style), on_white=self._on_white)

    def _colour(self, name: str, attributes: dict[str, str], style: dict[str, str]) -> str:
        """Return the colour of an element, "" for one that it inherits."""
        by_attribute = attributes.get("color", "").strip().lower() if name == "font" else ""
        colour = style.get("color", by_attribute)
        if self._on_white and is_white(colour):  # a rule may make it another
            return self._cascade.colour(name, attributes, self._budget) or by_attribute
        return colour


class _Hidden:
    """Knows whether what is read is in an element that hides it (``name``); without ``skips`` only templates do."""

    def __init__(self, styles: _Styles, *, skips: bool = True) -> None:
        self.styles = styles
        self._skips = skips
        self.name = ""
        self._open: Counter[str] = Counter()  # of the element that hides, and what it holds
        self._is_crossed = False

    @property
    def ends_elsewhere(self) -> bool:
        """Whether, at the end, something hidden has no end tag, or may have ended where it has none."""
        return self.name != "" or self._is_crossed

    def holds(self, kind: str, name: str, attributes: str) -> bool:
        """Take the next token; return whether it is hidden, the tags that hide included."""
        if self.name:
            if kind != "text":
                self._follow(name, starts=kind == "start")
            return True
        is_hidden = name == "template" or (self._skips and (name in _UNSEEN or self.styles.look(name, attributes)[0]))
        if is_hidden and kind == "start" and name not in _VOID:
            self.name, self._open = name, Counter([name])
        return self.name != "" or (is_hidden and name == "img")

    def _follow(self, name: str, *, starts: bool) -> None:
        """Take a tag within the element that hides; its own end tag ends it."""
        if starts:
            self._is_crossed = self._is_crossed or may_end(self.name, name)
            self._open[name] += 1
        elif not self._open[name]:
            self._is_crossed = True
        else:
            self._open[name] -= 1
            self.name = self.name if self._open[self.name] else ""


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


class _Document:
    """The lines and links of a page, the line being written, and what is open: a link, preformatted text."""

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
        """Return the lines, without empty ones at either end."""
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
        if name in _STRUCK or (_STRIKING in attributes and name not in _VOID):
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
        """Write an area of an image map as a link in a line of its own."""
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
        """End what is struck out in this line; where that is nothing, leave no mark."""
        start, self._struck, self._struck_by = self._struck, None, ""
        if start is not None and "".join(self._line[start + 1 :]).strip():
            self._line.append(_STRIKE)
        elif start is not None:
            del self._line[start]

    def _write(self, text: str) -> None:
        """Add text to the line, or lines when it is preformatted."""
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
        """Add text to the link, or to what stands before the next one."""
        (self._link if self._href else self._before).append(text)

    def _open_link(self, attributes: dict[str, str]) -> None:
        self._close_link()
        self._has_blank = self._has_image = False
        self._href = urls.resolve(self._base, attributes.get("href", ""))

    def _close_link(self) -> None:
        """Add the address of the link that ends here, unless nobody sees the link."""
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
        """End the line; an empty one counts only where it was asked for."""
        self._say(" ")
        if self._struck is not None:
            self._end_strike()
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
    if len(text) > _STEP_CHARACTERS:
        return _collapsed_in_steps(text)
    if not text.isascii() and any(character in text for character in _INVISIBLE_CHARACTERS):
        text = _INVISIBLE.sub("", text)
    return " ".join(text.split())


def _collapsed_in_steps(text: str) -> str:
    """Do so for megabytes: one call of a pattern or of ``split`` over all of them would keep the GIL all the while."""
    steps = [text[start : start + _STEP_CHARACTERS] for start in range(0, len(text), _STEP_CHARACTERS)]
    text = "".join([f"{' ' * one[0].isspace()}{_collapsed(one)}{' ' * one[-1].isspace()}" for one in steps])
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip()


def declared(style: str) -> Declared:
    """Return what a style declares, in lower case and with single spaces."""
    found: Declared = {}, {}
    for part in plain(style).lower().split(";"):
        name, _, value = part.partition(":")
        if (name := name.strip()) in _COUNTED or name in _SHORTHANDS:
            value = " ".join(value.split())
            bare = _IMPORTANT.sub("", value)
            written = bare if len(bare) <= _MAX_VALUE_CHARACTERS else "?"
            if name in _SHORTHANDS:
                written = f"{_FONT}{written}" if name == "font" else "?"
            for one in _SHORTHANDS.get(name, (name,)):
                found[bare != value][one] = written
    return found


def in_style(style: str) -> dict[str, str]:
    """Return the values that apply of those that a style declares."""
    ordinary, important = declared(style)
    return ordinary | important


def is_suspicious(css: str) -> bool:
    """Return whether a quick look at a sheet or a block, in lower case, finds a value that may hide text."""
    return _SUSPECT.search(css) is not None


def may_hide_by_rule(declared: Declared, *, on_white: bool) -> bool:
    """Return whether any value that is declared may hide text, alone or with others."""
    values = declared[0] | declared[1]
    return _has_any(_HIDING_ANYHOW, values) or (on_white and is_white(values.get("color", "")))


def hides(name: str, declared: dict[str, str]) -> bool:
    """Return whether an element of this name and style hides what it holds."""
    is_placed = declared.get("position") in ("absolute", "fixed")
    if _has_any(_HIDING, declared) or (is_placed and _has_any(_HIDING_PLACED, declared)):
        return True
    if not _is_box(name, declared) or _has_padding(declared):
        return False
    is_cut_off = declared.get("overflow") in ("hidden", "clip")
    return _has_any(_HIDING_BOXES, declared) or (is_cut_off and _has_any(_WITHOUT_ROOM, declared))


def _has_any(values: dict[str, re.Pattern[str]], declared: dict[str, str]) -> bool:
    return any(value.fullmatch(declared.get(name, "")) for name, value in values.items())


def is_white(colour: str) -> bool:
    """Return whether a colour is white, as it is mostly written."""
    return _WHITE.fullmatch(colour) is not None


def blanks(name: str, declared: dict[str, str], colour: str, *, on_white: bool) -> str:
    """Return whether text right behind a tag cannot be seen: "" (it can), a "line" of it, or "all".

    White text cannot be seen where the page is surely white.
    """
    if _HIDING_TEXT["font-size"].fullmatch(declared.get("font-size", "")):
        return "all"
    if _HIDING_TEXT["color"].fullmatch(colour) and not _has_gradient_letters(declared):
        return "all"
    if on_white and is_white(colour):
        return "all"
    return "line" if name in BLOCKS and _HIDING_TEXT["text-indent"].fullmatch(declared.get("text-indent", "")) else ""


def may_hide(attributes: str) -> bool:
    """Return whether a quick look at attributes finds anything that may hide text."""
    return _SUSPECT_ATTRIBUTES.search(attributes.lower()) is not None


def plain(style: str) -> str:
    """Return CSS without comments and escapes."""
    return _ODD.sub(_made_plain, style) if "\\" in style or "/*" in style else style


def _is_box(name: str, declared: dict[str, str]) -> bool:
    return declared.get("display") in ("block", "inline-block") or ("display" not in declared and name in BLOCKS)


def _has_padding(declared: dict[str, str]) -> bool:
    return any(one in _ROOMY and not _NOTHING.fullmatch(declared[one]) for one in declared)


def _has_gradient_letters(declared: dict[str, str]) -> bool:
    """Return whether letters let a gradient through: they are seen, if it has colours."""
    background = declared.get("background", "") + declared.get("background-image", "")
    clips = declared.get("background-clip", ""), declared.get("-webkit-background-clip", "")
    return "text" in clips and ("gradient(" in background or "?" in background) and "transparent" not in background


def _made_plain(found: re.Match[str]) -> str:
    if not found[1] and not found[2]:
        return ""
    character = chr(int(found[1], 16)) if found[1] and int(found[1], 16) <= 0x10FFFF else found[2] or "?"  # noqa: PLR2004
    return character if character.isalnum() or character == "-" else "?"


_Rank = tuple[int, int, int, int]
"""As ``selectors.Asked.rank``, and where in the sheets the rule is."""

_Claim = tuple[str | None, str | None]
"""The value that surely applies to a property, and the one that may apply instead, ``"?"`` for several."""


class _Block:
    """What stands between the braces of a rule, or of many that share it; read when it is first needed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_suspect = is_suspicious(text)

    @cached_property
    def declared(self) -> Declared:
        """What it declares that counts here."""
        return declared(self.text)

    @cached_property
    def values(self) -> int:
        """How many values that are."""
        return len(self.declared[0]) + len(self.declared[1])


class Rule(NamedTuple):
    """One selector with its block. ``asks`` are the names that its last element has; it may ask for more."""

    rank: _Rank
    asks: frozenset[str]
    block: _Block
    is_sure: bool

    def may_hide(self, *, on_white: bool) -> bool:
        """Return whether it surely applies, and declares anything that may hide text."""
        return self.block.is_suspect and self.is_sure and may_hide_by_rule(self.block.declared, on_white=on_white)

    @property
    def key(self) -> str:
        """The rarest name that it asks for."""
        return max(self.asks, key=lambda name: (name[0] == "#", name[0] == "."), default="*")


class _Applied:
    """What the rules for a set of names declare together, by importance."""

    def __init__(self, rules: list[Rule], hiding: set[Rule], budget: Budget) -> None:
        self.hides = not hiding.isdisjoint(rules)
        self._claims: tuple[dict[str, _Claim], dict[str, _Claim]] = {}, {}
        for rule in sorted(rules, key=attrgetter("rank"), reverse=True):
            if not budget.take(1 + rule.block.values // _VALUES_A_STEP):
                break
            for claims, values in zip(self._claims, rule.block.declared, strict=True):
                _claim(claims, values, is_sure=rule.is_sure)
        self._alone = {name: self._value(name, None, None) for name in self._claims[0] | self._claims[1]}

    def with_style(self, style: str) -> dict[str, str]:
        """Return what applies together with a style attribute, ``"?"`` where that is undecided."""
        ordinary, important = declared(style)
        own = {name: self._value(name, ordinary.get(name), important.get(name)) for name in ordinary | important}
        return self._alone | own

    def _value(self, name: str, ordinary: str | None, important: str | None) -> str:
        """Return the strongest value that surely applies, unless another one may apply instead."""
        by_rule, by_important_rule = (claims.get(name, (None, None)) for claims in self._claims)
        value, instead = None, None
        for sure, other in (by_rule, (ordinary, None), by_important_rule, (important, None)):
            value, instead = (sure, other) if sure is not None else (value, _either(instead, other))
        return value if value is not None and instead in (None, value) else "?"


def _claim(claims: dict[str, _Claim], values: dict[str, str], *, is_sure: bool) -> None:
    """Add the values of a rule to those of all rules that win over it."""
    for name, value in values.items():
        sure, instead = claims.get(name, (None, None))
        if sure is None:
            claims[name] = (value, instead) if is_sure else (None, _either(instead, value))


def _either(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return other if one is None else one
    return one if one == other else "?"


class Cascade:
    """The rules of the sheets of one mail; they are kept if any may hide text, or white text cannot be seen.

    What applies is resolved once for each set of names that rules ask for, however many elements have it.
    """

    def __init__(
        self, sheets: Iterable[tuple[str, bool]] = (), budget: Budget | None = None, *, on_white: bool = False
    ) -> None:
        self._rules: dict[str, list[Rule]] = {}
        self._applied: dict[frozenset[str], _Applied] = {}
        self._hiding: set[Rule] = set()
        self._hiding_keys: set[str] = set()
        self._names_asked_for: dict[str, int] = {}
        self._asked: frozenset[str] = frozenset()
        self._names: list[str] = []
        if sheets:
            self._keep(list(_all_rules(sheets, budget or Budget(), wanted=on_white)), on_white=on_white)

    def _keep(self, found: list[Rule], *, on_white: bool) -> None:
        self._hiding = {rule for rule in found if rule.may_hide(on_white=on_white)}
        self._hiding_keys = {rule.key for rule in self._hiding}
        if self._hiding or on_white:
            for rule in found:
                self._rules.setdefault(rule.key, []).append(rule)
        self._names_asked_for = {key: sum(1 + len(rule.asks) for rule in rules) for key, rules in self._rules.items()}
        self._asked = frozenset[str]().union(*[rule.asks for rule in found], self._rules)
        self._names = [one.lstrip(".#").partition("?")[0] for one in self._hiding_keys if one[0] in ".#"]

    def may_hide(self, name: str, attributes: str) -> bool:
        """Return whether a quick look finds that a rule may hide an element."""
        if not self._hiding:
            return False
        if name in self._hiding_keys or "*" in self._hiding_keys:
            return True
        return bool(attributes and self._names) and (
            "&" in attributes or len(self._names) > 50 or any(one in attributes for one in self._names)  # noqa: PLR2004
        )

    def style(self, name: str, attributes: dict[str, str], budget: Budget) -> dict[str, str] | None:
        """Return what is declared for an element, ``"?"`` where that is undecided; None if no rule may hide it."""
        own = selectors.names_of(name, attributes)
        if own.isdisjoint(self._hiding_keys):
            return None
        applied = self._for(own, budget)
        return applied.with_style(attributes.get("style", "")) if applied.hides else None

    def colour(self, name: str, attributes: dict[str, str], budget: Budget) -> str | None:
        """Return the colour that is declared for an element, of those rules that are kept."""
        applied = self._for(selectors.names_of(name, attributes), budget)
        return applied.with_style(attributes.get("style", "")).get("color")

    def _for(self, own: set[str], budget: Budget) -> _Applied:
        names = self._asked & own
        applied = self._applied.get(names)
        if applied is None:
            names_looked_at = sum([self._names_asked_for.get(one, 0) for one in names])
            is_paid = budget.take(_STEPS_A_STYLE + names_looked_at // _NAMES_A_STEP)
            looked_at = [rule for one in names for rule in self._rules.get(one, ())] if is_paid else []
            matching = [rule for rule in looked_at if rule.asks <= names]
            applied = self._applied[names] = _Applied(matching, self._hiding, budget)
        return applied


def sheets_of(parts: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, bool]]:
    """Yield the sheets among the parts of a mail's HTML, and whether each applies on every screen."""
    left, is_css, is_sure = MAX_SHEET_CHARACTERS, False, False
    for kind, text, attributes in parts:
        if kind == "start" and text == "style":
            rest = _FOR_ALL.sub("", attributes)
            is_sure = _FOR_FEW.search(rest) is None
            is_css = is_sure or "type" not in rest.lower()
        elif kind == "sheet" and is_css:
            sheet = collapsed(text)
            yield sheet[:left], is_sure
            left = max(0, left - len(sheet))


def _all_rules(sheets: Iterable[tuple[str, bool]], budget: Budget, *, wanted: bool) -> Iterator[Rule]:
    """Yield the rules of sheets if any may hide text, or if they are ``wanted``; up to half of the budget."""
    leave = budget.left // 2
    texts = list[tuple[str, bool]]()
    for text, is_sure in sheets:
        texts.append((plain(_paid(text, budget, (budget.left + leave) // 2)), is_sure))
    if not wanted and not any(is_sure and is_suspicious(text.lower()) for text, is_sure in texts):
        return
    order = 0
    for text, is_sure in texts:
        for applies, prelude, block_text in _blocks(text.replace("<!--", " ").replace("-->", " "), budget, leave):
            block = _Block(block_text)
            is_doubtful = block.is_suspect and ("animation" in block.text or not selectors.is_valid(prelude))
            surely_applies = is_sure and applies and not is_doubtful
            for one in selectors.asked(prelude):
                if order == MAX_SELECTORS or not budget.take(_STEPS_A_SELECTOR, leave=leave):
                    return
                order += 1
                yield Rule((*one.rank, order), one.names, block, surely_applies and one.is_sure)


def _paid(sheet: str, budget: Budget, leave: int) -> str:
    """Return the rules of a sheet that the budget is enough for, from its beginning."""
    whole = len(sheet)
    while sheet and not budget.take(
        _STEPS_A_SHEET + len(sheet) // _SHEET_A_STEP + sheet.count("\\") // _ESCAPES_A_STEP, leave=leave
    ):
        sheet = sheet[: len(sheet) // 2]
    return sheet if len(sheet) == whole else sheet[: sheet.rfind("}") + 1]


def _blocks(sheet: str, budget: Budget, leave: int) -> Iterator[tuple[bool, str, str]]:
    """Yield whether a rule applies on every screen, its selectors and its block; what applies on none is left out.

    Where the budget ends, the rules before are read.
    """
    start, applies = 0, 1.0  # 0: on no screen, 1: on every one
    around = list[tuple[str, float]]()  # what is open, and how far what stood around it applies
    for brace in _BRACE.finditer(sheet):
        if not budget.take(1 + (brace.start() - start) // _RULES_TEXT_A_STEP, leave=leave):
            return
        text = sheet[start : brace.start()].strip()
        start = brace.end()
        if brace[0] == "{":
            opened = text.rpartition(";")[2].strip()
            around.append((opened, applies))
            applies = min(applies, 0.5 if len(around) > _MAX_DEPTH else _applies(opened))
        elif around:
            prelude, applies = around.pop()
            if applies and not prelude.startswith("@"):
                yield applies == 1, prelude, text.lower()


def _applies(opened: str) -> float:
    if _EVERY_SCREEN.fullmatch(opened):
        return 1
    return 0 if _NO_SCREEN.fullmatch(opened) else 0.5
