"""Sending Server-Sent Events (as the HTML standard has them), as long as there are some and the client takes them."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Protocol, TypeVar

import anyio
import msgspec
from msgspec import Struct
from starlette.types import Receive, Send

from tmpmaild.errors import RequestError
from tmpmaild.http.resource import unless_gone
from tmpmaild.inboxes.events import Overflow

HEARTBEAT_SECONDS = 15
_RETRY = b"retry: 10000\n\n"
_HEARTBEAT = b":\n\n"
_SLICE_BYTES = 64 * 1024
_SLICE_SECONDS = 10
_HEADERS = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]

E = TypeVar("E")


class Source(Protocol[E]):
    """Where events come from."""

    @property
    def has_ended(self) -> bool:
        """Whether ``next`` has returned the last events."""

    async def next(self, seconds: float) -> Sequence[E]:
        """Return the next events; an empty list if there are none within ``seconds``."""

    async def may_show(self, event: E) -> bool:
        """Return whether an event may still be sent."""


async def start(send: Send) -> None:
    """Send the head of the answer."""
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})


async def send_events(source: Source[E], written: Callable[[E], bytes], receive: Receive, send: Send) -> None:
    """Send the events of a source to its end, each as ``written`` returns it.

    The answer is completed at the end, and when the client has disconnected: one that has only closed its sending side
    (a half-closed connection) looks the same. It is broken off when the client does not take what is sent.
    """
    if await unless_gone(receive, partial(_send_all, source, written, send)) is not False:
        await send({"type": "http.response.body", "body": b""})


async def _send_all(source: Source[E], written: Callable[[E], bytes], send: Send) -> bool:
    """Return whether the client has taken everything."""
    async with aclosing(_chunks(source, written)) as chunks:
        async for chunk in chunks:
            with anyio.move_on_after(_SLICE_SECONDS) as taking:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if taking.cancelled_caught:
                return False
    return True


async def _chunks(source: Source[E], written: Callable[[E], bytes]) -> AsyncGenerator[bytes, None]:
    yield _RETRY
    try:
        while not source.has_ended:
            events = await source.next(HEARTBEAT_SECONDS)
            if not events:
                yield _HEARTBEAT
            for event in events:
                if not await source.may_show(event):
                    continue
                for part in _slices(written(event)):
                    yield part
    except (RequestError, Overflow):
        return  # the client reconnects after the last message, and gets the error then


def block(name: str, data: bytes | Struct, message_id: str | None = None) -> bytes:
    """Return one event."""
    position = b"" if message_id is None else b"id: %s\n" % message_id.encode()
    octets = data if isinstance(data, bytes) else msgspec.json.encode(data)
    return b"%sevent: %s\ndata: %s\n\n" % (position, name.encode(), octets)


def _slices(octets: bytes) -> Iterator[bytes]:
    for start in range(0, len(octets), _SLICE_BYTES):
        yield octets[start : start + _SLICE_BYTES]
