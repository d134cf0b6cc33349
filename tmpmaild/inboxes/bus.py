"""The listeners of inboxes: a commit wakes the listeners of the inboxes that it has changed.

New mail only sets a flag on each listener, regardless of the number of messages; the listener reads them from storage.
Therefore, a slow listener uses no extra memory, and a message that arrives between a read and the next wait is not
missed.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from tmpmaild.errors import Stopping
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, VerdictReached

_MAX_NOTICES = 200

Notice = MessageDeleted | InboxDeleted | ExpiryMoved | VerdictReached


class Overflow(Exception):
    """Some notices were dropped because a listener read them too slowly."""


class WakeUp:
    """The event that a listener waits for. A listener's subscriptions to several inboxes share this event."""

    __slots__ = ("_stopping", "_woken")

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._stopping = False

    async def wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` for a change; return immediately if there has been one since the last call.

        Raises ``Stopping``.
        """
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
        """End the current ``wait`` or, if there is none, the next one."""
        self._woken.set()

    def stop(self) -> None:
        """Make the current and all later calls of ``wait`` raise ``Stopping``."""
        self._stopping = True
        self._woken.set()


class Subscription:
    """The changes to one inbox that a listener has not read yet. Created by ``Bus.subscribe``."""

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
        """Return all changes except new mail, in order. Raises ``Overflow``."""
        if self._overflowed:
            raise Overflow
        notices = list(self._notices)
        self._notices.clear()
        return notices

    async def wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` for a change; return immediately if there has been one since the last call.

        Raises ``Stopping``.
        """
        await self.wake_up.wait(seconds)

    def overflow(self) -> None:
        """Record that changes were lost, and wake the listener.

        The listener then reads its inbox, or stops and can be resumed.
        """
        self._has_mail = self._overflowed = True
        self.wake_up.wake()

    def notify(self, change: InboxChange) -> None:
        """Record a change and wake the listener."""
        if change.notice is None:
            self._has_mail = True
        elif len(self._notices) < _MAX_NOTICES:
            self._notices.append(change.notice)
        else:
            self._overflowed = True
        self.wake_up.wake()


class Bus:
    """The listeners of all inboxes. A change wakes only the listeners of its inbox."""

    def __init__(self) -> None:
        self.listeners: dict[str, set[Subscription]] = {}
        self._stopping = False

    def __len__(self) -> int:
        return sum(map(len, self.listeners.values()))

    @contextmanager
    def subscribe(self, inbox_id: str, wake_up: WakeUp | None = None) -> Iterator[Subscription]:
        """Subscribe to the changes to one inbox for the duration of the ``with`` block."""
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
                subscription.notify(change)

    def listened_inboxes(self) -> Collection[str]:
        """Return the ids of the inboxes that have listeners."""
        return self.listeners.keys()

    def overflow(self) -> None:
        """Record for all listeners that some changes were not published."""
        for listeners in self.listeners.values():
            for subscription in listeners:
                subscription.overflow()

    def stop(self) -> None:
        """Make the current and all later calls of ``wait`` raise ``Stopping``, for all listeners."""
        self._stopping = True
        for listeners in self.listeners.values():
            for subscription in listeners:
                subscription.wake_up.stop()
