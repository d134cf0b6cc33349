"""Contract tests for the operator's decisions, rate limits and permissions."""

import inspect

import pytest

from tmpmaild.errors import MailboxFull
from tmpmaild.model import Block
from tmpmaild.storage.base import Limits

from .conftest import LIFETIME_MS, LIMITS, until_full

DAY_MS = 86_400_000


async def serve(engine, *domains, until_ms=0):
    return await engine.storage.serve_domains(domains, now_ms=engine.clock(), until_ms=until_ms)


async def change_limits(engine, **changes):
    await engine.storage.change_limits(Limits(**(LIMITS | changes)))


async def test_a_domain_that_is_left_out_is_kept_until_the_time_given_at_that_change(engine):
    now_ms = engine.clock()
    assert await serve(engine, "one.test", "two.test", until_ms=now_ms + 1) == {}
    assert await serve(engine, "one.test", until_ms=now_ms + DAY_MS) == {"two.test": now_ms + DAY_MS}
    assert await serve(engine, "one.test", until_ms=now_ms + 2 * DAY_MS) == {"two.test": now_ms + DAY_MS}
    engine.clock.advance(ms=DAY_MS - 1)
    assert await serve(engine, "one.test") == {"two.test": now_ms + DAY_MS}
    engine.clock.advance(ms=1)
    assert await serve(engine, "one.test") == {}
    assert await serve(engine, "one.test", until_ms=engine.clock() + DAY_MS) == {}


async def test_a_domain_is_kept_as_long_as_its_inboxes_live(engine):
    await serve(engine, "mail.example.com")
    inbox = await engine.inbox("ada", lifetime_ms=5000)
    await engine.move(await engine.inbox("bob"), inbox.expires_at_ms + 4000)
    assert await serve(engine, "one.test", until_ms=engine.clock()) == {"mail.example.com": inbox.expires_at_ms + 4000}


async def test_a_domain_may_return_and_be_left_out_again(engine):
    until_ms = engine.clock() + DAY_MS
    await serve(engine, "one.test", "two.test")
    await serve(engine, "one.test", until_ms=until_ms)
    assert await serve(engine, "two.test", until_ms=until_ms + 1) == {"one.test": until_ms + 1}
    assert await serve(engine, "two.test", "one.test") == {}
    assert await serve(engine, "one.test", until_ms=until_ms + 2) == {"two.test": until_ms + 2}


async def test_the_domains_outlive_a_restart(open_engine):
    async with open_engine() as engine:
        until_ms = engine.clock() + DAY_MS
        await serve(engine, "one.test", "two.test", "three.test")
        await serve(engine, "one.test", "two.test", until_ms=until_ms)
    async with open_engine() as engine:
        assert await serve(engine, "one.test", until_ms=until_ms + 1) == {
            "two.test": until_ms + 1,
            "three.test": until_ms,
        }


async def test_domains_and_blocks_can_be_changed_when_the_storage_is_full(open_engine):
    async with open_engine(max_bytes=400_000, max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        await until_full(lambda _: engine.add(inbox, body="x" * 3000))
        domains = [f"{number}.test" for number in range(300)]
        assert await serve(engine, *domains) == {}
        assert len(await serve(engine, "one.test", until_ms=engine.clock() + DAY_MS)) == len(domains)
        blocks = [Block("client", f"192.0.2.{number}/32", 1) for number in range(200)]
        await engine.storage.change_blocks(blocks)
        await engine.storage.change_blocks(removed=[(block.kind, block.value) for block in blocks])
        assert not await engine.storage.blocks()


async def test_each_block_is_kept_once_until_it_is_removed(open_engine):
    one, other = Block("client", "192.0.2.0/24", 1, 2000), Block("name", "shop", 2)
    async with open_engine() as engine:
        await engine.storage.change_blocks([other, one])
        assert list(await engine.storage.blocks()) == [one, other]
        longer = Block("client", "192.0.2.0/24", 3)
        await engine.storage.change_blocks([longer, Block("sender", "192.0.2.0/24", 4)])
    async with open_engine() as engine:
        assert list(await engine.storage.blocks()) == [longer, other, Block("sender", "192.0.2.0/24", 4)]
        await engine.storage.change_blocks(removed=[("sender", "192.0.2.0/24"), ("name", "nobody"), ("client", "shop")])
        assert list(await engine.storage.blocks()) == [longer, other]


async def test_the_sweep_deletes_only_expired_blocks(engine):
    now_ms = engine.clock()
    await engine.storage.change_blocks([Block("name", f"old{number}", 1, now_ms) for number in range(500)])
    kept = [Block("name", "stays", 1, None), Block("name", "waits", 1, now_ms + 1)]
    await engine.storage.change_blocks(kept)
    await engine.sweep()
    assert list(await engine.storage.blocks()) == kept


async def test_a_changed_limit_of_messages_applies_at_once_and_deletes_nothing(engine):
    inbox = await engine.inbox("ada")
    for _ in range(3):
        await engine.add(inbox)
    await change_limits(engine, max_messages_per_inbox=2)
    with pytest.raises(MailboxFull):
        await engine.add(inbox)
    found = await engine.find("ada")
    assert (found.message_count, found.full) == (3, True)
    await change_limits(engine)
    await engine.add(inbox)
    assert (await engine.find("ada")).message_count == 4


async def test_a_changed_share_of_a_creator_applies_at_once(engine):
    inbox = await engine.inbox("ada", creator="192.0.2.1")
    await engine.add(inbox)
    await change_limits(engine, max_share_per_creator=1 / LIMITS["max_bytes"])
    with pytest.raises(MailboxFull):
        await engine.add(inbox)
    with pytest.raises(MailboxFull):
        await engine.inbox("bob", creator="192.0.2.1")
    await engine.add(await engine.inbox("carol"))


async def test_a_full_storage_has_room_again_when_it_may_grow(open_engine):
    async with open_engine(max_bytes=400_000, max_messages_per_inbox=0, reserve_bytes=8192) as engine:
        inbox = await engine.inbox("ada")
        stored = await until_full(lambda _: engine.add(inbox, body="x" * 3000))
        assert not engine.storage.has_room()
        await change_limits(engine, max_bytes=4_000_000, max_messages_per_inbox=0)
        assert engine.storage.has_room()
        for _ in stored:
            await engine.add(inbox, body="x" * 3000)


async def test_a_storage_above_its_new_limit_is_full_until_mail_is_deleted(open_engine):
    async with open_engine(max_bytes=4_000_000, max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        for _ in range(100):
            await engine.add(inbox, body="x" * 10_000)
        await change_limits(engine, max_bytes=1_000_000)
        assert not engine.storage.has_room()
        assert (await engine.find("ada")).message_count == 100
        engine.clock.advance(ms=LIFETIME_MS)
        await engine.sweep()
        assert engine.storage.has_room()
        await engine.add(await engine.inbox("bob"))


async def take(buckets, client, now_seconds):
    """Take a token, waiting for it if necessary."""
    taken = buckets.take(client, now_seconds)
    return await taken if inspect.isawaitable(taken) else taken


async def test_each_client_has_its_own_burst_of_tokens(engine):
    buckets = engine.storage.buckets(tokens_per_minute=1, burst=3, name="default")
    assert [(await take(buckets, "ada", 0.0)).allowed for _ in range(4)] == [True, True, True, False]
    assert (await take(buckets, "bob", 0.0)).remaining == 2
    assert (buckets.tokens_per_minute, buckets.burst, buckets.name) == (1, 3, "default")
    assert (
        await take(engine.storage.buckets(tokens_per_minute=1, burst=1, name="page"), "ada", 0.0)
    ).allowed  # different policies do not share tokens


async def test_the_permission_of_a_secret_is_known_until_it_expires(engine):
    await engine.storage.put_permission("secret", b"content", engine.clock() + 1000)
    assert await engine.storage.get_permission("secret") == b"content"
    assert [await engine.storage.get_permission(other) for other in ("", "Secret", "\ud800")] == [None] * 3
    engine.clock.advance(ms=1000)
    assert await engine.storage.get_permission("secret") is None


async def test_reads_may_be_cached_only_if_every_change_is_reported_at_once(open_engine):
    """If an engine allows caching, no other process can change the data."""
    async with open_engine() as engine:
        inbox, told = await engine.inbox("ada"), []
        engine.storage.on_committed(told.extend)
        fresh = engine.storage.may_cache
        await engine.end(inbox)
        assert not fresh or [change.inbox_id for change in told] == [inbox.id]
