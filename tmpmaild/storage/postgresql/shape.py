"""The schema as lines of text, so that a difference can be named. Partitions are left out: they come and go.

So is what differs between versions of the server (from 18 on NOT NULL is a constraint with a name), and what belongs
to an extension, which an operator may add.
"""

from typing import Final

import asyncpg

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


async def shape(connection: asyncpg.Connection) -> list[str]:
    """Return what the schema consists of, a line each."""
    return [row["line"] for row in await connection.fetch(_SHAPE)]
