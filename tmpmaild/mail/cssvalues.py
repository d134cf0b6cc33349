"""The values of the properties by which text may be hidden; what they do together is told in ``csseffects.py``.

What browsers would not take for a value is none. One that only they can compute is UNKNOWN, and hides nothing.
"""

import re
from collections.abc import Callable
from typing import Final

from tmpmaild.mail.csscolours import colour
from tmpmaild.mail.htmltree import names

Value = str | float
UNKNOWN: Final = "?"
SMALL_PIXELS: Final = 1.0  # no room for a letter
CLEAR: Final = 0.02  # opacity that leaves nothing to see
FAR_PIXELS: Final = 1000  # out of the window; no layout moves what is to be read as far

_WIDE_KEYWORDS = names("inherit initial unset revert revert-layer")
_COMPUTED = re.compile(r"(?:calc|min|max|clamp|var|env|attr|anchor)\(")
_LENGTH = re.compile(r"([-+]?(?:[0-9]{1,12}+(?:\.[0-9]{0,32})?|\.[0-9]{1,32})(?:e[-+]?[0-9]{1,2})?)([a-z]*+|%)")
_PIXELS: Final = {
    "px": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
    "q": 0.945,
    **dict.fromkeys(("em", "rem", "lh", "rlh", "ic", "cap"), 16.0),
    **dict.fromkeys(("ex", "ch"), 8.0),
    **dict.fromkeys(("vw", "vh", "vmin", "vmax", "svw", "svh", "lvw", "lvh", "dvw", "dvh", "vi", "vb", "%"), 10.0),
}
_PERCENTAGE = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?%")
_WHOLE = 100  # percent
_RELATIVE = names("em ex ch cap ic % lh")
_DISPLAYS = names(
    "none block inline inline-block flex inline-flex grid inline-grid table inline-table table-row table-cell "
    "table-row-group table-header-group table-footer-group table-column table-column-group table-caption list-item "
    "contents flow-root flow ruby run-in -webkit-box -webkit-inline-box -webkit-flex -webkit-inline-flex math"
)
_SIZES = names("xx-small x-small small medium large x-large xx-large xxx-large")
_FONT_SIZE = re.compile(
    r"(?:^|\s)([0-9.]{1,20}(?:[a-z]+|%)|0(?:\.0*)?|(?:xx?-|xxx-)?(?:small|large)|medium|larger|smaller)(?:\s*/|\s|$)"
)
_NO_COLOURS = names("none repeat no-repeat repeat-x repeat-y scroll fixed top bottom left right center cover contain 0")
_PARTS = re.compile(r"[^\s()]++(?:\((?>[^()]*+(?:\([^()]*+\)[^()]*+)*)\))?")
_SCALES = names("scale scalex scaley scale3d")
_TRANSFORMS = names(
    "matrix matrix3d perspective rotate rotate3d rotatex rotatey rotatez scale scale3d scalex scaley scalez skew skewx "
    "skewy translate translate3d translatex translatey translatez"
)
_SHAPES = names("inset circle ellipse polygon path rect xywh shape url")
_FILTERS = names("blur brightness contrast drop-shadow grayscale hue-rotate invert opacity saturate sepia url")
_MOVES = names("translate translatex translatey translate3d")
_FUNCTION = re.compile(r"([a-z0-9-]+)\(([^()]*)\)")


def _keyword(allowed: frozenset[str]) -> Callable[[str], Value | None]:
    return lambda value: value if value in allowed else None


def _display(value: str) -> Value | None:
    return value if value.rsplit(" ", maxsplit=1)[-1] in _DISPLAYS else None


def _length(value: str) -> Value | None:
    """Return a length in pixels, as far as it can be told without the layout."""
    found = _LENGTH.fullmatch(value)
    if found is None:
        return UNKNOWN if value in ("auto", "none") or value.endswith("content") or value.startswith("fit-") else None
    number, unit = float(found[1]), found[2]
    if not unit:
        return 0.0 if number == 0 else UNKNOWN  # a length in a page without a doctype only
    return number * _PIXELS[unit] if unit in _PIXELS else None


def _offset(value: str) -> Value | None:
    """Return how far something is moved; shares place columns side by side."""
    return UNKNOWN if value.endswith("%") else _length(value)


def _extent(value: str) -> Value | None:
    """Return the length of a side; a share of a height that is not set is no length."""
    length = _length(value)
    if isinstance(length, float) and length < 0:
        return None
    return UNKNOWN if value.endswith("%") else length


def _share(value: str) -> Value | None:
    found = _LENGTH.fullmatch(value)
    if found is None or found[2] not in ("", "%"):
        return None
    return float(found[1]) / (100 if found[2] else 1)


def _font_size(value: str) -> Value | None:
    """Return a size in pixels, or what it is of the size around it, as ``*0.5``."""
    if value in _SIZES:
        return 16.0
    if value in ("larger", "smaller", "math"):
        return "*1"
    found = _LENGTH.fullmatch(value)
    if found and found[2] in _RELATIVE and float(found[1]) >= 0:
        return f"*{float(found[1]) / (100 if found[2] == '%' else 1)}"
    length = _length(value)
    return None if (length == UNKNOWN and not found) or (isinstance(length, float) and length < 0) else length


def _colour(value: str) -> Value | None:
    return value if colour(value) is not None else None


def _clip(value: str) -> Value | None:
    """Tell whether ``rect(…)`` leaves nothing."""
    found = _FUNCTION.fullmatch(value)
    if found is None or found[1] != "rect":
        return UNKNOWN if value == "auto" else None
    sides = [_length(side) for side in found[2].replace(",", " ").split()]
    if len(sides) != 4 or None in sides:  # noqa: PLR2004
        return None
    top, right, bottom, left = sides
    return "empty" if _is_narrow(top, bottom) or _is_narrow(left, right) else UNKNOWN


def _is_narrow(start: Value | None, end: Value | None) -> bool:
    return isinstance(start, float) and isinstance(end, float) and end - start <= SMALL_PIXELS


def _clip_path(value: str) -> Value | None:
    """Tell whether a shape leaves nothing."""
    found = _FUNCTION.match(value)
    if found is None or found[1] not in _SHAPES:
        return UNKNOWN if value.endswith("-box") else value if value == "none" else None
    name, arguments = found[1], found[2].split(" round ")[0]
    if name == "inset":
        sides = [float(side[:-1]) if _PERCENTAGE.fullmatch(side) else 0.0 for side in _four(arguments.split())]
        return "empty" if sides and max(sides[0] + sides[2], sides[1] + sides[3]) >= _WHOLE else UNKNOWN
    radii = arguments.split("at")[0].split()
    if name in ("circle", "ellipse") and radii:
        return "empty" if 0.0 in [_length(one) for one in radii] else UNKNOWN
    if name == "polygon":
        points = {" ".join(point.split()) for point in arguments.split(",")}
        return "empty" if len(points) == 1 else UNKNOWN
    return UNKNOWN


def _transform(value: str) -> Value | None:
    """Tell whether a box is made nothing or moved far away."""
    if value == "none" or not _are_functions(value, _TRANSFORMS):
        return value if value == "none" else None
    for name, arguments in _FUNCTION.findall(value):
        given = [one.strip() for one in arguments.split(",")][:2]
        if name in _SCALES and 0.0 in map(_share, given):
            return "empty"
        if name in _MOVES and any(isinstance(one, float) and one <= -FAR_PIXELS for one in map(_offset, given)):
            return "empty"
    return UNKNOWN


def _are_functions(value: str, known: frozenset[str]) -> bool:
    found = _FUNCTION.findall(value)
    return bool(found) and {name for name, _ in found} <= known and not _FUNCTION.sub("", value).strip()


def _scale(value: str) -> Value | None:
    shares = [_share(one) for one in value.split()[:3]]
    if value == "none" or None in shares:
        return value if value == "none" else None
    return "empty" if 0.0 in shares[:2] else UNKNOWN


def _filter(value: str) -> Value | None:
    if value == "none" or not _are_functions(value, _FILTERS):
        return value if value == "none" else None
    shares = [_share(given.strip()) for name, given in _FUNCTION.findall(value) if name == "opacity"]
    return "empty" if any(isinstance(one, float) and one <= CLEAR for one in shares) else UNKNOWN


def _any(value: str) -> Value | None:
    return value


_OVERFLOW = _keyword(names("visible hidden clip scroll auto"))
_LONGHANDS: Final[dict[str, Callable[[str], Value | None]]] = {
    "display": _display,
    "visibility": _keyword(names("visible hidden collapse")),
    "content-visibility": _keyword(names("visible hidden auto")),
    "opacity": _share,
    "font-size": _font_size,
    **dict.fromkeys(("width", "height", "max-width", "max-height", "min-width", "min-height"), _extent),
    **dict.fromkeys(("overflow-x", "overflow-y"), _OVERFLOW),
    **dict.fromkeys(("padding-top", "padding-right", "padding-bottom", "padding-left"), _length),
    "position": _keyword(names("static relative absolute fixed sticky")),
    "float": _keyword(names("none left right inline-start inline-end")),
    **dict.fromkeys(("left", "right", "top", "bottom", "margin-left", "margin-top", "text-indent"), _offset),
    "clip": _clip,
    "clip-path": _clip_path,
    "transform": _transform,
    "scale": _scale,
    "filter": _filter,
    **dict.fromkeys(("color", "-webkit-text-fill-color", "background-color"), _colour),
    **dict.fromkeys(
        (
            "background-image",
            "background-clip",
            "text-shadow",
            "-webkit-text-stroke",
            "mix-blend-mode",
            "animation",
            "flex",
        ),
        _any,
    ),
}


def _four(given: list[str]) -> list[str]:
    """Return the values for top, right, bottom and left, of which the last ones may be left out."""
    places = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}.get(len(given), ())
    return [given[place] for place in places]


def _sides(pattern: str) -> Callable[[str], list[tuple[str, str]]]:
    """Expand one to four values for top, right, bottom and left."""
    longhands = [pattern.replace("*", side) for side in ("top", "right", "bottom", "left")]

    def expand(value: str) -> list[tuple[str, str]]:
        return list(zip(longhands, _four(_PARTS.findall(value)), strict=False))

    return expand


def _background(value: str) -> list[tuple[str, str]]:
    """Tell a plain ground from one with an image, which may show anything."""
    parts = _PARTS.findall(value.replace("/", " "))
    colours = [part for part in parts if part not in _NO_COLOURS and colour(part) is not None]
    has_image = "url(" in value or "gradient(" in value or "image-set(" in value
    expanded = [("background-color", colours[-1] if colours else "transparent")]
    if "text" in parts:
        expanded.append(("background-clip", "text"))
    return [*expanded, ("background-image", UNKNOWN if has_image else "none")]


def _font(value: str) -> list[tuple[str, str]]:
    found = _FONT_SIZE.search(value)
    return [("font-size", found[1] if found else "medium")]


_SHORTHANDS: Final[dict[str, Callable[[str], list[tuple[str, str]]]]] = {
    "font": _font,
    "background": _background,
    "overflow": lambda value: [("overflow-x", value.split(" ")[0]), ("overflow-y", value.split(" ")[-1])],
    "padding": _sides("padding-*"),
    "margin": _sides("margin-*"),
    "inset": _sides("*"),
    "-webkit-background-clip": lambda value: [("background-clip", value)],
    "-webkit-clip-path": lambda value: [("clip-path", value)],
    "-webkit-transform": lambda value: [("transform", value)],
    "-webkit-text-stroke-width": lambda value: [("-webkit-text-stroke", value)],
    **dict.fromkeys(("flex-grow", "flex-basis"), lambda value: [("flex", value)]),
    **dict.fromkeys(
        ("animation-name", "-webkit-animation", "-webkit-animation-name"), lambda value: [("animation", value)]
    ),
    "all": lambda value: [(name, value) for name in _LONGHANDS],
}
# These hide only with ``overflow``, and those only by numbers as FAR has them.
_OF_BOXES = names(
    "flex flex-basis flex-grow height max-height max-width min-height min-width padding padding-bottom padding-left "
    "padding-right padding-top width"
)
_OF_PLACES = names("bottom inset left margin margin-left margin-top right text-indent top")
FAR: Final = re.compile(r"(?<=[\s:(,])(?:-[0-9.]|[0-9](?:[0-9]{3}|e))")
_ALL = frozenset(_LONGHANDS) | frozenset(_SHORTHANDS)
_BY_NEED = {
    (boxes, places): _ALL - (frozenset() if boxes else _OF_BOXES) - (frozenset() if places else _OF_PLACES)
    for boxes in (True, False)
    for places in (True, False)
}


def properties(*, boxes: bool, places: bool) -> frozenset[str]:
    """Return the properties that matter, with those of boxes and those that move them or without."""
    return _BY_NEED[boxes, places]


def longhands(name: str, value: str) -> list[tuple[str, Value]]:
    """Return what a declaration sets, nothing if a browser would ignore it."""
    expand = _SHORTHANDS.get(name)
    if expand is None:
        pairs = [(name, value)]
    elif value in _WIDE_KEYWORDS or _COMPUTED.search(value):
        pairs = [(one, value) for one, _ in expand("0")]
    else:
        pairs = expand(value)
    found = []
    for one, given in pairs:
        read = _read(one, given)
        if read is not None:
            found.append((one, read))
        elif expand and one in _LONGHANDS:
            return []
    return found


def _read(name: str, value: str) -> Value | None:
    parse = _LONGHANDS.get(name)
    if parse is None or not value:
        return None
    if value in _WIDE_KEYWORDS or value == UNKNOWN:
        return value
    return UNKNOWN if _COMPUTED.search(value) else parse(value)
