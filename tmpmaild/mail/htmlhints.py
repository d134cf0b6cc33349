"""What the names and attributes of HTML elements say of how their text looks, without any CSS."""

from collections.abc import Iterator, Mapping

from tmpmaild.mail.csscolours import of_attribute
from tmpmaild.mail.cssvalues import UNKNOWN, Value
from tmpmaild.mail.htmltree import names

_HIDDEN = names("template datalist")
_CONTROLS = names("button input select textarea")
_GROUNDS = names("body table tbody thead tfoot tr td th")


def hints(name: str, attributes: Mapping[str, str], *, is_quirky: bool) -> Iterator[tuple[str, Value]]:
    """Yield properties and their values, as ``cssvalues`` has them; anything in a sheet counts more."""
    if (
        name in _HIDDEN
        or "hidden" in attributes
        or "popover" in attributes
        or (name == "dialog" and "open" not in attributes)
    ):
        yield "display", "none"
    yield from _colours(name, attributes)
    if name in _CONTROLS or (name == "table" and is_quirky):
        yield from (("font-size", 16.0), ("color", UNKNOWN))
    if name in _CONTROLS or name in ("mark", "dialog"):
        yield from (("color", UNKNOWN), ("background-color", UNKNOWN))
    if name == "img":
        yield from (
            (side, float(attributes[side])) for side in ("width", "height") if attributes.get(side) in ("0", "1")
        )


def _colours(name: str, attributes: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    if name == "font":
        if "color" in attributes:
            yield "color", of_attribute(attributes["color"])
        if "size" in attributes:
            yield "font-size", 16.0
    elif name == "a" and "href" in attributes:
        yield "color", UNKNOWN
    elif name == "body" and "text" in attributes:
        yield "color", of_attribute(attributes["text"])
    if name in _GROUNDS and "bgcolor" in attributes:
        yield "background-color", of_attribute(attributes["bgcolor"])
    if name in _GROUNDS and attributes.get("background"):
        yield "background-image", UNKNOWN
