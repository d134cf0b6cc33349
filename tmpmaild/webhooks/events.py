"""What is told next to the target of an inbox: read from the stored mail, in its order, above what was told before."""

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from tmpmaild.inboxes.reading import NOT_CHECKED, MailReader
from tmpmaild.model import Findings, Message, Page
from tmpmaild.webhookmodel import StoredWebhook, WebhookState

MOST_BODY_BYTES: Final = 256 * 1024
_SHORT_CHARACTERS: Final = 1000

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


def is_waiting(stored: StoredWebhook) -> bool:
    """Return whether there may be something to tell of a live inbox."""
    positions = {"message": stored.state.told_message_id, "verdict": stored.state.told_verdict_id}
    return any(stored.newest_message_id > positions[name] for name in stored.webhook.events & positions.keys())


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
            told = leased if step is None or step.state is None else replace(leased, state=step.state)
            step = await self._next_verdict(told, now_ms)
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
