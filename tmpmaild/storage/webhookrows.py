"""The values of a webhook's row, which are alike in all engines."""

from typing import Final, NamedTuple

from msgspec import DecodeError, json

from tmpmaild.storage import ids
from tmpmaild.webhookmodel import StoredWebhook, Webhook, WebhookState

_decode: Final = json.Decoder(Webhook).decode
_VERSION_BITS: Final = 62
MAX_VERSION: Final = 1 << _VERSION_BITS
"""Versions are drawn below it; the leases and results that follow find room above."""


def text(webhook: Webhook) -> str:
    """Return what the holder of an inbox wants as text to be stored."""
    return json.encode(webhook, order="sorted").decode()


def _webhook(text: str) -> Webhook:
    """Return a webhook; without URL and events if a newer version stored it in a form unknown here."""
    try:
        return _decode(text)
    except DecodeError:
        return Webhook("", frozenset(), frozenset(), "")


class WebhookRow(NamedTuple):
    """What is read of a webhook and its inbox; ``newest`` is the key of a message, 0 if there is none."""

    inbox_key: int
    address: str
    expires_at_ms: int
    version: int
    told_message: int
    told_verdict: int
    failures: int
    next_at_ms: int
    called_at_ms: int | None
    result: str
    webhook: str
    newest: int

    def stored(self, *, keys_by_inbox: bool) -> StoredWebhook:
        """Return the webhook; with ``keys_by_inbox`` the keys of messages are those of their inbox."""
        owner = self.inbox_key if keys_by_inbox else 0
        state = WebhookState(
            told_message_id=ids.inbox_message_id(owner, self.told_message),
            told_verdict_id=ids.inbox_message_id(owner, self.told_verdict),
            failures=self.failures,
            next_at_ms=self.next_at_ms,
            called_at_ms=self.called_at_ms,
            result=self.result,
        )
        return StoredWebhook(
            inbox_id=str(self.inbox_key),
            address=self.address,
            expires_at_ms=self.expires_at_ms,
            version=self.version,
            webhook=_webhook(self.webhook),
            state=state,
            newest_message_id=ids.inbox_message_id(owner, max(self.newest, self.told_message)),
        )


class StateRow(NamedTuple):
    """What is stored of a webhook that has this version; without ``next_at_ms`` the webhook is taken away."""

    inbox_key: int
    version: int
    told_message: int = 0
    told_verdict: int = 0
    failures: int = 0
    next_at_ms: int | None = None
    called_at_ms: int | None = None
    result: str = ""


def state_row(stored: StoredWebhook, state: WebhookState | None, *, keys_by_inbox: bool) -> StateRow:
    """Return what is to be stored of a webhook in place of what was read."""
    inbox_key = int(stored.inbox_id)
    if state is None:
        return StateRow(inbox_key, stored.version)
    owner = inbox_key if keys_by_inbox else 0
    return StateRow(
        inbox_key,
        stored.version,
        ids.key_not_above(state.told_message_id, owner),
        ids.key_not_above(state.told_verdict_id, owner),
        state.failures,
        state.next_at_ms,
        state.called_at_ms,
        state.result,
    )
