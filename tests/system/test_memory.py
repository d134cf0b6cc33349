"""Deleted addresses use no memory: a process's memory does not depend on how many addresses have existed."""

import asyncio
import resource
from pathlib import Path

from tmpmaild.model import NewInbox
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage

AT_ONCE = 500
LIFETIME_MS = 1000
WARM = 20_000
MOST_BYTES = 5_000_000


def resident_bytes():
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()


async def live_and_end(storage, clock, numbers):
    """Create addresses, and sweep expired addresses while other addresses in the same group are live."""
    for start in range(numbers.start, numbers.stop, AT_ONCE):
        now_ms = clock()
        names = [f"a{number}@mail.example.com" for number in range(start, start + AT_ONCE)]
        news = [
            NewInbox(name, now_ms, now_ms + LIFETIME_MS, private=False, token_hash=b"t" * 32, creator=None)
            for name in names
        ]
        await asyncio.gather(*map(storage.create_inbox, news))
        clock.advance(ms=LIFETIME_MS // 5)
        while await storage.sweep(clock()):
            pass
    await storage.erase()


async def test_deleted_addresses_use_no_memory(tmp_path, clock, amount, figure):
    count = amount(whole=500_000, quick=100_000)
    async with open_storage(SqliteSettings(path=tmp_path / "mail.db", max_bytes=2**33), clock) as storage:
        await live_and_end(storage, clock, range(WARM))
        before = resident_bytes()
        await live_and_end(storage, clock, range(WARM, WARM + count))
        grown_bytes = resident_bytes() - before
    figure(f"memory after {count:,} addresses", f"{grown_bytes / 1e6:+.1f} MB", f"<= {MOST_BYTES / 1e6:.0f} MB")
    assert grown_bytes <= MOST_BYTES
