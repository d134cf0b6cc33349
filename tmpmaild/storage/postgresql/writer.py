"""A daemon's only writer: a task that runs queued operations, combining those of the same kind in one statement.

The next operations are collected while a statement runs, so no timer is needed and no delay is added. Each statement is
a separate transaction, which can be retried if the server has rolled it back. The operations are in ``operations.py``.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Concatenate, Final, Generic, ParamSpec, Self, TypeVar, cast

import asyncpg

from tmpmaild.errors import DatabaseError, RequestError, StorageUnavailable
from tmpmaild.metrics import Gauge, Metric
from tmpmaild.model import InboxChange
from tmpmaild.storage.base import Limits, OnCommitted
from tmpmaild.storage.batching import Batcher, CommitMetrics, failures, notify
from tmpmaild.storage.operatorbox import OPERATOR_MAX_BYTES, OPERATOR_MAX_MESSAGES
from tmpmaild.storage.postgresql.server import (
    FAILURES,
    STATEMENT_SECONDS,
    Session,
    deadline,
    is_of_one_row,
    repeated,
    single_row,
    translate,
)

MIN_STORED_BYTES: Final = 4096
"""The charge for the smallest message: its rows and indexes, including the free space in their pages."""

INBOX_BYTES: Final = 1024
"""The charge for an inbox, from its creation until its tombstone is deleted."""

DEFAULT_CAP_BYTES: Final = 10 * 1024**3
MAX_BATCH_OPERATIONS: Final = 64
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
_SHARDS: Final = 64  # the number of rows in the table ``usage``
_BYTES_PER_SECOND: Final = 2 * 1024 * 1024  # the speed of a slow network, used for the time limits of large batches
_MAX_EXTRA_SECONDS: Final = 50.0
_WAITS: Final = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep')"

log = logging.getLogger(__name__)

Clock = Callable[[], int]
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def allowed(limits: Limits) -> tuple[int, ...]:
    """Return the limits as a value for the ``allowed`` parameter of the database functions."""
    return (
        limits.inbox_messages,
        limits.inbox_bytes,
        limits.creator_bytes,
        OPERATOR_MAX_MESSAGES,
        OPERATOR_MAX_BYTES,
        MIN_STORED_BYTES,
    )


class Usage:
    """The total usage of all daemons at the time of this daemon's last statement.

    ``shard`` is the row of the table ``usage`` that this daemon updates.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.shard = secrets.randbelow(_SHARDS)
        self.stored_bytes = 0
        self.inboxes = 0
        self.messages = 0

    def note(self, totals: Sequence[int]) -> None:
        """Store the totals that a statement returned."""
        self.stored_bytes, self.inboxes, self.messages = totals

    @property
    def has_room(self) -> bool:
        """Whether the usage, plus the reserve for mail that is being received, does not exceed the cap."""
        return self.stored_bytes + self.limits.reserve_bytes <= self.limits.max_bytes


class DatabaseMetrics(CommitMetrics):
    """Metrics of the database and its commits. The totals include the data of all daemons."""

    def __init__(self, usage: Usage) -> None:
        super().__init__()
        self._usage = usage

    def forget_failure(self) -> None:
        """Clear the error of the last batch, because the database responds again."""
        self.reason_not_ready = ""

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        return (
            *super().metrics(),
            Gauge("storage_inboxes", "Inboxes that have not been swept yet.", lambda: self._usage.inboxes),
            Gauge("storage_messages", "Messages in the database.", lambda: self._usage.messages),
            Gauge("storage_used_bytes", "Bytes of the database in use.", lambda: self._usage.stored_bytes),
            Gauge(
                "storage_max_bytes",
                "The value of storage.max_bytes.",
                lambda: self._usage.limits.max_bytes,
            ),
            Gauge("storage_has_room", "1 while new mail and addresses are accepted.", lambda: self._usage.has_room),
        )


class Batch:
    """State shared by the operations of one batch: the connection, the time, and the changes to report."""

    def __init__(self, connection: asyncpg.Connection, now_ms: int, usage: Usage) -> None:
        self.connection = connection
        self.now_ms = now_ms
        self.usage = usage
        self.changes: list[InboxChange] = []
        self.evicted = 0

    async def call(self, sql: str, *values: object) -> asyncpg.Record:
        """Run a statement whose first parameter is the shard, and store the totals that it returns."""
        found = await single_row(self.connection, sql, self.usage.shard, *values)
        self.usage.note(found["totals"])
        return found


class NotCombinable(Exception):
    """Raised by ``Operation.run`` if the operations cannot run together.

    Nothing has changed, and smaller groups may succeed.
    """


class Operation(Generic[R_co]):
    """A write operation with a result. Consecutive operations of the same class share a statement.

    Each operation's arguments are passed as a row, and the outcome is the same as if the operations ran one after
    another. Arguments from different callers are never merged into a single value, such as the latest of several times.
    """

    size_bytes: int = 0
    rows: int = 1

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> Sequence[R_co | RequestError]:
        """Run the operations in one transaction, and return the result of each operation in order.

        A ``RequestError`` *returned* in place of a result rejects only that operation, which must not have changed
        anything. If an exception is *raised*, no operation has changed anything. After ``NotCombinable`` or an error
        caused by the data of one row, the writer runs each half of the operations separately.
        """
        raise NotImplementedError


class Standalone(Operation[R_co]):
    """An operation that runs alone and calls a function with the batch and these arguments."""

    def __init__(
        self,
        function: Callable[Concatenate[Batch, P], Awaitable[R_co | RequestError]],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> None:
        self.call: Callable[[Batch], Awaitable[R_co | RequestError]] = lambda batch: function(
            batch, *arguments, **options
        )

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Self]) -> list[R_co | RequestError]:
        """Call the function."""
        return [await one.call(batch) for one in operations]


class Writer:
    """Runs operations in its own task, combining several in one statement, and completes their futures."""

    def __init__(self, session: Session, *, clock: Clock, usage: Usage) -> None:
        self.metrics = DatabaseMetrics(usage)
        self._session = session
        self._clock = clock
        self._usage = usage
        self._callbacks: list[OnCommitted] = []
        self._left_pid: int | None = None
        self._batcher: Batcher[Operation[object], object] = Batcher(self._commit, _count_combinable)

    def submit(self, operation: Operation[R]) -> asyncio.Future[R]:
        """Queue an operation. Cancelling the future only discards the result: the operation still runs."""
        return cast("asyncio.Future[R]", self._batcher.submit(operation))  # resolves to the operation's result

    def on_committed(self, callback: OnCommitted) -> None:
        """Register ``callback``; it runs after each commit, before the futures are completed."""
        self._callbacks.append(callback)

    @property
    def reason_not_ready(self) -> str:
        """The reason why data cannot be stored (no connection, or the last batch failed), or ""."""
        return self._session.reason_not_open or self.metrics.reason_not_ready

    async def connect(self) -> None:
        """Open the connection if needed, and clear the last error. Raises the same errors as ``Server.connect``."""
        was_closed = self._session.reason_not_open
        await self._session.connection()
        if was_closed:
            self.metrics.forget_failure()

    async def close(self) -> None:
        """Finish the queued operations, and close the connection."""
        await self._batcher.close()
        await self._session.close()

    async def _commit(self, operations: list[Operation[object]]) -> Sequence[object]:
        begun = time.monotonic()
        outcomes, changes = await self._store(operations)
        self.metrics.count_batch(outcomes, time.monotonic() - begun)
        if changes:
            notify(self._callbacks, changes)
        return outcomes

    async def _store(self, operations: list[Operation[object]]) -> tuple[Sequence[object], list[InboxChange]]:
        try:
            return await repeated(lambda: self._run(operations))
        except (RequestError, DatabaseError) as error:  # no connection
            return failures(StorageUnavailable(str(error)), len(operations)), []
        except Exception as error:  # noqa: BLE001 - any error is passed to the futures
            if len(operations) == 1 or not (isinstance(error, NotCombinable) or is_of_one_row(error)):
                return failures(translate(error), len(operations)), []
        half = len(operations) // 2
        outcomes, changes = await self._store(operations[:half])
        more_outcomes, more_changes = await self._store(operations[half:])
        return [*outcomes, *more_outcomes], changes + more_changes

    async def _connection(self) -> asyncpg.Connection:
        """Return the connection, unless a statement on the previous connection is still waiting for a standby.

        While that statement is waiting, the server does not notice that the connection was closed. Without this check,
        each retry would occupy another connection, and store another copy of the messages once the standby returns.
        """
        connection = await self._session.connection()
        if self._left_pid is not None:
            with deadline(connection):
                if await connection.fetchval(_WAITS, self._left_pid):
                    self._session.try_next_host()
                    raise StorageUnavailable("the server waits for a standby")
            self._left_pid = None
        return connection

    async def _run(self, operations: list[Operation[object]]) -> tuple[Sequence[object], list[InboxChange]]:
        connection = await self._connection()
        pid = connection.get_server_pid()
        batch = Batch(connection, self._clock(), self._usage)
        self._session.was_warned = False
        try:
            with deadline(connection, _seconds(operations)):
                outcomes = await type(operations[0]).run(batch, operations)
        except FAILURES:
            self._left_pid = pid if connection.is_closed() else None
            raise
        if self._session.was_warned:  # the data is committed on the primary, but possibly not on the standby
            log.error("the server did not wait for its standby")
            raise StorageUnavailable("the server did not wait for its standby")
        assert len(outcomes) == len(operations)  # otherwise a future would never be completed
        self.metrics.count_evicted(batch.evicted)
        return outcomes, batch.changes


def _count_combinable(waiting: Sequence[tuple[Operation[object], object]]) -> int:
    """Return how many consecutive operations of the same kind, starting with the first, fit in the next statement."""
    kind = type(waiting[0][0])
    if kind is Standalone:
        return 1
    size_bytes = rows = 0
    for count, (operation, _) in enumerate(islice(waiting, MAX_BATCH_OPERATIONS)):
        size_bytes, rows = size_bytes + operation.size_bytes, rows + operation.rows
        is_too_much = size_bytes > MAX_BATCH_BYTES or rows > 4 * MAX_BATCH_OPERATIONS
        if count and (type(operation) is not kind or is_too_much):
            return count
    return MAX_BATCH_OPERATIONS


def _seconds(operations: Sequence[Operation[object]]) -> float:
    """Return the time limit for the server's response."""
    # Inboxes may expire in different slots, and a copy of the message is stored for each slot.
    more_bytes = sum(operation.size_bytes * operation.rows for operation in operations) - MAX_BATCH_BYTES
    return STATEMENT_SECONDS + min(max(more_bytes, 0) / _BYTES_PER_SECOND, _MAX_EXTRA_SECONDS)
