"""The database server: hosts, connections to the writable host, the server's clock, and error translation.

Each connection uses our settings, and is refused if the server would not store mail safely. If the server does not
respond before a timeout, the connection is closed, and it is unknown whether the statement was executed.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
import asyncpg

from tmpmaild.config.databaseurl import DatabaseUrl
from tmpmaild.errors import DatabaseError, StorageFull, StorageUnavailable
from tmpmaild.metrics import Count, Gauge, Metric
from tmpmaild.scheduling.roundrobin import FairSemaphore
from tmpmaild.storage.clocks import FollowingClock, elapsed

P = ParamSpec("P")
T = TypeVar("T")

FAILURES: Final = (
    *(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    *(OSError, TimeoutError),
)
"""Exceptions that a connection raises if the server, its disk or the network fails."""

STATEMENT_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 3.0
HOST_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.5  # the pause between two connection attempts
_NEXT_HOST_SECONDS: Final = 2.0
_PAUSES_SECONDS: Final = (0.01, 0.02, 0.04, 0.08)  # the pauses before a statement is retried
_MAX_READERS: Final = 4
_OLDEST_VERSION: Final = 15
_DURABLE: Final = ("on", "remote_apply")

_MISTAKES: Final = (
    *(asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError),
    *(asyncpg.InsufficientPrivilegeError, asyncpg.ClientConfigurationError),
    asyncpg.ProtocolViolationError,  # a pooler that does not support a setting
)
"""Errors that are caused by the URL rather than by the server."""

_REPEATABLE: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_OF_ONE_ROW: Final = (
    *(asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError),
    *(asyncpg.InternalServerError, ValueError, TypeError, OverflowError),
)
_OF_OTHERS: Final = (
    *(asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError),
    *(asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError),
)
"""Errors that our statements cause if the schema is changed, or a dump is restored, while a daemon is running."""

_OF_IDS: Final = ("GetNewTransactionId", "GetNewMultiXactId")
"""Server functions that log a warning in each transaction when ids are about to run out."""

_SETTINGS: Final = {
    "application_name": "tmpmaild",
    # Every statement uses an index to look up a few rows. Planner statistics are useless for tables that exist for only
    # an hour: the planner would assume that the tables are small, and scan them completely for each join.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_nestloop": "on",
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
    "enable_bitmapscan": "on",
    "enable_sort": "on",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "timezone": "UTC",
    # Override settings of the role or the database that change the meaning of statements, or end a session on an error.
    "exit_on_error": "off",
    "quote_all_identifiers": "off",  # otherwise the schema would be displayed differently
    "transform_null_equals": "off",
    "plpgsql.extra_errors": "none",
    "plpgsql.extra_warnings": "none",
    "client_min_messages": "warning",  # lets the daemon detect that the server did not wait for a standby
    "default_transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "10s",  # a suspended daemon must not keep rows locked
}
# The first column fixes synchronous_commit for the session, even if the server's setting is changed later. The second
# column makes the server stop waiting for a lock if the client has disconnected; systems other than Linux may not
# support it.
_CHECK: Final = """
SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false) AS synchronous_commit,
       CASE WHEN version() LIKE '%linux%'
            THEN set_config('client_connection_check_interval', '2s', false) END AS noticed,
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL  -- from 17 on
            THEN set_config('transaction_timeout', '0', false) END AS unlimited,
       current_setting('fsync') AS fsync, current_setting('server_encoding') AS encoding,
       current_setting('plan_cache_mode') = 'force_generic_plan' AS is_as_asked,
       pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS is_read_only,
       CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline
"""

CLOCK_SECONDS: Final = 10.0
_SLOW_SECONDS: Final = 1.0
_CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())"

log = logging.getLogger(__name__)


class Server:
    """The hosts in a URL. Connects to the host that accepts writes."""

    def __init__(self, url: DatabaseUrl, password_file: Path | None = None) -> None:
        self.url = url
        self._password_file = password_file
        self._hosts = list(zip(url.hosts, url.ports, strict=True))
        self._connecting = asyncio.Lock()
        self._refusal = ""
        self._logged = ""  # the connection is retried every few seconds, but the failure is logged only once
        self._refused_until = 0.0
        self._timeline = ""
        self._next_host_at = 0.0
        self._open: set[asyncpg.Connection] = set()
        self._connects = Count("storage_connects_total", "Opened connections to the database server.")

    async def connect(self) -> asyncpg.Connection:
        """Return a new connection to the first host that accepts writes.

        Raises ``StorageUnavailable`` if no host currently accepts writes, and ``DatabaseError`` if the server cannot be
        used. For ``_PAUSE_SECONDS`` after a ``StorageUnavailable``, calls fail immediately without trying any host.
        """
        async with self._connecting:
            if time.monotonic() < self._refused_until:
                raise StorageUnavailable(self._refusal)
            try:
                connection = await self._connect_to_first()
            except (StorageUnavailable, DatabaseError) as error:
                if self._open and self._logged != str(error):  # the caller logs the first failure
                    # Log each outage: a second outage within a minute would otherwise be suppressed as a repeated
                    # message.
                    log.warning("cannot connect to the database: %s", error, extra={"about": time.monotonic()})
                    self._logged = str(error)
                if isinstance(error, StorageUnavailable):
                    self._refusal, self._refused_until = str(error), time.monotonic() + _PAUSE_SECONDS
                raise
        self._logged = ""
        self._open = {one for one in self._open if not one.is_closed()} | {connection}
        self._connects.add()
        return connection

    def try_next_host(self) -> bool:
        """Use a different host for the next attempt; return False if there is only one host, or after a recent call."""
        if len(self._hosts) == 1 or time.monotonic() < self._next_host_at:
            return False
        self._next_host_at = time.monotonic() + _NEXT_HOST_SECONDS
        self._hosts.append(self._hosts.pop(0))
        return True

    def terminate_all(self) -> None:
        """Close all connections immediately, without waiting for the server; running statements fail."""
        for connection in self._open:
            connection.terminate()

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        open_now = Gauge("storage_connections", "Open connections to the database server.", self._count_open)
        return (open_now, self._connects)

    def _count_open(self) -> int:
        return sum(not one.is_closed() for one in self._open)

    async def _connect_to_first(self) -> asyncpg.Connection:
        password = await _read_password(self.url, self._password_file)
        await _check_files(self.url)
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
                reasons.append(f"{host}: it accepts no writes, or is a former primary")
            # The next attempt starts with a different host, because connecting to this host may not fail until the
            # timeout.
            self._hosts.append(self._hosts.pop(self._hosts.index((host, port))))
        if mistake is not None:
            raise DatabaseError(f"{self.url}: {'; '.join(reasons)}") from mistake
        raise StorageUnavailable("; ".join(reasons))

    async def _connect(self, host: str, port: int, password: str | None) -> asyncpg.Connection | None:
        """Connect to one host; return None if it is not the primary. Raises the same errors as ``_check``."""
        connection = await _opened(self.url, host, port, password)
        try:
            with deadline(connection, HOST_SECONDS):
                timeline = await _check(self.url, connection)
        except BaseException:
            connection.terminate()
            raise
        if timeline is not None and self._is_newest(timeline):
            return connection
        await close(connection)
        return None

    def _is_newest(self, timeline: str) -> bool:
        """Return False if a newer primary has been seen; each promotion starts a new timeline."""
        if timeline < self._timeline:
            log.error("ignoring a primary with an older timeline: %s; stop it", self.url)
            return False
        if timeline > self._timeline:
            self.terminate_all()  # the open connections are to the previous primary
        self._timeline = timeline
        return True


class Session:
    """A connection that is reopened after it has been lost.

    ``reason_not_open`` is the reason the last attempt to open it failed, or "".
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.was_warned = False
        self.reason_not_open = ""
        self._connection: asyncpg.Connection | None = None
        self._opening = asyncio.Lock()
        self._using = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the connection is believed to be open; the server may have become unreachable without notice."""
        return self._connection is not None and not self._connection.is_closed()

    async def connection(self) -> asyncpg.Connection:
        """Return the connection, opened if necessary. Raises the same errors as ``Server.connect``."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        async with self._opening:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            try:
                self._connection = await self.server.connect()
            except (StorageUnavailable, DatabaseError) as error:
                self.reason_not_open = str(error)
                raise
            self.reason_not_open = ""
            self._connection.add_log_listener(self._note)
            return self._connection

    def try_next_host(self) -> None:
        """Try another host, because this primary's commits do not reach its standby, which may have been promoted."""
        if self.server.try_next_host() and self._connection is not None:
            self._connection.terminate()

    def _note(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        """Record a warning. The server sends a warning, not an error, if the wait for a standby was cancelled."""
        is_of_ids = message.server_source_function in _OF_IDS
        self.was_warned = self.was_warned or (message.severity_en == "WARNING" and not is_of_ids)

    async def use(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Call ``work`` with the connection, which no other task can use during the call."""
        async with self._using:
            connection = await self.connection()
            with deadline(connection):
                return await work(connection)

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await close(self._connection)


class Readers:
    """Up to ``_MAX_READERS`` read-only connections, opened as needed and shared fairly between clients."""

    def __init__(self, server: Server) -> None:
        self._sessions = [Session(server) for _ in range(_MAX_READERS)]
        self._idle = list(self._sessions)
        self._turns = FairSemaphore(_MAX_READERS)
        self._is_returned = asyncio.Event()
        self._running: set[asyncio.Task[object]] = set()

    @property
    def reason_not_ready(self) -> str:
        """The reason why the database cannot be read, or ""."""
        is_any_open = any(session.is_open for session in self._sessions)
        return "" if is_any_open else next((one.reason_not_open for one in self._sessions if one.reason_not_open), "")

    async def connect(self) -> None:
        """Open a connection if none is open. Raises the same errors as ``Server.connect``."""
        if not any(session.is_open for session in self._sessions):
            await self._sessions[-1].connection()

    async def run(
        self, read: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]], *args: P.args, **options: P.kwargs
    ) -> T:
        """Call ``read`` with a connection and these arguments; convert its errors to ``tmpmaild.errors``.

        Cancelling the caller does not interrupt the read, because that would need another connection to the server.
        """
        task = asyncio.ensure_future(self._run(lambda connection: read(connection, *args, **options)))
        self._running.add(task)
        task.add_done_callback(self._forget)
        await asyncio.wait([task])
        return task.result()

    def _forget(self, task: "asyncio.Task[object]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # otherwise asyncio reports an unretrieved exception if the caller was cancelled

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
        """Return an idle session; if the server refuses another connection, wait for an open session."""
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
        """Wait for the running reads to finish, then close all connections."""
        if self._running:
            await asyncio.wait(self._running)
        for session in self._sessions:
            await session.close()


class DatabaseClock(FollowingClock):
    """A clock that follows the database server's clock, which is queried periodically."""

    def __init__(self) -> None:
        super().__init__("the clock of the database server")

    async def measure(self, connection: asyncpg.Connection) -> None:
        """Query the server's time, assuming that the server read its clock halfway through the round trip.

        The error is at most half the round-trip time. A slow response is therefore used only if no time is known yet.
        """
        sent = elapsed()
        server_seconds = float(await connection.fetchval(_CLOCK))
        received = elapsed()
        if received - sent < _SLOW_SECONDS or not self.is_set:
            self.follow(server_seconds, (sent + received) / 2)

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        help_text = "How far the database server's clock is ahead of this machine's."
        return (*super().metrics(), Gauge("storage_clock_offset_seconds", help_text, self.ahead_seconds))

    def ahead_seconds(self) -> float:
        """Return how far the server's clock is ahead of this machine's clock."""
        return self() / 1000 + self.doubted_seconds() - time.time()


@contextmanager
def deadline(
    connection: asyncpg.Connection, seconds: float | None = None, expired: Callable[[], None] | None = None
) -> Iterator[None]:
    """Close the connection after a timeout; a statement in the context fails as if the connection had been lost.

    If ``expired`` is given, it is called instead of closing the connection. A statement is never cancelled, because
    cancelling the wait for a standby would make the statement appear successful.
    """
    after = STATEMENT_SECONDS if seconds is None else seconds
    timer = asyncio.get_running_loop().call_later(after, expired or connection.terminate)
    try:
        yield
    except asyncpg.InternalClientError:
        connection.terminate()  # the driver cannot recover from this state
        raise
    except AttributeError as error:
        if not connection.is_closed():
            raise
        # The driver does not check again that the connection is open before it runs a prepared statement.
        raise asyncpg.InterfaceError("the connection was closed in the middle of a statement") from error
    finally:
        timer.cancel()


async def _opened(url: DatabaseUrl, host: str, port: int, password: str | None) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(
            dsn=f"postgresql:///?{urlencode(url.tls)}",
            host=host,
            port=port,
            user=url.user,
            password=password,
            database=url.database,
            timeout=HOST_SECONDS,
            server_settings=_SETTINGS,
        )
    except asyncpg.UndefinedObjectError as error:  # servers before version 12 do not support all of the settings
        raise _too_old(url, f"PostgreSQL is too old ({reason(error)})") from error


async def single_row(connection: asyncpg.Connection, sql: str, *values: object) -> asyncpg.Record:
    """Run a statement that always returns exactly one row, and return that row."""
    row = await connection.fetchrow(sql, *values)
    assert row is not None
    return row


async def close(connection: asyncpg.Connection) -> None:
    """Close a connection, or terminate it if the server does not respond before a timeout."""
    try:
        await connection.close(timeout=HOST_SECONDS)
    except FAILURES:
        connection.terminate()


async def _read_password(url: DatabaseUrl, file: Path | None) -> str | None:
    """Return the password; a password file is read each time, because it may have changed. Raises ``DatabaseError``."""
    if file is None:
        return url.password
    try:
        return (await _read(file, " (storage.password_file)")).decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DatabaseError(f"{file} (storage.password_file): is not UTF-8") from error


async def _check_files(url: DatabaseUrl) -> None:
    """Raise ``DatabaseError`` if a file in the URL is unreadable; the driver's error would not include its path."""
    for name, value in url.tls:
        if name != "sslmode":
            await _read(Path(value), f" ({name} in storage.url)")


async def _read(file: Path, named: str = "") -> bytes:
    try:
        return await anyio.to_thread.run_sync(file.read_bytes)
    except OSError as error:
        raise DatabaseError(f"{file}{named}: cannot be read: {error.strerror}") from error


async def _check(url: DatabaseUrl, connection: asyncpg.Connection) -> str | None:
    """Return the server's timeline, or None if it accepts no writes.

    Raises ``DatabaseError`` if the server would not store mail safely.
    """
    version = connection.get_server_version().major
    if version < _OLDEST_VERSION:
        raise _too_old(url, f"PostgreSQL {version} is too old")
    found = await single_row(connection, _CHECK)
    if found["is_read_only"]:
        return None
    if not found["is_as_asked"]:
        raise DatabaseError(f"{url}: a connection loses its settings; connect without a pooler")
    if found["encoding"] != "UTF8":
        raise DatabaseError(f"{url}: its encoding is {found['encoding']}; create a database with ENCODING 'UTF8'")
    if found["fsync"] != "on":
        raise DatabaseError(f"{url}: fsync is {found['fsync']}; mail would be lost in a power cut")
    if found["synchronous_commit"] not in _DURABLE:
        raise DatabaseError(
            f"{url}: synchronous_commit is {found['synchronous_commit']}; expected {' or '.join(_DURABLE)},"
            " or acknowledged mail could be lost"
        )
    timeline: str = found["timeline"]
    return timeline


def _too_old(url: DatabaseUrl, text: str) -> DatabaseError:
    return DatabaseError(f"{url}: {text}; {_OLDEST_VERSION} or newer is required")


def reason(error: BaseException) -> str:
    """Return a short reason for a failure, without the server's error details, which may quote a row."""
    match error:
        case TimeoutError():
            text = "no response"
        case asyncpg.ProtocolViolationError():
            text = f"{error.args[0]}; connect to the server itself, without a pooler"
        case asyncpg.ClientConfigurationError():  # its second line is a hint for other programs
            text = str(error).splitlines()[0]
            text += "; set sslrootcert in storage.url" if text.startswith("root certificate file") else ""
        case asyncpg.InternalClientError():  # the server has announced the shutdown, but the connection is still open
            text = "the server has closed the connection"
        case asyncpg.PostgresError():
            text = str(error.args[0]) if error.args else type(error).__name__
        case OSError(errno=int(number), strerror=str(text)) if text.startswith("Connect call failed"):  # asyncio's text
            text = os.strerror(number)
        case OSError():
            text = error.strerror or str(error)
        case ValueError():  # the driver's text quotes the value
            text = "a value that the database does not accept"
        case _:
            text = str(error)
    return text


def advice(error: BaseException) -> str:
    """Return the reason for a failure, followed by advice if available."""
    if isinstance(error, asyncpg.UndefinedTableError):
        return "it has no tmpmaild tables yet; tmpmaild migrate creates them"
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return f"the role has insufficient rights ({reason(error)}); use the role that owns the database and its tables"
    return reason(error)


def translate(error: Exception) -> Exception:
    """Convert an operational error to an error from ``tmpmaild.errors``; return a programming error unchanged."""
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull("the database server's disk is full")
    is_ours = isinstance(error, asyncpg.DataError | asyncpg.SyntaxOrAccessError) and not isinstance(error, _OF_OTHERS)
    if is_ours or not isinstance(error, FAILURES):
        return error
    log.error("unexpected error from the database: %s", reason(error))
    return StorageUnavailable(reason(error))


async def repeated(run: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``run``; retry it if the server has rolled it back in favour of another session."""
    for pause_seconds in _PAUSES_SECONDS:
        try:
            return await run()
        except _REPEATABLE as error:
            log.debug("repeating a statement: %s", reason(error))
            await asyncio.sleep(pause_seconds)  # without a pause, both sessions may block each other again
    return await run()


def is_of_one_row(error: Exception) -> bool:
    """Return whether the error was caused by a single operation's data; the statement has changed nothing."""
    return isinstance(error, _OF_ONE_ROW)
