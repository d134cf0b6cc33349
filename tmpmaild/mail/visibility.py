"""Which text of an HTML mail a reader can see: what each open element does to the text in it.

The mail is taken to look as in a browser on a desk. What cannot be decided is seen: a line that a reader misses costs
more than one too much for an agent. An element is read only where it, or something around it, may hide text.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tmpmaild.mail.csscascade import Cascade
from tmpmaild.mail.csscolours import BLACK, WHITE, Colour, is_unseen
from tmpmaild.mail.csseffects import MEDIUM_PIXELS, NO_EFFECT, Effect
from tmpmaild.mail.cssmatching import Element
from tmpmaild.mail.cssrules import Rules
from tmpmaild.mail.cssvalues import SMALL_PIXELS
from tmpmaild.mail.hidingsigns import Signs
from tmpmaild.mail.htmlpage import is_quirky
from tmpmaild.mail.htmltokens import attributes_of, tokens
from tmpmaild.mail.htmltree import FORMATTING, names
from tmpmaild.mail.openelements import ROOTS, SPECIAL, OpenElements

VOID: Final = names("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")
_ROOTS = {"html": 0, "body": 1}
_NOT_FOLLOWED = names("html body head script style title")
# Without any of these nothing can be hidden.
_TRACES = re.compile(r"style|hidden|color|popover|background|<(?:template|dialog|datalist|img\b|body\s)", re.IGNORECASE)
_STYLE = re.compile(r"<style", re.IGNORECASE)
_END_OF_STYLE = re.compile(r"</style[^>]*+>?", re.IGNORECASE)
_LEAST_PIXELS = 6.0
_MAX_MOVED = 20_000


class _State(NamedTuple):
    """What holds for the text in an element."""

    is_gone: bool = False
    is_invisible: bool = False
    size_pixels: float = MEDIUM_PIXELS
    is_indented_away: bool = False
    colour: Colour = BLACK
    ground: Colour = WHITE
    is_decorated: bool = False
    shows_text: bool = True


class _Open:
    """An open element; what it does is not known before it must be: ``state`` is then that around it."""

    __slots__ = ("attributes", "effect", "element", "is_read", "name", "state")

    def __init__(self, name: str, attributes: str, state: _State) -> None:
        self.name = name
        self.attributes = attributes
        self.state = state
        self.effect = NO_EFFECT
        self.element: Element | None = None
        self.is_read = False


class Visibility:
    """Follows the tags of a mail; without ``is_followed`` nothing is hidden but templates.

    ``shows`` tells whether an image would be seen at this place, ``shows_text`` whether text would.
    """

    def __init__(self, source: str, *, is_followed: bool = True) -> None:
        self.shows = self.shows_text = True
        self._is_followed = is_followed
        self._is_needed = _TRACES.search(source) is not None
        if not self._is_needed:
            return
        quirky = is_quirky(source)
        rules = Rules(_sheets(source) if is_followed else (), is_quirky=quirky)
        self._signs = Signs(source if is_followed else "", rules, is_quirky=quirky)
        self._cascade = Cascade(rules, len(source), is_quirky=quirky)
        self._elements = OpenElements[_Open](is_quirky=quirky)
        self._open = self._elements.all
        self._moved = 0
        self._is_line_away = False
        self._push("html", "")
        self._push("body", "")

    @property
    def hides_the_rest(self) -> bool:
        """Whether, at the end, an element hides what follows since it was never closed."""
        return self._is_needed and self._open[-1].state.is_gone and not self._open[ROOTS - 1].state.is_gone

    def start(self, name: str, attributes: str) -> bool:
        """Take a start tag; return whether something of the element itself could be seen."""
        if not self._is_needed:
            return True
        if name in VOID:
            return self._void(name, attributes)
        if name in _NOT_FOLLOWED:
            self._root(name, attributes)
            return self.shows
        if name == "a":
            self.end("a")
        self._elements.make_way(name)
        self._push(name, attributes)
        return self.shows

    def end(self, name: str) -> bool:
        """Take an end tag; return whether something of the element that it ends could be seen."""
        if not self._is_needed or name in _NOT_FOLLOWED:
            return self.shows
        at = self._elements.ended_by(name)
        if at < 0:
            return self.shows
        shown = not _hides(self._open[at].state)
        if name in FORMATTING and at < len(self._open) - 1:
            self._end_formatting(at)
        else:
            self._elements.close(at)
        self._is_line_away = self._is_line_away and name in FORMATTING
        self._update()
        return shown

    def _push(self, name: str, attributes: str) -> None:
        state = self._open[-1].state if self._open else _State()
        self._elements.push(_Open(name, attributes, state))
        if not state.is_gone and not self._cascade.is_exhausted and self._is_to_be_read(name, attributes, state):
            self._read_open()
        self._begin_line()
        self._update()

    def _is_to_be_read(self, name: str, attributes: str, state: _State) -> bool:
        if self._signs.may_hide(name, attributes, is_coloured=state.colour is not BLACK):
            return True
        return not state.shows_text and self._signs.may_show(name, attributes)

    def _update(self) -> None:
        state = self._open[-1].state
        self.shows = not _hides(state)
        self.shows_text = state.shows_text and not self._is_line_away

    def _read_open(self) -> None:
        """Read the open elements that were passed over, to know what lies around the last one."""
        at = len(self._open)
        while at > 0 and not self._open[at - 1].is_read:
            at -= 1
        for place in range(at, len(self._open)):
            self._read(place)

    def _read(self, place: int) -> None:
        one = self._open[place]
        if self._cascade.is_exhausted:
            self._set_state(place)
            return
        known = self._cascade.known(one.name, one.attributes)
        one.element, one.is_read = known.element, True
        if self._is_followed or one.name == "template":
            one.effect = self._cascade.effect(known, lambda: self._around(place))
        self._set_state(place)

    def _set_state(self, place: int) -> None:
        one = self._open[place]
        around = self._open[place - 1].state if place else _State()
        one.state = around if one.effect is NO_EFFECT else _within(around, one.effect)

    def _around(self, place: int) -> list[Element]:
        return [one.element for one in self._open[:place] if one.element is not None]

    def _void(self, name: str, attributes: str) -> bool:
        if name == "img":
            return self._shows_image(attributes)
        if name == "hr":
            self._elements.make_way(name)
        if name in ("br", "hr"):
            self._is_line_away = False
            self._update()
        return self.shows

    def _shows_image(self, attributes: str) -> bool:
        if not self.shows or not self._signs.may_hide_image(attributes):
            return self.shows
        self._push("img", attributes)
        shown = self.shows
        self._elements.close(len(self._open) - 1)
        self._update()
        return shown

    def _root(self, name: str, attributes: str) -> None:
        """Take the attributes of the page, if nothing has begun yet."""
        at = _ROOTS.get(name, -1)
        if at >= 0 and attributes and len(self._open) == ROOTS:
            texts = [one.attributes for one in self._open]
            texts[at] = texts[at] or attributes
            self._elements.close(0)
            self._push("html", texts[0])
            self._push("body", texts[1])

    def _begin_line(self) -> None:
        """Begin a line, perhaps out of sight, if the element is a block."""
        one = self._open[-1]
        if (self._is_line_away or one.state.is_indented_away) and (one.name in SPECIAL or one.effect.is_block):
            self._is_line_away = one.state.is_indented_away

    def _end_formatting(self, at: int) -> None:
        """End formatting around elements that are open: blocks and what is in them stay open without it."""
        within = self._open[at + 1 :]
        if not any(one.name in SPECIAL for one in within):
            self._elements.close(at)
            return
        self._moved += len(within)
        if self._open[at].effect is NO_EFFECT or self._moved > _MAX_MOVED:
            return
        self._elements.close(at)
        for place, one in enumerate(within, at):
            self._elements.push(one)
            self._read(place)


def _hides(state: _State) -> bool:
    return state.is_gone or state.is_invisible


def _within(around: _State, effect: Effect) -> _State:
    """Return what holds in an element."""
    size = around.size_pixels if effect.size_pixels is None else effect.size_pixels
    if effect.size_factor is not None:
        # A share of an ordinary size is made large enough to be read, but for none at all.
        least = _LEAST_PIXELS if effect.size_factor and size >= _LEAST_PIXELS else 0.0
        size = max(size * effect.size_factor, least)
    is_gone = around.is_gone or effect.is_gone
    is_invisible = around.is_invisible if effect.is_invisible is None else effect.is_invisible
    colour = around.colour if effect.colour is None else effect.colour
    ground = around.ground if effect.ground is None else effect.ground
    is_decorated = around.is_decorated or effect.is_decorated
    is_readable = size > SMALL_PIXELS and (is_decorated or not is_unseen(colour, ground))
    return _State(
        is_gone=is_gone,
        is_invisible=is_invisible,
        size_pixels=size,
        is_indented_away=around.is_indented_away if effect.is_indented_away is None else effect.is_indented_away,
        colour=colour,
        ground=ground,
        is_decorated=is_decorated,
        shows_text=not is_gone and not is_invisible and is_readable,
    )


def _sheets(source: str) -> Iterator[tuple[str, str]]:
    """Yield the style sheets of a mail, and for which media they are."""
    last = None
    for last in _STYLE.finditer(source):  # noqa: B007
        pass
    if last is None:
        return
    end = _END_OF_STYLE.search(source, last.end())
    templates, media = 0, None
    for kind, text, attributes in tokens(source[: end.end() if end else len(source)], sheets=True):
        if kind == "sheet":
            if media is not None and not templates:
                yield text, media
        elif text == "template":
            templates += 1 if kind == "start" else -(templates > 0)
        elif text == "style" and kind == "start":
            found = attributes_of(attributes)
            is_css = found.get("type", "").strip().lower() in ("", "text/css")
            media = found.get("media", "").strip() if is_css else None
