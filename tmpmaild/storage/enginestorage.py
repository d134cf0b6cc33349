"""What the storages of the engines do alike: operations with the same names, made of the same values."""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, takewhile
from types import ModuleType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from tmpmaild.errors import MessageNotFound, RequestError, Stopping, StorageUnavailable
from tmpmaild.metrics import Count, Histogram, Metric
from tmpmaild.model import (
    Authentication,
    Block,
    FullMessage,
    Inbox,
    InboxChange,
    InboxPage,
    Listing,
    Message,
    NewInbox,
    NewMail,
    Page,
    StoredWebhook,
    Texts,
    Webhook,
    WebhookState,
)
from tmpmaild.storage.audit import audit_hash
from tmpmaild.storage.base import (
    ANY_SIZE,
    DELETED_AT_ONCE,
    DELETED_AT_ONCE_BYTES,
    OPERATOR_INBOX_ID,
    Limits,
    OnCommitted,
    Permit,
    anybody,
    bodies_to_read,
)
from tmpmaild.storage.operatorbox import OperatorBox
from tmpmaild.storage.rows import (
    MAX_KEY,
    MAX_VERSION,
    InboxRow,
    ListedRow,
    StateRow,
    WebhookRow,
    bounds_of,
    changeable_inbox_key,
    first_key,
    holders_inbox_key,
    inbox_at,
    key_not_above,
    keyed_hash,
    message_id_of,
    message_key,
    state_row,
    verdict_text,
    webhook_text,
)

Q = TypeVar("Q")
A = TypeVar("A")

PAGE_ROWS: Final = 200
"""How many inboxes a page is chosen from."""
NEVER_MS: Final = (1 << 63) - 1
"""When the operator's inbox expires."""
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)

log = logging.getLogger(__name__)


class CommitFigures:
    """How the commits go. ``trouble`` is the error of the last batch, "" while the database takes writes."""

    def __init__(self) -> None:
        self.trouble = ""
        self._seconds = Histogram("storage_commit_seconds", "How long a batch took, its fsync included.")
        self._operations = Histogram("storage_batch_operations", "Operations in a batch.", _BATCH_SIZES)
        self._failures = Count("storage_failed_batches_total", "Batches that failed because of the database or disk.")
        self._given_way = Count("postmaster_given_way_total", "Messages to postmaster deleted for newer ones.")

    def count_batch(self, outcomes: Sequence[object], seconds: float) -> None:
        """Count a batch with the results of its operations."""
        self._seconds.observe(seconds)
        self._operations.observe(len(outcomes))
        trouble = ""
        for outcome in outcomes:
            if isinstance(outcome, StorageUnavailable):
                trouble = str(outcome)
        self.trouble = trouble  # at once: another thread may read it
        if trouble:
            self._failures.add()

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        return (self._seconds, self._operations, self._failures, self._given_way)

    def note_given_way(self, messages: int) -> None:
        """Count messages of the operator's inbox that a commit has deleted for newer ones."""
        if messages:
            self._given_way.add(by=messages)
            log.warning(
                "the inbox of postmaster and abuse is full: oldest messages of its largest sender that were deleted for"
                " new mail: %d; see tmpmaild postmaster",
                messages,
                extra={"about": "postmaster"},
            )


def tell(callbacks: Iterable[OnCommitted], changes: Sequence[InboxChange]) -> None:
    """Call each with what has been committed; one that fails is logged and does not keep the others from it."""
    for callback in callbacks:
        try:
            callback(changes)
        except Exception:
            log.exception("telling of a commit failed")


def settle(futures: Iterable[asyncio.Future[Any]], outcomes: Iterable[Any]) -> None:
    """Give each future the result of its operation, or raise it there; those that were cancelled are left alone."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def failures(error: Exception, count: int) -> list[Exception]:
    """Return an exception for each future: a shared one, raised in several tasks, would collect their tracebacks."""
    if isinstance(error, RequestError):
        return [type(error)(*error.args) for _ in range(count)]
    return [error] * count


class Batcher(Generic[Q, A]):
    """Puts questions together: those that come while one call of ``ask`` is under way are asked by the next one.

    ``ask`` returns an answer for each, in order, or an exception for one that failed. ``count`` says how many of those
    that wait, each with its future, go together.
    """

    def __init__(
        self,
        ask: Callable[[list[Q]], Awaitable[Sequence[A | Exception]]],
        count: Callable[[Sequence[tuple[Q, object]]], int],
    ) -> None:
        self._ask = ask
        self._count = count
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def submit(self, question: Q) -> asyncio.Future[A]:
        """Queue a question. Cancelling the future discards the answer; it is asked all the same."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        if self._stopping:
            future.set_exception(Stopping("the storage is closed"))
            return future
        self._waiting.append((question, future))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return future

    async def close(self) -> None:
        """Take no more, and wait until all is answered."""
        self._stopping = True
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _work(self) -> None:
        try:
            while self._waiting:
                count = min(self._count(self._waiting), len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                settle([future for _, future in batch], await self._answers([question for question, _ in batch]))
        finally:
            self._task = None

    async def _answers(self, questions: list[Q]) -> Sequence[A | Exception]:
        try:
            return await self._ask(questions)
        except Exception as error:  # noqa: BLE001 - the futures fail with it, whatever it is
            return failures(error, len(questions))


def up_to_the_end(found: Iterable[ListedRow], page: Page) -> tuple[list[ListedRow], bool]:
    """Take messages until the page has as many, or as much text, as it may have; tell whether there are more."""
    rows: list[ListedRow] = []
    characters = 0
    for row in found:
        characters += len(row.attachments) + len(row.subject) + len(row.sender) + len(row.sender_name)
        if len(rows) == page.limit or (rows and characters > page.other_characters):
            return rows, True
        rows.append(row)
    return rows, False


def bodies_left_out(rows: Iterable[ListedRow], page: Page) -> dict[int, bool]:
    """Return the keys of the messages whose bodies were not read with the page, and whether each is to be read whole.

    Newest first they are, as long as they fit the page.
    """
    large = sorted([row for row in rows if row.body is None], key=lambda row: -row.key)
    room_bytes = page.bodies_bytes - sum([row.body_bytes for row in rows if row.body is not None]) if large else 0
    return {row.key: is_whole for row, is_whole in bodies_to_read(large, room_bytes)}


def with_bodies(
    rows: Iterable[ListedRow], bodies: Mapping[int, tuple[str, bool]], message_id: Callable[[int], str]
) -> tuple[Message, ...]:
    """Make messages of rows. ``bodies`` are those that were read apart, by keys, and whether each was cut.

    A message whose body was not read at all has been deleted meanwhile and is left out.
    """
    messages = []
    for row in rows:
        body, is_cut = (row.body, False) if row.body is not None else bodies.get(row.key, (None, False))
        if body is not None:
            messages.append(row.message(message_id(row.key), body, truncated=is_cut))
    return tuple(messages)


class InboxLookup(NamedTuple):
    """Which inbox is read, as of which time; ``permit`` is called with it before anything else is read."""

    address: str
    name_hash: bytes
    now_ms: int
    limits: Limits
    permit: Permit = anybody


class Between(NamedTuple):
    """A part of the list: behind the first two, which are the place of an inbox, up to the third."""

    after_ms: int
    after_id: int
    up_to_ms: int


def listed_between(now_ms: int, after: str = "", *, expired: bool = False) -> Between:
    """Return where the inboxes are that are alive or have expired at ``now_ms``, behind the place ``after`` if any."""
    expires_at_ms, _, inbox_id = (after or ("-1.0" if expired else f"{now_ms}.{NEVER_MS}")).partition(".")
    return Between(int(expires_at_ms), int(inbox_id), now_ms if expired else NEVER_MS - 1)


def by_creator(rows: Iterable[InboxRow], creator_hash: bytes | None) -> list[InboxRow]:
    """Return the inboxes of a creator, or all with None."""
    return [row for row in rows if creator_hash in (None, row.creator)]


def inbox_page(read: Sequence[InboxRow], wanted: Iterable[InboxRow], addresses: Mapping[int, str]) -> InboxPage:
    """Return a page with those inboxes of what was read that are wanted."""
    is_last = len(read) < PAGE_ROWS
    place = None if is_last else f"{read[-1].expires_at_ms}.{read[-1].id}"
    return InboxPage(tuple([row.entry(addresses[row.id]) for row in wanted]), place)


class Doomed(NamedTuple):
    """Which messages of an inbox are to be deleted: those with these keys, else all up to one."""

    up_to_key: int
    keys: Sequence[int] | None = None

    @property
    def only_key(self) -> int | None:
        """The key if that is of a single message: such a deletion may go together with others."""
        return self.keys[0] if self.keys is not None and len(self.keys) == 1 else None


class Deleted(NamedTuple):
    """How many messages an operation has deleted, and whether there may be more for another one."""

    messages: int
    more: bool


def deleted_at_once(stored_bytes: Iterable[int]) -> int:
    """Return how many of these messages, in this order, one transaction deletes: at least one."""
    fitting = takewhile(lambda octets: octets <= DELETED_AT_ONCE_BYTES, accumulate(stored_bytes))
    return min(max(len(list(fitting)), 1), DELETED_AT_ONCE)


class Operations(NamedTuple):
    """The operations of an engine."""

    create: Callable[[NewInbox, bytes, bytes | None], Any]
    add: Callable[[NewMail], Any]
    delete: Callable[[int, Doomed], Any]
    set_verdict: Callable[[int, int, str], Any]
    move_expiry: Callable[[int, int, int], Any]
    set_webhook: Callable[[int, int, int, str | None], Any]
    store_webhook: Callable[[StateRow], Any]
    serve_domains: Callable[[Sequence[str], int, int], Any]
    change_blocks: Callable[[Sequence[Block], Sequence[tuple[str, str]]], Any]


class EngineStorage:
    """Methods of ``Storage``. ``submit`` queues an operation for the writer and returns the future of its result.

    ``read`` calls a function of its module ``reading`` with a connection of the engine, and returns its result. With
    ``keys_by_inbox`` the keys of messages are those of their inbox.
    """

    def __init__(
        self,
        submit: Callable[[Any], Any],
        operations: Operations,
        read: Callable[..., Awaitable[Any]],
        reading: ModuleType,
        *,
        hash_key: bytes,
        clock: Callable[[], int],
        limits: Limits,
        keys_by_inbox: bool = False,
    ) -> None:
        self.clock = clock
        self.lost = asyncio.Event()
        self._submit = submit
        self._operations = operations
        self._read = read
        self._reading = reading
        self._hash_key = hash_key
        self._limits = limits
        self._keys_by_inbox = keys_by_inbox

    def _hash(self, text: str) -> bytes:
        return keyed_hash(self._hash_key, text)

    def audit_hash(self, address: str, day: str) -> str:
        """See ``Storage``."""
        return audit_hash(self._hash_key, address, day)

    def _lookup(self, address: str, now_ms: int, permit: Permit = anybody) -> InboxLookup:
        return InboxLookup(address, self._hash(address), now_ms, self._limits, permit)

    async def serve_domains(self, domains: Sequence[str], now_ms: int, until_ms: int) -> Mapping[str, int]:
        """See ``Storage``."""
        retired: Mapping[str, int] = await self._submit(self._operations.serve_domains(domains, now_ms, until_ms))
        return retired

    async def blocks(self) -> Sequence[Block]:
        """See ``Storage``."""
        return [Block(*row) for row in await self._read(self._reading.select_blocks)]

    async def change_blocks(self, added: Sequence[Block] = (), removed: Sequence[tuple[str, str]] = ()) -> None:
        """See ``Storage``."""
        await self._submit(self._operations.change_blocks(added, removed))

    async def create_inbox(self, new: NewInbox) -> Inbox:
        """See ``Storage``."""
        await self._make_place(new.expires_at_ms, new.created_at_ms)
        creator_hash = None if new.creator is None else self._hash(new.creator)
        inbox_id = await self._submit(self._operations.create(new, self._hash(new.address), creator_hash))
        row = (inbox_id, new.created_at_ms, new.expires_at_ms, new.private, new.token_hash, 0, False)
        return inbox_at(new.address, row)

    async def _make_place(self, expires_at_ms: int, now_ms: int) -> None:
        """Make sure that mail for an inbox which expires then can be stored."""

    def last_id_before(self, time_ms: int) -> str:
        """See ``Storage``."""
        return message_id_of(first_key(time_ms) - 1)

    async def find_inbox(self, address: str, now_ms: int) -> Inbox | None:
        """See ``Storage``."""
        inbox: Inbox | None = await self._read(self._reading.select_inbox, self._lookup(address, now_ms))
        return inbox

    async def operator_box(self) -> OperatorBox:
        """See ``Storage``."""
        box: OperatorBox = await self._read(self._reading.operator_box)
        return box

    async def delete_operator_mail(self, message_ids: Collection[str] | None = None) -> int:
        """See ``Storage``."""
        return await self._delete(int(OPERATOR_INBOX_ID), message_ids)

    async def list_inboxes(
        self, now_ms: int, *, creator: str | None = None, expired: bool = False, after: str = ""
    ) -> InboxPage:
        """See ``Storage``."""
        creator_hash = None if creator is None else self._hash(creator)
        between = listed_between(now_ms, after, expired=expired)
        page: InboxPage = await self._read(self._reading.select_inboxes, between, creator_hash)
        return page

    async def list_messages(self, address: str, page: Page, now_ms: int, permit: Permit = anybody) -> Listing | None:
        """See ``Storage``."""
        found: Listing | None = await self._read(
            self._reading.select_messages, self._lookup(address, now_ms, permit), page
        )
        return found

    def add_message(self, mail: NewMail) -> Awaitable[str]:
        """See ``Storage``."""
        message_id: Awaitable[str] = self._submit(self._operations.add(mail))
        return message_id

    async def read_texts(self, inbox_id: str, message_ids: Sequence[str], up_to_characters: int) -> tuple[Texts, ...]:
        """See ``Storage``."""
        inbox_key = holders_inbox_key(inbox_id)
        if inbox_key is None:
            return ()
        keys = sorted({key for one in message_ids if (key := self._message_key(one, inbox_key)) is not None})
        texts: list[Texts] = []
        while keys:
            some, keys = await self._read(self._reading.select_texts, inbox_key, keys, up_to_characters)
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
        is_next: bool = False,
    ) -> tuple[Inbox, FullMessage | None] | None:
        """See ``Storage``."""
        lookup, bounds = self._lookup(address, now_ms, permit), bounds_of(up_to_bytes, source=source)
        found: tuple[Inbox, FullMessage | None] | None = await self._read(
            self._reading.select_message, lookup, message_id, bounds, is_next=is_next
        )
        return found

    async def delete_messages(
        self, inbox_id: str, message_ids: Collection[str] | None = None, *, up_to: str | None = None
    ) -> int:
        """See ``Storage``."""
        inbox_key = holders_inbox_key(inbox_id)
        return 0 if inbox_key is None else await self._delete(inbox_key, message_ids, up_to)

    async def _delete(self, inbox_key: int, message_ids: Collection[str] | None, up_to: str | None = None) -> int:
        doomed, count, more = self._doomed(inbox_key, message_ids, up_to), 0, True
        while more:
            deleted, more = await self._submit(self._operations.delete(inbox_key, doomed))
            count += deleted
        return count

    def _doomed(self, inbox_key: int, message_ids: Collection[str] | None, up_to: str | None) -> Doomed:
        if message_ids is not None:
            keys = [self._message_key(message_id, inbox_key) for message_id in message_ids]
            return Doomed(MAX_KEY, sorted({key for key in keys if key is not None}))
        of_inbox = inbox_key if self._keys_by_inbox else 0
        return Doomed(MAX_KEY if up_to is None else key_not_above(up_to, of_inbox))

    async def set_authentication(self, inbox_id: str, message_id: str, authentication: Authentication) -> None:
        """See ``Storage``."""
        place, text = self._place(inbox_id, message_id), verdict_text(authentication)
        await self._submit(self._operations.set_verdict(*place, text))

    def _place(self, inbox_id: str, message_id: str) -> tuple[int, int]:
        inbox_key = holders_inbox_key(inbox_id)
        key = self._message_key(message_id, inbox_key or 0)
        if inbox_key is None or key is None:
            raise MessageNotFound("no such message in this inbox")
        return inbox_key, key

    def _message_key(self, message_id: str, inbox_key: int) -> int | None:
        return message_key(message_id, inbox_key if self._keys_by_inbox else 0)

    async def move_expiry(self, inbox_id: str, expires_at_ms: int, now_ms: int) -> None:
        """See ``Storage``."""
        inbox_key = changeable_inbox_key(inbox_id)
        await self._make_place(expires_at_ms, now_ms)
        await self._submit(self._operations.move_expiry(inbox_key, expires_at_ms, now_ms))

    async def set_webhook(self, inbox_id: str, webhook: Webhook | None, now_ms: int) -> None:
        """See ``Storage``."""
        values = (changeable_inbox_key(inbox_id), now_ms, secrets.randbelow(MAX_VERSION))
        await self._submit(self._operations.set_webhook(*values, None if webhook is None else webhook_text(webhook)))

    async def read_webhook(self, inbox_id: str) -> StoredWebhook | None:
        """See ``Storage``."""
        inbox_key = holders_inbox_key(inbox_id)
        rows: Sequence[WebhookRow] = (
            await self._read(self._reading.select_webhooks, inbox_key - 1, 1) if inbox_key else ()
        )
        return next((self._webhook(row) for row in rows if row.inbox_key == inbox_key), None)

    async def list_webhooks(self, after: str = "", limit: int = 100) -> Sequence[StoredWebhook]:
        """See ``Storage``."""
        return [self._webhook(row) for row in await self._read(self._reading.select_webhooks, int(after or 0), limit)]

    def _webhook(self, row: WebhookRow) -> StoredWebhook:
        return row.stored(keys_by_inbox=self._keys_by_inbox)

    async def store_webhook(self, read: StoredWebhook, state: WebhookState | None) -> StoredWebhook | None:
        """See ``Storage``."""
        row = state_row(read, state, keys_by_inbox=self._keys_by_inbox)
        if not await self._submit(self._operations.store_webhook(row)):
            return None
        return replace(read, version=read.version + 1, state=state or read.state)
