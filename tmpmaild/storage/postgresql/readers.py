"""The connections that only read. No function is run on one while another one runs there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.storage.postgresql.connection import Session
from tmpmaild.storage.postgresql.deadlines import deadline
from tmpmaild.storage.postgresql.obstacles import FAILURES, translate
from tmpmaild.storage.postgresql.server import Server

T = TypeVar("T")

MOST_READERS: Final = 4


class Readers:
    """The connections that only read, as many as are needed at once up to ``MOST_READERS``."""

    def __init__(self, server: Server) -> None:
        self._idle = [Session(server) for _ in range(MOST_READERS)]
        self._turns = asyncio.Semaphore(MOST_READERS)
        self._running: set[asyncio.Task[object]] = set()

    async def run(self, read: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Call ``read`` with a connection and return its result, or raise it as an error of ``tmpmaild.errors``.

        Cancelling the caller does not interrupt it: the server would have to be asked by another connection.
        """
        task = asyncio.ensure_future(self._run(read))
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: "asyncio.Task[object]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # or it would be reported as never retrieved when the caller was cancelled

    async def _run(self, read: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        async with self._turns:
            session = self._idle.pop()
            try:
                connection = await session.connection()
                with deadline(connection):
                    return await read(connection)
            except FAILURES as error:
                raise translate(error) from error
            except DatabaseError as error:
                raise StorageUnavailable(str(error)) from error
            finally:
                self._idle.append(session)

    async def close(self) -> None:
        """Wait until the reads that run have ended, then close all connections."""
        if self._running:
            await asyncio.wait(self._running)
        for session in self._idle:
            await session.close()
