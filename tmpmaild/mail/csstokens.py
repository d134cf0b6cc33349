"""CSS of a hostile mail read by tinycss2; what may stay of it is decided in the modules for each part.

tinycss2 keeps open brackets on a stack of its own, so that depth costs no recursion. ``tinycss2.serialize`` is used
nowhere: it recurses as deep as brackets nest, and writes strings as they came.
"""

import re
from collections.abc import Iterable
from typing import Any

import tinycss2

Node = Any  # of tinycss2.ast, which has no types

# Python refuses to make integers of thousands of digits.
_LONG_NUMBER = re.compile(r"[0-9]{33,}+")


class RefusedError(Exception):
    """There is something that is not known to be harmless."""


def nodes_of(text: str) -> list[Node]:
    """Return tokens, functions and blocks, without comments."""
    found: list[Node] = tinycss2.parse_component_value_list(_LONG_NUMBER.sub("0", text), skip_comments=True)
    return found


def rules_of(nodes: Iterable[Node]) -> list[Node]:
    """Return the rules of a sheet or of a block that holds rules."""
    found: list[Node] = tinycss2.parse_stylesheet(nodes, skip_comments=True, skip_whitespace=True)
    return found


def declarations_of(nodes: Iterable[Node]) -> list[Node]:
    """Return the declarations of a block or an attribute; rules within it are left out."""
    found = tinycss2.parse_blocks_contents(nodes, skip_comments=True, skip_whitespace=True)
    return [node for node in found if node.type == "declaration"]


def without_space(nodes: Iterable[Node]) -> list[Node]:
    """Return what stands between white space."""
    return [node for node in nodes if node.type != "whitespace"]
