"""Opens the SQLite engine: creates, checks, migrates and closes a database, and puts the parts over it together.

Pragmas are in ``database.py``, the steps of the schema in ``migrate.py``. What the engine does is in ``storage.py``.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiosqlite
import anyio

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.schema import tell
from tmpmaild.storage.settings import Limits, SqliteSettings
from tmpmaild.storage.sqlite import database, obstacles
from tmpmaild.storage.sqlite.backup import remove_unfinished
from tmpmaild.storage.sqlite.batches import Batch, State, run
from tmpmaild.storage.sqlite.database import Files
from tmpmaild.storage.sqlite.diskspace import DiskSpace, cap_pages, sensible_cap_bytes
from tmpmaild.storage.sqlite.layout import forget_values
from tmpmaild.storage.sqlite.migrate import difference, migrate, migrations
from tmpmaild.storage.sqlite.reader import Reader, connect
from tmpmaild.storage.sqlite.storage import SqliteStorage
from tmpmaild.storage.sqlite.sweeping import Sweep, sweep_pace
from tmpmaild.storage.sqlite.writer import Clock, Writer
from tmpmaild.times import clock_ms

_REMEMBERED_BYTES = 1024 * 1024  # of a batch, by the statements that stored it

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_storage(settings: SqliteSettings, clock: Clock = clock_ms) -> AsyncIterator[SqliteStorage]:
    """Lock, check, migrate and open the database; leaving closes it cleanly. Raises ``DatabaseError``."""
    path = settings.path
    with database.lock(path):
        remove_unfinished(path)
        cap_bytes = settings.max_bytes or await asyncio.to_thread(sensible_cap_bytes, path)
        connection, applied = await asyncio.to_thread(prepare, path, cap_bytes, clock)
        tell(path, applied)
        storage: SqliteStorage | None = None
        try:
            storage = await _assemble(settings, connection, settings.up_to(cap_bytes), clock)
            yield storage
        finally:
            with anyio.CancelScope(shield=True):
                if storage is not None:
                    await storage.close()
                await asyncio.to_thread(close, connection, clean=storage is not None and not storage.met_damage)


def upgrade(path: Path) -> list[str]:
    """Bring a database that is not in use to the newest schema; return the names of the steps applied.

    Raises ``DatabaseError``.
    """
    with database.lock(path):
        connection, applied = prepare(path)
        close(connection, clean=True)
    return applied


async def _assemble(
    settings: SqliteSettings, connection: sqlite3.Connection, limits: Limits, clock: Clock
) -> SqliteStorage:
    async with AsyncExitStack() as opened:
        reader = await connect(settings.path)
        opened.push_async_callback(reader.close)
        maintenance = await connect(settings.path)
        opened.push_async_callback(maintenance.close)
        try:
            storage = _put_together(settings, connection, (reader, maintenance), limits, clock)
        except (OSError, sqlite3.Error) as error:
            raise obstacles.refusal(settings.path, error) from error
        opened.pop_all()
    return storage


def _put_together(
    settings: SqliteSettings,
    connection: sqlite3.Connection,
    readers: tuple[aiosqlite.Connection, aiosqlite.Connection],
    limits: Limits,
    clock: Clock,
) -> SqliteStorage:
    files = Files(settings.path)
    space = DiskSpace(files, connection, cap_bytes=limits.cap_bytes, reserve_bytes=limits.reserve_bytes)
    (hash_key,) = connection.execute("SELECT hash_key FROM daemon").fetchone()

    def after_batch(moved_bytes: float) -> None:
        space.measure(moved_bytes)
        if moved_bytes > _REMEMBERED_BYTES:
            forget_values(connection)

    # The last step that may fail: from here on the connection belongs to the writer's thread.
    writer = Writer(connection, clock=clock, limits=limits, after_batch=after_batch, is_lost=files.look)
    reader = Reader(readers[0], is_lost=lambda: files.lost)
    return SqliteStorage(
        writer, reader, readers[1], space, hash_key=hash_key, clock=clock, limits=limits, wanted=settings
    )


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
    pace, more = sweep_pace(), True
    while more:
        batch = Batch(State(connection), now_ms)
        (more,) = run(Sweep, batch, [Sweep(now_ms, pace)])


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
