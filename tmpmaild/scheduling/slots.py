"""Slots: a limited number of places in memory, which clients take turns to use and lose if they read too slowly."""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio

from tmpmaild.clients import client_network
from tmpmaild.scheduling.fairqueue import Eligible, FairQueue
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.scheduling.usage import Timer

GRACE_SECONDS: Final = 0.25
"""How far a client with several slots may fall behind ``PACE_BYTES_PER_SECOND`` while other clients wait for a slot."""

LONE_GRACE_SECONDS: Final = 5.0
"""The same limit for a client that has no more slots than the waiting client would have after the revocation."""

PACE_BYTES_PER_SECOND: Final = 400 * 1024

_MIN_PAUSE_SECONDS: Final = 0.01
_EXEMPT: Final = "exempt"
_ORDINARY: Final = "ordinary"

log = logging.getLogger(__name__)


class Slot:
    """A slot that is assigned to a client.

    ``scope`` is cancelled if the slot is revoked while data is being sent to the client.
    """

    def __init__(self, client: str, timer: Timer, *, exempt: bool) -> None:
        self.client = client
        self.exempt = exempt
        self.scope = anyio.CancelScope()
        self._timer = timer
        self._sending_seconds = 0.0
        self._sending_since: float | None = None
        self._sending_bytes = 0
        self._sent_bytes = 0

    @contextmanager
    def sending(self, size_bytes: int) -> Iterator[None]:
        """Measure how fast ``size_bytes`` are sent in this block, which must end when the client has received them."""
        self._sending_since, self._sending_bytes = self._timer.monotonic(), size_bytes
        try:
            yield
            self._sent_bytes += size_bytes
        finally:
            self._sending_seconds += self._timer.monotonic() - self._sending_since
            self._sending_since = None

    def behind_seconds(self) -> float | None:
        """Return how many seconds the client is behind ``PACE_BYTES_PER_SECOND``, or None if no data is being sent.

        The result is the larger of two delays: the delay of the whole response, and that of the part that is being
        sent. The kernel accepts the first parts immediately, so with the first delay alone a client that reads nothing
        would gain almost a second.
        """
        if self._sending_since is None:
            return None
        part_seconds = self._timer.monotonic() - self._sending_since
        all_seconds = self._sending_seconds + part_seconds
        return max(
            all_seconds - self._sent_bytes / PACE_BYTES_PER_SECOND,
            part_seconds - self._sending_bytes / PACE_BYTES_PER_SECOND,
        )


class Slots:
    """A fixed number of slots, which represent memory and are assigned to clients in the same order as turns.

    A client may have at most ``per_client`` slots, and a network at most three quarters of all slots; exempt clients
    have no such limits. A client that reads too slowly loses its slot if another client is waiting for a slot. This
    happens after ``GRACE_SECONDS`` if the slow client has more slots than the waiting client would have after the
    revocation, otherwise after ``LONE_GRACE_SECONDS``.
    """

    def __init__(
        self,
        scheduler: FairScheduler,
        most: int,
        per_client: int,
        timer: Timer = time,
    ) -> None:
        self._most = most
        self._per_client = per_client
        self._per_network = math.ceil(most * 3 / 4)
        self._timer = timer
        self._queue = FairQueue[Slot](scheduler.usage, timer)
        self._occupied: set[Slot] = set()
        self._of_client: Counter[str] = Counter()  # slots of exempt clients are not counted here
        self._of_network: Counter[str] = Counter()
        self._preemption: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._occupied)

    @asynccontextmanager
    async def take(self, client: str, *, exempt: bool = False) -> AsyncIterator[Slot]:
        """Wait for a slot, and keep it until the block ends."""
        kind = _EXEMPT if exempt else _ORDINARY
        slot = await self._queue.wait(client, kind, joined=self._dispatch, release=self._release)
        try:
            yield slot
        finally:
            self._release(slot)

    def _release(self, slot: Slot) -> None:
        self._occupied.remove(slot)
        if not slot.exempt:
            self._count(slot.client, -1)
        self._dispatch()

    def _count(self, client: str, more: int) -> None:
        for counter, key in ((self._of_client, client), (self._of_network, client_network(client))):
            counter[key] += more
            if not counter[key]:
                del counter[key]

    def _dispatch(self) -> None:
        while (waiting := self._queue.next(self._eligible())) is not None:
            flow = waiting.flow
            slot = Slot(flow.client, self._timer, exempt=flow.kind == _EXEMPT)
            self._occupied.add(slot)
            if not slot.exempt:
                self._count(slot.client, 1)
            waiting.grant(slot)
        self._preempt_soon()

    def _eligible(self) -> dict[str, Eligible]:
        if len(self._occupied) >= self._most:
            return {}
        return {_EXEMPT: Eligible(), _ORDINARY: Eligible(self._has_network_share, self._is_below_share)}

    def _is_below_share(self, client: str) -> bool:
        return self._of_client[client] < self._per_client

    def _has_network_share(self, network: str) -> bool:
        return self._of_network[network] < self._per_network

    def _contended(self, client: str) -> list[Slot]:
        """Return the slots that could be revoked to make room for a waiting client."""
        if len(self._occupied) >= self._most:
            return list(self._occupied)
        network = client_network(client)
        return [slot for slot in self._occupied if not slot.exempt and client_network(slot.client) == network]

    def _preempt_soon(self) -> None:
        """If a client is waiting, revoke a slot now or as soon as this is allowed."""
        if self._preemption is not None:
            self._preemption.cancel()
            self._preemption = None
        if (left_seconds := self.preempt()) is not None:
            self._preemption = asyncio.get_running_loop().call_later(left_seconds, self._preempt_soon)

    def preempt(self) -> float | None:
        """Disconnect the client that is furthest behind, if another client is waiting for its slot.

        Return the number of seconds until the next attempt, or None if no client is waiting.
        """
        waiting = self._queue.first({_EXEMPT: Eligible(), _ORDINARY: Eligible(client=self._is_below_share)})
        if waiting is None:
            return None
        client = waiting.flow.client
        contended = self._contended(client)
        if any(slot.scope.cancel_called for slot in contended):  # a slot will be free shortly
            return GRACE_SECONDS
        overdue = [(self._overdue_seconds(slot, client), slot) for slot in contended]
        seconds, slowest = max(overdue, key=lambda one: one[0])
        if seconds < 0:
            return min(max(-seconds, _MIN_PAUSE_SECONDS), GRACE_SECONDS)
        extra = {"event": "http_slow_reader", "client": slowest.client}
        log.info("disconnected %s: it read too slowly while other clients were waiting", slowest.client, extra=extra)
        slowest.scope.cancel()
        return GRACE_SECONDS

    def _overdue_seconds(self, slot: Slot, waiting_client: str) -> float:
        """Return how many seconds ago a slot became revocable; negative if it is not revocable yet."""
        behind_seconds = slot.behind_seconds()
        if behind_seconds is None:
            return -math.inf
        has_more = not slot.exempt and self._of_client[slot.client] > self._of_client[waiting_client] + 1
        return behind_seconds - (GRACE_SECONDS if has_more else LONE_GRACE_SECONDS)
