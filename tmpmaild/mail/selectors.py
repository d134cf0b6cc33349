"""Selectors in the style sheets of a hostile message: rewritten for its view, or parsed for its text.

A prefix is added to the message's classes and ids, in selectors and in attributes, so that its rules cannot select
elements of our page. The specificity of a selector stays the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple

from tinycss2.ast import (
    DimensionToken,
    FunctionBlock,
    HashToken,
    IdentToken,
    LiteralToken,
    Node,
    NumberToken,
    SquareBracketsBlock,
    StringToken,
    WhitespaceToken,
)

from tmpmaild.mail.cssnodes import RefusedError, mark, separated, without_space
from tmpmaild.mail.htmltokens import ELEMENTS, names

PREFIX = "m_"
# A selector without specificity. It matches the body and its content, but not the rest of the view's page.
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

_MAX_SELECTOR_DEPTH = 3
_MAX_COMPOUNDS = 20
_MAX_NAMES = 24
# The cost measured in Chromium for each level of the tree, which is mostly cached, and for each sibling.
_STEPS_PER_MATCH = 16
_SIBLING_STEPS = 4

_COMBINATORS = frozenset(">+~")
_UNSAFE = re.compile(r"[^\w\s-]++")
_NTH = re.compile(r"even|odd|[+-]?[0-9]{0,4}n(?:[+-][0-9]{1,4})?|[+-]?[0-9]{1,4}")
_ATTRIBUTE_VALUE = re.compile(r"[\w .,:;#%()+!*-]{1,100}+")
_AROUND_MARKS = re.compile(r"(?>(?:(?<!\s)\s++)?)([:;,])\s*+")


def own_name(name: str) -> str:
    """Return the name that a class or id of the message has in our page; different names may become the same name."""
    return _prefixed(_safe("_".join(name.split())))


def own_names(text: str) -> str:
    """Return the names that the classes in an attribute have in our page."""
    names_of_element = text.split(maxsplit=_MAX_NAMES)[:_MAX_NAMES]
    return " ".join(map(_prefixed, _safe(" ".join(names_of_element)).split()))


def _safe(text: str) -> str:
    """Replace characters that would require an escape with their code points, because escapes are never written."""
    return _UNSAFE.sub(lambda run: f"_{ord(run[0][0]):x}_", text)


def _prefixed(name: str) -> str:
    return name if name.startswith(PREFIX) else f"{PREFIX}{name}"


def written(prelude: Iterable[Node], limit: int) -> list[str]:
    """Write the known selectors of a list, each confined to the body; omit unknown selectors.

    Their total weight, including the selectors within them, is at most ``limit``.
    """
    found = []
    for selector in islice(separated(prelude), limit):
        try:
            text = _complex(selector, 0)
        except RefusedError:
            continue
        limit -= weight_of(text)
        if limit < 0:
            break
        found.append(text)
    return found


def weight_of(selector: str) -> int:
    """Return the number of selectors in a written selector, including nested selectors."""
    own = selector.replace(SCOPE, "")
    return 1 + own.count("(") + own.count(",")


def matches(selector: str, elements: int, depth: int) -> int:
    """Return the cost of a written selector in a browser, as the number of times that an element is matched.

    A browser visits all ancestors of an element for a descendant combinator, and all preceding siblings for ``~``.
    """
    own = selector.replace(SCOPE, "").replace("~=", "")
    walked = depth * (" " in own) + _SIBLING_STEPS * elements * ("~" in own)
    return elements * (weight_of(selector) + walked // _STEPS_PER_MATCH)


def _complex(nodes: Sequence[Node], depth: int) -> str:
    """Write compounds and their combinators; at top level, confine the first compound that is not the root to the body.

    A browser tries each combination, so there are no combinators within a pseudo-class, and ``~`` occurs at most once.
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
    """Return each compound with the combinator before it, which is "" for the first compound."""
    found: list[tuple[str, list[Node]]] = []
    combinator = ""
    for combines, part in groupby(nodes, _combines):
        if combines:
            combinator = "".join([mark(node) for node in part]) or " " * bool(found)
        else:
            found.append((combinator, list(part)))
            combinator = ""
    if combinator.strip() or not found or found[0][0] or len(found) > _MAX_COMPOUNDS:
        raise RefusedError
    if any(one not in (" ", *_COMBINATORS) for one, _ in found[1:]):
        raise RefusedError
    return found


def _combines(node: Node) -> bool:
    return isinstance(node, WhitespaceToken) or (isinstance(node, LiteralToken) and node.value in _COMBINATORS)


def _compound(nodes: list[Node], depth: int) -> tuple[str, bool]:
    """Write a type, classes, ids, attributes and pseudo-classes; return whether it can select only the root."""
    rest = iter(nodes)
    kind, text = "", ""
    for node in rest:
        if isinstance(node, IdentToken) and not kind + text:
            if node.lower_value not in _TYPES:
                raise RefusedError
            kind = node.lower_value
        elif mark(node) == "*" and not kind + text:
            kind = "*"
        else:
            text += _simple(node, rest, depth)
    return f"{kind}{text}", kind == "html" or (not kind and text.startswith(":root"))


def _simple(node: Node, rest: Iterator[Node], depth: int) -> str:
    """Write a simple selector that may follow a type."""
    if isinstance(node, HashToken) and node.is_identifier:
        return f"#{own_name(node.value)}"
    if isinstance(node, SquareBracketsBlock):
        return f"[{_attribute(without_space(node.content))}]"
    following = next(rest, None)
    if mark(node) == "." and isinstance(following, IdentToken):
        return f".{own_name(following.value)}"
    if mark(node) == ":" and following is not None:
        return f":{_pseudo_class(following, depth)}"
    raise RefusedError


def _pseudo_class(node: Node, depth: int) -> str:
    if isinstance(node, IdentToken) and node.lower_value in PSEUDO_CLASSES:
        return node.lower_value
    if isinstance(node, FunctionBlock) and node.lower_name in NTH:
        return f"{node.lower_name}({_nth(node.arguments)})"
    if isinstance(node, FunctionBlock) and node.lower_name in LOGICAL and depth < _MAX_SELECTOR_DEPTH:
        selectors = [_complex(selector, depth + 1) for selector in separated(node.arguments)]
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
    if isinstance(node, WhitespaceToken):
        return ""
    if isinstance(node, DimensionToken):
        return f"{node.representation}{node.lower_unit}"
    if isinstance(node, NumberToken):
        return node.representation
    return node.value.lower() if isinstance(node, (IdentToken, LiteralToken)) else "?"


def _attribute(nodes: list[Node]) -> str:
    """Write the content of an attribute selector's brackets, if the sanitised HTML keeps the attribute."""
    if not nodes:
        raise RefusedError
    name, *condition = nodes
    if not isinstance(name, IdentToken) or name.lower_value not in _ATTRIBUTES:
        raise RefusedError
    if not condition:
        return name.lower_value
    if len(condition) not in (2, 3) or mark(condition[0]) not in _OPERATORS:
        raise RefusedError
    operator, value = mark(condition[0]), condition[1]
    if not isinstance(value, (StringToken, IdentToken)) or not _ATTRIBUTE_VALUE.fullmatch(value.value):
        raise RefusedError
    own = _attribute_value(name.lower_value, operator, value.value)
    return f'{name.lower_value}{operator}"{own}"{_flag(condition[2:])}'


def _flag(nodes: list[Node]) -> str:
    if not nodes:
        return ""
    if not isinstance(nodes[0], IdentToken) or nodes[0].lower_value not in ("i", "s"):
        raise RefusedError
    return f" {nodes[0].lower_value}"


def _attribute_value(name: str, operator: str, value: str) -> str:
    """Return the value of an attribute as it is in the sanitised HTML."""
    if name == "style":
        return _AROUND_MARKS.sub(r"\1", value).strip("; ")
    if name not in ("class", "id"):
        return value
    if operator not in ("*=", "$="):
        return own_names(value)
    # With these operators, the value may start in the middle of a name.
    first, *others = value.split(" ")
    return " ".join([_safe(first), *(own_name(other) if other else "" for other in others)])


# In parsed selectors, "?" stands for escaped characters.
_PLAIN = re.compile(r"(?:\*|[\w?-]++)?(?:[.#][\w?-]++)*")
_NAME = re.compile(r"[.#]?[\w?-]++")
_UNUSUAL = re.compile(r"[^\w\s-]")
_CONDITION = re.compile(r"\[[^\]]*+\]?|\([^()]*+\)")
_COMBINATOR = re.compile(r"[\s>+~]++")
_STATE = re.compile(r":[\w?-]++")
_NOT_THE_ELEMENT = re.compile(r"::|:(?:before|after|first-line|first-letter)\b", re.IGNORECASE)
_PSEUDO = re.compile(r":([\w?-]*+)")
_PSEUDO_CLASSES = PSEUDO_CLASSES | NTH | LOGICAL | names("after before first-letter first-line")
_MALFORMED = re.compile(r"[^\w\s.#*>+~:?,\0-]|(?:\A|,)\s*+(?:,|\Z)")
_BAD_NAME = re.compile(r"[.#](?:-?[0-9]|[^\w?-])")
_MARK = "\0"  # marks a condition that is not parsed
_OF_A_FUNCTION = 1000


class Requirements(NamedTuple):
    """The requirements of a selector for an element: ``names``, and nothing else if ``is_sure``.

    ``rank`` counts ids, classes and types (https://www.w3.org/TR/selectors/#specificity).
    """

    names: frozenset[str]
    rank: tuple[int, int, int]
    is_sure: bool


def requirements(text: str) -> Iterator[Requirements]:
    """Read the selectors of a list that can select an element."""
    for selector in _CONDITION.sub(_MARK, text).split(","):
        if found := _requirements_of(selector.strip()):
            yield found


def _requirements_of(selector: str) -> Requirements | None:
    if _PLAIN.fullmatch(selector):
        found = _NAME.findall(selector)
        types = int(bool(found) and found[0][0] not in ".#")
        return (
            Requirements(_required_names(found), (selector.count("#"), selector.count("."), types), is_sure=True)
            if selector
            else None
        )
    compounds = _COMBINATOR.split(selector)
    last = compounds[-1]
    if not last or _NOT_THE_ELEMENT.search(last):
        return None
    is_read = "(" not in last and ")" not in last  # nested conditions are not parsed
    found = _NAME.findall(_STATE.sub("", last).replace(_MARK, " ")) if is_read else []
    ids = selector.count("#") + _OF_A_FUNCTION * (":" in selector and _MARK in selector)  # :not(#x), :is(.y)
    classes = selector.count(".") + selector.count(":") + selector.count(_MARK)
    return Requirements(_required_names(found), (ids, classes, len(compounds)), is_sure=False)


def _required_names(found: Iterable[str]) -> frozenset[str]:
    return frozenset([one if one[0] in ".#" else one.lower() for one in found])


def is_valid(text: str) -> bool:
    """Return whether browsers support all selectors of a list; otherwise they ignore the rule."""
    text = _CONDITION.sub(_MARK, text)
    if _MALFORMED.search(text) or _BAD_NAME.search(text):
        return False
    return all(one.lower() in _PSEUDO_CLASSES for one in _PSEUDO.findall(text))


def names_of(name: str, attributes: Mapping[str, str]) -> set[str]:
    """Return the names of an element in the form that selectors use."""
    classes = attributes.get("class", "")
    own = {"*", name, *("." + one for one in _UNUSUAL.sub("?", classes).split())}
    if identity := attributes.get("id", ""):
        own.add("#" + _UNUSUAL.sub("?", identity))
    return own
