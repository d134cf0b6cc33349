"""Turns: clients take turns to use two threads, so that one client's work does not delay all other clients.

A daemon has one ``FairScheduler``.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from functools import partial
from typing import Final, Self, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from tmpmaild.metrics import Histogram, Metric
from tmpmaild.scheduling.clients import current_client
from tmpmaild.scheduling.fairqueue import Eligible, FairQueue
from tmpmaild.scheduling.usage import Timer, Usage

LIGHT_BYTES: Final = 80 * 1024
"""Work on an input up to this size counts as light.

Callers pass a smaller size for work that takes less time per byte.
"""

LITTLE_SECONDS: Final = 0.25
"""A client that has recently used at most this much processor time may use the thread reserved for light work."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class HeavySlot:
    """Memory for an input that is copied several times.

    It is occupied from the start of a turn until the block ends.
    """

    def __init__(self, release: "Callable[[HeavySlot], None]") -> None:
        self._release = release

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release(self)


class Turn:
    """A thread that is assigned to a client for the duration of a block."""

    def __init__(self, client: str, usage: Usage, timer: Timer, limiter: anyio.CapacityLimiter) -> None:
        self._client = client
        self._usage = usage
        self._timer = timer
        self._limiter = limiter

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Call a function in the thread, charge its processor time to the client, and return the result."""
        used_seconds = 0.0

        def measured() -> T:
            nonlocal used_seconds
            begun = self._timer.thread_time()
            try:
                return function(*args)
            finally:
                used_seconds = self._timer.thread_time() - begun

        try:
            return await anyio.to_thread.run_sync(measured, limiter=self._limiter)
        finally:
            self._usage.charge(self._client, used_seconds)


class _Thread(Enum):
    ANY = auto()
    LIGHT = auto()


class FairScheduler:
    """Assigns threads to clients in turn.

    Two threads are enough, because only one thread at a time can run Python code. One thread handles any work. The
    other thread is reserved for light work of clients that have recently used little processor time, so that these
    clients never have to wait for heavy work. If only one client has work to do, it receives all turns.
    """

    def __init__(self, timer: Timer = time) -> None:
        self._timer = timer
        self.usage = Usage(timer)
        self._queue = FairQueue[_Thread](self.usage, timer)
        self._limiter = anyio.CapacityLimiter(len(_Thread))
        self._free = set(_Thread)
        self._heavy_slot: HeavySlot | None = None
        self._waited = Histogram("turn_wait_seconds", "Time that work waited for its turn on the CPU.")

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for a turn."""
        return len(self._queue)

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        return (self._waited,)

    def heavy_slot(self) -> HeavySlot:
        """Return a context manager for a heavy input; only one such input may be in memory at a time."""
        return HeavySlot(self._release_heavy_slot)

    def _release_heavy_slot(self, slot: HeavySlot) -> None:
        if self._heavy_slot is slot:
            self._heavy_slot = None
            self._dispatch()

    async def run(
        self,
        function: Callable[[*Ts], T],
        *args: *Ts,
        work_bytes: int,
        client: str | None = None,
        heavy_slot: HeavySlot | None = None,
    ) -> T:
        """Call a function in a separate turn; the other arguments are the same as for ``turn``."""
        async with self.turn(work_bytes, client, heavy_slot) as turn:
            return await turn.run(function, *args)

    @asynccontextmanager
    async def turn(
        self, work_bytes: int, client: str | None = None, heavy_slot: HeavySlot | None = None
    ) -> AsyncIterator[Turn]:
        """Wait for a turn, which lasts until the block ends.

        ``work_bytes`` is the size of the input. ``client`` is the client on whose behalf the work is done, by default
        the current client. With ``heavy_slot``, the turn does not start while a different heavy slot is occupied.
        """
        owner, begun = current_client() if client is None else client, self._timer.monotonic()
        kind = "heavy" if heavy_slot else "light" if work_bytes <= LIGHT_BYTES else "large"
        thread = self._take_free(owner, kind, heavy_slot)
        if thread is None:
            occupy = partial(self._occupy, heavy_slot) if heavy_slot else None
            thread = await self._queue.wait(owner, kind, joined=self._dispatch, release=self._release, on_grant=occupy)
        self._waited.observe(self._timer.monotonic() - begun)
        try:
            yield Turn(owner, self.usage, self._timer, self._limiter)
        finally:
            self._release(thread)

    def _take_free(self, client: str, kind: str, heavy_slot: HeavySlot | None) -> _Thread | None:
        """Return a thread that may be used immediately; None if other tasks are waiting or no thread is available."""
        if len(self._queue) or not self._free:
            return None
        if _Thread.ANY in self._free and not (heavy_slot and self._heavy_slot):
            thread = _Thread.ANY
        elif _Thread.LIGHT in self._free and kind == "light" and self.usage.seconds(client) <= LITTLE_SECONDS:
            thread = _Thread.LIGHT
        else:
            return None
        self._free.remove(thread)
        if heavy_slot:
            self._occupy(heavy_slot)
        return thread

    def _occupy(self, heavy_slot: HeavySlot) -> None:
        self._heavy_slot = heavy_slot

    def _release(self, thread: _Thread) -> None:
        self._free.add(thread)
        if len(self._queue):
            self._dispatch()

    def _dispatch(self) -> None:
        for thread, eligible in ((_Thread.ANY, self._eligible_for_any), (_Thread.LIGHT, self._eligible_for_light)):
            if thread in self._free and (waiting := self._queue.next(eligible())) is not None:
                self._free.remove(thread)
                waiting.grant(thread)

    def _eligible_for_any(self) -> dict[str, Eligible]:
        return dict.fromkeys(("light", "large") if self._heavy_slot else ("light", "large", "heavy"), Eligible())

    def _eligible_for_light(self) -> dict[str, Eligible]:
        return {"light": Eligible(client=lambda client: self.usage.seconds(client) <= LITTLE_SECONDS)}
