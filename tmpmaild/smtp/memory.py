"""Limits the memory used by incoming messages, both for all sessions together and for each client."""

from collections import Counter
from typing import Final

ALLOWANCE_BYTES: Final = 64 * 1024
"""Every session may always use this much memory: small messages are accepted even while large ones are refused."""


class MailMemory:
    """Counts the bytes beyond their allowances that sessions use for incomplete or unstored messages."""

    def __init__(self, max_bytes: int = 0, max_share_bytes: int = 0) -> None:
        self.limit(max_bytes, max_share_bytes)
        self._shares: Counter[str | None] = Counter()
        self.held_bytes = 0

    def limit(self, max_bytes: int, max_share_bytes: int) -> None:
        """Set the limits; memory that is already in use is not released."""
        self._max_bytes = max_bytes
        self._max_share_bytes = max_share_bytes

    def take(self, client: str | None, more_bytes: int) -> bool:
        """Take more bytes, or release bytes if ``more_bytes`` is negative.

        Returns False, and takes nothing, if a limit is exceeded. If ``client`` is None, only the total limit applies.
        """
        share_bytes = self._shares[client] + more_bytes if client is not None else 0
        if more_bytes > 0 and (self.held_bytes + more_bytes > self._max_bytes or share_bytes > self._max_share_bytes):
            return False
        self.held_bytes += more_bytes
        if share_bytes:
            self._shares[client] = share_bytes
        else:
            self._shares.pop(client, None)  # the table contains only clients that use memory
        return True


class MemoryAccount:
    """The memory that one session uses, and the memory that is reserved for the size declared by the sender.

    ``in_use`` is false while there is nothing to release.
    """

    __slots__ = ("_client", "_memory", "_reserved_bytes", "_taken_bytes", "in_use")

    def __init__(self, memory: MailMemory, client: str | None) -> None:
        self._memory = memory
        self._client = client
        self._reserved_bytes = 0
        self._taken_bytes = 0
        self.in_use = False

    def reserve(self, size_bytes: int) -> bool:
        """Reserve memory for a message of this size; return False if there is not enough memory."""
        if size_bytes <= ALLOWANCE_BYTES:
            return True
        self._reserved_bytes = size_bytes
        self.in_use = True
        return self.hold(0)

    def hold(self, held_bytes: int) -> bool:
        """Record how much memory a message uses; return False if it exceeds a limit and must be discarded."""
        if held_bytes <= ALLOWANCE_BYTES and not self.in_use:
            return True
        wanted_bytes = max(held_bytes, self._reserved_bytes, ALLOWANCE_BYTES) - ALLOWANCE_BYTES
        more_bytes = wanted_bytes - self._taken_bytes
        if not more_bytes:
            return True
        if not self._memory.take(self._client, more_bytes):
            self.release()
            return False
        self._taken_bytes += more_bytes
        self.in_use = True
        return True

    def keep(self, held_bytes: int) -> None:
        """Release reserved memory that is not used, because less has arrived than the sender declared."""
        self._reserved_bytes = 0
        self.hold(held_bytes)

    def release(self) -> None:
        """Release all memory."""
        self._reserved_bytes = 0
        self.in_use = False
        if self._taken_bytes:
            self._memory.take(self._client, -self._taken_bytes)
            self._taken_bytes = 0
