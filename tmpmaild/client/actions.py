"""The actions that the core asks a driver for, and their results; the driver owns sockets, clocks and event loops.

The core is made of generators (``Steps``): each yields actions, is sent their results, and returns its value. A driver
that gets no answer throws ``ServiceUnreachable`` or ``ConnectionLost`` into the generator.
"""

from collections.abc import Generator, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")

READ_SECONDS = 30
"""Read timeout of a request that does not ask the service to wait."""


class Request(Struct, frozen=True):
    """One request: ``service_url`` is the URL of the service, ``path`` what follows it."""

    service_url: str
    method: str
    path: str
    token: str | None = None
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    read_seconds: float = READ_SECONDS

    def __repr__(self) -> str:  # a failed test may print it, which must not reveal the token
        return f"Request({self.method} {self.service_url}{self.path})"


class Reply(Struct, frozen=True):
    """The answer to a request; the names of ``headers`` are in lower case, ``body`` is decoded."""

    request: Request
    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:  # the body of the answer to create holds the token
        return f"Reply({self.status} to {self.request})"


class Ask(Struct, frozen=True):
    """Send a request; results in a ``Reply``."""

    request: Request


class OpenStream(Struct, frozen=True):
    """Send a request, in place of the stream that is open; results in a ``Reply``, without its body if it is a 200."""

    request: Request


class ReadStream(Struct, frozen=True):
    """Read from the stream that ``request`` opened; results in octets, none at its end."""

    request: Request


class Sleep(Struct, frozen=True):
    """Wait."""

    seconds: float


Action = Ask | OpenStream | ReadStream | Sleep
Steps: TypeAlias = Generator[Action, Any, T]
