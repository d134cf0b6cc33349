"""The readable text of an HTML mail and its links; nothing is sanitised here, the result is plain text.

One pass over the tags (``htmltokens``), on purpose without a tree: a parser that follows the HTML standard builds, from
24 KB of unclosed ``<b>`` and ``<p>``, a tree of nearly 1 GiB, and no cheap look at the tags tells that
beforehand. For text it is enough to know which tags break lines and which hide what they hold.

Styles hide, or make the text right behind a tag invisible, wherever they stand: in an element, or in a sheet, of which
``Cascade`` tells the rules that apply to an element.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

from tmpmaild.mail import charsets, selectors, urls
from tmpmaild.mail.htmlnesting import may_end, nested
from tmpmaild.mail.htmltokens import BLOCKS, Budget, attributes_of, collapsed, names, tokens, unescaped

MAX_CHARACTERS = 2 * 1024 * 1024
MAX_TOKENS_FOR_LINKS = 20_000
MAX_SHEET_CHARACTERS = 128 * 1024  # a view shows no more of them
MAX_SELECTORS = 5000
_STEPS_FOR_SHEETS = 20_000
_STEPS_A_STYLE = 4
BEFORE_CHARACTERS = 200


_BREAKING = names(
    "address article aside body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form header hr html legend li main nav option section summary table tbody tfoot thead tr"
)
_STRUCK = names("del s strike")
_STRIKE = "~~"  # around what is struck out, as people write it in text
_SPACED = names("blockquote h1 h2 h3 h4 h5 h6 ol p pre ul")
# What browsers show of these is not what they hold: pictures, sounds, choices; drawings and descriptions in SVG.
_UNSEEN = names("audio canvas datalist defs desc video")
_VOID = names("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")

# A sheet cannot without one of these words, or an escape.
_COLOURS_A_PAGE = re.compile(r"background|bgcolor|<link|color-scheme|@import|\\", re.IGNORECASE)
_FIRST = re.compile(r"<(?:(!doctype)\b|[a-z])", re.IGNORECASE)
_STYLE_TAG = re.compile("</?style", re.IGNORECASE)
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
_RULES_A_STEP = 8

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
    return _read(html, budget or Budget()).text()


def links(html: str) -> list[tuple[str, str, str]]:
    """Return the text before it, the address and the text of each link of the HTML to the web, in order.

    The text before reaches back to the link before, or BEFORE_CHARACTERS; an image is its alternative text. The
    address is what a browser would follow: without spaces around it, and without line ends. White space is
    collapsed. A relative reference leads where ``base`` says, an area of an image map has its alternative text. Hidden
    links are left out, and those whose text is invisible. Of very large HTML the beginning is read.
    """
    return _read(html, Budget(), MAX_TOKENS_FOR_LINKS).links


def _read(html: str, budget: Budget, most_tokens: int | None = None) -> "_Page":
    """Read what is not hidden, or all but templates where nothing is found and what hides has no end."""
    source = charsets.scrub(html[:MAX_CHARACTERS])
    styles, base = _Styles(source, budget), urls.base_of(source)

    def read(hidden: _Hidden, *, follow: bool = False) -> _Page:
        parts = islice(tokens(source, budget), most_tokens)
        return _Page(_seen(nested(parts, has_type=_has_type(source)) if follow else parts, hidden), base)

    hidden = _Hidden(styles)
    page = read(hidden)
    if hidden.ends_elsewhere and budget.take():
        again = _Hidden(styles)
        other = read(again, follow=True)
        if not budget.is_spent or len(other.text()) > len(page.text()):
            hidden, page = again, other
    return page if not hidden.name or page.text() else read(_Hidden(styles, skips=False))


def _has_type(source: str) -> bool:
    """Return whether the HTML begins with a document type, behind what has no tags."""
    first = _FIRST.search(source)
    return first is not None and first[1] is not None


def _cascade_of(source: str, *, on_white: bool) -> "Cascade":
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
        """Return whether an element hides what it holds, and what ``blanks`` says of the text behind its tag."""
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
        if not (by_rule or (attributes and may_hide(attributes))):
            return False, ""
        self._budget.take(_STEPS_A_STYLE)
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
        self._open = Counter[str]()  # of the element that hides, and what it holds
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


class _Page:
    """The lines and links of a page, the line being written, and what is open: a link, preformatted text."""

    def __init__(self, parts: Iterable[tuple[str, str, str]], base: str) -> None:
        self.links: list[tuple[str, str, str]] = []
        self._base = base
        self._struck: int | None = None  # where in the line that begins
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
        elif name in _STRUCK:
            self._start_strike()
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
        elif name in _STRUCK:
            self._end_strike()
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

    def _start_strike(self) -> None:
        self._end_strike()
        self._struck = len(self._line)
        self._line.append(_STRIKE)

    def _end_strike(self) -> None:
        """End what is struck out in this line; where that is nothing, leave no mark."""
        start, self._struck = self._struck, None
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
    if any(character in text for character in _INVISIBLE_CHARACTERS):
        # One call of a pattern over megabytes would keep the GIL all the while.
        steps = range(0, len(text), _STEP_CHARACTERS)
        text = "".join([_INVISIBLE.sub("", text[start : start + _STEP_CHARACTERS]) for start in steps])
    return " ".join(text.split())


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


_INLINE_RANK = (1_000_000, 0, 0, 0)

_Rank = tuple[int, int, int, int]
"""As ``selectors.Asked.rank``, and where in the sheets the rule is."""


class Rule:
    """One selector with its block. ``asks`` are the names that its last element has; it may ask for more."""

    def __init__(self, asks: frozenset[str], rank: _Rank, block: str, *, is_sure: bool) -> None:
        self.asks = asks
        self.rank = rank
        self.is_sure = is_sure
        self.is_suspect = self.hides = False
        self._block = block

    @cached_property
    def declared(self) -> Declared:
        """What it declares that counts here."""
        return declared(self._block)

    def may_hide(self, *, on_white: bool) -> bool:
        """Return whether it surely applies, and declares anything that may hide text."""
        return self.is_suspect and self.is_sure and may_hide_by_rule(self.declared, on_white=on_white)

    @property
    def key(self) -> str:
        """The rarest name that it asks for."""
        return max(self.asks, key=lambda name: (name[0] == "#", name[0] == "."), default="*")


class Cascade:
    """The rules of the sheets of one mail; they are kept if any may hide text, or white text cannot be seen."""

    def __init__(self, sheets: Iterable[tuple[str, bool]] = (), *, on_white: bool = False) -> None:
        self._rules: dict[str, list[Rule]] = {}
        found = list(islice(_all_rules(sheets, wanted=on_white), MAX_SELECTORS))
        for rule in found:
            rule.hides = rule.may_hide(on_white=on_white)
        self._hiding = {rule.key for rule in found if rule.hides}
        if self._hiding or on_white:
            for rule in found:
                self._rules.setdefault(rule.key, []).append(rule)
        self._names = [one.lstrip(".#").partition("?")[0] for one in self._hiding if one[0] in ".#"]

    def may_hide(self, name: str, attributes: str) -> bool:
        """Return whether a quick look finds that a rule may hide an element."""
        if not self._hiding:
            return False
        if name in self._hiding or "*" in self._hiding:
            return True
        return bool(attributes and self._names) and (
            "&" in attributes or len(self._names) > 50 or any(one in attributes for one in self._names)  # noqa: PLR2004
        )

    def style(self, name: str, attributes: dict[str, str], budget: Budget) -> dict[str, str] | None:
        """Return what is declared for an element, ``"?"`` where that is undecided; None if no rule may hide it."""
        own = selectors.names_of(name, attributes)
        if own.isdisjoint(self._hiding):
            return None
        rules = self._matching(own, budget)
        return _resolved(rules, attributes.get("style", "")) if any(rule.hides for rule in rules) else None

    def colour(self, name: str, attributes: dict[str, str], budget: Budget) -> str | None:
        """Return the colour that is declared for an element, of those rules that are kept."""
        rules = self._matching(selectors.names_of(name, attributes), budget)
        return _resolved(rules, attributes.get("style", "")).get("color")

    def _matching(self, own: set[str], budget: Budget) -> list[Rule]:
        looked_at = [rule for one in own for rule in self._rules.get(one, ())]
        budget.take(len(looked_at) // _RULES_A_STEP)
        return [rule for rule in looked_at if rule.asks <= own]


def _resolved(rules: list[Rule], style: str) -> dict[str, str]:
    """Return the values that win; those of rules that may not apply make a property undecided if they would."""
    inline = Rule(frozenset(), _INLINE_RANK, style, is_sure=True)
    sure: dict[str, tuple[tuple[bool, _Rank], str]] = {}
    doubtful: list[tuple[str, tuple[bool, _Rank], str]] = []
    for rule in (*rules, inline):
        for is_important, values in zip((False, True), rule.declared, strict=True):
            rank = is_important, rule.rank
            for name, value in values.items():
                if not rule.is_sure:
                    doubtful.append((name, rank, value))
                elif name not in sure or sure[name][0] <= rank:
                    sure[name] = rank, value
    undecided = {
        name: "?"
        for name, rank, value in doubtful
        if name not in sure or (sure[name][0] < rank and sure[name][1] != value)
    }
    return {name: value for name, (_, value) in sure.items()} | undecided


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


def _all_rules(sheets: Iterable[tuple[str, bool]], *, wanted: bool) -> Iterator[Rule]:
    """Yield the rules of sheets if any may hide text, or if they are ``wanted``."""
    texts = [(plain(text), is_sure) for text, is_sure in sheets]
    if not wanted and not any(is_sure and is_suspicious(text.lower()) for text, is_sure in texts):
        return
    order = 0
    for text, is_sure in texts:
        for applies, prelude, block in _blocks(text.replace("<!--", " ").replace("-->", " ")):
            is_suspect = is_suspicious(block)
            is_doubtful = is_suspect and ("animation" in block or not selectors.is_valid(prelude))
            surely_applies = is_sure and applies and not is_doubtful
            for one in selectors.asked(prelude):
                order += 1
                rule = Rule(one.names, (*one.rank, order), block, is_sure=surely_applies and one.is_sure)
                rule.is_suspect = is_suspect
                yield rule


def _blocks(sheet: str) -> Iterator[tuple[bool, str, str]]:
    """Yield whether a rule applies on every screen, its selectors and its block; what applies on none is left out."""
    start, applies = 0, 1.0  # 0: on no screen, 1: on every one
    around = list[tuple[str, float]]()  # what is open, and how far what stood around it applies
    for brace in _BRACE.finditer(sheet):
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
