"""What is stored after a call: how far the calls have come, and when a call that has failed is made again."""

import random
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec.structs import replace

from tmpmaild.model import StoredWebhook, WebhookState
from tmpmaild.webhooks.calling import Outcome

_DELAYS_SECONDS: Final = (1, 5, 30, 120, 300, 600, 900)  # the last one repeats
_JITTER: Final = 0.2
_GONE: Final = 410
_LATER: Final = frozenset({429, 503})


def state_after(
    outcome: Outcome, leased: StoredWebhook, accepted: WebhookState | None, now_ms: int
) -> WebhookState | None:
    """Return the state of a webhook after a call, None if the webhook is removed.

    ``accepted`` is its state if the target has accepted the event.
    """
    before = leased.state
    if outcome.status == _GONE or (outcome.is_good and accepted is None):
        return None
    if outcome.is_good and accepted is not None:
        return replace(accepted, failures=0, next_at_ms=0, called_at_ms=now_ms, result=outcome.text)
    delay_seconds = _DELAYS_SECONDS[min(before.failures, len(_DELAYS_SECONDS) - 1)]
    delay_ms = int(1000 * delay_seconds * (1 + _JITTER * random.random()))  # noqa: S311 - it only spreads calls
    if outcome.status in _LATER:
        delay_ms = max(delay_ms, _retry_after_ms(outcome.retry_after, now_ms))
    next_at_ms = now_ms + delay_ms
    if now_ms < leased.expires_at_ms:  # at expiry the messages are gone, and the expiry is reported at once
        next_at_ms = min(next_at_ms, leased.expires_at_ms)
    return replace(
        before, failures=before.failures + 1, next_at_ms=next_at_ms, called_at_ms=now_ms, result=outcome.text
    )


def _retry_after_ms(text: str, now_ms: int) -> int:
    """Parse seconds or a date (RFC 9110 §10.2.3) into a delay, 0 if it is neither."""
    if text.isascii() and text.isdigit():
        return int(text[:9]) * 1000
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000) - now_ms
