"""What the core asks of a driver, and what it is given back; sockets, clocks and colours are the driver's business.

The core is made of generators (``Steps``): each yields commands, is sent what they result in, and returns its value.
A driver that cannot get an answer throws ``ServiceUnreachable`` or ``ConnectionLost`` in.
"""

from collections.abc import Generator, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")

READ_SECONDS = 30
"""How long an answer that has no reason to wait may keep silent."""


class Request(Struct, frozen=True):
    """One request: ``service_url`` is where the service lives, ``path`` what stands behind it."""

    service_url: str
    method: str
    path: str
    token: str | None = None
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    read_seconds: float = READ_SECONDS

    def __repr__(self) -> str:  # a failed test may show it, and shall not show the token
        return f"Request({self.method} {self.service_url}{self.path})"


class Reply(Struct, frozen=True):
    """What came back; the names of ``headers`` are in lower case, ``body`` is decoded."""

    request: Request
    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:  # the body may be the answer to create, token and all
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
    """Let time pass."""

    seconds: float


Command = Ask | OpenStream | ReadStream | Sleep
Steps: TypeAlias = Generator[Command, Any, T]
