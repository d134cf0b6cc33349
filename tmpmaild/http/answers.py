"""Answers that may be large: encoded off the event loop, sent in slices, and only so many of them at once."""

import anyio
import anyio.to_thread
import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tmpmaild.model import Listing

_IN_LOOP_BYTES = 64 * 1024
_SLICE_BYTES = 256 * 1024
_SEND_SECONDS = 60


def weigh(listing: Listing) -> int:
    """Estimate from its bodies what a page weighs."""
    return sum(len(message.body) for message in listing.messages)


async def encode(value: msgspec.Struct, weight_bytes: int) -> bytes:
    """Encode as JSON, in a thread when that would hold the loop."""
    if weight_bytes <= _IN_LOOP_BYTES:
        return msgspec.json.encode(value)
    return await anyio.to_thread.run_sync(msgspec.json.encode, value)


class JsonResponse(Response):
    """JSON octets. A large answer waits for one of ``places`` and leaves in slices, so that few are in memory.

    A client that has not taken it within a minute loses it.
    """

    media_type = "application/json"
    places: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        if self.places is None or len(self.body) <= _SLICE_BYTES or scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        async with self.places:
            with anyio.fail_after(_SEND_SECONDS):
                await self._send_slices(send)

    async def _send_slices(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for start in range(0, len(body), _SLICE_BYTES):
            part = bytes(body[start : start + _SLICE_BYTES])
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
