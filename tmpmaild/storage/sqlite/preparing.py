"""Creates, checks, migrates and closes a locked database. Pragmas are in ``database.py``, steps in ``migrate.py``."""

import logging
import shutil
import sqlite3
from pathlib import Path

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.sqlite import database, obstacles
from tmpmaild.storage.sqlite.deleting import DeletionState
from tmpmaild.storage.sqlite.layout import PAGE_BYTES
from tmpmaild.storage.sqlite.migrate import migrate, migrations
from tmpmaild.storage.sqlite.shape import difference
from tmpmaild.storage.sqlite.sweeping import Sweep, sweep_pace
from tmpmaild.storage.sqlite.writer import Batch, Clock, last_message_key
from tmpmaild.times import clock_ms

log = logging.getLogger(__name__)


def prepare(path: Path, max_bytes: int = 0, clock: Clock = clock_ms) -> tuple[sqlite3.Connection, list[str]]:
    """Create, check and migrate a database that the caller has locked; return it with the names of the steps applied.

    ``max_bytes`` 0 sets no cap. ``clock`` returns Unix milliseconds; what has expired is not migrated. Raises
    ``DatabaseError``.
    """
    steps = migrations()
    database.create_private(path)
    database.check(path, max(steps), difference)
    connection = database.connect(path)
    try:
        applied = bring_up_to_date(connection, steps, clock())
        if max_bytes:  # not earlier: a step may need a page more than the cap
            cap_pages(connection, max_bytes)
        connection.execute("UPDATE daemon SET clean_stop = 0")
    except (OSError, sqlite3.Error) as error:
        connection.close()
        raise obstacles.refusal(path, error) from error
    except DatabaseError as error:
        connection.close()
        raise DatabaseError(f"{path}: {error}") from error
    return connection, applied


def cap_pages(connection: sqlite3.Connection, cap_bytes: int) -> None:
    """Set the largest size of the file: this, or its present size if that is more."""
    connection.execute(f"PRAGMA max_page_count = {max(cap_bytes // PAGE_BYTES, 1)}")


def bring_up_to_date(connection: sqlite3.Connection, steps: dict[int, Path], now_ms: int) -> list[str]:
    """Apply the missing steps of the schema and return their names; delete what has expired before the first of them.

    Nothing is swept from a database that is new or up to date. Raises ``DatabaseError``, ``sqlite3.Error``.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if 0 < version < max(steps):
        connection.execute("UPDATE daemon SET clean_stop = 0")
        _sweep(connection, now_ms)
    return migrate(connection, steps)


def _sweep(connection: sqlite3.Connection, now_ms: int) -> None:
    """Sweep as the daemon does, in small transactions.

    Therefore the statements of a sweep must run on every schema since the first.
    """
    deletion_state, pace = DeletionState(connection), sweep_pace()
    more = True
    while more:
        batch = Batch(connection, now_ms, last_message_key(connection))
        (more,) = Sweep.run(batch, [Sweep(now_ms, deletion_state, pace)])


def close(connection: sqlite3.Connection, *, clean: bool) -> None:
    """Close the connection that ``prepare`` opened; ``clean`` saves the next start from checking the whole file."""
    try:
        if clean:
            connection.execute("UPDATE daemon SET clean_stop = 1")
    except sqlite3.Error as error:
        log.error(  # noqa: TRY400 - the disk's fault, not the code's
            "the database could not be marked as cleanly closed (%s); the next start will check it", error
        )
    finally:
        connection.close()


def sensible_cap_bytes(path: Path) -> int:
    """Return the default size limit of a database: half of what the disk has for it, at most 10 GiB."""
    held_bytes = path.stat().st_size if path.exists() else 0
    return min(10 * 1024**3, (shutil.disk_usage(path.parent).free + held_bytes) // 2)
