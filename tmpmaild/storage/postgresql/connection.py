"""Connections to the server: which host is asked, how a connection is set up, and opened again when it was lost."""

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
from tmpmaild.measures import Count, Gauge, Measure
from tmpmaild.storage.postgresql.deadlines import deadline
from tmpmaild.storage.postgresql.obstacles import FAILURES, reason

T = TypeVar("T")

log = logging.getLogger(__name__)

HOST_SECONDS: Final = 2.0
OLDEST_VERSION: Final = 15

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
    # Whatever the role or the database is set to, the statements mean the same.
    "client_min_messages": "warning",  # or nobody would be told that a standby was not waited for
    "default_transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "10s",  # a daemon that has been stopped must not keep rows locked
}
# What synchronous_commit is now it stays in this session, whatever the server is told while it lasts. The second column
# ends what waits for a lock when its daemon has closed the connection; systems other than Linux may not know it.
_CHECK: Final = """
SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false) AS synchronous_commit,
       CASE WHEN version() LIKE '%linux%'
            THEN set_config('client_connection_check_interval', '2s', false) END AS noticed,
       current_setting('fsync') AS fsync, current_setting('server_encoding') AS encoding,
       current_setting('plan_cache_mode') = 'force_generic_plan' AS is_as_asked,
       pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS is_read_only,
       CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline
"""
_PAUSE_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 2.0
_MISTAKES: Final = (
    *(asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError),
    *(asyncpg.InsufficientPrivilegeError, asyncpg.ClientConfigurationError),
    asyncpg.ProtocolViolationError,  # a pooler that does not know a setting
)
"""What is wrong with the URL rather than with the server."""

_DURABLE: Final = ("on", "remote_apply")
_OF_IDS: Final = ("GetNewTransactionId", "GetNewMultiXactId")
"""The functions of the server that warn, in each transaction, when ids are about to run out."""


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
        self._look_at = 0.0
        self._open: set[asyncpg.Connection] = set()
        self._connects = Count("storage_connects_total", "Connections to the database server that were opened.")

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
        self._connects.add()
        return connection

    def look_elsewhere(self) -> bool:
        """Begin with another host the next time; False if there is none, or if that was done a moment ago."""
        if len(self._hosts) == 1 or time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + _LOOK_SECONDS
        self._hosts.append(self._hosts.pop(0))
        return True

    def terminate_all(self) -> None:
        """Close all connections at once: the host is silent. What waits for an answer fails."""
        for connection in self._open:
            connection.terminate()

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        open_now = Gauge("storage_connections", "Open connections to the database server.", self._count_open)
        return (open_now, self._connects)

    def _count_open(self) -> int:
        return sum(not one.is_closed() for one in self._open)

    async def _connect_to_first(self) -> asyncpg.Connection:
        password = await self._password()
        await self._check_files()
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
                reasons.append(f"{host}: it takes no writes, or was the primary once")
            # The next connection begins with another host: this one may cost the time to wait for it.
            self._hosts.append(self._hosts.pop(self._hosts.index((host, port))))
        if mistake is not None:
            raise DatabaseError(f"{self.url}: {'; '.join(reasons)}") from mistake
        raise StorageUnavailable("; ".join(reasons))

    async def _connect(self, host: str, port: int, password: str | None) -> asyncpg.Connection | None:
        """Connect to one host; None if it is not the primary."""
        try:
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
        except asyncpg.UndefinedObjectError as error:  # before version 12 a server does not know all of the settings
            raise self._too_old(f"PostgreSQL is too old ({reason(error)})") from error
        try:
            with deadline(connection, HOST_SECONDS):
                usable = await self._check(connection)
        except BaseException:
            connection.terminate()
            raise
        if not usable:
            await _close(connection)
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

    async def _check_files(self) -> None:
        """Raise ``DatabaseError`` for a file of the URL that cannot be read: the driver would not say which it is."""
        for name, value in self.url.tls:
            if name != "sslmode":
                try:
                    await anyio.to_thread.run_sync(Path(value).read_bytes)
                except OSError as error:
                    raise DatabaseError(f"{value} ({name} in storage.url): cannot be read: {error.strerror}") from error

    async def _check(self, connection: asyncpg.Connection) -> bool:
        """Return False if it is not the primary. Raises ``DatabaseError`` when mail would not be safe there."""
        version = connection.get_server_version().major
        if version < OLDEST_VERSION:
            raise self._too_old(f"PostgreSQL {version} is too old")
        found = await connection.fetchrow(_CHECK)
        if found["is_read_only"]:
            return False
        if not found["is_as_asked"]:
            raise DatabaseError(f"{self.url}: the settings of a connection do not last; connect without a pooler")
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

    def _too_old(self, text: str) -> DatabaseError:
        return DatabaseError(f"{self.url}: {text}; {OLDEST_VERSION} or newer is needed")

    def _is_newest(self, timeline: str) -> bool:
        """Return whether a primary has not been replaced by another one: each promotion begins a newer timeline."""
        if timeline < self._timeline:
            log.error("a primary of an older timeline is left alone: %s; stop it", self.url)
            return False
        if timeline > self._timeline:
            self.terminate_all()  # what is still connected is so to the primary before
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
            await _close(self._connection)


async def _close(connection: asyncpg.Connection) -> None:
    try:
        await connection.close(timeout=HOST_SECONDS)
    except FAILURES:
        connection.terminate()
