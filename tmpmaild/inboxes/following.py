"""Waits for mail, and follows all events of one inbox."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.errors import AddressExpired, AddressNotFound, MessageNotFound, RequestError, Stopping
from tmpmaild.inboxes.access import Access
from tmpmaild.inboxes.bus import Bus, Notice, Subscription, WakeUp
from tmpmaild.inboxes.caches import Invalidation
from tmpmaild.inboxes.filtering import rest_of
from tmpmaild.inboxes.reading import MailReader
from tmpmaild.model import (
    ExpiryMoved,
    Feature,
    Inbox,
    InboxDeleted,
    Listing,
    Message,
    Page,
    VerdictReached,
)

# Limits the memory used for a listener that does not read. A longer body is truncated; the client can read the complete
# message by its id.
_MESSAGES_AT_ONCE = 10
_BODIES_BYTES = 64 * 1024
_OTHER_CHARACTERS = 64 * 1024
_EVENTS = Page(ascending=True, limit=_MESSAGES_AT_ONCE, bodies_bytes=_BODIES_BYTES, other_characters=_OTHER_CHARACTERS)


class InboxExpired(Struct, frozen=True):
    """The inbox has expired."""


class BacklogShown(Struct, frozen=True):
    """All existing messages of an inbox have been returned; ``inbox`` is its state at that moment."""

    inbox: Inbox


Event = Message | Notice | InboxExpired | BacklogShown


class Follower:
    """Waits for mail and events on behalf of clients. ``clock`` returns Unix milliseconds."""

    def __init__(self, mail: MailReader, access: Access, bus: Bus, *, clock: Callable[[], int]) -> None:
        self._mail = mail
        self._access = access
        self._bus = bus
        self._clock = clock

    async def wait(self, address: str, page: Page, token: str | None, seconds: float) -> Listing:
        """Return a page as soon as it contains a message, or an empty page after ``seconds``.

        Raises ``Stopping``, and the same errors as ``MailReader.list`` (``AddressExpired`` as soon as the address
        expires).
        """
        deadline = anyio.current_time() + seconds
        inbox = await self._access.find(address, token)
        cursor = _Cursor(page)
        with self._bus.subscribe(inbox.id) as subscription:
            while True:
                listing = await self._mail.list(address, cursor.page, token)
                left_seconds = deadline - anyio.current_time()
                if listing.messages or left_seconds <= 0:
                    return listing
                cursor.move_past(listing)
                if listing.has_more:
                    continue
                await subscription.wait(min(left_seconds, seconds_until(listing.inbox.expires_at_ms, self._clock())))
                if "verdict" in page.has:  # a message may have been read before its verdict was known
                    cursor = _Cursor(page)

    def watch(self, inbox: Inbox, message_id: str = "") -> Callable[[], Awaitable[None]]:
        """Return a function that waits until an inbox, or a message in it, has expired or been deleted.

        Both must be readable when this method is called.
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
        """Follow an inbox from its beginning or after a given message. Raises the same errors as ``MailReader.list``.

        Messages that lack a feature in ``has`` are omitted, but their deletion is still reported. If the listener
        follows several inboxes, ``shared`` is the event it waits for, and ``BacklogShown`` is also reported.
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
                reports_backlog=shared is not None,
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
        reports_backlog: bool = False,
    ) -> None:
        self.inbox = inbox
        self.has_ended = False
        self._reports_backlog = reports_backlog
        self._mail = mail
        self._read_at = mail.last_invalidation
        self._subscription = subscription
        self._cursor = _Cursor(page)
        self._token = token
        self._clock = clock
        self._expires_at_ms = inbox.expires_at_ms
        self.has_unread = True

    async def next(self, seconds: float) -> Sequence[Event]:
        """Return the next few events, or an empty list if there are none within ``seconds``.

        The last event is the inbox's expiry or deletion. Raises ``Overflow`` and the same errors as
        ``MailReader.list``.
        """
        deadline = anyio.current_time() + seconds
        while True:
            events = await self.poll()
            left_seconds = deadline - anyio.current_time()
            if events or left_seconds <= 0:
                return events
            if self.has_unread:
                continue
            await self._subscription.wait(min(left_seconds, self.seconds_left))

    async def may_show(self, event: Event) -> bool:
        """Return whether an event from ``next`` may still be shown: its message may have been deleted in the meantime.

        If so, a later event from ``next`` reports the deletion.
        """
        if isinstance(event, Message):
            try:
                await self._mail.confirm(self.inbox, event.id, self._read_at)
            except (AddressExpired, AddressNotFound, MessageNotFound):
                return False
        return True

    def seconds_to_show(self, event: Event) -> float:
        """Return the number of seconds for which an event may still be shown, which is limited only for messages."""
        return self.seconds_left if isinstance(event, Message) else math.inf

    @property
    def seconds_left(self) -> float:
        """The number of seconds until the inbox's last known expiry; always greater than 0."""
        return seconds_until(self._expires_at_ms, self._clock())

    async def poll(self) -> Sequence[Event]:
        """Return the result of ``next`` without waiting."""
        # The previous events have been shown. An older invalidation would keep all later invalidations in
        # memory.
        self._read_at = self._mail.last_invalidation
        self.has_unread = self._subscription.take_mail() or self.has_unread
        # The expiry may have changed since the inbox was last read.
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
        listing = await self._mail.list(self.inbox.address, self._cursor.page, self._token)
        self._read_at = self._mail.last_invalidation
        self.inbox = listing.inbox
        self.has_unread = listing.has_more
        self._expires_at_ms = listing.inbox.expires_at_ms
        self._cursor.move_past(listing)
        if not self._reports_backlog or self.has_unread:
            return listing.messages
        # Report the state before any notice, because the state is older than the notices that follow.
        self._reports_backlog = False
        return [*listing.messages, BacklogShown(listing.inbox)]

    def _last(self) -> Sequence[Event]:
        """Return the inbox's last notices, and the event that reports its expiry or deletion."""
        notices = self._notices()
        if self.has_ended:
            return notices
        self.has_ended = True
        # A deletion may be visible in storage before its notice arrives here. In that case the inbox disappears before
        # its expiry.
        return [*notices, InboxDeleted() if self._clock() < self._expires_at_ms else InboxExpired()]


class _Cursor:
    """The position in an inbox at which the next read starts, so that each message is read only once."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._before = page.before
        self._searched_to: str | None = None

    def move_past(self, listing: Listing) -> None:
        """Advance past the messages that were read."""
        examined_to = listing.examined_to or (listing.messages[-1].id if listing.messages else None)
        # In newest-first order, mail that has arrived since the first page would belong before all later pages.
        if self._searched_to is None or self.page.ascending:
            self._searched_to = listing.searched_to
        if not listing.has_more:
            after = max(self._searched_to or "", examined_to or "", self.page.after or "")
            self.page = replace(self.page, after=after or None, before=self._before)
            self._searched_to = None
        elif examined_to is not None:
            self.page = rest_of(self.page, examined_to)


def seconds_until(expires_at_ms: int, now_ms: int) -> float:
    """Return the number of seconds to sleep until an inbox expires."""
    return max((expires_at_ms - now_ms) / 1000, 0.001)
