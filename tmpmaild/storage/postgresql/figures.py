"""What the engine counts for the operator: what the database holds, and how the commits of this daemon go."""

from collections.abc import Sequence

from tmpmaild.errors import StorageUnavailable
from tmpmaild.measures import Count, Gauge, Histogram, Measure
from tmpmaild.storage.postgresql.usage import Usage

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Figures:
    """``trouble`` is the error of the last batch, "" while the database takes writes."""

    def __init__(self, usage: Usage) -> None:
        self.trouble = ""
        self._usage = usage
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

    def forget_trouble(self) -> None:
        """Note that the database answers again."""
        self.trouble = ""

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure. The database's are those of all daemons together."""
        return (
            self._commit_seconds,
            self._batch_operations,
            self._failures,
            Gauge("storage_inboxes", "Inboxes that are not swept yet.", lambda: self._usage.inboxes),
            Gauge("storage_messages", "Messages in the database.", lambda: self._usage.messages),
            Gauge("storage_used_bytes", "Octets of the database that are in use.", lambda: self._usage.stored_bytes),
            Gauge(
                "storage_max_bytes", "The cap of the database, storage.max_bytes.", lambda: self._usage.limits.cap_bytes
            ),
            Gauge("storage_has_room", "1 while new mail and addresses are accepted.", lambda: self._usage.has_room),
        )
