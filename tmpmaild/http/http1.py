"""HTTP/1 on one connection, based on Hypercorn: each request becomes a call to the ASGI application.

``connection.py`` reads and writes the socket.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from wsgiref.handlers import format_date_time

import h11
import starlette.types as asgi
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.config import Config
from hypercorn.events import RawData, Updated
from hypercorn.protocol.events import EndBody, Event, Request, Response, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, H11SendableEvent, HTTPRequestEvent, Scope
from hypercorn.utils import suppress_body

from tmpmaild.boundedh11 import BoundedConnection

_SMALL_BODY_BYTES = 64 * 1024
_QUEUED_EVENTS = (
    2  # the maximum number of body parts that wait for the application; ``Requests`` needs at least this number
)
_absolute_form = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL).fullmatch

log = logging.getLogger(__name__)


class Settings(Config):
    """Hypercorn's settings. The only header field that Hypercorn adds to responses is Date."""

    def __init__(self, idle_seconds: float) -> None:
        super().__init__()
        self.keep_alive_timeout = idle_seconds
        self.max_app_queue_size = _QUEUED_EVENTS
        self.errorlog = logging.getLogger("hypercorn.error")

    def response_headers(self, _protocol: str) -> list[tuple[bytes, bytes]]:
        """Return the Date field, which is formatted once per second."""
        return [(b"date", _date(int(time.time())))]


@lru_cache(maxsize=1)
def _date(unix_seconds: int) -> bytes:
    return format_date_time(unix_seconds).encode()


class Protocol(H11Protocol):
    """Hypercorn's protocol without upgrades: requests to switch to WebSockets or HTTP/2 are ignored (RFC 9110 §7.8).

    The header of a response is sent together with the start of its body, in a single system call.
    """

    _header = b""

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
        self.stream.after_late_body = self._maybe_recycle
        fields = [(name.lower(), value) for name, value in request.headers.raw_items()]
        body_bytes = int(dict(fields).get(b"content-length", _SMALL_BODY_BYTES + 1))
        self._is_body_small = body_bytes <= _SMALL_BODY_BYTES
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

    async def stream_send(self, event: Event) -> None:
        """Send part of a response."""
        if isinstance(event, Response):
            fields = [*event.headers, *self.config.response_headers("h11")]
            is_cut = self.connection.their_state is h11.SEND_BODY and not self._is_body_small
            if is_cut or self.keep_alive_requests >= self.config.keep_alive_max_requests:
                fields.append((b"connection", b"close"))
            await self._send_h11_event(h11.Response(headers=fields, status_code=event.status_code))
        else:
            await super().stream_send(event)

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        try:
            data = self._header + self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state is not h11.ERROR:
                raise
            return
        # Without a Content-Length, the body may be delayed, because a stream may wait for its first event.
        waits_for_body = isinstance(event, h11.Response) and self._has_body(event)
        self._header = data if waits_for_body else b""
        if not waits_for_body:
            await self.send(RawData(data=data))

    def _has_body(self, response: h11.Response) -> bool:
        if not isinstance(self.stream, HTTPStream) or suppress_body(self.stream.scope["method"], response.status_code):
            return False
        return any(name == b"content-length" and value != b"0" for name, value in response.headers.raw_items())

    async def _maybe_recycle(self) -> None:
        """Continue with the next request, or close the connection.

        First read the rest of a small body, within the idle timeout. RFC 9112 §9.6: closing without ``Connection:
        close`` would lose the next request if it is already in transit.
        """
        states = self.connection.our_state, self.connection.their_state
        if self.stream is None or states != (h11.DONE, h11.SEND_BODY) or self.context.terminated.is_set():
            await super()._maybe_recycle()
            return
        await self.stream.handle(StreamClosed(stream_id=STREAM_ID))
        await self.send(Updated(idle=True))


class _Stream(HTTPStream):
    """One request and its response. ``after_late_body`` is called if the body ends after the response."""

    after_late_body: Callable[[], Awaitable[None]]

    async def handle(self, event: Event) -> None:
        """Handle part of the request."""
        if self.closed and isinstance(event, EndBody):
            await self.after_late_body()
        else:
            await super().handle(event)


class Requests(TaskGroup):
    """The tasks of a connection. Their event queues always have room for the disconnect event."""

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: Callable[[ASGISendEvent | None], Awaitable[None]]
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Run the application for one request; return the function that queues events for it."""
        events: asyncio.Queue[ASGIReceiveEvent] = asyncio.Queue(config.max_app_queue_size)

        async def put(event: ASGIReceiveEvent) -> None:
            # Reserve one extra place for a part that is already waiting to be queued.
            if event["type"] == "http.disconnect" and events.qsize() >= config.max_app_queue_size - 1:
                _make_room(events)
            await events.put(event)

        self.spawn(_run, app, scope, events.get, send)
        return put


def _make_room(events: asyncio.Queue[ASGIReceiveEvent]) -> None:
    """Join the queued parts of a body into one event, or drop them if the body will never be complete."""
    parts: list[HTTPRequestEvent] = []
    while not events.empty():
        event = events.get_nowait()
        if event["type"] == "http.request":
            parts.append(event)
    if parts and not parts[-1]["more_body"]:
        whole = b"".join([part["body"] for part in parts])
        events.put_nowait({"type": "http.request", "body": whole, "more_body": False})


async def _run(
    app: asgi.ASGIApp,
    scope: asgi.Scope,
    receive: asgi.Receive,
    send: Callable[[asgi.Message | None], Awaitable[None]],
) -> None:
    try:
        await app(scope, receive, send)
    except Exception:
        log.exception("an HTTP request received no response")
    finally:
        await send(None)


class Http1(BoundedConnection):
    """An h11 connection that also refuses some requests that h11 and Hypercorn would accept."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        """Return the next event; raises ``RemoteProtocolError``."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            if not event.http_version.startswith(b"1."):
                raise h11.RemoteProtocolError("not HTTP/1", error_status_hint=505)
            if event.method != event.method.upper():  # Hypercorn would treat "get" as GET (RFC 9110 §9.1)
                raise h11.RemoteProtocolError("no such method", error_status_hint=501)
            names = {name.lower() for name, _ in event.headers.raw_items()}
            if b"content-length" in names and b"transfer-encoding" in names:  # RFC 9112 §6.1
                raise h11.RemoteProtocolError("two lengths", error_status_hint=400)
        return event


def _origin_form(target: bytes, fields: list[tuple[bytes, bytes]]) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Convert a target in absolute form, which servers must accept (RFC 9112 §3.2.2), to a path and a Host field."""
    match = None if target.startswith(b"/") else _absolute_form(target)
    if match is None:
        return target, fields
    others = [(name, value) for name, value in fields if name != b"host"]
    return match[2] if match[2].startswith(b"/") else b"/" + match[2], [(b"host", match[1]), *others]
