"""What a command of the operator takes and answers: for the control socket, and for those who do what it asks."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from msgspec import Struct


class NoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a command that takes none."""


class Octets(Struct, frozen=True):
    """Announces how many raw octets follow in the answer."""

    octets: int


Answer = AsyncGenerator[Struct | bytes, None]
"""The lines of an answer, and octets that a line has announced. It is closed early when the client has gone."""


class Command(NamedTuple):
    """What is done for one command: ``arguments`` are checked when they are read, then ``answer`` is called with them.

    ``CommandError``, ``StartError`` and ``RequestError`` of the answer are told to the client by their texts.
    """

    arguments: type[Struct]
    answer: Callable[[Any], Answer]
