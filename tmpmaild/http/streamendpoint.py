"""The event streams of one inbox and of several; how events are sent is in ``eventsending.py``."""

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.errors import InvalidRequest
from tmpmaild.http.eventsending import block, send_events, start
from tmpmaild.http.parsing import read_body, read_query
from tmpmaild.http.requests import FollowedInbox, FollowRequest, StreamQuery, last_event_id
from tmpmaild.http.resource import body, client, take_token, token
from tmpmaild.http.schemas import AddressResource, Nothing
from tmpmaild.http.streamslots import StreamSlots
from tmpmaild.http.wire import Wire
from tmpmaild.inboxes.following import Event, Following
from tmpmaild.inboxes.followingseveral import NamedEvent, SeveralEvent, Unavailable, Wish, follow_several
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail import addresses
from tmpmaild.model import Message


class StreamEndpoint:
    """The endpoints over one service."""

    def __init__(self, service: InboxService, wire: Wire, slots: StreamSlots) -> None:
        self._service = service
        self._wire = wire
        self._slots = slots

    async def events(self, request: Request) -> ASGIApp:
        """Send the events of an inbox as they happen."""
        query = read_query(request.query_params, StreamQuery)
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
        name, data = self._wire.event(following.inbox.address, event, self._service.extendable_until_ms)
        return block(name, data, event.id if isinstance(event, Message) else None)

    async def events_of_several(self, request: Request) -> ASGIApp:
        """Send the events of several inboxes. Each inbox that cannot be read costs a token of the rate limit."""
        wanted = read_body(await body(request), request.headers.get("content-type"), FollowRequest)
        wishes = _wishes(wanted.inboxes)

        async def stream(_scope: Scope, receive: Receive, send: Send) -> None:
            with self._slots.take(client(request)):
                async with follow_several(self._service.follower, wishes, partial(take_token, request)) as several:
                    await start(send)
                    await send_events(several, self._written_of_several, receive, send)

        return stream

    def _written_of_several(self, event: SeveralEvent) -> bytes:
        """Return an event without ``id``: ids ascend within an inbox only, so none is a position in this stream."""
        if not isinstance(event, NamedEvent):
            return block(
                "unavailable" if isinstance(event, Unavailable) else "limited", _with_address(event.named, Nothing())
            )
        inbox = event.following.inbox
        name, data = self._wire.event(inbox.address, event.event, self._service.extendable_until_ms)
        return block(name, _with_address(event.named, data))


def _wishes(inboxes: Sequence[FollowedInbox]) -> list[Wish]:
    """Return the inboxes of a request. Raises ``InvalidRequest`` if two are the same."""
    first: dict[str, int] = {}
    for index, one in enumerate(inboxes):
        same = first.setdefault(addresses.canonical(one.address) or one.address, index)
        if same != index:
            raise InvalidRequest((f"/inboxes/{index}/address", f"expected another inbox than that of /inboxes/{same}"))
    return [Wish(one.address, one.token or None, one.after or None, frozenset(one.has or ())) for one in inboxes]


def _with_address(named: str, data: Struct) -> bytes:
    """Return the data of an event as JSON, with the address as the client named it."""
    if isinstance(data, AddressResource):
        return msgspec.json.encode(replace(data, address=named))
    members = msgspec.json.encode(data)
    comma = b"" if members == b"{}" else b","
    return b'{"address":%s%s%s' % (msgspec.json.encode(named), comma, members[1:])
