"""What the writer runs: operations, many in a batch, and what they share."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

from msgspec.structs import replace

from tmpmaild.model import ExpiryMoved, InboxChange, MessageDeleted, VerdictReached
from tmpmaild.storage import ids
from tmpmaild.storage.settings import Limits
from tmpmaild.storage.sqlite.quotas import InboxQuotas

MAX_BATCH_BYTES = 4 * 1024 * 1024
_SPARE_PAGES = 64


class State:
    """What operations share from batch to batch; used in the writer's thread only, so in the order of commits.

    ``unerased``: deleted text may still be in the WAL. ``last_message_key`` is the highest that any message has had.
    """

    def __init__(self, connection: sqlite3.Connection, limits: Limits | None = None) -> None:
        self.connection = connection
        self.quotas = InboxQuotas(limits or Limits())
        self.unerased = True  # an earlier process may have left some
        # Stored when messages are deleted; until then the newest message has it.
        sql = "SELECT max(last_message_id, coalesce((SELECT max(id) FROM message), 0)) FROM daemon"
        (self.last_message_key,) = connection.execute(sql).fetchone()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Raise the cap by a few pages: changing an index may split a page before deleting frees one."""
        (pages,) = self.connection.execute("PRAGMA max_page_count").fetchone()
        self.connection.execute(f"PRAGMA max_page_count = {pages + _SPARE_PAGES}")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA max_page_count = {pages}")
            self.quotas.forget()


class Batch:
    """What the operations of one batch share: the time, the next id, and the changes to report.

    ``added_inboxes`` and ``added_messages`` are counted by the operations; deleting counts down.
    """

    def __init__(self, state: State, now_ms: int) -> None:
        self.state = state
        self.connection = state.connection
        self.now_ms = now_ms
        self.last_message_key = state.last_message_key
        self.changes: list[InboxChange] = []
        self.added_inboxes = 0
        self.added_messages = 0

    def draw_message_key(self) -> int:
        """Return the next key, above every key ever committed; a rollback frees it again."""
        self.last_message_key = key = ids.next_key(self.last_message_key, self.now_ms)
        return key

    def tell(self, inbox_key: int, *notices: MessageDeleted | ExpiryMoved | VerdictReached) -> None:
        """Report changes other than new mail, with the state of the inbox read from the tables."""
        quotas, inbox_id = self.state.quotas, str(inbox_key)
        quotas.forget()
        quotas.load(self.connection, self.now_ms, [inbox_id])
        change = quotas.change(inbox_id)
        self.changes += [replace(change, notice=notice) for notice in notices]


class Operation:
    """One unit of writing. Consecutive operations of one class are run by one call, so that they can share work.

    An operation that is not ``transactional`` runs alone and outside of any transaction. One that ``changes`` rows, or
    deletes them, may go beyond the cap a little, and quotas are read anew after it.
    """

    size_bytes: int = 0
    transactional: ClassVar[bool] = True
    changes: ClassVar[bool] = True

    @classmethod
    def is_one_statement(cls, operations: Sequence[Any]) -> bool:
        """Return whether ``run`` changes the tables by a single statement, which is a transaction by itself."""
        del operations
        return False

    @classmethod
    def run(cls, batch: Batch, operations: Sequence[Any]) -> list[Any]:
        """Run the operations and return a result for each, in order.

        A ``RequestError`` *returned* in place of a result rejects that one operation, which must then have
        changed nothing. An exception *raised* rolls the batch back, and each operation is tried again alone.
        """
        return [operation.apply(batch) for operation in operations]

    def apply(self, batch: Batch) -> Any:
        """Run this one, where they share no work."""
        raise NotImplementedError


class Pause(Operation):
    """Change nothing; for what the writer does after each batch."""

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False

    def apply(self, batch: Batch) -> None:
        """Do nothing."""


def run(kind: type[Operation], batch: Batch, operations: Sequence[Operation]) -> list[Any]:
    """Run operations of one class; the caller begins and ends the transaction."""
    with batch.state.changing() if kind.changes else nullcontext():
        outcomes = kind.run(batch, operations)
    assert len(outcomes) == len(operations)  # or a future would never be completed
    return outcomes
