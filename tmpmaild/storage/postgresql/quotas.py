"""What inboxes, their creators and all of them together may hold, and what is stored.

A mail is charged roughly what it takes in the tables, their indexes included.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from tmpmaild.storage.settings import Limits

LEAST_STORED_BYTES: Final = 4096
"""What the smallest mail is charged: rows and their indexes, with the free room that pages have."""

INBOX_BYTES: Final = 1024
"""What an inbox counts for in the storage, from its creation until its tombstone is deleted."""

DEFAULT_CAP_BYTES: Final = 10 * 1024**3
_SHARDS: Final = 64  # the rows of the table usage


def allowed(limits: Limits) -> tuple[int, ...]:
    """Return limits as the functions of the database take them, in ``allowed``."""
    return (
        limits.max_messages,
        limits.max_bytes,
        limits.max_creator_bytes,
        limits.operator_max_messages,
        limits.operator_max_bytes,
        LEAST_STORED_BYTES,
    )


class Usage:
    """What all daemons together have stored, as of the last statement of this one.

    ``shard`` is the row of the table ``usage`` that this daemon changes.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.shard = secrets.randbelow(_SHARDS)
        self.stored_bytes = 0
        self.inboxes = 0
        self.messages = 0

    def note(self, totals: Sequence[int]) -> None:
        """Take over what a statement has returned."""
        self.stored_bytes, self.inboxes, self.messages = totals

    @property
    def has_room(self) -> bool:
        """Whether the cap is further away than what is being received may need."""
        return self.stored_bytes + self.limits.reserve_bytes <= self.limits.cap_bytes
