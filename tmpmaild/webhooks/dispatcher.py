"""Calls the targets of all inboxes: woken by commits, and by a look at what is stored now and then.

The stored mail is what is to be told, and a webhook's positions say how far that has come, so nothing is lost with this
process: what it knows of webhooks is which inboxes have one. Several daemons lease a webhook from each other.

Here are also what a call says, its signature (Standard Webhooks), and when a call that has failed is made again.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final, NamedTuple

import anyio
from anyio import get_cancelled_exc_class
from msgspec.structs import replace

from tmpmaild import __version__
from tmpmaild.errors import AddressExpired, AddressNotFound, RequestError, StorageUnavailable
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.reading import NOT_CHECKED, MailReader
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.metrics import Count, Gauge, Histogram, Metric
from tmpmaild.model import (
    SECRET_PREFIX,
    ExpiryMoved,
    Findings,
    InboxChange,
    InboxDeleted,
    Message,
    Page,
    StoredWebhook,
    VerdictReached,
    WebhookState,
)
from tmpmaild.scheduling.clients import on_behalf_of
from tmpmaild.storage.base import Storage
from tmpmaild.webhooks.calling import CALL_SECONDS, Caller, Outcome
from tmpmaild.webhooks.schedule import Job, Schedule
from tmpmaild.webhooktargets import parse_url

MOST_BODY_BYTES: Final = 256 * 1024
_SHORT_CHARACTERS: Final = 1000
_LEASE_MS: Final = int(2 * CALL_SECONDS * 1000)  # a call, with room for what is read and written around it
_LOOK_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0  # so soon after the storage is back
_STOP_SECONDS: Final = 1.0
_PAGE_WEBHOOKS: Final = 50  # some 2 ms of the event loop
_BOUNDS_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_DELAYS_SECONDS: Final = (1, 5, 30, 120, 300, 600, 900)  # and so on
_JITTER: Final = 0.2
_GONE: Final = 410
_LATER: Final = frozenset({429, 503})
_ID_BYTES: Final = 16

log = logging.getLogger(__name__)

Form = Callable[[str, int, str, Message | None], bytes]
"""Returns the JSON form of an event: of its type, its time in Unix milliseconds, the address, and the message."""


class Event(NamedTuple):
    """What a call says. ``name`` is what its id is made of."""

    name: tuple[str, str]
    body: bytes


class Step(NamedTuple):
    """What is to be told next, None for nothing now; how far the calls have come then, None: they have ended.

    ``has_more``: there may be more to tell at once.
    """

    event: Event | None
    state: WebhookState | None
    has_more: bool = False


class Events:
    """Reads what is to be told. ``form`` makes the JSON document."""

    def __init__(self, mail: MailReader, form: Form) -> None:
        self._mail = mail
        self._form = form

    async def next(self, leased: StoredWebhook, now_ms: int) -> Step:
        """Return what is next. Raises ``AddressExpired`` and the errors of the storage."""
        if leased.expires_at_ms <= now_ms:
            return self._expired(leased)
        step = await self._next_message(leased) if "message" in leased.webhook.events else None
        if (step is None or (step.event is None and not step.has_more)) and self._tells_verdicts(leased):
            current = leased if step is None or step.state is None else replace(leased, state=step.state)
            step = await self._next_verdict(current, now_ms)
        return step or Step(None, leased.state)

    def _tells_verdicts(self, leased: StoredWebhook) -> bool:
        return "verdict" in leased.webhook.events and self._mail.check is not None

    def _expired(self, leased: StoredWebhook) -> Step:
        if "expired" not in leased.webhook.events:
            return Step(None, None)
        kind = "inbox.expired"
        return Step(Event((kind, leased.inbox_id), self._form(kind, leased.expires_at_ms, leased.address, None)), None)

    async def _next_message(self, leased: StoredWebhook) -> Step:
        state = leased.state
        message, position, has_more = await self._next(leased, state.told_message_id)
        if message is not None and "verdict" in leased.webhook.has and self._mail.check and not _is_checked(message):
            return Step(None, state)  # its verdict comes, and wakes us: nothing that follows may go before
        state = replace(state, told_message_id=position)
        if message is None:
            return Step(None, state, has_more)
        is_more = has_more or self._tells_verdicts(leased)
        return Step(self._event("message.received", message.received_at_ms, leased, message), state, is_more)

    async def _next_verdict(self, leased: StoredWebhook, now_ms: int) -> Step:
        message, position, has_more = await self._next(leased, leased.state.told_verdict_id)
        if message is not None and not _is_checked(message):
            return Step(None, leased.state)
        state = replace(leased.state, told_verdict_id=position)
        if message is None:
            return Step(None, state, has_more)
        return Step(self._event("verdict.reached", now_ms, leased, message), state, has_more=True)

    async def _next(self, leased: StoredWebhook, after: str) -> tuple[Message | None, str, bool]:
        """Return the next message that counts, how far is then told of, and whether there may be another."""
        has = leased.webhook.has - {"verdict"}
        page = Page(after=after, ascending=True, limit=1, has=has, bodies_bytes=MOST_BODY_BYTES)
        with on_behalf_of(leased.inbox_id):
            listing = await self._mail.list_for_holder(leased.address, page)
        if listing.messages:
            return listing.messages[0], listing.messages[0].id, listing.has_more
        if listing.has_more and listing.looked_to:
            return None, listing.looked_to, True
        return None, max(after, leased.newest_message_id), False

    def _event(self, kind: str, at_ms: int, leased: StoredWebhook, message: Message) -> Event:
        """Return an event of bounded size: without the text of a mail where it is too large, then without more."""
        short = {name: getattr(message, name)[:_SHORT_CHARACTERS] for name in ("subject", "from_name", "from_address")}
        without_text = replace(message, body="", truncated=True)
        without_more = replace(without_text, attachments=(), findings=Findings(), **short)
        for one in (without_text if message.truncated else message, without_text, without_more):
            body = self._form(kind, at_ms, leased.address, one)
            if len(body) <= MOST_BODY_BYTES:
                break
        return Event((kind, message.id), body)


def _is_checked(message: Message) -> bool:
    return message.authentication not in (None, NOT_CHECKED)


def _key(secret: str) -> bytes:
    """Return the octets that a secret stands for."""
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))


def event_id(secret: str, *about: str) -> str:
    """Return the id of an event: the same for each call about it, and nobody without the secret can tell it."""
    found = hmac.digest(_key(secret), "\n".join(about).encode(), hashlib.sha256)
    return f"evt_{found[:_ID_BYTES].hex()}"


def signed_fields(secret: str, event: str, timestamp_seconds: int, body: bytes) -> list[tuple[str, str]]:
    """Return the header fields that let the receiver verify a call."""
    signed = f"{event}.{timestamp_seconds}.".encode() + body
    signature = base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()
    return [
        ("webhook-id", event),
        ("webhook-timestamp", str(timestamp_seconds)),
        ("webhook-signature", f"v1,{signature}"),
    ]


def state_after(
    outcome: Outcome, leased: StoredWebhook, taken: WebhookState | None, now_ms: int, random: Callable[[], float]
) -> WebhookState | None:
    """Return what is stored after a call, None if the webhook is taken away.

    ``taken`` is that if the target has taken the event. ``random`` returns a number from 0 to 1.
    """
    before = leased.state
    if outcome.status == _GONE or (outcome.is_good and taken is None):
        return None
    if outcome.is_good and taken is not None:
        return replace(taken, failures=0, next_at_ms=0, called_at_ms=now_ms, result=outcome.text)
    delay_ms = int(1000 * _DELAYS_SECONDS[min(before.failures, len(_DELAYS_SECONDS) - 1)] * (1 + _JITTER * random()))
    if outcome.status in _LATER:
        delay_ms = max(delay_ms, _retry_after_ms(outcome.retry_after, now_ms))
    next_at_ms = now_ms + delay_ms
    if now_ms < leased.expires_at_ms:  # then what has not been told is gone, and the expiry is told at once
        next_at_ms = min(next_at_ms, leased.expires_at_ms)
    return replace(
        before, failures=before.failures + 1, next_at_ms=next_at_ms, called_at_ms=now_ms, result=outcome.text
    )


def _retry_after_ms(text: str, now_ms: int) -> int:
    """Read seconds or a date (RFC 9110 §10.2.3); 0 for what is neither."""
    if text.isascii() and text.isdigit():
        return int(text[:9]) * 1000
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000) - now_ms


class Dispatcher:
    """Calls the targets of ``webhooks`` that are allowed; while nothing is allowed it does nothing.

    ``random`` gives a number from 0 to 1.
    """

    def __init__(
        self,
        storage: Storage,
        webhooks: Webhooks,
        events: Events,
        caller: Caller,
        blocks: Blocks,
        *,
        random: Callable[[], float],
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._storage = storage
        self._webhooks = webhooks
        self._events = events
        self._caller = caller
        self._blocks = blocks
        self._clock = storage.clock
        self._random = random
        self._look_seconds = look_seconds
        self._schedule = Schedule()
        self._woken = webhooks.woken
        self._unavailable = asyncio.Event()
        self._reading = anyio.Lock()
        self._committed: set[str] = set()
        self._looks = 0
        self._calls = Count(
            "webhooks_calls_total", "Calls of webhooks, by their status or why there is none.", ("result",)
        )
        self._took = Histogram("webhooks_call_seconds", "How long a call of a webhook took.", _BOUNDS_SECONDS)

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        return (
            self._calls,
            self._took,
            Gauge("webhooks_known", "Webhooks that are known here.", self._schedule.__len__),
            Gauge("webhooks_calling", "Calls of webhooks that are being made.", lambda: self._schedule.calls),
            Gauge("webhooks_waiting", "Webhooks with something to tell.", lambda: len(self._waiting_since())),
            Gauge("webhooks_oldest_seconds", "How long the oldest of them has been waiting.", self._oldest_seconds),
        )

    async def run(self) -> None:
        """Call what is due, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_now_and_then)
            while True:
                self._woken.clear()
                while (job := self._schedule.take(self._clock())) is not None:
                    tasks.start_soon(self._serve, job)
                await self._read_changed()
                await self._sleep()

    async def _sleep(self) -> None:
        next_ms = self._schedule.next_ms()
        seconds = self._look_seconds if next_ms is None else (next_ms - self._clock()) / 1000
        with anyio.move_on_after(min(max(seconds, 0.0), self._look_seconds)):
            await self._woken.wait()

    def hear(self, changes: Sequence[InboxChange]) -> None:
        """Note what a commit has changed."""
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
            case None | VerdictReached() if not job.due_at_ms:  # else it is tried again then
                self._schedule.call_at(job, now_ms, now_ms)
        self._woken.set()

    async def _look_now_and_then(self) -> None:
        while True:
            self._unavailable.clear()
            if self._webhooks.allowed:
                try:
                    await self._look()
                except RequestError as error:
                    self._note_failure("the webhooks cannot be read", error)
            with anyio.move_on_after(self._look_seconds):
                await self._unavailable.wait()
                await anyio.sleep(_RETRY_SECONDS)

    def _note_failure(self, text: str, error: RequestError) -> None:
        """Note what the next look will find; that is soon while the storage is away."""
        log.debug("%s: %s", text, error)
        if isinstance(error, StorageUnavailable):
            self._unavailable.set()

    async def _look(self) -> None:
        """Note what is stored: webhooks that other daemons have set, or that wait since before this one started."""
        self._looks += 1
        after = ""
        while found := await self._read(partial(self._storage.list_webhooks, after=after, limit=_PAGE_WEBHOOKS)):
            after = found[-1].inbox_id
        for job in [job for job in self._schedule if job.seen < self._looks]:
            self._schedule.forget(job)

    async def _read_changed(self) -> None:
        """Read one of those that have changed, which wakes us for the next; calls that are due go before that."""
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
        """Note what is read; what was committed meanwhile is read again, since it may have been too late for this."""
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
        except ValueError as error:  # another version may have stored it
            log.warning("a webhook has a URL that cannot be called: %s", error)
            return
        job = self._schedule.know(stored.inbox_id, host)
        job.seen = self._looks
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
        except RequestError as error:  # it has ended, or the storage is full or away
            self._note_failure("a webhook is not called", error)
        except Exception:
            log.exception("calling a webhook failed")
        finally:
            self._schedule.ended(job, seconds)
            self._woken.set()

    async def _served(self, job: Job) -> float | None:
        """Tell what is next; return how long the call took, None if there was none."""
        now_ms = self._clock()
        is_paused = self._blocks.has_target(job.host.name)
        leased = None if is_paused else await self._leased(job, now_ms)
        if leased is None:  # paused, gone, or with another daemon; a look finds it if that ends
            job.since_ms = job.since_ms if is_paused else 0
            return None
        try:
            step = await self._next(leased, now_ms)
            begun = time.monotonic()
            outcome = step.event and await self._call(leased, step.event)
        except get_cancelled_exc_class():  # the daemon stops: the next one need not wait for the end of the lease
            with anyio.move_on_after(_STOP_SECONDS, shield=True):
                await self._storage.store_webhook(leased, replace(leased.state, next_at_ms=0))
            raise
        if outcome is None:
            await self._store(job, leased, step, step.state and replace(step.state, next_at_ms=0))
            return None
        took_seconds = time.monotonic() - begun
        self._took.observe(took_seconds)
        state = state_after(outcome, leased, step.state, self._clock(), self._random)
        await self._store(job, leased, step, state, is_good=outcome.is_good)
        return took_seconds

    async def _leased(self, job: Job, now_ms: int) -> StoredWebhook | None:
        """Lease a webhook that is due, if no other daemon does."""
        stored, leased = await self._storage.read_webhook(job.inbox_id), None
        if stored is not None and _is_due(job, stored, now_ms):
            leased = await self._storage.store_webhook(stored, replace(stored.state, next_at_ms=now_ms + _LEASE_MS))
        if leased is None and job.has_ended(now_ms):
            # Told, to be told when the lease of another daemon ends, or moved without this daemon being told.
            self._webhooks.look_at(job.inbox_id)
        return leased

    async def _next(self, leased: StoredWebhook, now_ms: int) -> Step:
        try:
            return await self._events.next(leased, now_ms)
        except (AddressExpired, AddressNotFound):  # meanwhile: that is told next
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
        """Store what has become of a call, and go by it."""
        if await self._storage.store_webhook(leased, state) is None:
            self._webhooks.look_at(job.inbox_id)
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
    """Return whether a webhook is called now.

    The end of the inbox is told without waiting for the next try of a failed call, unless another daemon calls.
    """
    is_end_next = job.has_ended(now_ms) and stored.expires_at_ms <= now_ms
    return stored.state.next_at_ms <= now_ms or (is_end_next and stored.version == job.version)
