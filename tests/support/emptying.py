"""Empties a database, which is much cheaper than creating a new one for each test."""

from contextlib import contextmanager
from functools import partial
from pathlib import Path

import asyncpg
from anyio.from_thread import start_blocking_portal

_USED = """
SELECT array_agg(oid::regclass::text) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
    AND relname NOT IN ('service', 'inbox', 'usage', 'schema_step')
"""
_EMPTY = Path(__file__).with_name("emptying-empty.sql").read_text()


@contextmanager
def emptier(url):
    """Yield a function that uses one open session to delete everything that tests have stored in a database."""
    with start_blocking_portal() as portal:
        connect = partial(asyncpg.connect, host=url.hosts[0], user=url.user, database=url.database)
        connection = portal.call(connect)
        try:
            yield lambda: portal.call(_empty, connection)
        finally:
            portal.call(connection.close)


async def _empty(connection):
    if await connection.fetchval("SELECT to_regclass('inbox') IS NOT NULL"):
        # Empties only the tables that have been used, because nearly all partitions have never contained a row.
        used = await connection.fetchval(_USED) or ()
        await connection.execute("".join(f"DELETE FROM {name};" for name in used) + _EMPTY)
