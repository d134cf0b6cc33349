"""What the declarations that count for an element do to its text, and to the text of what it holds."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tmpmaild.mail.csscolours import UNKNOWN as UNKNOWN_COLOUR
from tmpmaild.mail.csscolours import Colour, colour, is_clear
from tmpmaild.mail.cssvalues import CLEAR, FAR_PIXELS, SMALL_PIXELS, UNKNOWN, Value
from tmpmaild.mail.htmltree import names

MEDIUM_PIXELS: Final = 16.0
# Elements with a width and a height of their own, which cells, tables and inline elements do not have.
_BLOCKS: Final = names(
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer form h1 "
    "h2 h3 h4 h5 h6 header hr legend li main menu nav ol p pre section summary ul"
)
_BOXES = names("block inline-block flex inline-flex grid inline-grid list-item flow-root -webkit-box -webkit-flex")
_CELLS = names("td th caption")
_SIDES = {"x": ("width", "left", "right"), "y": ("height", "top", "bottom")}
_CLIPPING = names("hidden clip scroll auto")
_AS_AROUND = names("inherit unset")
_SELDOM = names("clip clip-path content-visibility filter scale transform")
_MOVED = names("bottom left margin-left margin-top right top")
_BLENDED = ("filter", "mix-blend-mode", "transform")
_DECORATED = names("-webkit-text-fill-color -webkit-text-stroke background-clip text-shadow")
# To the right and below one may scroll.
_FAR_TO_SCROLL_PIXELS = 4000


class Effect(NamedTuple):
    """What an element does; None leaves it as it is around the element."""

    is_gone: bool = False
    is_invisible: bool | None = None
    size_pixels: float | None = None
    size_factor: float | None = None
    is_indented_away: bool | None = None
    colour: Colour | None = None
    ground: Colour | None = None
    is_decorated: bool = False
    is_block: bool = False


NO_EFFECT: Final = Effect()


def effect(name: str, values: Mapping[str, Value]) -> Effect:
    """Return what the values of an element's properties do."""
    is_box = _is_box(name, values)
    if "animation" in values and values["animation"] != "none":
        return _animated(values, is_block=is_box or name in _CELLS)
    size = values.get("font-size")
    return Effect(
        is_gone=_is_gone(name, values, is_box=is_box),
        is_invisible=_is_invisible(values.get("visibility")),
        size_pixels=None if size is None or size in _AS_AROUND or _is_factor(size) else _pixels(size, MEDIUM_PIXELS),
        size_factor=float(str(size)[1:]) if _is_factor(size) else None,
        is_indented_away=_is_indented_away(values.get("text-indent")),
        colour=_text_colour(values),
        ground=_ground(values),
        is_decorated=_is_decorated(values),
        is_block=is_box or name in _CELLS,
    )


def _animated(values: Mapping[str, Value], *, is_block: bool) -> Effect:
    """Return what is sure of an element that changes while one looks at it."""
    return Effect(
        is_gone=values.get("display") == "none",
        is_invisible=False,
        size_pixels=MEDIUM_PIXELS,
        is_indented_away=False,
        colour=UNKNOWN_COLOUR,
        ground=UNKNOWN_COLOUR,
        is_block=is_block,
    )


def _pixels(value: Value | None, otherwise: float) -> float:
    return value if isinstance(value, float) else otherwise


def _is_factor(value: Value | None) -> bool:
    return isinstance(value, str) and value.startswith("*")


def _is_invisible(value: Value | None) -> bool | None:
    return None if value is None or value in _AS_AROUND else value in ("hidden", "collapse")


def _is_indented_away(value: Value | None) -> bool | None:
    return None if value is None or value in _AS_AROUND else _pixels(value, 0) <= -FAR_PIXELS


def _is_box(name: str, values: Mapping[str, Value]) -> bool:
    """Return whether an element has a size that can be set."""
    display = values.get("display")
    if values.get("position") in ("absolute", "fixed") or values.get("float", "none") in ("left", "right"):
        return display != UNKNOWN
    return display in _BOXES if display is not None else name in _BLOCKS


def _is_gone(name: str, values: Mapping[str, Value], *, is_box: bool) -> bool:
    if values.get("display") == "none" or _pixels(values.get("opacity"), 1) <= CLEAR:
        return True
    if name == "img":
        return any(
            _pixels(values.get(side), 2) <= SMALL_PIXELS for side in ("width", "height", "max-width", "max-height")
        )
    if not _SELDOM.isdisjoint(values) and _is_made_nothing(values, is_box=is_box):
        return True
    if ("position" in values or is_box) and _is_far(values, is_box=is_box):
        return True
    clips = is_box and ("overflow-x" in values or "overflow-y" in values)
    return clips and (_is_collapsed(values, "x") or _is_collapsed(values, "y"))


def _is_made_nothing(values: Mapping[str, Value], *, is_box: bool) -> bool:
    if "empty" in (values.get("filter"), values.get("clip-path")):
        return True
    is_cut = values.get("clip") == "empty" and values.get("position") in ("absolute", "fixed")
    is_nothing = (
        "empty" in (values.get("transform"), values.get("scale")) or values.get("content-visibility") == "hidden"
    )
    return is_cut or (is_box and is_nothing)


def _is_far(values: Mapping[str, Value], *, is_box: bool) -> bool:
    """Return whether an element lies where nobody looks."""
    if _MOVED.isdisjoint(values):
        return False
    left, top, right, bottom = (_pixels(values.get(side), 0) for side in ("left", "top", "right", "bottom"))
    if values.get("position") in ("absolute", "fixed", "relative") and (
        min(left, top) <= -FAR_PIXELS
        or max(left, right, bottom) >= _FAR_TO_SCROLL_PIXELS
        or (right <= -_FAR_TO_SCROLL_PIXELS and "left" not in values)
    ):
        return True
    # Stripes across the window have such margins, and paddings to match.
    is_padded = max(_pixels(values.get(f"padding-{side}"), 0) for side in ("left", "top")) >= FAR_PIXELS
    margins = (_pixels(values.get(f"margin-{side}"), 0) for side in ("left", "top"))
    return is_box and not is_padded and min(margins) <= -FAR_PIXELS


def _is_collapsed(values: Mapping[str, Value], axis: str) -> bool:
    """Return whether a box has no room along an axis for what it holds, and cuts that off."""
    side, *ends = _SIDES[axis]
    other = values.get("overflow-y" if axis == "x" else "overflow-x", "visible")
    overflow = values.get(f"overflow-{axis}", "visible")
    if overflow not in _CLIPPING and (overflow != "visible" or other not in _CLIPPING - {"clip"}):
        return False
    has_room = any(
        _pixels(values.get(name, 0.0), 2) > SMALL_PIXELS
        for name in (f"min-{side}", *(f"padding-{end}" for end in ends))
    )
    is_set = _pixels(values.get(side), 2) <= SMALL_PIXELS and "flex" not in values
    return not has_room and (is_set or _pixels(values.get(f"max-{side}"), 2) <= SMALL_PIXELS)


def _text_colour(values: Mapping[str, Value]) -> Colour | None:
    fill = _colour_of(values.get("-webkit-text-fill-color"))
    return fill or _colour_of(values.get("color"))


def _colour_of(value: Value | None) -> Colour | None:
    if value is None or value in _AS_AROUND:
        return None
    return colour(str(value)) or UNKNOWN_COLOUR


def _ground(values: Mapping[str, Value]) -> Colour | None:
    """Return what lies behind the text; unknown where an element may lie on something else than what is around it."""
    if values.get("background-image", "none") not in ("none", "initial", "unset"):
        return UNKNOWN_COLOUR
    ground = _colour_of(values.get("background-color"))
    if ground and not is_clear(ground):
        return ground if ground[3] == 1 else UNKNOWN_COLOUR
    if ground is not None and not is_clear(ground):
        return UNKNOWN_COLOUR
    is_moved = values.get("position", "static") != "static" or any(
        values[name] not in ("none", "normal") for name in _BLENDED if name in values
    )
    is_pulled = any(_pixels(values[name], 0) < 0 for name in ("margin-left", "margin-top") if name in values)
    return UNKNOWN_COLOUR if is_moved or is_pulled else None


def _is_decorated(values: Mapping[str, Value]) -> bool:
    """Return whether letters are seen by something else than their colour."""
    if _DECORATED.isdisjoint(values):
        return False
    fill = _colour_of(values.get("-webkit-text-fill-color"))
    if (fill is not None and not is_clear(fill)) or values.get("background-clip") == "text":
        return True
    return any(values.get(name, "none") not in ("none", "0", "0px") for name in ("text-shadow", "-webkit-text-stroke"))
