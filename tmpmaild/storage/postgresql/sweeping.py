"""Deletes what has expired, in short steps, and drops the partitions of slots that have passed."""

from collections.abc import Sequence
from typing import Any, Final

from tmpmaild import ids
from tmpmaild.model import NAME_HELD_MS
from tmpmaild.storage.base import OPERATOR_MAIL_MS
from tmpmaild.storage.postgresql.quotas import INBOX_BYTES
from tmpmaild.storage.postgresql.writer import Batch, Operation

_STEP_ROWS: Final = 500
_STEP_BYTES: Final = 8 * 1024 * 1024
_SWEEP: Final = "SELECT * FROM sweep($1, $2, $3, $4, $5, $6, $7)"


class Sweep(Operation):
    """Delete some of what has expired. The result says whether there may be more."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["Sweep"]) -> list[Any]:
        """Run one step for all of them."""
        now_ms = max(operation.now_ms for operation in operations)
        operator_before = ids.first_key(max(now_ms - OPERATOR_MAIL_MS, 0))
        values = (batch.usage.shard, now_ms, NAME_HELD_MS, INBOX_BYTES, operator_before, _STEP_ROWS, _STEP_BYTES)
        found = await batch.connection.fetchrow(_SWEEP, *values)
        batch.usage.note(found["totals"])
        return [found["more"] for _ in operations]


class CountUsage(Operation):
    """Ask what all daemons together have stored."""

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["CountUsage"]) -> list[Any]:
        """Ask once for all of them."""
        batch.usage.note(await batch.connection.fetchval("SELECT count_usage($1, 0, 0, 0)", batch.usage.shard))
        return [None for _ in operations]
