"""Applies the steps of the schema: numbered SQL files, each applied once, completely or not at all."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.migrations import steps_in
from tmpmaild.storage.sqlite.database import APPLICATION_ID


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
