"""The SQLite engine's state in memory: permissions by secret, and free space after the WAL has become shorter."""

import asyncio
import gc
import tracemalloc

from patience import PATIENCE_SECONDS
from tmpmaild.storage.sqlite import space, storage

from .conftest import stranger_that_reads


async def test_permissions_of_secrets_are_removed_when_they_expire_and_the_oldest_when_there_are_too_many(
    engine, monkeypatch
):
    monkeypatch.setattr(storage, "_MAX_SECRETS", 2)
    now_ms, put, get = engine.clock(), engine.storage.put_permission, engine.storage.get_permission
    for secret, until_ms in (("first", 9000), ("second", 9000), ("third", 1000)):
        await put(secret, b"content", now_ms + until_ms)
    assert [await get(secret) for secret in ("first", "second", "third")] == [None, b"content", b"content"]
    engine.clock.advance(ms=1000)
    await engine.sweep()
    await put("fourth", b"content", now_ms + 9000)  # this permission replaces the third
    assert [await get(secret) for secret in ("second", "third", "fourth")] == [b"content", None, b"content"]


async def test_there_is_room_again_soon_after_a_foreign_reader_has_stopped(open_engine, path, monkeypatch):
    monkeypatch.setattr(space, "_MEASURE_AGAIN_EVERY_SECONDS", 0.01)
    async with open_engine(max_bytes=8 * 1024 * 1024, max_messages_per_inbox=0, max_share_per_creator=1) as engine:
        inbox = await engine.inbox("ada")
        with stranger_that_reads(path):
            while engine.storage.has_room():
                await engine.delete(inbox, await engine.add(inbox, raw=b"x" * 500_000))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not engine.storage.has_room():
                await asyncio.sleep(0.01)
        assert path.with_name("mail.db-wal").stat().st_size == 0


async def test_a_deleted_address_takes_no_memory(engine, clock):
    """CPython retains about 90 bytes for each ``blobopen()`` of an open connection, and may have similar lists."""

    async def live_and_end(round_, count):
        for number in range(count):
            # The slot of every second inbox is blanked.
            await engine.inbox(f"a{round_}-{number}", lifetime_ms=number % 2 + 1)
            clock.advance(ms=1)
            await engine.storage.sweep(clock())

    def traced_bytes():
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    await live_and_end(0, 100)  # a first round, so that SQLite's own memory is not counted
    tracemalloc.start()
    try:
        await live_and_end(1, 100)
        before_bytes = traced_bytes()
        await live_and_end(2, 400)
        assert traced_bytes() - before_bytes < 400 * 20
    finally:
        tracemalloc.stop()
