"""State shared by several daemons on one PostgreSQL database: rate limits, permissions, and blocks."""

import asyncio

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import StorageUnavailable
from tmpmaild.model import Block
from tmpmaild.storage.postgresql import storage
from tmpmaild.storage.postgresql.storage import SharedBuckets


async def test_a_client_has_the_same_tokens_however_many_daemons_it_uses(two):
    engines = two
    every = [one.storage.buckets(tokens_per_minute=10, burst=10, name="default") for one in engines]
    takes = [every[number % 2].take(client, 0.0) for number in range(60) for client in ("ada", "bob")]
    decisions = await asyncio.gather(*takes)
    assert sum(decision.allowed for decision in decisions) == 20
    refused = [decision for decision in decisions if not decision.allowed]
    assert {decision.next_token_seconds for decision in refused} <= {5, 6}
    assert sorted(decision.remaining for decision in decisions if decision.allowed) == sorted([*range(10)] * 2)


async def test_a_token_comes_back_in_its_time_by_the_clock_of_the_database(two):
    one, _ = two
    take = one.storage.sharing.take_token
    missing = [await take(policy="quick", client="ada", refill_seconds=0.05, burst=2) for _ in range(2)]
    assert missing[0] == pytest.approx(0.05)
    assert 0.05 < missing[1] <= 0.1
    await asyncio.sleep(0.12)
    assert await take(policy="quick", client="ada", refill_seconds=0.05, burst=2) == pytest.approx(0.05)
    assert await take(policy="slow", client="ada", refill_seconds=60.0, burst=2) == pytest.approx(60)


async def test_a_refusal_is_remembered_until_the_next_token(monkeypatch):
    monkeypatch.setattr(storage, "_MAX_REFUSED", 2)
    asked = []

    async def take(*, policy, client, refill_seconds, burst):
        asked.append((policy, client))
        return burst * refill_seconds + 4.0

    buckets = SharedBuckets(take, 10, 10, name="default")
    assert (await buckets.take("ada", 100.0)).next_token_seconds == 4
    assert buckets.take("ada", 103.5).next_token_seconds == 1
    assert asked == [("default", "ada")]
    assert (await buckets.take("ada", 104.0)).allowed is False
    assert len(asked) == 2
    for client in ("bob", "eve"):
        await buckets.take(client, 104.0)
    assert len(buckets) == 2
    buckets.forget_idle(108.0)
    assert len(buckets) == 0


async def test_full_buckets_leave_no_rows(two, cluster, database):
    one, _ = two
    for number in range(12):
        await one.storage.sharing.take_token(policy="fast", client=f"client {number}", refill_seconds=0.001, burst=1)
    await asyncio.sleep(0.02)
    for _ in range(16):
        await one.storage.sharing.take_token(policy="fast", client="last", refill_seconds=60.0, burst=1)
    assert cluster.execute("SELECT count(*) FROM bucket", database=database.database) == 1


async def test_a_permission_from_one_daemon_is_known_to_the_other_daemon_until_it_expires(
    two, clock, cluster, database
):
    one, other = two
    await one.storage.put_permission("secret", b"content", clock() + 1000)
    assert await other.storage.get_permission("secret") == b"content"
    assert await other.storage.get_permission("\ud800") is None
    other.clock.now_ms += 1000
    assert await other.storage.get_permission("secret") is None
    await other.storage.put_permission("another", b"", other.clock() + 1000)
    assert cluster.execute("SELECT count(*) FROM permission", database=database.database) == 1


async def test_blocks_are_notified_and_also_found_without_a_notification(quick_looks, two, monkeypatch):
    one, other = two
    heard = asyncio.Queue()
    other.storage.watch(tuple, lambda: None, heard.put_nowait)
    block = Block("name", "admin", 1, None)
    await one.storage.change_blocks([block])
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await heard.get() != [block]:
            pass
        monkeypatch.setattr(one.storage._notifications, "announce_blocks", lambda: None)
        await one.storage.change_blocks(removed=[("name", "admin")])
        while await heard.get() != []:
            pass


async def test_while_the_database_is_unavailable_there_are_no_tokens(two, monkeypatch):
    one, _ = two

    async def away():
        raise StorageUnavailable("away")

    monkeypatch.setattr(one.storage.sharing._session, "connection", away)
    outcomes = await asyncio.gather(
        *[
            one.storage.sharing.take_token(policy="a", client=str(number), refill_seconds=6.0, burst=10)
            for number in range(3)
        ],
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [StorageUnavailable] * 3
