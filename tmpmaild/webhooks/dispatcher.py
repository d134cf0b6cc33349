"""Calls the webhooks of all inboxes. Commits wake the dispatcher, which also scans the stored webhooks at intervals.

The stored messages are the events to report, and a webhook's state records the progress. No event is lost if this
process ends, because its memory contains only the list of inboxes that have a webhook. Since several daemons may be
running, a daemon leases a webhook before it makes a call.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import anyio
from anyio import get_cancelled_exc_class
from msgspec.structs import replace

from tmpmaild import __version__
from tmpmaild.errors import AddressExpired, AddressNotFound, RequestError, StorageUnavailable
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.metrics import Count, Gauge, Histogram, Metric
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, StoredWebhook, VerdictReached, WebhookState
from tmpmaild.storage.base import Storage
from tmpmaild.webhooks.calling import CALL_SECONDS, Caller, Outcome
from tmpmaild.webhooks.events import Event, Events, Step
from tmpmaild.webhooks.retrying import state_after
from tmpmaild.webhooks.schedule import Job, Schedule
from tmpmaild.webhooks.signing import event_id, signed_fields
from tmpmaild.webhooktargets import parse_url

_LEASE_MS: Final = int(2 * CALL_SECONDS * 1000)  # long enough for a call and the reads and writes before and after it
_SCAN_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0  # the pause before the next scan while the storage is unavailable
_STOP_SECONDS: Final = 1.0
_PAGE_WEBHOOKS: Final = 50  # reading a page takes about 2 ms in the event loop
_BOUNDS_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

log = logging.getLogger(__name__)


class Dispatcher:
    """Calls the ``webhooks`` that the operator allows; does nothing while no target is allowed."""

    def __init__(
        self,
        storage: Storage,
        webhooks: Webhooks,
        events: Events,
        caller: Caller,
        blocks: Blocks,
        *,
        scan_seconds: float = _SCAN_SECONDS,
    ) -> None:
        self._storage = storage
        self._webhooks = webhooks
        self._events = events
        self._caller = caller
        self._blocks = blocks
        self._clock = storage.clock
        self._scan_seconds = scan_seconds
        self._schedule = Schedule()
        self._woken = webhooks.woken
        self._unavailable = asyncio.Event()
        self._reading = anyio.Lock()
        self._committed: set[str] = set()
        self._scans = 0
        self._calls = Count(
            "webhooks_calls_total", "Webhook calls, by response status or reason for failure.", ("result",)
        )
        self._took = Histogram("webhooks_call_seconds", "Duration of a webhook call.", _BOUNDS_SECONDS)

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        return (
            self._calls,
            self._took,
            Gauge("webhooks_known", "Webhooks known to this daemon.", self._schedule.__len__),
            Gauge("webhooks_calling", "Webhook calls in progress.", lambda: self._schedule.calls),
            Gauge("webhooks_waiting", "Webhooks with events to send.", lambda: len(self._waiting_since())),
            Gauge(
                "webhooks_oldest_seconds",
                "Longest time that a webhook has had events to send.",
                self._oldest_seconds,
            ),
        )

    async def run(self) -> None:
        """Make the calls that are due, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._scan_periodically)
            while True:
                self._woken.clear()
                while (job := self._schedule.take(self._clock())) is not None:
                    tasks.start_soon(self._serve, job)
                await self._read_changed()
                await self._sleep()

    async def _sleep(self) -> None:
        next_ms = self._schedule.next_ms()
        seconds = self._scan_seconds if next_ms is None else (next_ms - self._clock()) / 1000
        with anyio.move_on_after(min(max(seconds, 0.0), self._scan_seconds)):
            await self._woken.wait()

    def on_commit(self, changes: Sequence[InboxChange]) -> None:
        """Process the inboxes that a commit has changed."""
        for change in changes if self._webhooks.allowed else ():
            if self._reading.locked():
                self._committed.add(change.inbox_id)
            job = self._schedule.get(change.inbox_id)
            if job is not None:
                self._note_change(job, change)

    def _note_change(self, job: Job, change: InboxChange) -> None:
        now_ms = self._clock()
        match change.notice:
            case ExpiryMoved() if job.ends_at_ms:
                self._schedule.end_at(job, change.notice.expires_at_ms)
            case InboxDeleted() if job.ends_at_ms:
                self._schedule.end_at(job, now_ms)
            case None | VerdictReached() if not job.due_at_ms:  # otherwise the scheduled call also reports this event
                self._schedule.call_at(job, now_ms, now_ms)
        self._woken.set()

    async def _scan_periodically(self) -> None:
        while True:
            self._unavailable.clear()
            if self._webhooks.allowed:
                try:
                    await self._scan()
                except RequestError as error:
                    self._note_failure("the webhooks cannot be read", error)
            with anyio.move_on_after(self._scan_seconds):
                await self._unavailable.wait()
                await anyio.sleep(_RETRY_SECONDS)

    def _note_failure(self, text: str, error: RequestError) -> None:
        """Postpone the work to the next scan, which starts soon while the storage is unavailable."""
        log.debug("%s: %s", text, error)
        if isinstance(error, StorageUnavailable):
            self._unavailable.set()

    async def _scan(self) -> None:
        """Read all stored webhooks, including those set by other daemons or before this daemon started."""
        self._scans += 1
        after = ""
        while found := await self._read(partial(self._storage.list_webhooks, after=after, limit=_PAGE_WEBHOOKS)):
            after = found[-1].inbox_id
        for job in [job for job in self._schedule if job.scan < self._scans]:
            self._schedule.forget(job)

    async def _read_changed(self) -> None:
        """Read one changed webhook, and wake the loop again, so that due calls are made before the next read."""
        if not self._webhooks.changed:
            return
        inbox_id = self._webhooks.changed.pop()
        try:
            found = await self._read(partial(self._read_one, inbox_id))
        except RequestError as error:
            self._note_failure("a webhook cannot be read", error)
            return
        job = self._schedule.get(inbox_id)
        if not found and job is not None:
            self._schedule.forget(job)

    async def _read_one(self, inbox_id: str) -> Sequence[StoredWebhook]:
        stored = await self._storage.read_webhook(inbox_id)
        return () if stored is None else (stored,)

    async def _read(self, read: Callable[[], Awaitable[Sequence[StoredWebhook]]]) -> Sequence[StoredWebhook]:
        """Read webhooks and schedule them. If an inbox changes during the read, its webhook is read again."""
        async with self._reading:
            self._committed.clear()
            found = await read()
            for stored in found:
                self._note(stored)
                if stored.inbox_id in self._committed:
                    self._webhooks.changed.add(stored.inbox_id)
        self._woken.set()
        return found

    def _note(self, stored: StoredWebhook) -> None:
        now_ms, state = self._clock(), stored.state
        try:
            host = parse_url(stored.webhook.url).host
        except ValueError as error:  # a different version may have stored the webhook
            log.warning("a webhook has a URL that cannot be called: %s", error)
            return
        job = self._schedule.know(stored.inbox_id, host)
        job.scan = self._scans
        is_alive = now_ms < stored.expires_at_ms
        if "expired" in stored.webhook.events:
            self._schedule.end_at(
                job, stored.expires_at_ms if is_alive else max(stored.expires_at_ms, state.next_at_ms)
            )
        if is_alive and stored.is_waiting and not job.is_called:
            self._schedule.call_at(job, state.next_at_ms, now_ms)

    async def _serve(self, job: Job) -> None:
        seconds = None
        try:
            seconds = await self._served(job)
        except RequestError as error:  # the inbox is gone, or the storage is full or unavailable
            self._note_failure("a webhook is not called", error)
        except Exception:
            log.exception("calling a webhook failed")
        finally:
            self._schedule.ended(job, seconds)
            self._woken.set()

    async def _served(self, job: Job) -> float | None:
        """Report the next event; return the duration of the call, or None if there was no call."""
        now_ms = self._clock()
        is_paused = self._blocks.has_target(job.host.name)
        leased = None if is_paused else await self._leased(job, now_ms)
        if leased is None:  # the webhook is paused, gone, or leased by another daemon; a later scan finds it again
            job.since_ms = job.since_ms if is_paused else 0
            return None
        try:
            step = await self._next(leased, now_ms)
            begun = time.monotonic()
            outcome = step.event and await self._call(leased, step.event)
        except get_cancelled_exc_class():  # the daemon is stopping: end the lease, so that no daemon waits for it
            with anyio.move_on_after(_STOP_SECONDS, shield=True):
                await self._storage.store_webhook(leased, replace(leased.state, next_at_ms=0))
            raise
        if outcome is None:
            await self._store(job, leased, step, step.state and replace(step.state, next_at_ms=0))
            return None
        took_seconds = time.monotonic() - begun
        self._took.observe(took_seconds)
        state = state_after(outcome, leased, step.state, self._clock())
        await self._store(job, leased, step, state, is_good=outcome.is_good)
        return took_seconds

    async def _leased(self, job: Job, now_ms: int) -> StoredWebhook | None:
        """Lease a webhook that is due, unless another daemon has leased it."""
        stored, leased = await self._storage.read_webhook(job.inbox_id), None
        if stored is not None and _is_due(job, stored, now_ms):
            leased = await self._storage.store_webhook(stored, replace(stored.state, next_at_ms=now_ms + _LEASE_MS))
        if leased is None and job.has_ended(now_ms):
            # The expiry has already been reported, has changed without a notification, or must wait for another
            # daemon's lease to end.
            self._webhooks.mark_changed(job.inbox_id)
        return leased

    async def _next(self, leased: StoredWebhook, now_ms: int) -> Step:
        try:
            return await self._events.next(leased, now_ms)
        except (AddressExpired, AddressNotFound):  # the inbox is gone, which is reported next
            return Step(None, leased.state, has_more=True)

    async def _call(self, leased: StoredWebhook, event: Event) -> Outcome:
        secret = leased.webhook.secret
        signed = signed_fields(secret, event_id(secret, *event.name), self._clock() // 1000, event.body)
        fields = [("Content-Type", "application/json"), ("User-Agent", f"tmpmaild/{__version__}"), *signed]
        outcome = await self._caller.call(self._webhooks.allowed, parse_url(leased.webhook.url), fields, event.body)
        self._calls.add(outcome.group)
        return outcome

    async def _store(
        self, job: Job, leased: StoredWebhook, step: Step, state: WebhookState | None, *, is_good: bool = True
    ) -> None:
        """Store the state after a call, and schedule the next call."""
        if await self._storage.store_webhook(leased, state) is None:
            self._webhooks.mark_changed(job.inbox_id)
            return
        if state is None:
            self._schedule.forget(job)
            return
        now_ms = self._clock()
        job.version = leased.version + 1
        is_end_next = job.has_ended(now_ms) and step.state is not None
        if step.has_more if is_good else is_end_next:
            self._schedule.call_at(job, now_ms, now_ms)
        elif state.next_at_ms:
            self._schedule.call_at(job, state.next_at_ms, now_ms)
        else:
            job.since_ms = 0

    def _waiting_since(self) -> list[int]:
        return [job.since_ms for job in self._schedule if job.since_ms]

    def _oldest_seconds(self) -> float:
        return max(self._clock() - min(self._waiting_since(), default=self._clock()), 0) / 1000


def _is_due(job: Job, stored: StoredWebhook, now_ms: int) -> bool:
    """Return whether a webhook should be called now.

    The expiry of an inbox is reported without waiting for the retry of a failed call, unless another daemon is calling.
    """
    is_end_next = job.has_ended(now_ms) and stored.expires_at_ms <= now_ms
    return stored.state.next_at_ms <= now_ms or (is_end_next and stored.version == job.version)
