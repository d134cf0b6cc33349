"""What every engine does around a commit: count it, tell what has changed, complete the futures of its operations."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tmpmaild.errors import StorageUnavailable
from tmpmaild.measures import Count, Histogram, Measure
from tmpmaild.model import InboxChange

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)

log = logging.getLogger(__name__)

OnCommitted = Callable[[Sequence[InboxChange]], None]


class CommitFigures:
    """How the commits go. ``trouble`` is the error of the last batch, "" while the database takes writes."""

    def __init__(self) -> None:
        self.trouble = ""
        self._seconds = Histogram("storage_commit_seconds", "How long a batch took, its fsync included.")
        self._operations = Histogram("storage_batch_operations", "Operations in a batch.", _BATCH_SIZES)
        self._failures = Count("storage_failed_batches_total", "Batches that failed because of the database or disk.")

    def count_batch(self, outcomes: Sequence[object], seconds: float) -> None:
        """Count a batch with the results of its operations."""
        self._seconds.observe(seconds)
        self._operations.observe(len(outcomes))
        self.trouble = next((str(outcome) for outcome in outcomes if isinstance(outcome, StorageUnavailable)), "")
        if self.trouble:
            self._failures.add()

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        return (self._seconds, self._operations, self._failures)


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
