"""What the operator decides: the domains, what is blocked, the cap of the file. It can change while the daemon runs."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec.structs import astuple

from tmpmaild.model import Block
from tmpmaild.storage.base import retired_domains
from tmpmaild.storage.settings import Limits
from tmpmaild.storage.sqlite.batches import Batch, Operation
from tmpmaild.storage.sqlite.diskspace import DiskSpace, cap_pages
from tmpmaild.storage.sqlite.quotas import InboxQuotas
from tmpmaild.storage.sqlite.reader import Reader
from tmpmaild.storage.sqlite.writer import Writer

_NEVER_MS = (1 << 63) - 1  # when the operator's inbox expires


class SqlitePolicy:
    """``Policy`` in the tables of the engine."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def serve_domains(self, domains: Sequence[str], now_ms: int, until_ms: int) -> Mapping[str, int]:
        """See ``Policy``."""
        retired: Mapping[str, int] = await self._writer.submit(ServeDomains(domains, now_ms, until_ms))
        return retired

    async def blocks(self) -> Sequence[Block]:
        """See ``Policy``."""
        sql = "SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind, value"
        return await self._reader.run(lambda connection: [Block(*row) for row in connection.execute(sql)])

    async def add_blocks(self, blocks: Sequence[Block]) -> None:
        """See ``Policy``."""
        sql = "REPLACE INTO block (kind, value, created_at_ms, expires_at_ms) VALUES (?, ?, ?, ?)"
        await self._writer.submit(ChangeBlocks(sql, [astuple(block) for block in blocks]))

    async def remove_blocks(self, blocks: Sequence[tuple[str, str]]) -> None:
        """See ``Policy``."""
        sql = "DELETE FROM block WHERE kind = ? AND value = ?"
        await self._writer.submit(ChangeBlocks(sql, blocks))

    def watch_blocks(self, callback: Callable[[Sequence[Block]], None]) -> None:
        """See ``Policy``: no other daemon can change them."""


@dataclass(eq=False)
class ChangeBlocks(Operation):
    """Run a statement for each of some blocks."""

    sql: str
    rows: Sequence[tuple[Any, ...]]

    def apply(self, batch: Batch) -> None:
        """Change the blocks."""
        batch.connection.executemany(self.sql, self.rows)
        batch.state.unerased = True


@dataclass(eq=False)
class ServeDomains(Operation):
    """Store the domains that take new addresses; the result are the others that are kept, and until when."""

    domains: Sequence[str]
    now_ms: int
    until_ms: int

    def apply(self, batch: Batch) -> Mapping[str, int]:
        """Store the domains."""
        connection = batch.connection
        known: dict[str, int | None] = dict(connection.execute("SELECT name, kept_until_ms FROM domain").fetchall())
        until_ms = max(self.until_ms, _last_expiry_ms(connection))
        retired = retired_domains(known, self.domains, self.now_ms, until_ms)
        wanted = dict.fromkeys(self.domains) | retired
        gone = [(name,) for name in known if name not in wanted]
        connection.executemany("DELETE FROM domain WHERE name = ?", gone)
        changed = [(name, until) for name, until in wanted.items() if known.get(name, -1) != until]
        connection.executemany("REPLACE INTO domain (name, kept_until_ms) VALUES (?, ?)", changed)
        return retired


def _last_expiry_ms(connection: sqlite3.Connection) -> int:
    sql = "SELECT expires_at_ms FROM inbox WHERE swept = 0 AND expires_at_ms < ? ORDER BY expires_at_ms DESC LIMIT 1"
    row = connection.execute(sql, (_NEVER_MS,)).fetchone()
    return int(row[0]) if row else 0


@dataclass(eq=False)
class ChangeLimits(Operation):
    """Go by other limits, and change how far the file may grow; what the writer measures after it goes by that."""

    transactional: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    limits: Limits
    space: DiskSpace

    def apply(self, batch: Batch) -> None:
        """Change them."""
        cap_pages(batch.connection, self.limits.cap_bytes)
        self.space.change(cap_bytes=self.limits.cap_bytes, reserve_bytes=self.limits.reserve_bytes)
        batch.state.quotas = InboxQuotas(self.limits)
