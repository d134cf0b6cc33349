"""Checks mails after they are stored: a few at a time, in threads, from a bounded queue.

What does not fit the queue, and what was left when the daemon ended, is checked when it is looked at.
"""

import asyncio
import logging
import time
from contextlib import nullcontext
from threading import Lock
from typing import Final

import anyio
import anyio.to_thread

from tmpmaild.errors import RequestError
from tmpmaild.mail import addresses
from tmpmaild.measures import Count, Gauge, Histogram, Measure
from tmpmaild.model import Authentication, DkimVerdict, FullMessage, unchecked
from tmpmaild.senders import dkim, dmarc, shown, spf
from tmpmaild.senders.resolver import Lookup, Resolver
from tmpmaild.storage.base import ANY_SIZE, Storage

_TASKS: Final = 8
_MOST_QUEUED: Final = 256
_HEAVY_BYTES: Final = 1024 * 1024  # larger mails go one at a time

log = logging.getLogger(__name__)


class Checker:
    """Checks who sent messages, and stores what was found."""

    def __init__(self, storage: Storage, resolver: Resolver, timeout_seconds: int) -> None:
        self._storage = storage
        self._resolver = resolver
        self._timeout_seconds = timeout_seconds
        self._clock = storage.clock
        # One thread computes while the others wait for the DNS: eight would keep the event loop from running.
        self._checking, self._comparing = Lock(), Lock()
        self._threads = anyio.CapacityLimiter(_TASKS)
        self._heavy = anyio.Lock()
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue(_MOST_QUEUED)
        self._wanted: set[tuple[str, str]] = set()
        self._checks = Count("senders_checks_total", "Checks, by what they say of DMARC.", ("result",))
        self._left_out = Count("senders_left_out_total", "Mails that found the queue full.")
        self._took = Histogram("senders_check_seconds", "How long a check took.")
        self._waiting = Gauge("senders_waiting", "Mails that wait for their check.", self._queue.qsize)

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        return (self._checks, self._left_out, self._took, self._waiting, *self._resolver.measures())

    def ask(self, address: str, message_id: str) -> bool:
        """Have the message of an address, however that is written, checked soon; False if too many wait already."""
        wanted = (address, message_id)  # that inbox may have ended, and another hold the message
        if wanted in self._wanted:
            return True
        try:
            self._queue.put_nowait(wanted)
        except asyncio.QueueFull:
            self._left_out.add()
            return False
        self._wanted.add(wanted)
        return True

    async def run(self) -> None:
        """Check what is asked for, until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                for _ in range(_TASKS):
                    tasks.start_soon(self._work)
        finally:
            self._resolver.close()

    async def _work(self) -> None:
        while True:
            wanted = await self._queue.get()
            try:
                await self._check_stored(*wanted)
            except RequestError as error:  # it has ended, or the storage is full or away: the next look asks again
                log.debug("no verdict is stored: %s", error)
            except Exception:
                log.exception("storing a verdict failed")
            finally:
                self._wanted.discard(wanted)

    async def _check_stored(self, address: str, message_id: str) -> None:
        source = await self._read(address, message_id, _HEAVY_BYTES)
        if source is None:
            return
        async with self._heavy if source[1].source is None else nullcontext():
            if source[1].source is None:
                source = await self._read(address, message_id, ANY_SIZE)
            if source is not None:
                found = await anyio.to_thread.run_sync(
                    self._check, source[1], limiter=self._threads, abandon_on_cancel=True
                )
                await self._storage.set_authentication(source[0], message_id, found)

    async def _read(self, address: str, message_id: str, up_to_bytes: int) -> tuple[str, FullMessage] | None:
        """Return the id of the inbox and the message; None if they have ended, or it was checked."""
        now_ms, canonical = self._clock(), addresses.canonical(address)
        if canonical is None:
            return None
        found = await self._storage.read_message(canonical, message_id, now_ms, up_to_bytes=up_to_bytes, source=True)
        inbox, full = found or (None, None)
        if inbox is None or inbox.expires_at_ms <= now_ms or full is None or full.message.authentication:
            return None
        return inbox.id, full

    def _check(self, full: FullMessage) -> Authentication:
        try:
            return self._found(full)
        except Exception:  # those who wait for a verdict get one
            log.exception("checking a sender failed")
            return unchecked("permerror", "the check failed")

    def _found(self, full: FullMessage) -> Authentication:
        begun = time.monotonic()
        raw = full.source or b""
        with self._checking:
            lookup = Lookup(self._resolver, self._timeout_seconds, self._checking)
            by_spf = spf.check(full.envelope, lookup)
            signatures, chain = dkim.check(raw, lookup, full.message.received_at_ms / 1000)
        by_dkim = self._settled(full, signatures)
        with self._checking:
            by_dmarc = dmarc.check(raw, by_spf, by_dkim, lookup)
            self._checks.add(by_dmarc.result)
            self._took.observe(time.monotonic() - begun)
        return Authentication(by_spf, by_dkim, by_dmarc, chain, tuple(lookup.shown))

    def _settled(self, full: FullMessage, signatures: tuple[dkim.Signature, ...]) -> tuple[DkimVerdict, ...]:
        """Return the verdicts of signatures. Other checks go on meanwhile, since comparing takes long."""
        with self._comparing if any(one.is_relaxed for one in signatures) else nullcontext():
            return shown.settle(full.source or b"", signatures, full.warnings)
