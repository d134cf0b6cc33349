"""The statement that stores mail, whatever the size of the batch; how a row is laid out stands in ``rows.py``.

SQLite keeps the values that a cached statement was last given. With a statement for each number of rows, the mail of
64 batches would stay in memory; so there are few statements, and what a batch does not fill is rows of NULL, which
the triggers of the view pass over.
"""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

_SIZES = (1, 4, 16, 32, 64)
MAX_ROWS = _SIZES[-1]
"""How many rows go in one statement."""

_COLUMNS = 26
_NO_ROW = (None,) * _COLUMNS


def insert(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows into the view ``delivery``."""
    for start in range(0, len(rows), MAX_ROWS):
        part = rows[start : start + MAX_ROWS]
        size = next(size for size in _SIZES if size >= len(part))
        _execute(connection, [*part, *[_NO_ROW] * (size - len(part))])


def forget_values(connection: sqlite3.Connection) -> None:
    """Let go of the mail that the statements were last given."""
    for size in _SIZES:
        _execute(connection, [_NO_ROW] * size)


def _execute(connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    # executemany() of one; execute() would hand the GIL over once more to ask for the last rowid.
    connection.executemany(_insert_sql(len(rows)), [tuple(chain.from_iterable(rows))])


@lru_cache
def _insert_sql(rows: int) -> str:
    one = f"({','.join('?' * _COLUMNS)})"
    return f"INSERT INTO delivery VALUES {','.join([one] * rows)}"
