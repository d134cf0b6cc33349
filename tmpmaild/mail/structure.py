"""The tree of a message's parts, and the choice of its text, its HTML and its attachments.

The rule is based on RFC 8621 §4.1.4, which describes how mail programs show messages. It differs in three points, which
are documented in ``docs/api.md``. A text without visible content counts as absent. A leaf that is neither the text nor
the HTML of the message is an attachment, even if it is an image that the HTML shows. A text part with a file name is
the message's text only if there is no other text.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, field

PLAIN, HTML = "text/plain", "text/html"


class Part(Struct, eq=False):
    """One entity (RFC 2045 §2.4): the content of its header, and the position of its body in the message.

    Names and types are in lower case; ``content_id`` has no angle brackets and is "" when absent. ``stated`` maps the
    names of its fields to their raw values. ``number`` is its index among the leaves of the message, from 0.
    """

    content_type: str = PLAIN
    parameters: dict[str, str] = field(default_factory=dict)
    disposition: str = ""
    filename: str = ""
    encoding: str = ""
    content_id: str = ""
    start: int = 0
    end: int = 0
    stated: dict[str, str] = field(default_factory=dict)
    number: int = 0


class Multipart(Struct, eq=False):
    """A multipart entity, such as "alternative" (its ``subtype``); its body starts at ``start`` in the message.

    ``root`` is the Content-ID of the part that a "related" multipart shows, "" for the first part (RFC 2387 §3.2).
    ``part_type`` is the default type of parts that do not declare a type.
    """

    subtype: str
    boundary: bytes = b""
    start: int = 0
    part_type: str = PLAIN
    content_id: str = ""
    root: str = ""
    children: list["Part | Multipart"] = field(default_factory=list)


class Roles(Struct, frozen=True):
    """The roles of a message's parts. A part may be both text and HTML if the message has only one of the two."""

    text: list[Part]
    html: list[Part]
    attached: list[Part]


def choose(top: Part | Multipart, leaves: Iterable[Part], has_visible_text: Callable[[Part], bool]) -> Roles:
    """Choose a message's text and HTML parts; ``has_visible_text`` returns whether a text part has visible content."""
    if isinstance(top, Part):
        if not _is_text(top):
            return Roles([], [], [top])
        return Roles([top], [top] if top.content_type == HTML else [], [])
    chooser = _Chooser(has_visible_text).walked(top)
    if not (chooser.text or chooser.html):
        chooser = _Chooser(has_visible_text, takes_named=True).walked(top)
    if not (chooser.text or chooser.html):
        chooser = _Chooser(takes_named=True).walked(top)
    unnamed = [part for part in chooser.blank if not part.filename]
    gone = {*chooser.text, *chooser.html, *unnamed}
    # If all parts are plain text, the message has no HTML, and a view shows it as plain text.
    html = chooser.html if any(part.content_type == HTML for part in chooser.html) else []
    return Roles(chooser.text, html, [part for part in leaves if part not in gone])


def _is_text(part: Part) -> bool:
    """Return whether a part has a displayable type and is not declared as an attachment."""
    return part.content_type in (PLAIN, HTML) and part.disposition in ("", "inline")


class _Chooser:
    """One traversal of the tree; ``blank`` contains the omitted text parts that have no visible content."""

    def __init__(self, has_visible_text: Callable[[Part], bool] = lambda _: True, *, takes_named: bool = False) -> None:
        self.text: list[Part] = []
        self.html: list[Part] = []
        self.blank: list[Part] = []
        self._has_visible_text = has_visible_text
        self._takes_named = takes_named

    def walked(self, tree: Multipart) -> "_Chooser":
        """Choose among all parts of a message; return ``self``."""
        self._walk(tree, self.text, self.html, in_alternative=tree.subtype == "alternative")
        return self

    def _walk(
        self, multipart: Multipart, text: list[Part] | None, html: list[Part] | None, *, in_alternative: bool
    ) -> None:
        """Add the text parts in a multipart entity to the lists; a list is None in the other type's alternatives."""
        begun = (len(text or ()), len(html or ()))
        is_alternative = multipart.subtype == "alternative"
        shown = self._shown(multipart)
        if in_alternative and not is_alternative:
            types = {part.content_type for part in shown if isinstance(part, Part)}
            text, html = (None if types == {HTML} else text), (None if types == {PLAIN} else html)
        for child in shown:
            if isinstance(child, Multipart):
                within = in_alternative or child.subtype == "alternative"
                self._walk(child, text, html, in_alternative=within)
                continue
            if text is not None and not (is_alternative and child.content_type == HTML):
                text.append(child)
            if html is not None and not (is_alternative and child.content_type == PLAIN):
                html.append(child)
        if is_alternative and text is not None and html is not None:
            more_text, more_html = text[begun[0] :], html[begun[1] :]
            if not more_text:
                text += more_html
            elif not more_html:
                html += more_text

    def _shown(self, multipart: Multipart) -> list[Part | Multipart]:
        """Return the children of a multipart entity that are multipart entities or text parts of the message."""
        shown: list[Part | Multipart] = []
        for child in multipart.children:
            if isinstance(child, Multipart):
                shown.append(child)
            elif _is_text(child) and self._is_unnamed(child, multipart, is_first=not shown):
                (shown if self._has_visible_text(child) else self.blank).append(child)
        if multipart.subtype != "related" or not shown:
            return shown
        # A "related" multipart shows the part that it specifies, or else the first part (RFC 2387 §3.2). Images before
        # that part are ignored.
        named = (child for child in shown if multipart.root and child.content_id == multipart.root)
        root = next(named, shown[0])
        return [child for child in shown if child is root or isinstance(child, Multipart)]

    def _is_unnamed(self, part: Part, parent: Multipart, *, is_first: bool) -> bool:
        """Return whether a text part belongs to the message's text, rather than being an attached text file."""
        # Alternatives have the same content, regardless of their file names (RFC 2046 §5.1.4).
        return not part.filename or parent.subtype == "alternative" or (self._takes_named and is_first)
