"""Validates named values in the configuration and in requests, and reports all invalid values together.

The caller formats the error messages and adds the location of each error.
"""

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from msgspec import UNSET, Struct, ValidationError

from tmpmaild.errors import InvalidRequest

P = ParamSpec("P")
T = TypeVar("T")


class Validator(Struct, frozen=True):
    """The values that are valid for one name.

    ``parse`` converts a value of type ``base`` (``object`` for any type), or raises ValueError or msgspec's
    ValidationError; ``expected`` describes the accepted values. If ``many`` is set, the value is a list of at least
    ``least`` items, and each item is validated. A ``secret`` value is never shown.
    """

    expected: str
    base: type
    parse: Callable[[Any], Any]
    many: bool = False
    least: int = 0
    required: bool = False
    secret: bool = False


class NotShown:
    """A placeholder for a value that must not be shown."""

    def __repr__(self) -> str:
        return "a different value (not shown: it may contain a password)"


class InvalidValue(Struct, frozen=True):
    """An invalid value.

    ``found`` is UNSET if a required value is missing, and ``NotShown`` if the value is secret. ``expected`` is empty if
    the name is unknown. ``index`` is the index of the invalid item in a list.
    """

    name: str
    expected: str
    found: object
    index: int | None = None

    @property
    def place(self) -> str:
        """The name of the invalid value or item, such as ``domain`` or ``listen[0]``."""
        return self.name if self.index is None else f"{self.name}[{self.index}]"


class ValidationErrors:
    """Collects the errors that several checks find in one request, to report them all in one response."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []
        """The errors, in the form of ``InvalidRequest``."""

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


def validate(
    given: Mapping[str, object], validators: Mapping[str, Validator]
) -> tuple[dict[str, Any], list[InvalidValue]]:
    """Return the valid values, parsed, and the invalid values in the order of ``given``, missing values last."""
    values: dict[str, Any] = {}
    invalid: list[InvalidValue] = []
    for name, value in given.items():
        parsed, wrong = (
            _validate(name, value, validators[name]) if name in validators else (None, [InvalidValue(name, "", value)])
        )
        if not wrong:
            values[name] = parsed
        invalid += wrong
    for name, validator in validators.items():
        if validator.required and name not in given:
            invalid.append(InvalidValue(name, validator.expected, UNSET))
    return values, invalid


def _validate(name: str, value: object, validator: Validator) -> tuple[Any, list[InvalidValue]]:
    if not validator.many:
        return _validate_one(name, value, validator)
    if not isinstance(value, list) or len(value) < validator.least:
        expected = "a list of at least one string" if validator.least else "a list of strings"
        return None, [InvalidValue(name, expected, value)]
    pairs = [_validate_one(name, item, validator, index) for index, item in enumerate(value)]
    return tuple(parsed for parsed, _ in pairs), [one for _, wrong in pairs for one in wrong]


def _validate_one(
    name: str, value: object, validator: Validator, index: int | None = None
) -> tuple[Any, list[InvalidValue]]:
    try:
        if _has_type(value, validator.base):
            return validator.parse(value), []
    except (ValueError, ValidationError):
        pass
    return None, [InvalidValue(name, validator.expected, NotShown() if validator.secret else value, index)]


def _has_type(value: object, base: type) -> bool:
    if isinstance(value, bool):  # bool is a subclass of int in Python, but is not accepted as an int here
        return base in (bool, object)
    return isinstance(value, float | int if base is float else base)
