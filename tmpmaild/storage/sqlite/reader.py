"""The one reader: reads that are queued while another runs go together in the next call to its thread.

Such a call costs more than most reads, and two threads that read at once would compete for the GIL at each row.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from tmpmaild.errors import StorageLost
from tmpmaild.storage.enginestorage import Batcher
from tmpmaild.storage.sqlite import database
from tmpmaild.storage.sqlite.writer import translate

T = TypeVar("T")
Read = Callable[[sqlite3.Connection], T]

_MAX_BATCH = 16


class Reader:
    """Runs functions on the thread of a connection that only reads. ``connect`` makes one."""

    def __init__(self, connection: aiosqlite.Connection, is_lost: Callable[[], bool] = lambda: False) -> None:
        self._connection = connection
        self._is_lost = is_lost
        self._batcher: Batcher[Read[Any], Any] = Batcher(self._read, lambda _: _MAX_BATCH, skips_cancelled=True)

    async def run(self, read: Read[T]) -> T:
        """Return what the function returns, called with the connection inside one read transaction.

        Raises ``StorageUnavailable`` for an error of the database, ``StorageLost`` when ``is_lost``.
        """
        if self._is_lost():
            raise StorageLost("the database is gone")
        answer: T = await self._batcher.submit(read)
        return answer

    async def close(self) -> None:
        """Finish what is waiting, then close."""
        await self._batcher.close()
        await self._connection.close()

    async def _read(self, reads: list[Read[Any]]) -> list[Any]:
        # _execute is private, and the only way to run several statements in one hop between threads.
        execute: Callable[..., Awaitable[list[Any]]] = self._connection._execute  # noqa: SLF001
        outcomes = await execute(_read_all, self._connection._conn, reads)  # noqa: SLF001
        return [translate(one) if isinstance(one, Exception) else one for one in outcomes]


async def connect(path: Path) -> aiosqlite.Connection:
    """Open a connection that changes nothing on a database that has been opened for writing before.

    Raises ``DatabaseError``.
    """
    try:
        connection = await aiosqlite.connect(path, isolation_level=None)
    except sqlite3.Error as error:
        raise database.refusal(path, error) from error
    try:
        for statement in database.READER_PRAGMAS:
            await connection.execute(statement)
    except sqlite3.Error as error:
        await connection.close()
        raise database.refusal(path, error) from error
    return connection


def _read_all(connection: sqlite3.Connection, reads: list[Read[Any]]) -> list[Any]:
    # All in one transaction: its begin and its end cost as much as to find an inbox.
    outcomes = [_read(connection, read) for read in reads]
    try:
        if connection.in_transaction:
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        return [error] * len(reads)
    return outcomes


def _read(connection: sqlite3.Connection, read: Read[Any]) -> Any:
    try:
        if not connection.in_transaction:  # an error may have ended it
            connection.execute("BEGIN")
        return read(connection)
    except Exception as error:  # noqa: BLE001 - it is set on the future of that read
        return error
