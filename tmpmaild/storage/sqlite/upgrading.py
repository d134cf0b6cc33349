"""Brings a database to the newest schema without carrying along what has expired; the runner is in ``migrate.py``."""

import sqlite3
from pathlib import Path

from tmpmaild.storage.sqlite.deleting import DeletionState
from tmpmaild.storage.sqlite.migrate import migrate
from tmpmaild.storage.sqlite.sweeping import Sweep, sweep_pace
from tmpmaild.storage.sqlite.writer import Batch, last_message_key


def bring_up_to_date(connection: sqlite3.Connection, steps: dict[int, Path], now_ms: int) -> list[str]:
    """Apply the steps that are missing and return their names; before the first of them delete what has expired.

    Nothing is swept from a database that is new or up to date. Raises ``DatabaseError``, ``sqlite3.Error``.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if 0 < version < max(steps):
        connection.execute("UPDATE daemon SET clean_stop = 0")
        _sweep(connection, now_ms)
    return migrate(connection, steps)


def _sweep(connection: sqlite3.Connection, now_ms: int) -> None:
    """Sweep as the daemon does, a small transaction after the other.

    So the statements of a sweep must run on every schema since the first.
    """
    deletion_state, pace = DeletionState(connection), sweep_pace()
    more = True
    while more:
        batch = Batch(connection, now_ms, last_message_key(connection))
        (more,) = Sweep.run(batch, [Sweep(now_ms, deletion_state, pace)])
