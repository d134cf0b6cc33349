"""Deletes expired data in short steps, so that deliveries are not delayed for long.

``inboxes/expiry.py`` decides when to run a sweep.

Also erases deleted text from the WAL, which contains old copies of pages, and returns free space to the file system.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import aiosqlite

from tmpmaild.model import NAME_HELD_MS
from tmpmaild.storage.base import OPERATOR_INBOX_ID, OPERATOR_MAIL_MS
from tmpmaild.storage.keys import InboxKey, first_key
from tmpmaild.storage.sqlite.errors import translate
from tmpmaild.storage.sqlite.layout import PAGE_BYTES, SLOT_BYTES, SLOTS, address_place
from tmpmaild.storage.sqlite.operations import MESSAGE_ROWS, MessageRow, delete_messages, json_array, write_slots
from tmpmaild.storage.sqlite.space import DiskSpace
from tmpmaild.storage.sqlite.wal import erase_wal
from tmpmaild.storage.sqlite.writer import Batch, Operation, Writer

STEP_SECONDS = 0.005
"""The target duration of a step, including its commit."""

_LARGEST_GROWTH = 1.5
_LARGEST_CUT = 0.5

# The cost of deletion in units: one unit is the cost of deleting one page of a large message.
_MESSAGE_UNITS = 6
_INBOX_UNITS = 3

_MAPPED_PAGES = PAGE_BYTES // 5
_LOCK_BYTE_PAGE = (1 << 30) // PAGE_BYTES + 1
_KINDS_WITHOUT_TEXT = (b"\2", b"\5")  # free pages, and b-tree pages except roots

_MAX_VACUUM_STEPS = 1000  # a few seconds of work per call to erase(), so that a huge file does not delay the next sweep


class StepSize:
    """An amount of work that takes about ``STEP_SECONDS``, adjusted after each step according to its duration.

    The caller chooses the unit; all units should cost about the same. ``timer`` returns seconds.
    """

    def __init__(self, *, first: int, least: int, most: int, timer: Callable[[], float] = time.perf_counter) -> None:
        self.amount = first
        self._least = least
        self._most = most
        self._timer = timer
        self._began = 0.0

    def begin(self) -> None:
        """Start timing a step."""
        self._began = self._timer()

    def end(self, done: int) -> None:
        """Stop timing a step that processed ``done`` units, and adjust the amount.

        One step changes the amount by at most half, because other processes may have interrupted the step. A step with
        less work than ``amount`` does not increase it, because the duration of a full step is unknown.
        """
        seconds = self._timer() - self._began
        if done < self.amount and seconds <= STEP_SECONDS:
            return
        wanted = done * STEP_SECONDS / max(seconds, 1e-6)
        bounded = min(max(wanted, self.amount * _LARGEST_CUT), self.amount * _LARGEST_GROWTH)
        self.amount = min(max(round(bounded), self._least), self._most)


def sweep_step_size() -> StepSize:
    """Return the step size for a sweep, in the units defined above."""
    return StepSize(first=200, least=50, most=20_000)


@dataclass(eq=False)
class Sweep(Operation[bool]):
    """Deletes some expired data: messages first, then their addresses and, a day later, the tombstones.

    The result is true if there may be more to delete. The operation commits its own transaction, so that it can measure
    the whole step.
    """

    transactional: ClassVar[bool] = False
    now_ms: int
    step_size: StepSize
    size_bytes: int = 0

    def apply(self, batch: Batch) -> bool:
        """Run one step."""
        self.step_size.begin()
        batch.connection.execute("BEGIN IMMEDIATE")
        done, more = self._delete(batch)
        batch.connection.execute("COMMIT")
        if done:
            batch.state.unerased = True
            self.size_bytes = done * PAGE_BYTES
            self.step_size.end(done)
        return more

    def _delete(self, batch: Batch) -> tuple[int, bool]:
        """Delete up to one step's worth of data; return the number of deleted units, and whether there may be more."""
        connection, units = batch.connection, self.step_size.amount
        most_expired = max(units // _INBOX_UNITS, 1)
        inbox_keys = _expired_inboxes(connection, self.now_ms, limit=most_expired)
        chosen, chosen_units, all_chosen = _choose_messages(
            connection, inbox_keys, now_ms=self.now_ms, most_units=units
        )
        delete_messages(batch, chosen)
        # Messages are deleted first. Each step also deletes at least one row of every other kind, so that no kind has
        # to wait forever.
        most_emptied = max((units - chosen_units) // _INBOX_UNITS, 1)
        emptied = _emptied(connection, inbox_keys)[:most_emptied]
        _delete_addresses(connection, emptied)
        batch.added_inboxes -= len(emptied)
        most_forgotten = max(most_emptied - len(emptied), 1)
        forgotten = _delete_tombstones(connection, self.now_ms, limit=most_forgotten)
        unblocked = _delete_blocks(connection, self.now_ms, limit=most_forgotten)
        all_emptied = len(emptied) == len(inbox_keys) < most_expired
        done = chosen_units + (len(emptied) + forgotten + unblocked) * _INBOX_UNITS
        # Sweeping stops after the first step that cannot delete anything, even if the file is damaged.
        return done, done > 0 and not (all_chosen and all_emptied and max(forgotten, unblocked) < most_forgotten)


def _expired_inboxes(connection: sqlite3.Connection, now_ms: int, *, limit: int) -> list[InboxKey]:
    sql = "SELECT id FROM inbox WHERE swept = 0 AND expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?"
    return [row[0] for row in connection.execute(sql, (now_ms, limit))]


def _choose_messages(
    connection: sqlite3.Connection, inbox_keys: list[InboxKey], *, now_ms: int, most_units: int
) -> tuple[list[MessageRow], int, bool]:
    """Select messages of these inboxes and old messages of the operator's inbox; at least one message if any exist.

    Returns the messages, their cost in units, and whether no such messages remain.
    """
    limit = max(most_units // _MESSAGE_UNITS, 1)
    rows = connection.execute(
        f"{MESSAGE_ROWS} WHERE m.inbox_id IN (SELECT value FROM json_each(?)) OR (m.inbox_id = ? AND m.id < ?) LIMIT ?",
        (json_array(inbox_keys), int(OPERATOR_INBOX_ID), first_key(now_ms - OPERATOR_MAIL_MS), limit),
    ).fetchall()
    chosen: list[MessageRow] = []
    units = 0
    for row in map(MessageRow._make, rows):
        row_units = _MESSAGE_UNITS + row.stored_bytes // PAGE_BYTES
        if chosen and units + row_units > most_units:
            return chosen, units, False
        chosen.append(row)
        units += row_units
    return chosen, units, len(rows) < limit


def _emptied(connection: sqlite3.Connection, inbox_keys: list[InboxKey]) -> list[InboxKey]:
    sql = (
        "SELECT id FROM inbox WHERE id IN (SELECT value FROM json_each(?))"
        " AND NOT EXISTS (SELECT 1 FROM message WHERE message.inbox_id = inbox.id)"
    )
    return [row[0] for row in connection.execute(sql, (json_array(inbox_keys),))]


def _delete_addresses(connection: sqlite3.Connection, inbox_keys: list[InboxKey]) -> None:
    if not inbox_keys:
        return
    swept = "UPDATE inbox SET swept = 1, creator = NULL WHERE id IN (SELECT value FROM json_each(?))"
    connection.execute(swept, (json_array(inbox_keys),))
    row_ids = sorted({address_place(inbox_key)[0] for inbox_key in inbox_keys})
    # The "+" prevents SQLite from using the index on "swept", which would scan all live inboxes.
    connection.execute(
        "DELETE FROM address WHERE id IN (SELECT value FROM json_each(?)) AND NOT EXISTS"
        f" (SELECT 1 FROM inbox AS i WHERE i.id BETWEEN address.id * {SLOTS} AND address.id * {SLOTS} + {SLOTS - 1}"
        " AND +i.swept = 0)",
        (json_array(row_ids),),
    )
    write_slots(connection, inbox_keys, b" " * SLOT_BYTES)  # blanks these addresses in rows that are still in use


def _delete_tombstones(connection: sqlite3.Connection, now_ms: int, *, limit: int) -> int:
    sql = (
        "DELETE FROM inbox WHERE id IN"
        " (SELECT id FROM inbox WHERE swept = 1 AND expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)"
    )
    return connection.execute(sql, (now_ms - NAME_HELD_MS, limit)).rowcount


def _delete_blocks(connection: sqlite3.Connection, now_ms: int, *, limit: int) -> int:
    sql = "DELETE FROM block WHERE id IN (SELECT id FROM block WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)"
    return connection.execute(sql, (now_ms, limit)).rowcount


@dataclass(eq=False)
class Vacuum(Operation[bool]):
    """Returns a few free pages to the file system; the result is true if the operation should be repeated.

    This is done only while more than a quarter of the file is free, because moving pages costs more than reusing them.
    The last page of the file must contain no text. SQLite would copy the page to a free page and truncate the original
    without overwriting it, which would leave the text on the disk.
    """

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    step_size: StepSize
    descriptor: int

    def apply(self, batch: Batch) -> bool:
        """Run one step."""
        connection = batch.connection
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        pages = _pages(connection)
        if free * 4 <= pages:
            return False
        (_, in_wal, copied) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        tail = tail_without_text(self.descriptor, pages, self.step_size.amount) if in_wal == copied else 0
        if not tail:
            return False
        self.step_size.begin()
        # execute() would free only one page per call, because the pragma returns a row for each page.
        connection.executescript(f"PRAGMA incremental_vacuum({tail})")
        freed = pages - _pages(connection)
        self.step_size.end(freed)
        batch.state.unerased = batch.state.unerased or freed > 0
        return freed > 0


def tail_without_text(descriptor: int, pages: int, most: int) -> int:
    """Return the number of pages at the end of the file, at most ``most``, that contain no text.

    These are free pages, which are zeroed, and b-tree pages. The file must be as long as the database, with the whole
    WAL copied into it. Reads the pointer map (https://www.sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages),
    whose own pages are not counted.
    """
    count, page = 0, pages
    while count < most and page > 1:
        place = (page - 2) % (_MAPPED_PAGES + 1)
        if place > 0 and page != _LOCK_BYTE_PAGE:
            map_page = page - place
            kind = os.pread(descriptor, 1, (map_page - 1) * PAGE_BYTES + 5 * (place - 1))
            if kind not in _KINDS_WITHOUT_TEXT:
                break
            count += 1
        page -= 1
    return count


def _pages(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    return int(pages)


class EmptyWal(Operation[bool]):
    """Overwrites and truncates the WAL, which contains old copies of pages; returns False while it is being read."""

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False

    def apply(self, batch: Batch) -> bool:
        """Try once to erase the WAL."""
        emptied = erase_wal(batch.connection)
        batch.state.unerased = not emptied
        return emptied


class Eraser:
    """Erases the WAL, and shrinks the file in steps, so that messages can be delivered between the steps."""

    def __init__(self, writer: Writer, maintenance: aiosqlite.Connection, space: DiskSpace, descriptor: int) -> None:
        self._writer = writer
        self._maintenance = maintenance
        self._space = space
        self._descriptor = descriptor
        self._step_size = StepSize(first=32, least=4, most=1024)  # pages

    async def erase(self) -> bool:
        """See ``Storage``."""
        # Erase the WAL first, because shrinking is not guaranteed, may take long, and makes the WAL grow while another
        # process reads.
        return await self._empty_wal() and (not await self._shrink() or await self._empty_wal())

    async def copy_wal(self) -> None:
        """Copy as much of the WAL into the file as readers allow during writes, so that ``EmptyWal`` has less to do."""
        try:
            await self._maintenance.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.DatabaseError as error:
            raise translate(error) from error

    async def _empty_wal(self) -> bool:
        if not self._writer.state.unerased and not self._space.wal_is_long:
            return True
        await self.copy_wal()
        return await self._writer.submit(EmptyWal())

    async def _shrink(self) -> bool:
        steps = 0
        while steps < _MAX_VACUUM_STEPS and await self._writer.submit(Vacuum(self._step_size, self._descriptor)):
            steps += 1
        return steps > 0
