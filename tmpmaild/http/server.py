"""HTTP connections: they are accepted and counted here, and each is served by Hypercorn's HTTP/1 within time limits.

The accept loop is ours because Hypercorn's does not limit the number of connections, and since Python 3.12.1 waits
without limit for open connections when it stops.
"""

import asyncio
import fcntl
import logging
import re
import socket
import struct
import termios
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any
from wsgiref.handlers import format_date_time

import anyio
import h11
from h11._headers import Headers
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import EventWrapper, WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Request, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import ConnectionState, LifespanState
from hypercorn.utils import parse_socket_addr
from starlette.types import ASGIApp

from tmpmaild.boundedh11 import BoundedConnection
from tmpmaild.clients import Networks, belongs, client_name
from tmpmaild.listening import BACKLOG, listeners
from tmpmaild.metrics import Gauge

_SEND_BUFFER_BYTES = 256 * 1024
_READ_AHEAD_BYTES = 16 * 1024  # what the reader may hold of what a client has sent
_USER_TIMEOUT_MS = 30_000
_IDLE_SECONDS = 15
_PROXY_IDLE_SECONDS = 620  # proxies keep idle connections for at most 600 (Google's; Caddy 120, nginx 60)
_CUT_SECONDS = 1

_READ_BYTES = 16 * 1024  # at once: as much is held until it is answered, or a refusal has been read
_UNSENT_BYTES = 64 * 1024
_CLIENTS = 32  # share all connections at the least
_LEAST_SHARE = 128  # half of it is the share of one where there are few
_SEND_SECONDS = 30
_LINGER_SECONDS = 2
_READ_SECONDS = 300  # for the rest of a response that the kernel holds; it gives up itself after 30 without progress
_LOOK_SECONDS = 1
_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger of socket(7)
_EARLY_BYTES = 64 * 1024
_REST_BYTES = 64 * 1024
_QUEUED_EVENTS = 2  # parts of a body that no application has read yet: no fewer, see ``_Requests``
_FIRST_REQUEST_SECONDS = 0.5
_REFUSED_AT_ONCE = 16  # process.within_descriptors keeps some for them
_REFUSAL_SECONDS = 1
_BUSY_BODY = (
    b'{"type":"about:blank","title":"Busy","status":503,'
    b'"detail":"Too many HTTP connections are open; try again.","code":"busy"}'
)
_BUSY = (
    b"HTTP/1.1 503 \r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nRetry-After: 5\r\n"
    b"Cache-Control: no-store\r\nConnection: close\r\n\r\n%b" % (len(_BUSY_BODY), _BUSY_BODY)
)
_absolute = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL).fullmatch

_Address = tuple[str, int] | None

log = logging.getLogger(__name__)


class HttpServer:
    """All HTTP connections of the process. ``max_connections``, which may be changed, is 0 for no limit.

    With ``unshared``, which may be changed too, a client has only a share of them, unless it is in these networks.
    These are the proxies' networks, whose idle connections stay open for longer than a proxy keeps them: a request that
    arrives while the server closes is lost, and a proxy does not send a POST again.
    """

    def __init__(self, app: ASGIApp, *, max_connections: int, unshared: Networks | None = None) -> None:
        self._app: Any = app
        self.max_connections = max_connections
        self.unshared = unshared
        self._of_client: defaultdict[str, set[HttpConnection]] = defaultdict(set)
        self._config = _hypercorn_config(_IDLE_SECONDS)
        self._proxy_config = _hypercorn_config(_PROXY_IDLE_SECONDS)
        self._context = WorkerContext(max_requests=None)
        self._connections: dict[asyncio.Task[None], HttpConnection] = {}
        self._listeners: list[asyncio.Server] = []
        self._refusing = 0

    def metrics(self) -> tuple[Gauge]:
        """Return what is counted of connections."""
        return (Gauge("http_connections", "Open HTTP connections.", lambda: len(self._connections)),)

    @property
    def listening(self) -> bool:
        """Whether it accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on sockets that are bound already."""
        for bound in sockets:
            _limit_unread_data(bound)
            for listener in listeners(bound):
                server = await asyncio.start_server(
                    self._serve, sock=listener, backlog=BACKLOG, limit=_READ_AHEAD_BYTES
                )
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
            extra = {"event": "http_connection_refused", "limit": "http.max_connections"}
            log.info("HTTP connection refused: http.max_connections is reached", extra=extra)
            await self._refuse(reader, writer)
            return
        client = self._sharing(writer)
        if client and not self._has_share(client):
            extra = {"event": "http_connection_refused", "client": client, "limit": "http.max_connections"}
            log.info("HTTP connection from %s refused: it has its share of http.max_connections", client, extra=extra)
            await self._refuse(reader, writer)
            return
        loop = asyncio.get_running_loop()
        config = self._config if client or self.unshared is None else self._proxy_config
        connection = HttpConnection(self._app, loop, config, self._context, LifespanState({}), reader, writer)
        self._connections[task] = connection
        if client:
            self._of_client[client].add(connection)
        try:
            await connection
        except asyncio.CancelledError:
            pass  # cut by stop(); Python 3.11.7 would report a cancelled task here as an error
        except Exception:
            log.exception("an HTTP connection failed")
        finally:
            del self._connections[task]
            self._forget(client, connection)
            _abort(writer)

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer 503 to a request, if there is one soon, and close; beyond a few such connections at once, reset them.

        A proxy or a client then knows that it can try again. What it sends is read to the end for a moment: closing
        over unread octets would reset the connection, and the response might be lost.
        """
        if self._refusing < _REFUSED_AT_ONCE:
            self._refusing += 1
            with suppress(OSError, asyncio.CancelledError):  # TimeoutError too
                async with asyncio.timeout(_REFUSAL_SECONDS):
                    if await reader.read(_READ_BYTES):
                        writer.write(_BUSY)
                        writer.write_eof()
                        while await reader.read(_READ_BYTES):
                            pass
            self._refusing -= 1
        _abort(writer)

    def _sharing(self, writer: asyncio.StreamWriter) -> str:
        """Return the client that a connection counts for; "" if it counts for none."""
        peer = writer.get_extra_info("peername")
        if self.unshared is None or not isinstance(peer, tuple) or belongs(peer[0], self.unshared):
            return ""
        return client_name(peer[0])

    def _has_share(self, client: str) -> bool:
        """Return whether a client may have one more connection; to make room, its longest idle one is closed."""
        held = self._of_client.get(client, set())
        if not 0 < _share_of(self.max_connections) <= len(held):
            return True
        idle = [(one.idle_since, index, one) for index, one in enumerate(held) if one.idle_since is not None]
        longest = next((one for *_, one in sorted(idle) if not one.has_unsent()), None)
        if longest is None:
            return False
        self._forget(client, longest)
        longest.give_way()
        return True

    def _forget(self, client: str, connection: "HttpConnection") -> None:
        if client in self._of_client:
            self._of_client[client].discard(connection)
            if not self._of_client[client]:
                del self._of_client[client]


def _share_of(connections: int) -> int:
    """Return how many connections of so many one client may have; 0 for no limit.

    An address of many people reaches it only if nothing of it is idle: they share 20 streams and its rate limits.
    """
    return max(connections // _CLIENTS, (min(connections, _LEAST_SHARE) + 1) // 2)


def _abort(writer: asyncio.StreamWriter) -> None:
    # A transport that closed after sending a full buffer has forgotten its loop, and still does not count as closed.
    with suppress(AttributeError):
        writer.transport.abort()


class _Config(Config):
    """Hypercorn's settings; the Date field, the only one that it adds to answers, is made once a second."""

    def response_headers(self, _protocol: str) -> list[tuple[bytes, bytes]]:
        """Return it."""
        return [(b"date", _date(int(time.time())))]


@lru_cache(maxsize=1)
def _date(unix_seconds: int) -> bytes:
    return format_date_time(unix_seconds).encode()


def _hypercorn_config(idle_seconds: float) -> Config:
    config = _Config()
    config.keep_alive_timeout = idle_seconds
    config.max_app_queue_size = _QUEUED_EVENTS
    config.errorlog = logging.getLogger("hypercorn.error")
    return config


def _limit_unread_data(listener: socket.socket) -> None:
    """Bound the memory and time that a client takes which does not read; accepted sockets inherit both."""
    if listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)


class HttpConnection(TCPServer):
    """Hypercorn's connection with these differences.

    It speaks HTTP/1 only. When the client disconnects, the connection is freed at once; a client that does not read
    its answer is disconnected. An application need not read a body, and a client that still sends one can read its
    answer.

    A client that only closes its sending side looks the same as one that disconnects: Hypercorn sends the application a
    disconnect event, which only waits and streams listen to, and still writes what the application answers.
    """

    _discarding = _is_leaving = False
    _idle_since: float | None = None  # None: a request is being answered, or the connection is being closed
    _timer: asyncio.TimerHandle  # for all requests: Hypercorn starts and cancels a task for each, a tenth of its time

    async def run(self) -> None:
        """Serve the client until either side closes the connection."""
        self._task = asyncio.current_task()
        self._received_all = asyncio.Event()
        try:
            ends = self.writer.get_extra_info("socket")
            client = parse_socket_addr(ends.family, ends.getpeername())
            server = parse_socket_addr(ends.family, ends.getsockname())
            async with _Requests(self.loop) as self._task_group:
                self.protocol = self._http1(client, server)  # type: ignore[assignment]
                self._made_at = self._idle_since = self.loop.time()
                self._close_if_idle()
                try:
                    await self._read_data()
                finally:
                    self._idle_since = None
                    self._timer.cancel()
        except OSError:
            pass  # the client disconnected before its address was read
        finally:
            await self._close()

    def _http1(self, client: _Address, server: _Address) -> "_Protocol":
        protocol = _Protocol(
            self.app,
            self.config,
            self.context,
            self._task_group,
            ConnectionState(self.state),
            False,  # noqa: FBT003 - TLS is left to a proxy
            client,
            server,
            self.protocol_send,
        )
        protocol.connection = _Http1(h11.SERVER)
        protocol.can_read = _MayGoOn(partial(self._read_on, protocol))
        return protocol

    def _close_if_idle(self) -> None:
        """Close the connection if no request has come for too long, else look again later.

        At a stop one that was just made is given a moment: its request is on the way, or has arrived and was not read
        yet, and closing would reset the connection. After a request Hypercorn closes then.
        """
        now = self.loop.time()
        if self._idle_since is None:
            ends_at = now + self.config.keep_alive_timeout
        elif self.context.terminated.is_set():
            ends_at = self._made_at + _FIRST_REQUEST_SECONDS
        else:
            ends_at = self._idle_since + self.config.keep_alive_timeout
        if now < ends_at:
            self._timer = self.loop.call_later(ends_at - now, self._close_if_idle)
        elif self._is_being_read() and now < ends_at + _READ_SECONDS:
            self._timer = self.loop.call_later(_LOOK_SECONDS, self._close_if_idle)
        else:
            self.give_way()

    @property
    def idle_since(self) -> float | None:
        """Since when, by the loop's time, the client has sent no request; None while one is answered."""
        return self._idle_since

    def give_way(self) -> None:
        """Close the connection, which is idle."""
        self._timer.cancel()
        self._idle_since = None
        self._task_group.spawn(self._initiate_server_close)

    def stop(self) -> None:
        """Close the connection if it is idle, once ``terminated`` is set."""
        if self._idle_since is not None:
            self._timer.cancel()
            self._close_if_idle()

    async def _read_data(self) -> None:
        try:
            while data := await self._receive():
                if not self._discarding:
                    await self.protocol.handle(RawData(data))
                del data  # thousands of clients may wait here with most of a header
        except _ClientGoneError:
            pass
        finally:
            self._received_all.set()
        await self.protocol.handle(Closed())

    async def _read_on(self, protocol: H11Protocol, may_go_on: asyncio.Event) -> None:
        """Wait until a request may be handled that came before the answer to the last one was complete (pipelining).

        What arrives in the meantime is kept: only by reading on is a disconnect noticed.
        """
        waiting = asyncio.ensure_future(may_go_on.wait())
        early = b""
        try:
            while not may_go_on.is_set():
                reading = asyncio.ensure_future(self._receive())
                await asyncio.wait({waiting, reading}, return_when=asyncio.FIRST_COMPLETED)
                data = await _result(reading)
                if data == b"" or len(early) > _EARLY_BYTES:
                    raise _ClientGoneError
                early += data or b""
        finally:
            waiting.cancel()
        if early:
            protocol.connection.receive_data(early)

    async def _receive(self) -> bytes:
        try:
            return await self.reader.read(_READ_BYTES)
        except OSError:
            return b""

    async def protocol_send(self, event: Event) -> None:
        """Handle an event of the protocol: send data, close, or note that the connection is idle or not."""
        if type(event) is RawData:  # isinstance() takes longer with an ABC
            await self._send(event.data)
        elif type(event) is Updated and not (event.idle and self._received_all.is_set()):
            self._idle_since = self.loop.time() if event.idle else None
        else:
            await self._close()

    async def _send(self, data: bytes) -> None:
        if self.writer.is_closing() or not data:  # asyncio warns of writing to a closed connection
            return
        self.writer.write(data)
        if self.writer.transport.get_write_buffer_size() <= _UNSENT_BYTES:
            return
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self.writer.drain()
        except OSError:  # TimeoutError too
            self._cut()

    def _cut(self) -> None:
        self._reset()
        if self._task is not None and not self._is_own_task():
            self._task.cancel()

    def _is_own_task(self) -> bool:
        return asyncio.current_task() is self._task

    async def _initiate_server_close(self) -> None:
        await self.protocol.handle(Closed())
        await self._close()

    async def _close(self) -> None:
        """Send what is in the buffer, then close; a response that was broken off ends here, buffers included.

        A client that reads slowly keeps its connection until it has read most: what the kernel has of a closed one
        counts for nobody.
        """
        if self._is_broken_off():
            self._reset()
        if self._is_being_read() and await self._is_left_open():
            return
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._linger()
                self.writer.close()
                await self.writer.wait_closed()
        except OSError:  # TimeoutError too
            self._cut()

    async def _linger(self) -> None:
        # RFC 9112 §9.6: closing over unread octets resets the connection, and the answer may be lost.
        if self._discarding or self._received_all.is_set() or not self._may_be_sending() or self.writer.is_closing():
            return
        self._discarding = True
        with suppress(OSError):  # TimeoutError too
            self.writer.write_eof()
            async with asyncio.timeout(_LINGER_SECONDS):
                if self._is_own_task():
                    while await self._receive():
                        pass
                else:
                    await self._received_all.wait()

    async def _is_left_open(self) -> bool:
        """Say that nothing more comes, and wait for the client to read; return whether the timer does that."""
        was_leaving, self._is_leaving, self._discarding = self._is_leaving, True, True
        if not was_leaving:
            self.writer.write_eof()
        if not self._is_own_task() and self._received_all.is_set():
            return True  # ``run`` ends soon, and closes
        if not self._is_own_task() and not was_leaving:
            self._idle_since = self.loop.time() - self.config.keep_alive_timeout
            self._close_if_idle()
            return True
        ends_at = self.loop.time() + (_READ_SECONDS if self._is_own_task() else 0)
        while self._is_being_read() and self.loop.time() < ends_at:
            await asyncio.sleep(_LOOK_SECONDS)
        if self._is_being_read():
            self._reset()
        return False

    def has_unsent(self, more_than: int = 0) -> bool:
        """Return whether more than so many octets are here, or in the kernel until the client acknowledges them."""
        if self.writer.is_closing():
            return False
        if self.writer.transport.get_write_buffer_size() > more_than:
            return True
        raw = self.writer.get_extra_info("socket")
        try:
            (unsent_bytes,) = struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)))  # tcp(7)
        except OSError:
            return False
        return bool(unsent_bytes > more_than)

    def _is_being_read(self) -> bool:
        return self.has_unsent(_UNSENT_BYTES)

    def _is_broken_off(self) -> bool:
        protocol = getattr(self, "protocol", None)
        return protocol is not None and protocol.connection.our_state is h11.SEND_BODY

    def _reset(self) -> None:
        """Close with a RST, which makes the kernel drop what it has not sent: it may show mail that has expired."""
        if not self.writer.is_closing():
            raw = self.writer.get_extra_info("socket")
            with suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        _abort(self.writer)

    def _may_be_sending(self) -> bool:
        """Whether the client is in the middle of a body, or of something that was refused."""
        protocol = getattr(self, "protocol", None)
        return protocol is not None and protocol.connection.their_state in {h11.SEND_BODY, h11.ERROR}


class _Protocol(H11Protocol):
    """Hypercorn's HTTP/1 alone: an offer to switch to WebSockets or HTTP/2 is ignored, as RFC 9110 §7.8 allows.

    Events are told apart by their types: ``isinstance`` takes a tenth of a request for them, which are ABCs.
    """

    async def _check_protocol(self, event: h11.Request) -> None:
        pass

    async def _create_stream(self, request: h11.Request) -> None:
        self.stream = _Stream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        self.stream.after_rest = self._maybe_recycle
        fields = [(name.lower(), value) for name, value in request.headers.raw_items()]
        self._is_body_small = int(dict(fields).get(b"content-length", _REST_BYTES + 1)) <= _REST_BYTES
        target, fields = _origin_form(request.target, fields)
        event = Request(
            stream_id=STREAM_ID,
            headers=fields,
            http_version=request.http_version.decode(),
            method=request.method.decode(),
            raw_path=target,
            state=self.connection_state,
        )
        await self.stream.handle(event)
        self.keep_alive_requests += 1

    async def stream_send(self, event: StreamEvent) -> None:
        """Send a part of an answer."""
        if type(event) is Response:
            fields = [*event.headers, *self.config.response_headers("h11")]
            is_cut = self.connection.their_state is h11.SEND_BODY and not self._is_body_small
            if is_cut or self.keep_alive_requests >= self.config.keep_alive_max_requests:
                fields.append((b"connection", b"close"))
            valid = Headers([(_known if name in _KNOWN else _valid)(name, value) for name, value in fields])
            await self._send_h11_event(h11.Response(headers=valid, status_code=event.status_code))
        elif type(event) is Body:
            await self._send_h11_event(h11.Data(data=event.data))
        elif type(event) is EndBody:
            await self._send_h11_event(h11.EndOfMessage())
        elif type(event) is StreamClosed:
            await self._maybe_recycle()
        else:
            await super().stream_send(event)

    async def _maybe_recycle(self) -> None:
        """Go on to the next request, or close; the rest of a small body is read before, as long as one may be idle.

        RFC 9112 §9.6: who closes without having said so breaks the next request, which may be on its way.
        """
        states = self.connection.our_state, self.connection.their_state
        if self.stream is None or states != (h11.DONE, h11.SEND_BODY) or self.context.terminated.is_set():
            await super()._maybe_recycle()
            return
        await self.stream.handle(StreamClosed(stream_id=STREAM_ID))
        await self.send(Updated(idle=True))


class _Stream(HTTPStream):
    """Hypercorn's request and response; ``after_rest`` is called at the end of a body that came after the response."""

    after_rest: Callable[[], Awaitable[None]]

    async def handle(self, event: StreamEvent) -> None:
        """Handle a part of the request."""
        if self.closed and type(event) is EndBody:
            await self.after_rest()
        else:
            await super().handle(event)


def _valid(name: bytes, value: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a field of an answer as h11 keeps it. Raises ``h11.LocalProtocolError`` if it is none."""
    ((raw_name, checked),) = h11.Response(headers=[(name, value)], status_code=200).headers.raw_items()
    return raw_name, raw_name.lower(), checked


# Checking each field of each answer takes a tenth of a small request. Other fields may name addresses and files, which
# are not to stay in memory.
_KNOWN = frozenset(
    {b"content-length", b"x-content-type-options", b"referrer-policy", b"cache-control", b"vary", b"date"}
)
_KNOWN |= {b"ratelimit-policy", b"ratelimit", b"content-security-policy"}
_known = lru_cache(maxsize=512)(_valid)


async def _result(reading: asyncio.Future[bytes]) -> bytes | None:
    """Return what was read; None if nothing has arrived, and reading is cancelled."""
    if reading.done():
        return reading.result()
    reading.cancel()
    await asyncio.wait({reading})
    return None


class _ClientGoneError(Exception):
    """The client has disconnected, or sends too much before its answer is complete."""


class _MayGoOn(EventWrapper):
    """Set when the protocol may go on to the next request; ``wait`` is called to wait for that."""

    def __init__(self, wait: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        super().__init__()
        self._wait = wait

    async def wait(self) -> None:
        """Wait for that."""
        await self._wait(self._event)


class _Requests(TaskGroup):
    """The tasks of a connection. There is always room in the queue for the disconnect event."""

    async def spawn_app(
        self,
        app: Any,
        config: Config,
        scope: Any,
        send: Callable[[Any], Awaitable[None]],
    ) -> Callable[[Any], Awaitable[None]]:
        """Start the application on one request; return the function that its events are put with."""
        events: asyncio.Queue[Any] = asyncio.Queue(config.max_app_queue_size)

        async def put(event: Any) -> None:
            # One place more than it takes, for a part that is on its way into the queue already.
            if event["type"] == "http.disconnect" and events.qsize() >= config.max_app_queue_size - 1:
                _make_room(events)
            await events.put(event)

        self.spawn(_answer, app, scope, events.get, send)
        return put


def _make_room(events: asyncio.Queue[Any]) -> None:
    """Join the parts of a body into one event, or drop them if the body will never be complete."""
    parts = []
    while not events.empty():
        parts.append(events.get_nowait())
    if parts and not parts[-1].get("more_body", False):
        whole = b"".join([part.get("body", b"") for part in parts])
        events.put_nowait({"type": "http.request", "body": whole, "more_body": False})


async def _answer(app: Any, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    try:
        await app(scope, receive, send)
    except Exception:
        log.exception("an HTTP request got no answer")
    finally:
        await send(None)


class _Http1(BoundedConnection):
    """HTTP/1 alone, and what h11 and Hypercorn would let pass."""

    def next_event(self) -> Any:
        """Return the next event; raises ``RemoteProtocolError``."""
        event = super().next_event()
        if type(event) is h11.Request:
            if not event.http_version.startswith(b"1."):
                raise h11.RemoteProtocolError("not HTTP/1", error_status_hint=505)
            if event.method != event.method.upper():  # Hypercorn would take "get" for GET (RFC 9110 §9.1)
                raise h11.RemoteProtocolError("no such method", error_status_hint=501)
            names = {name.lower() for name, _ in event.headers.raw_items()}
            if b"content-length" in names and b"transfer-encoding" in names:  # RFC 9112 §6.1
                raise h11.RemoteProtocolError("two lengths", error_status_hint=400)
        return event


def _origin_form(target: bytes, fields: list[tuple[bytes, bytes]]) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the path and the fields of a request; RFC 9112 §3.2.2 requires the absolute form to be accepted."""
    match = None if target.startswith(b"/") else _absolute(target)
    if match is None:
        return target, fields
    others = [(name, value) for name, value in fields if name != b"host"]
    return match[2] if match[2].startswith(b"/") else b"/" + match[2], [(b"host", match[1]), *others]
