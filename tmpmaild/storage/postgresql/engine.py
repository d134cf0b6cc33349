"""Opens the PostgreSQL engine, migrates its schema, and reads its data for commands.

``Storage`` is in ``storage.py``.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import asyncpg
from msgspec.structs import replace

from tmpmaild.config.databaseurl import DatabaseUrl
from tmpmaild.errors import DatabaseError, DatabaseRefused, RequestError, StorageUnavailable
from tmpmaild.storage.base import Summary
from tmpmaild.storage.engines import (
    OperatorMail,
    PostgresqlSettings,
    ServerFacts,
    differences,
    log_steps,
    operator_lookup,
    steps_in,
)
from tmpmaild.storage.postgresql import reading
from tmpmaild.storage.postgresql.partitions import Partitions
from tmpmaild.storage.postgresql.server import (
    CLOCK_SECONDS,
    FAILURES,
    DatabaseClock,
    Server,
    Session,
    advice,
    reason,
    single_row,
)
from tmpmaild.storage.postgresql.storage import PostgresqlStorage
from tmpmaild.storage.postgresql.writer import DEFAULT_CAP_BYTES, Clock, Usage

T = TypeVar("T")

_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 2.0
_KEEP_SECONDS: Final = 2.0

_LOCK: Final = "SELECT pg_try_advisory_lock(7238716, 1)"
_POLL_SECONDS: Final = 0.02
_SILENT_SECONDS: Final = 10
_HOLDER: Final = """
SELECT usename FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND (classid, objid, objsubid) = (7238716, 1, 2)
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_UNLOCK: Final = "SELECT pg_advisory_unlock(7238716, 1)"
_LOCK_WAIT: Final = "SET LOCAL lock_timeout = '50ms'"
_ATTEMPTS: Final = 600
_PAUSE_SECONDS: Final = 0.1
_STEPS: Final = """
CREATE TABLE schema_step (
    number integer PRIMARY KEY,
    name text NOT NULL,
    needs integer NOT NULL,    -- the oldest step that a daemon must know
    shape text[] NOT NULL      -- the schema after this step, to notice what somebody has changed by hand
)
"""
_NEEDS: Final = re.compile(r"^-- needs ([0-9]+):", re.MULTILINE)

_TABLES: Final = """
SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v')
    AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
ORDER BY relname
"""
_SHAPE: Final = """
WITH ours AS (
    SELECT oid, relname, relkind FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'S') AND NOT relispartition
        AND relname <> 'schema_step'
        AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
)
SELECT format('column %s.%s: %s%s', o.relname, a.attname, format_type(a.atttypid, a.atttypmod),
              CASE WHEN a.attnotnull THEN ' not null' ELSE '' END) AS line
    FROM ours AS o JOIN pg_attribute AS a ON a.attrelid = o.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped AND o.relkind <> 'S'
UNION ALL
SELECT format('sequence %s', relname) FROM ours WHERE relkind = 'S'
UNION ALL
SELECT 'index ' || replace(pg_get_indexdef(x.indexrelid), format('ON %I.', current_schema()), 'ON ')
    FROM ours AS o JOIN pg_index AS x ON x.indrelid = o.oid
UNION ALL
SELECT format('constraint %s.%s: %s', o.relname, k.conname, pg_get_constraintdef(k.oid))
    FROM ours AS o JOIN pg_constraint AS k ON k.conrelid = o.oid WHERE k.contype <> 'n'
UNION ALL
SELECT format('trigger %s.%s', o.relname, t.tgname) FROM ours AS o JOIN pg_trigger AS t ON t.tgrelid = o.oid
UNION ALL
SELECT format('function %s(%s): %s', p.proname, pg_get_function_identity_arguments(p.oid), md5(p.prosrc))
    FROM pg_proc AS p WHERE p.pronamespace = current_schema()::regnamespace
        AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = p.oid AND deptype = 'e')
ORDER BY 1
"""
# Includes partitions: only the owner can drop or attach a partition. An index has the same owner as its table.
_NOT_OURS: Final = """
SELECT format('%s belongs to the role %s', name, pg_get_userbyid(owner)) FROM (
    SELECT format('table %s', relname) AS name, relowner AS owner, oid FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'S')
    UNION ALL
    SELECT format('function %s', proname), proowner, oid FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace
) AS n
WHERE NOT pg_has_role(owner, 'USAGE') AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = n.oid AND deptype = 'e')
ORDER BY 1 LIMIT 1
"""
_OPERATOR_NAME: Final = b"\0"  # shorter than a hash, so it does not belong to any address
_SUMMARY: Final = """
SELECT sum(inboxes)::bigint AS inboxes, sum(messages)::bigint AS messages,
       pg_database_size(current_database()) AS stored_bytes
FROM usage
"""

LOGGING: Final = (
    "log_statement",
    "log_min_duration_statement",
    "log_min_duration_sample",
    "log_statement_sample_rate",
    "log_transaction_sample_rate",
    "log_parameter_max_length",
    "log_parameter_max_length_on_error",
    "auto_explain.log_min_duration",
    "auto_explain.log_parameter_max_length",
    "pgaudit.log_parameter",
)
_SETTINGS: Final = (*LOGGING, "autovacuum")
# Any role can count the sessions of other roles; only background processes have no database.
_FACTS: Final = """
SELECT split_part(current_setting('server_version'), ' ', 1) AS version,
       current_setting('synchronous_standby_names') AS standby_names,
       (SELECT count(*) FROM pg_stat_replication) AS standbys,
       rolsuper AS is_superuser,
       pg_has_role(datdba, 'USAGE') AS is_owner,
       has_schema_privilege(current_schema(), 'CREATE') IS TRUE AS may_create,
       has_schema_privilege('public', current_schema(), 'CREATE') AS others_may_create,
       has_database_privilege('public', datname, 'CONNECT') AS others_may_connect,
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS has_tls,
       coalesce(NOT inet_client_addr() <<= ANY (ARRAY['127.0.0.0/8', '::1/128']::inet[]), false) AS is_remote,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
           - coalesce(current_setting('reserved_connections', true)::integer, 0) - used.on_server AS free_on_server,
       CASE WHEN rolconnlimit < 0 OR rolsuper THEN NULL ELSE rolconnlimit - used.by_role END AS free_for_role,
       CASE WHEN datconnlimit < 0 OR rolsuper THEN NULL ELSE datconnlimit - used.in_database END AS free_in_database,
       used.by_daemons AS daemons_connections,
       pg_database_size(datname) AS database_bytes
FROM pg_roles, pg_database, (
    SELECT count(*) AS on_server,
           count(*) FILTER (WHERE a.usename = current_user) AS by_role,
           count(*) FILTER (WHERE a.datname = current_database()) AS in_database,
           count(*) FILTER (WHERE a.datname = current_database() AND a.application_name = 'tmpmaild'
                                  AND a.pid <> pg_backend_pid()) AS by_daemons
    FROM pg_stat_activity AS a WHERE a.datid IS NOT NULL
) AS used
WHERE rolname = current_user AND datname = current_database()
"""

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_storage(settings: PostgresqlSettings, clock: Clock | None = None) -> AsyncIterator[PostgresqlStorage]:
    """Connect, check and migrate the database, and open the storage; leaving the context closes it.

    ``clock`` defaults to the database server's clock. Raises ``DatabaseError``.
    """
    server = Server(settings.url, settings.password_file)
    upkeep, database_clock = Session(server), DatabaseClock()
    usage, partitions = Usage(replace(settings, max_bytes=settings.max_bytes or DEFAULT_CAP_BYTES)), Partitions(upkeep)
    async with AsyncExitStack() as opened:
        connection = await _prepared(upkeep)
        opened.push_async_callback(_shielded, upkeep.close)
        with _named(settings.url):
            await database_clock.measure(connection)
            hash_key = await _secret(connection)
            usage.note(await connection.fetchval("SELECT count_usage($1, 0, 0, 0)", usage.shard))
            await partitions.add_ahead((clock or database_clock)())
        storage = PostgresqlStorage(
            server,
            partitions,
            usage,
            hash_key=hash_key,
            clock=clock or database_clock,
            metrics=(*server.metrics(), *database_clock.metrics()),
        )
        opened.push_async_callback(_shielded, storage.close)
        with _named(settings.url):
            await storage.listen()
        await storage.connect()
        for upkeeping in (_keep_connected(storage), _measure(database_clock, upkeep)):
            opened.callback(asyncio.create_task(upkeeping).cancel)
        yield storage


@contextmanager
def _named(url: DatabaseUrl) -> Iterator[None]:
    """Convert server errors to ``DatabaseError``, with the name of the database and advice."""
    try:
        yield
    except (*FAILURES, RequestError) as error:
        raise DatabaseError(f"{url}: {advice(error)}") from error


async def _shielded(close: Callable[[], Awaitable[None]]) -> None:
    with anyio.CancelScope(shield=True):
        await close()


async def _prepared(session: Session) -> asyncpg.Connection:
    """Connect, and migrate the schema. If the server is unavailable, retry with increasing delays."""
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        try:
            connection, applied = await _migrated(session)
        except StorageUnavailable as error:
            if pause_seconds == _FIRST_PAUSE_SECONDS:
                log.warning("%s: cannot be reached: %s; waiting for it", session.server.url, error)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 1.5, _LONGEST_PAUSE_SECONDS)
        else:
            log_steps(session.server.url, applied)
            return connection


async def _migrated(session: Session) -> tuple[asyncpg.Connection, list[str]]:
    """Connect, and apply the missing migrations. Raises ``StorageUnavailable``, ``DatabaseError``."""
    connection = await session.connection()
    try:
        return connection, await migrate(connection)
    except (*FAILURES, DatabaseError) as error:
        await session.close()
        kind = DatabaseRefused if isinstance(error, DatabaseRefused) else DatabaseError
        raise kind(f"{session.server.url}: {advice(error)}") from error


async def _keep_connected(storage: PostgresqlStorage) -> None:
    """Reopen lost connections without waiting for mail or requests: a daemon that is not ready receives neither."""
    while True:
        await asyncio.sleep(_KEEP_SECONDS)
        await storage.connect()


async def _measure(clock: DatabaseClock, session: Session) -> None:
    """Measure the server's clock at regular intervals."""
    while True:
        await asyncio.sleep(CLOCK_SECONDS)
        try:
            await session.use(clock.measure)
        except (*FAILURES, RequestError, DatabaseError):
            continue  # another part of the daemon reports the failure


def upgrade(settings: PostgresqlSettings) -> list[str]:
    """Run ``bring_up_to_date`` in a new event loop."""
    return asyncio.run(bring_up_to_date(settings))


async def bring_up_to_date(settings: PostgresqlSettings) -> list[str]:
    """Migrate a database to the newest schema; return the names of the migrations. Raises ``DatabaseError``."""
    session = Session(Server(settings.url, settings.password_file))
    try:
        _, applied = await _migrated(session)
    except StorageUnavailable as error:
        raise DatabaseError(f"{settings.url}: cannot be reached: {error}") from error
    finally:
        await session.close()
    return applied


def migrations() -> dict[int, Path]:
    """Return the migrations by number, starting with 1."""
    return steps_in("migrations/postgresql")


async def migrate(connection: asyncpg.Connection, steps: dict[int, Path] | None = None) -> list[str]:
    """Apply the missing migrations under a lock, and return their names.

    If no migration is missing, this does not wait for the lock, which can be taken by any role that may connect. Raises
    ``DatabaseError`` if the database is not a tmpmaild database, or if the schema is too new or was changed by hand. A
    failed migration changes nothing.
    """
    steps = steps or migrations()
    newest, refusal = await _examined(connection, steps)
    if newest is not None and newest >= max(steps) and not refusal:
        return []  # otherwise check again while holding the lock
    await _lock(connection)
    try:
        applied = await _known_steps(connection)
        await _check(connection, applied, max(steps))
        missing = [number for number in steps if number not in applied]
        for number in missing:
            script = await anyio.to_thread.run_sync(steps[number].read_text, "utf-8")
            await _apply(connection, number, steps[number].name, script)
    finally:
        if not connection.is_closed():
            await connection.execute(_UNLOCK)
    return [steps[number].stem for number in missing]


async def _examined(connection: asyncpg.Connection, steps: dict[int, Path]) -> tuple[int | None, str]:
    """Return the latest applied migration, if any, and the reason why a daemon would refuse this schema, or ""."""
    applied: dict[int, asyncpg.Record] = {}
    try:
        applied = await _known_steps(connection)
        await _check(connection, applied, max(steps))
    except DatabaseError as error:
        return max(applied, default=None), str(error)
    return max(applied, default=None), ""


async def _lock(connection: asyncpg.Connection) -> None:
    """Acquire the lock that prevents concurrent migrations; log a warning if this takes a long time."""
    began = time.monotonic()
    has_said = False
    while not await connection.fetchval(_LOCK):
        if not has_said and time.monotonic() - began > _SILENT_SECONDS:
            has_said = True
            role = await connection.fetchval(_HOLDER)
            text = "role %s has been upgrading the schema or holding its lock for %d s; waiting for it"
            log.warning(text, role, _SILENT_SECONDS)
        await asyncio.sleep(_POLL_SECONDS)


async def _known_steps(connection: asyncpg.Connection) -> dict[int, asyncpg.Record]:
    """Return the migrations that have been applied. Raises ``DatabaseError`` if the database contains other tables."""
    tables = [row["relname"] for row in await connection.fetch(_TABLES)]
    if "schema_step" in tables:
        return {row["number"]: row for row in await connection.fetch("SELECT * FROM schema_step ORDER BY number")}
    if tables:
        raise DatabaseRefused(
            f"the database contains other tables (such as {tables[0]}); create a database only for tmpmaild"
        )
    if await connection.fetchval("SELECT to_regclass('schema_step') IS NOT NULL"):
        raise DatabaseRefused("its tables are not in the first schema of search_path; was a schema added?")
    return {}


async def _check(connection: asyncpg.Connection, applied: dict[int, asyncpg.Record], known: int) -> None:
    if not applied:
        return
    newest = applied[max(applied)]
    if newest["needs"] > known:
        raise DatabaseRefused(
            f"the schema is from a newer tmpmaild (step {newest['number']}); this version supports step {known};"
            " upgrade tmpmaild"
        )
    found = differences(newest["shape"], await _shape(connection))
    if found:
        raise DatabaseRefused(f"the schema has been changed by hand: {found[0]}")
    not_ours = await connection.fetchval(_NOT_OURS)
    if not_ours:
        raise DatabaseRefused(f"the {not_ours}; make the role in storage.url its owner (ALTER … OWNER TO …)")


async def _apply(connection: asyncpg.Connection, number: int, name: str, script: str) -> None:
    """Apply one migration.

    If the tables are in use, give up early and retry later, because deliveries have to wait for the migration.
    """
    for _ in range(_ATTEMPTS):
        try:
            await _try(connection, number, name, script)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(_PAUSE_SECONDS)
        except asyncpg.InsufficientPrivilegeError as error:
            raise DatabaseError(
                f"the role may not change the schema ({reason(error)}); make it the owner of the database"
            ) from error
        except asyncpg.PostgresError as error:
            raise DatabaseError(f"migration {name} failed: {reason(error)}") from error
        else:
            return
    raise DatabaseError(f"migration {name} failed: its tables remain locked by another session")


async def _try(connection: asyncpg.Connection, number: int, name: str, script: str) -> None:
    needs = _NEEDS.search(script)
    assert needs is not None  # every migration file contains this line
    async with connection.transaction():
        await connection.execute(_LOCK_WAIT)
        if number == 1:
            await connection.execute(_STEPS)
        await connection.execute(script)
        values = (number, name, int(needs[1]), await _shape(connection))
        await connection.execute("INSERT INTO schema_step VALUES ($1, $2, $3, $4)", *values)


async def _shape(connection: asyncpg.Connection) -> list[str]:
    """Return a line for each schema object."""
    return [row["line"] for row in await connection.fetch(_SHAPE)]


def operator_mail(settings: PostgresqlSettings) -> OperatorMail:
    """Return the operator's inbox. Daemons may be using the database."""
    lookup = operator_lookup(_OPERATOR_NAME)
    return OperatorMail(
        lambda page: _read_once(settings, lambda connection: reading.select_messages(connection, lookup, page)),
        lambda message_id, bounds: _read_once(
            settings,
            lambda connection: reading.select_message(connection, lookup, bounds, message_id=message_id, is_next=False),
        ),
        lambda: _read_once(settings, reading.operator_box),
    )


def summary(settings: PostgresqlSettings) -> Summary:
    """Return a summary of the stored data. Raises ``DatabaseError``."""

    async def read(connection: asyncpg.Connection) -> Summary:
        row = await single_row(connection, _SUMMARY)
        return Summary(None, row["inboxes"], row["messages"], row["stored_bytes"])

    return _read_once(settings, read)


def secret(settings: PostgresqlSettings) -> bytes:
    """Return the database's secret, which is used as the key for hashes. Raises ``DatabaseError``."""
    return _read_once(settings, _secret)


async def _secret(connection: asyncpg.Connection) -> bytes:
    return bytes(await connection.fetchval("SELECT hash_key FROM service"))


def _read_once(settings: PostgresqlSettings, read: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Connect, call ``read``, and close the connection. Raises ``DatabaseError``."""

    async def connect_and_read() -> T:
        connection = await Server(settings.url, settings.password_file).connect()
        try:
            return await read(connection)
        finally:
            await connection.close()

    with _named(settings.url):
        return asyncio.run(connect_and_read())


def facts(settings: PostgresqlSettings) -> ServerFacts:
    """Return facts about the server and its settings.

    Raises ``DatabaseError`` if the server cannot be read or a daemon would refuse it.
    """
    return _read_once(settings, _facts)


async def _facts(connection: asyncpg.Connection) -> ServerFacts:
    row = await single_row(connection, _FACTS)
    limits = (row["free_on_server"], row["free_for_role"], row["free_in_database"])
    settings = await connection.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY($1)", _SETTINGS)
    clock, steps = DatabaseClock(), migrations()
    await clock.measure(connection)
    step, refusal = await _examined(connection, steps)
    return ServerFacts(
        settings={row["name"]: row["setting"] for row in settings},
        free_connections=max(min(limit for limit in limits if limit is not None), 0),
        clock_ahead_seconds=clock.ahead_seconds(),
        schema_step=step,
        known_step=max(steps),
        schema_refusal=refusal,
        **{name: value for name, value in row.items() if name in ServerFacts.__struct_fields__},
    )
