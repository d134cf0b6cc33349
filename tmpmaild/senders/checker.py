"""Checks stored messages: a few at a time, in threads, in the order in which clients receive turns.

A message that did not fit into the queue or was still queued when the daemon stopped is checked when it is read.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct

from tmpmaild.errors import RequestError
from tmpmaild.mail import addresses
from tmpmaild.metrics import Count, Gauge, Histogram, Metric
from tmpmaild.model import ArcVerdict, Authentication, DkimVerdict, FullMessage, SpfVerdict, unchecked
from tmpmaild.scheduling.slots import Slots
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.senders import dkim, dmarc, shown, spf
from tmpmaild.senders.resolver import Lookup, Resolver
from tmpmaild.storage.base import ANY_SIZE, Storage

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_SLOTS: Final = 32  # nearly all checks in progress are waiting for DNS responses
_SLOTS_PER_CLIENT: Final = 4
_MAX_WAITING: Final = 256
_HEAVY_BYTES: Final = 1024 * 1024  # larger messages are checked one at a time

log = logging.getLogger(__name__)
T = TypeVar("T")


class _Queued(Struct, frozen=True):
    """A message to check, and the address it was sent to.

    By the time of the check, the address may belong to a new inbox.
    """

    address: str
    message_id: str


class _Waiting(Struct, frozen=True):
    """The client on whose behalf a check waits, and the scope to cancel if the check must make room for others."""

    client: str
    scope: anyio.CancelScope


class Checker:
    """Checks the senders of messages, and stores the verdicts."""

    def __init__(self, storage: Storage, resolver: Resolver, scheduler: FairScheduler, timeout_seconds: int) -> None:
        self._storage = storage
        self._resolver = resolver
        self._scheduler = scheduler
        self._timeout_seconds = timeout_seconds
        self._clock = storage.clock
        # Only one thread computes while the other threads wait for DNS responses. Simultaneous computation in all
        # threads would starve the event loop.
        self._checking = Lock()
        self._threads = anyio.CapacityLimiter(_SLOTS)
        self._slots = Slots(scheduler, _SLOTS, _SLOTS_PER_CLIENT)
        self._heavy = Slots(scheduler, 1, 1)
        self._tasks: TaskGroup | None = None
        self._waiting: dict[_Queued, _Waiting] = {}
        self._queued: set[_Queued] = set()  # includes messages that are being checked
        self._checks = Count("senders_checks_total", "Sender checks, by DMARC result.", ("result",))
        self._left_out = Count("senders_left_out_total", "Messages not checked because too many were waiting.")
        self._took = Histogram("senders_check_seconds", "Duration of a sender check.")
        self._gauge = Gauge("senders_waiting", "Messages waiting for their sender check.", lambda: len(self._waiting))

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        return (self._checks, self._left_out, self._took, self._gauge, *self._resolver.metrics())

    def enqueue(self, address: str, message_id: str, client: str) -> bool:
        """Queue a message to be checked on behalf of a client; return False if too many messages are waiting.

        If the queue is full, messages of the client with the most waiting messages are dropped to make room for other
        clients.
        """
        queued = _Queued(address, message_id)
        if queued in self._queued:
            return True
        if len(self._waiting) >= _MAX_WAITING:
            self._left_out.add()
            if not self._make_room(client):
                return False
        self._queued.add(queued)
        self._waiting[queued] = _Waiting(client, anyio.CancelScope())
        if self._tasks is not None:
            self._tasks.start_soon(self._check_in_turn, queued)
        return True

    def _make_room(self, client: str) -> bool:
        """Drop the newest waiting message of the client with the most messages.

        Return False if no other client has more waiting messages than ``client`` would have.
        """
        counts = Counter([waiting.client for waiting in self._waiting.values()])
        ((largest, count),) = counts.most_common(1)
        if counts[client] + 1 >= count:
            return False
        newest = next(queued for queued in reversed(self._waiting) if self._waiting[queued].client == largest)
        self._waiting.pop(newest).scope.cancel()
        self._queued.discard(newest)
        return True

    async def run(self) -> None:
        """Check queued messages, until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                for queued in self._waiting:
                    self._tasks.start_soon(self._check_in_turn, queued)
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._resolver.close()

    async def _check_in_turn(self, queued: _Queued) -> None:
        waiting = self._waiting.get(queued)
        if waiting is None:
            return
        with waiting.scope:
            async with self._slots.take(waiting.client):
                self._waiting.pop(queued, None)
                try:
                    await self._check_stored(queued, waiting.client)
                except RequestError as error:  # the message no longer exists, or the storage is full or unavailable
                    log.debug("no verdict was stored: %s", error)
                except Exception:
                    log.exception("storing a verdict failed")
                finally:
                    self._queued.discard(queued)

    async def _check_stored(self, queued: _Queued, client: str) -> None:
        source = await self._read(queued, _HEAVY_BYTES)
        if source is None:
            return
        async with self._heavy.take(client) if source[1].source is None else nullcontext():
            if source[1].source is None:
                source = await self._read(queued, ANY_SIZE)
            if source is not None:
                found = await self._check(source[1], client)
                await self._storage.set_authentication(source[0], found, message_id=queued.message_id)

    async def _read(self, queued: _Queued, up_to_bytes: int) -> tuple[str, FullMessage] | None:
        """Return the inbox id and the message; None if either was deleted, or the message was already checked."""
        now_ms, canonical = self._clock(), addresses.canonical(queued.address)
        if canonical is None:
            return None
        found = await self._storage.read_message(
            canonical, now_ms, message_id=queued.message_id, up_to_bytes=up_to_bytes, source=True
        )
        inbox, full = found or (None, None)
        if inbox is None or inbox.expires_at_ms <= now_ms or full is None or full.message.authentication:
            return None
        return inbox.id, full

    async def _check(self, full: FullMessage, client: str) -> Authentication:
        try:
            return await self._found(full, client)
        except Exception:  # clients that wait for a verdict must receive a result
            log.exception("checking a sender failed")
            return unchecked("permerror", "the check failed")

    async def _found(self, full: FullMessage, client: str) -> Authentication:
        begun, raw = time.monotonic(), full.source or b""
        lookup = Lookup(self._resolver, self._timeout_seconds, self._checking)

        def signed() -> tuple[SpfVerdict, tuple[dkim.Signature, ...], ArcVerdict]:
            return spf.check(full.envelope, lookup), *dkim.check(raw, lookup, full.message.received_at_ms / 1000)

        by_spf, signatures, chain = await self._compute(client, signed)
        by_dkim = await self._verdicts(full, signatures, client)
        by_dmarc = await self._compute(client, lambda: dmarc.check(raw, by_spf, by_dkim, lookup))
        self._checks.add(by_dmarc.result)
        self._took.observe(time.monotonic() - begun)
        return Authentication(by_spf, by_dkim, by_dmarc, chain, tuple(lookup.shown))

    async def _compute(self, client: str, function: Callable[[], T]) -> T:
        """In a thread, call a function that queries the DNS, and charge its CPU time to a client."""

        def measured() -> tuple[T, float]:
            begun = time.thread_time()
            with self._checking:
                return function(), time.thread_time() - begun

        found, used_seconds = await anyio.to_thread.run_sync(measured, limiter=self._threads, abandon_on_cancel=True)
        self._scheduler.usage.charge(client, used_seconds)
        return found

    async def _verdicts(
        self, full: FullMessage, signatures: tuple[dkim.Signature, ...], client: str
    ) -> tuple[DkimVerdict, ...]:
        """Return the verdicts on signatures; uses a turn to compare the message with its canonical form."""
        raw = full.source or b""
        if not any(one.is_relaxed for one in signatures):
            return shown.verdicts(raw, signatures, full.warnings)
        return await self._scheduler.run(
            shown.verdicts, raw, signatures, full.warnings, work_bytes=2 * len(raw), client=client
        )
