"""What another process than a daemon reads: the operator's inbox, a summary, and how the server is set.

Each read connects and closes. Nothing is changed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from tmpmaild.errors import DatabaseError, RequestError
from tmpmaild.model import Message, Page, Source
from tmpmaild.storage.base import ANY_SIZE, OPERATOR_INBOX_ID, Summary, anybody
from tmpmaild.storage.operatormail import OperatorMail
from tmpmaild.storage.postgresql.messages import select_source
from tmpmaild.storage.postgresql.migrate import examine, migrations
from tmpmaild.storage.postgresql.obstacles import FAILURES, advice
from tmpmaild.storage.postgresql.reading import InboxLookup, select_messages
from tmpmaild.storage.postgresql.server import Server
from tmpmaild.storage.settings import Limits, PostgresqlSettings, ServerFacts

T = TypeVar("T")

_OPERATOR_NAME: Final = b"\0"  # hashes are longer: no address has this one
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
# What a role may see of the sessions of others is enough to count them: background processes have no database.
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


def operator_mail(settings: PostgresqlSettings) -> OperatorMail:
    """Return the operator's inbox, which may be read while daemons use the database."""
    lookup = InboxLookup("", _OPERATOR_NAME, 0, Limits(), anybody)

    def page(wanted: Page) -> tuple[Message, ...]:
        found = look(settings, lambda connection: select_messages(connection, lookup, wanted))
        return found.messages if found else ()

    def source(message_id: str) -> Source | None:
        found = look(settings, lambda connection: select_source(connection, lookup, message_id, ANY_SIZE))
        return found and found[1]

    return OperatorMail(page, source, int(OPERATOR_INBOX_ID))


def summary(settings: PostgresqlSettings) -> Summary:
    """Return what the database holds. Raises ``DatabaseError``."""

    async def read(connection: asyncpg.Connection) -> Summary:
        row = await connection.fetchrow(_SUMMARY)
        return Summary(None, row["inboxes"], row["messages"], row["stored_bytes"])

    return look(settings, read)


def look(settings: PostgresqlSettings, read: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Connect, read, and close. Raises ``DatabaseError``."""

    async def connect_and_read() -> T:
        connection = await Server(settings.url, settings.password_file).connect()
        try:
            return await read(connection)
        finally:
            await connection.close()

    try:
        return asyncio.run(connect_and_read())
    except (*FAILURES, RequestError) as error:
        raise DatabaseError(f"{settings.url}: {advice(error)}") from error


def facts(settings: PostgresqlSettings) -> ServerFacts:
    """Return how the server is set. Raises ``DatabaseError``, also when a daemon would refuse it."""
    return look(settings, _facts)


async def _facts(connection: asyncpg.Connection) -> ServerFacts:
    row = await connection.fetchrow(_FACTS)
    limits = (row["free_on_server"], row["free_for_role"], row["free_in_database"])
    step, obstacle = await examine(connection)
    return ServerFacts(
        settings=await _settings(connection),
        free_connections=max(min(limit for limit in limits if limit is not None), 0),
        clock_ahead_seconds=await _clock_ahead_seconds(connection),
        schema_step=step,
        known_step=max(migrations()),
        schema_obstacle=obstacle,
        **{name: value for name, value in row.items() if name in ServerFacts.__struct_fields__},
    )


async def _settings(connection: asyncpg.Connection) -> dict[str, str]:
    rows = await connection.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY($1)", _SETTINGS)
    return {row["name"]: row["setting"] for row in rows}


async def _clock_ahead_seconds(connection: asyncpg.Connection) -> float:
    """Return by how much the server's clock is ahead of this machine's; the question takes its time, too."""
    asked = time.time()
    there = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))
    return there - (asked + time.time()) / 2
