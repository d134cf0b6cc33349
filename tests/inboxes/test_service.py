"""The service without a network: addresses and messages through ``InboxService``, with a real storage."""

import asyncio

import pytest
from services import rules

from tmpmaild.errors import AddressNotFound, Unauthorized
from tmpmaild.inboxes.faults import Fault
from tmpmaild.model import Block, Page

from .conftest import DOMAINS, LIFETIME_MS, MAIL, mailbox_of


async def test_new_rules_apply_immediately(world):
    inbox, token = await world.create()
    await world.service.mail.list(inbox.address, Page())
    world.service.change_rules(rules(*DOMAINS, lifetime_seconds=1, require_token=True, hostname="mx.new.test"))
    with pytest.raises(Unauthorized):
        await world.service.mail.list(inbox.address, Page())
    await world.deliver(inbox.address)
    (message,) = (await world.service.mail.list(inbox.address, Page(), token)).messages
    _, fields, _ = await world.service.mail.source(inbox.address, message.id, token)
    assert b"by mx.new.test" in fields
    other, _ = await world.create()
    assert other.expires_at_ms - other.created_at_ms == 1000


async def test_the_memory_forgets_expired_content(world):
    inbox, _ = await world.create()
    world.service.change_rules(rules(*DOMAINS, faults=True, keep_refusals=True))
    await world.service.deliverer.recipient(mailbox_of(inbox.address))
    world.service.faults.order(inbox, [Fault("end", "452 4.2.2 Full")])
    world.service.refusals.add("192.0.2.1", "", "")
    world.service.blocks.add([Block("name", "shop", 0, inbox.expires_at_ms)])
    remembered = (world.service.caches.recipients, world.service.faults, world.service.blocks._blocks)
    assert [len(one) for one in remembered] == [1, 1, 1]
    world.clock.advance(ms=LIFETIME_MS)
    world.service.forget_expired(world.clock())
    assert [len(one) for one in remembered] == [0, 0, 0]
    assert list(world.service.refusals.newest()) == []


async def test_a_message_is_found_directly_after_its_acknowledgement_however_often_the_page_was_read(world):
    inbox, _ = await world.create(local_part="often")
    for number in range(2):
        for _ in range(3):
            assert len((await world.service.mail.list(inbox.address, Page())).messages) == number
        reads = [asyncio.ensure_future(world.service.mail.list(inbox.address, Page())) for _ in range(5)]
        message_id = await world.deliver(inbox.address)
        assert (await world.service.mail.list(inbox.address, Page())).messages[0].id == message_id
        await asyncio.gather(*reads)
        assert (await world.service.mail.list(inbox.address, Page())).messages[0].id == message_id


async def test_a_page_read_by_its_owner_is_not_shown_to_others(world):
    inbox, token = await world.create(private=True)
    await world.service.mail.list(inbox.address, Page(), token)
    for wrong in (None, "wrong"):
        with pytest.raises(AddressNotFound):
            await world.service.mail.list(inbox.address, Page(), wrong)


async def test_a_source_is_the_message_preceded_by_our_trace_fields(world):
    inbox, _ = await world.create(local_part="ada")
    message_id = await world.deliver("ADA+x@mail.example.com", "postmaster@mail.example.com")
    _, fields, raw = await world.service.mail.source("ada@MAIL.example.com", message_id)
    assert raw == MAIL
    assert f"by localhost with ESMTP id {message_id}\r\n\tfor <ADA+x@mail.example.com>; ".encode() in fields
    assert b"postmaster" not in fields
    without = await world.service.mail.source(inbox.address, message_id, up_to_bytes=len(MAIL) - 1)
    assert without[1:] == (fields, None)
