"""One connection, opened again when it was lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from tmpmaild.storage.postgresql.connecting import close
from tmpmaild.storage.postgresql.deadlines import deadline
from tmpmaild.storage.postgresql.server import Server

T = TypeVar("T")

_OF_IDS: Final = ("GetNewTransactionId", "GetNewMultiXactId")
"""The functions of the server that warn, in each transaction, when ids are about to run out."""


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
