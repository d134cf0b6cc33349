"""The partitions of the message tables, one per table and slot; a slot is a ten-minute range of expiry times.

Messages in inboxes that expire in the same slot are stored in the same partitions. When a slot has passed and has been
swept, its partitions are dropped. This removes their files and leaves nothing to vacuum. A statement that changes the
schema blocks all other statements while it waits for a lock, so it gives up quickly.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

import asyncpg

from tmpmaild.errors import StorageUnavailable
from tmpmaild.storage.postgresql.server import FAILURES, Session, translate

SLOT_MS: Final = 10 * 60 * 1000
DISTANT_SLOT: Final = 0
"""The slot for inboxes that expire more than a day from now. The sweep deletes their messages row by row."""

_MAX_SLOTS: Final = 144  # the slots in one day; each slot has two partitions
_AHEAD_SLOTS: Final = 12
_GRACE_MS: Final = 30 * 1000  # a batch in progress may still store messages in a past slot

T = TypeVar("T")

_EXISTING_SLOTS: Final = """
SELECT coalesce(array_agg(slot), '{}') FROM (
    SELECT substr(c.relname, 9)::integer AS slot FROM pg_inherits AS p JOIN pg_class AS c ON c.oid = p.inhrelid
    WHERE p.inhparent IN ('content'::regclass, 'message'::regclass) AND c.relname ~ '^(content|message)_[0-9]{1,9}$'
    GROUP BY 1 HAVING count(*) = 2
) AS there
"""
# Waiting for a standby would keep the tables locked. It is unnecessary, because later commits of messages also wait for
# a standby.
_SETTINGS: Final = "SET lock_timeout = '50ms'; SET synchronous_commit = local"
_ATTEMPTS: Final = 40
_PAUSE_SECONDS: Final = 0.05


def slot(expires_at_ms: int, now_ms: int) -> int:
    """Return the slot of an inbox that expires at this time."""
    number = expires_at_ms // SLOT_MS
    return number if number <= now_ms // SLOT_MS + _MAX_SLOTS else DISTANT_SLOT


def slots_ahead(now_ms: int) -> list[int]:
    """Return the slots whose partitions should be created before inboxes need them."""
    first = now_ms // SLOT_MS
    return list(range(first, first + _AHEAD_SLOTS))


def first_current_slot(now_ms: int) -> int:
    """Return the first slot that has not passed."""
    return (now_ms - _GRACE_MS) // SLOT_MS


class Partitions:
    """The partitions of all slots; ``add`` and ``drop_passed`` may be called concurrently."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known = {DISTANT_SLOT}

    def has(self, slot: int) -> bool:
        """Return whether the partitions of a slot are known to exist."""
        return slot in self._known

    async def add(self, slots: Collection[int]) -> None:
        """Add missing partitions. Raises ``StorageUnavailable`` if tables stay locked for several seconds."""
        missing = sorted(set(slots) - self._known)
        for _ in range(_ATTEMPTS):
            if not missing or await self._try("SELECT 1 FROM add_slots($1::integer[])", missing) is not None:
                self._known.update(missing)
                return
            await asyncio.sleep(_PAUSE_SECONDS)
        raise StorageUnavailable("the message tables remain locked")

    async def add_ahead(self, now_ms: int) -> None:
        """Add the partitions that inboxes with common lifetimes will need, even if some were dropped by hand."""
        self._known = {DISTANT_SLOT, *await self._use(lambda connection: connection.fetchval(_EXISTING_SLOTS))}
        await self.add(slots_ahead(now_ms))

    async def drop_passed(self, now_ms: int, shard: int) -> bool:
        """Drop the swept partitions of past slots; return False if the caller should retry because of a lock."""
        await self._try("SELECT 1 FROM end_vacuum($1)", slots_ahead(now_ms)[0] + 1)
        first = first_current_slot(now_ms)
        while (dropped := await self._try("SELECT coalesce(drop_slot($1, $2), 0)", shard, first)) != 0:
            if dropped is None:
                return False
            self._known.discard(dropped)
        self._known -= {slot for slot in self._known if DISTANT_SLOT < slot < first}  # another daemon has dropped it
        return True

    async def _try(self, sql: str, *arguments: object) -> int | None:
        """Run a statement that changes the schema; return None if it had to wait for a lock."""

        async def run(connection: asyncpg.Connection) -> int:
            await connection.execute(_SETTINGS)
            return await connection.fetchval(sql, *arguments) or 0

        try:
            return await self._use(run)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            return None

    async def _use(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        try:
            return await self._session.use(work)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            raise
        except FAILURES as error:
            raise translate(error) from error
