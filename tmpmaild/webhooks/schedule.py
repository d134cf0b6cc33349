"""Decides the order of calls, without I/O. Limits simultaneous calls, so that slow hosts never delay other hosts.

It stores one entry for each webhook and each host, regardless of the number of waiting events.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MAX_CALLS: Final = 32
MAX_CALLS_PER_HOST: Final = 2
SLOW_SECONDS: Final = 2.0
"""A host is slow if its last call took longer than this, whether or not it responded."""


class Speed(IntEnum):
    """The speed of the last call to a host."""

    QUICK = 0
    UNKNOWN = 1
    SLOW = 2


# The maximum numbers of simultaneous calls to slow hosts, to slow and unknown hosts together, and to all hosts. This
# always leaves room for calls to quick hosts.
_LIMITS: Final = {Speed.SLOW: 8, Speed.UNKNOWN: 24, Speed.QUICK: MAX_CALLS}


@dataclass(slots=True, eq=False)
class Host:
    """A host and its webhooks; ``ready`` contains the webhooks that are due."""

    name: str
    known: int = 0
    calls: int = 0
    speed: Speed = Speed.UNKNOWN
    is_queued: bool = False
    ready: "deque[Job] | None" = None  # created on demand, because an empty deque uses 600 bytes


@dataclass(slots=True, eq=False)
class Job:
    """A webhook. Times are Unix milliseconds; 0 means that no time is set.

    ``due_at_ms`` is the time of the next call, ``ends_at_ms`` is the inbox's expiry if it must be reported, and
    ``since_ms`` is the time at which an event started waiting. ``version`` is the webhook's version after this daemon
    last stored a result; as long as it is unchanged, no daemon has leased the webhook. ``scan`` is the number of the
    last scan that found the webhook. ``is_again`` is set if a new event arrived during the call.
    """

    inbox_id: str
    host: Host
    due_at_ms: int = 0
    ends_at_ms: int = 0
    version: int | None = None
    since_ms: int = 0
    scan: int = 0
    is_ready: bool = False
    is_called: bool = False
    is_again: bool = False
    is_forgotten: bool = False
    speed: Speed = Speed.UNKNOWN

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the inbox has expired and the expiry must be reported."""
        return 0 < self.ends_at_ms <= now_ms


class Schedule:
    """The webhooks that a daemon has found, by inbox id."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self.get = self._jobs.get  # returns the webhook for an inbox id, or None
        self._hosts: dict[str, Host] = {}
        self._times: list[tuple[int, str]] = []
        self._queues: dict[Speed, deque[Host]] = {speed: deque() for speed in Speed}
        self._turns = deque(Speed)
        self._calls = dict.fromkeys(Speed, 0)

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def know(self, inbox_id: str, host_name: str) -> Job:
        """Add an inbox's webhook, or update the host that it calls; return the webhook."""
        job = self._jobs.get(inbox_id)
        if job is not None and job.host.name == host_name:
            return job
        if job is not None:
            self.forget(job)
        host = self._hosts.setdefault(host_name, Host(host_name))
        host.known += 1
        job = self._jobs[inbox_id] = Job(inbox_id, host)
        return job

    def forget(self, job: Job) -> None:
        """Remove a webhook that no longer exists. A call in progress continues."""
        if job.is_forgotten:
            return
        job.is_forgotten = True  # makes ``take`` skip the webhook if it is still queued
        del self._jobs[job.inbox_id]
        job.host.known -= 1
        self._drop(job.host)

    def call_at(self, job: Job, at_ms: int, now_ms: int) -> None:
        """Schedule a call for this time, or immediately if the time has passed."""
        job.since_ms = job.since_ms or now_ms
        if at_ms <= now_ms:
            self.call_now(job)
        elif not job.is_ready and job.due_at_ms != at_ms:
            job.due_at_ms = at_ms
            self._push(at_ms, job)

    def call_now(self, job: Job) -> None:
        """Schedule a call as soon as the limits allow it; if a call is in progress, schedule another call after it."""
        if job.is_called:
            job.is_again = True
        elif not job.is_ready:
            job.is_ready, job.due_at_ms = True, 0
            job.host.ready = job.host.ready or deque()
            job.host.ready.append(job)
            self._queue(job.host)

    def end_at(self, job: Job, at_ms: int) -> None:
        """Schedule a call at the time when the inbox expires."""
        if job.ends_at_ms != at_ms:
            job.ends_at_ms = at_ms
            self._push(at_ms, job)

    def take(self, now_ms: int) -> Job | None:
        """Return a webhook to call, or None if no call is due or the limits are reached.

        The caller must pass the webhook to ``ended`` afterwards.
        """
        self._make_ready(now_ms)
        for speed in tuple(self._turns):
            queue = self._queues[speed]
            while queue and self._has_place(speed):
                host = queue.popleft()
                host.is_queued = False
                while host.ready:
                    job = host.ready.popleft()
                    if not job.is_forgotten:
                        self._turns.rotate(-1)
                        return self._begun(host, job, speed)
        return None

    def _begun(self, host: Host, job: Job, speed: Speed) -> Job:
        host.calls += 1
        self._calls[speed] += 1
        job.is_ready, job.is_called, job.is_again, job.speed = False, True, False, speed
        host.ready = host.ready or None
        self._queue(host)
        return job

    def ended(self, job: Job, seconds: float | None) -> None:
        """Record the end of a call and its duration, which is None if no call was made."""
        host = job.host
        host.calls -= 1
        self._calls[job.speed] -= 1
        if seconds is not None:
            host.speed = Speed.SLOW if seconds > SLOW_SECONDS else Speed.QUICK
        job.is_called = False
        if job.is_again and not job.is_forgotten and not job.due_at_ms:
            self.call_now(job)
        self._queue(host)
        self._drop(host)

    def next_ms(self) -> int | None:
        """Return the time at which the next webhook is due, or None."""
        return self._times[0][0] if self._times else None

    @property
    def calls(self) -> int:
        """The number of calls in progress."""
        return sum(self._calls.values())

    def _has_place(self, speed: Speed) -> bool:
        """Return whether the limits allow one more call of this speed; slower calls are also counted."""
        return all(
            sum(self._calls[slower] for slower in Speed if slower >= limited) < _LIMITS[limited]
            for limited in Speed
            if limited <= speed
        )

    def _drop(self, host: Host) -> None:
        """Forget a host without webhooks, unless a call is in progress, since that call counts towards the limits."""
        if not host.known and not host.calls:
            del self._hosts[host.name]

    def _queue(self, host: Host) -> None:
        if host.ready and not host.is_queued and host.calls < MAX_CALLS_PER_HOST:
            host.is_queued = True
            self._queues[host.speed].append(host)

    def _make_ready(self, now_ms: int) -> None:
        while self._times and self._times[0][0] <= now_ms:
            at_ms, inbox_id = heapq.heappop(self._times)
            job = self._jobs.get(inbox_id)
            if job is not None and at_ms in (job.due_at_ms, job.ends_at_ms):
                job.due_at_ms = 0
                job.since_ms = job.since_ms or now_ms
                self.call_now(job)

    def _push(self, at_ms: int, job: Job) -> None:
        heapq.heappush(self._times, (at_ms, job.inbox_id))
        if len(self._times) > 64 + 4 * len(self._jobs):  # outdated times remain in the heap
            wanted = {(at, one.inbox_id) for one in self for at in (one.due_at_ms, one.ends_at_ms) if at}
            self._times = sorted(wanted)
