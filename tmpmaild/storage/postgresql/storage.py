"""``Storage`` backed by PostgreSQL: each method submits an operation to the writer, or a function to the readers.

Daemons share token buckets and permissions in unlogged tables: writes do not wait for the disk, but may be lost if the
server crashes.
"""

import asyncio
import hashlib
import logging
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeVar

import asyncpg
from msgspec.structs import replace

from tmpmaild.errors import CommandError, DatabaseError, RequestError, StorageUnavailable
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
from tmpmaild.ratelimit import Decision, decision_on
from tmpmaild.scheduling.clients import on_behalf_of
from tmpmaild.scheduling.roundrobin import FairSemaphore
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
from tmpmaild.storage.batching import Batcher
from tmpmaild.storage.deleting import delete_all, selection
from tmpmaild.storage.keys import InboxKey, MessageKey, message_keys
from tmpmaild.storage.operatorbox import OperatorBox
from tmpmaild.storage.paging import InboxLookup, listed_between
from tmpmaild.storage.postgresql import operations, reading
from tmpmaild.storage.postgresql.notifications import ChangeNotifications
from tmpmaild.storage.postgresql.partitions import Partitions, slot
from tmpmaild.storage.postgresql.server import FAILURES, Readers, Server, Session, repeated, translate
from tmpmaild.storage.postgresql.writer import DEFAULT_CAP_BYTES, Clock, Standalone, Usage, Writer
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

_PAUSE_SECONDS: Final = 1.0
_MAX_LOOKUPS: Final = 64  # the number of inboxes per statement
_TAKE: Final = "SELECT take_tokens($1::text[], $2::bytea[], $3::bigint[], $4::integer[], $5)"
_KEEP: Final = "SELECT keep_permission($1, $2, $3, $4)"
_KEPT: Final = "SELECT content FROM permission WHERE secret_hash = $1 AND expires_at_ms > $2"
_CLEAN_EACH: Final = 16  # the number of statements between two cleanups
_MICROSECONDS: Final = 1_000_000
_MAX_REFUSED: Final = 100_000  # clients

T = TypeVar("T")

log = logging.getLogger(__name__)


class _Take(NamedTuple):
    policy: str
    client_hash: bytes
    refill_us: int
    burst: int


class Sharing:
    """Access to the token bucket and permission tables over a separate connection. Raises ``StorageUnavailable``."""

    def __init__(self, session: Session, hash_key: bytes, clock: Callable[[], int]) -> None:
        self._session = session
        self._hash_key = hash_key
        self._clock = clock
        self._takes = Batcher(self._take, lambda _: 64)
        self._statements = 0

    async def take_token(self, *, policy: str, client: str, refill_seconds: float, burst: int) -> float:
        """Take a token, if available, from a client's bucket, which holds up to ``burst`` tokens.

        Returns the number of seconds until the bucket would be full again after this token is taken. If this is longer
        than an empty bucket takes to fill, no token was available.
        """
        refill_us = round(refill_seconds * _MICROSECONDS)
        missing_us = await self._takes.submit(_Take(policy, keyed_hash(self._hash_key, client), refill_us, burst))
        return missing_us / _MICROSECONDS

    async def _take(self, takes: Sequence[_Take]) -> Sequence[int]:
        columns = [list(column) for column in zip(*takes, strict=True)]
        self._statements += 1
        cleans = self._statements % _CLEAN_EACH == 0
        missing: Sequence[int] = await self._run(lambda connection: connection.fetchval(_TAKE, *columns, cleans))
        return missing

    async def put_permission(self, secret: str, content: bytes, expires_at_ms: int) -> None:
        """Store a permission, as ``Storage.put_permission`` does."""
        values = (_hash(secret), content, expires_at_ms, self._clock())
        await self._run(lambda connection: connection.fetchval(_KEEP, *values))

    async def get_permission(self, secret: str) -> bytes | None:
        """Return a permission, as ``Storage.get_permission`` does."""
        values = (_hash(secret), self._clock())
        found: bytes | None = await self._run(lambda connection: connection.fetchval(_KEPT, *values))
        return found

    @property
    def reason_not_ready(self) -> str:
        """The reason why there is no connection, or "" if there is one."""
        return self._session.reason_not_open

    async def connect(self) -> None:
        """Open the connection if it is not open. Raises the same errors as ``Server.connect``."""
        await self._session.connection()

    async def close(self) -> None:
        """Finish the queued token requests, and close the connection."""
        await self._takes.close()
        await self._session.close()

    async def _run(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        try:
            return await repeated(lambda: self._session.use(work))
        except FAILURES as error:
            raise translate(error) from error
        except DatabaseError as error:
            raise StorageUnavailable(str(error)) from error


class TakeToken(Protocol):
    """The signature of ``Sharing.take_token``."""

    def __call__(self, *, policy: str, client: str, refill_seconds: float, burst: int) -> Awaitable[float]:
        """Take a token, as ``Sharing.take_token`` does."""


class SharedBuckets:
    """``Buckets`` shared by several daemons.

    A client that has no tokens is refused without querying the database again.
    """

    def __init__(self, take: TakeToken, tokens_per_minute: int, burst: int, *, name: str) -> None:
        self.name = name
        self.tokens_per_minute = tokens_per_minute
        self.burst = burst
        self._take = take
        self._refill_seconds = 60 / tokens_per_minute
        self._refused_until: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused_until)

    def take(self, client: str, now_seconds: float) -> Decision | Awaitable[Decision]:
        """Take a token if available; if not, refuse the client without a query until its next token is due."""
        wait_seconds = self._refused_until.get(client, 0.0) - now_seconds
        if wait_seconds > 0:
            return Decision(allowed=False, remaining=0, next_token_seconds=math.ceil(wait_seconds))
        return self._decide(client, now_seconds)

    async def _decide(self, client: str, now_seconds: float) -> Decision:
        missing_seconds = await self._take(
            policy=self.name, client=client, refill_seconds=self._refill_seconds, burst=self.burst
        )
        decision = decision_on(missing_seconds, self._refill_seconds, self.burst)
        if not decision.allowed:
            self._refused_until[client] = now_seconds + missing_seconds - self.burst * self._refill_seconds
            if len(self._refused_until) > _MAX_REFUSED:
                self._refused_until.popitem(last=False)
        return decision

    def forget_idle(self, now_seconds: float) -> None:
        """Drop expired refusals."""
        for client in [client for client, until in self._refused_until.items() if until <= now_seconds]:
            del self._refused_until[client]


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class BlocksWatch:
    """After another daemon has changed a block, reads all blocks with ``read`` and passes them to ``callback``."""

    def __init__(self, read: Callable[[], Awaitable[Sequence[Block]]]) -> None:
        self.callback: OnBlocks = lambda _: None
        self._read = read
        self._reading: asyncio.Task[None] | None = None
        self._is_stale = False

    def read_again(self) -> None:
        """Schedule a read of the blocks."""
        self._is_stale = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._report_blocks())

    async def _report_blocks(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                blocks = await self._read()
            except StorageUnavailable:
                self._is_stale = True
            else:
                self.callback(blocks)
            # Several commands in a row may change a long list, and each read returns the whole list.
            await asyncio.sleep(_PAUSE_SECONDS)

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()


class PostgresqlStorage(Storage):
    """``Storage`` backed by a PostgreSQL database. Opened by ``engine.open_storage``."""

    def __init__(
        self,
        server: Server,
        partitions: Partitions,
        usage: Usage,
        *,
        hash_key: bytes,
        clock: Clock,
        metrics: Sequence[Metric],
    ) -> None:
        self.clock = clock
        self.lost = asyncio.Event()
        self.may_cache = False  # another daemon's notification of a change may not have arrived yet
        self._hash_key = hash_key
        self._limits = usage.limits
        self._writer = Writer(Session(server), clock=clock, usage=usage)
        self._readers = Readers(server)
        self._blocks_watch = BlocksWatch(self.blocks)
        self._notifications = ChangeNotifications(
            Session(server), clock, self._writer.metrics.forget_failure, self._blocks_watch.read_again
        )
        self._partitions = partitions
        self._usage = usage
        self._metrics = metrics
        self._finding = Batcher(self._find, lambda _: _MAX_LOOKUPS)
        self._finding_turns = FairSemaphore(2 * _MAX_LOOKUPS)  # for the batch that is being read and the next batch
        self._counting: asyncio.Future[None] | None = None
        self.sharing = Sharing(Session(server), hash_key, clock)
        self._writer.on_committed(self._notifications.announce)

    async def listen(self) -> None:
        """Start listening for notifications from other daemons. Raises the same errors as ``Session.connection``."""
        await self._notifications.start()

    async def serve_domains(self, domains: Sequence[str], *, now_ms: int, until_ms: int) -> Mapping[str, int]:
        return await self._writer.submit(
            Standalone(operations.serve_domains, domains, now_ms=now_ms, until_ms=until_ms)
        )

    async def blocks(self) -> Sequence[Block]:
        return await self._readers.run(reading.select_blocks)

    async def change_blocks(self, added: Sequence[Block] = (), removed: Sequence[tuple[str, str]] = ()) -> None:
        await self._writer.submit(Standalone(operations.change_blocks, added, removed))
        self._notifications.announce_blocks()

    def buckets(self, *, tokens_per_minute: int, burst: int, name: str) -> SharedBuckets:
        return SharedBuckets(self.sharing.take_token, tokens_per_minute, burst, name=name)

    async def put_permission(self, secret: str, content: bytes, expires_at_ms: int) -> None:
        await self.sharing.put_permission(secret, content, expires_at_ms)

    async def get_permission(self, secret: str) -> bytes | None:
        return await self.sharing.get_permission(secret)

    async def change_limits(self, limits: Limits) -> None:
        self._limits = self._usage.limits = replace(limits, max_bytes=limits.max_bytes or DEFAULT_CAP_BYTES)

    def audit_hash(self, address: str, *, day: str) -> str:
        return audit_hash(self._hash_key, address, day=day)

    def has_room(self) -> bool:
        if not self._usage.has_room and (self._counting is None or self._counting.done()):
            self._counting = self._writer.submit(Standalone(operations.count_usage))
            self._counting.add_done_callback(lambda future: future.cancelled() or future.exception())
        return self._usage.has_room

    async def create_inbox(self, new: NewInbox) -> Inbox:
        await self._make_place(expires_at_ms=new.expires_at_ms, now_ms=new.created_at_ms)
        creator_hash = None if new.creator is None else self._hash(new.creator)
        creation = operations.CreateInbox(new=new, name_hash=self._hash(new.address), creator_hash=creator_hash)
        return created_inbox(new, await self._writer.submit(creation))

    async def _make_place(self, *, expires_at_ms: int, now_ms: int) -> None:
        """Add any missing partitions for an inbox with this expiry time."""
        wanted = slot(expires_at_ms, now_ms)
        if not self._partitions.has(wanted):
            await self._partitions.add([wanted])

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        async with self._finding_turns:
            return await self._finding.submit(self._lookup(address, now_ms))

    async def _find(self, lookups: Sequence[InboxLookup]) -> Sequence[Inbox | None]:
        with on_behalf_of(""):  # otherwise the whole batch would wait for the first client's reads
            return await self._readers.run(reading.find_several, lookups)

    def _lookup(self, address: str, now_ms: int, permit: Permit = permit_all) -> InboxLookup:
        return InboxLookup(address, self._hash(address), now_ms, self._limits, permit)

    def _hash(self, text: str) -> bytes:
        return keyed_hash(self._hash_key, text)

    async def list_inboxes(
        self, now_ms: int, *, creator: str | None = None, expired: bool = False, after: str = ""
    ) -> InboxPage:
        creator_hash = None if creator is None else self._hash(creator)
        between = listed_between(now_ms, after, expired=expired)
        return await self._readers.run(reading.select_inboxes, between, creator_hash)

    async def operator_box(self) -> OperatorBox:
        return await self._readers.run(reading.operator_box)

    async def delete_operator_mail(self, message_ids: Collection[str] | None = None) -> int:
        return await self._delete(InboxKey(int(OPERATOR_INBOX_ID)), message_ids)

    async def list_messages(self, address: str, page: Page, now_ms: int, permit: Permit = permit_all) -> Listing | None:
        return await self._readers.run(reading.select_messages, self._lookup(address, now_ms, permit), page)

    async def list_recipients(self, inbox_id: str, page: Page) -> Sequence[tuple[str, str]]:
        inbox_key = user_inbox_key(inbox_id)
        return () if inbox_key is None else await self._readers.run(reading.select_recipients, inbox_key, page)

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        inbox_key = user_inbox_key(inbox_id)
        if inbox_key is None:
            return ()
        keys: Sequence[MessageKey] = message_keys(message_ids, inbox_key)
        texts: list[Texts] = []
        while keys:
            some, keys = await self._readers.run(reading.select_texts, inbox_key, keys, up_to_characters)
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
        return await self._readers.run(reading.select_message, lookup, bounds, message_id=message_id, is_next=is_next)

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
        selected = selection(inbox_key, message_ids, up_to=up_to, copies=copies)
        return await delete_all(lambda: self._writer.submit(operations.deletion(inbox_key, selected)))

    async def set_authentication(self, inbox_id: str, authentication: Authentication, *, message_id: str) -> None:
        inbox_key, message_key = place_of(inbox_id, message_id=message_id, keys_by_inbox=True)
        await self._writer.submit(operations.SetVerdict(inbox_key, message_key, verdict_text(authentication)))

    async def move_expiry(self, inbox_id: str, *, expires_at_ms: int, now_ms: int) -> None:
        inbox_key = changeable_inbox_key(inbox_id)
        await self._make_place(expires_at_ms=expires_at_ms, now_ms=now_ms)
        change = Standalone(operations.move_expiry, inbox_key, expires_at_ms=expires_at_ms, requested_at_ms=now_ms)
        await self._writer.submit(change)

    async def set_webhook(self, inbox_id: str, webhook: Webhook | None, now_ms: int) -> None:
        inbox_key, version = changeable_inbox_key(inbox_id), secrets.randbelow(MAX_VERSION)
        text = None if webhook is None else webhook_text(webhook)
        await self._writer.submit(
            Standalone(operations.set_webhook, inbox_key, text, requested_at_ms=now_ms, version=version)
        )

    async def read_webhook(self, inbox_id: str) -> StoredWebhook | None:
        inbox_key = user_inbox_key(inbox_id)
        if inbox_key is None:
            return None
        rows = await self._readers.run(reading.select_webhooks, after=InboxKey(inbox_key - 1), limit=1)
        return next((row.stored(keys_by_inbox=True) for row in rows if row.inbox_key == inbox_key), None)

    async def list_webhooks(self, *, after: str = "", limit: int = 100) -> Sequence[StoredWebhook]:
        rows = await self._readers.run(reading.select_webhooks, after=InboxKey(int(after or 0)), limit=limit)
        return [row.stored(keys_by_inbox=True) for row in rows]

    async def store_webhook(self, read: StoredWebhook, state: WebhookState | None) -> StoredWebhook | None:
        row = state_row(read, state, keys_by_inbox=True)
        if not await self._writer.submit(operations.StoreWebhook(row)):
            return None
        return replace(read, version=read.version + 1, state=state or read.state)

    async def sweep(self, now_ms: int) -> bool:
        return await self._writer.submit(Standalone(operations.sweep, now_ms))

    async def erase(self) -> bool:
        now_ms = self.clock()
        await self._partitions.add_ahead(now_ms)
        return await self._partitions.drop_passed(now_ms, self._usage.shard)

    def backup(self) -> AbstractAsyncContextManager[BinaryIO]:
        raise CommandError("with storage.url, pg_dump makes the copy, for example: pg_dump --format=custom --file=FILE")

    async def connect(self) -> None:
        """Open the required connections; if this fails, ``reason_not_ready`` returns the reason."""
        for part in (self._writer, self._readers, self.sharing):
            try:
                await part.connect()
            except (*FAILURES, RequestError, DatabaseError) as error:
                log.debug("cannot open a connection: %s", error)

    def reason_not_ready(self) -> str:
        parts = (self._notifications, self._writer, self._readers, self.sharing)
        return next((part.reason_not_ready for part in parts if part.reason_not_ready), "")

    def metrics(self) -> Sequence[Metric]:
        return (*self._writer.metrics.metrics(), *self._metrics)

    def on_committed(self, callback: OnCommitted) -> None:
        self._writer.on_committed(callback)
        self._notifications.on_received(callback)

    def watch(self, listened: Listened, on_missed: Callable[[], None], on_blocks: OnBlocks) -> None:
        self._notifications.watch(listened, on_missed)
        self._blocks_watch.callback = on_blocks

    async def close(self) -> None:
        await self._writer.close()
        await self._notifications.close()
        await self._blocks_watch.close()
        await self._finding.close()
        await self._readers.close()
        await self.sharing.close()
