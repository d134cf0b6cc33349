"""Connections to the server: which host is asked, how a connection is set up, and how many there are."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
import asyncpg

from tmpmaild.databaseurl import DatabaseUrl
from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.storage.postgresql.obstacles import FAILURES, reason, translate

T = TypeVar("T")

HOST_SECONDS: Final = 2.0
OLDEST_VERSION: Final = 15
MOST_READERS: Final = 4

_SETTINGS: Final = {
    "application_name": "tmpmaild",
    # Every statement has an index to go by, and looks few rows up one by one. What the planner knows of tables that
    # live for an hour is worth nothing: it would take them for small, and read all of one to join it.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "timezone": "UTC",
}
_CHECK: Final = """
SELECT current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
       current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS is_standby
"""
_DURABLE: Final = ("on", "remote_apply")


class Server:
    """The hosts of a URL, and how to connect to the one that takes writes."""

    def __init__(self, url: DatabaseUrl, password_file: Path | None = None) -> None:
        self.url = url
        self._password_file = password_file

    async def connect(self) -> asyncpg.Connection:
        """Return a new connection to the first host that takes writes.

        Raises ``StorageUnavailable`` when there is none now, ``DatabaseError`` when the server cannot be used.
        """
        password = await self._password()
        reasons = []
        for host, port in zip(self.url.hosts, self.url.ports, strict=True):
            try:
                connection = await self._connect(host, port, password)
            except FAILURES as error:
                reasons.append(f"{host}: {reason(error)}")
                continue
            if connection is not None:
                return connection
            reasons.append(f"{host}: it is a standby")
        raise StorageUnavailable("; ".join(reasons))

    async def _connect(self, host: str, port: int, password: str | None) -> asyncpg.Connection | None:
        """Connect to one host; None if it is a standby."""
        connection = await asyncpg.connect(
            dsn=f"postgresql:///?{urlencode(self.url.tls)}",
            host=host,
            port=port,
            user=self.url.user,
            password=password,
            database=self.url.database,
            timeout=HOST_SECONDS,
            server_settings=_SETTINGS,
        )
        try:
            usable = await self._check(connection)
        except BaseException:
            connection.terminate()
            raise
        if not usable:
            await connection.close()
        return connection if usable else None

    async def _password(self) -> str | None:
        """Return the password. Read again for each connection, since it may have been changed."""
        if self._password_file is None:
            return self.url.password
        try:
            text = await anyio.to_thread.run_sync(self._password_file.read_text, "utf-8")
        except OSError as error:
            raise DatabaseError(f"{self._password_file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise DatabaseError(f"{self._password_file}: is not UTF-8") from error
        return text.rstrip("\r\n")

    async def _check(self, connection: asyncpg.Connection) -> bool:
        """Return False for a standby. Raises ``DatabaseError`` when mail would not be safe on this server."""
        version = connection.get_server_version().major
        if version < OLDEST_VERSION:
            raise DatabaseError(f"{self.url}: PostgreSQL {version} is too old; {OLDEST_VERSION} or newer is needed")
        found = await connection.fetchrow(_CHECK)
        if found["is_standby"]:
            return False
        if found["encoding"] != "UTF8":
            raise DatabaseError(
                f"{self.url}: its encoding is {found['encoding']}; create a database with ENCODING 'UTF8'"
            )
        if found["fsync"] != "on":
            raise DatabaseError(f"{self.url}: fsync is {found['fsync']}; mail would be lost in a power cut")
        if found["synchronous_commit"] not in _DURABLE:
            raise DatabaseError(
                f"{self.url}: synchronous_commit is {found['synchronous_commit']}; expected {' or '.join(_DURABLE)},"
                " or acknowledged mail could be lost"
            )
        return True


class Session:
    """One connection, opened again when it was lost."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()

    async def connection(self) -> asyncpg.Connection:
        """Return the connection. Raises as ``Server.connect``."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self.server.connect()
        return self._connection

    async def use(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Call ``work`` with the connection while no other call uses it; for a connection that several tasks share."""
        async with self._turn:
            return await work(await self.connection())

    async def close(self) -> None:
        """Close it."""
        if self._connection is not None:
            await _close(self._connection)


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
                return await read(await session.connection())
            except FAILURES as error:
                raise translate(error) from error
            except DatabaseError as error:
                raise StorageUnavailable(str(error)) from error
            finally:
                self._idle.append(session)

    async def close(self) -> None:
        """Let what runs end, and close all connections."""
        if self._running:
            await asyncio.wait(self._running)
        for session in self._idle:
            await session.close()


async def _close(connection: asyncpg.Connection) -> None:
    try:
        await connection.close(timeout=HOST_SECONDS)
    except FAILURES:
        connection.terminate()
