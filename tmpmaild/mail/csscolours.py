"""Colours of text and of what lies behind it: which are so alike that nothing can be read."""

import re
from colorsys import hls_to_rgb
from typing import Final

from tinycss2 import color4

from tmpmaild.mail.htmltree import names

# Red, green, blue and opacity, each from 0 to 1; empty when it cannot be known.
Colour = tuple[float, ...]

UNKNOWN: Final[Colour] = ()
BLACK: Final[Colour] = (0.0, 0.0, 0.0, 1.0)
WHITE: Final[Colour] = (1.0, 1.0, 1.0, 1.0)
_NAMES = (
    "aliceblue antiquewhite aqua aquamarine azure beige bisque black blanchedalmond blue blueviolet brown "
    "burlywood cadetblue chartreuse chocolate coral cornflowerblue cornsilk crimson cyan darkblue darkcyan "
    "darkgoldenrod darkgray darkgreen darkgrey darkkhaki darkmagenta darkolivegreen darkorange darkorchid "
    "darkred darksalmon darkseagreen darkslateblue darkslategray darkslategrey darkturquoise darkviolet "
    "deeppink deepskyblue dimgray dimgrey dodgerblue firebrick floralwhite forestgreen fuchsia gainsboro "
    "ghostwhite gold goldenrod gray green greenyellow grey honeydew hotpink indianred indigo ivory khaki "
    "lavender lavenderblush lawngreen lemonchiffon lightblue lightcoral lightcyan lightgoldenrodyellow "
    "lightgray lightgreen lightgrey lightpink lightsalmon lightseagreen lightskyblue lightslategray "
    "lightslategrey lightsteelblue lightyellow lime limegreen linen magenta maroon mediumaquamarine mediumblue "
    "mediumorchid mediumpurple mediumseagreen mediumslateblue mediumspringgreen mediumturquoise "
    "mediumvioletred midnightblue mintcream mistyrose moccasin navajowhite navy oldlace olive olivedrab orange "
    "orangered orchid palegoldenrod palegreen paleturquoise palevioletred papayawhip peachpuff peru pink plum "
    "powderblue purple rebeccapurple red rosybrown royalblue saddlebrown salmon sandybrown seagreen seashell "
    "sienna silver skyblue slateblue slategray slategrey snow springgreen steelblue tan teal thistle tomato "
    "turquoise violet wheat white whitesmoke yellow yellowgreen transparent"
)
_NAMED: Final[dict[str, Colour]] = {name: tuple(color4.parse_color(name).to("srgb")) for name in _NAMES.split()}
_HEX = re.compile(r"#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
_LEGACY_HEX = re.compile(r"#?([0-9a-f]{6}|[0-9a-f]{3})")
_NUMBER = r"([-+]?(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}))"
_FUNCTION = re.compile(
    rf"(rgb|hsl)a?\( ?{_NUMBER}(%|deg|) ?[, ] ?{_NUMBER}(%?) ?[, ] ?{_NUMBER}(%?) ?(?:[,/] ?{_NUMBER}(%?) ?)?\)"
)
# Valid in browsers, and not computed here.
_COMPUTED = re.compile(r"(?:rgba?|hsla?|hwb|lab|lch|oklab|oklch|color|color-mix|light-dark|var|env)\(")
_SYSTEM = names(
    "accentcolor accentcolortext activetext buttonborder buttonface buttontext canvas canvastext currentcolor field "
    "fieldtext graytext highlight highlighttext linktext mark marktext selecteditem selecteditemtext visitedtext "
    "window windowtext infobackground infotext menu menutext background -webkit-link"
)
_UNSEEN = 0.02  # opacity, or distance of two colours


def colour(value: str) -> Colour | None:
    """Return a colour of CSS in lower case; None if browsers would not take it for one."""
    if value in _NAMED:
        return _NAMED[value]
    if _HEX.fullmatch(value):
        return _of_hex(value[1:])
    if found := _FUNCTION.fullmatch(value):
        return _of_function(*found.groups(""))
    return UNKNOWN if value in _SYSTEM or _COMPUTED.match(value) else None


def of_attribute(value: str) -> str:
    """Return the colour of an attribute as ``bgcolor`` as CSS writes it."""
    value = value.strip().lower()
    if found := _LEGACY_HEX.fullmatch(value):
        return f"#{found[1]}"
    return value


def is_clear(one: Colour) -> bool:
    """Return whether nothing is painted in this colour."""
    return bool(one) and one[3] <= _UNSEEN


def is_unseen(text: Colour, ground: Colour) -> bool:
    """Return whether text cannot be seen on a ground."""
    if is_clear(text):
        return True
    if not text or not ground or ground[3] < 1 or text[3] < 1:
        return False
    return all(abs(one - other) <= _UNSEEN for one, other in zip(text[:3], ground[:3], strict=True))


def _of_hex(digits: str) -> Colour:
    if len(digits) in (3, 4):
        digits = "".join(digit * 2 for digit in digits)
    octets = bytes.fromhex(digits)
    red, green, blue, alpha = *octets[:3], *(octets[3:] or b"\xff")
    return red / 255, green / 255, blue / 255, alpha / 255


def _of_function(name: str, *arguments: str) -> Colour:
    """Return the colour of ``rgb(…)`` or ``hsl(…)``, given its numbers and their units in turn."""
    numbers = [float(number or 1) for number in arguments[::2]]
    units = arguments[1::2]
    alpha = _bounded(numbers[3] / (100 if units[3] else 1))
    if name == "hsl":
        hue, saturation, light = numbers[0] % 360 / 360, _bounded(numbers[1] / 100), _bounded(numbers[2] / 100)
        return (*hls_to_rgb(hue, light, saturation), alpha)
    parts = zip(numbers[:3], units[:3], strict=True)
    return (*(_bounded(number / (100 if unit else 255)) for number, unit in parts), alpha)


def _bounded(share: float) -> float:
    return min(1.0, max(0.0, share))
