"""Batches: waiting operations run together, and each receives its own result. Also contains the commit metrics."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from tmpmaild.errors import RequestError, Stopping, StorageUnavailable
from tmpmaild.metrics import Count, Histogram, Metric
from tmpmaild.model import InboxChange
from tmpmaild.storage.base import OnCommitted

Q = TypeVar("Q")
A = TypeVar("A")

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)

log = logging.getLogger(__name__)


class CommitMetrics:
    """Commit metrics. ``reason_not_ready`` is the last batch's error, or "" while the database accepts writes."""

    def __init__(self) -> None:
        self.reason_not_ready = ""
        self._seconds = Histogram("storage_commit_seconds", "Duration of a batch, including its fsync.")
        self._operations = Histogram("storage_batch_operations", "Number of operations in a batch.", _BATCH_SIZES)
        self._failures = Count("storage_failed_batches_total", "Batches that failed because of the database or disk.")
        self._evicted = Count("postmaster_given_way_total", "Messages to postmaster and abuse deleted to make room.")

    def count_batch(self, outcomes: Sequence[object], seconds: float) -> None:
        """Count a batch whose operations had these outcomes."""
        self._seconds.observe(seconds)
        self._operations.observe(len(outcomes))
        reason = ""
        for outcome in outcomes:
            if isinstance(outcome, StorageUnavailable):
                reason = str(outcome)
        self.reason_not_ready = reason  # a single assignment, because another thread may read it
        if reason:
            self._failures.add()

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        return (self._seconds, self._operations, self._failures, self._evicted)

    def count_evicted(self, messages: int) -> None:
        """Count messages that a commit has deleted from the operator's inbox to make room for newer messages."""
        if messages:
            self._evicted.add(by=messages)
            log.warning(
                "the inbox of postmaster and abuse is full; deleted the oldest messages of its largest sender to make"
                " room: %d; see tmpmaild postmaster",
                messages,
                extra={"about": "postmaster"},
            )


def notify(callbacks: Iterable[OnCommitted], changes: Sequence[InboxChange]) -> None:
    """Call each callback with the committed changes. An exception is logged and does not affect the other callbacks."""
    for callback in callbacks:
        try:
            callback(changes)
        except Exception:
            log.exception("notifying a listener of a commit failed")


def settle(futures: Iterable[asyncio.Future[A]], outcomes: Iterable[A | Exception]) -> None:
    """Set the result or the exception of each operation on its future; cancelled futures are skipped."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def failures(error: Exception, count: int) -> list[Exception]:
    """Return one exception for each of ``count`` futures.

    A ``RequestError`` is copied, because an exception accumulates the tracebacks of all tasks that raise it.
    """
    if isinstance(error, RequestError):
        return [type(error)(*error.args) for _ in range(count)]
    return [error] * count


class Batcher(Generic[Q, A]):
    """Combines queries: all queries that arrive during a call to ``run`` are passed to the next call.

    ``run`` returns a result or an exception for each query, in order. ``count`` is called with the waiting queries and
    their futures, and returns the number of queries to pass to the next call.
    """

    def __init__(
        self,
        run: Callable[[list[Q]], Awaitable[Sequence[A | Exception]]],
        count: Callable[[Sequence[tuple[Q, object]]], int],
    ) -> None:
        self._run = run
        self._count = count
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def submit(self, query: Q) -> asyncio.Future[A]:
        """Queue a query. Cancelling the future only discards the result: the query still runs."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        if self._stopping:
            future.set_exception(Stopping("the storage is closed"))
            return future
        self._waiting.append((query, future))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return future

    async def close(self) -> None:
        """Reject new queries, and wait for the results of the queued queries."""
        self._stopping = True
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _work(self) -> None:
        try:
            while self._waiting:
                count = min(self._count(self._waiting), len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                settle([future for _, future in batch], await self._results([query for query, _ in batch]))
        finally:
            self._task = None

    async def _results(self, queries: list[Q]) -> Sequence[A | Exception]:
        try:
            return await self._run(queries)
        except Exception as error:  # noqa: BLE001 - every error is passed to the futures
            return failures(error, len(queries))
