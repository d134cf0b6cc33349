"""The state to store after a call: the events reported so far, and the time at which a failed call is retried."""

import random
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec.structs import replace

from tmpmaild.model import StoredWebhook, WebhookState
from tmpmaild.webhooks.calling import Outcome

_DELAYS_SECONDS: Final = (1, 5, 30, 120, 300, 600, 900)  # the last delay is used for all later retries
_JITTER: Final = 0.2
_GONE: Final = 410
_LATER: Final = frozenset({429, 503})


def state_after(
    outcome: Outcome, leased: StoredWebhook, accepted: WebhookState | None, now_ms: int
) -> WebhookState | None:
    """Return the state of a webhook after a call, or None if the webhook must be removed.

    ``accepted`` is the webhook's new state if the target has accepted the event.
    """
    before = leased.state
    if outcome.status == _GONE or (outcome.is_good and accepted is None):
        return None
    if outcome.is_good and accepted is not None:
        return replace(accepted, failures=0, next_at_ms=0, called_at_ms=now_ms, result=outcome.text)
    delay_seconds = _DELAYS_SECONDS[min(before.failures, len(_DELAYS_SECONDS) - 1)]
    delay_ms = int(1000 * delay_seconds * (1 + _JITTER * random.random()))  # noqa: S311 - only spreads calls over time
    if outcome.status in _LATER:
        delay_ms = max(delay_ms, _retry_after_ms(outcome.retry_after, now_ms))
    next_at_ms = now_ms + delay_ms
    if now_ms < leased.expires_at_ms:  # the expiry is reported immediately, because the messages are then deleted
        next_at_ms = min(next_at_ms, leased.expires_at_ms)
    return replace(
        before, failures=before.failures + 1, next_at_ms=next_at_ms, called_at_ms=now_ms, result=outcome.text
    )


def _retry_after_ms(text: str, now_ms: int) -> int:
    """Parse a number of seconds or a date (RFC 9110 §10.2.3), and return the delay; 0 if the text is neither."""
    if text.isascii() and text.isdigit():
        return int(text[:9]) * 1000
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000) - now_ms
