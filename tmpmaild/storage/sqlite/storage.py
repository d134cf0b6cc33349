"""``Storage`` in one SQLite file: each method is an operation for the writer, or a function for the reader.

What secrets permit is in memory: the process that has the file is the only one to ask.
"""

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, ClassVar, Final, TypeVar

import aiosqlite
from msgspec.structs import astuple

from tmpmaild.measures import Measure
from tmpmaild.model import Block, FullMessage, Inbox, InboxPage, Listing, Page, Texts
from tmpmaild.ratelimit import TokenBuckets
from tmpmaild.storage.base import ANY_SIZE, Limits, Permit, StorageLimits, anybody, retired_domains
from tmpmaild.storage.enginestorage import Between, EngineStorage, OnCommitted, Operations
from tmpmaild.storage.rows import WebhookRow, holders_inbox_key, message_key
from tmpmaild.storage.sqlite.backup import BackupMaker
from tmpmaild.storage.sqlite.database import DiskSpace, Remeasuring, cap_pages, sensible_cap_bytes
from tmpmaild.storage.sqlite.layout import InboxQuotas, operator_is_full
from tmpmaild.storage.sqlite.operations import (
    AddMessage,
    CreateInbox,
    DeleteMessage,
    DeleteMessages,
    SetExpiry,
    SetVerdict,
    SetWebhook,
    StoreWebhook,
    select_webhooks,
)
from tmpmaild.storage.sqlite.reading import (
    Reader,
    select_inbox,
    select_inboxes,
    select_message,
    select_messages,
    select_next_source,
    select_texts,
)
from tmpmaild.storage.sqlite.sweeping import Eraser, Sweep, sweep_step_size
from tmpmaild.storage.sqlite.writer import Batch, Clock, Operation, Pause, Writer

_NEVER_MS = (1 << 63) - 1  # when the operator's inbox expires
_MAX_SECRETS: Final = 10_000
T = TypeVar("T")


class SqlitePolicy:
    """``Policy`` in the tables of the engine."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def serve_domains(self, domains: Sequence[str], now_ms: int, until_ms: int) -> Mapping[str, int]:
        """See ``Policy``."""
        retired: Mapping[str, int] = await self._writer.submit(ServeDomains(domains, now_ms, until_ms))
        return retired

    async def blocks(self) -> Sequence[Block]:
        """See ``Policy``."""
        sql = "SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind, value"
        return await self._reader.run(lambda connection: [Block(*row) for row in connection.execute(sql)])

    async def add_blocks(self, blocks: Sequence[Block]) -> None:
        """See ``Policy``."""
        sql = "REPLACE INTO block (kind, value, created_at_ms, expires_at_ms) VALUES (?, ?, ?, ?)"
        await self._writer.submit(ChangeBlocks(sql, [astuple(block) for block in blocks]))

    async def remove_blocks(self, blocks: Sequence[tuple[str, str]]) -> None:
        """See ``Policy``."""
        sql = "DELETE FROM block WHERE kind = ? AND value = ?"
        await self._writer.submit(ChangeBlocks(sql, blocks))

    def watch_blocks(self, callback: Callable[[Sequence[Block]], None]) -> None:
        """See ``Policy``: no other daemon can change them."""


@dataclass(eq=False)
class ChangeBlocks(Operation):
    """Run a statement for each of some blocks."""

    sql: str
    rows: Sequence[tuple[Any, ...]]

    def apply(self, batch: Batch) -> None:
        """Change the blocks."""
        batch.connection.executemany(self.sql, self.rows)
        batch.state.unerased = True


@dataclass(eq=False)
class ServeDomains(Operation):
    """Store the domains that take new addresses; the result are the others that are kept, and until when."""

    domains: Sequence[str]
    now_ms: int
    until_ms: int

    def apply(self, batch: Batch) -> Mapping[str, int]:
        """Store the domains."""
        connection = batch.connection
        known: dict[str, int | None] = dict(connection.execute("SELECT name, kept_until_ms FROM domain").fetchall())
        until_ms = max(self.until_ms, _last_expiry_ms(connection))
        retired = retired_domains(known, self.domains, self.now_ms, until_ms)
        wanted = dict.fromkeys(self.domains) | retired
        gone = [(name,) for name in known if name not in wanted]
        connection.executemany("DELETE FROM domain WHERE name = ?", gone)
        changed = [(name, until) for name, until in wanted.items() if known.get(name, -1) != until]
        connection.executemany("REPLACE INTO domain (name, kept_until_ms) VALUES (?, ?)", changed)
        return retired


def _last_expiry_ms(connection: sqlite3.Connection) -> int:
    sql = "SELECT expires_at_ms FROM inbox WHERE swept = 0 AND expires_at_ms < ? ORDER BY expires_at_ms DESC LIMIT 1"
    row = connection.execute(sql, (_NEVER_MS,)).fetchone()
    return int(row[0]) if row else 0


@dataclass(eq=False)
class ChangeLimits(Operation):
    """Go by other limits, and change how far the file may grow; what the writer measures after it goes by that."""

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    limits: Limits
    space: DiskSpace

    def apply(self, batch: Batch) -> None:
        """Change them."""
        cap_pages(batch.connection, self.limits.cap_bytes)
        self.space.change(cap_bytes=self.limits.cap_bytes, reserve_bytes=self.limits.reserve_bytes)
        batch.state.quotas = InboxQuotas(self.limits)


class Permissions:
    """What is kept by secrets until it expires; if there is too much, the oldest is dropped."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[bytes, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """Keep a content until then."""
        self._kept[secret] = (content, until_ms)
        if len(self._kept) > _MAX_SECRETS:
            self._kept.popitem(last=False)

    def kept(self, secret: str, now_ms: int) -> bytes | None:
        """Return the content of a secret that has not expired."""
        content, until_ms = self._kept.get(secret, (b"", 0))
        return content if now_ms < until_ms else None

    def forget_expired(self, now_ms: int) -> None:
        """Drop what has expired."""
        # The clock may have been set back, so they are not in the order of their expiry.
        for secret in [secret for secret, (_, until_ms) in self._kept.items() if until_ms <= now_ms]:
            del self._kept[secret]


class SqliteStorage(EngineStorage):
    """``Storage`` in one SQLite file. Made by ``engine.open_storage``."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        maintenance: aiosqlite.Connection,
        space: DiskSpace,
        *,
        hash_key: bytes,
        clock: Clock,
        limits: Limits,
        wanted: StorageLimits,
    ) -> None:
        webhooks = (SetWebhook, StoreWebhook)
        operations = Operations(
            CreateInbox, AddMessage, DeleteMessage, DeleteMessages, SetVerdict, SetExpiry, *webhooks
        )
        super().__init__(writer.submit, operations, hash_key=hash_key, clock=clock)
        self.policy = SqlitePolicy(writer, reader)
        self._writer = writer
        self._reader = reader
        self._maintenance = maintenance
        self._eraser = Eraser(writer, maintenance)
        self._space = space
        self._backups = BackupMaker(space)
        self._remeasuring = Remeasuring(self._measure)
        self._sweep_step_size = sweep_step_size()
        self._permissions = Permissions()
        self._limits, self._wanted = limits, wanted

    def buckets(self, tokens_per_minute: int, burst: int, *, name: str) -> TokenBuckets:
        """See ``Storage``: in memory, since no other daemon can open the file."""
        return TokenBuckets(tokens_per_minute, burst, name=name)

    async def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """See ``Storage``."""
        self._permissions.keep(secret, content, until_ms)

    async def kept(self, secret: str) -> bytes | None:
        """See ``Storage``."""
        return self._permissions.kept(secret, self.clock())

    def may_cache(self, inbox_id: str) -> bool:  # noqa: ARG002 - each inbox is
        """See ``Storage``: all changes are made and told here."""
        return True

    async def change_limits(self, limits: StorageLimits) -> None:
        """See ``Storage``."""
        self._wanted = limits
        cap_bytes = limits.max_bytes or await asyncio.to_thread(sensible_cap_bytes, self._space.path)
        await self._change_limits(limits.up_to(cap_bytes))

    async def _change_limits(self, changed: Limits) -> None:
        await self._writer.submit(ChangeLimits(changed, self._space))
        self._limits = changed

    def has_room(self) -> bool:
        """See ``Storage``."""
        if not self._space.has_room:
            self._remeasuring.begin()
        return self._space.has_room

    async def _measure(self) -> None:
        if self._space.wal_is_too_long:
            await self._eraser.copy_wal()
        cap_bytes = await asyncio.to_thread(sensible_cap_bytes, self._space.path)
        if not self._wanted.max_bytes and cap_bytes > self._limits.cap_bytes:
            await self._change_limits(self._wanted.up_to(cap_bytes))  # the disk had less room at the start
        else:
            await self._writer.submit(Pause())  # the writer measures after each batch

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        """See ``Storage``."""
        return await self._reader.run(self._find(address, now_ms))

    def _find(
        self, address: str, now_ms: int, permit: Permit = anybody
    ) -> Callable[[sqlite3.Connection], Inbox | None]:
        name_hash = self._hash(address)

        def find(connection: sqlite3.Connection) -> Inbox | None:
            inbox = select_inbox(connection, self._limits, address, name_hash, now_ms)
            if inbox is not None:
                permit(inbox)
            return inbox

        return find

    async def _read(
        self, address: str, now_ms: int, permit: Permit, read: Callable[[sqlite3.Connection, Inbox], T]
    ) -> tuple[Inbox, T] | None:
        """Find an inbox and read something of it in one snapshot; None if it is not found."""
        find = self._find(address, now_ms, permit)

        def find_and_read(connection: sqlite3.Connection) -> tuple[Inbox, T] | None:
            inbox = find(connection)
            return (inbox, read(connection, inbox)) if inbox else None

        return await self._reader.run(find_and_read)

    async def _select_inboxes(self, between: Between, creator_hash: bytes | None) -> InboxPage:
        return await self._reader.run(partial(select_inboxes, between=between, creator_hash=creator_hash))

    async def _select_webhooks(self, after: int, limit: int) -> Sequence[WebhookRow]:
        return await self._reader.run(partial(select_webhooks, after=after, limit=limit))

    async def operator_is_full(self) -> bool:
        """See ``Storage``."""
        return await self._reader.run(lambda connection: operator_is_full(connection, self._limits))

    async def list_messages(self, address: str, page: Page, now_ms: int, permit: Permit = anybody) -> Listing | None:
        """See ``Storage``."""
        read = partial(select_messages, page=page)
        found = await self._read(address, now_ms, permit, read)
        return found[1] if found else None

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        """See ``Storage``."""
        inbox_key = holders_inbox_key(inbox_id)
        keys = sorted({key for key in map(message_key, message_ids) if key is not None})
        texts: list[Texts] = []
        while keys and inbox_key is not None:
            read = partial(select_texts, inbox_key=inbox_key, keys=keys, up_to_characters=up_to_characters)
            some, keys = await self._reader.run(read)
            texts += some
        return tuple(texts)

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

        def read(connection: sqlite3.Connection, inbox: Inbox) -> FullMessage | None:
            return select_message(connection, inbox.id, message_id, up_to_bytes, source=source)

        return await self._read(address, now_ms, permit, read)

    async def read_next_source(
        self, address: str, after: str, now_ms: int, permit: Permit = anybody, *, up_to_bytes: int = ANY_SIZE
    ) -> tuple[Inbox, FullMessage | None] | None:
        """See ``Storage``."""

        def read(connection: sqlite3.Connection, inbox: Inbox) -> FullMessage | None:
            return select_next_source(connection, inbox.id, after, up_to_bytes)

        return await self._read(address, now_ms, permit, read)

    async def sweep(self, now_ms: int) -> bool:
        """See ``Storage``."""
        self._permissions.forget_expired(now_ms)
        more: bool = await self._writer.submit(Sweep(now_ms, self._sweep_step_size))
        return more

    async def erase(self) -> bool:
        """See ``Storage``."""
        return await self._eraser.erase()

    def backup(self) -> AbstractAsyncContextManager[BinaryIO]:
        """See ``Storage``."""
        return self._backups.made()

    @property
    def met_damage(self) -> bool:
        """Whether the file is damaged or gone: the next start must check all of it."""
        return self._writer.met_damage or self._writer.lost

    def trouble(self) -> str:
        """See ``Storage``."""
        return self._writer.figures.trouble

    def measures(self) -> Sequence[Measure]:
        """See ``Storage``."""
        return (*self._writer.figures.measures(), *self._space.measures())

    def is_lost(self) -> bool:
        """See ``Storage``."""
        return self._writer.lost

    async def wait_lost(self) -> None:
        """See ``Storage``."""
        await self._writer.wait_lost()

    def on_committed(self, callback: OnCommitted) -> None:
        """See ``Storage``."""
        self._writer.on_committed(callback)

    def watch(self, listened: Callable[[], Collection[str]], on_missed: Callable[[], None]) -> None:
        """See ``Storage``: no other daemon can open the file."""

    async def close(self) -> None:
        """See ``Storage``."""
        await self._remeasuring.close()
        await self._writer.close()
        await self._reader.close()
        await self._maintenance.close()
