"""What daemons remember together besides mail. Its tables are not in the write-ahead log: nothing waits for a disk.

A crash of the server may lose it.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

import asyncpg

from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.measures import Gauge, Measure
from tmpmaild.ratelimit import Decision, decision_on
from tmpmaild.storage.enginestorage import Batcher
from tmpmaild.storage.postgresql.server import FAILURES, Session, repeated, translate
from tmpmaild.storage.rows import keyed_hash

T = TypeVar("T")

_TAKE: Final = "SELECT take_tokens($1::text[], $2::bytea[], $3::bigint[], $4::integer[], $5)"
_KEEP: Final = "SELECT keep_permission($1, $2, $3, $4)"
_KEPT: Final = "SELECT content FROM permission WHERE secret_hash = $1 AND expires_at_ms > $2"
_CLEAN_EACH: Final = 16  # statements, of at most 64 clients
_MICROSECONDS: Final = 1_000_000
_MAX_REFUSED: Final = 100_000  # clients

CLOCK_SECONDS: Final = 10.0
_SLOW_SECONDS: Final = 1.0
_CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())"
# The monotonic clock stands still while a machine is suspended.
_elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class _Take(NamedTuple):
    policy: str
    client_hash: bytes
    refill_us: int
    burst: int


class Sharing:
    """The tables of buckets and permissions, over a connection of its own. Raises ``StorageUnavailable``."""

    def __init__(self, session: Session, hash_key: bytes, clock: Callable[[], int]) -> None:
        self._session = session
        self._hash_key = hash_key
        self._clock = clock
        self._takes = Batcher(self._take, lambda _: 64)
        self._statements = 0

    async def take_token(self, policy: str, client: str, *, refill_seconds: float, burst: int) -> float:
        """Take a token from a client's bucket, which holds ``burst`` of them, if there is one.

        Returns how many seconds the bucket is away from full with this token taken; more than it takes to fill an empty
        one means that there was none.
        """
        refill_us = round(refill_seconds * _MICROSECONDS)
        missing_us = await self._takes.submit(_Take(policy, keyed_hash(self._hash_key, client), refill_us, burst))
        return missing_us / _MICROSECONDS

    async def _take(self, takes: Sequence[_Take]) -> Sequence[int]:
        columns = [list(column) for column in zip(*takes, strict=True)]
        self._statements += 1
        cleans = self._statements % _CLEAN_EACH == 0
        missing: Sequence[int] = await self._run(lambda connection: connection.fetchval(_TAKE, *columns, cleans))
        return missing

    async def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """See ``Storage``."""
        values = (_hash(secret), content, until_ms, self._clock())
        await self._run(lambda connection: connection.fetchval(_KEEP, *values))

    async def kept(self, secret: str) -> bytes | None:
        """See ``Storage``."""
        values = (_hash(secret), self._clock())
        found: bytes | None = await self._run(lambda connection: connection.fetchval(_KEPT, *values))
        return found

    @property
    def trouble(self) -> str:
        """Why there is no connection, "" if there is one."""
        return self._session.trouble

    async def connect(self) -> None:
        """Open the connection if it is not. Raises as ``Server.connect``."""
        await self._session.connection()

    async def close(self) -> None:
        """Answer what was asked, and close the connection."""
        await self._takes.close()
        await self._session.close()

    async def _run(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        try:
            return await repeated(lambda: self._session.use(work))
        except FAILURES as error:
            raise translate(error) from error
        except DatabaseError as error:
            raise StorageUnavailable(str(error)) from error


class SharedBuckets:
    """``Buckets`` of several daemons together; who has none is not asked for again until the next token comes.

    ``take`` is ``Sharing.take_token``.
    """

    def __init__(self, take: Callable[..., Awaitable[float]], tokens_per_minute: int, burst: int, *, name: str) -> None:
        self.name = name
        self.tokens_per_minute = tokens_per_minute
        self.burst = burst
        self._take = take
        self._refill_seconds = 60 / tokens_per_minute
        self._refused_until: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused_until)

    def take(self, client: str, now_seconds: float) -> Decision | Awaitable[Decision]:
        """Take a token if there is one. A client that was refused gets none before its next token, from any daemon."""
        wait_seconds = self._refused_until.get(client, 0.0) - now_seconds
        if wait_seconds > 0:
            return Decision(allowed=False, remaining=0, next_token_seconds=math.ceil(wait_seconds))
        return self._asked(client, now_seconds)

    async def _asked(self, client: str, now_seconds: float) -> Decision:
        missing_seconds = await self._take(self.name, client, refill_seconds=self._refill_seconds, burst=self.burst)
        decision = decision_on(missing_seconds, self._refill_seconds, self.burst)
        if not decision.allowed:
            self._refused_until[client] = now_seconds + missing_seconds - self.burst * self._refill_seconds
            if len(self._refused_until) > _MAX_REFUSED:
                self._refused_until.popitem(last=False)
        return decision

    def forget_idle(self, now_seconds: float) -> None:
        """Drop the refusals that have ended."""
        for client in [client for client, until in self._refused_until.items() if until <= now_seconds]:
            del self._refused_until[client]


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class DatabaseClock:
    """Unix milliseconds as the server has them: measured now and then, carried on by a clock that never steps."""

    def __init__(self) -> None:
        self._ahead_seconds = time.time() - _elapsed()
        self._was_measured = False

    def __call__(self) -> int:
        """Return the time."""
        return int((_elapsed() + self._ahead_seconds) * 1000)

    async def measure(self, connection: asyncpg.Connection) -> None:
        """Ask the server for its time. Its answer is of the middle between question and receipt.

        So a slow answer may be wrong by half of the time that it took: it only counts until a better one is known.
        """
        asked = _elapsed()
        server_seconds = float(await connection.fetchval(_CLOCK))
        received = _elapsed()
        if received - asked < _SLOW_SECONDS or not self._was_measured:
            self._ahead_seconds = server_seconds - (asked + received) / 2
            self._was_measured = True

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        help_text = "How far the database server's clock is ahead of this machine's."
        return (Gauge("storage_clock_offset_seconds", help_text, self.ahead_seconds),)

    def ahead_seconds(self) -> float:
        """Return how far the server's clock is ahead of this machine's."""
        return _elapsed() + self._ahead_seconds - time.time()
