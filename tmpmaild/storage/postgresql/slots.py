"""Slots: ten minutes of expiry each. The mail of the inboxes that expire in one lies in partitions of its own.

When a slot has passed and was swept, its partitions are dropped: files are removed, and nothing is left to vacuum.
"""

from typing import Final

SLOT_MS: Final = 10 * 60 * 1000
APART: Final = 0
"""The slot of mail that stays for more than ``_MOST_SLOTS``, which the sweep deletes row by row."""

_MOST_SLOTS: Final = 144  # a day; each slot is two tables
_AHEAD_SLOTS: Final = 12
_GRACE_MS: Final = 30 * 1000  # a batch that is under way may still hold mail for a slot that has passed


def slot(expires_at_ms: int, now_ms: int) -> int:
    """Return the slot of an inbox that expires at that time."""
    number = expires_at_ms // SLOT_MS
    return number if number <= now_ms // SLOT_MS + _MOST_SLOTS else APART


def slots_ahead(now_ms: int) -> list[int]:
    """Return the slots whose partitions should be there before an inbox needs them."""
    first = now_ms // SLOT_MS
    return list(range(first, first + _AHEAD_SLOTS))


def first_kept(now_ms: int) -> int:
    """Return the first slot that has not passed."""
    return (now_ms - _GRACE_MS) // SLOT_MS
