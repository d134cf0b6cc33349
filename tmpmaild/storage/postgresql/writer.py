"""The one writer of a daemon: a task that stores the queued operations, those of one kind together in one statement.

While one statement is under way, the next operations are collected: no timer, no added delay. A statement is a
transaction by itself. The operations are in ``delivering.py``, ``changing.py``, ``sweeping.py`` and ``policy.py``.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import asyncpg

from tmpmaild.errors import DatabaseError, RequestError, Stopping, StorageUnavailable
from tmpmaild.model import InboxChange
from tmpmaild.storage.commits import OnCommitted, settle, tell
from tmpmaild.storage.postgresql.connection import Session
from tmpmaild.storage.postgresql.deadlines import deadline
from tmpmaild.storage.postgresql.figures import Figures
from tmpmaild.storage.postgresql.obstacles import FAILURES, is_of_one_row, is_repeatable, translate
from tmpmaild.storage.postgresql.usage import Usage

MAX_BATCH_OPERATIONS: Final = 64
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024

_ATTEMPTS: Final = 5

log = logging.getLogger(__name__)

Clock = Callable[[], int]


class Batch:
    """What the operations of one batch share: the connection, the time, and the changes to report."""

    def __init__(self, connection: asyncpg.Connection, now_ms: int, usage: Usage) -> None:
        self.connection = connection
        self.now_ms = now_ms
        self.usage = usage
        self.changes: list[InboxChange] = []


class Operation:
    """One unit of writing. Consecutive operations of one class are run by one call: they share a statement."""

    size_bytes: int = 0
    rows: int = 1

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence[Any]) -> list[Any]:
        """Run the operations and return a result for each, in order.

        A ``RequestError`` *returned* in place of a result rejects that one operation, which must then have changed
        nothing. When an exception is *raised* by the statement of one row, each operation is tried again alone.
        """
        raise NotImplementedError


class Writer:
    """Runs operations in a task of its own, many in one statement, and then completes their futures."""

    def __init__(self, session: Session, *, clock: Clock, usage: Usage) -> None:
        self.figures = Figures(usage)
        self._session = session
        self._clock = clock
        self._usage = usage
        self._callbacks: list[OnCommitted] = []
        self._queue: deque[tuple[Operation, asyncio.Future[Any]]] = deque()
        self._queued = asyncio.Event()
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._work())

    def on_committed(self, callback: OnCommitted) -> None:
        """Register ``callback``; it runs after each commit, before the futures are completed."""
        self._callbacks.append(callback)

    def submit(self, operation: Operation) -> asyncio.Future[Any]:
        """Queue an operation. Cancelling the future discards the result; the operation runs all the same."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._stopping:
            future.set_exception(Stopping("the writer is closed"))
        else:
            self._queue.append((operation, future))
            self._queued.set()
        return future

    async def close(self) -> None:
        """Finish the queue and end the task."""
        self._stopping = True
        self._queued.set()
        await asyncio.shield(self._task)
        await self._session.close()

    async def _work(self) -> None:
        while True:
            while not self._queue:
                if self._stopping:
                    return
                self._queued.clear()
                await self._queued.wait()
            batch = self._next_batch()
            begun = time.monotonic()
            outcomes, changes = await self._store([operation for operation, _ in batch])
            self.figures.count_batch(outcomes, time.monotonic() - begun)
            if changes:
                tell(self._callbacks, changes)
            settle([future for _, future in batch], outcomes)

    def _next_batch(self) -> list[tuple[Operation, asyncio.Future[Any]]]:
        """Take the next operations of one kind, as many as one statement may have."""
        batch = [self._queue.popleft()]
        kind, size_bytes, rows = type(batch[0][0]), batch[0][0].size_bytes, batch[0][0].rows
        while self._queue and type(self._queue[0][0]) is kind and len(batch) < MAX_BATCH_OPERATIONS:
            size_bytes += self._queue[0][0].size_bytes
            rows += self._queue[0][0].rows
            if size_bytes > MAX_BATCH_BYTES or rows > 4 * MAX_BATCH_OPERATIONS:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _store(self, operations: list[Operation]) -> tuple[list[Any], list[InboxChange]]:
        try:
            return await self._run(operations)
        except (RequestError, DatabaseError) as error:  # no connection
            return _failures(StorageUnavailable(str(error)), len(operations)), []
        except Exception as error:  # noqa: BLE001 - the futures fail with it, whatever it is
            if len(operations) == 1 or not is_of_one_row(error):
                return _failures(translate(error), len(operations)), []
        outcomes: list[Any] = []
        changes: list[InboxChange] = []
        for operation in operations:
            outcome, change = await self._store([operation])
            outcomes += outcome
            changes += change
        return outcomes, changes

    async def _run(self, operations: list[Operation]) -> tuple[list[Any], list[InboxChange]]:
        attempt = 1
        while True:
            connection = await self._session.connection()
            batch = Batch(connection, self._clock(), self._usage)
            self._session.was_warned = False
            try:
                with deadline(connection):
                    outcomes = await type(operations[0]).run(batch, operations)
            except FAILURES as error:
                if attempt == _ATTEMPTS or not is_repeatable(error):
                    raise
                attempt += 1
                continue
            if self._session.was_warned:  # it is committed here, but the standby may not have it
                raise StorageUnavailable("the server did not wait for its standby")
            assert len(outcomes) == len(operations)  # or a future would never be completed
            return outcomes, batch.changes


def _failures(error: Exception, count: int) -> list[Exception]:
    # One exception for each future: a shared one, raised in several tasks, would collect all their tracebacks.
    if isinstance(error, RequestError):
        return [type(error)(*error.args) for _ in range(count)]
    return [error] * count
