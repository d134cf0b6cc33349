"""Media queries of a hostile mail written anew: kind and size of the screen, and what its reader prefers."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from tmpmaild.mail.csstokens import Node, RefusedError, without_space
from tmpmaild.mail.htmltree import names

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
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def written(nodes: Iterable[Node]) -> str | None:
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
