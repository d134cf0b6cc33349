"""Applies the steps of the schema: numbered SQL files, each applied once, completely or not at all, by one daemon.

Each step says which is the oldest step that a daemon must know to work with the schema after it: so daemons can be
replaced one by one. What the schema consists of is compared as lines of text. Partitions are left out: they come and
go. So is what differs between versions of the server (from 18 on NOT NULL is a constraint with a name), and what
belongs to an extension, which an operator may add.
"""

import asyncio
import logging
import re
import time
from pathlib import Path
from typing import Final

import anyio.to_thread
import asyncpg

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.postgresql.obstacles import reason
from tmpmaild.storage.schema import differences, steps_in

_LOCK: Final = "SELECT pg_try_advisory_lock(7238716, 1)"
_TURN_SECONDS: Final = 0.02
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
log = logging.getLogger(__name__)

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
# Partitions as well: who drops or attaches one must own it. Indexes belong to the owner of their table.
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


def migrations() -> dict[int, Path]:
    """Return the steps by number, 1 first."""
    return steps_in("migrations/postgresql")


async def migrate(connection: asyncpg.Connection, steps: dict[int, Path] | None = None) -> list[str]:
    """Apply the missing steps and return their names; others that do so at the same time wait.

    Where none is missing nobody is waited for: any role that may connect can take the lock.
    Raises ``DatabaseError`` if the database is not ours, or the schema is too new or was changed by hand; a step that
    fails has changed nothing.
    """
    steps = migrations() if steps is None else steps
    if await _has_all(connection, steps):
        return []
    await _have_turn(connection)
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


async def examine(connection: asyncpg.Connection) -> tuple[int | None, str]:
    """Return the newest step, None before there is one, and why a daemon would not start with this schema."""
    applied: dict[int, asyncpg.Record] = {}
    try:
        applied = await _known_steps(connection)
        await _check(connection, applied, max(migrations()))
    except DatabaseError as error:
        return max(applied, default=None), str(error)
    return max(applied, default=None), ""


async def _has_all(connection: asyncpg.Connection, steps: dict[int, Path]) -> bool:
    """Return whether the schema is as it should be; if not, it is looked at again when nobody is changing it."""
    try:
        applied = await _known_steps(connection)
        await _check(connection, applied, max(steps))
    except DatabaseError:
        return False
    return steps.keys() <= applied.keys()


async def _have_turn(connection: asyncpg.Connection) -> None:
    """Wait until no other daemon looks at the schema or changes it; say so if that takes long."""
    began = time.monotonic()
    has_said = False
    while not await connection.fetchval(_LOCK):
        if not has_said and time.monotonic() - began > _SILENT_SECONDS:
            has_said = True
            role = await connection.fetchval(_HOLDER)
            text = "role %s has been changing the schema for %d s, or only holds the lock for that; waiting for it"
            log.warning(text, role, _SILENT_SECONDS)
        await asyncio.sleep(_TURN_SECONDS)


async def _known_steps(connection: asyncpg.Connection) -> dict[int, asyncpg.Record]:
    """Return the steps that have been applied. Raises ``DatabaseError`` when the database holds something else."""
    tables = [row["relname"] for row in await connection.fetch(_TABLES)]
    if "schema_step" in tables:
        return {row["number"]: row for row in await connection.fetch("SELECT * FROM schema_step ORDER BY number")}
    if tables:
        raise DatabaseError(f"the database holds something else (such as {tables[0]}); create one for tmpmaild alone")
    if await connection.fetchval("SELECT to_regclass('schema_step') IS NOT NULL"):
        raise DatabaseError("its tables are not in the first schema of search_path; was a schema added?")
    return {}


async def _check(connection: asyncpg.Connection, applied: dict[int, asyncpg.Record], known: int) -> None:
    if not applied:
        return
    newest = applied[max(applied)]
    if newest["needs"] > known:
        raise DatabaseError(
            f"the schema is of a newer tmpmaild (step {newest['number']}), this one knows step {known}; update it"
        )
    found = differences(newest["shape"], await shape(connection))
    if found:
        raise DatabaseError(f"the schema has been changed by hand: {found[0]}")
    not_ours = await connection.fetchval(_NOT_OURS)
    if not_ours:
        raise DatabaseError(f"the {not_ours}; let the role of storage.url own it (ALTER … OWNER TO …)")


async def _apply(connection: asyncpg.Connection, number: int, name: str, script: str) -> None:
    """Apply one step. It gives way to those who use its tables, and is tried again: what waits behind it are mails."""
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
    raise DatabaseError(f"migration {name} failed: its tables stay locked by another session")


async def _try(connection: asyncpg.Connection, number: int, name: str, script: str) -> None:
    needs = _NEEDS.search(script)
    assert needs is not None  # of a file of ours
    async with connection.transaction():
        await connection.execute(_LOCK_WAIT)
        if number == 1:
            await connection.execute(_STEPS)
        await connection.execute(script)
        values = (number, name, int(needs[1]), await shape(connection))
        await connection.execute("INSERT INTO schema_step VALUES ($1, $2, $3, $4)", *values)


async def shape(connection: asyncpg.Connection) -> list[str]:
    """Return what the schema consists of, a line each."""
    return [row["line"] for row in await connection.fetch(_SHAPE)]
