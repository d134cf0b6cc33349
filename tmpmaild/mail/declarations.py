"""Rewrites the style declarations of a hostile message for its view, and omits unknown declarations.

Nothing is copied from the source: each known node is rewritten. Therefore, the result contains no addresses, no
escapes, no strings except font names, and no functions except those listed below.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tinycss2.ast import (
    Declaration,
    DimensionToken,
    FunctionBlock,
    HashToken,
    IdentToken,
    Node,
    NumberToken,
    ParenthesesBlock,
    PercentageToken,
    StringToken,
    URLToken,
    WhitespaceToken,
)

from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cssnodes import RefusedError, affordable, declarations_of, mark, nodes_of, without_space
from tmpmaild.mail.htmltokens import names

MAX_ATTRIBUTE_CHARACTERS = 4096
_STEPS_PER_TOKEN = 2
_MAX_VALUE_CHARACTERS = 1000
_MAX_DEPTH = 8

UNITS: Final = names(
    "px em rem ex ch lh rlh pt pc in cm mm q vw vh vmin vmax svw svh lvw lvh dvw dvh fr deg grad rad turn"
)
COLOURS: Final = names("rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark")
MATHS: Final = names("calc min max clamp")
GRADIENTS: Final = names(
    "linear-gradient radial-gradient conic-gradient repeating-linear-gradient repeating-radial-gradient "
    "repeating-conic-gradient"
)
TRACKS: Final = names("repeat minmax fit-content")

_FONTS = names("font font-family")
_BACKGROUNDS = names("background background-image")
_GRIDS = names("grid-column grid-row grid-template-columns grid-template-rows")
_MAX_TRACK = 24  # without a limit, a browser would create any number of columns

_SEPARATORS = frozenset(",/")
_SUMS = frozenset(",+-*/")
_IDENT = re.compile(r"-?[A-Za-z_][A-Za-z0-9_-]{0,63}+")
_NUMBER = re.compile(r"[-+]?[0-9.]{1,32}+(?:[eE][-+]?[0-9]{1,3})?")
_HEX = re.compile(r"[0-9A-Fa-f]{3,8}+")
_FONT_NAME = re.compile(r"\w[\w .+&-]{0,99}+")
_REMOTE = re.compile(r"\s*+(?:https?:|[/\\]{2})", re.IGNORECASE)


def _sided(words: str) -> frozenset[str]:
    """Split a line into property names; a name with a star is expanded to every side, physical and logical."""
    sides = "top right bottom left block inline block-start block-end inline-start inline-end".split()
    return frozenset(name.replace("*", side) for name in words.split() for side in sides)


PROPERTIES: Final = _sided(
    "border-* border-*-color border-*-style border-*-width margin-* padding-*"
) | names(
    # the box
    "aspect-ratio block-size border border-collapse border-color border-radius border-spacing border-style "
    "border-width box-shadow box-sizing caption-side clear display empty-cells float height inline-size margin "
    "max-block-size max-height max-inline-size max-width min-block-size min-height min-inline-size min-width "
    "object-fit object-position opacity outline outline-color outline-offset outline-style outline-width overflow "
    "overflow-x overflow-y padding table-layout vertical-align visibility width "
    "border-top-left-radius border-top-right-radius border-bottom-left-radius border-bottom-right-radius "
    "border-start-start-radius border-start-end-radius border-end-start-radius border-end-end-radius "
    # its background
    "-webkit-background-clip background background-clip background-color background-image background-origin "
    "background-position background-position-x background-position-y background-repeat background-size "
    # text
    "-webkit-text-size-adjust color direction font font-family font-size font-stretch font-style font-variant "
    "font-variant-caps font-variant-numeric font-weight hyphens letter-spacing line-break line-height list-style "
    "list-style-position list-style-type overflow-wrap tab-size text-align text-align-last text-decoration "
    "text-decoration-color text-decoration-line text-decoration-style text-decoration-thickness text-indent "
    "text-overflow text-shadow text-size-adjust text-transform text-underline-offset text-wrap white-space "
    "word-break word-spacing word-wrap "
    # flexbox and grid layout
    "align-content align-items align-self column-gap flex flex-basis flex-direction flex-flow flex-grow flex-shrink "
    "flex-wrap gap grid-column grid-column-gap grid-gap grid-row grid-row-gap grid-template-columns "
    "grid-template-rows justify-content justify-items justify-self order place-content place-items place-self row-gap"
)  # fmt: skip


class StyleAttributes:
    """Writes the style attributes of one message; identical attributes are read only once."""

    reserved = 0
    """The budget steps that are reserved for other work."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._written: dict[str, str] = {}

    def written(self, text: str) -> str:
        """Rewrite the known declarations; return "" for a very long attribute, or if the budget is spent."""
        known = self._written.get(text)
        if known is None:
            is_read = len(text) <= MAX_ATTRIBUTE_CHARACTERS
            is_read = is_read and affordable(text, self._budget, self.reserved, _STEPS_PER_TOKEN) == len(text)
            known = self._written[text] = style(text) if is_read else ""
        return known


def style(text: str) -> str:
    """Rewrite the known declarations of a style attribute."""
    return written(declarations_of(nodes_of(text)))


def written(declarations: Iterable[Declaration]) -> str:
    """Rewrite the known declarations."""
    known = (one for one in declarations if one.lower_name in PROPERTIES)
    values = ((one, _value(one.lower_name, one.value)) for one in known)
    return ";".join(f"{one.lower_name}:{value}{'!important' * one.important}" for one, value in values if value)


def remote_images(declarations: Iterable[Declaration]) -> int:
    """Return the number of remote images in these declarations."""
    nodes = (node for one in declarations for node in one.value if isinstance(node, (URLToken, FunctionBlock)))
    return sum(_REMOTE.match(_address(node)) is not None for node in nodes)


def _is_address(node: Node) -> bool:
    return isinstance(node, URLToken) or (isinstance(node, FunctionBlock) and node.lower_name == "url")


def _address(node: Node) -> str:
    """Return the address in ``url(…)``, or "" for any other node."""
    if isinstance(node, URLToken):
        return node.value
    if not isinstance(node, FunctionBlock) or node.lower_name != "url":
        return ""
    arguments = without_space(node.arguments)
    return arguments[0].value if arguments and isinstance(arguments[0], StringToken) else ""


def _value(name: str, nodes: Sequence[Node]) -> str:
    """Rewrite a value; return "" if any part of it is not known to be harmless, or if it is only an image."""
    if all(isinstance(node, WhitespaceToken) or mark(node) == "," or _is_address(node) for node in nodes):
        return ""
    try:
        value = _Writer(name).value(nodes)
    except RefusedError:
        return ""
    return value if len(value) <= _MAX_VALUE_CHARACTERS else ""


class _Writer:
    """Writes the value of one property."""

    def __init__(self, name: str) -> None:
        self._is_font = name in _FONTS
        self._is_background = name in _BACKGROUNDS
        self._is_grid = name in _GRIDS
        self._functions = COLOURS | MATHS
        if self._is_background:
            self._functions |= GRADIENTS
        if self._is_grid:
            self._functions |= TRACKS

    def value(self, nodes: Iterable[Node], depth: int = 0, *, sums: bool = False) -> str:
        """Write nodes separated by spaces, so that two nodes never merge into one."""
        if depth > _MAX_DEPTH:
            raise RefusedError
        value = ""
        for node in nodes:
            if not isinstance(node, WhitespaceToken):
                piece = self._token(node, depth, sums=sums)
                value += f" {piece}" if value and value[-1] != "," and piece != "," else piece
        return value

    def _token(self, node: Node, depth: int, *, sums: bool) -> str:
        if isinstance(node, (IdentToken, HashToken, StringToken)):
            return self._word(node)
        if isinstance(node, (NumberToken, PercentageToken, DimensionToken)):
            return self._number(node)
        if self._is_background and _is_address(node):
            return "none"
        if isinstance(node, FunctionBlock) and node.lower_name in self._functions:
            is_sum = node.lower_name in MATHS
            return f"{node.lower_name}({self.value(node.arguments, depth + 1, sums=is_sum)})"
        if isinstance(node, ParenthesesBlock) and sums:
            return f"({self.value(node.content, depth + 1, sums=True)})"
        if mark(node) in (_SUMS if sums else _SEPARATORS):
            return mark(node)
        raise RefusedError

    def _word(self, node: IdentToken | HashToken | StringToken) -> str:
        if isinstance(node, HashToken) and _HEX.fullmatch(node.value):
            return f"#{node.value}"
        if isinstance(node, IdentToken) and _IDENT.fullmatch(node.value):
            return node.value
        if self._is_font and not isinstance(node, HashToken) and _FONT_NAME.fullmatch(node.value):
            return f"'{node.value}'"
        raise RefusedError

    def _number(self, node: NumberToken | PercentageToken | DimensionToken) -> str:
        unit = "%" if isinstance(node, PercentageToken) else ""
        if isinstance(node, DimensionToken):
            unit = node.lower_unit
        if not _NUMBER.fullmatch(node.representation) or (unit and unit != "%" and unit not in UNITS):
            raise RefusedError
        if self._is_grid and not unit and not abs(node.value) <= _MAX_TRACK:
            raise RefusedError
        return f"{node.representation}{unit}"
