"""Opens the PostgreSQL engine: connections, schema, and what shares them. What it does is in ``storage.py``."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import anyio
import asyncpg

from tmpmaild.errors import DatabaseError, RequestError, StorageUnavailable
from tmpmaild.measures import Measure
from tmpmaild.storage.postgresql.connection import Readers, Session
from tmpmaild.storage.postgresql.migrate import migrate
from tmpmaild.storage.postgresql.obstacles import FAILURES, advice
from tmpmaild.storage.postgresql.partitions import Partitions
from tmpmaild.storage.postgresql.quotas import DEFAULT_CAP_BYTES, Usage
from tmpmaild.storage.postgresql.server import Server
from tmpmaild.storage.postgresql.sharing import CLOCK_SECONDS, DatabaseClock, Sharing
from tmpmaild.storage.postgresql.storage import PostgresStorage
from tmpmaild.storage.postgresql.waking import Waker
from tmpmaild.storage.postgresql.writer import Clock, Writer
from tmpmaild.storage.schema import tell
from tmpmaild.storage.settings import PostgresqlSettings

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 2.0
_KEEP_SECONDS = 2.0

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_storage(settings: PostgresqlSettings, clock: Clock | None = None) -> AsyncIterator[PostgresStorage]:
    """Connect, check, migrate and serve; leaving closes it. Without ``clock`` it goes by that of the database.

    Raises ``DatabaseError``.
    """
    server = Server(settings.url, settings.password_file)
    upkeep = Session(server)
    async with AsyncExitStack() as opened:
        connection = await _prepared(upkeep)
        opened.push_async_callback(_shielded, upkeep.close)
        database_clock = DatabaseClock()
        try:
            await database_clock.measure(connection)
        except FAILURES as error:
            raise DatabaseError(f"{settings.url}: {advice(error)}") from error
        if clock is None:
            measuring = asyncio.create_task(_measure(database_clock, upkeep))
            opened.callback(measuring.cancel)
        measures = (*server.measures(), *database_clock.measures())
        clock = clock or database_clock
        storage = await _assemble(settings, server, upkeep, connection, clock=clock, measures=measures)
        opened.push_async_callback(_shielded, storage.close)
        await storage.connect()
        connecting = asyncio.create_task(_keep_connected(storage))
        opened.callback(connecting.cancel)
        yield storage


async def _shielded(close: Callable[[], Awaitable[None]]) -> None:
    with anyio.CancelScope(shield=True):
        await close()


async def _prepared(session: Session) -> asyncpg.Connection:
    """Connect, and bring the schema up to date. A server that is away is waited for, with growing pauses."""
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        try:
            connection, applied = await _migrated(session)
        except StorageUnavailable as error:
            if pause_seconds == _FIRST_PAUSE_SECONDS:
                log.warning("%s: cannot be reached: %s; waiting for it", session.server.url, error)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 1.5, _LONGEST_PAUSE_SECONDS)
        else:
            tell(session.server.url, applied)
            return connection


async def _migrated(session: Session) -> tuple[asyncpg.Connection, list[str]]:
    """Connect, and apply the missing steps. Raises ``StorageUnavailable``, ``DatabaseError``."""
    url = session.server.url
    connection = await session.connection()
    try:
        return connection, await migrate(connection)
    except DatabaseError as error:
        await session.close()
        raise DatabaseError(f"{url}: {error}") from error
    except FAILURES as error:
        await session.close()
        raise DatabaseError(f"{url}: {advice(error)}") from error


async def _keep_connected(storage: PostgresStorage) -> None:
    """Open what was lost without waiting for mail or a request: a daemon that is not ready is sent none."""
    while True:
        await asyncio.sleep(_KEEP_SECONDS)
        await storage.connect()


async def _measure(clock: DatabaseClock, session: Session) -> None:
    """Compare the clock with the server's for ever."""
    while True:
        await asyncio.sleep(CLOCK_SECONDS)
        try:
            await session.use(clock.measure)
        except (*FAILURES, RequestError, DatabaseError):
            continue  # other parts notice it, and say so


async def _assemble(
    settings: PostgresqlSettings,
    server: Server,
    upkeep: Session,
    connection: asyncpg.Connection,
    *,
    clock: Clock,
    measures: Sequence[Measure],
) -> PostgresStorage:
    usage = Usage(settings.up_to(settings.max_bytes or DEFAULT_CAP_BYTES))
    partitions = Partitions(upkeep)
    try:
        hash_key = await connection.fetchval("SELECT hash_key FROM service")
        usage.note(await connection.fetchval("SELECT count_usage($1, 0, 0, 0)", usage.shard))
        await partitions.add_ahead(clock())
    except (*FAILURES, RequestError) as error:
        raise DatabaseError(f"{settings.url}: {advice(error)}") from error
    waker = Waker(Session(server), clock)
    try:
        await waker.start()
    except (*FAILURES, RequestError) as error:
        raise DatabaseError(f"{settings.url}: {advice(error)}") from error
    writer = Writer(Session(server), clock=clock, usage=usage)
    sharing = Sharing(Session(server), hash_key, clock)
    return PostgresStorage(
        writer,
        Readers(server),
        waker=waker,
        partitions=partitions,
        usage=usage,
        sharing=sharing,
        hash_key=hash_key,
        clock=clock,
        measures=measures,
    )


async def upgrade(settings: PostgresqlSettings) -> list[str]:
    """Bring a database to the newest schema; return the names of the steps applied. Raises ``DatabaseError``."""
    session = Session(Server(settings.url, settings.password_file))
    try:
        _, applied = await _migrated(session)
    except StorageUnavailable as error:
        raise DatabaseError(f"{settings.url}: cannot be reached: {error}") from error
    finally:
        await session.close()
    return applied
