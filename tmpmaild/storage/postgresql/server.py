"""The database server: its hosts, connections to the writable one, its clock, and the translation of its errors.

Each connection uses our settings, and is refused if mail would not be safe on the server. A server must respond in
time. Otherwise the connection is closed, and it is unknown whether the server has done the work.
"""

import asyncio
import logging
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
_PAUSE_SECONDS: Final = 0.5  # between two attempts to connect
_NEXT_HOST_SECONDS: Final = 2.0
_PAUSES_SECONDS: Final = (0.01, 0.02, 0.04, 0.08)  # before a statement is repeated
_MOST_READERS: Final = 4
_OLDEST_VERSION: Final = 15
_DURABLE: Final = ("on", "remote_apply")

_MISTAKES: Final = (
    *(asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError),
    *(asyncpg.InsufficientPrivilegeError, asyncpg.ClientConfigurationError),
    asyncpg.ProtocolViolationError,  # a pooler that does not know a setting
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
"""Errors of our statements if the schema is changed, or a dump is restored, while a daemon is running."""

_OF_IDS: Final = ("GetNewTransactionId", "GetNewMultiXactId")
"""Server functions that log a warning in each transaction when ids are about to run out."""

_SETTINGS: Final = {
    "application_name": "tmpmaild",
    # Every statement uses an index to look up a few rows. The planner's statistics of tables that exist for an hour are
    # useless: it would assume that they are small, and read a whole table to join it.
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
    "quote_all_identifiers": "off",  # otherwise the schema would look different
    "transform_null_equals": "off",
    "plpgsql.extra_errors": "none",
    "plpgsql.extra_warnings": "none",
    "client_min_messages": "warning",  # needed to notice that the server did not wait for a standby
    "default_transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "10s",  # a suspended daemon must not keep rows locked
}
# The first column fixes synchronous_commit for the session, even if the server's setting is changed later. The second
# makes the server stop waiting for a lock if the client has disconnected; systems other than Linux may not support it.
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
    """The hosts of a URL. Connects to the one that accepts writes."""

    def __init__(self, url: DatabaseUrl, password_file: Path | None = None) -> None:
        self.url = url
        self._password_file = password_file
        self._hosts = list(zip(url.hosts, url.ports, strict=True))
        self._connecting = asyncio.Lock()
        self._refusal = ""
        self._logged = ""  # connecting is retried every few seconds, but logged once
        self._refused_until = 0.0
        self._timeline = ""
        self._next_host_at = 0.0
        self._open: set[asyncpg.Connection] = set()
        self._connects = Count("storage_connects_total", "Connections to the database server that were opened.")

    async def connect(self) -> asyncpg.Connection:
        """Return a new connection to the first host that accepts writes.

        Raises ``StorageUnavailable`` if there is no such host now, ``DatabaseError`` if the server cannot be used.
        After a ``StorageUnavailable``, no host is tried for ``_PAUSE_SECONDS``: further calls fail at once.
        """
        async with self._connecting:
            if time.monotonic() < self._refused_until:
                raise StorageUnavailable(self._refusal)
            try:
                connection = await self._connect_to_first()
            except (StorageUnavailable, DatabaseError) as error:
                if self._open and self._logged != str(error):  # the caller logs a failure to open the first
                    # Log each outage, even a second one within a minute, which would otherwise be dropped as repeated.
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
        """Start with a different host next time; False if there is no other, or if this was done a moment ago."""
        if len(self._hosts) == 1 or time.monotonic() < self._next_host_at:
            return False
        self._next_host_at = time.monotonic() + _NEXT_HOST_SECONDS
        self._hosts.append(self._hosts.pop(0))
        return True

    def terminate_all(self) -> None:
        """Close all connections at once, because the host does not respond; running statements fail."""
        for connection in self._open:
            connection.terminate()

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
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
                reasons.append(f"{host}: it takes no writes, or was the primary once")
            # The next connection starts with a different host: trying this one may take until the timeout.
            self._hosts.append(self._hosts.pop(self._hosts.index((host, port))))
        if mistake is not None:
            raise DatabaseError(f"{self.url}: {'; '.join(reasons)}") from mistake
        raise StorageUnavailable("; ".join(reasons))

    async def _connect(self, host: str, port: int, password: str | None) -> asyncpg.Connection | None:
        """Connect to one host; None if it is not the primary. Raises ``DatabaseError`` if mail would not be safe."""
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
        """Return whether no newer primary has been seen: each promotion starts a newer timeline."""
        if timeline < self._timeline:
            log.error("a primary of an older timeline is left alone: %s; stop it", self.url)
            return False
        if timeline > self._timeline:
            self.terminate_all()  # the open connections lead to the previous primary
        self._timeline = timeline
        return True


class Session:
    """One connection, which is reopened after it was lost.

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
        """Whether the connection is open, as far as is known: the server may have gone away unnoticed."""
        return self._connection is not None and not self._connection.is_closed()

    async def connection(self) -> asyncpg.Connection:
        """Return the connection, opened if necessary. Raises as ``Server.connect``."""
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
        """Try another host: the commits of this primary do not reach its standby, which may have been promoted."""
        if self.server.try_next_host() and self._connection is not None:
            self._connection.terminate()

    def _note(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        """Record a warning. The server sends a warning, not an error, if the wait for a standby was cancelled."""
        is_of_ids = message.server_source_function in _OF_IDS
        self.was_warned = self.was_warned or (message.severity_en == "WARNING" and not is_of_ids)

    async def use(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Call ``work`` with the connection while no other call uses it; for connections shared by several tasks."""
        async with self._using:
            connection = await self.connection()
            with deadline(connection):
                return await work(connection)

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await close(self._connection)


class Readers:
    """The read-only connections: as many as are in use at once, up to ``_MOST_READERS``. Clients take turns."""

    def __init__(self, server: Server) -> None:
        self._sessions = [Session(server) for _ in range(_MOST_READERS)]
        self._idle = list(self._sessions)
        self._turns = FairSemaphore(_MOST_READERS)
        self._is_returned = asyncio.Event()
        self._running: set[asyncio.Task[object]] = set()

    @property
    def reason_not_ready(self) -> str:
        """The reason why nothing can be read, or ""."""
        is_any_open = any(session.is_open for session in self._sessions)
        return "" if is_any_open else next((one.reason_not_open for one in self._sessions if one.reason_not_open), "")

    async def connect(self) -> None:
        """Open a connection if none is open. Raises as ``Server.connect``."""
        if not any(session.is_open for session in self._sessions):
            await self._sessions[-1].connection()

    async def run(
        self, read: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]], *args: P.args, **options: P.kwargs
    ) -> T:
        """Call ``read`` with a connection and these arguments; raise its errors as those of ``tmpmaild.errors``.

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
            task.exception()  # otherwise it is reported as never retrieved if the caller was cancelled

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
        """Return an idle session; if the server refuses another connection, wait for one that is open."""
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
    """Follows the clock of the database server, which is measured at intervals."""

    def __init__(self) -> None:
        super().__init__("the clock of the database server")

    async def measure(self, connection: asyncpg.Connection) -> None:
        """Query the server's time, and assume that it was read halfway between sending and receiving.

        The error may be up to half of the round trip. A slow response is therefore used only if no time is known yet.
        """
        asked = elapsed()
        server_seconds = float(await connection.fetchval(_CLOCK))
        received = elapsed()
        if received - asked < _SLOW_SECONDS or not self.is_set:
            self.follow(server_seconds, (asked + received) / 2)

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        help_text = "How far the database server's clock is ahead of this machine's."
        return (*super().metrics(), Gauge("storage_clock_offset_seconds", help_text, self.ahead_seconds))

    def ahead_seconds(self) -> float:
        """Return how far the server's clock is ahead of this machine's."""
        return self() / 1000 + self.doubted_seconds() - time.time()


@contextmanager
def deadline(
    connection: asyncpg.Connection, seconds: float | None = None, expired: Callable[[], None] | None = None
) -> Iterator[None]:
    """Close the connection after a timeout, so that the statement inside fails as if the connection was lost.

    ``expired`` is called in place of closing it. A statement is never cancelled: if it was waiting for a standby, it
    would then end as if it had succeeded.
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
    except asyncpg.UndefinedObjectError as error:  # servers before version 12 do not know all of the settings
        raise _too_old(url, f"PostgreSQL is too old ({reason(error)})") from error


async def single_row(connection: asyncpg.Connection, sql: str, *values: object) -> asyncpg.Record:
    """Return the row of a statement that always returns exactly one row."""
    row = await connection.fetchrow(sql, *values)
    assert row is not None
    return row


async def close(connection: asyncpg.Connection) -> None:
    """Close a connection; terminate it if the server does not respond in time."""
    try:
        await connection.close(timeout=HOST_SECONDS)
    except FAILURES:
        connection.terminate()


async def _read_password(url: DatabaseUrl, file: Path | None) -> str | None:
    """Return the password; a file is read each time, as it may have changed. Raises ``DatabaseError``."""
    if file is None:
        return url.password
    try:
        return (await _read(file)).decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DatabaseError(f"{file}: is not UTF-8") from error


async def _check_files(url: DatabaseUrl) -> None:
    """Raise ``DatabaseError`` for an unreadable file of the URL: the driver's error would not name the file."""
    for name, value in url.tls:
        if name != "sslmode":
            await _read(Path(value), f" ({name} in storage.url)")


async def _read(file: Path, named: str = "") -> bytes:
    try:
        return await anyio.to_thread.run_sync(file.read_bytes)
    except OSError as error:
        raise DatabaseError(f"{file}{named}: cannot be read: {error.strerror}") from error


async def _check(url: DatabaseUrl, connection: asyncpg.Connection) -> str | None:
    """Return the timeline; None if the server accepts no writes. Raises ``DatabaseError`` if mail would not be safe."""
    version = connection.get_server_version().major
    if version < _OLDEST_VERSION:
        raise _too_old(url, f"PostgreSQL {version} is too old")
    found = await single_row(connection, _CHECK)
    if found["is_read_only"]:
        return None
    if not found["is_as_asked"]:
        raise DatabaseError(f"{url}: the settings of a connection do not last; connect without a pooler")
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
    return DatabaseError(f"{url}: {text}; {_OLDEST_VERSION} or newer is needed")


def reason(error: BaseException) -> str:
    """Return a short reason for a failure, without the server's error details, which may quote a row."""
    match error:
        case TimeoutError():
            text = "no answer"
        case asyncpg.ProtocolViolationError():
            text = f"{error.args[0]}; connect to the server itself, without a pooler"
        case asyncpg.InternalClientError():  # the server has announced it, but the connection is still open
            text = "the server has ended the connection"
        case asyncpg.PostgresError():
            text = str(error.args[0]) if error.args else type(error).__name__
        case OSError():
            text = error.strerror or str(error)
        case ValueError():  # the driver's text quotes the value
            text = "a value that the database does not take"
        case _:
            text = str(error)
    return text


def advice(error: BaseException) -> str:
    """Return the reason for a failure, with advice if there is any."""
    if isinstance(error, asyncpg.UndefinedTableError):
        return "it has no tables of tmpmaild yet; tmpmaild migrate creates them"
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return f"the role has not enough rights ({reason(error)}); use the one that owns database and tables"
    return reason(error)


def translate(error: Exception) -> Exception:
    """Convert an operational error to one of ``tmpmaild.errors``; return a programming error unchanged."""
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull("the disk of the database is full")
    is_ours = isinstance(error, asyncpg.DataError | asyncpg.SyntaxOrAccessError) and not isinstance(error, _OF_OTHERS)
    if is_ours or not isinstance(error, FAILURES):
        return error
    log.error("the database did not answer as it should: %s", reason(error))
    return StorageUnavailable(reason(error))


async def repeated(run: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``run``; retry it if the server has rolled it back in favour of another session."""
    for pause_seconds in _PAUSES_SECONDS:
        try:
            return await run()
        except _REPEATABLE as error:
            log.debug("a statement is repeated: %s", reason(error))
            await asyncio.sleep(pause_seconds)  # otherwise both sessions may block each other again
    return await run()


def is_of_one_row(error: Exception) -> bool:
    """Return whether a statement failed, and changed nothing, because of the data of one of its operations."""
    return isinstance(error, _OF_ONE_ROW)
