"""The schema as lines of text, so that a difference from what the migrations make can be named.

Tables and views that somebody has added are left out. What is attached to ours is not: a trigger changes what a
statement does, an index keeps copies of what is erased.
"""

import json
import re
import sqlite3
from contextlib import closing
from functools import cache
from typing import Final

from tmpmaild.storage.shapes import differences
from tmpmaild.storage.sqlite.migrate import migrate, migrations

_OURS: Final = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
# The columns of views are left to their SQL: SQLite cannot name those of a view whose table lacks a column.
_SHAPE: Final = """
SELECT 'column ' || s.name || '.' || c.name || ': ' || c.type || c."notnull" || c.pk || coalesce(c.dflt_value, '')
    FROM sqlite_schema AS s JOIN pragma_table_xinfo(s.name) AS c
    WHERE s.type = 'table' AND s.name IN (SELECT value FROM json_each(:ours))
UNION ALL
SELECT s.type || ' ' || s.name || ': ' || s.sql
    FROM sqlite_schema AS s WHERE s.tbl_name IN (SELECT value FROM json_each(:ours)) AND s.sql IS NOT NULL
ORDER BY 1
"""
_COMMENT: Final = re.compile(r"--[^\n]*")


def difference(connection: sqlite3.Connection, version: int) -> str:
    """Return a difference from the schema of a version, "" if there is none."""
    ours, expected = _made_by_migrations(version)
    # By kind: a column says more than the table that it is of.
    return min(differences(expected, _lines(connection, ours)), default="")


@cache
def _made_by_migrations(version: int) -> tuple[str, list[str]]:
    """Return the names of our tables and views, as JSON, and the lines of the schema."""
    steps = {number: file for number, file in migrations().items() if number <= version}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        migrate(model, steps)
        ours = json.dumps([name for (name,) in model.execute(_OURS)])
        return ours, _lines(model, ours)


def _lines(connection: sqlite3.Connection, ours: str) -> list[str]:
    return [" ".join(_COMMENT.sub("", line).split()) for (line,) in connection.execute(_SHAPE, {"ours": ours})]
