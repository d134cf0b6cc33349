"""Batches: operations that wait are run together, then each gets its own result. Also the metrics of commits."""

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
    """How the commits go. ``reason_not_ready`` is the error of the last batch, "" while the database takes writes."""

    def __init__(self) -> None:
        self.reason_not_ready = ""
        self._seconds = Histogram("storage_commit_seconds", "How long a batch took, its fsync included.")
        self._operations = Histogram("storage_batch_operations", "Operations in a batch.", _BATCH_SIZES)
        self._failures = Count("storage_failed_batches_total", "Batches that failed because of the database or disk.")
        self._given_way = Count("postmaster_given_way_total", "Messages to postmaster deleted for newer ones.")

    def count_batch(self, outcomes: Sequence[object], seconds: float) -> None:
        """Count a batch with the results of its operations."""
        self._seconds.observe(seconds)
        self._operations.observe(len(outcomes))
        reason = ""
        for outcome in outcomes:
            if isinstance(outcome, StorageUnavailable):
                reason = str(outcome)
        self.reason_not_ready = reason  # at once: another thread may read it
        if reason:
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


def notify(callbacks: Iterable[OnCommitted], changes: Sequence[InboxChange]) -> None:
    """Call each with what has been committed; one that fails is logged and does not keep the others from it."""
    for callback in callbacks:
        try:
            callback(changes)
        except Exception:
            log.exception("telling of a commit failed")


def settle(futures: Iterable[asyncio.Future[A]], outcomes: Iterable[A | Exception]) -> None:
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
