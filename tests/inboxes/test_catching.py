"""The catcher: which messages are deleted from the inbox for all mail, and from the recipients' inboxes."""

import asyncio

import pytest

from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.model import Page, Purpose
from tmpmaild.storage.base import DELETED_AT_ONCE

from .conftest import World


@pytest.fixture
async def world(storage, clock):
    """Return a service that catches all mail."""
    caught = World(storage, clock, purpose=Purpose.CATCHING)
    await caught.service.catcher.start()
    return caught


async def subjects(world, address=ALL_MAIL):
    listing = await world.storage.list_messages(address, Page(ascending=True), world.clock())
    return [message.subject for message in listing.messages] if listing else []


async def send(world, subject, *recipients):
    await world.deliver(*recipients, raw=f"Subject: {subject}\r\n\r\nHello\r\n".encode())


async def test_a_message_that_arrives_while_all_are_deleted_is_in_the_list_and_its_inbox_or_in_neither(world):
    for number in range(2 * DELETED_AT_ONCE):
        await send(world, f"before {number}", "ada@shop.example", "bob@shop.example")
    deletion = asyncio.ensure_future(world.service.catcher.delete_messages())
    for number in range(20):
        await send(world, f"meanwhile {number}", "ada@shop.example", "bob@shop.example")
    assert await deletion >= 2 * DELETED_AT_ONCE
    await send(world, "afterwards", "ada@shop.example", "bob@shop.example")
    listed = await subjects(world)
    assert listed[-1] == "afterwards"
    assert await subjects(world, "ada@shop.example") == await subjects(world, "bob@shop.example") == listed


async def test_a_message_to_a_thousand_recipients_is_deleted_in_one_transaction(world):
    recipients = [f"user{number}@shop.example" for number in range(1000)]
    await send(world, "goes", *recipients)
    commits = []
    world.storage.on_committed(lambda changes: commits.append(len(changes)))
    listing = await world.storage.list_messages(ALL_MAIL, Page(limit=1), world.clock())
    await world.service.catcher.delete_message(listing.messages[0].id)
    assert commits == [1 + 1000]
    assert await subjects(world) == await subjects(world, recipients[0]) == await subjects(world, recipients[-1]) == []


async def test_a_file_of_the_messages_to_a_recipient_leaves_out_other_and_deleted_messages(world):
    for number in range(3):
        await send(world, f"to ada {number}", "bob@shop.example", "Ada@shop.example")
        await send(world, f"to bob {number}", "bob@shop.example", "ada+tag@shop.example")
    catcher = world.service.catcher
    parts = world.service.mail.mbox_of(ALL_MAIL, catcher.ids_to("ada@Shop.example"))
    assert b"Subject: to ada 0\n" in await anext(parts)
    _, second, _ = [one async for one in catcher.ids_to("ada@shop.example")]
    await catcher.delete_message(second)
    (last,) = [part async for part in parts]
    assert b"Subject: to ada 2\n" in last


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_message_to_the_same_inbox_in_several_forms_is_deleted_there_once(world, by_id):
    await send(world, "stays", "ada@shop.example")
    world.clock.advance(ms=1)
    await send(world, "goes", "ada@shop.example", "ada+tag@shop.example", "ADA@shop.example")
    listing = await world.storage.list_messages(ALL_MAIL, Page(limit=1), world.clock())
    (goes,) = listing.messages
    if by_id:
        await world.service.catcher.delete_message(goes.id)
        assert await subjects(world) == await subjects(world, "ada@shop.example") == ["stays"]
    else:
        assert await world.service.catcher.delete_messages(up_to=goes.id) == 2
        assert await subjects(world) == await subjects(world, "ada@shop.example") == []


@pytest.mark.parametrize("in_between_ms", [0, 1])
async def test_messages_up_to_a_message_are_deleted_with_their_copies_even_if_it_was_already_deleted(
    world, in_between_ms
):
    for name in ("first", "second", "third", "fourth"):
        await send(world, name, "ada@shop.example", "bob@shop.example")
        world.clock.advance(ms=in_between_ms)
    await send(world, "second", "bob@shop.example")
    listing = await world.storage.list_messages(ALL_MAIL, Page(ascending=True), world.clock())
    third = listing.messages[2].id
    await world.service.catcher.delete_message(third)
    assert await world.service.catcher.delete_messages(up_to=third) == 2
    assert await subjects(world) == await subjects(world, "bob@shop.example") == ["fourth", "second"]
    assert await subjects(world, "ada@shop.example") == ["fourth"]
    assert await world.service.catcher.delete_messages(up_to=third) == 0


@pytest.mark.both_engines
async def test_messages_to_a_recipient_are_deleted_with_their_copies_and_other_messages_are_kept(world):
    await send(world, "to both", "Ada@shop.example", "bob@shop.example")
    await send(world, "to bob", "bob@shop.example")
    await send(world, "to a tag", "ada+tag@shop.example")
    await send(world, "to ada", "ada@SHOP.example")
    assert await world.service.catcher.delete_messages_to("ada@shop.example") == 2
    assert await subjects(world) == ["to bob", "to a tag"]
    assert await subjects(world, "ada@shop.example") == ["to a tag"]
    assert await subjects(world, "bob@shop.example") == ["to bob"]
    for recipient in ("ada@shop.example", "shop.example", "bob@shop.example\nbob@shop.example", "\ud800"):
        assert await world.service.catcher.delete_messages_to(recipient) == 0


@pytest.mark.both_engines
async def test_messages_to_a_recipient_are_deleted_up_to_a_message_that_need_not_be_to_the_recipient_or_exist(world):
    for name in ("first", "second", "third", "fourth"):
        await send(world, name, "ada@shop.example" if name != "third" else "bob@shop.example")
    listing = await world.storage.list_messages(ALL_MAIL, Page(ascending=True), world.clock())
    first, _, third, _ = [message.id for message in listing.messages]
    catcher = world.service.catcher
    assert await catcher.delete_messages_to("ada@shop.example", up_to=first) == 1
    await catcher.delete_message(third)
    assert await catcher.delete_messages_to("ada@shop.example", up_to=third) == 1
    assert await subjects(world) == await subjects(world, "ada@shop.example") == ["fourth"]


@pytest.mark.both_engines
async def test_many_messages_to_a_recipient_are_deleted_in_transactions_of_the_same_size_as_all_messages(world):
    for number in range(DELETED_AT_ONCE + 1):
        await send(world, f"to ada {number}", "ada@shop.example")
        await send(world, f"to bob {number}", "bob@shop.example")
    commits = []
    world.storage.on_committed(lambda changes: commits.append(len(changes)))
    assert await world.service.catcher.delete_messages_to("ada@shop.example") == DELETED_AT_ONCE + 1
    assert commits == [2 * DELETED_AT_ONCE, 2]
    assert await subjects(world, "ada@shop.example") == []
    assert len(await subjects(world, "bob@shop.example")) == DELETED_AT_ONCE


async def test_catchers_that_start_at_the_same_time_on_one_storage_use_the_same_list(storage, clock):
    catchers = [World(storage, clock, purpose=Purpose.CATCHING).service.catcher for _ in range(3)]
    await asyncio.gather(*[catcher.start() for catcher in catchers])
    assert len({catcher.inbox_id for catcher in catchers}) == 1


async def test_nothing_is_deleted_if_no_message_was_caught(world):
    assert await world.service.catcher.delete_messages() == 0
