"""Token buckets, which limit the number of requests per client.

This module is independent of HTTP; the caller passes the time.
"""

import math
from collections import OrderedDict
from collections.abc import Awaitable
from typing import NamedTuple, Protocol, TypeVar

B = TypeVar("B", bound="Buckets")
Made_co = TypeVar("Made_co", bound="Buckets", covariant=True)

_MAX_CLIENTS = 100_000
_ROUNDING_SECONDS = 1e-6


class Decision(NamedTuple):
    """Whether a request is allowed, the number of further requests allowed now, and the seconds to the next token."""

    allowed: bool
    remaining: int
    next_token_seconds: int


class Buckets(Protocol):
    """One bucket for each client. ``name`` is the name of the policy."""

    name: str
    tokens_per_minute: int
    burst: int

    def take(self, client: str, now_seconds: float) -> Decision | Awaitable[Decision]:
        """Take a token if one is available; the decision may be awaitable."""

    def forget_idle(self, now_seconds: float) -> None:
        """Drop clients whose state is no longer needed."""


class MakeBuckets(Protocol[Made_co]):
    """A function that creates the buckets of a policy, such as ``Storage.buckets``."""

    def __call__(self, *, tokens_per_minute: int, burst: int, name: str) -> Made_co:
        """Return buckets for a rate."""


class TokenBuckets:
    """One bucket for each client, with ``burst`` tokens; a token is returned every ``60 / tokens_per_minute`` seconds.

    A bucket is represented by the time at which it will be full again; a client whose bucket is full is removed. The
    table is bounded: beyond ``max_clients``, the client that has been inactive longest is removed early. ``name`` is
    the name of the policy.
    """

    def __init__(
        self, tokens_per_minute: int, burst: int, *, name: str = "default", max_clients: int = _MAX_CLIENTS
    ) -> None:
        self.name = name
        self.tokens_per_minute = tokens_per_minute
        self.burst = burst
        self._refill_seconds = 60 / tokens_per_minute
        self._max_clients = max_clients
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, client: str, now_seconds: float) -> Decision:
        """Take a token if one is available. A refusal does not take a token."""
        missing_seconds = max(self._full_at.get(client, 0.0) - now_seconds, 0.0) + self._refill_seconds
        decision = decision_on(missing_seconds, self._refill_seconds, self.burst)
        if decision.allowed:
            self._full_at[client] = now_seconds + missing_seconds
            self._full_at.move_to_end(client)
            self._forget(now_seconds)
        return decision

    def has_token(self, client: str, now_seconds: float) -> bool:
        """Return whether ``take`` would find a token."""
        full_at = self._full_at.get(client)
        if full_at is None:
            return True
        return full_at - now_seconds <= (self.burst - 1) * self._refill_seconds + _ROUNDING_SECONDS

    def put_back(self, client: str) -> None:
        """Put back a token that has just been taken."""
        if client in self._full_at:
            self._full_at[client] -= self._refill_seconds

    def forget_idle(self, now_seconds: float) -> None:
        """Drop the clients whose buckets are full again."""
        idle = [client for client, full_at in self._full_at.items() if full_at <= now_seconds]
        for client in idle:
            del self._full_at[client]

    def _forget(self, now_seconds: float) -> None:
        while len(self._full_at) > self._max_clients or next(iter(self._full_at.values())) <= now_seconds:
            self._full_at.popitem(last=False)


def decision_on(missing_seconds: float, refill_seconds: float, burst: int) -> Decision:
    """Return the decision for a bucket that, after taking a token, needs ``missing_seconds`` to become full again."""
    wait_seconds = missing_seconds - burst * refill_seconds
    if wait_seconds > _ROUNDING_SECONDS:
        return Decision(allowed=False, remaining=0, next_token_seconds=math.ceil(wait_seconds))
    missing_tokens = (missing_seconds - _ROUNDING_SECONDS) / refill_seconds
    next_token_seconds = (missing_tokens - math.floor(missing_tokens)) * refill_seconds
    return Decision(
        allowed=True,
        remaining=burst - math.ceil(missing_tokens),
        next_token_seconds=max(math.ceil(next_token_seconds), 1),
    )


def changed_buckets(
    known: B | None, make: MakeBuckets[B], tokens_per_minute: int, burst: int = 0, *, name: str = "default"
) -> B | None:
    """Return buckets for a rate, or the existing buckets if the rate is unchanged; None for 0, which means no limit.

    A ``burst`` of 0 means as many tokens as are returned in a minute.
    """
    burst = burst or tokens_per_minute
    if known is not None and (known.tokens_per_minute, known.burst) == (tokens_per_minute, burst):
        return known
    return make(tokens_per_minute=tokens_per_minute, burst=burst, name=name) if tokens_per_minute else None


class RateLimits:
    """The policies: ``default`` for the API, ``page`` for the other requests of a web page; None means no limit."""

    def __init__(self, default: Buckets | None = None, page: Buckets | None = None) -> None:
        self.default = default
        self.page = page

    def change(self, make: MakeBuckets[Buckets], *, default: tuple[int, int], page_per_minute: int) -> None:
        """Set new rates (tokens per minute, and burst); 0 means no limit.

        If a rate is unchanged, clients keep their remaining tokens.
        """
        self.default = changed_buckets(self.default, make, *default, name="default")
        self.page = changed_buckets(self.page, make, page_per_minute, name="page")

    def forget_idle(self, now_seconds: float) -> None:
        """Drop the clients whose buckets are full again."""
        for buckets in (self.default, self.page):
            if buckets is not None:
                buckets.forget_idle(now_seconds)
