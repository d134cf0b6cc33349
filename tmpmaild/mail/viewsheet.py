"""The style sheet of a view: the harmless rules of a hostile message's style sheets, for its body only."""

import re
from collections.abc import Set as AbstractSet

from tinycss2.ast import AtKeywordToken

from tmpmaild.mail import declarations, mediaqueries, selectors, stylesheets
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cssnodes import affordable, declarations_of, nodes_of
from tmpmaild.mail.htmltokens import collapsed
from tmpmaild.mail.selectors import SCOPE

MAX_SELECTORS = 2000
MAX_MATCHES = 5_000_000
"""The maximum number of times that a selector is matched against an element; this takes a browser about a second."""
DARK_ID, LIGHT_ID = "dark", "light"
"""The element ids that are used as the fragment of the page's URL to request the dark or the light view."""

_STEPS_PER_TOKEN = 3
# Steps for splitting a sheet into rules, which take one more step each: characters and selectors per step.
_SPLIT_PER_STEP = 16
_SELECTORS_PER_STEP = 3
_MAX_BLOCK_DEPTH = 4
_MAX_MEDIA_CHARACTERS = 300
_MAX_REMOTE_IMAGES = 1000

_BODY = re.compile(rf"(?<![^\s>+~])body([^\s>+~(]*?){re.escape(SCOPE)}")
_COMBINATOR = re.compile(r"[\s>+~]")
# A selector list without brackets, strings, escapes and comments: each "." and "#" in it starts a name.
_is_plain = re.compile(r"[\w\s.#>+~*,:-]+").fullmatch
_names_in = re.compile(r"[.#]([\w-]+)").findall
# A percentage of the parent's width, in the form in which this module writes it.
_FLUID = re.compile(r"(?:^|;)width:(?:[0-9.]{1,8}%|auto)")


class Sheet:
    """Processes the style elements of one message in order; omits rules that exceed a limit or the budget."""

    reserved = 0
    """The budget steps that are reserved for other work."""
    words: AbstractSet[str] | None = None
    """All words in the attributes of the elements. Rules that need a different class or id are omitted unparsed.

    A mail framework's whole sheet would otherwise take the steps of the few rules that the message uses.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._characters = 0
        self._weight = 0
        self._selectors: list[str] = []
        self.remote_images = 0
        self._rules: list[str] = []
        self._fluid: set[str] = set()
        self._root = ""

    def confine(self, root: str) -> None:
        """Confine the following rules to the content of the element that ``root`` selects, or of the page's body if "".

        The root's only child represents the body of the message part that contains the rules.
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
        text = _whole_rules(text, max(0, stylesheets.MAX_CHARACTERS - self._characters))
        self._characters += len(text)
        text = self._selecting(text)
        text = _whole_rules(text, self._affordable(text))
        query = mediaqueries.written(nodes_of(media)) if text else None
        if query is not None:
            self._rules.append(self._written(text, query))

    def _selecting(self, text: str) -> str:
        """Return the sheet without rules that ``words`` rule out, or unchanged if finding them costs too much."""
        words = self.words
        steps = text.count("{") + text.count(",") // _SELECTORS_PER_STEP + len(text) // _SPLIT_PER_STEP
        if words is None or steps > self._budget.remaining - self.reserved:
            return text
        self._budget.take(steps)
        kept = []
        for kind, prelude, block in stylesheets.pieces_of(text):
            if kind != "rule":
                kept.append(f"{prelude}{{" if kind == "start" else "}")
            elif not _is_plain(prelude) or any(words >= set(_names_in(one)) for one in prelude.split(",")):
                kept.append(f"{prelude}{{{block}}}")
        return "".join(kept)

    def _affordable(self, text: str) -> int:
        return affordable(text, self._budget, self.reserved, _STEPS_PER_TOKEN)

    def adapts(self, name: str, classes: str) -> bool:
        """Return whether any rule so far sets a screen-dependent width, which overrides a ``width`` attribute."""
        dotted = [f".{one}" for one in classes.split()]
        return not self._fluid.isdisjoint([name, *dotted, *(f"{name}{one}" for one in dotted)])

    def written(self, elements: int, depth: int) -> str:
        """Return the sheet, or "" if it would cost a browser too much with this number and nesting depth of elements.

        The sheet cannot contain its own end tag, because neither "<" nor a backslash is ever written.
        """
        if sum(selectors.matches(one, elements, depth) for one in self._selectors) > MAX_MATCHES:
            return ""
        sheet = "".join(self._rules)
        return "" if "<" in sheet or "\\" in sheet else sheet

    def _written(self, text: str, query: str) -> str:
        """Write the rules of a style element for these media. ``@media`` is the only at-rule that is kept."""
        is_dark = mediaqueries.is_dark(query)
        around: list[tuple[str | None, list[str]]] = [(query, [])]  # the media and the rules of each open block
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
        """Return a written selector confined to the content of the root, or "" if it selects nothing there."""
        body = f":where({self._root}>div)"
        if SCOPE not in selector:
            return body if selector in ("html", ":root") else ""
        return _BODY.sub(rf"{body}\1", selector).replace(SCOPE, f":where({self._root} *)")


def _whole_rules(text: str, characters: int) -> str:
    """Truncate a sheet after a rule, because a truncated rule may have a different meaning."""
    return text if characters >= len(text) else text[: text.rfind("}", 0, characters) + 1]


def _last_compound(selector: str) -> str:
    """Return the part of a selector that applies to the element itself; "" for a bare name after a combinator."""
    *around, last = _COMBINATOR.split(selector.replace(SCOPE, ""))
    return "" if around and "." not in last else last


def _media(prelude: str) -> str | None:
    """Write the media query list of ``@media``; return None for other at-rules, or if no query is known."""
    keyword, *query = nodes_of(prelude)
    is_media = isinstance(keyword, AtKeywordToken) and keyword.lower_value == "media"
    return mediaqueries.written(query) if is_media else None


def _conditional(query: str | None, rules: str, *, doubled: bool) -> str:
    """Write rules under a media query; rules for readers who prefer dark colours also apply in the dark view."""
    if not query or not rules:
        return rules
    if not doubled or not mediaqueries.is_dark(query):
        return f"@media {query}{{{rules}}}"
    return (
        f"@media {query}{{:root:not(:has(#{LIGHT_ID}:target)){{{rules}}}}}"
        f":root:has(#{DARK_ID}:target){{@media {mediaqueries.without_dark(query)}{{{rules}}}}}"
    )
