"""Webhooks: set and stored by the writer, read page by page. A trigger deletes them with their inbox."""

import sqlite3
from dataclasses import dataclass
from typing import ClassVar

from tmpmaild.errors import RequestError
from tmpmaild.storage.sqlite.batches import Batch, Operation
from tmpmaild.storage.sqlite.changing import refusal
from tmpmaild.storage.sqlite.layout import FILLER, SLOT_BYTES, SLOTS, padding_bytes
from tmpmaild.storage.webhookrows import StateRow, WebhookRow

# The inbox of a webhook and its newest message are looked up for each; CROSS JOIN keeps this order.
_ROWS = f"""
SELECT w.inbox_id, CAST(rtrim(substr(a.slots, w.inbox_id % {SLOTS} * {SLOT_BYTES} + 1, {SLOT_BYTES})) AS TEXT),
       i.expires_at_ms, w.version, w.told_message_id, w.told_verdict_id, w.failures, w.next_at_ms, w.called_at_ms,
       w.result, t.webhook, coalesce((SELECT max(m.id) FROM message AS m WHERE m.inbox_id = w.inbox_id), 0)
FROM webhook AS w CROSS JOIN webhook_text AS t ON t.inbox_id = w.inbox_id CROSS JOIN inbox AS i ON i.id = w.inbox_id
     CROSS JOIN address AS a ON a.id = w.inbox_id / {SLOTS}
WHERE w.inbox_id > :after ORDER BY w.inbox_id LIMIT :limit
"""


def select_webhooks(connection: sqlite3.Connection, after: int, limit: int) -> list[WebhookRow]:
    """Read the webhooks of the inboxes that follow."""
    return [WebhookRow._make(row) for row in connection.execute(_ROWS, {"after": after, "limit": limit})]


@dataclass(eq=False)
class SetWebhook(Operation):
    """Set the webhook of an inbox that is alive, or take it away; refused as ``SetExpiry``."""

    changes: ClassVar[bool] = False
    inbox_key: int
    now_ms: int
    version: int
    webhook: str | None

    def apply(self, batch: Batch) -> RequestError | None:
        """Delete the one before, and insert this one."""
        refused = refusal(batch, self.inbox_key, self.now_ms)
        if refused is not None:
            return refused
        execute = batch.connection.execute
        if execute("DELETE FROM webhook WHERE inbox_id = ?", (self.inbox_key,)).rowcount:
            batch.state.unerased = True
        if self.webhook is not None:
            told = batch.last_message_key
            values = (self.inbox_key, self.version, told, told)
            execute("INSERT INTO webhook VALUES (?, ?, ?, ?, 0, 0, NULL, '')", values)
            text = (self.webhook, padding_bytes(len(self.webhook.encode())))
            execute("INSERT INTO webhook_text VALUES (?, ?, ?, zeroblob(?))", (self.inbox_key, FILLER, *text))
        return None


@dataclass(eq=False)
class StoreWebhook(Operation):
    """Store the state of a webhook, which leases it, or ends a lease; False if it no longer has the version."""

    changes: ClassVar[bool] = False
    row: StateRow

    def apply(self, batch: Batch) -> bool:
        """Store it, or delete the webhook."""
        inbox_key, version, *state = self.row
        execute = batch.connection.execute
        if self.row.next_at_ms is None:
            sql = "DELETE FROM webhook WHERE inbox_id = ? AND version = ?"
            is_done = execute(sql, (inbox_key, version)).rowcount > 0
            batch.state.unerased = batch.state.unerased or is_done
            return is_done
        sql = (
            "UPDATE webhook SET version = version + 1, told_message_id = ?, told_verdict_id = ?, failures = ?,"
            " next_at_ms = ?, called_at_ms = ?, result = ? WHERE inbox_id = ? AND version = ?"
        )
        return execute(sql, (*state, inbox_key, version)).rowcount > 0
