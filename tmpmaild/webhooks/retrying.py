"""When a target is called again, after what has become of a call."""

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec.structs import replace

from tmpmaild.webhookmodel import StoredWebhook, WebhookState
from tmpmaild.webhooks.calling import Outcome

_DELAYS_SECONDS: Final = (1, 5, 30, 120, 300, 600, 900)  # and so on
_JITTER: Final = 0.2
_GONE: Final = 410
_LATER: Final = frozenset({429, 503})


def after(
    outcome: Outcome, leased: StoredWebhook, told: WebhookState | None, now_ms: int, random: Callable[[], float]
) -> WebhookState | None:
    """Return what is stored after a call, None if the webhook is taken away.

    ``told`` is that if the target has taken the event. ``random`` returns a number from 0 to 1.
    """
    before = leased.state
    if outcome.status == _GONE or (outcome.is_good and told is None):
        return None
    if outcome.is_good and told is not None:
        return replace(told, failures=0, next_at_ms=0, called_at_ms=now_ms, result=outcome.text)
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
