"""Checking named values, so that every mistake in them is found at once; used for the configuration and for requests.

How a mistake is worded, and where it is said to be, is left to the caller.
"""

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from msgspec import UNSET, Struct, ValidationError

from tmpmaild.errors import InvalidRequest

P = ParamSpec("P")
T = TypeVar("T")


class Kind(Struct, frozen=True):
    """What one name takes.

    ``parse`` turns a value of type ``base`` (``object``: of any type) into the one to use, or raises ValueError or
    msgspec's ValidationError; ``expected`` says in words what it accepts. With ``many`` all of this is about each item
    of a list, which holds at least ``least`` items. A value that is ``secret`` is never shown.
    """

    expected: str
    base: type
    parse: Callable[[Any], Any]
    many: bool = False
    least: int = 0
    required: bool = False
    secret: bool = False


class NotShown:
    """Stands for a value that must not be shown."""

    def __repr__(self) -> str:
        return "another value (not shown: it may hold a password)"


class InvalidValue(Struct, frozen=True):
    """A value that is not as expected.

    ``found`` is UNSET if a required value is missing, ``NotShown`` if it is secret; ``expected`` is empty if no such
    name is known. ``index`` is that of the wrong item of a list.
    """

    name: str
    expected: str
    found: object
    index: int | None = None

    @property
    def place(self) -> str:
        """What is wrong, like ``domain`` or ``listen[0]``."""
        return self.name if self.index is None else f"{self.name}[{self.index}]"


class ValidationErrors:
    """Collects the errors that several checks find in one request, so that one response names them all."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []
        """As those of ``InvalidRequest``."""

    def collect(self, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the result of ``check``; if it raises ``InvalidRequest``, add its errors and return None."""
        try:
            return check(*args, **kwargs)
        except InvalidRequest as error:
            self.errors += error.errors
            return None

    def raise_if_any(self) -> None:
        """Raise ``InvalidRequest`` with all errors, if there are any."""
        if self.errors:
            raise InvalidRequest(*self.errors)


def check(given: Mapping[str, object], kinds: Mapping[str, Kind]) -> tuple[dict[str, Any], list[InvalidValue]]:
    """Return the right values, parsed, and all invalid ones: in the order of ``given``, then what is missing."""
    values: dict[str, Any] = {}
    invalid: list[InvalidValue] = []
    for name, value in given.items():
        parsed, wrong = _check(name, value, kinds[name]) if name in kinds else (None, [InvalidValue(name, "", value)])
        if not wrong:
            values[name] = parsed
        invalid += wrong
    for name, kind in kinds.items():
        if kind.required and name not in given:
            invalid.append(InvalidValue(name, kind.expected, UNSET))
    return values, invalid


def _check(name: str, value: object, kind: Kind) -> tuple[Any, list[InvalidValue]]:
    if not kind.many:
        return _check_one(name, value, kind)
    if not isinstance(value, list) or len(value) < kind.least:
        expected = "a list of at least one string" if kind.least else "a list of strings"
        return None, [InvalidValue(name, expected, value)]
    pairs = [_check_one(name, item, kind, index) for index, item in enumerate(value)]
    return tuple(parsed for parsed, _ in pairs), [one for _, wrong in pairs for one in wrong]


def _check_one(name: str, value: object, kind: Kind, index: int | None = None) -> tuple[Any, list[InvalidValue]]:
    try:
        if _has_type(value, kind.base):
            return kind.parse(value), []
    except (ValueError, ValidationError):
        pass
    return None, [InvalidValue(name, kind.expected, NotShown() if kind.secret else value, index)]


def _has_type(value: object, base: type) -> bool:
    # By type(): True is an int in Python, but not here.
    return base is object or type(value) is base or (base is float and type(value) is int)
