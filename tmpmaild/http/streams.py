"""Event streams for one or several inboxes, as server-sent events (HTML standard)."""

import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Protocol, TypeVar

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.errors import InvalidRequest, RequestError
from tmpmaild.http.inputs import FollowedInbox, FollowRequest, StreamQuery, last_event_id
from tmpmaild.http.openapi import ADDRESS, TEXT, Operation, Returns
from tmpmaild.http.requests import client, take_token, token, until_disconnect
from tmpmaild.http.responses import StreamSlots
from tmpmaild.http.schemas import AddressResource, Nothing, Serializer
from tmpmaild.http.validation import parse_query, read_json
from tmpmaild.inboxes.bus import Overflow
from tmpmaild.inboxes.following import Event, Following
from tmpmaild.inboxes.merging import InboxToFollow, NamedEvent, SeveralEvent, Unavailable, follow_several
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail import addresses
from tmpmaild.model import Message
from tmpmaild.validation import ValidationErrors

HEARTBEAT_SECONDS = 8
# After WebKitGTK 2.52 with libsoup 3.6 has read a chunk, it may withhold all but the first 128 bytes until more data
# arrives. It may be too busy to read the chunk immediately. Therefore, comments are sent after an event: the first
# after this delay, each further comment after four times the previous delay.
_NEXT_SECONDS = 0.1
_RETRY = b"retry: 10000\n\n"
_HEARTBEAT = b":\n\n"
_SLICE_BYTES = 64 * 1024
_SLICE_SECONDS = 10
_HEADERS = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]

E = TypeVar("E")


class Source(Protocol[E]):
    """A source of events."""

    @property
    def has_ended(self) -> bool:
        """Whether ``next`` has returned the last event."""

    async def next(self, seconds: float) -> Sequence[E]:
        """Return the next events, or an empty list if there are none within ``seconds``."""

    async def may_show(self, event: E) -> bool:
        """Return whether an event may still be sent."""

    def seconds_to_show(self, event: E) -> float:
        """Return the number of seconds during which an event may still be sent."""


async def start(send: Send) -> None:
    """Send the header of the response."""
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})


async def send_events(source: Source[E], written: Callable[[E], bytes], receive: Receive, send: Send) -> None:
    """Send all events of a source; ``written`` encodes each event.

    The response is completed after the last event. It is also completed when the client disconnects, because a
    disconnect cannot be distinguished from a half-closed connection, in which the client has only closed its sending
    side. If the client does not read the response, it is cut off.
    """
    if await until_disconnect(receive, partial(_send_all, source, written, send)) is not False:
        await send({"type": "http.response.body", "body": b""})


async def _send_all(source: Source[E], written: Callable[[E], bytes], send: Send) -> bool:
    """Return whether the client read every event in time, that is, while the event could still be shown."""
    with suppress(_TooLateError):
        async with aclosing(_chunks(source, written)) as chunks:
            async for chunk, seconds in chunks:
                with anyio.move_on_after(min(seconds, _SLICE_SECONDS)) as taking:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if taking.cancelled_caught:
                    return False
        return True
    return False


class _TooLateError(Exception):
    """Raised if an event that has been partly sent may no longer be shown."""


async def _chunks(source: Source[E], written: Callable[[E], bytes]) -> AsyncGenerator[tuple[bytes, float], None]:
    """Yield the chunks to send, each with the number of seconds during which it may be sent."""
    yield _RETRY, math.inf
    seconds: float = HEARTBEAT_SECONDS
    try:
        while not source.has_ended:
            events = await source.next(seconds)
            seconds = _NEXT_SECONDS if events else min(4 * seconds, HEARTBEAT_SECONDS)
            if not events:
                yield _HEARTBEAT, math.inf
            for event in events:
                async for part in _parts(event, source, written):
                    yield part, source.seconds_to_show(event)
    except (RequestError, Overflow):
        return  # the client receives the error when it reconnects with its last message id


async def _parts(event: E, source: Source[E], written: Callable[[E], bytes]) -> AsyncGenerator[bytes, None]:
    """Yield an event in parts, or nothing if it may no longer be shown; raises ``_TooLateError``."""
    if not await source.may_show(event):
        return
    for number, part in enumerate(_slices(written(event))):
        if number and not await source.may_show(event):
            raise _TooLateError
        yield part


def block(name: str, data: bytes | Struct, message_id: str | None = None) -> bytes:
    """Return an event in the format of server-sent events."""
    position = b"" if message_id is None else b"id: %s\n" % message_id.encode()
    encoded = data if isinstance(data, bytes) else msgspec.json.encode(data)
    return b"%sevent: %s\ndata: %s\n\n" % (position, name.encode(), encoded)


def _slices(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _SLICE_BYTES):
        yield data[start : start + _SLICE_BYTES]


class StreamEndpoints:
    """Endpoints for event streams."""

    def __init__(self, service: InboxService, serializer: Serializer, slots: StreamSlots) -> None:
        self._service = service
        self._serializer = serializer
        self._slots = slots

    @Operation(
        f"GET {ADDRESS}/events",
        "followAddress",
        Returns(200, "Events, until the address no longer exists.", media_types=("text/event-stream",), schema=TEXT),
        tag="Events",
        query=StreamQuery,
        headers=("Last-Event-ID",),
        problems=("too-many-streams",),
    )
    async def events(self, request: Request) -> ASGIApp:
        """Follow an address.

        Server-sent events. `message` has an id and contains the message in the same form as in lists. `deleted`
        identifies a deleted message, or no message if the address was deleted. `extended` contains the new
        `expires_at`. `verdict` identifies a message whose sender has been checked. `expired` is the last event. A
        client that reconnects with `Last-Event-ID` receives every message once. A body over 64 KiB is cut to 1 KiB.
        With `has`, messages that lack any of these features are omitted.
        """
        errors = ValidationErrors()
        query = parse_query(request.scope["query_string"], StreamQuery, errors)
        errors.collect(self._service.mail.ensure_possible, query.has)
        errors.raise_if_any()
        after = last_event_id(request.headers.get("last-event-id")) or query.after
        address, has = request.path_params["address"], frozenset(query.has)
        follow = partial(self._service.follower.follow, address, after, token(request), has=has)

        async def stream(_scope: Scope, receive: Receive, send: Send) -> None:
            with self._slots.take(client(request)):
                async with follow() as following:
                    await start(send)
                    if request.method == "HEAD":
                        await send({"type": "http.response.body", "body": b""})
                    else:
                        await send_events(following, partial(self._written, following), receive, send)

        return stream

    def _written(self, following: Following, event: Event) -> bytes:
        name, data = self._serializer.event(following.inbox.address, event, self._service.rules.extendable_until_ms)
        return block(name, data, event.id if isinstance(event, Message) else None)

    @Operation(
        "POST /api/v1/events",
        "followAddresses",
        Returns(200, "Events, until none of the addresses exists.", media_types=("text/event-stream",), schema=TEXT),
        tag="Events",
        security="none",
        body=FollowRequest,
        problems=("too-many-streams", "storage-unavailable"),
    )
    async def events_of_several(self, request: Request) -> ASGIApp:
        """Follow several addresses.

        The events of up to 20 addresses in one stream; the data of each event contains its `address`. Events have no
        id: to resume, send the last message id of each address as `after`. `inbox` describes an address, and is sent
        after all existing messages of the address. `unavailable` means that the address cannot be read, which takes a
        rate limit token. `limited` means that the address was not opened because no rate limit token was left.
        """
        wanted = await read_json(request, FollowRequest)
        inboxes = _to_follow(wanted.inboxes)

        async def stream(_scope: Scope, receive: Receive, send: Send) -> None:
            with self._slots.take(client(request)):
                async with follow_several(self._service.follower, inboxes, partial(take_token, request)) as several:
                    await start(send)
                    await send_events(several, self._written_of_several, receive, send)

        return stream

    def _written_of_several(self, event: SeveralEvent) -> bytes:
        """Return an event without an ``id``, because ids ascend only within an inbox, not across inboxes."""
        if not isinstance(event, NamedEvent):
            return block(
                "unavailable" if isinstance(event, Unavailable) else "limited", _with_address(event.named, Nothing())
            )
        inbox = event.following.inbox
        name, data = self._serializer.event(inbox.address, event.event, self._service.rules.extendable_until_ms)
        return block(name, _with_address(event.named, data))


def _to_follow(inboxes: Sequence[FollowedInbox]) -> list[InboxToFollow]:
    """Return the inboxes that a request specifies. Raises ``InvalidRequest`` if an inbox occurs twice."""
    first: dict[str, int] = {}
    errors = []
    for index, one in enumerate(inboxes):
        same = first.setdefault(addresses.canonical(one.address) or one.address, index)
        if same != index:
            errors.append((f"/inboxes/{index}/address", f"expected a different inbox from /inboxes/{same}"))
    if errors:
        raise InvalidRequest(*errors)
    return [
        InboxToFollow(one.address, one.token or None, one.after or None, frozenset(one.has or ())) for one in inboxes
    ]


def _with_address(named: str, data: Struct) -> bytes:
    """Return an event's data as JSON, with the address as written by the client."""
    if isinstance(data, AddressResource):
        return msgspec.json.encode(replace(data, address=named))
    members = msgspec.json.encode(data)
    comma = b"" if members == b"{}" else b","
    return b'{"address":%s%s%s' % (msgspec.json.encode(named), comma, members[1:])
