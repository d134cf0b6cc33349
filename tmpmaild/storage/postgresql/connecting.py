"""Connects to one host with the settings that sessions have, and checks that mail is safe there.

A server has a time to answer. After that its connection is closed, and whether it did the work is unknown.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import anyio.to_thread
import asyncpg

from tmpmaild.databaseurl import DatabaseUrl
from tmpmaild.errors import DatabaseError
from tmpmaild.storage.postgresql.obstacles import FAILURES, reason

STATEMENT_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 3.0

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
_DURABLE: Final = ("on", "remote_apply")


@contextmanager
def deadline(
    connection: asyncpg.Connection, seconds: float | None = None, expired: Callable[[], None] | None = None
) -> Iterator[None]:
    """Close the connection if the statement within has no answer by then: it raises an error of a lost connection.

    ``expired`` is what to do in place of that. A statement is never cancelled: one that waits for a standby would then
    end as if it had succeeded.
    """
    after = STATEMENT_SECONDS if seconds is None else seconds
    timer = asyncio.get_running_loop().call_later(after, expired or connection.terminate)
    try:
        yield
    except asyncpg.InternalClientError:
        connection.terminate()  # the driver is in a state from which it does not come back
        raise
    finally:
        timer.cancel()


async def connect(
    url: DatabaseUrl, host: str, port: int, password: str | None
) -> tuple[asyncpg.Connection, str] | None:
    """Connect to one host of a URL; return the connection and the timeline, None if the host takes no writes.

    Raises ``DatabaseError`` when mail would not be safe there.
    """
    try:
        connection = await asyncpg.connect(
            dsn=f"postgresql:///?{urlencode(url.tls)}",
            host=host,
            port=port,
            user=url.user,
            password=password,
            database=url.database,
            timeout=HOST_SECONDS,
            server_settings=_SETTINGS,
        )
    except asyncpg.UndefinedObjectError as error:  # before version 12 a server does not know all of the settings
        raise _too_old(url, f"PostgreSQL is too old ({reason(error)})") from error
    try:
        with deadline(connection, HOST_SECONDS):
            timeline = await _check(url, connection)
    except BaseException:
        connection.terminate()
        raise
    if timeline is None:
        await close(connection)
        return None
    return connection, timeline


async def close(connection: asyncpg.Connection) -> None:
    """Close a connection, at once if the server does not answer."""
    try:
        await connection.close(timeout=HOST_SECONDS)
    except FAILURES:
        connection.terminate()


async def read_password(url: DatabaseUrl, file: Path | None) -> str | None:
    """Return the password, which may have been changed. Raises ``DatabaseError``."""
    if file is None:
        return url.password
    try:
        text = await anyio.to_thread.run_sync(file.read_text, "utf-8")
    except OSError as error:
        raise DatabaseError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DatabaseError(f"{file}: is not UTF-8") from error
    return text.rstrip("\r\n")


async def check_files(url: DatabaseUrl) -> None:
    """Raise ``DatabaseError`` for a file of the URL that cannot be read: the driver would not say which it is."""
    for name, value in url.tls:
        if name != "sslmode":
            try:
                await anyio.to_thread.run_sync(Path(value).read_bytes)
            except OSError as error:
                raise DatabaseError(f"{value} ({name} in storage.url): cannot be read: {error.strerror}") from error


async def _check(url: DatabaseUrl, connection: asyncpg.Connection) -> str | None:
    """Return the timeline, None if it takes no writes. Raises ``DatabaseError`` when mail would not be safe there."""
    version = connection.get_server_version().major
    if version < OLDEST_VERSION:
        raise _too_old(url, f"PostgreSQL {version} is too old")
    found = await connection.fetchrow(_CHECK)
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
    return DatabaseError(f"{url}: {text}; {OLDEST_VERSION} or newer is needed")
