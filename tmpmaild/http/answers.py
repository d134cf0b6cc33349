"""Answers in JSON. Large ones are made off the event loop and leave in slices, a few of them at once."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tmpmaild.model import Listing

_IN_LOOP_CHARACTERS = 64 * 1024
_SLICE_BYTES = 256 * 1024
_SEND_SECONDS = 60


class JsonResponse(Response):
    """Octets of JSON."""

    media_type = "application/json"


def is_large(listing: Listing) -> bool:
    """Tell from its bodies whether a page would hold the event loop, and much memory while it leaves."""
    return sum([len(message.body) for message in listing.messages]) > _IN_LOOP_CHARACTERS


async def encode_in_thread(value: msgspec.Struct) -> bytes:
    """Encode what is large."""
    return await anyio.to_thread.run_sync(msgspec.json.encode, value)


class LargeAnswer:
    """An answer that is made only when it has one of ``places``: whoever waits for one holds nothing yet.

    A client that has not taken it within a minute loses it.
    """

    def __init__(self, places: anyio.CapacityLimiter, make: Callable[[], Awaitable[Response]]) -> None:
        self._places = places
        self._make = make

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Make and send the answer."""
        async with self._places:
            response = await self._make()
            with anyio.move_on_after(_SEND_SECONDS):
                await _send_slices(response, send)


async def _send_slices(response: Response, send: Send) -> None:
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    body = memoryview(response.body)
    for start in range(0, len(body), _SLICE_BYTES):
        part = bytes(body[start : start + _SLICE_BYTES])
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
