"""The event stream of an inbox (Server-Sent Events, as the HTML standard has them)."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial

import anyio
import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.errors import RequestError
from tmpmaild.http.requests import StreamQuery, last_event_id, read_query
from tmpmaild.http.resource import client, token, unless_gone
from tmpmaild.http.streamslots import StreamSlots
from tmpmaild.http.wire import Wire
from tmpmaild.inboxes.events import Overflow
from tmpmaild.inboxes.following import Event, Follower, Following, InboxExpired
from tmpmaild.model import InboxDeleted, Message

HEARTBEAT_SECONDS = 15
_RETRY = b"retry: 10000\n\n"
_HEARTBEAT = b":\n\n"
_SLICE_BYTES = 64 * 1024
_SLICE_SECONDS = 10
_HEADERS = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


class StreamEndpoint:
    """The endpoint over one service."""

    def __init__(self, follower: Follower, wire: Wire, slots: StreamSlots) -> None:
        self._follower = follower
        self._wire = wire
        self._slots = slots

    async def events(self, request: Request) -> ASGIApp:
        """Send the events of an inbox as they happen."""
        query = read_query(request.query_params, StreamQuery)
        after = last_event_id(request.headers.get("last-event-id")) or query.after

        async def stream(_scope: Scope, receive: Receive, send: Send) -> None:
            with self._slots.take(client(request)):
                async with self._follower.follow(request.path_params["address"], after, token(request)) as following:
                    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                    if request.method == "HEAD" or await self._is_to_end(following, receive, send):
                        await send({"type": "http.response.body", "body": b""})

        return stream

    async def _is_to_end(self, following: Following, receive: Receive, send: Send) -> bool:
        """Send events; return whether the answer can be completed, which is True when the client has disconnected.

        A client that has only closed its sending side (a half-closed connection) looks the same.
        """
        return await unless_gone(receive, partial(self._send, following, send)) is not False

    async def _send(self, following: Following, send: Send) -> bool:
        """Send events until there are no more; False when the client does not take them."""
        async with aclosing(self._chunks(following)) as chunks:
            async for chunk in chunks:
                with anyio.move_on_after(_SLICE_SECONDS) as taking:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if taking.cancelled_caught:
                    return False
        return True

    async def _chunks(self, following: Following) -> AsyncGenerator[bytes, None]:
        yield _RETRY
        try:
            while True:
                events = await following.next(HEARTBEAT_SECONDS)
                if not events:
                    yield _HEARTBEAT
                for event in events:
                    if not await following.may_show(event):
                        continue
                    for part in _slices(self._written(following, event)):
                        yield part
                    if isinstance(event, InboxDeleted | InboxExpired):
                        return
        except (RequestError, Overflow):
            return  # the client reconnects with the last id, and gets the error then

    def _written(self, following: Following, event: Event) -> bytes:
        name, data = self._wire.event(following.inbox.address, event)
        position = f"id: {event.id}\n" if isinstance(event, Message) else ""
        return b"%sevent: %s\ndata: %s\n\n" % (position.encode(), name.encode(), msgspec.json.encode(data))


def _slices(octets: bytes) -> Iterator[bytes]:
    for start in range(0, len(octets), _SLICE_BYTES):
        yield octets[start : start + _SLICE_BYTES]
