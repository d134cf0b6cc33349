"""What every storage engine remembers besides mail: rate limits and permissions. Only ``Storage`` is known here."""

import inspect


async def take(buckets, client, now_seconds):
    """Take a token, which may have to be waited for."""
    taken = buckets.take(client, now_seconds)
    return await taken if inspect.isawaitable(taken) else taken


async def test_a_client_has_a_burst_of_tokens_and_others_have_theirs(engine):
    buckets = engine.storage.buckets(1, 3, name="default")
    assert [(await take(buckets, "ada", 0.0)).allowed for _ in range(4)] == [True, True, True, False]
    assert (await take(buckets, "bob", 0.0)).remaining == 2
    assert (buckets.tokens_per_minute, buckets.burst, buckets.name) == (1, 3, "default")


async def test_policies_do_not_share_tokens(engine):
    one, other = [engine.storage.buckets(1, 1, name=name) for name in ("default", "page")]
    assert [(await take(buckets, "ada", 0.0)).allowed for buckets in (one, other, one)] == [True, True, False]


async def test_what_a_secret_permits_is_known_until_it_expires(engine):
    await engine.storage.keep("secret", b"content", engine.clock() + 1000)
    assert await engine.storage.kept("secret") == b"content"
    assert [await engine.storage.kept(other) for other in ("", "Secret", "\ud800")] == [None] * 3
    engine.clock.advance(ms=1000)
    assert await engine.storage.kept("secret") is None


async def test_what_was_read_may_cache_only_if_every_change_is_told_at_once(open_engine):
    """An engine that calls it fresh is the only one that can change it."""
    async with open_engine() as engine:
        inbox, told = await engine.inbox("ada"), []
        engine.storage.on_committed(told.extend)
        fresh = engine.storage.may_cache
        await engine.end(inbox)
        assert not fresh or [change.inbox_id for change in told] == [inbox.id]
