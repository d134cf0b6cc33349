"""Which selectors of a mail's style sheets mean which elements, as told from an element and those around it.

What a selector asks of siblings or of the state of a page is not looked at. It is then not sure that the rule applies:
such a rule may show what another hides, but hides nothing itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tmpmaild.mail.htmltree import names

_MAX_CHARACTERS = 1000  # of a list of selectors
_MAX_COMPOUNDS = 10
_SIMPLE = re.compile(
    r"(?P<name>[.#]?-?(?:[^\W\d]|\ufffd|--)[\w\ufffd-]*+)|(?P<star>\*)"
    r"|\[\s*+(?P<attribute>[\w-]++)\s*+(?:(?P<operator>[~^$*|]?=)\s*+(?:\"(?P<quoted>[^\"]*+)\"|(?P<word>[\w\ufffd-]++))\s*+[is]?\s*+)?\]"
    r"|:(?P<pseudo>:?[\w-]++)(?P<arguments>\((?>(?:[^()]++|\((?>(?:[^()]++|\([^()]*+\))*)\))*)\))?"
)
# Types, classes and ids, one in another, and nothing else.
_PLAIN_COMPOUND = r"(?=[a-z.#])(?:[a-z][\w-]*+)?(?>(?:[.#][a-z_][\w-]*+)*)"
_PLAIN = re.compile(
    rf"\s*+{_PLAIN_COMPOUND}(?>(?:\s*+[>,]\s*+{_PLAIN_COMPOUND}|\s++{_PLAIN_COMPOUND})*)\s*+", re.IGNORECASE
)
_LAST = re.compile(r"[^\s>]++\s*+\Z")
_MARKS = re.compile(r"[.#]?[\w-]++")
_COMBINATOR = re.compile(r"\s*+([>+~])\s*+|\s++")
_COMMA = re.compile(r",(?![^(]*+\))")
# What holds of nothing while a mail is only looked at.
_NEVER = names("hover active focus focus-within focus-visible target visited")
_MAYBE = names(
    "any-link checked default disabled empty enabled first-child first-of-type has in-range indeterminate invalid "
    "is lang last-child last-of-type link not nth-child nth-last-child nth-last-of-type nth-of-type only-child "
    "only-of-type optional out-of-range placeholder-shown read-only read-write required scope valid where dir "
    "defined matches"
)
_OLD_PSEUDO_ELEMENTS = names("before after first-line first-letter")


class Element(NamedTuple):
    """What selectors look at."""

    name: str
    attributes: Mapping[str, str]
    id: str
    classes: frozenset[str]


class _Compound(NamedTuple):
    """What a selector asks of one element; ``combinator`` is how it lies to the one named before, "" for the first."""

    name: str
    id: str
    classes: frozenset[str]
    attributes: tuple[tuple[str, str, str], ...]
    combinator: str


class Selector(NamedTuple):
    """A selector from its last compound to its first; ``key`` is in ``keys`` of every element that it can mean."""

    compounds: tuple[_Compound, ...]
    weight: tuple[int, int, int]
    is_sure: bool
    is_never: bool

    @property
    def is_alone(self) -> bool:
        """Whether it asks of nothing else but of the element."""
        return len(self.compounds) == 1

    @property
    def key(self) -> str:
        """What to look the selector up by."""
        last = self.compounds[0]
        return f"#{last.id}" if last.id else f".{min(last.classes)}" if last.classes else last.name or "*"


NEVER: Final = Selector((), (0, 0, 0), is_sure=True, is_never=True)


class InvalidError(Exception):
    """Browsers would ignore the rule, or it is too long to be read."""


def keys(element: Element) -> Iterator[str]:
    """Yield what selectors that can mean an element are looked up by."""
    yield "*"
    yield element.name
    if element.id:
        yield f"#{element.id}"
    for one in element.classes:
        yield f".{one}"


def keyed(text: str, *, is_quirky: bool) -> list[tuple[str, str]]:
    """Return the selectors of a list and their keys, without those that mean nothing.

    There are none if a browser would ignore the list since one of them is invalid. In a quirky page the case of ids
    and classes does not matter: they are compared in lower case.
    """
    if len(text) > _MAX_CHARACTERS:
        return []
    if _PLAIN.fullmatch(text):
        return [(one, _key(one.lower() if is_quirky else one)) for one in text.split(",")]
    texts = [one.strip() for one in _COMMA.split(text)]
    try:
        read = [(one, selector(one, is_quirky=is_quirky)) for one in texts]
    except InvalidError:
        return []
    return [(one, found.key) for one, found in read if not found.is_never]


def _key(text: str) -> str:
    """Return the key of a plain selector."""
    last = _LAST.search(text)
    name, *marks = _MARKS.findall(last[0]) if last else [""]
    ids = [one for one in (name, *marks) if one[:1] == "#"]
    classes = [one for one in (name, *marks) if one[:1] == "."]
    return ids[-1] if ids else min(classes) if classes else name.lower() or "*"


def selector(text: str, *, is_quirky: bool) -> Selector:
    """Read one selector; raises ``InvalidError``."""
    text = text.strip()
    compounds: list[_Compound] = []
    weight = (0, 0, 0)
    is_sure, is_never, combinator, position = True, False, "", 0
    while len(compounds) < _MAX_COMPOUNDS:
        reader = _Reader(text, position, is_quirky=is_quirky)
        compounds.insert(0, reader.compound(combinator))
        weight = (weight[0] + reader.weight[0], weight[1] + reader.weight[1], weight[2] + reader.weight[2])
        is_sure, is_never, position = is_sure and reader.is_sure, is_never or reader.is_never, reader.position
        if position == len(text):
            return Selector(tuple(compounds), weight, is_sure, is_never)
        between = _COMBINATOR.match(text, position)
        if between is None:
            break
        combinator, position = between[1] or " ", between.end()
        if combinator in ("+", "~"):  # whatever stands before it
            compounds.clear()
            is_sure = False
    raise InvalidError


class _Reader:
    """Reads one compound."""

    def __init__(self, text: str, position: int, *, is_quirky: bool) -> None:
        self._text = text
        self._is_quirky = is_quirky
        self._start = self.position = position
        self._name = self._id = ""
        self._classes: list[str] = []
        self._attributes: list[tuple[str, str, str]] = []
        self.weight = (0, 0, 0)
        self.is_sure = True
        self.is_never = False

    def compound(self, combinator: str) -> _Compound:
        """Read up to what is no part of it."""
        while found := _SIMPLE.match(self._text, self.position):
            if found["name"]:
                self._take_name(found["name"])
            elif found["attribute"]:
                self._attributes.append(
                    (found["attribute"].lower(), found["operator"] or "", found["quoted"] or found["word"] or "")
                )
                self._add(0, 1, 0)
            elif found["pseudo"]:
                self._take_pseudo(found["pseudo"].lower())
            self.position = found.end()
        if self.position == self._start:
            raise InvalidError
        return _Compound(self._name, self._id, frozenset(self._classes), tuple(self._attributes), combinator)

    def _take_name(self, name: str) -> None:
        if self._is_quirky:
            name = name.lower()
        if name[0] == ".":
            self._classes.append(name[1:])
            self._add(0, 1, 0)
        elif name[0] == "#":
            self.is_never = self.is_never or self._id not in ("", name[1:])
            self._id = name[1:]
            self._add(1, 0, 0)
        elif self.position == self._start:
            self._name = name.lower()
            self._add(0, 0, 1)
        else:
            raise InvalidError

    def _take_pseudo(self, name: str) -> None:
        if name.startswith(":") or name in _OLD_PSEUDO_ELEMENTS or name in _NEVER:
            self.is_never = True
        elif name == "root" and self._name in ("", "html"):
            self._name = "html"
        elif name in _MAYBE or name.startswith("-"):
            self.is_sure = False
        else:
            raise InvalidError
        self._add(0, 1, 0)

    def _add(self, ids: int, classes: int, types: int) -> None:
        self.weight = (self.weight[0] + ids, self.weight[1] + classes, self.weight[2] + types)


class Matcher:
    """Tells whether selectors mean elements, at a total cost known beforehand."""

    def __init__(self, max_steps: int) -> None:
        self._left = max_steps

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing more is to be looked at."""
        return self._left < 0

    def spend(self, steps: int) -> None:
        """Count what others did."""
        self._left -= steps

    def asks_for(self, selector: Selector, element: Element) -> bool:
        """Return whether a selector means an element if that lies in the right ones."""
        self._left -= 1
        return not selector.is_never and _is(selector.compounds[0], element)

    def lies_right(self, selector: Selector, around: Sequence[Element]) -> bool:
        """Return whether the elements around one that a selector asks for are those that it asks for."""
        return self._lie_around(selector.compounds, 1, around, len(around))

    def _lie_around(self, compounds: Sequence[_Compound], at: int, around: Sequence[Element], end: int) -> bool:
        """Return whether the elements before ``end`` are what the compounds from ``at`` on ask for."""
        if at == len(compounds):
            return True
        first = max(0, end - 1) if compounds[at - 1].combinator == ">" else 0
        for place in range(end - 1, first - 1, -1):
            if self._left < 0:
                return False
            self._left -= 1
            if _is(compounds[at], around[place]) and self._lie_around(compounds, at + 1, around, place):
                return True
        return False


def _is(compound: _Compound, element: Element) -> bool:
    if compound.name and compound.name != element.name:
        return False
    if (compound.id and compound.id != element.id) or not compound.classes <= element.classes:
        return False
    return not compound.attributes or all(_has(element.attributes, *one) for one in compound.attributes)


def _has(attributes: Mapping[str, str], name: str, operator: str, wanted: str) -> bool:
    value = attributes.get(name)
    if value is None or not operator:
        return value is not None
    if operator == "=":
        return value == wanted
    if operator == "~=":
        return wanted in value.split()
    if operator == "|=":
        return value == wanted or value.startswith(f"{wanted}-")
    found = {"^=": value.startswith, "$=": value.endswith, "*=": value.__contains__}[operator](wanted)
    return bool(wanted) and found
