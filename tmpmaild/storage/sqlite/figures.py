"""What the engine counts for the operator: what the database holds, and how its commits go."""

import sqlite3
from collections.abc import Sequence

from tmpmaild.errors import StorageUnavailable
from tmpmaild.measures import Count, Gauge, Histogram, Measure

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Figures:
    """Written by the writer's thread, read by the event loop.

    The tables are counted once, when this is made; after that each commit adds what it changed. ``trouble`` is the
    error of the last batch, "" while the database takes writes.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        sql = "SELECT count(*), coalesce(sum(message_count), 0) FROM inbox WHERE swept = 0"
        self._inboxes, self._messages = connection.execute(sql).fetchone()
        self.trouble = ""
        self._commit_seconds = Histogram("storage_commit_seconds", "How long a batch took, its fsync included.")
        self._batch_operations = Histogram("storage_batch_operations", "Operations in a batch.", _BATCH_SIZES)
        self._failures = Count("storage_failed_batches_total", "Batches that failed because of the database or disk.")

    def count_batch(self, outcomes: Sequence[object], seconds: float) -> None:
        """Count a batch with the results of its operations."""
        self._commit_seconds.observe(seconds)
        self._batch_operations.observe(len(outcomes))
        self.trouble = next((str(outcome) for outcome in outcomes if isinstance(outcome, StorageUnavailable)), "")
        if self.trouble:
            self._failures.add()

    def count_rows(self, inboxes: int, messages: int) -> None:
        """Add what a commit added, or took away."""
        self._inboxes += inboxes
        self._messages += messages

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        return (
            self._commit_seconds,
            self._batch_operations,
            self._failures,
            # The operator's inbox is one of the rows.
            Gauge("storage_inboxes", "Inboxes that are not swept yet.", lambda: self._inboxes - 1),
            Gauge("storage_messages", "Messages in the database.", lambda: self._messages),
        )
