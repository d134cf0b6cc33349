"""Decides which CSS declarations hide text: a whole element, or only the text that directly follows a tag.

It recognises the values that senders use to hide text, and checks each value separately, without computing a layout.
"""

import re

from tmpmaild.mail.htmltokens import BLOCKS, names

_MAX_VALUE_CHARACTERS = 200
# Properties that make a box occupy space even if its size is zero.
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
# Shorthands set other properties. Their values are not read, except for the font size.
_SHORTHANDS = {"margin": ("margin-left",), "inset": ("left", "right", "top"), "font": ("font-size",)}
_FONT = "font "  # marks a value of ``font`` where a value of ``font-size`` is expected
_ODD = re.compile(r"/\*.*?(?:\*/|\Z)|\\(?:([0-9a-fA-F]{1,6}+)\s?|(.))", re.DOTALL)
_IMPORTANT = re.compile(r"(?<!\s)\s*+!\s*+important\Z")
_NOTHING = re.compile(r"(?:0|0?\.0+|0\.0*)(?:px|pt|em|rem|%)?")
_NO_ROOM = re.compile(r"(?:0|0?\.0+|0\.0*|1(?=px))(?:px|pt|em|rem)?")
_FAR = re.compile(r"-[0-9]{4,6}(?:\.[0-9]*)?(?:px|pt)|-[0-9]{3,5}(?:em|rem)")
_WITHOUT_ROOM = dict.fromkeys(("height", "max-height", "width", "max-width"), _NO_ROOM)
_CUT_AWAY = re.compile(r"rect\((?:[01](?:px)?[ ,]*){4}\)")
_SHAPED_AWAY = re.compile(r"inset\((?:[5-9][0-9]|100)%\)|circle\(0(?:px|%)?\)|polygon\(0 0(?:, ?0 0)*\)")


Declared = tuple[dict[str, str], dict[str, str]]
"""The values of known properties by name, first those without ``!important``, then those that are important."""

_FAINT = r"(?:-[0-9.]++|0|0?\.0[0-9]*|0\.|[0-9](?=%)|[0-9]\.[0-9]*(?=%))%?"
# Values that hide any element, values that hide positioned elements, and values that hide boxes.
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
# Values that make text invisible. Inner elements may override these values; for example, table layouts override the
# font size.
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
# Matches wherever any value above is declared, and rarely elsewhere. Alternatives that start with a letter are matched
# quickly.
_SUSPECT = re.compile(
    r"display\s*+:\s*+none|visibility\s*+:\s*+(?:hidden|collapse)|opacity\s*+[:(]\s*+(?:[-.0]|[0-9](?:\.[0-9]*+)?%)"
    r"|clip(?:-path)?\s*+:\s*+(?:rect|inset|circle|polygon)|left\s*+:\s*+-[0-9]{3}|top\s*+:\s*+-[0-9]{3}"
    r"|right\s*+:\s*+(?:-[0-9]{3}|[0-9]{4})|transform\s*+:\s*+(?:scale|translate)|indent\s*+:\s*+-[0-9]{4}"
    r"|height\s*+:\s*+(?:[0.]|1px)|width\s*+:\s*+(?:[0.]|1px)|font-size\s*+:\s*+(?:[0.]|1(?:\.[0-9]*+)?p)"
    r"|font\s*+:\s*+(?:[a-z]++\s++)*(?:[0.]|1(?:\.[0-9]*+)?p)"
    r"|color\s*+:\s*+(?:transparent|white|#fff|#[0-9a-f]{3}(?:[0-9a-f]{3}0)?0|[a-z]{3,5}\()"
)
# In a tag, other attributes may also hide text, and so may a style that must first be decoded.
_SUSPECT_ATTRIBUTES = re.compile(rf"{_SUSPECT.pattern}|hidden|\\|/\*|&#|color\s*+=\s*+[\"']?+\s*+(?:white|#fff)")


def declared(style: str) -> Declared:
    """Return the known declarations of a style, in lower case and with single spaces."""
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
    """Return the declared values that apply."""
    ordinary, important = declared(style)
    return ordinary | important


def is_suspicious(css: str) -> bool:
    """Return whether a quick search of a sheet or block in lower case finds a value that may hide text."""
    return _SUSPECT.search(css) is not None


def may_hide_by_rule(declared: Declared, *, on_white: bool) -> bool:
    """Return whether any declared value may hide text, alone or in combination with other values."""
    values = declared[0] | declared[1]
    return _has_any(_HIDING_ANYHOW, values) or (on_white and is_white(values.get("color", "")))


def hides(name: str, declared: dict[str, str]) -> bool:
    """Return whether an element with this name and style hides its content."""
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
    """Return whether a colour is white, in its usual spellings."""
    return _WHITE.fullmatch(colour) is not None


def invisible_text(name: str, declared: dict[str, str], colour: str, *, on_white: bool) -> str:
    """Return the part of the text after a tag that is invisible: "" (none), "line" (its first line) or "all".

    White text is invisible if the page is certainly white (``on_white``).
    """
    if _HIDING_TEXT["font-size"].fullmatch(declared.get("font-size", "")):
        return "all"
    if _HIDING_TEXT["color"].fullmatch(colour) and not _has_gradient_letters(declared):
        return "all"
    if on_white and is_white(colour):
        return "all"
    return "line" if name in BLOCKS and _HIDING_TEXT["text-indent"].fullmatch(declared.get("text-indent", "")) else ""


def may_hide(attributes: str) -> bool:
    """Return whether a quick search of attributes finds anything that may hide text."""
    return _SUSPECT_ATTRIBUTES.search(attributes.lower()) is not None


def plain(style: str) -> str:
    """Return CSS without comments and escapes."""
    return _ODD.sub(_made_plain, style) if "\\" in style or "/*" in style else style


def _is_box(name: str, declared: dict[str, str]) -> bool:
    return declared.get("display") in ("block", "inline-block") or ("display" not in declared and name in BLOCKS)


def _has_padding(declared: dict[str, str]) -> bool:
    return any(one in _ROOMY and not _NOTHING.fullmatch(declared[one]) for one in declared)


def _has_gradient_letters(declared: dict[str, str]) -> bool:
    """Return whether a gradient is visible through the letters."""
    background = declared.get("background", "") + declared.get("background-image", "")
    clips = declared.get("background-clip", ""), declared.get("-webkit-background-clip", "")
    return "text" in clips and ("gradient(" in background or "?" in background) and "transparent" not in background


def _made_plain(found: re.Match[str]) -> str:
    if not found[1] and not found[2]:
        return ""
    character = chr(int(found[1], 16)) if found[1] and int(found[1], 16) <= 0x10FFFF else found[2] or "?"  # noqa: PLR2004
    return character if character.isalnum() or character == "-" else "?"
