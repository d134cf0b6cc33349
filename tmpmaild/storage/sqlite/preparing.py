"""What happens to a locked database before the engine runs on it, and when it is closed; the pragmas stand beside."""

import logging
import shutil
import sqlite3
from pathlib import Path

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.sqlite import database, obstacles
from tmpmaild.storage.sqlite.layout import PAGE_BYTES
from tmpmaild.storage.sqlite.migrate import migrations
from tmpmaild.storage.sqlite.upgrading import bring_up_to_date
from tmpmaild.storage.sqlite.writer import Clock
from tmpmaild.times import clock_ms

log = logging.getLogger(__name__)


def prepare(path: Path, max_bytes: int = 0, clock: Clock = clock_ms) -> tuple[sqlite3.Connection, list[str]]:
    """Create, check and migrate a database that the caller has locked; return what was applied too.

    ``max_bytes`` 0 sets no cap. ``clock`` gives Unix milliseconds; what has expired is not migrated. Raises
    ``DatabaseError``.
    """
    steps = migrations()
    database.create_private(path)
    database.check(path, max(steps))
    connection = database.connect(path)
    try:
        applied = bring_up_to_date(connection, steps, clock())
        if max_bytes:  # only now: a step may need a page where there is none
            connection.execute(f"PRAGMA max_page_count = {max(max_bytes // PAGE_BYTES, 1)}")
        connection.execute("UPDATE daemon SET clean_stop = 0")
    except (OSError, sqlite3.Error) as error:
        connection.close()
        raise obstacles.refusal(path, error) from error
    except DatabaseError as error:
        connection.close()
        raise DatabaseError(f"{path}: {error}") from error
    return connection, applied


def close(connection: sqlite3.Connection, *, clean: bool) -> None:
    """Close the connection that ``prepare`` opened; ``clean`` spares the next start the look at the whole file."""
    try:
        if clean:
            connection.execute("UPDATE daemon SET clean_stop = 1")
    except sqlite3.Error:
        log.exception("the database could not be marked as cleanly closed; the next start will check it")
    finally:
        connection.close()


def sensible_cap_bytes(path: Path) -> int:
    """Return what a database may grow to when nobody has said so: half of what the disk has for it, at most 10 GiB."""
    held_bytes = path.stat().st_size if path.exists() else 0
    return min(10 * 1024**3, (shutil.disk_usage(path.parent).free + held_bytes) // 2)
