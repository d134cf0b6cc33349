"""Style sheets of a hostile mail written anew, each rule for the body only; what values may be is in ``css``.

The mail's classes and ids get a prefix, in selectors as in attributes: no rule of a mail finds what this page
marks with a class of its own. What a selector counts (its specificity) stays what it was.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final

from tmpmaild.mail import css
from tmpmaild.mail.css import Node, RefusedError, declarations_of, nodes_of, rules_of, without_space
from tmpmaild.mail.htmltokens import ELEMENTS, names

# tinycss2 takes half a second for so much.
MAX_CHARACTERS = 128 * 1024
MAX_SELECTORS = 2000
# Of selectors with elements: about a second of a browser.
MAX_MATCHES = 5_000_000
# The elements of the page that its URL names to ask for one view or the other.
DARK_ID = "dark"
LIGHT_ID = "light"
PREFIX = "m_"
# Of no weight: the body and what is in it, not the rest of this page.
SCOPE = ":where(body,body *)"

PSEUDO_CLASSES: Final = names(
    "active any-link empty first-child first-of-type focus focus-visible focus-within hover last-child last-of-type "
    "link only-child only-of-type root visited"
)
NTH: Final = names("nth-child nth-last-child nth-last-of-type nth-of-type")
LOGICAL: Final = names("is not where")
_TYPES: Final = ELEMENTS | names("body html")
_ATTRIBUTES = names(
    "align alt bgcolor border class color dir face height href id lang size style title type valign width"
)
_OPERATORS = ("=", "~=", "^=", "$=", "*=", "|=")

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

_MAX_BLOCK_DEPTH = 4
_MAX_MEDIA_CHARACTERS = 300
_MAX_REMOTE_IMAGES = 1000
_MAX_QUERIES = 20
_MAX_FEATURES = 8
_MAX_SELECTOR_DEPTH = 3
_MAX_COMPOUNDS = 20
_MAX_NAMES = 24
# As measured in Chromium: up the tree, where it remembers much; and among siblings.
_STEPS_A_MATCH = 16
_SIBLING_STEPS = 4

_UNSAFE = re.compile(r"[^\w\s-]++")
_NTH = re.compile(r"even|odd|[+-]?[0-9]{0,4}n(?:[+-][0-9]{1,4})?|[+-]?[0-9]{1,4}")
_ATTRIBUTE_VALUE = re.compile(r"[\w .,:;#%()+!*-]{1,100}+")
_AROUND_MARKS = re.compile(r"(?>(?:(?<!\s)\s++)?)([:;,])\s*+")
_COMBINATOR = re.compile(r"[\s>+~]")
# A share of what is around it, as it is written here.
_FLUID = re.compile(r"(?:^|;)width:(?:[0-9.]{1,8}%|auto)")

_DARK = "(prefers-color-scheme:dark)"
_UNITS = names("px em rem pt in cm mm")
_DENSITIES = names("dpi dpcm dppx x")
_NUMBER = re.compile(r"[-+]?[0-9.]{1,16}+")
_STEP = 0.02  # what is less than 600px is at most 599.98px
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
        query = _media_query(nodes_of(media)) if text else None
        if query is not None:
            dark = _is_dark(query)
            self._rules.append(_conditional(query, self._written(nodes_of(text), dark), doubled=dark))

    def adapts(self, name: str, classes: str) -> bool:
        """Return whether a rule so far sets a width that follows the screen, which wins over a ``width`` attribute."""
        dotted = [f".{one}" for one in classes.split()]
        return not self._fluid.isdisjoint([name, *dotted, *(f"{name}{one}" for one in dotted)])

    def written(self, elements: int, depth: int) -> str:
        """Return the sheet, "" when it is too much for so many elements, nested so deep.

        Its end tag cannot occur in it: no "<" and no backslash are ever written.
        """
        if sum(_matches(one, elements, depth) for one in self._selectors) > MAX_MATCHES:
            return ""
        sheet = "".join(self._rules)
        return "" if "<" in sheet or "\\" in sheet else sheet

    def _written(self, nodes: Sequence[Node], depth: int) -> str:
        return "".join(self._rule(node, depth) for node in rules_of(nodes))

    def _rule(self, node: Node, depth: int) -> str:
        if node.type == "qualified-rule" and self._weight < MAX_SELECTORS:
            return self._style_rule(node, depth)
        if (
            node.type != "at-rule"
            or node.lower_at_keyword != "media"
            or node.content is None
            or depth >= _MAX_BLOCK_DEPTH
        ):
            return ""
        query = _media_query(node.prelude)
        if query is None:
            return ""
        return _conditional(query, self._written(node.content, depth + 1), doubled=depth == 0)

    def _style_rule(self, node: Node, depth: int) -> str:
        selectors = _selectors(node.prelude, MAX_SELECTORS - self._weight)
        self._weight += sum(map(_weight_of, selectors))
        self._selectors += selectors
        if not selectors:
            return ""
        declarations = declarations_of(node.content)
        self.remote_images = min(_MAX_REMOTE_IMAGES, self.remote_images + css.remote_images(declarations))
        block = css.written(declarations)
        if not depth and _FLUID.search(block):
            self._fluid |= {one for one in map(_last_compound, selectors) if one}
        return f"{','.join(selectors)}{{{block}}}" if block else ""


def _last_compound(selector: str) -> str:
    """Return what a written selector asks of the element itself, "" for a mere name within something else."""
    *around, last = _COMBINATOR.split(selector.replace(SCOPE, ""))
    return "" if around and "." not in last else last


def _conditional(query: str, rules: str, *, doubled: bool) -> str:
    """Write rules that depend on the screen; what is for dark readers applies in the dark view too."""
    if not query or not rules:
        return rules
    if not doubled or not _is_dark(query):
        return f"@media {query}{{{rules}}}"
    return (
        f"@media {query}{{:root:not(:has(#{LIGHT_ID}:target)){{{rules}}}}}"
        f":root:has(#{DARK_ID}:target){{@media {_without_dark(query)}{{{rules}}}}}"
    )


def own_name(name: str) -> str:
    """Return a class or an id of the mail as it is called in this page; two may become one."""
    return _prefixed(_safe("_".join(name.split())))


def own_names(text: str) -> str:
    """Return the classes of an attribute as they are called in this page."""
    names_of_element = text.split(maxsplit=_MAX_NAMES)[:_MAX_NAMES]
    return " ".join(map(_prefixed, _safe(" ".join(names_of_element)).split()))


def _safe(text: str) -> str:
    """Spell out what a selector would have to escape; here none is written."""
    return _UNSAFE.sub(lambda run: f"_{ord(run[0][0]):x}_", text)


def _prefixed(name: str) -> str:
    return name if name.startswith(PREFIX) else f"{PREFIX}{name}"


def _selectors(prelude: Iterable[Node], limit: int) -> list[str]:
    """Return the selectors of a list that are known, each within the body; the others are left out.

    With those within them they weigh as much as ``limit`` at most.
    """
    found = []
    for selector in islice(_separated(prelude), limit):
        try:
            text = _complex(selector, 0)
        except RefusedError:
            continue
        limit -= _weight_of(text)
        if limit < 0:
            break
        found.append(text)
    return found


def _weight_of(selector: str) -> int:
    """Return how many selectors a written one is, with those within it."""
    own = selector.replace(SCOPE, "")
    return 1 + own.count("(") + own.count(",")


def _matches(selector: str, elements: int, depth: int) -> int:
    """Return how much work a written selector may be for a browser, in matches of a simple one with an element.

    It walks up all ancestors of an element for what they are, and all siblings before it for ``~``.
    """
    own = selector.replace(SCOPE, "").replace("~=", "")
    walked = depth * (" " in own) + _SIBLING_STEPS * elements * ("~" in own)
    return elements * (_weight_of(selector) + walked // _STEPS_A_MATCH)


def _separated(nodes: Iterable[Node]) -> Iterator[list[Node]]:
    """Yield the parts of a list between commas."""
    for is_comma, part in groupby(nodes, lambda node: node == ","):
        if not is_comma:
            yield list(part)


def _complex(nodes: Sequence[Node], depth: int) -> str:
    """Write compounds and what combines them; on top the first that may lie in the body must do so.

    A browser tries each way to combine them: none within a pseudo-class, and ``~`` once.
    """
    text = ""
    is_within = depth > 0
    compounds = _compounds(nodes)
    if (depth and len(compounds) > 1) or [combinator for combinator, _ in compounds].count("~") > 1:
        raise RefusedError
    for combinator, compound in compounds:
        piece, is_root = _compound(compound, depth)
        if not is_within and not is_root:
            piece += SCOPE
            is_within = True
        text += f"{combinator}{piece}"
    return text


def _compounds(nodes: Sequence[Node]) -> list[tuple[str, list[Node]]]:
    """Return each compound with the combinator before it, which is "" before the first."""
    found: list[tuple[str, list[Node]]] = [("", [])]
    for node in nodes:
        combinator = " " if node.type == "whitespace" else node.value if node.type == "literal" else ""
        before, compound = found[-1]
        if combinator not in (" ", ">", "+", "~"):
            compound.append(node)
        elif compound:
            found.append((combinator, []))
        elif combinator != " ":
            if before != " ":
                raise RefusedError
            found[-1] = (combinator, compound)
    if found[-1][0] == " " and not found[-1][1]:
        found.pop()
    if not found or not all(compound for _, compound in found) or len(found) > _MAX_COMPOUNDS:
        raise RefusedError
    return found


def _compound(nodes: list[Node], depth: int) -> tuple[str, bool]:
    """Write a type, classes, ids, attributes and pseudo-classes; tell whether only the root can be meant."""
    rest = iter(nodes)
    kind, text = "", ""
    for node in rest:
        if node.type == "ident" and not kind + text:
            kind = _type(node)
        elif node == "*" and not kind + text:
            kind = "*"
        else:
            text += _simple(node, rest, depth)
    return f"{kind}{text}", kind == "html" or (not kind and text.startswith(":root"))


def _type(node: Node) -> str:
    if node.lower_value not in _TYPES:
        raise RefusedError
    return str(node.lower_value)


def _simple(node: Node, rest: Iterator[Node], depth: int) -> str:
    """Write one of the things that may follow a type."""
    if node.type == "hash" and node.is_identifier:
        return f"#{own_name(node.value)}"
    if node.type == "[] block":
        return f"[{_attribute(without_space(node.content))}]"
    following = next(rest, None)
    if following is not None and node == "." and following.type == "ident":
        return f".{own_name(following.value)}"
    if following is not None and node == ":":
        return f":{_pseudo_class(following, depth)}"
    raise RefusedError


def _pseudo_class(node: Node, depth: int) -> str:
    if node.type == "ident" and node.lower_value in PSEUDO_CLASSES:
        return str(node.lower_value)
    if node.type == "function" and node.lower_name in NTH:
        return f"{node.lower_name}({_nth(node.arguments)})"
    if node.type == "function" and node.lower_name in LOGICAL and depth < _MAX_SELECTOR_DEPTH:
        selectors = [_complex(selector, depth + 1) for selector in _separated(node.arguments)]
        if selectors:
            return f"{node.lower_name}({','.join(selectors)})"
    raise RefusedError


def _nth(arguments: Iterable[Node]) -> str:
    """Write ``an+b`` (https://www.w3.org/TR/css-syntax-3/#anb)."""
    text = "".join(map(_nth_piece, arguments))
    if not _NTH.fullmatch(text):
        raise RefusedError
    return text


def _nth_piece(node: Node) -> str:
    if node.type == "whitespace":
        return ""
    if node.type in ("number", "dimension"):
        return f"{node.representation}{getattr(node, 'lower_unit', '')}"
    return str(node.value).lower() if node.type in ("ident", "literal") else "?"


def _attribute(nodes: list[Node]) -> str:
    """Write what is in the brackets, of an attribute that the sanitised mail still has."""
    name = nodes[0].lower_value if nodes and nodes[0].type == "ident" else ""
    if name not in _ATTRIBUTES or len(nodes) not in (1, 3, 4):
        raise RefusedError
    if len(nodes) == 1:
        return str(name)
    operator, value = nodes[1].value if nodes[1].type == "literal" else "", nodes[2]
    if operator not in _OPERATORS or value.type not in ("string", "ident"):
        raise RefusedError
    if not _ATTRIBUTE_VALUE.fullmatch(value.value):
        raise RefusedError
    return f'{name}{operator}"{_attribute_value(name, operator, value.value)}"{_flag(nodes[3:])}'


def _flag(nodes: list[Node]) -> str:
    if not nodes:
        return ""
    if nodes[0].type != "ident" or nodes[0].lower_value not in ("i", "s"):
        raise RefusedError
    return f" {nodes[0].lower_value}"


def _attribute_value(name: str, operator: str, value: str) -> str:
    """Return the value as it is in the attributes that are written."""
    if name == "style":
        return _AROUND_MARKS.sub(r"\1", value).strip("; ")
    if name not in ("class", "id"):
        return value
    if operator not in ("*=", "$="):
        return own_names(value)
    # It may begin within a name.
    first, *others = value.split(" ")
    return " ".join([_safe(first), *(own_name(other) if other else "" for other in others)])


def _media_query(nodes: Iterable[Node]) -> str | None:
    """Return the known queries of a list anew, "" for an empty one; None when none of them is known."""
    queries = list(_separated(without_space(nodes)))
    found = []
    for query in queries[:_MAX_QUERIES]:
        try:
            found.append(_query(query))
        except RefusedError:
            continue
    return ",".join(found) if found or not queries else None


def _is_dark(query: str) -> bool:
    """Return whether a written list has queries for readers who prefer dark colours."""
    return any(_DARK in one and not one.startswith("not ") for one in query.split(","))


def _without_dark(query: str) -> str:
    """Return the queries of a written list that ask for dark colours, without asking for them."""
    asking = [one.split(" and ") for one in query.split(",") if _DARK in one and not one.startswith("not ")]
    return ",".join(" and ".join(part for part in one if part != _DARK) or "all" for one in asking)


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
