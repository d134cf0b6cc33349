"""Removes deleted text from the WAL, where old copies of pages are, and returns freed space to the file system."""

import sqlite3

import aiosqlite

from tmpmaild.storage.sqlite.deleting import DeletionState
from tmpmaild.storage.sqlite.sweeping import EmptyWal, Vacuum, vacuum_pace
from tmpmaild.storage.sqlite.writer import Writer, translate

_MAX_VACUUM_STEPS = 1000  # per call of erase(), some seconds: the next sweep must not wait for a file of many gigabytes


class Eraser:
    """Empties the WAL and shrinks the file in steps, with deliveries between them."""

    def __init__(self, writer: Writer, maintenance: aiosqlite.Connection, deletion_state: DeletionState) -> None:
        self._writer = writer
        self._maintenance = maintenance
        self._deletion_state = deletion_state
        self._pace = vacuum_pace()

    async def erase(self) -> bool:
        """See ``Storage``."""
        # The WAL first: shrinking is not promised, may take long, and makes the WAL grow while another process reads.
        return await self._empty_wal() and (not await self._shrink() or await self._empty_wal())

    async def copy_wal(self) -> None:
        """Copy as much of the WAL into the file as readers allow, during writes; little is left for ``EmptyWal``."""
        try:
            await self._maintenance.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.DatabaseError as error:
            raise translate(error) from error

    async def _empty_wal(self) -> bool:
        if not self._deletion_state.unerased:
            return True
        await self.copy_wal()
        emptied: bool = await self._writer.submit(EmptyWal(self._deletion_state))
        return emptied

    async def _shrink(self) -> bool:
        steps = 0
        while steps < _MAX_VACUUM_STEPS and await self._writer.submit(Vacuum(self._deletion_state, self._pace)):
            steps += 1
        return steps > 0
