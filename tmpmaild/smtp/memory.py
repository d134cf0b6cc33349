"""How much memory mails on their way in may take: all together, those of one client, and what each gets unasked."""

from collections import Counter

ALLOWANCE_BYTES = 64 * 1024
"""What every session may hold whatever the others do, so that small mail comes in while large mail must wait."""


class Memory:
    """The octets that sessions hold of unfinished and unstored mail, their allowances aside."""

    def __init__(self, max_bytes: int, max_share_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_share_bytes = max_share_bytes
        self._shares: Counter[str] = Counter()
        self.held_bytes = 0

    def take(self, client: str | None, more_bytes: int) -> bool:
        """Take more, or give back what is negative; False, and nothing is taken, if it is too much.

        ``client`` of None has no share of its own to keep to.
        """
        share_bytes = self._shares[client] + more_bytes if client is not None else 0
        if more_bytes > 0 and (self.held_bytes + more_bytes > self._max_bytes or share_bytes > self._max_share_bytes):
            return False
        self.held_bytes += more_bytes
        if client is not None:
            self._keep_share(client, share_bytes)
        return True

    def _keep_share(self, client: str, share_bytes: int) -> None:
        if share_bytes:
            self._shares[client] = share_bytes
        else:
            self._shares.pop(client, None)  # the table is no larger than the clients that hold something


class Account:
    """What one session holds, and what it has reserved for the size that a sender declared."""

    __slots__ = ("_client", "_memory", "_reserved_bytes", "_taken_bytes")

    def __init__(self, memory: Memory, client: str | None) -> None:
        self._memory = memory
        self._client = client
        self._reserved_bytes = 0
        self._taken_bytes = 0

    def reserve(self, size_bytes: int) -> bool:
        """Make sure of the memory for a mail of this size; False if there is not that much."""
        self._reserved_bytes = size_bytes
        return self.hold(0)

    def hold(self, held_bytes: int) -> bool:
        """Account for so much of a mail; False if it is too much: nothing may then be held any more."""
        wanted_bytes = max(held_bytes, self._reserved_bytes) - ALLOWANCE_BYTES
        more_bytes = max(wanted_bytes, 0) - self._taken_bytes
        if not more_bytes:
            return True
        if not self._memory.take(self._client, more_bytes):
            self.release()
            return False
        self._taken_bytes += more_bytes
        return True

    def keep(self, held_bytes: int) -> None:
        """Give back what is reserved but not held: this sender has promised more than comes."""
        self._reserved_bytes = 0
        self.hold(held_bytes)

    def release(self) -> None:
        """Give everything back."""
        self._reserved_bytes = 0
        if self._taken_bytes:
            self._memory.take(self._client, -self._taken_bytes)
            self._taken_bytes = 0
