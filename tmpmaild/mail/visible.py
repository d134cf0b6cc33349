"""Decides which text of HTML a person sees, omitting elements and text that tags or styles hide.

A style may hide text through an element's own attribute or a style sheet rule. A rule counts only if it certainly
applies (``cascade``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from tmpmaild.mail import hiding
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cascade import Cascade, sheets_of
from tmpmaild.mail.htmlnesting import may_end
from tmpmaild.mail.htmltokens import attributes_of, names

# The measured cost of work, in budget steps.
_STEPS_PER_ELEMENT = 1
_STEPS_PER_STYLE = 12
_ATTRIBUTES_PER_STEP = 6
_MAX_ATTRIBUTES_CHARACTERS = 64 * 1024  # the limit for one tag; only images in ``data:`` URLs are longer

# Browsers do not show the content of these elements, which are for media, choices, and SVG definitions and
# descriptions.
_UNSEEN = names("audio canvas datalist defs desc video")
VOID = names("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")

# Declaring a background or other colours requires one of these words, or an escape.
_COLOURING = ("background", "bgcolor", "<link", "color-scheme", "@import", "\\")


class Styles:
    """The effect of style attributes and sheets on the text of elements; each distinct tag is evaluated once."""

    def __init__(self, lower: str, parts: Iterable[tuple[str, str, str]], budget: Budget) -> None:
        self._budget = budget
        self._on_white = not any(one in lower for one in _COLOURING)
        sheets = sheets_of(parts) if "<style" in lower else ()
        self._cascade = Cascade(sheets, budget, on_white=self._on_white)
        self._known: dict[tuple[str, str], tuple[bool, str]] = {}

    def evaluate(self, name: str, attributes: str) -> tuple[bool, str]:
        """Return whether an element hides its content, and ``invisible_text`` for the text after its tag."""
        known = self._known.get((name, attributes))
        if known is None:
            known = self._known[name, attributes] = self._evaluate(name, attributes[:_MAX_ATTRIBUTES_CHARACTERS])
        return known

    def _evaluate(self, name: str, attributes: str) -> tuple[bool, str]:
        if attributes and not self._budget.take(_STEPS_PER_ELEMENT):
            return False, ""
        if name == "dialog" and "open" not in attributes_of(attributes):
            return True, ""
        if name == "object" and "data" in attributes_of(
            attributes
        ):  # the element's content is a fallback for browsers that cannot show the data
            return True, ""
        by_rule = self._cascade.may_hide(name, attributes)
        if not (by_rule or (attributes and hiding.may_hide(attributes))):
            return False, ""
        if not self._budget.take(_STEPS_PER_STYLE + len(attributes) // _ATTRIBUTES_PER_STEP):
            return False, ""
        found = attributes_of(attributes)
        style = self._cascade.style(name, found, self._budget) if by_rule else None
        if style is None:
            style = hiding.in_style(found.get("style", ""))
        is_hidden = ("hidden" in found and "display" not in style) or hiding.hides(name, style)
        return is_hidden, hiding.invisible_text(name, style, self._colour(name, found, style), on_white=self._on_white)

    def _colour(self, name: str, attributes: dict[str, str], style: dict[str, str]) -> str:
        """Return the colour of an element, or "" if it inherits its colour."""
        by_attribute = attributes.get("color", "").strip().lower() if name == "font" else ""
        colour = style.get("color", by_attribute)
        if self._on_white and hiding.is_white(colour):  # white unless a rule sets a different colour
            return self._cascade.colour(name, attributes, self._budget) or by_attribute
        return colour


class Hidden:
    """Tracks the element that hides the current token (``name``); without ``skips``, only templates hide content."""

    def __init__(self, styles: Styles, *, skips: bool = True) -> None:
        self.styles = styles
        self._skips = skips
        self.name = ""
        self._open: Counter[str] = Counter()  # the names of the hiding element and of the elements within it
        self._is_crossed = False

    @property
    def ends_elsewhere(self) -> bool:
        """Whether a hidden element has no end tag, or may have ended before it."""
        return self.name != "" or self._is_crossed

    def holds(self, kind: str, name: str, attributes: str) -> bool:
        """Process the next token; return whether it is hidden. The tags of a hiding element are hidden too."""
        if self.name:
            if kind != "text":
                self._follow(name, starts=kind == "start")
            return True
        is_hidden = name == "template" or (
            self._skips and (name in _UNSEEN or self.styles.evaluate(name, attributes)[0])
        )
        if is_hidden and kind == "start" and name not in VOID:
            self.name, self._open = name, Counter([name])
        return self.name != "" or (is_hidden and name == "img")

    def _follow(self, name: str, *, starts: bool) -> None:
        """Process a tag within the hiding element; only that element's own end tag ends it."""
        if starts:
            self._is_crossed = self._is_crossed or may_end(self.name, name)
            self._open[name] += 1
        elif not self._open[name]:
            self._is_crossed = True
        else:
            self._open[name] -= 1
            self.name = self.name if self._open[self.name] else ""


def seen(parts: Iterable[tuple[str, str, str]], hidden: Hidden) -> Iterator[tuple[str, str, str]]:
    """Yield the tokens that are not hidden, and ("blank", "", "") in place of invisible text."""
    blank = ""
    for kind, text, attributes in parts:
        if (hidden.name or kind == "start") and hidden.holds(kind, text, attributes):
            continue
        if kind == "text" and blank:
            if text and not text.isspace():
                yield "blank", "", ""
            continue
        if kind == "end":
            blank = ""
        elif kind == "start":
            stays_blank = text in VOID and (text != "br" or blank == "all")
            blank = (blank if stays_blank else "") or hidden.styles.evaluate(text, attributes)[1]
        yield kind, text, attributes
