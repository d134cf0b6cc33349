"""Lets the owners of inboxes set and read their webhooks; ``tmpmaild.webhooks`` makes the calls."""

import asyncio
import base64
import secrets
from collections.abc import Collection, Sequence

from tmpmaild import webhooktargets
from tmpmaild.errors import InvalidRequest
from tmpmaild.model import SECRET_PREFIX, Feature, StoredWebhook, Webhook, WebhookEvent
from tmpmaild.storage.base import Storage

_SECRET_BYTES = 32


class Webhooks:
    """Sets and reads webhooks. ``allowed`` contains the operator's rules; without rules, webhooks are not allowed.

    Verdicts can be reported only if ``senders_are_checked``. ``changed`` contains the inboxes whose webhooks the
    dispatcher must read again; ``woken`` is set when an inbox is added.
    """

    def __init__(
        self,
        storage: Storage,
        allowed: Sequence[webhooktargets.Rule],
        *,
        senders_are_checked: bool = False,
    ) -> None:
        self.allowed = allowed
        self._senders_are_checked = senders_are_checked
        self._storage = storage
        self._clock = storage.clock
        self.changed: set[str] = set()
        self.woken = asyncio.Event()

    def mark_changed(self, inbox_id: str) -> None:
        """Make the dispatcher read a webhook again after it was set, removed, or leased by another daemon."""
        self.changed.add(inbox_id)
        self.woken.set()

    def make(self, url: str, events: Collection[WebhookEvent], has: Collection[Feature]) -> Webhook:
        """Return a new webhook with a new secret. Raises ``InvalidRequest`` if the webhook is not allowed."""
        errors = [("/webhook/url", text)] if (text := self._refusal(url)) else []
        if "verdict" in events and not self._senders_are_checked:
            errors.append(("/webhook/events", "expected no verdict: the operator has not set senders.resolver"))
        if errors:
            raise InvalidRequest(*errors)
        secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        return Webhook(webhooktargets.parse_url(url).url, frozenset(events), frozenset(has), secret)

    def _refusal(self, url: str) -> str:
        try:
            refusal = webhooktargets.refusal(self.allowed, webhooktargets.parse_url(url))
        except ValueError as error:
            return f"expected an http or https URL, but {error}"
        return refusal and f"expected a URL that the operator allows, but this one {refusal}"

    async def set(self, inbox_id: str, webhook: Webhook | None) -> None:
        """Replace the webhook of an inbox, or remove it.

        Raises ``AddressExpired``, ``AddressNotFound`` and storage errors.
        """
        await self._storage.set_webhook(inbox_id, webhook, self._clock())
        self.mark_changed(inbox_id)

    async def read(self, inbox_id: str) -> StoredWebhook | None:
        """Return the webhook of an inbox, or None."""
        return await self._storage.read_webhook(inbox_id)
