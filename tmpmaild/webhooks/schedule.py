"""The order of calls, without I/O: webhooks that are due, a limited number at once, and slow hosts never in the way.

Memory is one entry for each webhook and one for each host, however much is waiting.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MOST_CALLS: Final = 32
MOST_CALLS_A_HOST: Final = 2
SLOW_SECONDS: Final = 2.0
"""A host is slow if its last call took longer, with or without a response."""


class Speed(IntEnum):
    """How fast the last call of a host was."""

    QUICK = 0
    UNKNOWN = 1
    SLOW = 2


# The most calls at once for slow hosts; for slow and unknown hosts; for all. So quick hosts always find a place.
_LIMITS: Final = {Speed.SLOW: 8, Speed.UNKNOWN: 24, Speed.QUICK: MOST_CALLS}


@dataclass(slots=True, eq=False)
class Host:
    """A host and its webhooks; ``ready`` are the webhooks that are due."""

    name: str
    known: int = 0
    calls: int = 0
    speed: Speed = Speed.UNKNOWN
    is_queued: bool = False
    ready: "deque[Job] | None" = None  # an empty deque takes 600 bytes


@dataclass(slots=True, eq=False)
class Job:
    """A webhook. Times are Unix milliseconds; 0: none.

    ``due_at_ms`` is the time of the next call, ``ends_at_ms`` that of the expiry if it must be reported, ``since_ms``
    the time since when an event has been waiting. ``version`` is the one after the last result stored by this daemon:
    while it stays the same, no daemon has leased the webhook. ``scan`` is the number of the last scan that found it.
    ``is_again``: there was an event during the call.
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
        """Whether the inbox has expired and that must be reported."""
        return 0 < self.ends_at_ms <= now_ms


class Schedule:
    """The webhooks that a daemon knows, by the ids of their inboxes."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self.get = self._jobs.get  # the webhook of an inbox by its id, None if it is not known
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
        """Return the webhook of an inbox, which now calls this host."""
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
        """Drop a webhook that is gone. A call in progress continues."""
        if job.is_forgotten:
            return
        job.is_forgotten = True  # so it is skipped in a queue
        del self._jobs[job.inbox_id]
        job.host.known -= 1
        self._drop(job.host)

    def call_at(self, job: Job, at_ms: int, now_ms: int) -> None:
        """Schedule a call for this time, or for now if it has passed."""
        job.since_ms = job.since_ms or now_ms
        if at_ms <= now_ms:
            self.call_now(job)
        elif not job.is_ready and job.due_at_ms != at_ms:
            job.due_at_ms = at_ms
            self._push(at_ms, job)

    def call_now(self, job: Job) -> None:
        """Schedule a call as soon as there is a place; after a call in progress, another one."""
        if job.is_called:
            job.is_again = True
        elif not job.is_ready:
            job.is_ready, job.due_at_ms = True, 0
            job.host.ready = job.host.ready or deque()
            job.host.ready.append(job)
            self._queue(job.host)

    def end_at(self, job: Job, at_ms: int) -> None:
        """Schedule a call for when the inbox expires."""
        if job.ends_at_ms != at_ms:
            job.ends_at_ms = at_ms
            self._push(at_ms, job)

    def take(self, now_ms: int) -> Job | None:
        """Return a webhook to call now, None if none is due or there is no place; call ``ended`` after the call."""
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
        """Note that a call has ended after so many seconds, None if no call was made."""
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
        """Return the time when the next webhook is due, None if there is none."""
        return self._times[0][0] if self._times else None

    @property
    def calls(self) -> int:
        """The number of calls in progress."""
        return sum(self._calls.values())

    def _has_place(self, speed: Speed) -> bool:
        """Return whether one more call of this speed is within the limits, which count slower calls too."""
        return all(
            sum(self._calls[slower] for slower in Speed if slower >= limited) < _LIMITS[limited]
            for limited in Speed
            if limited <= speed
        )

    def _drop(self, host: Host) -> None:
        """Forget a host without webhooks; not during a call, which counts if a webhook calls the host again."""
        if not host.known and not host.calls:
            del self._hosts[host.name]

    def _queue(self, host: Host) -> None:
        if host.ready and not host.is_queued and host.calls < MOST_CALLS_A_HOST:
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
        if len(self._times) > 64 + 4 * len(self._jobs):  # includes times that were moved since
            wanted = {(at, one.inbox_id) for one in self for at in (one.due_at_ms, one.ends_at_ms) if at}
            self._times = sorted(wanted)
