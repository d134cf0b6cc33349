"""Webhooks: set and stored by the writer, read page by page. ``sweep`` deletes them with their inbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import asyncpg

from tmpmaild.errors import RequestError
from tmpmaild.storage.postgresql.changing import refusal
from tmpmaild.storage.postgresql.writer import Batch, Operation
from tmpmaild.storage.webhookrows import StateRow, WebhookRow

_ROWS: Final = """
SELECT w.inbox_id, i.address, i.expires_at_ms, w.version, w.told_message, w.told_verdict, w.failures, w.next_at_ms,
       w.called_at_ms, w.result, w.webhook, i.last_key
FROM webhook AS w
CROSS JOIN LATERAL (SELECT address, expires_at_ms, last_key FROM inbox WHERE id = w.inbox_id OFFSET 0) AS i
WHERE w.inbox_id > $1 ORDER BY w.inbox_id LIMIT $2
"""
_SET: Final = "SELECT set_webhook($1, $2, $3, $4)"
# Daemons up to 1.0.2 lease by take_webhooks() and store by settle_webhooks(). Rows are locked in the order of their
# inboxes, then compared: what another daemon has changed in between is seen by then.
_STORE: Final = """
WITH wanted AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::bigint[],
                         $7::bigint[], $8::text[])
        WITH ORDINALITY AS n(id, version, message, verdict, failures, next_ms, called_ms, result, place)
), locked AS (
    SELECT inbox_id FROM webhook WHERE inbox_id = ANY($1) ORDER BY inbox_id FOR UPDATE
), stored AS (
    UPDATE webhook AS w SET version = w.version + 1, told_message = n.message, told_verdict = n.verdict,
            failures = n.failures, next_at_ms = n.next_ms, called_at_ms = n.called_ms, result = n.result
        FROM wanted AS n
        WHERE w.inbox_id = n.id AND w.version = n.version AND n.next_ms IS NOT NULL
            AND w.inbox_id = ANY(ARRAY(SELECT inbox_id FROM locked))
        RETURNING n.place
), deleted AS (
    DELETE FROM webhook AS w USING wanted AS n
        WHERE w.inbox_id = n.id AND w.version = n.version AND n.next_ms IS NULL
            AND w.inbox_id = ANY(ARRAY(SELECT inbox_id FROM locked))
        RETURNING n.place
)
SELECT place FROM stored UNION ALL SELECT place FROM deleted
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
class StoreWebhook(Operation):
    """Store the state of a webhook, which leases it, or ends a lease; False if it no longer has the version."""

    row: StateRow

    @classmethod
    async def run(cls, batch: Batch, operations: Sequence["StoreWebhook"]) -> list[Any]:
        """Store each where the version is that of its row; of two for the same version one is stored."""
        columns = zip(*[one.row for one in operations], strict=True)
        places = {row["place"] for row in await batch.connection.fetch(_STORE, *map(list, columns))}
        return [place in places for place in range(1, len(operations) + 1)]
