"""Which declarations plainly hide what an element holds, in its style or for a class of the mail's own sheets.

No rule overrides another: a class that any other rule may show is not hidden, and what cannot be decided is seen.
"""

import re
from collections.abc import Iterable, Iterator

from tmpmaild.mail.htmltree import BLOCKS

MAX_SHEET_CHARACTERS = 64 * 1024
_MAX_CLASSES = 50
_SIGNS = ("none", "hidden", "opacity", "font-size", "absolute", "fixed", "transparent", "\\")
_ODD = re.compile(r"/\*.*?(?:\*/|\Z)|\\(?:([0-9a-fA-F]{1,6}+)\s?|(.))", re.DOTALL)
_BRACE = re.compile(r"[{}]")
_EVERY_SCREEN = re.compile(r"@media\s++(?:only\s++)?(?:all|screen)", re.IGNORECASE)
_NOT_DISPLAYED = re.compile(r"display\s*+:\s*+none")
_FOR_ALL = re.compile(r"media\s*+=\s*+[\"']?(?:all|screen)\b(?!\s*+and)|type\s*+=\s*+[\"']?text/css\b", re.IGNORECASE)
_FOR_FEW = re.compile(r"\b(?:media|type)\s*+=", re.IGNORECASE)
_CLASS = re.compile(r"\.([\w-]+)")
_ONLY_CLASS = re.compile(r"\s*+\.([\w-]++)\s*+")
_SEEN_OR_NOT = re.compile(
    r"(?:^|[;\s])(?:display|visibility|opacity|position|height|max-height|font|font-size|color)\s*+:"
)
_IMPORTANT = re.compile(r"\s*+!\s*+important\Z")
_NOTHING = re.compile(r"(?:0|0?\.0+|0\.0*)(?:px|pt|em|rem|%)?")
_NO_ROOM = re.compile(r"(?:0|0?\.0+|0\.0*|1(?=px))(?:px|pt|em|rem)?")
_FAR = re.compile(r"-[0-9]{4,6}(?:\.[0-9]*)?(?:px|pt)|-[0-9]{3,5}(?:em|rem)")
_CUT_AWAY = re.compile(r"rect\((?:[01](?:px)?[ ,]*){4}\)")
_SHAPED_AWAY = re.compile(r"inset\((?:[5-9][0-9]|100)%\)|circle\(0(?:px|%)?\)|polygon\(0 0(?:, ?0 0)*\)")


def hides(name: str, style: str) -> bool:
    """Return whether an element of this name and style hides what it holds."""
    declared = dict(_declared(style))
    get = declared.get
    if (
        get("display") == "none"
        or get("visibility") in ("hidden", "collapse")
        or _NOTHING.fullmatch(get("opacity", ""))
    ):
        return True
    if get("position") in ("absolute", "fixed") and (
        _FAR.fullmatch(get("left", "")) or _FAR.fullmatch(get("top", "")) or _CUT_AWAY.fullmatch(get("clip", ""))
    ):
        return True
    return _SHAPED_AWAY.fullmatch(get("clip-path", "")) is not None or _has_no_room(name, declared)


def may_hide(attributes: str) -> bool:
    """Return whether a quick look at attributes finds anything that ``hides`` may take for hiding, or ``hidden``."""
    text = attributes.lower()
    return (
        "hidden" in text
        or "visibility" in text
        or "opacity" in text
        or "clip" in text
        or "absolute" in text
        or "fixed" in text
        or "\\" in text
        or "/*" in text
        or ("display" in text and _NOT_DISPLAYED.search(text) is not None)
    )


def plain(style: str) -> str:
    """Return CSS without comments and escapes."""
    return _ODD.sub(_made_plain, style) if "\\" in style or "/*" in style else style


def hidden_classes(parts: Iterable[tuple[str, str, str]]) -> dict[str, str]:
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


def _hidden(sheet: str) -> dict[str, str]:
    found: dict[str, str] = {}
    shown: set[str] = set()
    for is_sure, selectors, block in _rules(plain(sheet)):
        hidden = set()
        if is_sure and ":" not in selectors and "animation" not in block and any(sign in block for sign in _SIGNS):
            alone = (_ONLY_CLASS.fullmatch(one) for one in selectors.split(","))
            hidden = {one[1] for one in alone if one}
        found.update((one, f"{found.get(one, '')};{block}") for one in hidden if len(found) < _MAX_CLASSES)
        if _SEEN_OR_NOT.search(block):
            shown.update(set(_CLASS.findall(selectors)) - hidden)
    return {one: block for one, block in found.items() if one not in shown}


def _rules(sheet: str) -> Iterator[tuple[bool, str, str]]:
    """Yield whether a rule applies on every screen, its selectors and its block."""
    start, around = 0, list[str]()
    for brace in _BRACE.finditer(sheet):
        text = sheet[start : brace.start()].strip()
        start = brace.end()
        if brace[0] == "{":
            around.append(text.rpartition(";")[2].strip())
        elif around:
            selectors = around.pop()
            if not selectors.startswith("@"):
                yield all(_EVERY_SCREEN.fullmatch(one) for one in around), selectors, text.lower()


def _declared(style: str) -> Iterator[tuple[str, str]]:
    """Yield names and values in the order in which they count."""
    pairs = [part.partition(":")[::2] for part in plain(style).lower().split(";")]
    declared = [(name.strip(), " ".join(value.split())) for name, value in pairs]
    yield from (one for one in declared if not _IMPORTANT.search(one[1]))
    yield from ((name, _IMPORTANT.sub("", value)) for name, value in declared if _IMPORTANT.search(value))


def _has_no_room(name: str, declared: dict[str, str]) -> bool:
    """Return whether an element is a box without room that cuts off what it holds."""
    is_box = declared.get("display") in ("block", "inline-block") or ("display" not in declared and name in BLOCKS)
    if not is_box or declared.get("overflow") not in ("hidden", "clip"):
        return False
    if any(one.startswith(("padding", "min-", "flex")) and not _NOTHING.fullmatch(declared[one]) for one in declared):
        return False
    return any(_NO_ROOM.fullmatch(declared.get(side, "")) for side in ("height", "max-height", "width", "max-width"))


def _made_plain(found: re.Match[str]) -> str:
    if not found[1] and not found[2]:
        return ""
    character = chr(int(found[1], 16)) if found[1] and int(found[1], 16) <= 0x10FFFF else found[2] or "?"  # noqa: PLR2004
    return character if character.isalnum() or character == "-" else "?"
