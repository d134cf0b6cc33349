"""Follows several inboxes for one listener, and merges their events inbox by inbox."""

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from msgspec import Struct

from tmpmaild.errors import AddressExpired, AddressNotFound, Unauthorized
from tmpmaild.inboxes.bus import WakeUp
from tmpmaild.inboxes.following import Event, Follower, Following
from tmpmaild.model import Feature


class InboxToFollow(Struct, frozen=True):
    """An inbox to follow: its address in the client's spelling, its token, and the requested messages."""

    address: str
    token: str | None = None
    after: str | None = None
    has: frozenset[Feature] = frozenset()


class Unavailable(Struct, frozen=True):
    """An inbox cannot be read; the reason is not disclosed. ``named`` is its address in the client's spelling."""

    named: str


class NotChecked(Struct, frozen=True):
    """An inbox was not checked, because the client was unable to pay for it or for an earlier unreadable inbox."""

    named: str


class NamedEvent(Struct, frozen=True):
    """An event, and the inbox to which it belongs."""

    named: str
    event: Event
    following: Following


SeveralEvent = NamedEvent | Unavailable | NotChecked


@asynccontextmanager
async def follow_several(
    follower: Follower, requests: Sequence[InboxToFollow], pay: Callable[[], Awaitable[bool]]
) -> AsyncIterator["SeveralFollowing"]:
    """Follow every inbox in ``requests`` that can be read.

    ``pay`` is called for each unreadable inbox, before anything is disclosed about it. If ``pay`` returns False, that
    inbox and all later inboxes are not followed. Therefore, clients cannot find out for free which inboxes are
    readable.
    """
    wake_up = WakeUp()
    async with AsyncExitStack() as stack:
        several = SeveralFollowing(wake_up)
        for number, request in enumerate(requests):
            try:
                one = follower.follow(request.address, request.after, request.token, has=request.has, shared=wake_up)
                several.add(request.address, await stack.enter_async_context(one))
            except (AddressNotFound, AddressExpired, Unauthorized):
                if not await pay():
                    several.add_unfollowed([NotChecked(skipped.address) for skipped in requests[number:]])
                    break
                several.add_unfollowed([Unavailable(request.address)])
        yield several


class SeveralFollowing:
    """The events of several inboxes for one listener."""

    def __init__(self, wake_up: WakeUp) -> None:
        self._wake_up = wake_up
        self._unfollowed: list[Unavailable | NotChecked] = []
        self._open: deque[tuple[str, Following]] = deque()

    def add(self, named: str, following: Following) -> None:
        """Add an inbox; its subscription must use the listener's wake-up event."""
        self._open.append((named, following))

    def add_unfollowed(self, inboxes: Sequence[Unavailable | NotChecked]) -> None:
        """Add inboxes that are not followed; ``next`` returns them first."""
        self._unfollowed += inboxes

    @property
    def has_ended(self) -> bool:
        """Whether ``next`` has returned the final event of every inbox."""
        return not self._unfollowed and not self._open

    async def next(self, seconds: float) -> Sequence[SeveralEvent]:
        """Return the next events of one inbox, the inboxes that are not followed, or an empty list on timeout.

        Raises the same errors as ``Following.next``.
        """
        if self._unfollowed:
            unfollowed, self._unfollowed = self._unfollowed, []
            return unfollowed
        deadline = anyio.current_time() + seconds
        while True:
            events = await self._poll()
            left_seconds = deadline - anyio.current_time()
            if events or left_seconds <= 0:
                return events
            if any(following.has_unread for _, following in self._open):
                continue
            await self._wake_up.wait(min([left_seconds, *[following.seconds_left for _, following in self._open]]))

    async def may_show(self, event: SeveralEvent) -> bool:
        """Return the result of ``Following.may_show`` for an inbox's event."""
        return not isinstance(event, NamedEvent) or await event.following.may_show(event.event)

    def seconds_to_show(self, event: SeveralEvent) -> float:
        """Return the result of ``Following.seconds_to_show`` for an inbox's event."""
        return event.following.seconds_to_show(event.event) if isinstance(event, NamedEvent) else math.inf

    async def _poll(self) -> Sequence[NamedEvent]:
        """Return the events of the first queued inbox that has events, and move this inbox to the end of the queue."""
        for _ in range(len(self._open)):
            named, following = self._open.popleft()
            events = await following.poll()
            if not following.has_ended:
                self._open.append((named, following))
            if events:
                return [NamedEvent(named, event, following) for event in events]
        return []
