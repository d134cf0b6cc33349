"""What the operator decides: the domains, what is blocked, the cap of the file. It can change while the daemon runs."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import astuple

from tmpmaild.model import Block
from tmpmaild.storage.sqlite.deleting import DeletionState
from tmpmaild.storage.sqlite.diskspace import DiskSpace
from tmpmaild.storage.sqlite.preparing import cap_pages
from tmpmaild.storage.sqlite.reader import Reader
from tmpmaild.storage.sqlite.writer import Batch, Operation, Writer

_NEVER_MS = (1 << 63) - 1  # when the operator's inbox expires


class SqlitePolicy:
    """``Policy`` in the tables of the engine."""

    def __init__(self, writer: Writer, reader: Reader, deletion_state: DeletionState) -> None:
        self._writer = writer
        self._reader = reader
        self._deletion_state = deletion_state

    async def serve_domains(self, domains: Sequence[str], now_ms: int, until_ms: int) -> Mapping[str, int]:
        """See ``Policy``."""
        operation = ServeDomains(domains, now_ms, until_ms, self._deletion_state)
        retired: Mapping[str, int] = await self._writer.submit(operation)
        return retired

    async def blocks(self) -> Sequence[Block]:
        """See ``Policy``."""
        sql = "SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind, value"
        return await self._reader.run(lambda connection: [Block(*row) for row in connection.execute(sql)])

    async def add_blocks(self, blocks: Sequence[Block]) -> None:
        """See ``Policy``."""
        sql = "REPLACE INTO block (kind, value, created_at_ms, expires_at_ms) VALUES (?, ?, ?, ?)"
        await self._writer.submit(ChangeBlocks(sql, [astuple(block) for block in blocks], self._deletion_state))

    async def remove_blocks(self, blocks: Sequence[tuple[str, str]]) -> None:
        """See ``Policy``."""
        sql = "DELETE FROM block WHERE kind = ? AND value = ?"
        await self._writer.submit(ChangeBlocks(sql, blocks, self._deletion_state))

    def watch_blocks(self, callback: Callable[[Sequence[Block]], None]) -> None:
        """See ``Policy``: no other daemon can change them."""


class ChangeBlocks(Operation):
    """Run a statement for each of some blocks."""

    keeps_generation = True

    def __init__(self, sql: str, rows: Sequence[tuple[Any, ...]], deletion_state: DeletionState) -> None:
        self.sql = sql
        self.rows = rows
        self.deletion_state = deletion_state

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["ChangeBlocks"]) -> list[Any]:
        """Change the blocks of each."""
        with operations[0].deletion_state.spare_pages():
            for operation in operations:
                batch.connection.executemany(operation.sql, operation.rows)
        operations[0].deletion_state.unerased = True
        return [None for _ in operations]


class ServeDomains(Operation):
    """Store the domains that take new addresses; the result are the others that are kept, and until when."""

    keeps_generation = True

    def __init__(self, domains: Sequence[str], now_ms: int, until_ms: int, deletion_state: DeletionState) -> None:
        self.domains = domains
        self.now_ms = now_ms
        self.until_ms = until_ms
        self.deletion_state = deletion_state

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["ServeDomains"]) -> list[Any]:
        """Store the domains of each."""
        with operations[0].deletion_state.spare_pages():
            return [operation._store(batch.connection) for operation in operations]  # noqa: SLF001 - our own kind

    def _store(self, connection: sqlite3.Connection) -> Mapping[str, int]:
        known: dict[str, int | None] = dict(connection.execute("SELECT name, kept_until_ms FROM domain").fetchall())
        retired = self._retired(connection, known)
        wanted = dict.fromkeys(self.domains) | retired
        gone = [(name,) for name in known if name not in wanted]
        connection.executemany("DELETE FROM domain WHERE name = ?", gone)
        changed = [(name, until) for name, until in wanted.items() if known.get(name, -1) != until]
        connection.executemany("REPLACE INTO domain (name, kept_until_ms) VALUES (?, ?)", changed)
        return retired

    def _retired(self, connection: sqlite3.Connection, known: Mapping[str, int | None]) -> dict[str, int]:
        left_out = {name: until for name, until in known.items() if name not in self.domains}
        if None in left_out.values():
            until_ms = max(self.until_ms, _last_expiry_ms(connection))
            left_out = {name: until_ms if until is None else until for name, until in left_out.items()}
        return {name: until for name, until in left_out.items() if until is not None and until > self.now_ms}


def _last_expiry_ms(connection: sqlite3.Connection) -> int:
    sql = "SELECT expires_at_ms FROM inbox WHERE swept = 0 AND expires_at_ms < ? ORDER BY expires_at_ms DESC LIMIT 1"
    row = connection.execute(sql, (_NEVER_MS,)).fetchone()
    return int(row[0]) if row else 0


class ChangeCap(Operation):
    """Change how far the file may grow; what the writer measures after it goes by that."""

    transactional: ClassVar[bool] = False

    def __init__(self, cap_bytes: int, reserve_bytes: int, space: DiskSpace, deletion_state: DeletionState) -> None:
        self.cap_bytes = cap_bytes
        self.reserve_bytes = reserve_bytes
        self.space = space
        self.deletion_state = deletion_state

    @classmethod
    def run(cls, batch: Batch, operations: Sequence["ChangeCap"]) -> list[Any]:
        """Change it for each."""
        for operation in operations:
            cap_pages(batch.connection, operation.cap_bytes)
            operation.deletion_state.note_cap()
            operation.space.change(cap_bytes=operation.cap_bytes, reserve_bytes=operation.reserve_bytes)
        return [None for _ in operations]
