"""Accepts, counts and closes HTTP connections; ``connection.py`` serves each of them.

The accept loop is ours because Hypercorn's does not limit the number of connections, and since Python 3.12.1 waits
without limit for open connections when it stops.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import anyio
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.typing import LifespanState
from starlette.types import ASGIApp

from tmpmaild.http.connection import HttpConnection
from tmpmaild.measures import Gauge

_SEND_BUFFER_BYTES = 256 * 1024
# What the kernel, and then the reader, may hold of what a client has sent. uvloop reads a full socket up to 32 times in
# a row before it looks at the next one.
_RECEIVE_BUFFER_BYTES = 64 * 1024
_READ_AHEAD_BYTES = 16 * 1024
_USER_TIMEOUT_MS = 30_000
_IDLE_SECONDS = 15
_CUT_SECONDS = 1
# uvloop accepts one connection per iteration from each listener; with one, a client would wait long behind a crowd.
_LISTENERS_PER_SOCKET = 8

log = logging.getLogger(__name__)


class HttpServer:
    """All HTTP connections of the process. ``max_connections``, which may be changed, is 0 for no limit."""

    def __init__(self, app: ASGIApp, *, max_connections: int) -> None:
        self._app: Any = app
        self.max_connections = max_connections
        self._config = _hypercorn_config()
        self._context = WorkerContext(max_requests=None)
        self._connections: dict[asyncio.Task[None], HttpConnection] = {}
        self._listeners: list[asyncio.Server] = []

    def measures(self) -> tuple[Gauge]:
        """Return what is counted of connections."""
        return (Gauge("http_connections", "Open HTTP connections.", lambda: len(self._connections)),)

    @property
    def listening(self) -> bool:
        """Whether it accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on sockets that are bound already."""
        for listener in sockets:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
            _limit_unread_data(listener)
            for sock in (listener, *(listener.dup() for _ in range(_LISTENERS_PER_SOCKET - 1))):
                server = await asyncio.start_server(self._serve, sock=sock, backlog=1024, limit=_READ_AHEAD_BYTES)
                self._listeners.append(server)

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, close idle connections, and give running requests the grace time to end."""
        for listener in self._listeners:
            listener.close()
        await self._context.terminated.set()
        for connection in self._connections.values():
            connection.stop()
        await self._wait_for_connections(grace_seconds)
        for task, connection in self._connections.items():
            _abort(connection.writer)
            task.cancel()
        await self._wait_for_connections(_CUT_SECONDS)

    async def _wait_for_connections(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._connections:
                await anyio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if 0 < self.max_connections <= len(self._connections):
            log.info("HTTP connection refused: http.max_connections is reached")
            writer.transport.abort()
            return
        loop = asyncio.get_running_loop()
        connection = HttpConnection(self._app, loop, self._config, self._context, LifespanState({}), reader, writer)
        self._connections[task] = connection
        try:
            await connection
        except asyncio.CancelledError:
            pass  # cut by stop(); Python 3.11.7 would report a cancelled task here as an error
        except Exception:
            log.exception("an HTTP connection failed")
        finally:
            del self._connections[task]
            _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    # A transport that closed after sending a full buffer has forgotten its loop, and still does not count as closed.
    with suppress(AttributeError):
        writer.transport.abort()


def _hypercorn_config() -> Config:
    config = Config()
    config.include_server_header = False
    config.keep_alive_timeout = _IDLE_SECONDS
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    return config


def _limit_unread_data(listener: socket.socket) -> None:
    """Bound the memory and time that a client takes which does not read; accepted sockets inherit both."""
    if listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
