"""What daemons remember together besides mail. Its tables are not in the write-ahead log: nothing waits for a disk."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import asyncpg

from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.storage.keys import keyed_hash
from tmpmaild.storage.postgresql.connection import Session
from tmpmaild.storage.postgresql.gathering import Gatherer
from tmpmaild.storage.postgresql.obstacles import FAILURES, repeated, translate

T = TypeVar("T")

_TAKE: Final = "SELECT take_tokens($1::text[], $2::bytea[], $3::bigint[], $4::integer[], $5)"
_KEEP: Final = "SELECT keep_permission($1, $2, $3, $4)"
_KEPT: Final = "SELECT content FROM permission WHERE secret_hash = $1 AND expires_at_ms > $2"
_CLEAN_EACH: Final = 16  # statements, of at most 64 clients
_MICROSECONDS: Final = 1_000_000


class _Wish(NamedTuple):
    policy: str
    client_hash: bytes
    refill_us: int
    burst: int


class PostgresShared:
    """``Shared`` in the tables of the engine, over a connection of its own."""

    def __init__(self, session: Session, hash_key: bytes, clock: Callable[[], int]) -> None:
        self._session = session
        self._hash_key = hash_key
        self._clock = clock
        self._takes = Gatherer(self._take)
        self._statements = 0

    async def take_token(self, policy: str, client: str, *, refill_seconds: float, burst: int) -> float:
        """See ``Shared``."""
        refill_us = round(refill_seconds * _MICROSECONDS)
        missing_us = await self._takes.ask(_Wish(policy, keyed_hash(self._hash_key, client), refill_us, burst))
        return missing_us / _MICROSECONDS

    async def _take(self, wishes: Sequence[_Wish]) -> Sequence[int]:
        columns = [list(column) for column in zip(*wishes, strict=True)]
        self._statements += 1
        cleans = self._statements % _CLEAN_EACH == 0
        missing: Sequence[int] = await self._run(lambda connection: connection.fetchval(_TAKE, *columns, cleans))
        return missing

    async def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """See ``Shared``."""
        values = (_hash(secret), content, until_ms, self._clock())
        await self._run(lambda connection: connection.fetchval(_KEEP, *values))

    async def kept(self, secret: str) -> bytes | None:
        """See ``Shared``."""
        values = (_hash(secret), self._clock())
        found: bytes | None = await self._run(lambda connection: connection.fetchval(_KEPT, *values))
        return found

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


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
