"""The only writer: a thread that owns the write connection and commits queued operations in batches.

The next batch is collected while an fsync runs, so no timer is needed and no delay is added. The operations are in
``operations.py`` and ``sweeping.py``.
"""

import asyncio
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from msgspec.structs import replace

from tmpmaild.errors import RequestError, Stopping, StorageFull, StorageLost
from tmpmaild.metrics import Gauge, Metric
from tmpmaild.model import ExpiryMoved, InboxChange, MessageDeleted, VerdictReached
from tmpmaild.storage.base import Limits, OnCommitted
from tmpmaild.storage.batching import CommitMetrics, failures, notify, settle
from tmpmaild.storage.keys import InboxKey, MessageKey, next_key
from tmpmaild.storage.sqlite.errors import translate
from tmpmaild.storage.sqlite.layout import InboxQuotas, forget_values

MAX_BATCH_OPERATIONS = 64
MAX_BATCH_BYTES = 4 * 1024 * 1024
_REMEMBERED_BYTES = 1024 * 1024  # the maximum size of a batch that may stay bound to its statements
_SPARE_PAGES = 64

Clock = Callable[[], int]
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

log = logging.getLogger(__name__)


class State:
    """State that persists between batches; used only in the writer's thread, and therefore in commit order.

    ``unerased`` is true while the WAL may still contain deleted text. ``last_message_key`` is the highest key of any
    message so far.
    """

    def __init__(self, connection: sqlite3.Connection, limits: Limits | None = None) -> None:
        self.connection = connection
        self.quotas = InboxQuotas(limits or Limits())
        self.unerased = True  # an earlier process may have left deleted text
        # Stored when messages are deleted; until then, it is the key of the newest message.
        sql = "SELECT max(last_message_id, coalesce((SELECT max(id) FROM message), 0)) FROM daemon"
        self.last_message_key: MessageKey
        (self.last_message_key,) = connection.execute(sql).fetchone()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Raise the cap by a few pages, because an index change may split a page before the deletion frees a page."""
        (pages,) = self.connection.execute("PRAGMA max_page_count").fetchone()
        self.connection.execute(f"PRAGMA max_page_count = {pages + _SPARE_PAGES}")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA max_page_count = {pages}")
            self.quotas.forget()


class Batch:
    """State shared by the operations of one batch: the time, the last key, and the changes to report.

    The operations update ``added_inboxes`` and ``added_messages``; deletions decrease them. ``evicted`` is the number
    of messages deleted from the operator's inbox to make room for newer messages.
    """

    def __init__(self, state: State, now_ms: int) -> None:
        self.state = state
        self.connection = state.connection
        self.now_ms = now_ms
        self.last_message_key = state.last_message_key
        self.changes: list[InboxChange] = []
        self.added_inboxes = 0
        self.added_messages = 0
        self.evicted = 0

    def draw_message_key(self) -> MessageKey:
        """Return the next key, which is greater than every key ever committed; after a rollback it may be reused."""
        self.last_message_key = key = next_key(self.last_message_key, self.now_ms)
        return key

    def report(self, notices: Sequence[tuple[InboxKey, MessageDeleted | ExpiryMoved | VerdictReached]]) -> None:
        """Report changes other than new messages, together with each inbox's current state from the tables."""
        quotas = self.state.quotas
        quotas.forget()
        quotas.load(self.connection, self.now_ms, {str(inbox_key) for inbox_key, _ in notices})
        self.changes += [replace(quotas.change(str(inbox_key)), notice=notice) for inbox_key, notice in notices]


class Operation(Generic[R_co]):
    """A write operation with a result. Consecutive operations of the same class run together and can share work.

    An operation that is not ``transactional`` runs alone and outside any transaction. An operation that ``changes`` or
    deletes rows may slightly exceed the cap, and quotas are read again afterwards.
    """

    size_bytes: int = 0
    transactional: ClassVar[bool] = True
    changes: ClassVar[bool] = True

    @classmethod
    def is_one_statement(cls, operations: Sequence[Self]) -> bool:
        """Return whether ``run`` changes the tables with a single statement, which needs no explicit transaction."""
        del operations
        return False

    @classmethod
    def run(cls, batch: Batch, operations: Sequence[Self]) -> Sequence[R_co | RequestError]:
        """Run the operations, and return the result of each operation in order.

        A ``RequestError`` *returned* in place of a result rejects only that operation, which must not have changed
        anything. A *raised* exception rolls the batch back, and each operation is then retried alone.
        """
        return [operation.apply(batch) for operation in operations]

    def apply(self, batch: Batch) -> R_co | RequestError:
        """Run this operation alone; called by the default ``run``."""
        raise NotImplementedError


class Call(Operation[R_co]):
    """An operation that calls a function with the batch and these arguments. The function may insert rows."""

    changes: ClassVar[bool] = False

    def __init__(
        self,
        function: Callable[Concatenate[Batch, P], R_co | RequestError],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> None:
        self._call: Callable[[Batch], R_co | RequestError] = lambda batch: function(batch, *arguments, **options)

    def apply(self, batch: Batch) -> R_co | RequestError:
        """Call the function."""
        return self._call(batch)


class Change(Call[R_co]):
    """An operation that calls a function that changes or deletes rows."""

    changes: ClassVar[bool] = True


class Pause(Operation[None]):
    """An operation that changes nothing, but triggers the work that the writer does after each batch."""

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False

    def apply(self, batch: Batch) -> None:
        """Do nothing."""


def _run_group(
    kind: type[Operation[object]], batch: Batch, operations: Sequence[Operation[object]]
) -> Sequence[object]:
    """Run operations of one class; the caller starts and ends the transaction."""
    with batch.state.changing() if kind.changes else nullcontext():
        outcomes = kind.run(batch, operations)
    assert len(outcomes) == len(operations)  # otherwise a future would never be completed
    return outcomes


class DatabaseMetrics(CommitMetrics):
    """Metrics of the database and its commits. The writer's thread updates them, and the event loop reads them.

    The rows are counted once, when this object is created; after that, each commit updates the counts.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        sql = "SELECT count(*), coalesce(sum(message_count), 0) FROM inbox WHERE swept = 0"
        self.inboxes, self.messages = connection.execute(sql).fetchone()

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        return (
            *super().metrics(),
            # One of the rows is the operator's inbox, which is not counted.
            Gauge("storage_inboxes", "Inboxes that have not been swept yet.", lambda: self.inboxes - 1),
            Gauge("storage_messages", "Messages in the database.", lambda: self.messages),
        )


_Queued = tuple[Operation[object], asyncio.Future[object]]


class Writer:
    """Runs operations on its own thread, combining several in one commit, and completes their futures.

    ``clock`` returns Unix milliseconds. ``after_batch`` is called in the thread to measure the space; its argument is
    the size of the batch in bytes, or infinity if the disk or the database was full. ``found_damage`` is true if the
    file is damaged or gone. ``is_lost`` is called in the thread after each commit, before the result is reported. Once
    it returns true, that batch and all later batches fail with ``StorageLost``, and ``lost`` is set in the event loop.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        clock: Clock,
        limits: Limits | None = None,
        after_batch: Callable[[float], None] = lambda _: None,
        is_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self.found_damage = False
        self.lost = asyncio.Event()
        self.metrics = DatabaseMetrics(connection)
        self.state = State(connection, limits)
        self._callbacks: list[OnCommitted] = []
        self._connection = connection
        self._clock = clock
        self._after_batch = after_batch
        self._is_lost = is_lost
        self._is_gone = False
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Queued | None] = SimpleQueue()
        self._held_back: _Queued | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="tmpmaild-writer", daemon=True)
        self._thread.start()

    def on_committed(self, callback: OnCommitted) -> None:
        """Register ``callback``; it runs in the event loop after each commit, before the futures are completed."""
        self._callbacks.append(callback)

    def submit(self, operation: Operation[R]) -> asyncio.Future[R]:
        """Queue an operation. Cancelling the future only discards the result: the operation still runs."""
        future: asyncio.Future[object] = self._loop.create_future()
        if self._stopping:
            future.set_exception(Stopping("the writer is closed"))
        else:
            self._queue.put((operation, future))
        return cast("asyncio.Future[R]", future)  # resolves to the operation's result

    async def close(self) -> None:
        """Finish the queued operations and stop the thread."""
        if not self._stopping:
            self._stopping = True
            self._queue.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _work(self) -> None:
        while batch := self._next_batch():
            operations, futures = [one for one, _ in batch], [one for _, one in batch]
            outcomes, changes = self._store(operations)
            try:
                self._loop.call_soon_threadsafe(self._settle, futures, outcomes, changes)
            except RuntimeError:
                return  # the event loop is closed, so nothing waits for the results

    def _store(self, operations: list[Operation[object]]) -> tuple[Sequence[object], list[InboxChange]]:
        if not self._is_gone:
            begun = time.monotonic()
            outcomes, changes = self._commit(operations)
            self.metrics.count_batch(outcomes, time.monotonic() - begun)
            if not self._is_lost():
                self._measure(operations, outcomes)
                return outcomes, changes
            self._is_gone = self.found_damage = True
        return failures(StorageLost("the database is gone"), len(operations)), []

    def _measure(self, operations: list[Operation[object]], outcomes: Sequence[object]) -> None:
        moved_bytes = 0.0
        for operation, outcome in zip(operations, outcomes, strict=True):
            moved_bytes += math.inf if isinstance(outcome, StorageFull) else operation.size_bytes
        try:
            self._after_batch(moved_bytes)
            if moved_bytes > _REMEMBERED_BYTES:
                forget_values(self._connection)
        except (OSError, sqlite3.Error) as error:
            log.error("measuring the database after a batch failed: %s", error)  # noqa: TRY400 - caused by the disk, not by the code
        except Exception:
            log.exception("measuring the database after a batch failed")

    def _next_batch(self) -> list[_Queued]:
        """Wait for an operation; return it with other queued operations, or an empty list if the writer is closed."""
        first = self._held_back or self._queue.get()
        self._held_back = None
        if first is None:
            return []
        batch, size_bytes = [first], first[0].size_bytes
        while first[0].transactional and len(batch) < MAX_BATCH_OPERATIONS and size_bytes < MAX_BATCH_BYTES:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is None or not item[0].transactional:
                self._hold_back(item)
                break
            batch.append(item)
            size_bytes += item[0].size_bytes
        return batch

    def _hold_back(self, item: _Queued | None) -> None:
        if item is None:
            self._queue.put(None)  # the writer is closed, so nothing can be queued after this
        else:
            self._held_back = item

    def _commit(self, operations: list[Operation[object]]) -> tuple[Sequence[object], list[InboxChange]]:
        try:
            batch = Batch(self.state, self._clock())
            outcomes = self._run(batch, operations)
        except Exception as error:  # noqa: BLE001 - any error is passed to the futures
            self.found_damage = self.found_damage or _is_damage(error)
            self._roll_back()
            self.state.quotas.forget()
            if len(operations) == 1 or _is_locked(error):
                return failures(translate(error), len(operations)), []
            return self._commit_one_by_one(operations)
        self.state.last_message_key = batch.last_message_key
        self.metrics.inboxes += batch.added_inboxes
        self.metrics.messages += batch.added_messages
        self.metrics.count_evicted(batch.evicted)
        return outcomes, batch.changes

    def _commit_one_by_one(self, operations: list[Operation[object]]) -> tuple[Sequence[object], list[InboxChange]]:
        """Run each operation alone, so that only the faulty operation fails."""
        outcomes: list[object] = []
        changes: list[InboxChange] = []
        for operation in operations:
            outcome, change = self._commit([operation])
            outcomes += outcome
            changes += change
        return outcomes, changes

    def _run(self, batch: Batch, operations: list[Operation[object]]) -> Sequence[object]:
        kinds: Iterator[tuple[type[Operation[object]], Iterator[Operation[object]]]] = groupby(operations, type)
        groups = [(kind, list(group)) for kind, group in kinds]
        kind, members = groups[0]
        if len(groups) == 1 and (not kind.transactional or kind.is_one_statement(members)):
            return _run_group(kind, batch, members)
        self._connection.execute("BEGIN IMMEDIATE")
        outcomes = [outcome for kind, members in groups for outcome in _run_group(kind, batch, members)]
        self._connection.execute("COMMIT")
        return outcomes

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                log.error("rolling back failed: %s", error)  # noqa: TRY400 - caused by the disk, not by the code

    def _settle(
        self, futures: list[asyncio.Future[object]], outcomes: Sequence[object], changes: list[InboxChange]
    ) -> None:
        if self._is_gone:
            self.lost.set()
        if changes:
            notify(self._callbacks, changes)
        settle(futures, outcomes)


def _is_locked(error: Exception) -> bool:
    # Every retry would wait for the whole busy timeout again.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
