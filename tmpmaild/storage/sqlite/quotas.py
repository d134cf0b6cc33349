"""The quotas of inboxes and of their creators: whether a mail still fits, checked in memory for a whole batch."""

import sqlite3
from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct

from tmpmaild.model import InboxChange
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.settings import NO_LIMIT, Limits
from tmpmaild.storage.sqlite.layout import LEAST_STORED_BYTES

_MAX_INBOXES = 10_000

# One row for any number of inboxes: the GIL is released and taken again for each row. The plus keeps SQLite from using
# the index over swept, in which it would scan all live inboxes.
_INBOXES = """
SELECT json_group_array(json_array(i.id, i.expires_at_ms, i.message_count, i.stored_bytes, hex(i.creator),
                                   coalesce(c.stored_bytes, 0)))
FROM inbox AS i LEFT JOIN creator AS c ON c.hash = i.creator
WHERE +i.swept = 0 AND i.id IN ({marks})
"""
_decode = msgspec.json.Decoder(list[tuple[int, int, int, int, str, int]]).decode


class _Holder:
    """An inbox, or all inboxes of one creator: what it holds and what it may hold."""

    __slots__ = ("max_bytes", "max_messages", "messages", "stored_bytes")

    def __init__(self, messages: int, stored_bytes: int, max_messages: int, max_bytes: int) -> None:
        self.messages = messages
        self.stored_bytes = stored_bytes
        self.max_messages = max_messages
        self.max_bytes = max_bytes

    def add(self, messages: int, cost_bytes: int) -> bool:
        """Add, or take away if negative; return whether it is within its limits then."""
        self.messages += messages
        self.stored_bytes += cost_bytes
        return self.messages <= self.max_messages and self.stored_bytes <= self.max_bytes

    @property
    def full(self) -> bool:
        return self.messages >= self.max_messages or self.stored_bytes + LEAST_STORED_BYTES > self.max_bytes


class _Inbox(Struct):
    """What was read of an inbox, updated with what later batches have added."""

    expires_at_ms: int
    holders: tuple[_Holder, ...]


class InboxQuotas:
    """The quotas of the inboxes that receive mail, as in the tables; used in the writer's thread only.

    What one batch has read is kept for the next, because there is one writer: reading releases the GIL four times.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._now_ms = 0
        self._inboxes: dict[str, _Inbox] = {}
        self._creators: dict[str, _Holder] = {}
        self._changed: set[str] = set()

    def load(self, connection: sqlite3.Connection, now_ms: int, inbox_ids: Collection[str]) -> None:
        """Begin a batch that delivers to these inboxes: read those that are not in memory."""
        if len(self._inboxes) > _MAX_INBOXES:
            self.forget()
        self._now_ms = now_ms
        self._changed.clear()
        unknown = [int(inbox_id) for inbox_id in inbox_ids if inbox_id not in self._inboxes]
        if unknown:
            self._read(connection, unknown)

    def forget(self) -> None:
        """Forget what was read, because the tables have changed otherwise than by ``charge``."""
        self._inboxes.clear()
        self._creators.clear()

    def _read(self, connection: sqlite3.Connection, keys: list[int]) -> None:
        sql = _INBOXES.format(marks=",".join("?" * len(keys)))
        (found,) = connection.execute(sql, keys).fetchone()
        for key, expires_at_ms, messages, stored_bytes, creator, creator_bytes in _decode(found):
            inbox_id = str(key)
            inbox = _Holder(messages, stored_bytes, *self._maxima(inbox_id))
            if creator and creator not in self._creators:
                self._creators[creator] = _Holder(0, creator_bytes, NO_LIMIT, self.limits.max_creator_bytes)
            holders = (inbox, self._creators[creator]) if creator else (inbox,)
            self._inboxes[inbox_id] = _Inbox(expires_at_ms, holders)

    def is_live(self, inbox_id: str) -> bool:
        """Return whether an inbox exists and has not expired."""
        inbox = self._inboxes.get(inbox_id)
        return inbox is not None and inbox.expires_at_ms > self._now_ms

    def charge(self, inbox_ids: Iterable[str], cost_bytes: int) -> bool:
        """Charge a mail of ``cost_bytes`` in the file to all of these inboxes, or to none if one is full: False."""
        holders = [holder for inbox_id in inbox_ids for holder in self._inboxes[inbox_id].holders]
        fits = True
        for holder in holders:
            fits = holder.add(1, cost_bytes) and fits
        if not fits:
            for holder in holders:
                holder.add(-1, -cost_bytes)
            return False
        self._changed.update(inbox_ids)
        return True

    def changes(self) -> list[InboxChange]:
        """Return the state after the batch of each inbox that was charged."""
        return [self.change(inbox_id) for inbox_id in self._changed]

    def change(self, inbox_id: str) -> InboxChange:
        """Return the state of an inbox of this batch."""
        inbox, *creator = self._inboxes[inbox_id].holders
        share_full = any(holder.full for holder in creator)
        return InboxChange(inbox_id, full=inbox.full or share_full, share_full=share_full)

    def _maxima(self, inbox_id: str) -> tuple[int, int]:
        limits = self.limits
        if inbox_id == OPERATOR_INBOX_ID:
            return limits.operator_max_messages, limits.operator_max_bytes
        return limits.max_messages, limits.max_bytes


def creator_is_full(connection: sqlite3.Connection, creator_hash: bytes, limits: Limits) -> bool:
    """Return whether not even the smallest mail fits the quota of a creator."""
    sql = "SELECT stored_bytes > ? FROM creator WHERE hash = ?"
    row = connection.execute(sql, (limits.max_creator_bytes - LEAST_STORED_BYTES, creator_hash)).fetchone()
    return bool(row and row[0])


def operator_is_full(connection: sqlite3.Connection, limits: Limits) -> bool:
    """Return whether the operator's inbox is full."""
    quotas = InboxQuotas(limits)
    quotas.load(connection, 0, [OPERATOR_INBOX_ID])
    return quotas.change(OPERATOR_INBOX_ID).full
