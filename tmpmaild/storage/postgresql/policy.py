"""What the operator decides: the domains, and what is blocked. It can change while the daemons run."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import asyncpg

from tmpmaild.errors import StorageUnavailable
from tmpmaild.model import Block
from tmpmaild.storage.base import retired_domains
from tmpmaild.storage.postgresql.connection import Readers
from tmpmaild.storage.postgresql.waking import Waker
from tmpmaild.storage.postgresql.writer import Batch, Operation, Writer

_PAUSE_SECONDS: Final = 1.0
_BLOCKS: Final = (
    'SELECT kind, value, created_at_ms, expires_at_ms FROM block ORDER BY kind COLLATE "C", value COLLATE "C"'
)
# With each change a version, so that a daemon which was not told of it finds out.
_VERSION: Final = "WITH changed AS (UPDATE service SET blocks_version = blocks_version + 1)"
_ADD_BLOCKS: Final = f"""
{_VERSION}
INSERT INTO block SELECT DISTINCT ON (n.kind, n.value) n.kind, n.value, n.created_at_ms, n.expires_at_ms
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) WITH ORDINALITY
        AS n(kind, value, created_at_ms, expires_at_ms, place)
    ORDER BY n.kind, n.value, n.place DESC
    ON CONFLICT (kind, value)
        DO UPDATE SET created_at_ms = excluded.created_at_ms, expires_at_ms = excluded.expires_at_ms
"""
_REMOVE_BLOCKS: Final = f"""
{_VERSION}
DELETE FROM block AS b USING unnest($1::text[], $2::text[]) AS n(kind, value)
    WHERE b.kind = n.kind AND b.value = n.value
"""
_DOMAINS: Final = "SELECT name, kept_until_ms FROM domain"
_LAST_EXPIRY: Final = """
SELECT expires_at_ms FROM inbox WHERE NOT swept AND expires_at_ms < 9223372036854775807
    ORDER BY expires_at_ms DESC LIMIT 1
"""


class PostgresPolicy:
    """``Policy`` in the tables of the engine."""

    def __init__(self, writer: Writer, readers: Readers, waker: Waker) -> None:
        self._writer = writer
        self._readers = readers
        self._waker = waker
        self._callbacks: list[Callable[[Sequence[Block]], None]] = []
        self._reading: asyncio.Task[None] | None = None
        self._is_stale = False
        waker.on_blocks = self._read_again

    async def serve_domains(self, domains: Sequence[str], now_ms: int, until_ms: int) -> Mapping[str, int]:
        """See ``Policy``."""
        retired: Mapping[str, int] = await self._writer.submit(ServeDomains(domains, now_ms, until_ms))
        return retired

    async def blocks(self) -> Sequence[Block]:
        """See ``Policy``."""

        async def read(connection: asyncpg.Connection) -> Sequence[Block]:
            return [Block(*row) for row in await connection.fetch(_BLOCKS)]

        return await self._readers.run(read)

    async def add_blocks(self, blocks: Sequence[Block]) -> None:
        """See ``Policy``."""
        columns = ("kind", "value", "created_at_ms", "expires_at_ms")
        await self._writer.submit(
            ChangeBlocks(_ADD_BLOCKS, [[getattr(block, name) for block in blocks] for name in columns])
        )
        self._waker.tell_blocks()

    async def remove_blocks(self, blocks: Sequence[tuple[str, str]]) -> None:
        """See ``Policy``."""
        columns = [[kind for kind, _ in blocks], [value for _, value in blocks]]
        await self._writer.submit(ChangeBlocks(_REMOVE_BLOCKS, columns))
        self._waker.tell_blocks()

    def watch_blocks(self, callback: Callable[[Sequence[Block]], None]) -> None:
        """See ``Policy``."""
        self._callbacks.append(callback)

    def _read_again(self) -> None:
        self._is_stale = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._tell_blocks())

    async def _tell_blocks(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                blocks = await self.blocks()
            except StorageUnavailable:
                self._is_stale = True
            else:
                for callback in self._callbacks:
                    callback(blocks)
            # A long list is changed by many commands, and each reading is of all of it.
            await asyncio.sleep(_PAUSE_SECONDS)

    async def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()


@dataclass(eq=False)
class ChangeBlocks(Operation):
    """Run a statement that takes the columns of some blocks."""

    is_alone: ClassVar[bool] = True
    sql: str
    columns: Sequence[Sequence[Any]]

    async def apply(self, batch: Batch) -> None:
        """Change the blocks."""
        await batch.connection.execute(self.sql, *self.columns)


@dataclass(eq=False)
class ServeDomains(Operation):
    """Store the domains that take new addresses; the result are the others that are kept, and until when."""

    is_alone: ClassVar[bool] = True
    domains: Sequence[str]
    now_ms: int
    until_ms: int

    async def apply(self, batch: Batch) -> Mapping[str, int]:
        """Store the domains."""
        connection = batch.connection
        async with connection.transaction():
            await connection.execute("LOCK TABLE domain IN SHARE ROW EXCLUSIVE MODE")  # another daemon may start too
            known: dict[str, int | None] = dict(await connection.fetch(_DOMAINS))
            last_expiry_ms = await connection.fetchval(_LAST_EXPIRY) or 0
            retired = retired_domains(known, self.domains, self.now_ms, max(self.until_ms, last_expiry_ms))
            wanted: dict[str, int | None] = dict.fromkeys(self.domains) | retired
            gone = [name for name in known if name not in wanted]
            await connection.execute("DELETE FROM domain WHERE name = ANY($1::text[])", gone)
            await connection.execute(
                "INSERT INTO domain SELECT * FROM unnest($1::text[], $2::bigint[])"
                " ON CONFLICT (name) DO UPDATE SET kept_until_ms = excluded.kept_until_ms",
                list(wanted),
                list(wanted.values()),
            )
        return retired
