"""The methods of a path, and what endpoints read of a request: client, token, body. No endpoint is here."""

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import anyio
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.errors import Unauthorized
from tmpmaild.http.problems import BadRequest

T = TypeVar("T")

is_number = re.compile(r"[0-9]{1,9}").fullmatch

MAX_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 10

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


class Resource:
    """The endpoints of one path, one for each method. HEAD is served as GET; OPTIONS and 405 list what is allowed.

    ``operations`` has the name under which requests of a method are counted.
    """

    def __init__(self, operations: Mapping[str, str] = MappingProxyType({}), **endpoints: Endpoint) -> None:
        self.operations = operations
        self._endpoints = {name.upper(): endpoint for name, endpoint in endpoints.items()}
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allow = ", ".join(sorted({*self._endpoints, "OPTIONS"}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        endpoint = self._endpoints.get(scope["method"])
        response: ASGIApp
        if endpoint is not None:
            response = await endpoint(Request(scope, receive))
        elif scope["method"] == "OPTIONS":
            response = Response(status_code=204, headers={"Allow": self._allow})
        else:
            raise HTTPException(405, headers={"Allow": self._allow})
        await response(scope, receive, send)


class Client(Struct, frozen=True):
    """The client of a request: the name that its limits are kept under, and whether it is exempt from them."""

    name: str
    exempt: bool
    ip: str = ""


def client(request: Request) -> Client:
    """Return the client of a request, which the middleware has found out."""
    found: Client = request.scope["tmpmaild.client"]
    return found


async def take_token(request: Request) -> bool:
    """Take one more token from the client's bucket than its request has cost; return whether there was one."""
    take: Callable[[], Awaitable[bool]] = request.scope["tmpmaild.take_token"]
    return await take()


def token(request: Request) -> str | None:
    """Return the bearer token (RFC 6750 §2.1), None without one."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" and text.strip() else None


def holder_token(request: Request) -> str:
    """Return the bearer token of a request that changes something. Raises ``Unauthorized``."""
    found = token(request)
    if found is None:
        raise Unauthorized("whatever changes something needs the token")
    return found


async def body(request: Request) -> bytes:
    """Read a body of at most 64 KiB, within ten seconds. Raises ``BadRequest``."""
    octets = bytearray()
    try:
        with anyio.fail_after(_BODY_SECONDS):
            async for chunk in request.stream():
                octets += chunk
                if len(octets) > MAX_BODY_BYTES:
                    raise BadRequest("body-too-large", "")
    except TimeoutError:
        raise BadRequest("request-timeout", "") from None
    except ClientDisconnect:
        raise BadRequest("malformed-request", "The body ended early.") from None
    return bytes(octets)


async def unless_gone(receive: Receive, ask: Callable[[], Awaitable[T]]) -> T | None:
    """Return what ``ask`` returns, but None as soon as the client disconnects, of which ASGI only sends an event."""
    outcome: list[T] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
        try:
            outcome.append(await ask())
        except Exception as error:  # noqa: BLE001 - a task group would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return outcome[0] if outcome else None


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # a body, which is not needed
    scope.cancel()
