"""Waiting for mail, and following all events of one inbox or several.

A commit wakes the listeners of its inboxes by the ``Bus``. New mail sets one flag per listener, however many messages
arrive: the listener reads them from storage. So a slow listener takes no memory, and mail that arrives between its read
and its wait is not missed.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial

import anyio
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import AddressExpired, AddressNotFound, MessageNotFound, RequestError, Stopping, Unauthorized
from tmpmaild.inboxes.access import Access
from tmpmaild.inboxes.caches import Invalidation
from tmpmaild.inboxes.reading import MailReader, rest_of
from tmpmaild.model import (
    ExpiryMoved,
    Feature,
    Inbox,
    InboxChange,
    InboxDeleted,
    Listing,
    Message,
    MessageDeleted,
    Page,
    VerdictReached,
)

# Bounds the memory of a listener that does not read; a longer body is cut, and the client reads that message by id.
_MESSAGES_AT_ONCE = 10
_BODIES_BYTES = 64 * 1024
_OTHER_CHARACTERS = 64 * 1024
_EVENTS = Page(ascending=True, limit=_MESSAGES_AT_ONCE, bodies_bytes=_BODIES_BYTES, other_characters=_OTHER_CHARACTERS)
_MAX_NOTICES = 200

Notice = MessageDeleted | InboxDeleted | ExpiryMoved | VerdictReached


class InboxExpired(Struct, frozen=True):
    """An inbox has expired."""


class BacklogShown(Struct, frozen=True):
    """All mail that an inbox had has been returned; ``inbox`` is its state at that moment."""

    inbox: Inbox


Event = Message | Notice | InboxExpired | BacklogShown


class Overflow(Exception):
    """A listener has not taken its notices for so long that some were dropped."""


class WakeUp:
    """What a listener sleeps on. The subscriptions of a listener to several inboxes share one."""

    __slots__ = ("_stopping", "_woken")

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._stopping = False

    async def wait(self, seconds: float) -> None:
        """Wait for a change since the last call, at most so many seconds. Raises ``Stopping``."""
        if not self._stopping:
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return
            self._woken.clear()
        if self._stopping:
            raise Stopping("the service is stopping")

    def wake(self) -> None:
        """End the present ``wait``, or the next one."""
        self._woken.set()

    def stop(self) -> None:
        """Make ``wait`` raise ``Stopping``, now and later."""
        self._stopping = True
        self._woken.set()


class Subscription:
    """The changes of one inbox that a listener has not taken yet. Made by ``Bus.subscribe``."""

    __slots__ = ("_has_mail", "_notices", "_overflowed", "wake_up")

    def __init__(self, wake_up: WakeUp) -> None:
        self.wake_up = wake_up
        self._notices: deque[Notice] = deque()
        self._has_mail = False
        self._overflowed = False

    def take_mail(self) -> bool:
        """Return whether mail has arrived since the last call."""
        had_mail, self._has_mail = self._has_mail, False
        return had_mail

    def take_notices(self) -> list[Notice]:
        """Return the changes other than new mail, in order. Raises ``Overflow``."""
        if self._overflowed:
            raise Overflow
        notices = list(self._notices)
        self._notices.clear()
        return notices

    async def wait(self, seconds: float) -> None:
        """Wait for a change since the last call, at most so many seconds. Raises ``Stopping``."""
        await self.wake_up.wait(seconds)

    def overflow(self) -> None:
        """Note that changes are missing, and wake the listener: it reads the mail, or ends to be resumed."""
        self._has_mail = self._overflowed = True
        self.wake_up.wake()

    def tell(self, change: InboxChange) -> None:
        """Note a change and wake the listener."""
        if change.notice is None:
            self._has_mail = True
        elif len(self._notices) < _MAX_NOTICES:
            self._notices.append(change.notice)
        else:
            self._overflowed = True
        self.wake_up.wake()


class Bus:
    """The listeners of all inboxes. A change wakes only those of its inbox."""

    def __init__(self) -> None:
        self.listeners: dict[str, set[Subscription]] = {}
        self._stopping = False

    def __len__(self) -> int:
        return sum(map(len, self.listeners.values()))

    @contextmanager
    def subscribe(self, inbox_id: str, wake_up: WakeUp | None = None) -> Iterator[Subscription]:
        """Listen to one inbox."""
        subscription = Subscription(wake_up or WakeUp())
        if self._stopping:
            subscription.wake_up.stop()
        listeners = self.listeners.setdefault(inbox_id, set())
        listeners.add(subscription)
        try:
            yield subscription
        finally:
            listeners.discard(subscription)
            if not listeners:
                self.listeners.pop(inbox_id, None)

    def publish(self, changes: Sequence[InboxChange]) -> None:
        """Wake the listeners of the inboxes that have changed."""
        for change in changes:
            for subscription in self.listeners.get(change.inbox_id, ()):
                subscription.tell(change)

    def listened(self) -> Collection[str]:
        """Return the ids of the inboxes that have listeners."""
        return self.listeners.keys()

    def overflow(self) -> None:
        """Make all listeners overflow: some changes were not told."""
        for listeners in self.listeners.values():
            for subscription in listeners:
                subscription.overflow()

    def stop(self) -> None:
        """Make ``wait`` raise ``Stopping`` for all listeners, now and later."""
        self._stopping = True
        for listeners in self.listeners.values():
            for subscription in listeners:
                subscription.wake_up.stop()


class Follower:
    """Waits for mail and events on behalf of clients. ``clock`` gives Unix milliseconds."""

    def __init__(self, mail: MailReader, access: Access, bus: Bus, *, clock: Callable[[], int]) -> None:
        self._mail = mail
        self._access = access
        self._bus = bus
        self._clock = clock

    async def wait(self, address: str, page: Page, token: str | None, seconds: float) -> Listing:
        """Return a page as soon as it has a message, or an empty one after ``seconds``.

        Raises as ``MailReader.list``, ``AddressExpired`` as soon as it is true, and ``Stopping``.
        """
        deadline = anyio.current_time() + seconds
        inbox = await self._access.find(address, token)
        looking = _Looking(page)
        with self._bus.subscribe(inbox.id) as subscription:
            while True:
                listing = await self._mail.list(address, looking.page, token)
                left_seconds = deadline - anyio.current_time()
                if listing.messages or left_seconds <= 0:
                    return listing
                looking.move_past(listing)
                if listing.has_more:
                    continue
                await subscription.wait(min(left_seconds, seconds_until(listing.inbox.expires_at_ms, self._clock())))
                if "verdict" in page.has:  # of a message that was looked at without one
                    looking = _Looking(page)

    def watch(self, inbox: Inbox, message_id: str = "") -> Callable[[], Awaitable[None]]:
        """Return a function that returns once an inbox, or a message in it, has expired or been deleted.

        Both may be shown at the time of the call.
        """
        return partial(self._ended, inbox, message_id, self._mail.last_invalidation)

    async def _ended(self, inbox: Inbox, message_id: str, since: Invalidation) -> None:
        with self._bus.subscribe(inbox.id) as subscription, suppress(RequestError):
            while True:
                inbox = await self._access.confirm(inbox, message_id, since)
                since = self._mail.last_invalidation
                seconds = seconds_until(inbox.expires_at_ms, self._clock())
                try:
                    await subscription.wait(seconds)
                except Stopping:
                    await anyio.sleep(seconds)

    @asynccontextmanager
    async def follow(
        self,
        address: str,
        after: str | None,
        token: str | None,
        *,
        has: frozenset[Feature] = frozenset(),
        shared: WakeUp | None = None,
    ) -> AsyncIterator["Following"]:
        """Follow an inbox from a message on, or from its beginning. Raises as ``MailReader.list``.

        Messages that do not have all of ``has`` are left out, their deletion is not.
        ``shared`` is what the listener sleeps on if this is one of several inboxes; then ``BacklogShown`` is an event.
        """
        inbox = await self._access.find(address, token)
        self._mail.ensure_possible(has)
        with self._bus.subscribe(inbox.id, shared) as subscription:
            page = replace(_EVENTS, after=after, has=has)
            yield Following(
                self._mail,
                subscription,
                inbox,
                page=page,
                token=token,
                clock=self._clock,
                tells_backlog=shared is not None,
            )


class Following:
    """The events of an inbox for one listener."""

    def __init__(
        self,
        mail: MailReader,
        subscription: Subscription,
        inbox: Inbox,
        *,
        page: Page,
        token: str | None,
        clock: Callable[[], int],
        tells_backlog: bool = False,
    ) -> None:
        self.inbox = inbox
        self.has_ended = False
        self._tells_backlog = tells_backlog
        self._mail = mail
        self._read_at = mail.last_invalidation
        self._subscription = subscription
        self._looking = _Looking(page)
        self._token = token
        self._clock = clock
        self._expires_at_ms = inbox.expires_at_ms
        self.has_unread = True

    async def next(self, seconds: float) -> Sequence[Event]:
        """Return the next events, a few at a time; an empty list if there are none within ``seconds``.

        The end of the inbox is the last event. Raises ``Overflow`` and the errors of ``MailReader.list``.
        """
        deadline = anyio.current_time() + seconds
        while True:
            events = await self.look()
            left_seconds = deadline - anyio.current_time()
            if events or left_seconds <= 0:
                return events
            if self.has_unread:
                continue
            await self._subscription.wait(min(left_seconds, self.seconds_left))

    async def may_show(self, event: Event) -> bool:
        """Return whether an event from ``next`` may still be shown: its message may have been deleted since.

        If so, a later event from ``next`` says it.
        """
        if isinstance(event, Message):
            try:
                await self._mail.confirm(self.inbox, event.id, self._read_at)
            except (AddressExpired, AddressNotFound, MessageNotFound):
                return False
        return True

    def seconds_to_show(self, event: Event) -> float:
        """Return for how long an event may still be shown: as long as its message may."""
        return self.seconds_left if isinstance(event, Message) else math.inf

    @property
    def seconds_left(self) -> float:
        """How long until the inbox ends, so far as is known; above 0."""
        return seconds_until(self._expires_at_ms, self._clock())

    async def look(self) -> Sequence[Event]:
        """Return what ``next`` returns, without waiting for it."""
        # The last events have been shown by now. An older invalidation would keep all later ones in memory.
        self._read_at = self._mail.last_invalidation
        self.has_unread = self._subscription.take_mail() or self.has_unread
        # Its expiry may have been moved since it was last read.
        if self.has_unread or self._expires_at_ms <= self._clock():
            try:
                events = await self._read()
            except AddressExpired:
                return self._last()
            if events:
                return events
        return self._notices()

    def _notices(self) -> list[Notice]:
        notices = self._subscription.take_notices()
        for notice in notices:
            if isinstance(notice, ExpiryMoved):
                self._expires_at_ms = notice.expires_at_ms
            elif isinstance(notice, VerdictReached):
                self.has_unread = True
        self.has_ended = InboxDeleted() in notices
        return notices

    async def _read(self) -> Sequence[Event]:
        listing = await self._mail.list(self.inbox.address, self._looking.page, self._token)
        self._read_at = self._mail.last_invalidation
        self.inbox = listing.inbox
        self.has_unread = listing.has_more
        self._expires_at_ms = listing.inbox.expires_at_ms
        self._looking.move_past(listing)
        if not self._tells_backlog or self.has_unread:
            return listing.messages
        # Before any notice is taken: the state is older than a notice that comes after it.
        self._tells_backlog = False
        return [*listing.messages, BacklogShown(listing.inbox)]

    def _last(self) -> Sequence[Event]:
        """Return the events before the end of the inbox, and the end."""
        notices = self._notices()
        if self.has_ended:
            return notices
        self.has_ended = True
        # Storage may know of a deletion before its notice arrives here; then the inbox ends before its expiry.
        return [*notices, InboxDeleted() if self._clock() < self._expires_at_ms else InboxExpired()]


class _Looking:
    """Which messages are to be looked at next, so that each is looked at once."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._before = page.before
        self._searched_to: str | None = None

    def move_past(self, listing: Listing) -> None:
        """Leave out what was looked at."""
        looked_to = listing.looked_to or (listing.messages[-1].id if listing.messages else None)
        # Newest first, mail that came since the first look is above all that followed it.
        if self._searched_to is None or self.page.ascending:
            self._searched_to = listing.searched_to
        if not listing.has_more:
            after = max(self._searched_to or "", looked_to or "", self.page.after or "")
            self.page = replace(self.page, after=after or None, before=self._before)
            self._searched_to = None
        elif looked_to is not None:
            self.page = rest_of(self.page, looked_to)


def seconds_until(expires_at_ms: int, now_ms: int) -> float:
    """Return how long to sleep so as to wake when an inbox ends."""
    return max((expires_at_ms - now_ms) / 1000, 0.001)


class InboxToFollow(Struct, frozen=True):
    """An inbox to follow: the address as the client writes it, its token, and which of its messages are wanted."""

    address: str
    token: str | None = None
    after: str | None = None
    has: frozenset[Feature] = frozenset()


class Unavailable(Struct, frozen=True):
    """An inbox cannot be read, for whatever reason. ``named`` is its address as the client wrote it."""

    named: str


class NotLookedAt(Struct, frozen=True):
    """An inbox was not opened, because the client could not pay for one that cannot be read."""

    named: str


class NamedEvent(Struct, frozen=True):
    """An event of one of several inboxes."""

    named: str
    event: Event
    following: Following


SeveralEvent = NamedEvent | Unavailable | NotLookedAt


@asynccontextmanager
async def follow_several(
    follower: Follower, requests: Sequence[InboxToFollow], pay: Callable[[], Awaitable[bool]]
) -> AsyncIterator["SeveralFollowing"]:
    """Follow those of the inboxes that can be read.

    ``pay`` is called for each other one, before anything is said about it; if it returns False, that one and all after
    it are not followed. So how many can be read is not known either, beyond what was paid for.
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
                    several.leave_out([NotLookedAt(left.address) for left in requests[number:]])
                    break
                several.leave_out([Unavailable(request.address)])
        yield several


class SeveralFollowing:
    """The events of several inboxes for one listener."""

    def __init__(self, wake_up: WakeUp) -> None:
        self._wake_up = wake_up
        self._left_out: list[Unavailable | NotLookedAt] = []
        self._open: deque[tuple[str, Following]] = deque()

    def add(self, named: str, following: Following) -> None:
        """Add an inbox whose subscription has the listener's wake-up."""
        self._open.append((named, following))

    def leave_out(self, inboxes: Sequence[Unavailable | NotLookedAt]) -> None:
        """Add inboxes that are not followed; ``next`` returns them first."""
        self._left_out += inboxes

    @property
    def has_ended(self) -> bool:
        """Whether ``next`` has returned the end of every inbox."""
        return not self._left_out and not self._open

    async def next(self, seconds: float) -> Sequence[SeveralEvent]:
        """Return the next events of one inbox, or those of inboxes left out; an empty list if none come in time.

        Raises as ``Following.next``.
        """
        if self._left_out:
            left_out, self._left_out = self._left_out, []
            return left_out
        deadline = anyio.current_time() + seconds
        while True:
            events = await self._look()
            left_seconds = deadline - anyio.current_time()
            if events or left_seconds <= 0:
                return events
            if any(following.has_unread for _, following in self._open):
                continue
            await self._wake_up.wait(min([left_seconds, *[following.seconds_left for _, following in self._open]]))

    async def may_show(self, event: SeveralEvent) -> bool:
        """Return as ``Following.may_show``."""
        return not isinstance(event, NamedEvent) or await event.following.may_show(event.event)

    def seconds_to_show(self, event: SeveralEvent) -> float:
        """Return as ``Following.seconds_to_show``."""
        return event.following.seconds_to_show(event.event) if isinstance(event, NamedEvent) else math.inf

    async def _look(self) -> Sequence[NamedEvent]:
        """Return events of the next inbox that has some; it takes its next turn after all others."""
        for _ in range(len(self._open)):
            named, following = self._open.popleft()
            events = await following.look()
            if not following.has_ended:
                self._open.append((named, following))
            if events:
                return [NamedEvent(named, event, following) for event in events]
        return []
