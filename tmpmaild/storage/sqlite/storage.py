"""``Storage`` in one SQLite file: each method is an operation for the writer, or a function for the reader.

What secrets permit is in memory: the process that has the file is the only one to ask.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import BinaryIO, Final

import aiosqlite
from msgspec.structs import replace

from tmpmaild.metrics import Metric
from tmpmaild.ratelimit import TokenBuckets
from tmpmaild.storage.base import Limits, Listened, OnBlocks, OnCommitted
from tmpmaild.storage.clocks import FollowingClock
from tmpmaild.storage.enginestorage import EngineStorage
from tmpmaild.storage.sqlite import reading
from tmpmaild.storage.sqlite.database import BackupMaker, DiskSpace, Remeasuring, sensible_cap_bytes
from tmpmaild.storage.sqlite.operations import OPERATIONS, change_limits
from tmpmaild.storage.sqlite.sweeping import Eraser, Sweep, sweep_step_size
from tmpmaild.storage.sqlite.writer import Call, Clock, Pause, Writer

_MAX_SECRETS: Final = 10_000


class Permissions:
    """What is kept by secrets until it expires; if there is too much, the oldest is dropped."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[bytes, int]] = OrderedDict()

    def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """Keep a content until then."""
        self._kept[secret] = (content, until_ms)
        if len(self._kept) > _MAX_SECRETS:
            self._kept.popitem(last=False)

    def kept(self, secret: str, now_ms: int) -> bytes | None:
        """Return the content of a secret that has not expired."""
        content, until_ms = self._kept.get(secret, (b"", 0))
        return content if now_ms < until_ms else None

    def forget_expired(self, now_ms: int) -> None:
        """Drop what has expired."""
        # The clock may have been set back, so they are not in the order of their expiry.
        for secret in [secret for secret, (_, until_ms) in self._kept.items() if until_ms <= now_ms]:
            del self._kept[secret]


class SqliteStorage(EngineStorage):
    """``Storage`` in one SQLite file. Made by ``engine.open_storage``."""

    def __init__(
        self,
        writer: Writer,
        reader: reading.Reader,
        maintenance: aiosqlite.Connection,
        eraser: Eraser,
        space: DiskSpace,
        *,
        hash_key: bytes,
        clock: Clock,
        limits: Limits,
        wanted: Limits,
    ) -> None:
        super().__init__(writer.submit, OPERATIONS, reader.run, reading, hash_key=hash_key, clock=clock, limits=limits)
        self.lost = writer.lost
        self.may_cache = True  # all changes are made and told here
        self._writer = writer
        self._reader = reader
        self._maintenance = maintenance
        self._eraser = eraser
        self._space = space
        self._backups = BackupMaker(space)
        self._remeasuring = Remeasuring(self._measure)
        self._sweep_step_size = sweep_step_size()
        self._permissions = Permissions()
        self._wanted = wanted

    def buckets(self, tokens_per_minute: int, burst: int, *, name: str) -> TokenBuckets:
        """See ``Storage``: in memory, since no other daemon can open the file."""
        return TokenBuckets(tokens_per_minute, burst, name=name)

    async def keep(self, secret: str, content: bytes, until_ms: int) -> None:
        """See ``Storage``."""
        self._permissions.keep(secret, content, until_ms)

    async def kept(self, secret: str) -> bytes | None:
        """See ``Storage``."""
        return self._permissions.kept(secret, self.clock())

    async def change_limits(self, limits: Limits) -> None:
        """See ``Storage``."""
        self._wanted = limits
        cap_bytes = limits.max_bytes or await asyncio.to_thread(sensible_cap_bytes, self._space.path)
        await self._change_limits(replace(limits, max_bytes=cap_bytes))

    async def _change_limits(self, changed: Limits) -> None:
        await self._writer.submit(Call(change_limits, changed, self._space))
        self._limits = changed

    def has_room(self) -> bool:
        """See ``Storage``."""
        if not self._space.has_room:
            self._remeasuring.begin()
        return self._space.has_room

    async def _measure(self) -> None:
        if self._space.wal_is_too_long:
            await self._eraser.copy_wal()
        cap_bytes = await asyncio.to_thread(sensible_cap_bytes, self._space.path)
        if not self._wanted.max_bytes and cap_bytes > self._limits.max_bytes:
            await self._change_limits(replace(self._wanted, max_bytes=cap_bytes))  # the disk had less room at the start
        else:
            await self._writer.submit(Pause())  # the writer measures after each batch

    async def sweep(self, now_ms: int) -> bool:
        """See ``Storage``."""
        self._permissions.forget_expired(now_ms)
        more: bool = await self._writer.submit(Sweep(now_ms, self._sweep_step_size))
        return more

    async def erase(self) -> bool:
        """See ``Storage``."""
        return await self._eraser.erase()

    def backup(self) -> AbstractAsyncContextManager[BinaryIO]:
        """See ``Storage``."""
        return self._backups.made()

    @property
    def met_damage(self) -> bool:
        """Whether the file is damaged or gone: the next start must check all of it."""
        return self._writer.met_damage

    def trouble(self) -> str:
        """See ``Storage``."""
        return self._writer.figures.trouble

    def metrics(self) -> Sequence[Metric]:
        """See ``Storage``."""
        of_clock = self.clock.metrics() if isinstance(self.clock, FollowingClock) else ()
        return (*self._writer.figures.metrics(), *self._space.metrics(), *of_clock)

    def on_committed(self, callback: OnCommitted) -> None:
        """See ``Storage``."""
        self._writer.on_committed(callback)

    def watch(self, listened: Listened, on_missed: Callable[[], None], on_blocks: OnBlocks) -> None:
        """See ``Storage``: no other daemon can open the file."""

    async def close(self) -> None:
        """See ``Storage``."""
        await self._remeasuring.close()
        await self._writer.close()
        await self._reader.close()
        await self._maintenance.close()
