"""The partitions of the message tables, one per table and slot; a slot is ten minutes of expiry time.

Messages of the inboxes that expire in the same slot are stored in the same partitions. When the slot has passed and has
been swept, these are dropped: their files are removed, and nothing is left to vacuum. If a statement that changes the
schema waits for a lock, all others wait behind it, so it gives up soon.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

import asyncpg

from tmpmaild.errors import StorageUnavailable
from tmpmaild.storage.postgresql.server import FAILURES, Session, translate

SLOT_MS: Final = 10 * 60 * 1000
APART: Final = 0
"""The slot for inboxes that expire more than ``_MOST_SLOTS`` ahead. The sweep deletes their messages row by row."""

_MOST_SLOTS: Final = 144  # a day; each slot has two tables
_AHEAD_SLOTS: Final = 12
_GRACE_MS: Final = 30 * 1000  # a running batch may still store messages in a slot that has passed

T = TypeVar("T")

_THERE: Final = """
SELECT coalesce(array_agg(slot), '{}') FROM (
    SELECT substr(c.relname, 9)::integer AS slot FROM pg_inherits AS p JOIN pg_class AS c ON c.oid = p.inhrelid
    WHERE p.inhparent IN ('content'::regclass, 'message'::regclass) AND c.relname ~ '^(content|message)_[0-9]{1,9}$'
    GROUP BY 1 HAVING count(*) = 2
) AS there
"""
# Waiting for a standby would keep the tables locked. It is not needed: later commits of messages wait for it as well.
_SETTINGS: Final = "SET lock_timeout = '50ms'; SET synchronous_commit = local"
_ATTEMPTS: Final = 40
_PAUSE_SECONDS: Final = 0.05


def slot(expires_at_ms: int, now_ms: int) -> int:
    """Return the slot of an inbox that expires at that time."""
    number = expires_at_ms // SLOT_MS
    return number if number <= now_ms // SLOT_MS + _MOST_SLOTS else APART


def slots_ahead(now_ms: int) -> list[int]:
    """Return the slots whose partitions should exist before an inbox needs them."""
    first = now_ms // SLOT_MS
    return list(range(first, first + _AHEAD_SLOTS))


def first_kept(now_ms: int) -> int:
    """Return the first slot that has not passed."""
    return (now_ms - _GRACE_MS) // SLOT_MS


class Partitions:
    """The partitions of slots; ``add`` and ``drop_passed`` may be called at the same time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known = {APART}

    def has(self, slot: int) -> bool:
        """Return whether the partitions of a slot are known to exist."""
        return slot in self._known

    async def add(self, slots: Collection[int]) -> None:
        """Add missing partitions. Raises ``StorageUnavailable`` if tables stay locked for seconds."""
        missing = sorted(set(slots) - self._known)
        for _ in range(_ATTEMPTS):
            if not missing or await self._try("SELECT 1 FROM add_slots($1::integer[])", missing) is not None:
                self._known.update(missing)
                return
            await asyncio.sleep(_PAUSE_SECONDS)
        raise StorageUnavailable("the tables of mail stay locked")

    async def add_ahead(self, now_ms: int) -> None:
        """Add the partitions that inboxes with a usual lifetime will need, even if one was dropped by hand."""
        self._known = {APART, *await self._use(lambda connection: connection.fetchval(_THERE))}
        await self.add(slots_ahead(now_ms))

    async def drop_passed(self, now_ms: int, shard: int) -> bool:
        """Drop the swept partitions of passed slots; False if a lock prevented that, and the caller should retry."""
        await self._try("SELECT 1 FROM end_vacuum($1)", slots_ahead(now_ms)[0] + 1)
        first = first_kept(now_ms)
        while (dropped := await self._try("SELECT coalesce(drop_slot($1, $2), 0)", shard, first)) != 0:
            if dropped is None:
                return False
            self._known.discard(dropped)
        self._known -= {slot for slot in self._known if APART < slot < first}  # other daemons have dropped them
        return True

    async def _try(self, sql: str, *arguments: object) -> int | None:
        """Run a statement that changes the schema; None if it had to wait for a lock."""

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
