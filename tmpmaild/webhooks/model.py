"""The webhook of an inbox: who is called of what, and how far the calls have come."""

from typing import Final, Literal

from msgspec import Struct

from tmpmaild.model import Feature

WebhookEvent = Literal["message", "verdict", "expired"]
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the beginning of any
"""Of a secret, before its octets in Base64 (Standard Webhooks)."""


class Webhook(Struct, frozen=True):
    """Where the holder of an inbox wants to be called, and of what.

    A message counts if it has all of ``has``. ``secret`` signs the calls; it is told to nobody but who set the webhook.
    """

    url: str
    events: frozenset[WebhookEvent]
    has: frozenset[Feature]
    secret: str


class WebhookState(Struct, frozen=True):
    """How far the calls have come.

    ``told_message_id`` is the last message of which the target was told that it has come, ``told_verdict_id`` that it
    is known who sent it; a message with that id need not exist. ``failures`` are those in a row. No call is made before
    ``next_at_ms``. ``result`` of the last call is its status, or why there is none; "" and None before the first.
    """

    told_message_id: str
    told_verdict_id: str
    failures: int = 0
    next_at_ms: int = 0
    called_at_ms: int | None = None
    result: str = ""


class StoredWebhook(Struct, frozen=True):
    """A webhook and its inbox, which may have expired.

    ``newest_message_id``: no message of the inbox is above it, and none that comes later is at or below it. ``version``
    tells one webhook from the next; each lease and each result adds one to it.
    """

    inbox_id: str
    address: str
    expires_at_ms: int
    version: int
    webhook: Webhook
    state: WebhookState
    newest_message_id: str

    @property
    def is_waiting(self) -> bool:
        """Whether there may be something to tell of a live inbox."""
        positions = {"message": self.state.told_message_id, "verdict": self.state.told_verdict_id}
        return any(self.newest_message_id > positions[name] for name in self.webhook.events & positions.keys())
