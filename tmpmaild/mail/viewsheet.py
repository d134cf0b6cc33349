"""The style sheet of a view: the harmless rules of a hostile message's style sheets, for its body only."""

import re

from tinycss2.ast import AtKeywordToken

from tmpmaild.mail import declarations, mediaqueries, selectors, stylesheets
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cssnodes import affordable, declarations_of, nodes_of
from tmpmaild.mail.htmltokens import collapsed
from tmpmaild.mail.selectors import SCOPE

MAX_SELECTORS = 2000
MAX_MATCHES = 5_000_000
"""Of selectors with elements: about a second of a browser."""
DARK_ID, LIGHT_ID = "dark", "light"
"""The ids of the elements that the fragment of the page's URL names to request the dark or the light view."""

_STEPS_A_TOKEN = 3
_MAX_BLOCK_DEPTH = 4
_MAX_MEDIA_CHARACTERS = 300
_MAX_REMOTE_IMAGES = 1000

_BODY = re.compile(rf"(?<![^\s>+~])body([^\s>+~(]*?){re.escape(SCOPE)}")
_COMBINATOR = re.compile(r"[\s>+~]")
# A share of the width around it, as it is written here.
_FLUID = re.compile(r"(?:^|;)width:(?:[0-9.]{1,8}%|auto)")


class Sheet:
    """Takes the style elements of one message in order; leaves out what exceeds a limit or the budget."""

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
        """Confine the rules that follow to the content of an element that ``root`` selects, "" for the page's body.

        Its only child stands for the body of the part of the message that the rules are from.
        """
        self._root = root
        self._fluid.clear()

    def add(self, text: str, media: str = "") -> None:
        """Add the rules of a style element with this media query list."""
        text, media = collapsed(text), collapsed(media)
        if len(media) > _MAX_MEDIA_CHARACTERS:
            return
        self._characters += len(media)
        if self._affordable(media) < len(media):
            return
        left = self._affordable(text[: max(0, stylesheets.MAX_CHARACTERS - self._characters)])
        if left < len(text):
            text = text[: text.rfind("}", 0, left) + 1]  # a rule cut in two may mean something else
        self._characters += len(text)
        query = mediaqueries.written(nodes_of(media)) if text else None
        if query is not None:
            self._rules.append(self._written(text, query))

    def _affordable(self, text: str) -> int:
        return affordable(text, self._budget, self._leave, _STEPS_A_TOKEN)

    def adapts(self, name: str, classes: str) -> bool:
        """Return whether a rule so far sets a width that follows the screen, which wins over a ``width`` attribute."""
        dotted = [f".{one}" for one in classes.split()]
        return not self._fluid.isdisjoint([name, *dotted, *(f"{name}{one}" for one in dotted)])

    def written(self, elements: int, depth: int) -> str:
        """Return the sheet, "" if it would cost a browser too much with so many elements, nested so deep.

        It cannot contain its own end tag: no "<" and no backslash are ever written.
        """
        if sum(selectors.matches(one, elements, depth) for one in self._selectors) > MAX_MATCHES:
            return ""
        sheet = "".join(self._rules)
        return "" if "<" in sheet or "\\" in sheet else sheet

    def _written(self, text: str, query: str) -> str:
        """Write the rules of a style element for these media. ``@media`` is the only at-rule that stays."""
        is_dark = mediaqueries.is_dark(query)
        around: list[tuple[str | None, list[str]]] = [(query, [])]  # the media of what is open, and its rules
        for kind, prelude, block in stylesheets.pieces_of(text):
            depth = len(around) - 1 + is_dark
            if kind == "start":
                is_left_out = around[-1][0] is None or depth >= _MAX_BLOCK_DEPTH
                around.append((None if is_left_out else _media(prelude), []))
            elif kind == "end":
                self._end(around, doubled=depth == 1)
            elif around[-1][0] is not None and self._weight < MAX_SELECTORS:
                around[-1][1].append(self._rule(prelude, block, is_conditional=depth > 0))
        while len(around) > 1:
            self._end(around, doubled=len(around) - 1 + is_dark == 1)
        return _conditional(query, "".join(around[0][1]), doubled=is_dark)

    def _end(self, around: list[tuple[str | None, list[str]]], *, doubled: bool) -> None:
        query, rules = around.pop()
        around[-1][1].append(_conditional(query, "".join(rules), doubled=doubled))

    def _rule(self, prelude: str, block: str, *, is_conditional: bool) -> str:
        found = selectors.written(nodes_of(prelude), MAX_SELECTORS - self._weight)
        self._weight += sum(map(selectors.weight_of, found))
        self._selectors += found
        if not found:
            return ""
        declared = declarations_of(nodes_of(block))
        self.remote_images = min(_MAX_REMOTE_IMAGES, self.remote_images + declarations.remote_images(declared))
        written = declarations.written(declared)
        if not is_conditional and _FLUID.search(written):
            self._fluid |= {one for one in map(_last_compound, found) if one}
        found = list(filter(None, map(self._confined, found))) if self._root else found
        return f"{','.join(found)}{{{written}}}" if written and found else ""

    def _confined(self, selector: str) -> str:
        """Return a written selector for the content of the root, "" if it selects nothing there."""
        body = f":where({self._root}>div)"
        if SCOPE not in selector:
            return body if selector in ("html", ":root") else ""
        return _BODY.sub(rf"{body}\1", selector).replace(SCOPE, f":where({self._root} *)")


def _last_compound(selector: str) -> str:
    """Return what a written selector demands of the element itself, "" for a mere name within something else."""
    *around, last = _COMBINATOR.split(selector.replace(SCOPE, ""))
    return "" if around and "." not in last else last


def _media(prelude: str) -> str | None:
    """Write the media query list of an at-rule; return None for other at-rules, and if no query is known."""
    keyword, *query = nodes_of(prelude)
    is_media = isinstance(keyword, AtKeywordToken) and keyword.lower_value == "media"
    return mediaqueries.written(query) if is_media else None


def _conditional(query: str | None, rules: str, *, doubled: bool) -> str:
    """Write rules under a media query; rules for dark readers apply in the dark view too."""
    if not query or not rules:
        return rules
    if not doubled or not mediaqueries.is_dark(query):
        return f"@media {query}{{{rules}}}"
    return (
        f"@media {query}{{:root:not(:has(#{LIGHT_ID}:target)){{{rules}}}}}"
        f":root:has(#{DARK_ID}:target){{@media {mediaqueries.without_dark(query)}{{{rules}}}}}"
    )
