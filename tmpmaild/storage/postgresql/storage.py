"""``Storage`` in a PostgreSQL database: each method is an operation for the writer, or a function for the readers."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import BinaryIO

from tmpmaild.errors import CommandError, DatabaseError, RequestError
from tmpmaild.measures import Measure
from tmpmaild.model import FullMessage, Inbox, InboxPage, Listing, Page, Source, Texts
from tmpmaild.storage.base import ANY_SIZE, OPERATOR_INBOX_ID, Permit, anybody
from tmpmaild.storage.commits import Batcher, OnCommitted
from tmpmaild.storage.enginestorage import EngineStorage, Operations
from tmpmaild.storage.keys import holders_inbox_key
from tmpmaild.storage.pages import Between, is_search, searched
from tmpmaild.storage.postgresql.changing import (
    CountUsage,
    CreateInbox,
    DeleteMessage,
    DeleteMessages,
    SetExpiry,
    SetVerdict,
    Sweep,
)
from tmpmaild.storage.postgresql.connection import Readers
from tmpmaild.storage.postgresql.delivering import AddMessage
from tmpmaild.storage.postgresql.messages import select_message, select_next_source, select_source, select_texts
from tmpmaild.storage.postgresql.obstacles import FAILURES
from tmpmaild.storage.postgresql.partitions import Partitions, slot
from tmpmaild.storage.postgresql.policy import PostgresPolicy
from tmpmaild.storage.postgresql.quotas import DEFAULT_CAP_BYTES, Usage, allowed
from tmpmaild.storage.postgresql.reading import InboxLookup, find_several, select_inboxes, select_messages
from tmpmaild.storage.postgresql.searching import PostgresSearch
from tmpmaild.storage.postgresql.sharing import SharedBuckets, Sharing
from tmpmaild.storage.postgresql.waking import Waker
from tmpmaild.storage.postgresql.webhooks import SetWebhook, StoreWebhook, select_webhooks
from tmpmaild.storage.postgresql.writer import Clock, Writer
from tmpmaild.storage.settings import StorageLimits
from tmpmaild.storage.webhookrows import WebhookRow

log = logging.getLogger(__name__)


class PostgresStorage(EngineStorage):
    """``Storage`` in a PostgreSQL database. Made by ``engine.open_storage``."""

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        *,
        waker: Waker,
        partitions: Partitions,
        usage: Usage,
        sharing: Sharing,
        hash_key: bytes,
        clock: Clock,
        measures: Sequence[Measure],
    ) -> None:
        webhooks = (SetWebhook, StoreWebhook)
        operations = Operations(
            CreateInbox, AddMessage, DeleteMessage, DeleteMessages, SetVerdict, SetExpiry, *webhooks
        )
        super().__init__(writer.submit, operations, hash_key=hash_key, clock=clock, keys_by_inbox=True)
        self.policy = PostgresPolicy(writer, readers, waker)
        self.sharing = sharing
        self.keep, self.kept = sharing.keep, sharing.kept
        self._writer = writer
        self._readers = readers
        self._waker = waker
        self._finding = Batcher(self._find, lambda _: 64)
        self._partitions = partitions
        self._usage = usage
        self._measures = measures
        self._counting: asyncio.Future[object] | None = None
        self._lost = asyncio.Event()
        writer.on_committed(waker.tell)
        waker.on_back = writer.figures.forget_trouble

    def buckets(self, tokens_per_minute: int, burst: int, *, name: str) -> SharedBuckets:
        """See ``Storage``."""
        return SharedBuckets(self.sharing.take_token, tokens_per_minute, burst, name=name)

    def is_fresh(self, inbox_id: str) -> bool:  # noqa: ARG002 - no inbox is
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
        if is_search(page):
            return await searched(PostgresSearch(lookup, page), self._readers.run)
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
        parts = (self._waker, self._writer, self._readers, self.sharing)
        return next((part.trouble for part in parts if part.trouble), "")

    def measures(self) -> Sequence[Measure]:
        """See ``Storage``."""
        return (*self._writer.figures.measures(), *self._measures)

    def is_lost(self) -> bool:
        """See ``Storage``: a server that is away may come back."""
        return False

    async def wait_lost(self) -> None:
        """See ``Storage``."""
        await self._lost.wait()

    def on_committed(self, callback: OnCommitted) -> None:
        """See ``Storage``."""
        self._writer.on_committed(callback)
        self._waker.on_heard(callback)

    def watch(self, listened: Callable[[], Collection[str]], on_missed: Callable[[], None]) -> None:
        """See ``Storage``."""
        self._waker.watch(listened, on_missed)

    async def close(self) -> None:
        """See ``Storage``."""
        await self._writer.close()
        await self._waker.close()
        await self.policy.close()
        await self._finding.close()
        await self._readers.close()
        await self.sharing.close()
