"""Applies the steps of the schema: numbered SQL files, each applied once, completely or not at all.

A difference from what they make is named. Tables and views that somebody has added are left out. What is attached to
ours is not: a trigger changes what a statement does, an index keeps copies of what is erased.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.schema import differences, steps_in
from tmpmaild.storage.sqlite.database import APPLICATION_ID

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


def migrations() -> dict[int, Path]:
    """Return the steps by number, 1 first."""
    return steps_in("migrations")


def migrate(connection: sqlite3.Connection, steps: dict[int, Path] | None = None) -> list[str]:
    """Apply the missing steps, each in a transaction, and return their names.

    Raises ``DatabaseError``; the failed step has then changed nothing.
    """
    applied = []
    for number, file in (migrations() if steps is None else steps).items():
        if _apply(connection, number, file):
            applied.append(file.stem)
    return applied


def _apply(connection: sqlite3.Connection, number: int, file: Path) -> bool:
    script = file.read_text(encoding="utf-8")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have applied the step meanwhile.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version >= number:
            connection.execute("ROLLBACK")
            return False
        for statement in _statements(script):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except (sqlite3.Error, sqlite3.Warning) as error:
        if connection.in_transaction:  # when the disk is full SQLite has rolled back already
            connection.execute("ROLLBACK")
        raise DatabaseError(f"migration {file.name} failed: {error}") from error
    return True


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit the transaction of the step.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


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
