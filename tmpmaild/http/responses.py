"""Answers in JSON and as files, whose name and type are made harmless.

Large ones are made in turns of their clients and sent in slices, only a few at the same time. ``StreamSlots`` bounds
event streams.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import TypeVar
from urllib.parse import quote

import anyio
import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.errors import RequestError
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import Client
from tmpmaild.mail import extracts, headers, mime
from tmpmaild.scheduling.slots import PACE_BYTES_PER_SECOND, Slot, Slots
from tmpmaild.scheduling.turns import FairScheduler

IN_LOOP_BYTES = 64 * 1024
"""Answers up to this size are made in the event loop and sent in one piece; texts count by their characters."""

ENCODING = 32
"""Encoding takes less than this part of the time that finding codes and links takes."""

T = TypeVar("T")

_STEP_CHARACTERS = 64 * 1024
_HERE = msgspec.Raw(b"\0")  # an octet that JSON has nowhere (RFC 8259 §2, §7)
_SLICE_BYTES = 64 * 1024
_SLICE_SECONDS = 10
_SEND_SECONDS = 60
_WAIT_SECONDS = 10
_SLOTS = 16
_SLOTS_PER_CLIENT = 2
_END = {"type": "http.response.body", "body": b""}

MAX_NAME_BYTES = 240
"""Of UTF-8; written twice, and once of three characters an octet, it keeps the field below 1 KiB."""


# What Windows forbids in names: a file would be saved under another name, or as an alternate data stream.
_FORBIDDEN = re.compile(r'[<>:"|?*\\/]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9¹²³])(?![^. ])", re.IGNORECASE)
# Some browsers undo percent-encoding in the plain form (RFC 6266 appendix D).
_NOT_PLAIN = re.compile(r"[^ -~]|%")
_ATTR_CHAR = "!#$&+-.^_`|~"

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_CHARSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,39}")
_ACTIVE = re.compile(
    r"(?:text|application)/(?:x-)?(?:java|ecma|j|live|vb)script[0-9.]*"
    r"|text/(?:html|css|xsl|xml-external-parsed-entity)"
    r"|[^/]+/(?:[^/]*\+)?xml"
    r"|application/(?:wasm|xslt|xml-.*)"
    r"|multipart/.*"
)
_MAY_BE_IMAGES = mime.IMAGE_TYPES | {"application/octet-stream"}


class JsonResponse(Response):
    """An answer in JSON; octets are encoded already."""

    media_type = "application/json"

    def render(self, content: bytes | msgspec.Struct) -> bytes:
        """Return the body."""
        return content if isinstance(content, bytes) else msgspec.json.encode(content)


def file_headers(content_type: str, disposition: str) -> dict[str, str]:
    """Return the header fields of untrusted bytes that are sent as a download."""
    return {
        "Content-Type": content_type,
        "Content-Disposition": disposition,
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }


class FileResponse(Response):
    """Untrusted bytes sent as a download; if a browser renders them anyway, the CSP sandbox disarms them.

    In a large answer ``tail`` follows the body: joining the two would copy megabytes in the event loop.
    """

    def __init__(self, content_type: str, disposition: str, body: bytes, tail: bytes = b"") -> None:
        fields = file_headers(content_type, disposition)
        super().__init__(body, headers={**fields, "Content-Length": str(len(body) + len(tail))})
        self.tail = tail


async def encode_in_turn(
    scheduler: FairScheduler, form: Callable[[T], msgspec.Struct], value: T, characters: int
) -> bytes:
    """Encode a large value in a turn, in the JSON form that ``form`` returns for it."""
    return await scheduler.run(lambda: encode_in_steps(form(value)), work_bytes=characters // ENCODING)


def encode_in_steps(value: msgspec.Struct) -> bytes:
    """Encode a value as ``msgspec.json.encode`` does, but leave the GIL to others between its items and its long texts.

    The encoder keeps the GIL: 4 MiB of control characters or quotes would stop the event loop for 30 to 60 ms.
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


class AnswerSlots:
    """Limits how many large answers are in memory at the same time, in total, for each client and network."""

    def __init__(self, scheduler: FairScheduler) -> None:
        self._places = Slots(scheduler, _SLOTS, _SLOTS_PER_CLIENT)

    @asynccontextmanager
    async def take(self, client: Client) -> AsyncIterator[Slot]:
        """Hold a slot; raises ``BadRequest`` ("busy") when none becomes free within ten seconds.

        An exempt client has no limit of its own, but shares the total: it bounds the memory.
        """
        async with AsyncExitStack() as stack:
            with anyio.move_on_after(_WAIT_SECONDS) as waiting:
                place = await stack.enter_async_context(self._places.take(client.name, exempt=client.exempt))
            if waiting.cancelled_caught:
                raise BadRequest("busy")
            yield place


class LargeAnswer:
    """An answer that is made only when it has one of ``slots``, so that a waiting request takes no memory.

    It is broken off when the client takes longer than ten seconds for a slice, or a minute for all of it, and when it
    does not keep up while others wait for its slot (see ``Slots``).
    """

    def __init__(self, slots: AnswerSlots, client: Client, make: Callable[[], Awaitable[Response]]) -> None:
        self._slots = slots
        self._client = client
        self._make = make

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Make and send the answer."""
        async with self._slots.take(self._client) as place:
            response = await self._make()
            place.scope.deadline = anyio.current_time() + _SEND_SECONDS
            with place.scope:
                await _send_response(response, send, place)


async def _send_response(response: Response, send: Send, place: Slot) -> None:
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for octets in (response.body, response.tail if isinstance(response, FileResponse) else b""):
        if not await _send_slices(octets, send, place):
            return
    await send(_END)


async def _send_slices(octets: bytes | memoryview, send: Send, place: Slot) -> bool:
    """Send a part of a body; return whether the client has taken it in time."""
    view = memoryview(octets)
    for start in range(0, len(view), _SLICE_BYTES):
        piece = bytes(view[start : start + _SLICE_BYTES])
        with anyio.move_on_after(_SLICE_SECONDS) as taking, place.sending(len(piece)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if taking.cancelled_caught:
            return False
    return True


class StreamedFile:
    """A download whose length is not known, sent part by part as it is made, with one of ``slots``.

    A client has ten seconds for a slice, as in a ``LargeAnswer``, and for all of it a minute more than
    400 KiB a second take. It is broken off, which clients see as the end of the answer is missing, when the client is
    slower than that, and when another part cannot be made. What making the first part raises is raised.
    """

    def __init__(
        self,
        slots: AnswerSlots,
        client: Client,
        headers: Mapping[str, str],
        parts: Callable[[], AsyncGenerator[bytes, None]],
    ) -> None:
        self._slots = slots
        self._client = client
        self._headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        self._parts = parts

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Make and send the answer, for HEAD its header alone."""
        start = {"type": "http.response.start", "status": 200, "headers": self._headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send(_END)
            return
        async with self._slots.take(self._client) as place, aclosing(self._parts()) as parts:
            part: bytes | None = await anext(parts, b"")
            await send(start)
            place.scope.deadline = anyio.current_time() + _SEND_SECONDS
            with place.scope:
                while part is not None:
                    if not await _send_slices(part, send, place):
                        return
                    place.scope.deadline += len(part) / PACE_BYTES_PER_SECOND
                    try:
                        part = await anext(parts, None)
                    except RequestError:
                        return
                await send(_END)


class CutAtEnd:
    """A response that is cut off, with nothing more sent, as soon as ``ended`` returns: what it shows has ended."""

    def __init__(self, response: ASGIApp, ended: Callable[[], Awaitable[None]]) -> None:
        self._response = response
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and watch from its start on."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:

            async def watched(event: Message) -> None:
                if event["type"] == "http.response.start":
                    tasks.start_soon(self._cut, tasks.cancel_scope)
                await send(event)

            try:
                await self._response(scope, receive, watched)
            except Exception as error:  # noqa: BLE001 - a task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _cut(self, scope: anyio.CancelScope) -> None:
        await self._ended()
        scope.cancel()


class StreamSlots:
    """The slots in use, by client; exempt clients have no limit. ``max_per_client`` may be changed; 0 means none."""

    def __init__(self, max_per_client: int) -> None:
        self.max_per_client = max_per_client
        self._taken: Counter[tuple[str, bool]] = Counter()

    @property
    def taken(self) -> int:
        """How many streams and waits there are, those of exempt clients too."""
        return self._taken.total()

    @contextmanager
    def take(self, client: Client) -> Iterator[None]:
        """Hold a slot. Raises ``BadRequest`` ("too-many-streams")."""
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


def attachment_disposition(filename: str, fallback: str) -> str:
    """Return a Content-Disposition value (RFC 6266) that makes a browser keep a file, under a safe name.

    Whatever the name, it is one line of printable ASCII below 1 KiB; ``fallback`` is used where nothing of the
    name is left. A name that is not plain ASCII is given in the form of RFC 8187 too.
    """
    name = _name(filename) or _name(fallback) or "attachment"
    plain = _NOT_PLAIN.sub("_", name)
    value = f'attachment; filename="{plain}"'
    return value if plain == name else f"{value}; filename*=UTF-8''{quote(name, safe=_ATTR_CHAR)}"


def attachment_type(stated: str, content: bytes) -> str:
    """Return the media type (RFC 6838 §4.2) to send an attachment under: the stated one, for programs.

    What is said to be an image of a kind that views show, or octets, is sent as the image that a view would take it
    for, else as octets: the page shows what is sent so, and need not recognise images as well.

    The answer has ``nosniff``, ``attachment`` and a CSP sandbox, and so is never shown as a page. None of these
    keeps a page of our own origin from loading it as a script or style, which the page's CSP allows; only the type
    does. So what a browser may run, HTML, XML and SVG, scripts and styles, and what is not a media type at all, is
    ``application/octet-stream``. Of the parameters a clean charset of a text is kept.
    """
    media_type, parameters = headers.parameters(stated)
    if not _MEDIA_TYPE.fullmatch(media_type) or _ACTIVE.fullmatch(media_type):
        return "application/octet-stream"
    if media_type in _MAY_BE_IMAGES:
        return extracts.image_type(content) or "application/octet-stream"
    charset = parameters.get("charset", "")
    if media_type.startswith("text/") and _CHARSET.fullmatch(charset):
        return f"{media_type}; charset={charset}"
    return media_type


def _name(stated: str) -> str:
    """Return a name that every system can save a file by, cut before its extension; "" when nothing is left."""
    name = _FORBIDDEN.sub("_", " ".join(mime.last_component(stated).split())).rstrip(". ")
    if _DEVICE.match(name):
        name = f"_{name}"
    return mime.shortened(name, MAX_NAME_BYTES)
