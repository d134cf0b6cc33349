"""``Storage`` in a PostgreSQL database: each method is an operation for the writer, or a function for the readers."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import BinaryIO, Final

import asyncpg

from tmpmaild.errors import CommandError, DatabaseError, RequestError, StorageUnavailable
from tmpmaild.measures import Measure
from tmpmaild.model import Block, FullMessage, Inbox, InboxPage, Listing, Page, Texts
from tmpmaild.storage.base import ANY_SIZE, OPERATOR_INBOX_ID, Permit, StorageLimits, anybody
from tmpmaild.storage.enginestorage import Batcher, Between, EngineStorage, OnCommitted, Operations
from tmpmaild.storage.postgresql import operations
from tmpmaild.storage.postgresql.notifications import ChangeNotifications
from tmpmaild.storage.postgresql.partitions import Partitions, slot
from tmpmaild.storage.postgresql.reading import (
    InboxLookup,
    find_several,
    select_inboxes,
    select_message,
    select_messages,
    select_next_source,
    select_texts,
    select_webhooks,
)
from tmpmaild.storage.postgresql.server import FAILURES, Readers, Server, Session
from tmpmaild.storage.postgresql.sharing import SharedBuckets, Sharing
from tmpmaild.storage.postgresql.writer import DEFAULT_CAP_BYTES, Alone, Clock, Usage, Writer, allowed
from tmpmaild.storage.rows import WebhookRow, holders_inbox_key

_PAUSE_SECONDS: Final = 1.0
_BLOCKS: Final = (
    'SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind COLLATE "C", value COLLATE "C"'
)
_OPERATIONS: Final = Operations(
    create=operations.CreateInbox,
    add=operations.AddMessage,
    delete=operations.DeleteMessage,
    delete_several=partial(Alone, operations.delete_messages),
    set_verdict=operations.SetVerdict,
    set_expiry=partial(Alone, operations.set_expiry),
    set_webhook=partial(Alone, operations.set_webhook),
    store_webhook=operations.StoreWebhook,
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
        retired: Mapping[str, int] = await self._writer.submit(
            Alone(operations.serve_domains, domains, now_ms, until_ms)
        )
        return retired

    async def blocks(self) -> Sequence[Block]:
        """See ``Policy``."""

        async def read(connection: asyncpg.Connection) -> Sequence[Block]:
            return [Block(*row) for row in await connection.fetch(_BLOCKS)]

        return await self._readers.run(read)

    async def add_blocks(self, blocks: Sequence[Block]) -> None:
        """See ``Policy``."""
        await self._writer.submit(Alone(operations.add_blocks, blocks))
        self._notifications.tell_blocks()

    async def remove_blocks(self, blocks: Sequence[tuple[str, str]]) -> None:
        """See ``Policy``."""
        await self._writer.submit(Alone(operations.remove_blocks, blocks))
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
            self._counting = self._writer.submit(Alone(operations.count_usage))
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
        self,
        address: str,
        message_id: str,
        now_ms: int,
        permit: Permit = anybody,
        *,
        up_to_bytes: int = ANY_SIZE,
        source: bool = False,
    ) -> tuple[Inbox, FullMessage | None] | None:
        """See ``Storage``."""
        lookup = self._lookup(address, now_ms, permit)
        read = partial(select_message, lookup=lookup, message_id=message_id, up_to_bytes=up_to_bytes, source=source)
        return await self._readers.run(read)

    async def read_next_source(
        self, address: str, after: str, now_ms: int, permit: Permit = anybody, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[Inbox, FullMessage | None] | None:
        """See ``Storage``."""
        lookup = self._lookup(address, now_ms, permit)
        return await self._readers.run(lambda reader: select_next_source(reader, lookup, after, up_to_bytes))

    async def sweep(self, now_ms: int) -> bool:
        """See ``Storage``."""
        more: bool = await self._writer.submit(Alone(operations.sweep, now_ms))
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
