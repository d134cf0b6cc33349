"""``Storage`` in a PostgreSQL database: each method is an operation for the writer, or a function for the readers."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, ClassVar, Final

import asyncpg

from tmpmaild.errors import CommandError, DatabaseError, RequestError, StorageUnavailable
from tmpmaild.measures import Measure
from tmpmaild.model import Block, FullMessage, Inbox, InboxPage, Listing, Page, Source, Texts
from tmpmaild.storage.base import ANY_SIZE, OPERATOR_INBOX_ID, Permit, StorageLimits, anybody, retired_domains
from tmpmaild.storage.enginestorage import Batcher, EngineStorage, OnCommitted, Operations
from tmpmaild.storage.pages import Between
from tmpmaild.storage.postgresql.notifications import ChangeNotifications
from tmpmaild.storage.postgresql.operations import (
    AddMessage,
    CountUsage,
    CreateInbox,
    DeleteMessage,
    DeleteMessages,
    SetExpiry,
    SetVerdict,
    SetWebhook,
    StoreWebhook,
    Sweep,
    select_webhooks,
)
from tmpmaild.storage.postgresql.partitions import Partitions, slot
from tmpmaild.storage.postgresql.reading import (
    InboxLookup,
    find_several,
    select_inboxes,
    select_message,
    select_messages,
    select_next_source,
    select_source,
    select_texts,
)
from tmpmaild.storage.postgresql.server import FAILURES, Readers, Server, Session
from tmpmaild.storage.postgresql.sharing import SharedBuckets, Sharing
from tmpmaild.storage.postgresql.writer import DEFAULT_CAP_BYTES, Batch, Clock, Operation, Usage, Writer, allowed
from tmpmaild.storage.rows import WebhookRow, holders_inbox_key

_PAUSE_SECONDS: Final = 1.0
_BLOCKS: Final = (
    'SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind COLLATE "C", value COLLATE "C"'
)
# With each change a version, so that a daemon which was not told of it finds out.
_VERSION: Final = "WITH changed AS (UPDATE service SET blocks_version = blocks_version + 1)"
_ADD_BLOCKS: Final = f"""
{_VERSION}
INSERT INTO block SELECT DISTINCT ON (n.kind, n.value) n.kind, n.value, n.created_at_ms, n.expires_at_ms
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) WITH ORDINALITY
        AS n(kind, value, created_at_ms, expires_at_ms, place)
    ORDER BY n.kind, n.value, n.place DESC
    ON CONFLICT (kind, value)
        DO UPDATE SET created_at_ms = excluded.created_at_ms, expires_at_ms = excluded.expires_at_ms
"""
_REMOVE_BLOCKS: Final = f"""
{_VERSION}
DELETE FROM block AS b USING unnest($1::text[], $2::text[]) AS n(kind, value)
    WHERE b.kind = n.kind AND b.value = n.value
"""
_DOMAINS: Final = "SELECT name, kept_until_ms FROM domain"
_LAST_EXPIRY: Final = """
SELECT expires_at_ms FROM inbox WHERE NOT swept AND expires_at_ms < 9223372036854775807
    ORDER BY expires_at_ms DESC LIMIT 1
"""
_OPERATIONS: Final = Operations(
    CreateInbox, AddMessage, DeleteMessage, DeleteMessages, SetVerdict, SetExpiry, SetWebhook, StoreWebhook
)

log = logging.getLogger(__name__)


class PostgresPolicy:
    """``Policy`` in the tables of the engine."""

    def __init__(self, writer: Writer, readers: Readers, notifications: ChangeNotifications) -> None:
        self._writer = writer
        self._readers = readers
        self._notifications = notifications
        self._callbacks: list[Callable[[Sequence[Block]], None]] = []
        self._reading: asyncio.Task[None] | None = None
        self._is_stale = False
        notifications.watch_blocks(self._read_again)

    async def serve_domains(self, domains: Sequence[str], now_ms: int, until_ms: int) -> Mapping[str, int]:
        """See ``Policy``."""
        retired: Mapping[str, int] = await self._writer.submit(ServeDomains(domains, now_ms, until_ms))
        return retired

    async def blocks(self) -> Sequence[Block]:
        """See ``Policy``."""

        async def read(connection: asyncpg.Connection) -> Sequence[Block]:
            return [Block(*row) for row in await connection.fetch(_BLOCKS)]

        return await self._readers.run(read)

    async def add_blocks(self, blocks: Sequence[Block]) -> None:
        """See ``Policy``."""
        columns = ("kind", "value", "created_at_ms", "expires_at_ms")
        await self._writer.submit(
            ChangeBlocks(_ADD_BLOCKS, [[getattr(block, name) for block in blocks] for name in columns])
        )
        self._notifications.tell_blocks()

    async def remove_blocks(self, blocks: Sequence[tuple[str, str]]) -> None:
        """See ``Policy``."""
        columns = [[kind for kind, _ in blocks], [value for _, value in blocks]]
        await self._writer.submit(ChangeBlocks(_REMOVE_BLOCKS, columns))
        self._notifications.tell_blocks()

    def watch_blocks(self, callback: Callable[[Sequence[Block]], None]) -> None:
        """See ``Policy``."""
        self._callbacks.append(callback)

    def _read_again(self) -> None:
        self._is_stale = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._tell_blocks())

    async def _tell_blocks(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                blocks = await self.blocks()
            except StorageUnavailable:
                self._is_stale = True
            else:
                for callback in self._callbacks:
                    callback(blocks)
            # A long list is changed by many commands, and each reading is of all of it.
            await asyncio.sleep(_PAUSE_SECONDS)

    async def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()


@dataclass(eq=False)
class ChangeBlocks(Operation):
    """Run a statement that takes the columns of some blocks."""

    is_alone: ClassVar[bool] = True
    sql: str
    columns: Sequence[Sequence[Any]]

    async def apply(self, batch: Batch) -> None:
        """Change the blocks."""
        await batch.connection.execute(self.sql, *self.columns)


@dataclass(eq=False)
class ServeDomains(Operation):
    """Store the domains that take new addresses; the result are the others that are kept, and until when."""

    is_alone: ClassVar[bool] = True
    domains: Sequence[str]
    now_ms: int
    until_ms: int

    async def apply(self, batch: Batch) -> Mapping[str, int]:
        """Store the domains."""
        connection = batch.connection
        async with connection.transaction():
            await connection.execute("LOCK TABLE domain IN SHARE ROW EXCLUSIVE MODE")  # another daemon may start too
            known: dict[str, int | None] = dict(await connection.fetch(_DOMAINS))
            last_expiry_ms = await connection.fetchval(_LAST_EXPIRY) or 0
            retired = retired_domains(known, self.domains, self.now_ms, max(self.until_ms, last_expiry_ms))
            wanted: dict[str, int | None] = dict.fromkeys(self.domains) | retired
            gone = [name for name in known if name not in wanted]
            await connection.execute("DELETE FROM domain WHERE name = ANY($1::text[])", gone)
            await connection.execute(
                "INSERT INTO domain SELECT * FROM unnest($1::text[], $2::bigint[])"
                " ON CONFLICT (name) DO UPDATE SET kept_until_ms = excluded.kept_until_ms",
                list(wanted),
                list(wanted.values()),
            )
        return retired


class PostgresStorage(EngineStorage):
    """``Storage`` in a PostgreSQL database. Made by ``engine.open_storage``."""

    def __init__(
        self,
        server: Server,
        partitions: Partitions,
        usage: Usage,
        *,
        hash_key: bytes,
        clock: Clock,
        measures: Sequence[Measure],
    ) -> None:
        self._writer = Writer(Session(server), clock=clock, usage=usage)
        self._readers = Readers(server)
        self._notifications = ChangeNotifications(Session(server), clock, self._writer.figures.forget_trouble)
        self._partitions = partitions
        self._usage = usage
        self._measures = measures
        self._finding = Batcher(self._find, lambda _: 64)
        self._counting: asyncio.Future[object] | None = None
        self.sharing = Sharing(Session(server), hash_key, clock)
        self.policy = PostgresPolicy(self._writer, self._readers, self._notifications)
        super().__init__(self._writer.submit, _OPERATIONS, hash_key=hash_key, clock=clock, keys_by_inbox=True)
        self._writer.on_committed(self._notifications.tell)

    async def listen(self) -> None:
        """Hear other daemons from now on. Raises as ``Session.connection``."""
        await self._notifications.start()

    async def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """See ``Storage``."""
        await self.sharing.keep(secret, content, until_ms)

    async def kept(self, secret: str) -> bytes | None:
        """See ``Storage``."""
        return await self.sharing.kept(secret)

    def buckets(self, tokens_per_minute: int, burst: int, *, name: str) -> SharedBuckets:
        """See ``Storage``."""
        return SharedBuckets(self.sharing.take_token, tokens_per_minute, burst, name=name)

    def may_cache(self, inbox_id: str) -> bool:  # noqa: ARG002 - no inbox is
        """See ``Storage``: another daemon may have changed it, and what it tells comes later."""
        return False

    async def change_limits(self, limits: StorageLimits) -> None:
        """See ``Storage``."""
        self._usage.limits = limits.up_to(limits.max_bytes or DEFAULT_CAP_BYTES)

    def has_room(self) -> bool:
        """See ``Storage``."""
        if not self._usage.has_room and (self._counting is None or self._counting.done()):
            self._counting = self._writer.submit(CountUsage())
            self._counting.add_done_callback(lambda future: future.cancelled() or future.exception())
        return self._usage.has_room

    async def _make_place(self, expires_at_ms: int, now_ms: int) -> None:
        wanted = slot(expires_at_ms, now_ms)
        if not self._partitions.has(wanted):
            await self._partitions.add([wanted])

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        """See ``Storage``."""
        return await self._finding.submit(self._lookup(address, now_ms))

    async def _find(self, lookups: Sequence[InboxLookup]) -> Sequence[Inbox | None]:
        return await self._readers.run(partial(find_several, lookups=lookups))

    def _lookup(self, address: str, now_ms: int, permit: Permit = anybody) -> InboxLookup:
        return InboxLookup(address, self._hash(address), now_ms, self._usage.limits, permit)

    async def _select_inboxes(self, between: Between, creator_hash: bytes | None) -> InboxPage:
        return await self._readers.run(partial(select_inboxes, between=between, creator_hash=creator_hash))

    async def _select_webhooks(self, after: int, limit: int) -> Sequence[WebhookRow]:
        return await self._readers.run(partial(select_webhooks, after=after, limit=limit))

    async def operator_is_full(self) -> bool:
        """See ``Storage``."""
        sql = "SELECT is_full FROM states(ARRAY[$1::bigint], $2::bigint[])"
        values = (int(OPERATOR_INBOX_ID), allowed(self._usage.limits))
        full: bool = await self._readers.run(lambda connection: connection.fetchval(sql, *values))
        return full

    async def list_messages(self, address: str, page: Page, now_ms: int, permit: Permit = anybody) -> Listing | None:
        """See ``Storage``."""
        lookup = self._lookup(address, now_ms, permit)
        return await self._readers.run(partial(select_messages, lookup=lookup, page=page))

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        """See ``Storage``."""
        inbox_key = holders_inbox_key(inbox_id)
        if inbox_key is None:
            return ()
        keys = sorted({key for one in message_ids if (key := self._message_key(one, inbox_key)) is not None})
        read = partial(select_texts, inbox_key=inbox_key, keys=keys, up_to_characters=up_to_characters)
        return tuple(await self._readers.run(read)) if keys else ()

    async def read_message(
        self, address: str, message_id: str, now_ms: int, permit: Permit = anybody, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[Inbox, FullMessage | None] | None:
        """See ``Storage``."""
        lookup = self._lookup(address, now_ms, permit)
        read = partial(select_message, lookup=lookup, message_id=message_id, up_to_bytes=up_to_bytes)
        return await self._readers.run(read)

    async def read_source(
        self, address: str, message_id: str, now_ms: int, permit: Permit = anybody, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[Inbox, Source | None] | None:
        """See ``Storage``."""
        lookup = self._lookup(address, now_ms, permit)
        read = partial(select_source, lookup=lookup, message_id=message_id, up_to_bytes=up_to_bytes)
        return await self._readers.run(read)

    async def read_next_source(
        self, address: str, after: str, now_ms: int, permit: Permit = anybody, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[Inbox, Source | None] | None:
        """See ``Storage``."""
        lookup = self._lookup(address, now_ms, permit)
        read = partial(select_next_source, lookup=lookup, after=after, up_to_bytes=up_to_bytes)
        return await self._readers.run(read)

    async def sweep(self, now_ms: int) -> bool:
        """See ``Storage``."""
        more: bool = await self._writer.submit(Sweep(now_ms))
        return more

    async def erase(self) -> bool:
        """See ``Storage``."""
        now_ms = self.clock()
        await self._partitions.add_ahead(now_ms)
        return await self._partitions.drop_passed(now_ms, self._usage.shard)

    def backup(self) -> AbstractAsyncContextManager[BinaryIO]:
        """See ``Storage``: raises ``CommandError``."""
        raise CommandError("with storage.url, pg_dump makes the copy, for example: pg_dump --format=custom --file=FILE")

    async def connect(self) -> None:
        """Open the connections without which nothing can be served; ``trouble`` tells of those that are missing."""
        for part in (self._writer, self._readers, self.sharing):
            try:
                await part.connect()
            except (*FAILURES, RequestError, DatabaseError) as error:
                log.debug("a connection cannot be opened: %s", error)

    def trouble(self) -> str:
        """See ``Storage``: also why a part has no connection."""
        parts = (self._notifications, self._writer, self._readers, self.sharing)
        return next((part.trouble for part in parts if part.trouble), "")

    def measures(self) -> Sequence[Measure]:
        """See ``Storage``."""
        return (*self._writer.figures.measures(), *self._measures)

    def is_lost(self) -> bool:
        """See ``Storage``: a server that is away may come back."""
        return False

    async def wait_lost(self) -> None:
        """See ``Storage``."""
        await asyncio.Event().wait()

    def on_committed(self, callback: OnCommitted) -> None:
        """See ``Storage``."""
        self._writer.on_committed(callback)
        self._notifications.on_heard(callback)

    def watch(self, listened: Callable[[], Collection[str]], on_missed: Callable[[], None]) -> None:
        """See ``Storage``."""
        self._notifications.watch(listened, on_missed)

    async def close(self) -> None:
        """See ``Storage``."""
        await self._writer.close()
        await self._notifications.close()
        await self.policy.close()
        await self._finding.close()
        await self._readers.close()
        await self.sharing.close()
