"""Which declarations plainly hide what an element holds, or make the text right behind its tag invisible.

They are the same wherever they stand: in the style of an element, or in a sheet, of which ``Cascade`` tells the rules
that apply to an element.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

from tmpmaild.mail.htmltokens import BLOCKS, Budget, names
from tmpmaild.mail.selectors import LOGICAL, NTH, PSEUDO_CLASSES

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
_SIDES = ("height", "max-height", "width", "max-width")
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
    for patterns in (_HIDING, _HIDING_PLACED, _HIDING_BOXES, _HIDING_TEXT):
        if any(pattern.fullmatch(values.get(name, "")) for name, pattern in patterns.items()):
            return True
    if on_white and is_white(values.get("color", "")):
        return True
    return any(_NO_ROOM.fullmatch(values.get(side, "")) for side in _SIDES)


def hides(name: str, declared: dict[str, str]) -> bool:
    """Return whether an element of this name and style hides what it holds."""
    if any(value.fullmatch(declared.get(one, "")) for one, value in _HIDING.items()):
        return True
    is_placed = declared.get("position") in ("absolute", "fixed")
    if is_placed and any(value.fullmatch(declared.get(one, "")) for one, value in _HIDING_PLACED.items()):
        return True
    if not _is_box(name, declared):
        return False
    is_away = any(value.fullmatch(declared.get(one, "")) for one, value in _HIDING_BOXES.items())
    return (is_away and not _has_padding(declared)) or _has_no_room(declared)


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


def _has_no_room(declared: dict[str, str]) -> bool:
    """Return whether a box has no room and cuts off what it holds."""
    if declared.get("overflow") not in ("hidden", "clip") or _has_padding(declared):
        return False
    return any(_NO_ROOM.fullmatch(declared.get(side, "")) for side in _SIDES)


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


MAX_CHARACTERS = 128 * 1024  # a view shows no more of them
MAX_SELECTORS = 5000
_MAX_DEPTH = 16
_RULES_A_STEP = 8

_BRACE = re.compile(r"[{}]")
_EVERY_SCREEN = re.compile(r"@media\s++(?:only\s++)?(?:all|screen)", re.IGNORECASE)
_NO_SCREEN = re.compile(r"@media\s++(?:only\s++)?(?:print|speech)\b[^,]*+", re.IGNORECASE)
_FOR_ALL = re.compile(r"media\s*+=\s*+[\"']?(?:all|screen)\b(?!\s*+and)|type\s*+=\s*+[\"']?text/css\b", re.IGNORECASE)
_FOR_FEW = re.compile(r"\b(?:media|type)\s*+=", re.IGNORECASE)

# Names in selectors have "?" for what had to be escaped.
_PLAIN = re.compile(r"(?:\*|[\w?-]++)?(?:[.#][\w?-]++)*")
_NAME = re.compile(r"[.#]?[\w?-]++")
_UNUSUAL = re.compile(r"[^\w\s-]")
_CONDITION = re.compile(r"\[[^\]]*+\]?|\([^()]*+\)")
_COMBINATOR = re.compile(r"[\s>+~]++")
_STATE = re.compile(r":[\w?-]++")
_NOT_THE_ELEMENT = re.compile(r"::|:(?:before|after|first-line|first-letter)\b", re.IGNORECASE)
_PSEUDO = re.compile(r":([\w?-]*+)")
_PSEUDO_CLASSES = PSEUDO_CLASSES | NTH | LOGICAL | names("after before first-letter first-line")
_MALFORMED = re.compile(r"[^\w\s.#*>+~:?,\0-]|(?:\A|,)\s*+(?:,|\Z)")
_BAD_NAME = re.compile(r"[.#](?:-?[0-9]|[^\w?-])")
_MARK = "\0"  # a condition that is not read
_ANY_RANK = 1000

_Rank = tuple[int, int, int, int]
"""Ids, classes and types of a selector (https://www.w3.org/TR/selectors/#specificity), and where in the sheet it is."""


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
        own = _names_of(name, attributes)
        if own.isdisjoint(self._hiding):
            return None
        rules = self._matching(own, budget)
        return _resolved(rules, attributes.get("style", "")) if any(rule.hides for rule in rules) else None

    def colour(self, name: str, attributes: dict[str, str], budget: Budget) -> str | None:
        """Return the colour that is declared for an element, of those rules that are kept."""
        rules = self._matching(_names_of(name, attributes), budget)
        return _resolved(rules, attributes.get("style", "")).get("color")

    def _matching(self, own: set[str], budget: Budget) -> list[Rule]:
        looked_at = [rule for one in own for rule in self._rules.get(one, ())]
        budget.take(len(looked_at) // _RULES_A_STEP)
        return [rule for rule in looked_at if rule.asks <= own]


def _names_of(name: str, attributes: dict[str, str]) -> set[str]:
    classes = attributes.get("class", "")
    own = {"*", name, *("." + one for one in _UNUSUAL.sub("?", classes).split())}
    if identity := attributes.get("id", ""):
        own.add("#" + _UNUSUAL.sub("?", identity))
    return own


def _resolved(rules: list[Rule], style: str) -> dict[str, str]:
    """Return the values that win; those of rules that may not apply make a property undecided if they would."""
    inline = Rule(frozenset(), (_ANY_RANK * _ANY_RANK, 0, 0, 0), style, is_sure=True)
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
    left, is_css, is_sure = MAX_CHARACTERS, False, False
    for kind, text, attributes in parts:
        if kind == "start" and text == "style":
            rest = _FOR_ALL.sub("", attributes)
            is_sure = _FOR_FEW.search(rest) is None
            is_css = is_sure or "type" not in rest.lower()
        elif kind == "sheet" and is_css:
            yield text[:left], is_sure
            left = max(0, left - len(text))


def _all_rules(sheets: Iterable[tuple[str, bool]], *, wanted: bool) -> Iterator[Rule]:
    """Yield the rules of sheets if any may hide text, or if they are ``wanted``."""
    texts = [(plain(text), is_sure) for text, is_sure in sheets]
    if not wanted and not any(is_sure and is_suspicious(text.lower()) for text, is_sure in texts):
        return
    order = 0
    for text, is_sure in texts:
        for applies, selectors, block in _blocks(text.replace("<!--", " ").replace("-->", " ")):
            marked = _CONDITION.sub(_MARK, selectors)
            is_suspect = is_suspicious(block)
            surely_applies = (
                is_sure and applies and not (is_suspect and ("animation" in block or not _is_valid(marked)))
            )
            for selector in marked.split(","):
                order += 1
                rule = _rule(selector.strip(), block, order, is_sure=surely_applies)
                if rule:
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
            selectors, applies = around.pop()
            if applies and not selectors.startswith("@"):
                yield applies == 1, selectors, text.lower()


def _applies(opened: str) -> float:
    if _EVERY_SCREEN.fullmatch(opened):
        return 1
    return 0 if _NO_SCREEN.fullmatch(opened) else 0.5


def _rule(selector: str, block: str, order: int, *, is_sure: bool) -> Rule | None:
    """Read a selector; None when it can select no element."""
    if _PLAIN.fullmatch(selector):
        asked = _NAME.findall(selector)
        types = int(bool(asked) and asked[0][0] not in ".#")
        rank = selector.count("#"), selector.count("."), types, order
        return Rule(_asks(asked), rank, block, is_sure=is_sure) if selector else None
    compounds = _COMBINATOR.split(selector)
    last = compounds[-1]
    if not last or _NOT_THE_ELEMENT.search(last):
        return None
    is_read = "(" not in last and ")" not in last  # conditions within conditions are not
    asked = _NAME.findall(_STATE.sub("", last).replace(_MARK, " ")) if is_read else []
    ids = selector.count("#") + _ANY_RANK * (":" in selector and _MARK in selector)  # :not(#x), :is(.y)
    classes = selector.count(".") + selector.count(":") + selector.count(_MARK)
    return Rule(_asks(asked), (ids, classes, len(compounds), order), block, is_sure=False)


def _asks(asked: Iterable[str]) -> frozenset[str]:
    return frozenset([one if one[0] in ".#" else one.lower() for one in asked])


def _is_valid(selectors: str) -> bool:
    """Return whether a browser knows all selectors of a list: if not, it leaves out the rule."""
    if _MALFORMED.search(selectors) or _BAD_NAME.search(selectors):
        return False
    return all(one.lower() in _PSEUDO_CLASSES for one in _PSEUDO.findall(selectors))
