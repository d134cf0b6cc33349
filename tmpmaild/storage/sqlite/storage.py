"""``Storage`` backed by one SQLite file: each method submits an operation to the writer, or a function to the reader.

Permissions are stored in memory, because only one process uses the file.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import BinaryIO, Final

import aiosqlite
from msgspec.structs import replace

from tmpmaild.metrics import Metric
from tmpmaild.model import (
    Authentication,
    Block,
    FullMessage,
    Inbox,
    InboxPage,
    Listing,
    NewInbox,
    NewMail,
    Page,
    StoredWebhook,
    Texts,
    Webhook,
    WebhookState,
)
from tmpmaild.ratelimit import TokenBuckets
from tmpmaild.storage.audit import audit_hash
from tmpmaild.storage.base import (
    ANY_SIZE,
    OPERATOR_INBOX_ID,
    Limits,
    Listened,
    OnBlocks,
    OnCommitted,
    Permit,
    Storage,
    permit_all,
)
from tmpmaild.storage.clocks import FollowingClock
from tmpmaild.storage.deleting import delete_all, selection
from tmpmaild.storage.keys import ALL_INBOXES, InboxKey, message_keys
from tmpmaild.storage.operatorbox import OperatorBox
from tmpmaild.storage.paging import InboxLookup, listed_between
from tmpmaild.storage.rows import (
    MAX_VERSION,
    bounds_of,
    changeable_inbox_key,
    created_inbox,
    keyed_hash,
    place_of,
    state_row,
    user_inbox_key,
    verdict_text,
    webhook_text,
)
from tmpmaild.storage.sqlite import operations, reading
from tmpmaild.storage.sqlite.copies import BackupMaker
from tmpmaild.storage.sqlite.space import DiskSpace, Remeasuring, sensible_cap_bytes
from tmpmaild.storage.sqlite.sweeping import Eraser, Sweep, sweep_step_size
from tmpmaild.storage.sqlite.writer import Call, Change, Clock, Pause, Writer

_MAX_SECRETS: Final = 10_000


class Permissions:
    """Stores permissions by secret until they expire. If there are too many, the oldest permission is dropped."""

    def __init__(self) -> None:
        self._stored: OrderedDict[str, tuple[bytes, int]] = OrderedDict()

    def put(self, secret: str, content: bytes, expires_at_ms: int) -> None:
        """Store the content for a secret."""
        self._stored[secret] = (content, expires_at_ms)
        if len(self._stored) > _MAX_SECRETS:
            self._stored.popitem(last=False)

    def get(self, secret: str, now_ms: int) -> bytes | None:
        """Return the content for a secret, unless it has expired."""
        content, expires_at_ms = self._stored.get(secret, (b"", 0))
        return content if now_ms < expires_at_ms else None

    def forget_expired(self, now_ms: int) -> None:
        """Remove the expired permissions."""
        # The clock may have been set back, so the permissions are not necessarily sorted by expiry.
        for secret in [secret for secret, (_, expires_at_ms) in self._stored.items() if expires_at_ms <= now_ms]:
            del self._stored[secret]


class SqliteStorage(Storage):
    """``Storage`` backed by a single SQLite file. Opened by ``engine.open_storage``."""

    def __init__(
        self,
        writer: Writer,
        reader: reading.Reader,
        maintenance: aiosqlite.Connection,
        eraser: Eraser,
        space: DiskSpace,
        *,
        hash_key: bytes,
        clock: Clock,
        limits: Limits,
        wanted: Limits,
    ) -> None:
        self.clock = clock
        self.lost = writer.lost
        self.may_cache = True  # this process makes and reports all changes
        self._writer = writer
        self._reader = reader
        self._maintenance = maintenance
        self._eraser = eraser
        self._space = space
        self._hash_key = hash_key
        self._limits = limits
        self._wanted = wanted
        self._backups = BackupMaker(space)
        self._remeasuring = Remeasuring(self._measure)
        self._sweep_step_size = sweep_step_size()
        self._permissions = Permissions()

    async def serve_domains(self, domains: Sequence[str], *, now_ms: int, until_ms: int) -> Mapping[str, int]:
        return await self._writer.submit(Change(operations.serve_domains, domains, now_ms=now_ms, until_ms=until_ms))

    async def blocks(self) -> Sequence[Block]:
        return await self._reader.run(reading.select_blocks)

    async def change_blocks(self, added: Sequence[Block] = (), removed: Sequence[tuple[str, str]] = ()) -> None:
        await self._writer.submit(Change(operations.change_blocks, added, removed))

    def buckets(self, *, tokens_per_minute: int, burst: int, name: str) -> TokenBuckets:
        return TokenBuckets(tokens_per_minute, burst, name=name)

    async def put_permission(self, secret: str, content: bytes, expires_at_ms: int) -> None:
        self._permissions.put(secret, content, expires_at_ms)

    async def get_permission(self, secret: str) -> bytes | None:
        return self._permissions.get(secret, self.clock())

    async def change_limits(self, limits: Limits) -> None:
        self._wanted = limits
        cap_bytes = limits.max_bytes or await asyncio.to_thread(sensible_cap_bytes, self._space.path)
        await self._change_limits(replace(limits, max_bytes=cap_bytes))

    async def _change_limits(self, changed: Limits) -> None:
        await self._writer.submit(Call(operations.change_limits, changed, self._space))
        self._limits = changed

    def audit_hash(self, address: str, *, day: str) -> str:
        return audit_hash(self._hash_key, address, day=day)

    def has_room(self) -> bool:
        if not self._space.has_room:
            self._remeasuring.begin()
        return self._space.has_room

    async def _measure(self) -> None:
        if self._space.wal_is_too_long:
            await self._eraser.copy_wal()
        cap_bytes = await asyncio.to_thread(sensible_cap_bytes, self._space.path)
        if not self._wanted.max_bytes and cap_bytes > self._limits.max_bytes:
            await self._change_limits(replace(self._wanted, max_bytes=cap_bytes))  # the disk had less space at startup
        else:
            await self._writer.submit(Pause())  # the writer measures after each batch

    async def create_inbox(self, new: NewInbox) -> Inbox:
        creator_hash = None if new.creator is None else self._hash(new.creator)
        creation = Call(operations.create_inbox, new, name_hash=self._hash(new.address), creator_hash=creator_hash)
        return created_inbox(new, await self._writer.submit(creation))

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        return await self._reader.run(reading.select_inbox, self._lookup(address, now_ms))

    def _lookup(self, address: str, now_ms: int, permit: Permit = permit_all) -> InboxLookup:
        return InboxLookup(address, self._hash(address), now_ms, self._limits, permit)

    def _hash(self, text: str) -> bytes:
        return keyed_hash(self._hash_key, text)

    async def list_inboxes(
        self, now_ms: int, *, creator: str | None = None, expired: bool = False, after: str = ""
    ) -> InboxPage:
        creator_hash = None if creator is None else self._hash(creator)
        between = listed_between(now_ms, after, expired=expired)
        return await self._reader.run(reading.select_inboxes, between, creator_hash)

    async def operator_box(self) -> OperatorBox:
        return await self._reader.run(reading.operator_box)

    async def delete_operator_mail(self, message_ids: Collection[str] | None = None) -> int:
        return await self._delete(InboxKey(int(OPERATOR_INBOX_ID)), message_ids)

    async def list_messages(self, address: str, page: Page, now_ms: int, permit: Permit = permit_all) -> Listing | None:
        return await self._reader.run(reading.select_messages, self._lookup(address, now_ms, permit), page)

    async def list_recipients(self, inbox_id: str, page: Page) -> Sequence[tuple[str, str]]:
        inbox_key = user_inbox_key(inbox_id)
        return () if inbox_key is None else await self._reader.run(reading.select_recipients, inbox_key, page)

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        inbox_key = user_inbox_key(inbox_id)
        if inbox_key is None:
            return ()
        keys, texts = message_keys(message_ids), list[Texts]()
        while keys:
            some, keys = await self._reader.run(reading.select_texts, inbox_key, keys, up_to_characters)
            texts += some
        return tuple(texts)

    async def read_message(
        self,
        address: str,
        now_ms: int,
        permit: Permit = permit_all,
        *,
        message_id: str,
        up_to_bytes: int = ANY_SIZE,
        source: bool = False,
        is_next: bool = False,
    ) -> tuple[Inbox, FullMessage | None] | None:
        lookup, bounds = self._lookup(address, now_ms, permit), bounds_of(up_to_bytes, source=source)
        return await self._reader.run(reading.select_message, lookup, bounds, message_id=message_id, is_next=is_next)

    def add_message(self, mail: NewMail) -> Awaitable[str]:
        return self._writer.submit(operations.addition(mail))

    async def delete_messages(
        self,
        inbox_id: str,
        message_ids: Collection[str] | None = None,
        *,
        up_to: str | None = None,
        copies: bool = False,
    ) -> int:
        inbox_key = user_inbox_key(inbox_id)
        return 0 if inbox_key is None else await self._delete(inbox_key, message_ids, up_to=up_to, copies=copies)

    async def _delete(
        self,
        inbox_key: InboxKey,
        message_ids: Collection[str] | None,
        *,
        up_to: str | None = None,
        copies: bool = False,
    ) -> int:
        selected = selection(ALL_INBOXES, message_ids, up_to=up_to, copies=copies)
        return await delete_all(lambda: self._writer.submit(operations.DeleteMessages(inbox_key, selected)))

    async def set_authentication(self, inbox_id: str, authentication: Authentication, *, message_id: str) -> None:
        inbox_key, message_key = place_of(inbox_id, message_id=message_id, keys_by_inbox=False)
        await self._writer.submit(Call(operations.set_verdict, inbox_key, message_key, verdict_text(authentication)))

    async def move_expiry(self, inbox_id: str, *, expires_at_ms: int, now_ms: int) -> None:
        inbox_key = changeable_inbox_key(inbox_id)
        change = Change(operations.move_expiry, inbox_key, expires_at_ms=expires_at_ms, now_ms=now_ms)
        await self._writer.submit(change)

    async def set_webhook(self, inbox_id: str, webhook: Webhook | None, now_ms: int) -> None:
        inbox_key, version = changeable_inbox_key(inbox_id), secrets.randbelow(MAX_VERSION)
        text = None if webhook is None else webhook_text(webhook)
        await self._writer.submit(Call(operations.set_webhook, inbox_key, text, now_ms=now_ms, version=version))

    async def read_webhook(self, inbox_id: str) -> StoredWebhook | None:
        inbox_key = user_inbox_key(inbox_id)
        if inbox_key is None:
            return None
        rows = await self._reader.run(reading.select_webhooks, after=InboxKey(inbox_key - 1), limit=1)
        return next((row.stored(keys_by_inbox=False) for row in rows if row.inbox_key == inbox_key), None)

    async def list_webhooks(self, *, after: str = "", limit: int = 100) -> Sequence[StoredWebhook]:
        rows = await self._reader.run(reading.select_webhooks, after=InboxKey(int(after or 0)), limit=limit)
        return [row.stored(keys_by_inbox=False) for row in rows]

    async def store_webhook(self, read: StoredWebhook, state: WebhookState | None) -> StoredWebhook | None:
        row = state_row(read, state, keys_by_inbox=False)
        if not await self._writer.submit(Call(operations.store_webhook, row)):
            return None
        return replace(read, version=read.version + 1, state=state or read.state)

    async def sweep(self, now_ms: int) -> bool:
        self._permissions.forget_expired(now_ms)
        return await self._writer.submit(Sweep(now_ms, self._sweep_step_size))

    async def erase(self) -> bool:
        return await self._eraser.erase()

    def backup(self) -> AbstractAsyncContextManager[BinaryIO]:
        return self._backups.made()

    @property
    def found_damage(self) -> bool:
        """Whether the file is damaged or gone; if so, the next start must check the whole file."""
        return self._writer.found_damage

    def reason_not_ready(self) -> str:
        return self._writer.metrics.reason_not_ready

    def metrics(self) -> Sequence[Metric]:
        of_clock = self.clock.metrics() if isinstance(self.clock, FollowingClock) else ()
        return (*self._writer.metrics.metrics(), *self._space.metrics(), *of_clock)

    def on_committed(self, callback: OnCommitted) -> None:
        self._writer.on_committed(callback)

    def watch(self, listened: Listened, on_missed: Callable[[], None], on_blocks: OnBlocks) -> None:
        """Do nothing: no other daemon can open the file."""

    async def close(self) -> None:
        await self._remeasuring.close()
        await self._writer.close()
        await self._reader.close()
        await self._maintenance.close()
