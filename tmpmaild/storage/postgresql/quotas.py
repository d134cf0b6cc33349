"""What inboxes, their creators and all of them together may hold, and what is stored.

A mail is charged roughly what it takes in the tables, their indexes included.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tmpmaild.storage.base import OPERATOR_MAX_BYTES, OPERATOR_MAX_MESSAGES, StorageLimits

LEAST_STORED_BYTES: Final = 4096
"""What the smallest mail is charged: rows and their indexes, with the free room that pages have."""

INBOX_BYTES: Final = 1024
"""What an inbox counts for in the storage, from its creation until its tombstone is deleted."""

_DEFAULT_CAP_BYTES: Final = 10 * 1024**3
_NO_LIMIT: Final = 1 << 62
_SHARDS: Final = 64  # the rows of the table usage


class Limits(Struct, frozen=True):
    """What an inbox may hold: messages, octets, and the octets of all inboxes of its creator; and all of them together.

    A huge number means "no limit". The operator's inbox has limits of its own.
    """

    cap_bytes: int
    reserve_bytes: int
    max_messages: int
    max_bytes: int
    max_creator_bytes: int
    operator_max_messages: int = OPERATOR_MAX_MESSAGES
    operator_max_bytes: int = OPERATOR_MAX_BYTES

    @property
    def composite(self) -> tuple[int, ...]:
        """The same as the functions of the database take it, as ``allowed``."""
        return (
            self.max_messages,
            self.max_bytes,
            self.max_creator_bytes,
            self.operator_max_messages,
            self.operator_max_bytes,
            LEAST_STORED_BYTES,
        )


def inbox_limits(limits: StorageLimits) -> Limits:
    """Return what inboxes may hold under the limits that the operator has set."""
    cap_bytes = limits.max_bytes or _DEFAULT_CAP_BYTES
    return Limits(
        cap_bytes=cap_bytes,
        reserve_bytes=limits.reserve_bytes,
        max_messages=limits.max_messages_per_inbox or _NO_LIMIT,
        max_bytes=limits.max_bytes_per_inbox or _NO_LIMIT,
        max_creator_bytes=int(limits.max_share_per_creator * cap_bytes),
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
