"""The style sheets of a hostile mail made one sheet of this page; selectors, media and values are in other modules.

Rules and ``@media`` stay. What loads, names or animates something (``@import``, ``@font-face``, ``@keyframes`` …) is
left out with all that it holds, and so are conditions that are not read here (``@supports``, ``@layer`` …).
"""

from collections.abc import Sequence

from tmpmaild.mail import cssdeclarations, cssmedia, cssselectors
from tmpmaild.mail.csstokens import Node, declarations_of, nodes_of, rules_of

# tinycss2 takes half a second for so much.
MAX_CHARACTERS = 128 * 1024
MAX_SELECTORS = 2000
# Of selectors with elements: about a second of a browser.
MAX_MATCHES = 5_000_000
# The elements of the page that its URL names to ask for one view or the other.
DARK_ID = "dark"
LIGHT_ID = "light"
_MAX_DEPTH = 4
_MAX_MEDIA_CHARACTERS = 300
_MAX_REMOTE_IMAGES = 1000


class Sheet:
    """Takes the style elements of one mail in their order; what passes a bound is left out."""

    def __init__(self) -> None:
        self._characters = 0
        self._weight = 0
        self._selectors: list[str] = []
        self.remote_images = 0
        self._rules: list[str] = []

    def add(self, text: str, media: str = "") -> None:
        """Take in a style element and its ``media``."""
        if len(media) > _MAX_MEDIA_CHARACTERS:
            return
        self._characters += len(media)
        left = max(0, MAX_CHARACTERS - self._characters)
        if len(text) > left:
            text = text[: text.rfind("}", 0, left) + 1]  # a rule cut in two may say something else
        self._characters += len(text)
        query = cssmedia.written(nodes_of(media)) if text else None
        if query is not None:
            is_dark = cssmedia.is_dark(query)
            self._rules.append(_conditional(query, self._written(nodes_of(text), is_dark), doubled=is_dark))

    def written(self, elements: int, depth: int) -> str:
        """Return the sheet, "" when it is too much for so many elements, nested so deep.

        Its end tag cannot occur in it: no "<" and no backslash are ever written.
        """
        if sum(cssselectors.matches(one, elements, depth) for one in self._selectors) > MAX_MATCHES:
            return ""
        sheet = "".join(self._rules)
        return "" if "<" in sheet or "\\" in sheet else sheet

    def _written(self, nodes: Sequence[Node], depth: int) -> str:
        return "".join(self._rule(node, depth) for node in rules_of(nodes))

    def _rule(self, node: Node, depth: int) -> str:
        if node.type == "qualified-rule" and self._weight < MAX_SELECTORS:
            return self._style_rule(node)
        if node.type != "at-rule" or node.lower_at_keyword != "media" or node.content is None or depth >= _MAX_DEPTH:
            return ""
        query = cssmedia.written(node.prelude)
        if query is None:
            return ""
        return _conditional(query, self._written(node.content, depth + 1), doubled=depth == 0)

    def _style_rule(self, node: Node) -> str:
        selectors = cssselectors.written(node.prelude, MAX_SELECTORS - self._weight)
        self._weight += sum(map(cssselectors.weight, selectors))
        self._selectors += selectors
        if not selectors:
            return ""
        declarations = declarations_of(node.content)
        self.remote_images = min(_MAX_REMOTE_IMAGES, self.remote_images + cssdeclarations.remote_images(declarations))
        block = cssdeclarations.written(declarations)
        return f"{','.join(selectors)}{{{block}}}" if block else ""


def _conditional(query: str, rules: str, *, doubled: bool) -> str:
    """Write rules that depend on the screen; what is for dark readers applies in the dark view too."""
    if not query or not rules:
        return rules
    if not doubled or not cssmedia.is_dark(query):
        return f"@media {query}{{{rules}}}"
    return (
        f"@media {query}{{:root:not(:has(#{LIGHT_ID}:target)){{{rules}}}}}"
        f":root:has(#{DARK_ID}:target){{@media {cssmedia.without_dark(query)}{{{rules}}}}}"
    )
