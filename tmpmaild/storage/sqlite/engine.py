"""Opens the SQLite engine: one writer, one reader, and the file they share. What it does is in ``storage.py``."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiosqlite
import anyio

from tmpmaild.storage.base import OperatorMail, StorageLimits
from tmpmaild.storage.sqlite import database, obstacles
from tmpmaild.storage.sqlite.backup import remove_unfinished
from tmpmaild.storage.sqlite.columns import forget_values
from tmpmaild.storage.sqlite.deleting import DeletionState
from tmpmaild.storage.sqlite.diskspace import DiskSpace
from tmpmaild.storage.sqlite.files import Files
from tmpmaild.storage.sqlite.operatormail import SqliteOperatorMail
from tmpmaild.storage.sqlite.preparing import close, prepare, sensible_cap_bytes
from tmpmaild.storage.sqlite.quotas import inbox_limits
from tmpmaild.storage.sqlite.reader import Reader, connect
from tmpmaild.storage.sqlite.storage import SqliteStorage
from tmpmaild.storage.sqlite.writer import Clock, Writer

_REMEMBERED_BYTES = 1024 * 1024  # of a batch, by the statements that stored it


class StorageSettings(StorageLimits, frozen=True, kw_only=True):
    """The settings of the engine."""

    path: Path

    @property
    def name(self) -> str:
        """The database, as it is called in messages."""
        return str(self.path)


@asynccontextmanager
async def open_storage(settings: StorageSettings, clock: Clock) -> AsyncIterator[SqliteStorage]:
    """Lock, check, migrate and open the database; leaving closes it cleanly. Raises ``DatabaseError``."""
    path = settings.path
    with database.lock(path):
        remove_unfinished(path)
        cap_bytes = settings.max_bytes or await asyncio.to_thread(sensible_cap_bytes, path)
        connection, _ = await asyncio.to_thread(prepare, path, cap_bytes, clock)
        storage: SqliteStorage | None = None
        try:
            storage = await _assemble(settings, connection, cap_bytes, clock)
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


def operator_mail(path: Path) -> OperatorMail:
    """Return the operator's inbox in a database that a daemon may be using; each method opens the file to read it."""
    return SqliteOperatorMail(path)


async def _assemble(
    settings: StorageSettings, connection: sqlite3.Connection, cap_bytes: int, clock: Clock
) -> SqliteStorage:
    async with AsyncExitStack() as opened:
        reader = await connect(settings.path)
        opened.push_async_callback(reader.close)
        maintenance = await connect(settings.path)
        opened.push_async_callback(maintenance.close)
        try:
            storage = _put_together(settings, connection, (reader, maintenance), cap_bytes, clock)
        except (OSError, sqlite3.Error) as error:
            raise obstacles.refusal(settings.path, error) from error
        opened.pop_all()
    return storage


def _put_together(
    settings: StorageSettings,
    connection: sqlite3.Connection,
    readers: tuple[aiosqlite.Connection, aiosqlite.Connection],
    cap_bytes: int,
    clock: Clock,
) -> SqliteStorage:
    files = Files(settings.path)
    space = DiskSpace(files, connection, cap_bytes=cap_bytes, reserve_bytes=settings.reserve_bytes)
    deletion_state = DeletionState(connection)
    (hash_key,) = connection.execute("SELECT hash_key FROM daemon").fetchone()

    def after_batch(moved_bytes: float) -> None:
        space.measure(moved_bytes)
        if moved_bytes > _REMEMBERED_BYTES:
            forget_values(connection)

    # The last step that may fail: from here on the connection belongs to the writer's thread.
    writer = Writer(connection, clock=clock, after_batch=after_batch, is_lost=files.look)
    return SqliteStorage(
        writer,
        Reader(readers[0], is_lost=lambda: files.lost),
        readers[1],
        space,
        deletion_state,
        hash_key=hash_key,
        path=settings.path,
        clock=clock,
        limits=inbox_limits(settings, cap_bytes),
    )
