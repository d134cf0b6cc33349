"""Media queries in the style sheets of a hostile message: rewritten for its view, and evaluated for its text."""

import re
from collections.abc import Iterable

from tinycss2.ast import DimensionToken, IdentToken, LiteralToken, Node, NumberToken, ParenthesesBlock

from tmpmaild.mail.cssnodes import RefusedError, separated, without_space

_MAX_QUERIES = 20

# Patterns for the most common conditions in style sheets.
_EVERY_SCREEN = re.compile(r"(?:only\s++)?(?:all|screen)", re.IGNORECASE)
_NO_SCREEN = re.compile(r"(?:only\s++)?(?:print|speech)\b[^,]*+", re.IGNORECASE)

_DARK = "(prefers-color-scheme:dark)"
_PLAIN_NUMBER = r"[-+]?[0-9.]{1,16}"
_NUMBER_AND_UNIT = re.compile(rf"({_PLAIN_NUMBER})(.*)")
_LENGTH = rf"(?:{_PLAIN_NUMBER}(?:px|em|rem|pt|in|cm|mm)|[-+]?[0.]{{1,16}})"
# Tokens are separated by spaces.
_FEATURE = re.compile(
    rf"(?:width|height)(?: : {_LENGTH})?|(?:min|max)-(?:width|height) : {_LENGTH}"
    rf"|-webkit-(?:min|max)-device-pixel-ratio : {_PLAIN_NUMBER}"
    rf"|(?:min-|max-)?resolution : {_PLAIN_NUMBER}(?:dpi|dpcm|dppx|x)"
    r"|orientation(?: : (?:landscape|portrait))?|(?:any-)?hover(?: : (?:hover|none))?"
    r"|(?:any-)?pointer(?: : (?:coarse|fine|none))?|prefers-color-scheme(?: : (?:dark|light))?"
    r"|prefers-reduced-motion(?: : (?:no-preference|reduce))?|prefers-contrast(?: : (?:less|more|no-preference))?"
)
# Conditions about the device are applied to the frame that shows the message.
_DEVICE = re.compile("device-(?=width|height)")
_SIGN = "([<>](?: =)?|=)"
_RANGE = re.compile(rf"(?:({_LENGTH}) {_SIGN} )?(width|height)(?: {_SIGN} ({_LENGTH}))?")
_TURNED = {"<": ">", "< =": "> =", ">": "<", "> =": "< =", "=": "="}
_STEP = 0.02  # "less than 600px" is written as "at most 599.98px"
_IN_BRACKETS = r"\([^()]++\)"
_QUERY = re.compile(
    rf"(?:(?:not |only )?(?:all|print|screen)|{_IN_BRACKETS})(?: and {_IN_BRACKETS}){{0,8}}|not {_IN_BRACKETS}"
)


def applies(query: str) -> bool | None:
    """Return whether a media query list applies on every screen (True), on no screen (False) or on some (None)."""
    if not query or _EVERY_SCREEN.fullmatch(query):
        return True
    return False if _NO_SCREEN.fullmatch(query) else None


def written(nodes: Iterable[Node]) -> str | None:
    """Rewrite the known queries of a list; return "" for an empty list, None if no query is known."""
    queries = list(separated(without_space(nodes)))
    found = []
    for query in queries[:_MAX_QUERIES]:
        try:
            found.append(_query(query))
        except RefusedError:
            continue
    return ",".join(found) if found or not queries else None


def is_dark(query: str) -> bool:
    """Return whether a rewritten list has queries for readers who prefer dark colours."""
    return any(_DARK in one and not one.startswith("not ") for one in query.split(","))


def without_dark(query: str) -> str:
    """Return the queries of a rewritten list that require dark colours, without that requirement."""
    asking = [one.split(" and ") for one in query.split(",") if _DARK in one and not one.startswith("not ")]
    return ",".join(" and ".join(part for part in one if part != _DARK) or "all" for one in asking)


def _query(nodes: Iterable[Node]) -> str:
    """Write ``[not | only] type and (feature) …``, ``(feature) and …`` or ``not (feature)``."""
    query = " ".join([_features(node) if isinstance(node, ParenthesesBlock) else _text(node) for node in nodes])
    if not _QUERY.fullmatch(query):
        raise RefusedError
    return query


def _features(block: ParenthesesBlock) -> str:
    """Write the content of parentheses: ``name: value``, ``name``, or a range as ``min-`` and ``max-``."""
    text = _DEVICE.sub("", " ".join(map(_text, without_space(block.content))))
    if _FEATURE.fullmatch(text):
        return f"({text.replace(' ', '')})"
    found = _RANGE.fullmatch(text)
    if not found:
        raise RefusedError
    least, turned, name, sign, most = found.groups()
    limits = [_limit(name, _TURNED[turned], least)] if least else []
    return " and ".join([*limits, *([_limit(name, sign, most)] if most else [])])


def _limit(name: str, sign: str, length: str) -> str:
    prefix = {"<": "max-", ">": "min-"}.get(sign[0], "")
    if sign in "<>" and (found := _NUMBER_AND_UNIT.fullmatch(length)):
        length = f"{float(found[1]) + (_STEP if sign == '>' else -_STEP):.6g}{found[2]}"
    return f"({prefix}{name}:{length})"


def _text(node: Node) -> str:
    """Return a node of a media query in the form that the patterns above expect."""
    if isinstance(node, DimensionToken):
        return f"{node.representation}{node.lower_unit}"
    if isinstance(node, NumberToken):
        return node.representation
    if isinstance(node, IdentToken):
        return node.lower_value
    if isinstance(node, LiteralToken):
        return node.value
    raise RefusedError
