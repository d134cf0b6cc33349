"""The HTTP server: accepts connections and limits the number of open connections; ``connection.py`` serves them.

Hypercorn's accept loop is not used, because it does not limit the number of connections. Since Python 3.12.1, it also
waits indefinitely for open connections when it stops.
"""

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import cast

import anyio
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, LifespanState
from starlette.types import ASGIApp

from tmpmaild.clients import Networks, belongs, client_name, client_network
from tmpmaild.http.connection import READ_BYTES, HttpConnection, abort
from tmpmaild.http.http1 import Settings
from tmpmaild.listening import BACKLOG, listeners
from tmpmaild.metrics import Gauge

IDLE_SECONDS = 15
PROXY_IDLE_SECONDS = 620  # proxies keep connections idle for at most 600 s (Google 600 s, Caddy 120 s, nginx 60 s)
REFUSED_AT_ONCE = 16  # process.limit_connections reserves descriptors for these connections
REFUSAL_SECONDS = 1
"""Limits that tests reduce."""
_SEND_BUFFER_BYTES = 256 * 1024
_READ_AHEAD_BYTES = 16 * 1024  # the amount of received data that is buffered for each connection
_USER_TIMEOUT_MS = 30_000
_CUT_SECONDS = 1
_MIN_CLIENTS = 32  # the minimum number of clients that can use up all connections
_MIN_NETWORKS = 8  # the minimum number of networks that can use up all connections
_FEW_CONNECTIONS = 128  # up to this maximum, a client may use half of the connections, and a network three quarters
_BUSY_BODY = (
    b'{"type":"about:blank","title":"Busy","status":503,'
    b'"detail":"Too many HTTP connections are open; try again.","code":"busy"}'
)
_BUSY = (
    b"HTTP/1.1 503 \r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nRetry-After: 5\r\n"
    b"Cache-Control: no-store\r\nConnection: close\r\n\r\n%b" % (len(_BUSY_BODY), _BUSY_BODY)
)

log = logging.getLogger(__name__)


class HttpServer:
    """All HTTP connections of the process. ``max_connections`` may be changed; 0 means no limit.

    Each client and its network may use only a share of the connections, except clients in the ``unshared`` networks,
    which are proxies. These networks may also be changed. Idle connections from proxies stay open longer here than in
    the proxy, because a request that arrives while the server closes its connection is lost. A proxy does not resend a
    POST.
    """

    def __init__(self, app: ASGIApp, *, max_connections: int, unshared: Networks | None = None) -> None:
        self._app = cast("AppWrapper", app)  # ``http1.Requests`` calls this as an ASGI application
        self.max_connections = max_connections
        self.unshared = unshared
        self._sharing: defaultdict[str, dict[HttpConnection, str]] = defaultdict(dict)  # keyed by client and by network
        self._settings = Settings(IDLE_SECONDS)
        self._proxy_settings = Settings(PROXY_IDLE_SECONDS)
        self._context = WorkerContext(max_requests=None)
        self._connections: dict[asyncio.Task[None], HttpConnection] = {}
        self._listeners: list[asyncio.Server] = []
        self._refusing = 0

    def metrics(self) -> tuple[Gauge]:
        """Return the metrics of the connections."""
        return (Gauge("http_connections", "Open HTTP connections.", lambda: len(self._connections)),)

    @property
    def connections(self) -> Collection[HttpConnection]:
        """The open connections, except those that were refused."""
        return self._connections.values()

    @property
    def listening(self) -> bool:
        """Whether the server accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on bound sockets."""
        for bound in sockets:
            _limit_unread_data(bound)
            for listener in listeners(bound):
                server = await asyncio.start_server(
                    self._serve, sock=listener, backlog=BACKLOG, limit=_READ_AHEAD_BYTES
                )
                self._listeners.append(server)

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, close idle connections, and give requests in progress ``grace_seconds`` to finish."""
        for listener in self._listeners:
            listener.close()
        await self._context.terminated.set()
        for connection in self._connections.values():
            connection.stop()
        await self._wait_for_connections(grace_seconds)
        for task, connection in self._connections.items():
            abort(connection.writer)
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
            extra = {"event": "http_connection_refused", "limit": "http.max_connections"}
            log.info("HTTP connection refused: http.max_connections is reached", extra=extra)
            await self._refuse(reader, writer)
            return
        client = self._client(writer)
        if client and (full := self._without_room(client)):
            extra = {"event": "http_connection_refused", "client": full, "limit": "http.max_connections"}
            log.info("HTTP connection from %s refused: its share of http.max_connections is used up", full, extra=extra)
            await self._refuse(reader, writer)
            return
        loop = asyncio.get_running_loop()
        settings = self._settings if client or self.unshared is None else self._proxy_settings
        connection = HttpConnection(self._app, loop, settings, self._context, LifespanState({}), reader, writer)
        self._connections[task] = connection
        for holder in _holders(client):
            self._sharing[holder][connection] = client
        try:
            await connection
        except asyncio.CancelledError:
            pass  # interrupted by stop(); Python 3.11.7 would report a cancelled task here as an error
        except Exception:
            log.exception("an HTTP connection failed")
        finally:
            del self._connections[task]
            self._forget(client, connection)
            abort(writer)

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a 503 to a request that arrives within a short time, then close the connection.

        If there are too many such connections, they are reset. The 503 signals that the proxy or client can retry.
        Further data is read briefly, because closing the connection with unread data would reset it, and the response
        might be lost.
        """
        if self._refusing < REFUSED_AT_ONCE:
            self._refusing += 1
            with suppress(OSError, asyncio.CancelledError):  # TimeoutError too
                async with asyncio.timeout(REFUSAL_SECONDS):
                    if await reader.read(READ_BYTES):
                        writer.write(_BUSY)
                        writer.write_eof()
                        while await reader.read(READ_BYTES):
                            pass
            self._refusing -= 1
        abort(writer)

    def _client(self, writer: asyncio.StreamWriter) -> str:
        """Return the client whose share a connection counts towards, or ""."""
        peer = writer.get_extra_info("peername")
        if self.unshared is None or not isinstance(peer, tuple) or belongs(peer[0], self.unshared):
            return ""
        return client_name(peer[0])

    def _without_room(self, client: str) -> str:
        """Return the client or its network if the share of either is used up, or "".

        To make room, the connection of the client or network that has been idle longest is closed first.
        """
        for holder, most in zip(_holders(client), shares(self.max_connections), strict=False):
            if 0 < most <= len(self._sharing.get(holder, ())) and not self._close_longest_idle(holder):
                return holder
        return ""

    def _close_longest_idle(self, holder: str) -> bool:
        connections = self._sharing[holder]
        idle = [(one.idle_since, index, one) for index, one in enumerate(connections) if one.idle_since is not None]
        longest = next((one for *_, one in sorted(idle) if not one.has_unsent()), None)
        if longest is None:
            return False
        self._forget(connections[longest], longest)
        longest.close_idle()
        return True

    def _forget(self, client: str, connection: "HttpConnection") -> None:
        for holder in _holders(client):
            if holder in self._sharing:
                self._sharing[holder].pop(connection, None)
                if not self._sharing[holder]:
                    del self._sharing[holder]


def _holders(client: str) -> list[str]:
    """Return the keys of the shares that a connection counts towards: its client and the client's network."""
    return [holder for holder in (client, client_network(client)) if holder]


def shares(max_connections: int) -> tuple[int, int]:
    """Return the maximum number of connections for one client and for one network; 0 means no limit.

    Many people behind one address reach this limit only if none of their connections is idle. They already share 20
    streams and the rate limits.
    """
    few = min(max_connections, _FEW_CONNECTIONS)
    of_client = max(max_connections // _MIN_CLIENTS, (few + 1) // 2)
    return of_client, max(max_connections // _MIN_NETWORKS, (3 * few + 3) // 4, of_client)


def _limit_unread_data(listener: socket.socket) -> None:
    """Limit the memory and time that a client can use if it does not read; accepted sockets inherit both limits."""
    if listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
