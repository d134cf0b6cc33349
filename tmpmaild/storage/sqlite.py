"""The SQLite engine: one writer, one reader, and the file they share."""

import asyncio
import logging
import math
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
import anyio
from msgspec import Struct

from tmpmaild.errors import DatabaseError
from tmpmaild.model import Inbox, Listing, NewInbox, NewMail, Page, Source
from tmpmaild.storage import database
from tmpmaild.storage.delivery import forget_values
from tmpmaild.storage.layout import PAGE_BYTES
from tmpmaild.storage.migrate import migrate, migrations
from tmpmaild.storage.operations import AddMessage, CreateInbox
from tmpmaild.storage.reader import Reader, connect
from tmpmaild.storage.reading import Finder, select_messages
from tmpmaild.storage.room import Limits, Room, operator_is_full
from tmpmaild.storage.rows import keyed_hash
from tmpmaild.storage.sources import select_source
from tmpmaild.storage.sweeping import EmptyWal, Sweep, Vacuum
from tmpmaild.storage.writer import Clock, OnCommitted, Writer, translate

log = logging.getLogger(__name__)

_MAX_VACUUM_STEPS = 1000  # a call of erase(), some seconds; the next sweep must not wait for a file of many gigabytes
_NO_LIMIT = 1 << 62
_REMEMBERED_BYTES = 1024 * 1024  # of a batch, by the statement that stored it, until the next sweep
_MEASURE_EVERY_SECONDS = 0.1


class Space:
    """Whether there is room: asked of the disk and the file in the writer's thread, answered from memory."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, cap_bytes: int, reserve_bytes: int) -> None:
        self._path = path
        self._connection = connection
        self._cap_bytes = cap_bytes
        self._disk_reserve_bytes = max(256 * 1024 * 1024, cap_bytes // 10, reserve_bytes)
        self._cap_reserve_bytes = min(cap_bytes // 10, reserve_bytes)
        self._measured_at_seconds = -math.inf
        self._moved_bytes = 0.0
        self.has_room = True
        self.measure()

    def measure(self, moved_bytes: float = 0.0) -> None:
        """Look again, unless that was a moment and a few octets ago: it costs the writer six hand-overs of the GIL.

        The WAL is not bounded by the cap, hence the disk's own reserve.
        """
        now = time.monotonic()
        self._moved_bytes += moved_bytes
        fresh = now - self._measured_at_seconds < _MEASURE_EVERY_SECONDS
        if fresh and self._moved_bytes < self._cap_reserve_bytes // 8:
            return
        self._measured_at_seconds, self._moved_bytes = now, 0.0
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        used_bytes = (pages - free) * PAGE_BYTES
        self.has_room = (
            used_bytes + self._cap_reserve_bytes <= self._cap_bytes
            and shutil.disk_usage(self._path.parent).free >= self._disk_reserve_bytes
        )


class SqliteStorage:
    """``Storage`` in one SQLite file. Made by ``open_storage``."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        maintenance: aiosqlite.Connection,
        space: Space,
        *,
        hash_key: bytes,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._maintenance = maintenance
        self._space = space
        self._hash_key = hash_key
        self._limits = limits
        self._room = Room(limits)
        self._finder = Finder(limits.max_messages, limits.max_bytes, limits.max_creator_bytes)
        self._unerased = True  # what an earlier process swept may still stand in the WAL

    def has_room(self) -> bool:
        """See ``Storage``."""
        return self._space.has_room

    async def create_inbox(self, new: NewInbox) -> Inbox:
        """See ``Storage``."""
        creator_hash = None if new.creator is None else keyed_hash(self._hash_key, new.creator)
        operation = CreateInbox(new, keyed_hash(self._hash_key, new.address), creator_hash)
        inbox_id = await self._writer.submit(operation)
        return Inbox(
            id=inbox_id,
            address=new.address,
            created_at_ms=new.created_at_ms,
            expires_at_ms=new.expires_at_ms,
            private=new.private,
            token_hash=new.token_hash,
            message_count=0,
            full=False,
        )

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        """See ``Storage``."""
        name_hash = keyed_hash(self._hash_key, address)
        return await self._reader.run(lambda connection: self._finder.inbox(connection, address, name_hash, now_ms))

    async def operator_is_full(self) -> bool:
        """See ``Storage``."""
        return await self._reader.run(lambda connection: operator_is_full(connection, self._limits))

    async def list_messages(self, address: str, page: Page, now_ms: int) -> Listing | None:
        """See ``Storage``."""
        name_hash = keyed_hash(self._hash_key, address)

        def read(connection: sqlite3.Connection) -> Listing | None:
            inbox = self._finder.inbox(connection, address, name_hash, now_ms)
            return select_messages(connection, inbox, page) if inbox else None

        return await self._reader.run(read)

    async def read_source(
        self, address: str, message_id: str, now_ms: int, up_to_bytes: int | None = None
    ) -> tuple[Inbox, Source | None] | None:
        """See ``Storage``."""
        name_hash = keyed_hash(self._hash_key, address)

        def read(connection: sqlite3.Connection) -> tuple[Inbox, Source | None] | None:
            inbox = self._finder.inbox(connection, address, name_hash, now_ms)
            return (inbox, select_source(connection, inbox.id, message_id, up_to_bytes)) if inbox else None

        return await self._reader.run(read)

    async def add_message(self, mail: NewMail) -> str:
        """See ``Storage``."""
        message_id: str = await self._writer.submit(AddMessage(mail, self._room))
        return message_id

    async def sweep(self, now_ms: int) -> bool:
        """See ``Storage``."""
        deleted, more = await self._writer.submit(Sweep(now_ms))
        self._unerased = self._unerased or deleted
        return bool(more)

    async def erase(self) -> bool:
        """See ``Storage``."""
        # The WAL first: shrinking may take long, is no promise, and behind a foreign reader would only grow the WAL.
        return await self._empty_wal() and (not await self._shrink() or await self._empty_wal())

    async def _empty_wal(self) -> bool:
        if not self._unerased:
            return True
        # PASSIVE moves the pages while mail goes on arriving; what is left for TRUNCATE is little.
        try:
            await self._maintenance.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.DatabaseError as error:
            raise translate(error) from error
        self._unerased = not await self._writer.submit(EmptyWal())
        return not self._unerased

    async def _shrink(self) -> bool:
        steps = 0
        while steps < _MAX_VACUUM_STEPS and await self._writer.submit(Vacuum()):
            self._unerased = True
            steps += 1
        return steps > 0

    @property
    def met_damage(self) -> bool:
        """Whether the file has turned out to be broken: the next start must look at all of it."""
        return self._writer.met_damage

    def on_committed(self, callback: OnCommitted) -> None:
        """See ``Storage``."""
        self._writer.on_committed = callback

    async def close(self) -> None:
        """See ``Storage``."""
        await self._writer.close()
        await self._reader.close()
        await self._maintenance.close()


class Settings(Struct, frozen=True):
    """What the engine must know of the configuration; 0 means no limit, for ``max_bytes`` a sensible cap.

    ``reserve_bytes`` is what must stay free for mail that is on its way in.
    """

    path: Path
    max_bytes: int
    reserve_bytes: int
    max_messages_per_inbox: int
    max_bytes_per_inbox: int
    max_share_per_creator: float


@asynccontextmanager
async def open_storage(settings: Settings, clock: Clock) -> AsyncIterator[SqliteStorage]:
    """Lock, check, migrate and open the database; leaving closes it cleanly. Raises ``DatabaseError``."""
    path = settings.path
    with database.lock(path):
        cap_bytes = await asyncio.to_thread(_cap_bytes, settings)
        connection, _ = await asyncio.to_thread(_prepare, path, cap_bytes)
        storage: SqliteStorage | None = None
        try:
            storage = await _assemble(settings, connection, cap_bytes, clock)
            yield storage
        finally:
            with anyio.CancelScope(shield=True):
                if storage is not None:
                    await storage.close()
                await asyncio.to_thread(_close, connection, clean=storage is not None and not storage.met_damage)


def _prepare(path: Path, max_bytes: int = 0) -> tuple[sqlite3.Connection, list[str]]:
    """Create, check and migrate a database that the caller has locked; return what was applied too."""
    steps = migrations()
    database.create_private(path)
    database.check(path, max(steps))
    connection = database.connect(path)
    try:
        applied = migrate(connection, steps)
        if max_bytes:  # only now: a step may need room for a table twice
            connection.execute(f"PRAGMA max_page_count = {max(max_bytes // PAGE_BYTES, 1)}")
        connection.execute("UPDATE daemon SET clean_stop = 0")
    except (sqlite3.Error, DatabaseError) as error:
        connection.close()
        raise DatabaseError(f"{path}: {error}") from error
    return connection, applied


def upgrade(path: Path) -> list[str]:
    """Bring a database that nobody uses to the newest schema; return the names of the steps taken.

    Raises ``DatabaseError``.
    """
    with database.lock(path):
        connection, applied = _prepare(path)
        _close(connection, clean=True)
    return applied


def _close(connection: sqlite3.Connection, *, clean: bool) -> None:
    try:
        if clean:
            connection.execute("UPDATE daemon SET clean_stop = 1")
    except sqlite3.Error:
        log.exception("the database could not be marked as cleanly closed; the next start will check it")
    finally:
        connection.close()


async def _assemble(settings: Settings, connection: sqlite3.Connection, cap_bytes: int, clock: Clock) -> SqliteStorage:
    space = Space(settings.path, connection, cap_bytes=cap_bytes, reserve_bytes=settings.reserve_bytes)
    (hash_key,) = connection.execute("SELECT hash_key FROM daemon").fetchone()

    def after_batch(moved_bytes: float) -> None:
        space.measure(moved_bytes)
        if moved_bytes > _REMEMBERED_BYTES:
            forget_values(connection)

    return SqliteStorage(
        Writer(connection, clock=clock, after_batch=after_batch),
        Reader(await connect(settings.path)),
        await connect(settings.path),
        space,
        hash_key=hash_key,
        limits=Limits(
            max_messages=settings.max_messages_per_inbox or _NO_LIMIT,
            max_bytes=settings.max_bytes_per_inbox or _NO_LIMIT,
            max_creator_bytes=int(settings.max_share_per_creator * cap_bytes),
        ),
    )


def _cap_bytes(settings: Settings) -> int:
    if settings.max_bytes:
        return settings.max_bytes
    held_bytes = settings.path.stat().st_size if settings.path.exists() else 0
    return min(10 * 1024**3, (shutil.disk_usage(settings.path.parent).free + held_bytes) // 2)
