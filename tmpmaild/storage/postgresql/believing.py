"""Holds the ends that a notification tells against the database: any role that may connect can send one.

What is not so there is left out: a false end would be believed by followers, who then look no more.
"""

from collections.abc import Sequence
from typing import Final

import asyncpg

from tmpmaild import ids
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted

_STATES: Final = """
SELECT i.id, i.expires_at_ms, ARRAY(
    SELECT key FROM message WHERE inbox_id = i.id AND slot = i.slot AND key = ANY($2::bigint[])
) AS keys
FROM inbox AS i WHERE i.id = ANY($1::bigint[])
"""


async def true_ones(connection: asyncpg.Connection, told: Sequence[InboxChange], now_ms: int) -> list[InboxChange]:
    """Return the changes that are so: all without a notice, and of the others those that the database confirms."""
    doubted = [int(change.inbox_id) for change in told if change.notice is not None]
    keys = [key for change in told if (key := _message_key(change)) is not None]
    rows = {row["id"]: row for row in await connection.fetch(_STATES, doubted, keys)}
    return [change for change in told if _is_so(change, rows.get(int(change.inbox_id)), now_ms)]


def _message_key(change: InboxChange) -> int | None:
    """Return the key of the message that a notice says was deleted; None if there is none in that inbox."""
    if not isinstance(change.notice, MessageDeleted) or not ids.is_message_id(change.notice.message_id):
        return None
    inbox_key, message_id = int(change.inbox_id), change.notice.message_id
    key = ids.key_not_above(message_id, inbox_key)
    return key if key >= 0 and ids.inbox_message_id(inbox_key, key) == message_id else None


def _is_so(change: InboxChange, row: asyncpg.Record | None, now_ms: int) -> bool:
    match change.notice:
        case None:
            return True
        case MessageDeleted():
            key = _message_key(change)
            return key is not None and (row is None or key not in row["keys"])
        case ExpiryMoved(expires_at_ms):  # an inbox that has been moved again since, to later, is told of that too
            return row is not None and row["expires_at_ms"] <= expires_at_ms
        case InboxDeleted():
            return row is None or row["expires_at_ms"] <= now_ms
