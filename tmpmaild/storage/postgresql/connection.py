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
    """One connection, opened again when it was lost. ``trouble`` is why it could not be opened the last time, or ""."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.was_warned = False
        self.trouble = ""
        self._connection: asyncpg.Connection | None = None
        self._opening = asyncio.Lock()
        self._turn = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection; the server may have gone without a word."""
        return self._connection is not None and not self._connection.is_closed()

    async def connection(self) -> asyncpg.Connection:
        """Return the connection. Raises as ``Server.connect``."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        async with self._opening:
            if self._connection is None or self._connection.is_closed():
                try:
                    self._connection = await self.server.connect()
                except (StorageUnavailable, DatabaseError) as error:
                    self.trouble = str(error)
                    raise
                self.trouble = ""
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
        self._sessions = [Session(server) for _ in range(MOST_READERS)]
        self._idle = list(self._sessions)
        self._turns = asyncio.Semaphore(MOST_READERS)
        self._is_returned = asyncio.Event()
        self._running: set[asyncio.Task[object]] = set()

    @property
    def trouble(self) -> str:
        """Why nothing can be read, "" if it can."""
        is_any_open = any(session.is_open for session in self._sessions)
        return "" if is_any_open else next((one.trouble for one in self._sessions if one.trouble), "")

    async def connect(self) -> None:
        """Open a connection if none is open. Raises as ``Server.connect``."""
        if not any(session.is_open for session in self._sessions):
            await self._sessions[-1].connection()

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
        try:
            async with self._turns:
                session = await self._opened()
                try:
                    connection = await session.connection()
                    with deadline(connection):
                        return await read(connection)
                finally:
                    self._give_back(session)
        except FAILURES as error:
            raise translate(error) from error
        except DatabaseError as error:
            raise StorageUnavailable(str(error)) from error

    async def _opened(self) -> Session:
        """Return an idle session; where the server has no room for one more connection, wait for one that is open."""
        while True:
            session = next((one for one in reversed(self._idle) if one.is_open), self._idle[-1])
            self._idle.remove(session)
            try:
                await session.connection()
            except BaseException as error:
                self._give_back(session)
                if not isinstance(error, StorageUnavailable) or not any(one.is_open for one in self._sessions):
                    raise
            else:
                return session
            if not any(one.is_open for one in self._idle):
                self._is_returned.clear()
                await self._is_returned.wait()

    def _give_back(self, session: Session) -> None:
        self._idle.append(session)
        self._is_returned.set()

    async def close(self) -> None:
        """Wait until the reads that run have ended, then close all connections."""
        if self._running:
            await asyncio.wait(self._running)
        for session in self._sessions:
            await session.close()
