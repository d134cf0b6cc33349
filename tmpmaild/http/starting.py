"""What is served while the storage is waited for: a balancer is told that this daemon is not ready, clients to wait."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from tmpmaild.http.health import public_paths
from tmpmaild.http.problems import Problems
from tmpmaild.http.server import HttpServer

_MAX_CONNECTIONS: Final = 100
_PATIENCE_SECONDS: Final = 1.0
"""A restart takes less: who connects in the meantime is left to wait, and served by the daemon itself."""


@asynccontextmanager
async def answering(sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Answer on sockets that are bound, if the body takes long, until it ends; they stay open."""
    paths = public_paths(lambda: "the storage is waited for")
    routes = [Route(path, resource) for path, resource in paths.items()]
    unavailable = Mount("/", Problems("").response("storage-unavailable"))
    server = HttpServer(Starlette(routes=[*routes, unavailable]), max_connections=_MAX_CONNECTIONS)
    opened = asyncio.Event()
    answering = asyncio.create_task(_start_unless(opened, server, sockets))
    try:
        yield
    finally:
        opened.set()
        await answering
        await server.stop(0)


async def _start_unless(opened: asyncio.Event, server: HttpServer, sockets: Sequence[socket.socket]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await opened.wait()
    except TimeoutError:
        await server.start([listener.dup() for listener in sockets])
