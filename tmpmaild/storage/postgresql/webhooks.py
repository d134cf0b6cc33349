"""Webhooks: set, leased and settled by the writer, read page by page. ``sweep`` deletes them with their inbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import asyncpg

from tmpmaild.errors import RequestError
from tmpmaild.storage.postgresql.changing import refusal
from tmpmaild.storage.postgresql.writer import Batch, Operation
from tmpmaild.storage.webhookrows import SettledRow, WebhookRow

_ROWS: Final = """
SELECT w.inbox_id, i.address, i.expires_at_ms, w.version, w.told_message, w.told_verdict, w.failures, w.next_at_ms,
       w.called_at_ms, w.result, w.webhook, i.last_key
FROM webhook AS w
CROSS JOIN LATERAL (SELECT address, expires_at_ms, last_key FROM inbox WHERE id = w.inbox_id OFFSET 0) AS i
WHERE w.inbox_id > $1 ORDER BY w.inbox_id LIMIT $2
"""
_SET: Final = "SELECT set_webhook($1, $2, $3, $4)"
_TAKE: Final = "SELECT * FROM take_webhooks($1, $2, $3::bigint[])"
_SETTLE: Final = """
SELECT settle_webhooks($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::bigint[],
                       $7::bigint[], $8::text[])
"""


async def select_webhooks(connection: asyncpg.Connection, after: int, limit: int) -> list[WebhookRow]:
    """Read the webhooks of the inboxes that follow."""
    return [WebhookRow._make(row) for row in await connection.fetch(_ROWS, after, limit)]


@dataclass(eq=False)
class SetWebhook(Operation):
    """Set the webhook of an inbox that is alive, or take it away; refused as ``SetExpiry``."""

    is_alone: ClassVar[bool] = True
    inbox_key: int
    now_ms: int
    version: int
    webhook: str | None

    async def apply(self, batch: Batch) -> RequestError | None:
        """Delete the one before, and insert this one."""
        now_ms = max(self.now_ms, batch.now_ms)
        return refusal(await batch.connection.fetchval(_SET, now_ms, self.inbox_key, self.version, self.webhook))


@dataclass(eq=False)
class TakeWebhook(Operation):
    """Lease a webhook that is due; the result is its version then, or None."""

    inbox_key: int
    now_ms: int
    until_ms: int

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["TakeWebhook"]) -> list[Any]:
        """Lease those that are due; of two operations for the same one the first succeeds."""
        now_ms = max(one.now_ms for one in operations)
        until_ms = max(one.until_ms for one in operations)
        wanted = [one.inbox_key for one in operations]
        taken = dict(await batch.connection.fetch(_TAKE, now_ms, until_ms, wanted))
        return [taken.pop(key, None) for key in wanted]


@dataclass(eq=False)
class SettleWebhook(Operation):
    """Store what has become of a call; False if the webhook was changed or taken again meanwhile."""

    settled: SettledRow

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["SettleWebhook"]) -> list[Any]:
        """Store them."""
        columns = zip(*[one.settled for one in operations], strict=True)
        stored: list[Any] = await batch.connection.fetchval(_SETTLE, *map(list, columns))
        return stored
