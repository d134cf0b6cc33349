"""The events that calls report: finds a webhook's next event, and generates its JSON document with a limited size."""

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from tmpmaild.inboxes.reading import NOT_CHECKED, MailReader
from tmpmaild.model import Findings, Message, Page, StoredWebhook, WebhookState
from tmpmaild.scheduling.clients import on_behalf_of

MAX_BODY_BYTES: Final = 256 * 1024
_SHORT_CHARACTERS: Final = 1000

Form = Callable[[str, int, str, Message | None], bytes]
"""Generates the JSON form of an event from its type, its time in Unix milliseconds, the address, and the message."""


class Event(NamedTuple):
    """An event to report. The event's id is generated from ``name``."""

    name: tuple[str, str]
    body: bytes


class Step(NamedTuple):
    """The next event to report, if any, and the state to store once it has been reported (None after the last event).

    If ``has_more``, there may be another event to report immediately.
    """

    event: Event | None
    state: WebhookState | None
    has_more: bool = False


class Events:
    """Reads the events to report. ``form`` generates the JSON document."""

    def __init__(self, mail: MailReader, form: Form) -> None:
        self._mail = mail
        self._form = form

    async def next(self, leased: StoredWebhook, now_ms: int) -> Step:
        """Return the next event of a webhook. Raises ``AddressExpired`` and storage errors."""
        if leased.expires_at_ms <= now_ms:
            return self._expired(leased)
        step = await self._next_message(leased) if "message" in leased.webhook.events else None
        if (step is None or (step.event is None and not step.has_more)) and self._reports_verdicts(leased):
            current = leased if step is None or step.state is None else replace(leased, state=step.state)
            step = await self._next_verdict(current, now_ms)
        return step or Step(None, leased.state)

    def _reports_verdicts(self, leased: StoredWebhook) -> bool:
        return "verdict" in leased.webhook.events and self._mail.check is not None

    def _expired(self, leased: StoredWebhook) -> Step:
        if "expired" not in leased.webhook.events:
            return Step(None, None)
        kind = "inbox.expired"
        return Step(Event((kind, leased.inbox_id), self._form(kind, leased.expires_at_ms, leased.address, None)), None)

    async def _next_message(self, leased: StoredWebhook) -> Step:
        state = leased.state
        message, position, has_more = await self._next(leased, state.reported_message_id)
        if message is not None and "verdict" in leased.webhook.has and self._mail.check and not _is_checked(message):
            return Step(None, state)  # the message's verdict will wake the dispatcher; later messages must wait for it
        state = replace(state, reported_message_id=position)
        if message is None:
            return Step(None, state, has_more)
        is_more = has_more or self._reports_verdicts(leased)
        return Step(self._event("message.received", message.received_at_ms, leased, message), state, is_more)

    async def _next_verdict(self, leased: StoredWebhook, now_ms: int) -> Step:
        message, position, has_more = await self._next(leased, leased.state.reported_verdict_id)
        if message is not None and not _is_checked(message):
            return Step(None, leased.state)
        state = replace(leased.state, reported_verdict_id=position)
        if message is None:
            return Step(None, state, has_more)
        return Step(self._event("verdict.reached", now_ms, leased, message), state, has_more=True)

    async def _next(self, leased: StoredWebhook, after: str) -> tuple[Message | None, str, bool]:
        """Return the next message to report, the position after it, and whether more messages may follow."""
        has = leased.webhook.has - {"verdict"}
        page = Page(after=after, ascending=True, limit=1, has=has, bodies_bytes=MAX_BODY_BYTES)
        with on_behalf_of(leased.inbox_id):
            listing = await self._mail.list_without_token(leased.address, page)
        if listing.messages:
            return listing.messages[0], listing.messages[0].id, listing.has_more
        if listing.has_more and listing.examined_to:
            return None, listing.examined_to, True
        return None, max(after, leased.newest_message_id), False

    def _event(self, kind: str, at_ms: int, leased: StoredWebhook, message: Message) -> Event:
        """Return an event of limited size: if necessary, omit the message's text first, and then other parts."""
        short = {name: getattr(message, name)[:_SHORT_CHARACTERS] for name in ("subject", "from_name", "from_address")}
        without_text = replace(message, body="", truncated=True)
        without_more = replace(without_text, attachments=(), findings=Findings(), **short)
        for one in (without_text if message.truncated else message, without_text, without_more):
            body = self._form(kind, at_ms, leased.address, one)
            if len(body) <= MAX_BODY_BYTES:
                break
        return Event((kind, message.id), body)


def _is_checked(message: Message) -> bool:
    return message.authentication not in (None, NOT_CHECKED)
