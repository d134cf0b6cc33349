"""Connections to the server: which host is asked, how a connection is set up, and how many there are."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
import asyncpg

from tmpmaild.databaseurl import DatabaseUrl
from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.storage.postgresql.deadlines import deadline
from tmpmaild.storage.postgresql.obstacles import FAILURES, reason, translate

T = TypeVar("T")

log = logging.getLogger(__name__)

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
       current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS is_standby,
       CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline
"""
_PAUSE_SECONDS: Final = 0.5
_MISTAKES: Final = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
"""What is wrong with the URL rather than with the server."""

_DURABLE: Final = ("on", "remote_apply")


class Server:
    """The hosts of a URL, and how to connect to the one that takes writes."""

    def __init__(self, url: DatabaseUrl, password_file: Path | None = None) -> None:
        self.url = url
        self._password_file = password_file
        self._hosts = list(zip(url.hosts, url.ports, strict=True))
        self._turn = asyncio.Lock()
        self._refusal = ""
        self._refused_until = 0.0
        self._timeline = ""
        self._open: set[asyncpg.Connection] = set()

    async def connect(self) -> asyncpg.Connection:
        """Return a new connection to the first host that takes writes.

        Raises ``StorageUnavailable`` when there is none now, ``DatabaseError`` when the server cannot be used. After a
        refusal no host is asked for ``_PAUSE_SECONDS``: the next ones are refused at once.
        """
        async with self._turn:
            if time.monotonic() < self._refused_until:
                raise StorageUnavailable(self._refusal)
            try:
                connection = await self._connect_to_first()
            except StorageUnavailable as error:
                self._refusal, self._refused_until = str(error), time.monotonic() + _PAUSE_SECONDS
                raise
        self._open = {one for one in self._open if not one.is_closed()} | {connection}
        return connection

    def terminate_all(self) -> None:
        """Close all connections at once: the host is silent. What waits for an answer fails."""
        for connection in self._open:
            connection.terminate()

    async def _connect_to_first(self) -> asyncpg.Connection:
        password = await self._password()
        reasons = []
        mistake: Exception | None = None
        for host, port in list(self._hosts):
            try:
                connection = await self._connect(host, port, password)
            except FAILURES as error:
                mistake = error if isinstance(error, _MISTAKES) else mistake
                reasons.append(f"{host}: {reason(error)}")
            else:
                if connection is not None:
                    return connection
                reasons.append(f"{host}: it is a standby, or was the primary once")
            # The next connection begins with another host: this one may cost the time to wait for it.
            self._hosts.append(self._hosts.pop(self._hosts.index((host, port))))
        if mistake is not None:
            raise DatabaseError(f"{self.url}: {'; '.join(reasons)}") from mistake
        raise StorageUnavailable("; ".join(reasons))

    async def _connect(self, host: str, port: int, password: str | None) -> asyncpg.Connection | None:
        """Connect to one host; None if it is not the primary."""
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
        """Return False if it is not the primary. Raises ``DatabaseError`` when mail would not be safe there."""
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
        return self._is_newest(found["timeline"])

    def _is_newest(self, timeline: str) -> bool:
        """Return whether a primary has not been replaced by another one: each promotion begins a newer timeline."""
        if timeline < self._timeline:
            log.error("a primary of an older timeline is left alone: %s; stop it", self.url)
            return False
        self._timeline = timeline
        return True


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

    def _note(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        """Note a warning. There is one, and no error, when the wait for a standby has been cancelled."""
        self.was_warned = self.was_warned or message.severity_en == "WARNING"

    async def use(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Call ``work`` with the connection while no other call uses it; for a connection that several tasks share."""
        async with self._turn:
            connection = await self.connection()
            with deadline(connection):
                return await work(connection)

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
