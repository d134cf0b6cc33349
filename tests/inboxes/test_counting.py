"""The number of messages to each recipient of a catcher, as messages arrive and are deleted."""

import asyncio

import pytest

from tmpmaild.inboxes import counting
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.model import Page, Purpose
from tmpmaild.storage.keys import message_id_of

from .conftest import World


@pytest.fixture
async def world(storage, clock):
    """Return a service that catches all mail, with a list ``pages`` of the pages that are read to count recipients."""
    caught = World(storage, clock, purpose=Purpose.CATCHING)
    storage.on_committed(caught.service.on_commit)
    await caught.service.catcher.start()
    caught.pages, read = [], storage.list_recipients

    async def list_recipients(inbox_id, page):
        caught.pages.append(page)
        return await read(inbox_id, page)

    storage.list_recipients = list_recipients
    return caught


async def counted(world):
    counts = await world.service.catcher.count_by_recipient()
    return counts.message_count, list(counts.by_address.items())


async def delete_newest(world):
    listing = await world.storage.list_messages(ALL_MAIL, Page(limit=1), world.clock())
    await world.service.catcher.delete_message(listing.messages[0].id)


async def test_the_recipient_of_the_newest_message_comes_first_as_it_was_last_written(world):
    await world.deliver("ada@shop.example", "bob@shop.example")
    await world.deliver("Ada@shop.example")
    assert await counted(world) == (2, [("Ada@shop.example", 2), ("bob@shop.example", 1)])
    await world.deliver("eve@shop.example", "BOB@shop.example", "bob@shop.example")
    newest_first = [("eve@shop.example", 1), ("bob@shop.example", 2), ("Ada@shop.example", 2)]
    assert await counted(world) == (3, newest_first)


async def test_nothing_is_counted_if_no_message_was_caught(world):
    assert await counted(world) == await counted(world) == (0, [])
    await world.deliver("ada@shop.example")
    assert await counted(world) == (1, [("ada@shop.example", 1)])


async def test_only_messages_that_arrived_since_the_last_count_are_read(world):
    for _ in range(3):
        await world.deliver("ada@shop.example")
    await counted(world)
    newest = await world.deliver("ada@shop.example")
    await counted(world)
    world.pages.clear()
    assert await asyncio.gather(*[counted(world) for _ in range(3)]) == [(4, [("ada@shop.example", 4)])] * 3
    assert [(page.after, page.ascending) for page in world.pages] == [(newest, True)] * 3


async def test_a_deletion_is_counted(world):
    for recipients in (["ada@shop.example"], ["ada@shop.example", "bob@shop.example"]):
        await world.deliver(*recipients)
    await counted(world)
    await delete_newest(world)
    assert await counted(world) == (1, [("ada@shop.example", 1)])
    await world.service.catcher.delete_messages()
    assert await counted(world) == (0, [])


async def test_a_deletion_during_a_count_is_in_the_next_count(world):
    for _ in range(3):
        await world.deliver("ada@shop.example")
    read = world.storage.list_recipients

    async def delete_after_reading(inbox_id, page):
        found = await read(inbox_id, page)
        world.storage.list_recipients = read
        await delete_newest(world)
        return found

    world.storage.list_recipients = delete_after_reading
    await counted(world)
    assert await counted(world) == (2, [("ada@shop.example", 2)])


async def test_deleting_a_copy_from_an_inbox_changes_nothing(world):
    await world.deliver("ada@shop.example")
    await counted(world)
    inbox = await world.storage.find_inbox("ada@shop.example", world.clock())
    assert await world.storage.delete_messages(inbox.id) == 1
    world.pages.clear()
    assert await counted(world) == (1, [("ada@shop.example", 1)])
    assert len(world.pages) == 1


async def test_the_counts_of_the_latest_recipients_are_complete(world, monkeypatch):
    monkeypatch.setattr(counting, "MAX_COUNTED", 2)
    for name in ("ada", "bob", "eve", "ada"):
        await world.deliver(f"{name}@shop.example")
    assert await counted(world) == (4, [("ada@shop.example", 2), ("eve@shop.example", 1)])
    await world.deliver("eve@shop.example")
    assert await counted(world) == (5, [("eve@shop.example", 2), ("ada@shop.example", 2)])
    await world.deliver("bob@shop.example")
    assert await counted(world) == (6, [("bob@shop.example", 2), ("eve@shop.example", 2)])
    await world.deliver("ada@shop.example")
    assert await counted(world) == (7, [("ada@shop.example", 3), ("bob@shop.example", 2)])


async def test_other_tasks_run_while_the_recipients_of_a_message_are_compared():
    pages = [[(message_id_of(1), "\n".join(f"{number}@bücher.example" for number in range(1000)))], []]

    class Stored:
        async def list_recipients(self, _inbox_id, _page):
            return pages.pop(0)

    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    [(_, recipients)] = [one async for one in counting.recipients_by_message(Stored(), "1", Page())]
    other.cancel()
    assert (len(recipients), turns) == (1000, 20)


async def test_a_storage_that_other_daemons_change_is_counted_each_time(world):
    world.storage.may_cache = False
    await world.deliver("ada@shop.example")
    for _ in range(2):
        world.pages.clear()
        assert await counted(world) == (1, [("ada@shop.example", 1)])
        assert world.pages[0].after is None
