"""What all daemons together have stored, as of the last statement of this one, and whether there is room for more."""

import secrets
from collections.abc import Sequence
from typing import Final

from tmpmaild.storage.postgresql.limits import Limits

_SHARDS: Final = 64  # the rows of the table usage


class Usage:
    """The counters of the storage; ``shard`` is the row of the table that this daemon changes."""

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
