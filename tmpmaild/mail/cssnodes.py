"""CSS as parsed by tinycss2: nodes from which the selectors, media queries and declarations of a view are generated.

tinycss2 keeps open brackets on its own stack, so nesting causes no recursion. Its ``serialize`` is not used, because it
recurses for each nested bracket and writes strings unchanged.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

import tinycss2
from tinycss2.ast import Declaration, LiteralToken, Node, WhitespaceToken

from tmpmaild.mail.budget import Budget

# Python refuses to convert thousands of digits to an integer.
_LONG_NUMBER = re.compile(r"[0-9]{33,}+")
_TOKEN = re.compile(r"[\w-]++|[^\w\s-]")


class RefusedError(Exception):
    """Raised if the CSS contains a construct that is not known to be harmless."""


def affordable(text: str, budget: Budget, reserved: int, steps: int) -> int:
    """Take ``steps`` for each CSS token; return the number of characters that the budget covers."""
    most = max(budget.remaining - reserved, 0) // steps
    starts = [token.start() for token in islice(_TOKEN.finditer(text), most + 1)]
    if len(starts) <= most:
        budget.take(len(starts) * steps, reserved=reserved)
        return len(text)
    budget.is_spent = True
    budget.take(most * steps, reserved=reserved)
    return starts[most]


def nodes_of(text: str) -> list[Node]:
    """Return tokens, functions and blocks, without comments."""
    found: list[Node] = tinycss2.parse_component_value_list(_LONG_NUMBER.sub("0", text), skip_comments=True)
    return found


def declarations_of(nodes: Iterable[Node]) -> list[Declaration]:
    """Return the declarations of a block or an attribute; rules within it are omitted."""
    found = tinycss2.parse_blocks_contents(nodes, skip_comments=True, skip_whitespace=True)
    return [node for node in found if isinstance(node, Declaration)]


def without_space(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that are not white space."""
    return [node for node in nodes if not isinstance(node, WhitespaceToken)]


def separated(nodes: Iterable[Node]) -> Iterator[list[Node]]:
    """Yield the comma-separated parts of a list."""
    for is_comma, part in groupby(nodes, lambda node: mark(node) == ","):
        if not is_comma:
            yield list(part)


def mark(node: Node | None) -> str:
    """Return a delimiter such as ``,`` or ``>``, or "" for any other node."""
    return node.value if isinstance(node, LiteralToken) else ""
