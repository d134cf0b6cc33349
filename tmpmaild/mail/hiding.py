"""Which declarations plainly hide what an element holds, in its style or for a class of the mail's own sheets.

No rule overrides another: a class that any other rule may show is not hidden, and what cannot be decided is seen.
"""

import re
from collections.abc import Iterable, Iterator

from tmpmaild.mail.htmltree import BLOCKS, names

MAX_SHEET_CHARACTERS = 64 * 1024
_MAX_CLASSES = 50
_MAX_DEPTH = 16
_MAX_VALUE_CHARACTERS = 200
# What makes room in a box that has none of its own.
_ROOMY = names(
    "flex flex-basis flex-grow min-block-size min-height min-inline-size min-width padding padding-block "
    "padding-block-end padding-block-start padding-bottom padding-inline padding-inline-end padding-inline-start "
    "padding-left padding-right padding-top"
)
_COUNTED = _ROOMY | names(
    "clip clip-path content-visibility display filter height left margin-left max-height max-width opacity overflow "
    "position right top transform visibility width"
)
_SIGNS = (
    "none",
    "hidden",
    "opacity",
    "font-size",
    "absolute",
    "fixed",
    "transparent",
    "\\",
    "margin-left",
    "transform",
)
_ODD = re.compile(r"/\*.*?(?:\*/|\Z)|\\(?:([0-9a-fA-F]{1,6}+)\s?|(.))", re.DOTALL)
_BRACE = re.compile(r"[{}]")
_EVERY_SCREEN = re.compile(r"@media\s++(?:only\s++)?(?:all|screen)", re.IGNORECASE)
_NOT_DISPLAYED = re.compile(r"display\s*+:\s*+none")
_FOR_ALL = re.compile(r"media\s*+=\s*+[\"']?(?:all|screen)\b(?!\s*+and)|type\s*+=\s*+[\"']?text/css\b", re.IGNORECASE)
_FOR_FEW = re.compile(r"\b(?:media|type)\s*+=", re.IGNORECASE)
_CLASS = re.compile(r"\.([\w-]+)")
_ONLY_CLASS = re.compile(r"\s*+\.([\w-]++)\s*+")
_SEEN_OR_NOT = re.compile(
    r"(?:^|[;\s])(?:display|visibility|opacity|position|height|max-height|font|font-size|color|filter|margin-left|transform)\s*+:"
)
_IMPORTANT = re.compile(r"(?<!\s)\s*+!\s*+important\Z")
_NOTHING = re.compile(r"(?:0|0?\.0+|0\.0*)(?:px|pt|em|rem|%)?")
_NO_ROOM = re.compile(r"(?:0|0?\.0+|0\.0*|1(?=px))(?:px|pt|em|rem)?")
_FAR = re.compile(r"-[0-9]{4,6}(?:\.[0-9]*)?(?:px|pt)|-[0-9]{3,5}(?:em|rem)")
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


def declared(style: str) -> Declared:
    """Return what a style declares, in lower case and with single spaces."""
    found: Declared = {}, {}
    for part in plain(style).lower().split(";"):
        name, _, value = part.partition(":")
        if (name := name.strip()) in _COUNTED:
            value = " ".join(value.split())
            bare = _IMPORTANT.sub("", value)
            found[bare != value][name] = bare if len(bare) <= _MAX_VALUE_CHARACTERS else "?"
    return found


def together(styles: Iterable[Declared]) -> dict[str, str]:
    """Return the values that apply when all of these are declared, in this order."""
    plain_ones, important = dict[str, str](), dict[str, str]()
    for one in styles:
        plain_ones |= one[0]
        important |= one[1]
    return plain_ones | important


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


def may_hide(attributes: str) -> bool:
    """Return whether a quick look at attributes finds anything that ``hides`` may take for hiding, or ``hidden``."""
    text = attributes.lower()
    return (
        "hidden" in text
        or "visibility" in text
        or "opacity" in text
        or "clip" in text
        or "filter" in text
        or "transform" in text
        or "margin-left" in text
        or "absolute" in text
        or "fixed" in text
        or "\\" in text
        or "/*" in text
        or ("display" in text and _NOT_DISPLAYED.search(text) is not None)
    )


def plain(style: str) -> str:
    """Return CSS without comments and escapes."""
    return _ODD.sub(_made_plain, style) if "\\" in style or "/*" in style else style


def hidden_classes(parts: Iterable[tuple[str, str, str]]) -> dict[str, Declared]:
    """Return the classes that the sheets of a mail hide, and what they declare for them; given what it is made of."""
    sheets: list[str] = []
    is_sure = False
    for kind, text, attributes in parts:
        if kind == "start":
            is_sure = text == "style" and _FOR_FEW.search(_FOR_ALL.sub("", attributes)) is None
        elif kind == "sheet" and is_sure:
            sheets.append(text)
    sheet = "\n".join(sheets)[:MAX_SHEET_CHARACTERS]
    lower = sheet.lower()
    return _hidden(sheet) if any(sign in lower for sign in _SIGNS) else {}


def _hidden(sheet: str) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    shown: set[str] = set()
    for is_sure, selectors, block in _rules(plain(sheet)):
        hidden = set()
        if is_sure and ":" not in selectors and "animation" not in block and any(sign in block for sign in _SIGNS):
            alone = (_ONLY_CLASS.fullmatch(one) for one in selectors.split(","))
            hidden = {one[1] for one in alone if one}
            style = declared(block)
            for one in hidden:
                if one in found or len(found) < _MAX_CLASSES:
                    ordinary, important = found.get(one, ({}, {}))
                    found[one] = ordinary | style[0], important | style[1]
        if _SEEN_OR_NOT.search(block):
            shown.update(set(_CLASS.findall(selectors)) - hidden)
    return {one: style for one, style in found.items() if one not in shown}


def _rules(sheet: str) -> Iterator[tuple[bool, str, str]]:
    """Yield whether a rule applies on every screen, its selectors and its block."""
    start, is_sure = 0, True
    around = list[tuple[str, bool]]()  # what is open, and whether what stood around it applies on every screen
    for brace in _BRACE.finditer(sheet):
        text = sheet[start : brace.start()].strip()
        start = brace.end()
        if brace[0] == "{":
            opened = text.rpartition(";")[2].strip()
            around.append((opened, is_sure))
            is_sure = is_sure and len(around) <= _MAX_DEPTH and _EVERY_SCREEN.fullmatch(opened) is not None
        elif around:
            selectors, is_sure = around.pop()
            if not selectors.startswith("@"):
                yield is_sure, selectors, text.lower()


def _is_box(name: str, declared: dict[str, str]) -> bool:
    return declared.get("display") in ("block", "inline-block") or ("display" not in declared and name in BLOCKS)


def _has_padding(declared: dict[str, str]) -> bool:
    return any(one in _ROOMY and not _NOTHING.fullmatch(declared[one]) for one in declared)


def _has_no_room(declared: dict[str, str]) -> bool:
    """Return whether a box has no room and cuts off what it holds."""
    if declared.get("overflow") not in ("hidden", "clip") or _has_padding(declared):
        return False
    return any(_NO_ROOM.fullmatch(declared.get(side, "")) for side in ("height", "max-height", "width", "max-width"))


def _made_plain(found: re.Match[str]) -> str:
    if not found[1] and not found[2]:
        return ""
    character = chr(int(found[1], 16)) if found[1] and int(found[1], 16) <= 0x10FFFF else found[2] or "?"  # noqa: PLR2004
    return character if character.isalnum() or character == "-" else "?"
