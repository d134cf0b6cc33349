"""The style sheets of a hostile mail made one sheet of this page; selectors and values are in other modules.

Media queries are written anew: kind and size of the screen, and what its reader prefers.

Rules and ``@media`` stay. What loads, names or animates something (``@import``, ``@font-face``, ``@keyframes`` …) is
left out with all that it holds, and so are conditions that are not read here (``@supports``, ``@layer`` …).
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from tmpmaild.mail import cssdeclarations, cssselectors
from tmpmaild.mail.cssdeclarations import Node, RefusedError, declarations_of, nodes_of, rules_of, without_space
from tmpmaild.mail.htmltree import names

# tinycss2 takes half a second for so much.
MAX_CHARACTERS = 128 * 1024
MAX_SELECTORS = 2000
# Of selectors with elements: about a second of a browser.
MAX_MATCHES = 5_000_000
# The elements of the page that its URL names to ask for one view or the other.
DARK_ID = "dark"
LIGHT_ID = "light"
_MAX_DEPTH = 4
_MAX_MEDIA_CHARACTERS = 300
_MAX_REMOTE_IMAGES = 1000

TYPES: Final = names("all print screen")
LENGTHS: Final = names("width height")
WORDS: Final = {
    "orientation": names("landscape portrait"),
    "prefers-color-scheme": names("dark light"),
    "prefers-reduced-motion": names("no-preference reduce"),
    "prefers-contrast": names("less more no-preference"),
    "hover": names("hover none"),
    "any-hover": names("hover none"),
    "pointer": names("coarse fine none"),
    "any-pointer": names("coarse fine none"),
}
RATIOS: Final = names("-webkit-min-device-pixel-ratio -webkit-max-device-pixel-ratio")
RESOLUTIONS: Final = names("resolution min-resolution max-resolution")

_DARK = "(prefers-color-scheme:dark)"
_MAX_QUERIES = 20
_MAX_FEATURES = 8
_UNITS = names("px em rem pt in cm mm")
_DENSITIES = names("dpi dpcm dppx x")
_NUMBER = re.compile(r"[-+]?[0-9.]{1,16}+")
_STEP = 0.02  # what is less than 600px is at most 599.98px
# A share of what is around it, as it is written here.
_FLUID = re.compile(r"(?:^|;)width:(?:[0-9.]{1,8}%|auto)")
_COMBINATOR = re.compile(r"[\s>+~]")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


class Sheet:
    """Takes the style elements of one mail in their order; what passes a bound is left out."""

    def __init__(self) -> None:
        self._characters = 0
        self._weight = 0
        self._selectors: list[str] = []
        self.remote_images = 0
        self._rules: list[str] = []
        self._fluid: set[str] = set()

    def add(self, text: str, media: str = "") -> None:
        """Take in a style element and its ``media``."""
        if len(media) > _MAX_MEDIA_CHARACTERS:
            return
        self._characters += len(media)
        left = max(0, MAX_CHARACTERS - self._characters)
        if len(text) > left:
            text = text[: text.rfind("}", 0, left) + 1]  # a rule cut in two may say something else
        self._characters += len(text)
        query = media_query(nodes_of(media)) if text else None
        if query is not None:
            dark = is_dark(query)
            self._rules.append(_conditional(query, self._written(nodes_of(text), dark), doubled=dark))

    def adapts(self, name: str, classes: str) -> bool:
        """Return whether a rule so far sets a width that follows the screen, which wins over a ``width`` attribute."""
        dotted = [f".{one}" for one in classes.split()]
        return not self._fluid.isdisjoint([name, *dotted, *(f"{name}{one}" for one in dotted)])

    def written(self, elements: int, depth: int) -> str:
        """Return the sheet, "" when it is too much for so many elements, nested so deep.

        Its end tag cannot occur in it: no "<" and no backslash are ever written.
        """
        if sum(cssselectors.matches(one, elements, depth) for one in self._selectors) > MAX_MATCHES:
            return ""
        sheet = "".join(self._rules)
        return "" if "<" in sheet or "\\" in sheet else sheet

    def _written(self, nodes: Sequence[Node], depth: int) -> str:
        return "".join(self._rule(node, depth) for node in rules_of(nodes))

    def _rule(self, node: Node, depth: int) -> str:
        if node.type == "qualified-rule" and self._weight < MAX_SELECTORS:
            return self._style_rule(node, depth)
        if node.type != "at-rule" or node.lower_at_keyword != "media" or node.content is None or depth >= _MAX_DEPTH:
            return ""
        query = media_query(node.prelude)
        if query is None:
            return ""
        return _conditional(query, self._written(node.content, depth + 1), doubled=depth == 0)

    def _style_rule(self, node: Node, depth: int) -> str:
        selectors = cssselectors.written(node.prelude, MAX_SELECTORS - self._weight)
        self._weight += sum(map(cssselectors.weight, selectors))
        self._selectors += selectors
        if not selectors:
            return ""
        declarations = declarations_of(node.content)
        self.remote_images = min(_MAX_REMOTE_IMAGES, self.remote_images + cssdeclarations.remote_images(declarations))
        block = cssdeclarations.written(declarations)
        if not depth and _FLUID.search(block):
            self._fluid |= {one for one in map(_last_compound, selectors) if one}
        return f"{','.join(selectors)}{{{block}}}" if block else ""


def _last_compound(selector: str) -> str:
    """Return what a written selector asks of the element itself, "" for a mere name within something else."""
    *around, last = _COMBINATOR.split(selector.replace(cssselectors.SCOPE, ""))
    return "" if around and "." not in last else last


def _conditional(query: str, rules: str, *, doubled: bool) -> str:
    """Write rules that depend on the screen; what is for dark readers applies in the dark view too."""
    if not query or not rules:
        return rules
    if not doubled or not is_dark(query):
        return f"@media {query}{{{rules}}}"
    return (
        f"@media {query}{{:root:not(:has(#{LIGHT_ID}:target)){{{rules}}}}}"
        f":root:has(#{DARK_ID}:target){{@media {without_dark(query)}{{{rules}}}}}"
    )


def media_query(nodes: Iterable[Node]) -> str | None:
    """Return the known queries of a list anew, "" for an empty one; None when none of them is known."""
    queries = _queries(without_space(nodes))
    found = []
    for query in queries[:_MAX_QUERIES]:
        try:
            found.append(_query(query))
        except RefusedError:
            continue
    return ",".join(found) if found or not queries else None


def is_dark(query: str) -> bool:
    """Return whether a written list has queries for readers who prefer dark colours."""
    return any(_DARK in one and not one.startswith("not ") for one in query.split(","))


def without_dark(query: str) -> str:
    """Return the queries of a written list that ask for dark colours, without asking for them."""
    asking = [one.split(" and ") for one in query.split(",") if _DARK in one and not one.startswith("not ")]
    return ",".join(" and ".join(part for part in one if part != _DARK) or "all" for one in asking)


def _queries(nodes: Sequence[Node]) -> list[list[Node]]:
    return [list(part) for is_comma, part in groupby(nodes, lambda node: bool(node == ",")) if not is_comma]


def _query(nodes: list[Node]) -> str:
    """Write ``[not | only] type and (feature) …``, ``(feature) and …`` or ``not (feature)``."""
    before = _word(nodes[0]) if _word(nodes[0]) in ("not", "only") else ""
    nodes = nodes[bool(before) :]
    if len(nodes) % 2 == 0 or any(_word(node) != "and" for node in nodes[1::2]):
        raise RefusedError
    kind = _word(nodes[0])
    features = [feature for node in nodes[2 if kind else 0 :: 2] for feature in _features(node)]
    if (kind and kind not in TYPES) or len(features) > _MAX_FEATURES:
        raise RefusedError
    if before and not kind and (before == "only" or len(features) > 1):
        raise RefusedError
    return f"{before} {' and '.join([kind, *features] if kind else features)}".lstrip()


def _word(node: Node) -> str:
    return str(node.lower_value) if node.type == "ident" else ""


def _features(node: Node) -> list[str]:
    """Write what is in parentheses: ``name: value``, ``name``, or a range as ``min-`` and ``max-``."""
    nodes = without_space(node.content) if node.type == "() block" else []
    if not nodes:
        raise RefusedError
    name = _named(nodes[0])
    if len(nodes) == 1 and (name in WORDS or name in LENGTHS):
        return [f"({name})"]
    if len(nodes) == 3 and nodes[1] == ":":  # noqa: PLR2004 - name, colon, value
        return [f"({name}:{_value(name, nodes[2])})"]
    return _range(nodes)


def _range(nodes: Sequence[Node]) -> list[str]:
    """Write ``width < 600px``, ``400px <= width < 600px`` and their kin."""
    parts = [(is_sign, list(part)) for is_sign, part in groupby(nodes, lambda node: node.type == "literal")]
    signs = ["".join(node.value for node in part) for is_sign, part in parts if is_sign]
    operands = [part[0] for is_sign, part in parts if not is_sign and len(part) == 1]
    if len(operands) != len(signs) + 1 or any(sign not in _TURNED for sign in signs):
        raise RefusedError
    place = [_named(operand) in LENGTHS for operand in operands]
    if place == [True, False]:
        return [_limit(operands[0], signs[0], operands[1])]
    if place == [False, True]:
        return [_limit(operands[1], _TURNED[signs[0]], operands[0])]
    if place == [False, True, False]:
        return [_limit(operands[1], _TURNED[signs[0]], operands[0]), _limit(operands[1], signs[1], operands[2])]
    raise RefusedError


def _limit(name: Node, sign: str, length: Node) -> str:
    prefix = {"<": "max-", ">": "min-"}.get(sign[0], "")
    beyond = {"<": -_STEP, ">": _STEP}.get(sign, 0)
    return f"({prefix}{_named(name)}:{_length(length, beyond)})"


def _named(node: Node) -> str:
    """Return the name of a feature; the device is the frame, since a mail has no other."""
    return re.sub(r"^(min-|max-|)device-(?=width$|height$)", r"\1", _word(node))


def _value(name: str, node: Node) -> str:
    if name in WORDS and _word(node) in WORDS[name]:
        return _word(node)
    if name.removeprefix("min-").removeprefix("max-") in LENGTHS:
        return _length(node)
    if name in RATIOS and node.type == "number":
        return _number(node)
    if name in RESOLUTIONS and node.type == "dimension" and node.lower_unit in _DENSITIES:
        return _number(node) + str(node.lower_unit)
    raise RefusedError


def _length(node: Node, beyond: float = 0) -> str:
    unit = node.lower_unit if node.type == "dimension" else ""
    if unit not in _UNITS and not (node.type == "number" and node.value == 0):
        raise RefusedError
    number = _number(node)
    return f"{float(number) + beyond:.6g}{unit}" if beyond else f"{number}{unit}"


def _number(node: Node) -> str:
    if not _NUMBER.fullmatch(node.representation):
        raise RefusedError
    return str(node.representation)
