"""Who waits for what happens to an inbox, and how they are woken; nothing is read or sent here.

News of mail are one flag a listener, however much comes: what came is read from storage. So nobody who is slow holds
memory, and nobody who looks, then sleeps, misses what came in between.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tmpmaild.errors import Stopping
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted

Notice = MessageDeleted | InboxDeleted | ExpiryMoved

_MAX_NOTICES = 200


class Overflow(Exception):
    """A listener has not looked for so long that it can no longer be told everything."""


class Subscription:
    """What one listener has not looked at yet. Made by ``Bus.subscribe``."""

    __slots__ = ("_has_mail", "_notices", "_overflowed", "_stopping", "_woken")

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._notices: deque[Notice] = deque()
        self._has_mail = False
        self._overflowed = False
        self._stopping = False

    def take_mail(self) -> bool:
        """Tell whether mail has come since this was last asked."""
        had_mail, self._has_mail = self._has_mail, False
        return had_mail

    def take_notices(self) -> list[Notice]:
        """Return what has happened but mail, in order. Raises ``Overflow``."""
        if self._overflowed:
            raise Overflow
        notices = list(self._notices)
        self._notices.clear()
        return notices

    async def wait(self, seconds: float) -> None:
        """Sleep until something has happened since the last call, or for so long. Raises ``Stopping``."""
        if not self._stopping:
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return
            self._woken.clear()
        if self._stopping:
            raise Stopping("nobody waits any longer")

    def tell(self, change: InboxChange) -> None:
        """Note a change and wake the listener."""
        if change.notice is None:
            self._has_mail = True
        elif len(self._notices) < _MAX_NOTICES:
            self._notices.append(change.notice)
        else:
            self._overflowed = True
        self._woken.set()

    def stop(self) -> None:
        """Wake the listener for the last time."""
        self._stopping = True
        self._woken.set()


class Bus:
    """The listeners of all inboxes. A change wakes those of its inbox and nobody else."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Subscription]] = {}
        self._stopping = False

    def __len__(self) -> int:
        return sum(map(len, self._listeners.values()))

    @contextmanager
    def subscribe(self, inbox_id: str) -> Iterator[Subscription]:
        """Listen to one inbox."""
        subscription = Subscription()
        if self._stopping:
            subscription.stop()
        listeners = self._listeners.setdefault(inbox_id, set())
        listeners.add(subscription)
        try:
            yield subscription
        finally:
            listeners.discard(subscription)
            if not listeners:
                self._listeners.pop(inbox_id, None)

    def publish(self, changes: Sequence[InboxChange]) -> None:
        """Wake who listens to the inboxes that have changed."""
        for change in changes:
            for subscription in self._listeners.get(change.inbox_id, ()):
                subscription.tell(change)

    def stop(self) -> None:
        """Wake everybody, now and in future, with ``Stopping``."""
        self._stopping = True
        for listeners in self._listeners.values():
            for subscription in listeners:
                subscription.stop()
