"""Bounds of incoming mail: memory in all, of a client and of a session; how slowly it may come; unknown recipients."""

from collections import Counter
from collections.abc import Callable

from tmpmaild.ratelimit import TokenBuckets, changed_buckets

_MEASURED_SECONDS = 300
_MIN_BYTES_PER_SECOND = 500  # as Postfix's smtpd_min_data_rate

ALLOWANCE_BYTES = 64 * 1024
"""What every session may hold in any case, so that small mail is received while large mail is refused."""


class Memory:
    """The octets that sessions hold of unfinished and unstored mail, without their allowances."""

    def __init__(self, max_bytes: int = 0, max_share_bytes: int = 0) -> None:
        self.limit(max_bytes, max_share_bytes)
        self._shares: Counter[str] = Counter()
        self.held_bytes = 0

    def limit(self, max_bytes: int, max_share_bytes: int) -> None:
        """Set the limits; what is held already stays."""
        self._max_bytes = max_bytes
        self._max_share_bytes = max_share_bytes

    def take(self, client: str | None, more_bytes: int) -> bool:
        """Take more octets, or return them if negative; False, and nothing is taken, if it is over a limit.

        A ``client`` of None has no limit of its own.
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
            self._shares.pop(client, None)  # only clients that hold something are in the table


class Account:
    """What one session holds, and what it has reserved for the size that a sender declared.

    ``in_use`` is false while there is nothing to return.
    """

    __slots__ = ("_client", "_memory", "_reserved_bytes", "_taken_bytes", "in_use")

    def __init__(self, memory: Memory, client: str | None) -> None:
        self._memory = memory
        self._client = client
        self._reserved_bytes = 0
        self._taken_bytes = 0
        self.in_use = False

    def reserve(self, size_bytes: int) -> bool:
        """Reserve memory for a mail of this size; False if there is not enough."""
        if size_bytes <= ALLOWANCE_BYTES:
            return True
        self._reserved_bytes = size_bytes
        self.in_use = True
        return self.hold(0)

    def hold(self, held_bytes: int) -> bool:
        """Account for this much of a mail; False if it is over a limit: the mail must then be discarded."""
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
        """Return what is reserved but not held: less has come than the sender declared."""
        self._reserved_bytes = 0
        self.hold(held_bytes)

    def release(self) -> None:
        """Return everything."""
        self._reserved_bytes = 0
        self.in_use = False
        if self._taken_bytes:
            self._memory.take(self._client, -self._taken_bytes)
            self._taken_bytes = 0


class Pace:
    """The pace of one mail, from loop times and the octets received so far. ``since`` is when it was last measured."""

    __slots__ = ("_bytes", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self._bytes = 0

    def is_too_slow(self, now: float, received_bytes: int) -> bool:
        """Return whether the mail has trickled lately; asked more often, it is measured once in some minutes."""
        seconds = now - self.since
        if seconds <= _MEASURED_SECONDS:
            return False
        # Measured since the last time, not since DATA: a mail that comes fast at first could be stretched over a day.
        more_bytes = received_bytes - self._bytes
        self.since, self._bytes = now, received_bytes
        return more_bytes < seconds * _MIN_BYTES_PER_SECOND


class UnknownRecipients:
    """How many unknown recipients a client may name in all of its sessions together: a bucket of tokens each.

    A client without a token is told nothing of any recipient, so that those that exist cannot be told from the others.
    A token is taken before a recipient is looked up, and put back if it is known: so parallel sessions get no more.
    A ``client`` of None has no limit. ``clock_seconds`` is monotonic.
    """

    def __init__(self, clock_seconds: Callable[[], float]) -> None:
        self._clock_seconds = clock_seconds
        self._buckets: TokenBuckets | None = None

    def limit(self, per_minute: int, burst: int) -> None:
        """Set the rate; 0 is no limit. A client keeps what it has left if the rate is the same as before."""
        self._buckets = changed_buckets(self._buckets, TokenBuckets, per_minute, burst)

    def may_name(self, client: str | None) -> bool:
        """Return whether a client has a token left."""
        return client is None or self._buckets is None or self._buckets.has_token(client, self._clock_seconds())

    def take(self, client: str | None) -> bool:
        """Take a token for a recipient that may be unknown; False if there is none."""
        if client is None or self._buckets is None:
            return True
        return self._buckets.take(client, self._clock_seconds()).allowed

    def put_back(self, client: str | None) -> None:
        """Return the token: the recipient is known, or it could not be found out."""
        if client is not None and self._buckets is not None:
            self._buckets.put_back(client)
