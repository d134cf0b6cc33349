"""Removes deleted text from the WAL, where old copies of pages are, and returns freed space to the file system."""

import sqlite3
from dataclasses import dataclass
from typing import ClassVar

import aiosqlite

from tmpmaild.storage.sqlite.batches import Batch, Operation
from tmpmaild.storage.sqlite.database import truncate_wal
from tmpmaild.storage.sqlite.sweeping import Pace
from tmpmaild.storage.sqlite.writer import Writer, translate

_MAX_VACUUM_STEPS = 1000  # per call of erase(), some seconds: the next sweep must not wait for a file of many gigabytes


@dataclass(eq=False)
class Vacuum(Operation):
    """Return a few free pages to the file system; the result says whether to go on.

    Done only while more than a quarter of the file is free: moving pages costs more than reusing them.
    """

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    pace: Pace

    def apply(self, batch: Batch) -> bool:
        """Run one step."""
        connection = batch.connection
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        pages = _pages(connection)
        if free * 4 <= pages:
            return False
        self.pace.begin()
        # execute() would free one page a call: the pragma returns a row for each.
        connection.executescript(f"PRAGMA incremental_vacuum({self.pace.amount})")
        freed = pages - _pages(connection)
        self.pace.end(freed)
        batch.state.unerased = batch.state.unerased or freed > 0
        return freed > 0


def _pages(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    return int(pages)


class EmptyWal(Operation):
    """Truncate the WAL, which holds old copies of pages; False while another connection reads."""

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False

    def apply(self, batch: Batch) -> bool:
        """Try once."""
        emptied = truncate_wal(batch.connection)
        batch.state.unerased = not emptied
        return emptied


class Eraser:
    """Empties the WAL and shrinks the file in steps, with deliveries between them."""

    def __init__(self, writer: Writer, maintenance: aiosqlite.Connection) -> None:
        self._writer = writer
        self._maintenance = maintenance
        self._pace = Pace(first=32, least=4, most=1024)  # pages

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
        if not self._writer.state.unerased:
            return True
        await self.copy_wal()
        emptied: bool = await self._writer.submit(EmptyWal())
        return emptied

    async def _shrink(self) -> bool:
        steps = 0
        while steps < _MAX_VACUUM_STEPS and await self._writer.submit(Vacuum(self._pace)):
            steps += 1
        return steps > 0
