"""JSON responses and large responses.

A large response is encoded during its client's turn and sent in slices; only a few such responses are in progress at
the same time. ``StreamSlots`` limits the number of waits and event streams.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import TypeVar

import anyio
import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.errors import RequestError
from tmpmaild.http.downloads import FileResponse
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import Client
from tmpmaild.scheduling.slots import PACE_BYTES_PER_SECOND, Slot, Slots
from tmpmaild.scheduling.turns import FairScheduler

IN_LOOP_BYTES = 64 * 1024
"""Responses up to this size are encoded in the event loop and sent in one piece. The size of a text
is its character count."""
ENCODING = 32
"""The minimum ratio of the time for finding codes and links in a text to the time for encoding the text."""

SLICE_SECONDS = 10
SEND_SECONDS = 60
WAIT_SECONDS = 10
SLOTS_PER_CLIENT = 2
"""Limits that tests reduce."""
_SLOTS = 16
_SLICE_BYTES = 64 * 1024
_STEP_CHARACTERS = 64 * 1024
_HERE = msgspec.Raw(b"\0")  # a byte that never occurs in JSON (RFC 8259 §2, §7)

T = TypeVar("T")

_END = {"type": "http.response.body", "body": b""}


class JsonResponse(Response):
    """A JSON response; content of type ``bytes`` is already encoded."""

    media_type = "application/json"

    def render(self, content: bytes | msgspec.Struct) -> bytes:
        """Return the body as JSON."""
        return content if isinstance(content, bytes) else msgspec.json.encode(content)


async def encode_in_turn(
    scheduler: FairScheduler, form: Callable[[T], msgspec.Struct], value: T, characters: int
) -> bytes:
    """Encode the JSON form that ``form`` returns for a large value, during a turn of the client."""
    return await scheduler.run(lambda: encode_in_steps(form(value)), work_bytes=characters // ENCODING)


def encode_in_steps(value: msgspec.Struct) -> bytes:
    """Encode a value as ``msgspec.json.encode`` does, but release the GIL between its items and its long texts.

    The encoder holds the GIL: 4 MiB of control characters or quotes would stop the event loop for 30 to 60 ms.
    """
    return b"".join(_encoded(value))


def _encoded(value: msgspec.Struct) -> Iterator[bytes]:
    members = {name: getattr(value, name) for name in value.__struct_fields__}
    large = {name: member for name, member in members.items() if _is_large(member)}
    around = msgspec.json.encode(msgspec.structs.replace(value, **dict.fromkeys(large, _HERE))).split(bytes(_HERE))
    yield around[0]
    for member, after in zip(large.values(), around[1:], strict=True):
        yield from _encoded_text(member) if isinstance(member, str) else _encoded_list(member)
        yield after


def _is_large(member: object) -> bool:
    if isinstance(member, str):
        return len(member) > _STEP_CHARACTERS
    return isinstance(member, list) and bool(member) and isinstance(member[0], msgspec.Struct)


def _encoded_list(items: list[msgspec.Struct]) -> Iterator[bytes]:
    for number, item in enumerate(items):
        yield b"," if number else b"["
        yield from _encoded(item)
    yield b"]"


def _encoded_text(text: str) -> Iterator[bytes]:
    yield b'"'
    for at in range(0, len(text), _STEP_CHARACTERS):
        yield msgspec.json.encode(text[at : at + _STEP_CHARACTERS])[1:-1]
    yield b'"'


class ResponseSlots:
    """Limits how many large responses are in memory at the same time: in total, per client and per network."""

    def __init__(self, scheduler: FairScheduler) -> None:
        self._slots = Slots(scheduler, _SLOTS, SLOTS_PER_CLIENT)

    @asynccontextmanager
    async def take(self, client: Client) -> AsyncIterator[Slot]:
        """Occupy a slot in a ``with`` block. Raises ``BadRequest`` ("busy") if no slot becomes free within ten seconds.

        An exempt client has no individual limit, but is subject to the total limit, which bounds memory use.
        """
        async with AsyncExitStack() as stack:
            with anyio.move_on_after(WAIT_SECONDS) as waiting:
                slot = await stack.enter_async_context(self._slots.take(client.name, exempt=client.exempt))
            if waiting.cancelled_caught:
                raise BadRequest("busy")
            yield slot


class LargeResponse:
    """A response that is built only once it has one of ``slots``, so that a waiting request uses no memory.

    It is cut off if the client takes longer than ten seconds for a slice or a minute for the whole response. It is also
    cut off if the client is too slow while other clients wait for its slot (see ``Slots``).
    """

    def __init__(self, slots: ResponseSlots, client: Client, make: Callable[[], Awaitable[Response]]) -> None:
        self._slots = slots
        self._client = client
        self._make = make

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Build and send the response."""
        async with self._slots.take(self._client) as slot:
            response = await self._make()
            slot.scope.deadline = anyio.current_time() + SEND_SECONDS
            with slot.scope:
                await _send_response(response, send, slot)


async def _send_response(response: Response, send: Send, slot: Slot) -> None:
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for data in (response.body, response.tail if isinstance(response, FileResponse) else b""):
        if not await _send_slices(data, send, slot):
            return
    await send(_END)


async def _send_slices(data: bytes | memoryview, send: Send, slot: Slot) -> bool:
    """Send part of a body; return whether the client read it in time."""
    view = memoryview(data)
    for start in range(0, len(view), _SLICE_BYTES):
        piece = bytes(view[start : start + _SLICE_BYTES])
        with anyio.move_on_after(SLICE_SECONDS) as taking, slot.sending(len(piece)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if taking.cancelled_caught:
            return False
    return True


class StreamedFile:
    """A download of unknown length, sent in parts as it is generated, while it occupies one of ``slots``.

    As for a ``LargeResponse``, the time limit for a slice is ten seconds. The time limit for the whole file is one
    minute more than its transfer takes at 400 KiB/s, not counting the time in which parts are generated: thousands of
    small messages can take longer, even if the client reads fast. If the client is slower, or if a later part cannot be
    generated, the response is cut off before its last chunk, so that the client notices. An exception that occurs while
    the first part is generated is raised to the caller.
    """

    def __init__(
        self,
        slots: ResponseSlots,
        client: Client,
        headers: Mapping[str, str],
        parts: Callable[[], AsyncGenerator[bytes, None]],
    ) -> None:
        self._slots = slots
        self._client = client
        self._headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        self._parts = parts

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Generate and send the response; for HEAD, send only the header."""
        start = {"type": "http.response.start", "status": 200, "headers": self._headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send(_END)
            return
        async with self._slots.take(self._client) as slot, aclosing(self._parts()) as parts:
            part: bytes | None = await anext(parts, b"")
            await send(start)
            slot.scope.deadline = anyio.current_time() + SEND_SECONDS
            with slot.scope:
                while part is not None:
                    if not await _send_slices(part, send, slot):
                        return
                    waiting_since = anyio.current_time()
                    slot.scope.deadline += len(part) / PACE_BYTES_PER_SECOND
                    try:
                        part = await anext(parts, None)
                    except RequestError:
                        return
                    slot.scope.deadline += anyio.current_time() - waiting_since
                await send(_END)


class CutOff:
    """A response that is cut off when ``ended`` returns, because the inbox or message in it no longer exists."""

    def __init__(self, response: ASGIApp, ended: Callable[[], Awaitable[None]]) -> None:
        self._response = response
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response until it is complete or ``ended`` returns."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:

            async def watched(event: Message) -> None:
                if event["type"] == "http.response.start":
                    tasks.start_soon(self._cut, tasks.cancel_scope)
                await send(event)

            try:
                await self._response(scope, receive, watched)
            except Exception as error:  # noqa: BLE001 - a task group would wrap the exception
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _cut(self, scope: anyio.CancelScope) -> None:
        await self._ended()
        scope.cancel()


class StreamSlots:
    """Limits the waits and streams of each client. ``max_per_client`` may be changed; 0 means no limit.

    Exempt clients have no limit.
    """

    def __init__(self, max_per_client: int) -> None:
        self.max_per_client = max_per_client
        self._taken: Counter[tuple[str, bool]] = Counter()

    @property
    def taken(self) -> int:
        """The number of streams and waits, including those of exempt clients."""
        return self._taken.total()

    @contextmanager
    def take(self, client: Client) -> Iterator[None]:
        """Occupy a slot. Raises ``BadRequest`` ("too-many-streams")."""
        key = (client.name, client.exempt)
        if not client.exempt and 0 < self.max_per_client <= self._taken[key]:
            raise BadRequest("too-many-streams")
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
