"""Adds the partitions of slots to come, and drops those that have passed, on a connection of its own.

A statement that changes the schema and waits makes all others wait behind it, so it gives up after ``_LOCK_WAIT``.
"""

import asyncio
from collections.abc import Collection
from typing import Final

import asyncpg

from tmpmaild.errors import StorageUnavailable
from tmpmaild.storage.postgresql.connection import Session
from tmpmaild.storage.postgresql.obstacles import FAILURES, translate
from tmpmaild.storage.postgresql.slots import APART, first_kept, slots_ahead

_LOCK_WAIT: Final = "SET lock_timeout = '50ms'"
_ATTEMPTS: Final = 40
_PAUSE_SECONDS: Final = 0.05


class Partitions:
    """The partitions of slots; ``add`` and ``drop_passed`` may be called at the same time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known = {APART}

    def has(self, slot: int) -> bool:
        """Return whether a slot is known to have its partitions."""
        return slot in self._known

    async def add(self, slots: Collection[int]) -> None:
        """Add the partitions that are missing. Raises ``StorageUnavailable`` if tables stay locked for seconds."""
        missing = sorted(set(slots) - self._known)
        for _ in range(_ATTEMPTS):
            if not missing or await self._try("SELECT 1 FROM add_slots($1::integer[])", missing) is not None:
                self._known.update(missing)
                return
            await asyncio.sleep(_PAUSE_SECONDS)
        raise StorageUnavailable("the tables of mail stay locked")

    async def add_ahead(self, now_ms: int) -> None:
        """Add those that inboxes with a usual lifetime will need."""
        await self.add(slots_ahead(now_ms))

    async def drop_passed(self, now_ms: int) -> bool:
        """Drop the partitions that have passed and are swept; False if some are in use and it must be tried again."""
        first = first_kept(now_ms)
        while (dropped := await self._try("SELECT coalesce(drop_slot($1), 0)", first)) != 0:
            if dropped is None:
                return False
            self._known.discard(dropped)
        return True

    async def _try(self, sql: str, argument: object) -> int | None:
        """Run a statement that changes the schema; None if it had to wait for a lock."""

        async def run(connection: asyncpg.Connection) -> int:
            await connection.execute(_LOCK_WAIT)
            return await connection.fetchval(sql, argument) or 0

        try:
            return await self._session.use(run)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            return None
        except FAILURES as error:
            raise translate(error) from error
