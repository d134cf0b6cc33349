"""Contract tests for the lists of inboxes, which use only the ``Storage`` protocol."""

import asyncio

from tmpmaild.model import InboxEntry

from .conftest import LIFETIME_MS


async def listed(engine, **wanted):
    """Return the inboxes of all pages of a list."""
    found, after = [], ""
    while after is not None:
        page = await engine.storage.list_inboxes(engine.clock(), after=after, **wanted)
        found += page.inboxes
        after = page.next
    return found


async def names(engine, **wanted):
    return [entry.address.partition("@")[0] for entry in await listed(engine, **wanted)]


async def test_an_inbox_is_listed_with_its_current_values(engine):
    inbox = await engine.inbox("ada", creator="192.0.2.1")
    await engine.add(inbox)
    (entry,) = await listed(engine)
    assert entry == InboxEntry(
        inbox.id,
        "ada@mail.example.com",
        inbox.created_at_ms,
        inbox.expires_at_ms,
        private=False,
        message_count=1,
        stored_bytes=entry.stored_bytes,
    )
    assert entry.stored_bytes > 100
    await engine.delete(inbox, await engine.add(inbox))
    assert (await listed(engine))[0].message_count == 1


async def test_the_lists_contain_live_inboxes_and_inboxes_that_wait_for_the_sweep(engine):
    assert await names(engine) == []
    for number, name in enumerate(("third", "second", "first")):
        await engine.inbox(name, lifetime_ms=LIFETIME_MS - number)
    assert await names(engine) == ["first", "second", "third"]
    assert await names(engine, expired=True) == []
    engine.clock.advance(ms=LIFETIME_MS - 1)
    assert (await names(engine), await names(engine, expired=True)) == (["third"], ["first", "second"])
    await engine.sweep()
    assert (await names(engine), await names(engine, expired=True)) == (["third"], [])
    await engine.end(await engine.find("third"))
    assert (await names(engine), await names(engine, expired=True)) == ([], ["third"])


async def test_pages_have_every_inbox_once_in_the_order_of_expiry(engine):
    made = await asyncio.gather(
        *(
            engine.inbox(f"n{number}", lifetime_ms=LIFETIME_MS + number % 7, creator=f"192.0.2.{number % 3}")
            for number in range(450)
        )
    )
    found = await listed(engine)
    assert sorted(entry.id for entry in found) == sorted(inbox.id for inbox in made)
    assert [entry.expires_at_ms for entry in found] == sorted(inbox.expires_at_ms for inbox in made)
    assert len((await engine.storage.list_inboxes(engine.clock())).inboxes) < 450


async def test_the_list_of_a_creator_has_only_its_inboxes(engine):
    creators = ("192.0.2.1", "2001:db8::/64", None)
    await asyncio.gather(
        *(engine.inbox(f"n{number}", creator=creators[min(number // 200, 2)]) for number in range(450))
    )
    assert sorted(await names(engine, creator="2001:db8::/64")) == [f"n{number}" for number in range(200, 400)]
    assert await names(engine, creator="198.51.100.1") == []


async def test_a_list_continues_while_inboxes_are_created_moved_and_ended(engine):
    made = [await engine.inbox(f"n{number}") for number in range(450)]
    page = await engine.storage.list_inboxes(engine.clock())
    for inbox in made[: len(page.inboxes)]:
        await engine.end(inbox)
    await engine.move(made[-1], engine.clock() + 2 * LIFETIME_MS)
    await engine.inbox("late")
    found, after = list(page.inboxes), page.next
    while after is not None:
        page = await engine.storage.list_inboxes(engine.clock(), after=after)
        found += page.inboxes
        after = page.next
    assert [entry.id for entry in found[:450]] == [inbox.id for inbox in (*made[:-1], await engine.find("late"))]
    assert found[450].id == made[-1].id
