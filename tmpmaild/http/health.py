"""Health checks and metrics for supervisors, load balancers and Prometheus, even before the service is ready."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from tmpmaild.http.problems import Problems
from tmpmaild.http.routing import Resource
from tmpmaild.http.server import HttpServer

Ready = Callable[[], str]
"""Returns the reason why the service is not ready, or "", without any I/O."""
_MAX_CONNECTIONS: Final = 100
_PATIENCE_SECONDS: Final = 1.0
"""A normal restart takes less time, and clients that connect during it wait until the daemon itself serves them."""


async def healthz(_request: Request) -> Response:
    """Return 200, because the process serves requests."""
    return _text(200, "ok")


def readyz(ready: Ready, *, shows_reason: bool) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that reports whether the service accepts mail and requests.

    If it does not, the reason is shown only to the operator.
    """

    async def respond(_request: Request) -> Response:
        reason = ready()
        return _text(503, reason if shows_reason else "not ready") if reason else _text(200, "ok")

    return respond


def public_paths(ready: Ready) -> dict[str, Resource]:
    """Return the health check endpoints of the public port."""
    return {"/healthz": Resource(get=healthz), "/readyz": Resource(get=readyz(ready, shows_reason=False))}


def operator_app(ready: Ready, page: Callable[[str], tuple[bytes, str]]) -> ASGIApp:
    """Return the application of ``metrics.listen``.

    ``page`` takes the ``Accept`` field of a request and returns the metrics and their media type.
    """

    async def metrics(request: Request) -> Response:
        body, media_type = page(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media_type})

    paths = {
        "/healthz": Resource(get=healthz),
        "/readyz": Resource(get=readyz(ready, shows_reason=True)),
        "/metrics": Resource(get=metrics),
    }
    return Starlette(routes=[Route(path, resource) for path, resource in paths.items()])


def _text(status: int, line: str) -> Response:
    return Response(f"{line}\n", status, {"Cache-Control": "no-store"}, media_type="text/plain")


@asynccontextmanager
async def serving_health(sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Serve health checks on bound sockets if the ``with`` block takes more than a second. The sockets stay open."""
    paths = public_paths(lambda: "waiting for the storage")
    routes = [Route(path, resource) for path, resource in paths.items()]
    unavailable = Mount("/", Problems("").response("storage-unavailable"))
    server = HttpServer(Starlette(routes=[*routes, unavailable]), max_connections=_MAX_CONNECTIONS)
    opened = asyncio.Event()
    starting = asyncio.create_task(_start_unless(opened, server, sockets))
    try:
        yield
    finally:
        opened.set()
        await starting
        await server.stop(0)


async def _start_unless(opened: asyncio.Event, server: HttpServer, sockets: Sequence[socket.socket]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await opened.wait()
    except TimeoutError:
        await server.start([listener.dup() for listener in sockets])
