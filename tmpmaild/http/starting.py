"""What is served while the storage is waited for: a balancer is told that this daemon is not ready, clients to wait."""

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


@asynccontextmanager
async def answering(sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Answer on sockets that are bound until the body ends; they stay open."""
    paths = public_paths(lambda: "the storage is waited for")
    routes = [Route(path, resource) for path, resource in paths.items()]
    unavailable = Mount("/", Problems("").response("storage-unavailable"))
    server = HttpServer(Starlette(routes=[*routes, unavailable]), max_connections=_MAX_CONNECTIONS)
    await server.start([listener.dup() for listener in sockets])
    try:
        yield
    finally:
        await server.stop(0)
