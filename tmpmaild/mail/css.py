"""CSS of a hostile mail, in attributes and in sheets: which properties, values and rules it may style with.

It is read by tinycss2, which keeps open brackets on a stack of its own, so that depth costs no recursion. Nothing of
the source is copied: each node that is known is written anew. So what is written holds no address, no escape, no string
but names of fonts, and no function but those below; rules are for the body only. ``tinycss2.serialize`` is not used: it
recurses as deep as brackets nest, and writes strings as they came.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import tinycss2

from tmpmaild.mail import selectors
from tmpmaild.mail.htmltokens import Budget, collapsed, names
from tmpmaild.mail.selectors import SCOPE, Node, RefusedError, separated, without_space

# Python refuses to make integers of thousands of digits.
_LONG_NUMBER = re.compile(r"[0-9]{33,}+")

MAX_ATTRIBUTE_CHARACTERS = 4096
_TOKEN = re.compile(r"[\w-]++|[^\w\s-]")
_STEPS_A_TOKEN, _STEPS_A_TOKEN_OF_A_SHEET = 2, 3
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
_MAX_TRACK = 24  # a browser makes as many columns as it is told to

_SEPARATORS = frozenset(",/")
_SUMS = frozenset(",+-*/")
_IDENT = re.compile(r"-?[A-Za-z_][A-Za-z0-9_-]{0,63}+")
_NUMBER = re.compile(r"[-+]?[0-9.]{1,32}+(?:[eE][-+]?[0-9]{1,3})?")
_HEX = re.compile(r"[0-9A-Fa-f]{3,8}+")
_FONT_NAME = re.compile(r"\w[\w .+&-]{0,99}+")
_REMOTE = re.compile(r"\s*+(?:https?:|[/\\]{2})", re.IGNORECASE)


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


def _sided(words: str) -> frozenset[str]:
    """Return the names in a line, a star among them standing for each side, physical and logical."""
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
    # boxes in rows and grids
    "align-content align-items align-self column-gap flex flex-basis flex-direction flex-flow flex-grow flex-shrink "
    "flex-wrap gap grid-column grid-column-gap grid-gap grid-row grid-row-gap grid-template-columns "
    "grid-template-rows justify-content justify-items justify-self order place-content place-items place-self row-gap"
)  # fmt: skip


def _affordable(text: str, budget: Budget, leave: int, steps: int) -> int:
    """Take ``steps`` for each token of some CSS; return how many of its characters the budget is enough for."""
    most = max(budget.left - leave, 0) // steps
    starts = [token.start() for token in islice(_TOKEN.finditer(text), most + 1)]
    if len(starts) <= most:
        budget.take(len(starts) * steps, leave=leave)
        return len(text)
    budget.is_spent = True
    budget.take(most * steps, leave=leave)
    return starts[most]


class StyleAttributes:
    """Writes the style attributes of one mail; equal ones are read once."""

    def __init__(self, budget: Budget | None = None, *, leave: int = 0) -> None:
        self._budget = budget or Budget()
        self._leave = leave
        self._written: dict[str, str] = {}

    def written(self, text: str) -> str:
        """Return the known declarations anew; "" for a very long attribute, and when too much has been read."""
        known = self._written.get(text)
        if known is None:
            is_read = len(text) <= MAX_ATTRIBUTE_CHARACTERS
            is_read = is_read and _affordable(text, self._budget, self._leave, _STEPS_A_TOKEN) == len(text)
            known = self._written[text] = style(text) if is_read else ""
        return known


def style(text: str) -> str:
    """Return the known declarations of a style attribute anew."""
    return written(declarations_of(nodes_of(text)))


def written(declarations: Iterable[Node]) -> str:
    """Return the known ones of some declarations anew."""
    known = (one for one in declarations if one.lower_name in PROPERTIES)
    values = ((one, _value(one.lower_name, one.value)) for one in known)
    return ";".join(f"{one.lower_name}:{value}{'!important' * one.important}" for one, value in values if value)


def remote_images(declarations: Iterable[Node]) -> int:
    """Return how many images elsewhere some declarations name."""
    return sum(_REMOTE.match(_address(node)) is not None for one in declarations for node in one.value)


def _is_address(node: Node) -> bool:
    return bool(node.type == "url" or (node.type == "function" and node.lower_name == "url"))


def _address(node: Node) -> str:
    """Return the address of ``url(…)``, else ""."""
    if node.type == "url":
        return str(node.value)
    arguments = without_space(node.arguments) if _is_address(node) else []
    return str(arguments[0].value) if arguments and arguments[0].type == "string" else ""


def _value(name: str, nodes: Sequence[Node]) -> str:
    """Return a value anew, "" when something in it is not known to be harmless, or it is an image and nothing else."""
    if all(node.type == "whitespace" or node == "," or _is_address(node) for node in nodes):
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
        """Write nodes with a space between them, so that two of them never become one."""
        if depth > _MAX_DEPTH:
            raise RefusedError
        value = ""
        for node in nodes:
            if node.type != "whitespace":
                piece = self._token(node, depth, sums=sums)
                value += f" {piece}" if value and value[-1] != "," and piece != "," else piece
        return value

    def _token(self, node: Node, depth: int, *, sums: bool) -> str:
        kind = node.type
        if kind == "function" and not _is_address(node):
            return self._function(node, depth)
        if kind == "() block" and sums:
            return f"({self.value(node.content, depth + 1, sums=True)})"
        if kind in ("number", "percentage", "dimension"):
            return self._number(node)
        if kind == "literal" and node.value in (_SUMS if sums else _SEPARATORS):
            return str(node.value)
        return self._word(node)

    def _word(self, node: Node) -> str:
        kind, value = node.type, getattr(node, "value", "")
        if (kind == "ident" and _IDENT.fullmatch(value)) or (kind == "hash" and _HEX.fullmatch(value)):
            return f"#{value}" if kind == "hash" else str(value)
        if kind in ("ident", "string") and self._is_font and _FONT_NAME.fullmatch(value):
            return f"'{value}'"
        if self._is_background and _is_address(node):
            return "none"
        raise RefusedError

    def _number(self, node: Node) -> str:
        unit = "%" if node.type == "percentage" else getattr(node, "lower_unit", "")
        if not _NUMBER.fullmatch(node.representation) or (unit and unit != "%" and unit not in UNITS):
            raise RefusedError
        if self._is_grid and not unit and not abs(node.value) <= _MAX_TRACK:
            raise RefusedError
        return f"{node.representation}{unit}"

    def _function(self, node: Node, depth: int) -> str:
        name = node.lower_name
        if name not in self._functions:
            raise RefusedError
        return f"{name}({self.value(node.arguments, depth + 1, sums=name in MATHS)})"


MAX_SHEET_CHARACTERS = 128 * 1024
MAX_SELECTORS = 2000
# Of selectors with elements: about a second of a browser.
MAX_MATCHES = 5_000_000
# The elements of the page that its URL names to ask for one view or the other.
DARK_ID = "dark"
LIGHT_ID = "light"

_MAX_BLOCK_DEPTH = 4
_MAX_MEDIA_CHARACTERS = 300
_MAX_REMOTE_IMAGES = 1000
_MAX_QUERIES = 20

_BODY = re.compile(rf"(?<![^\s>+~])body([^\s>+~(]*?){re.escape(SCOPE)}")
_COMBINATOR = re.compile(r"[\s>+~]")
# A share of what is around it, as it is written here.
_FLUID = re.compile(r"(?:^|;)width:(?:[0-9.]{1,8}%|auto)")

_DARK = "(prefers-color-scheme:dark)"
_PLAIN_NUMBER = r"[-+]?[0-9.]{1,16}"
_NUMBER_AND_UNIT = re.compile(rf"({_PLAIN_NUMBER})(.*)")
_LENGTH = rf"(?:{_PLAIN_NUMBER}(?:px|em|rem|pt|in|cm|mm)|[-+]?[0.]{{1,16}})"
# With a space between what was read apart.
_FEATURE = re.compile(
    rf"(?:width|height)(?: : {_LENGTH})?|(?:min|max)-(?:width|height) : {_LENGTH}"
    rf"|-webkit-(?:min|max)-device-pixel-ratio : {_PLAIN_NUMBER}"
    rf"|(?:min-|max-)?resolution : {_PLAIN_NUMBER}(?:dpi|dpcm|dppx|x)"
    r"|orientation(?: : (?:landscape|portrait))?|(?:any-)?hover(?: : (?:hover|none))?"
    r"|(?:any-)?pointer(?: : (?:coarse|fine|none))?|prefers-color-scheme(?: : (?:dark|light))?"
    r"|prefers-reduced-motion(?: : (?:no-preference|reduce))?|prefers-contrast(?: : (?:less|more|no-preference))?"
)
# The device is the frame, since a mail has no other.
_DEVICE = re.compile("device-(?=width|height)")
_SIGN = "([<>](?: =)?|=)"
_RANGE = re.compile(rf"(?:({_LENGTH}) {_SIGN} )?(width|height)(?: {_SIGN} ({_LENGTH}))?")
_TURNED = {"<": ">", "< =": "> =", ">": "<", "> =": "< =", "=": "="}
_STEP = 0.02  # what is less than 600px is at most 599.98px
_IN_BRACKETS = r"\([^()]++\)"
_QUERY = re.compile(
    rf"(?:(?:not |only )?(?:all|print|screen)|{_IN_BRACKETS})(?: and {_IN_BRACKETS}){{0,8}}|not {_IN_BRACKETS}"
)


class Sheet:
    """Takes the style elements of one mail in their order; what passes a bound, or the budget, is left out."""

    def __init__(self, budget: Budget | None = None, *, leave: int = 0) -> None:
        self._budget = budget or Budget()
        self._leave = leave
        self._characters = 0
        self._weight = 0
        self._selectors: list[str] = []
        self.remote_images = 0
        self._rules: list[str] = []
        self._fluid: set[str] = set()
        self._root = ""

    def confine(self, root: str) -> None:
        """Confine the rules that follow to what is in an element that ``root`` selects, "" for the body of the page.

        Its only child stands for the body of the part of the message that the rules are of.
        """
        self._root = root
        self._fluid.clear()

    def add(self, text: str, media: str = "") -> None:
        """Take in a style element and its ``media``."""
        text, media = collapsed(text), collapsed(media)
        if len(media) > _MAX_MEDIA_CHARACTERS:
            return
        self._characters += len(media)
        if self._affordable(media) < len(media):
            return
        left = self._affordable(text[: max(0, MAX_SHEET_CHARACTERS - self._characters)])
        if left < len(text):
            text = text[: text.rfind("}", 0, left) + 1]  # a rule cut in two may say something else
        self._characters += len(text)
        query = _media_query(nodes_of(media)) if text else None
        if query is not None:
            dark = _is_dark(query)
            self._rules.append(_conditional(query, self._written(nodes_of(text), dark), doubled=dark))

    def _affordable(self, text: str) -> int:
        return _affordable(text, self._budget, self._leave, _STEPS_A_TOKEN_OF_A_SHEET)

    def adapts(self, name: str, classes: str) -> bool:
        """Return whether a rule so far sets a width that follows the screen, which wins over a ``width`` attribute."""
        dotted = [f".{one}" for one in classes.split()]
        return not self._fluid.isdisjoint([name, *dotted, *(f"{name}{one}" for one in dotted)])

    def written(self, elements: int, depth: int) -> str:
        """Return the sheet, "" when it is too much for so many elements, nested so deep.

        Its end tag cannot occur in it: no "<" and no backslash are ever written.
        """
        if sum(selectors.matches(one, elements, depth) for one in self._selectors) > MAX_MATCHES:
            return ""
        sheet = "".join(self._rules)
        return "" if "<" in sheet or "\\" in sheet else sheet

    def _written(self, nodes: Sequence[Node], depth: int) -> str:
        return "".join(self._rule(node, depth) for node in rules_of(nodes))

    def _rule(self, node: Node, depth: int) -> str:
        if node.type == "qualified-rule" and self._weight < MAX_SELECTORS:
            return self._style_rule(node, depth)
        is_media = node.type == "at-rule" and node.lower_at_keyword == "media" and node.content is not None
        query = _media_query(node.prelude) if is_media and depth < _MAX_BLOCK_DEPTH else None
        if query is None:
            return ""
        return _conditional(query, self._written(node.content, depth + 1), doubled=depth == 0)

    def _style_rule(self, node: Node, depth: int) -> str:
        found = selectors.written(node.prelude, MAX_SELECTORS - self._weight)
        self._weight += sum(map(selectors.weight_of, found))
        self._selectors += found
        if not found:
            return ""
        declarations = declarations_of(node.content)
        self.remote_images = min(_MAX_REMOTE_IMAGES, self.remote_images + remote_images(declarations))
        block = written(declarations)
        if not depth and _FLUID.search(block):
            self._fluid |= {one for one in map(_last_compound, found) if one}
        found = list(filter(None, map(self._confined, found))) if self._root else found
        return f"{','.join(found)}{{{block}}}" if block and found else ""

    def _confined(self, selector: str) -> str:
        """Return a written selector for what is in the root, "" for one that finds nothing there."""
        body = f":where({self._root}>div)"
        if SCOPE not in selector:
            return body if selector in ("html", ":root") else ""
        return _BODY.sub(rf"{body}\1", selector).replace(SCOPE, f":where({self._root} *)")


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


def _media_query(nodes: Iterable[Node]) -> str | None:
    """Return the known queries of a list anew, "" for an empty one; None when none of them is known."""
    queries = list(separated(without_space(nodes)))
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


def _query(nodes: Iterable[Node]) -> str:
    """Write ``[not | only] type and (feature) …``, ``(feature) and …`` or ``not (feature)``."""
    query = " ".join([_features(node) if node.type == "() block" else _text(node) for node in nodes])
    if not _QUERY.fullmatch(query):
        raise RefusedError
    return query


def _features(block: Node) -> str:
    """Write what is in parentheses: ``name: value``, ``name``, or a range as ``min-`` and ``max-``."""
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
    """Return a node of a media query as it is looked for here."""
    if node.type in ("number", "dimension"):
        return f"{node.representation}{getattr(node, 'lower_unit', '')}"
    if node.type == "ident":
        return str(node.lower_value)
    if node.type != "literal":
        raise RefusedError
    return str(node.value)
