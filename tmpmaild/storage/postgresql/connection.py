"""Connections that are opened again when they were lost: one that a part has for itself, and those that only read."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.storage.postgresql.obstacles import FAILURES, translate
from tmpmaild.storage.postgresql.server import Server, close, deadline

T = TypeVar("T")

_OF_IDS: Final = ("GetNewTransactionId", "GetNewMultiXactId")
"""The functions of the server that warn, in each transaction, when ids are about to run out."""

MOST_READERS: Final = 4


class Session:
    """One connection, opened again when it was lost."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.was_warned = False
        self._connection: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()

    async def connection(self) -> asyncpg.Connection:
        """Return the connection. Raises as ``Server.connect``."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self.server.connect()
            self._connection.add_log_listener(self._note)
        return self._connection

    def look_elsewhere(self) -> None:
        """Look for a newer primary: this one does not get its commits to a standby, which may have been promoted."""
        if self.server.look_elsewhere() and self._connection is not None:
            self._connection.terminate()

    def _note(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        """Note a warning. There is one, and no error, when the wait for a standby has been cancelled."""
        is_of_ids = message.server_source_function in _OF_IDS
        self.was_warned = self.was_warned or (message.severity_en == "WARNING" and not is_of_ids)

    async def use(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Call ``work`` with the connection while no other call uses it; for a connection that several tasks share."""
        async with self._turn:
            connection = await self.connection()
            with deadline(connection):
                return await work(connection)

    async def close(self) -> None:
        """Close it."""
        if self._connection is not None:
            await close(self._connection)


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
        await asyncio.wait([task])
        return task.result()

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
