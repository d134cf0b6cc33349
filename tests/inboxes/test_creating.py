"""Addresses that are created, and the rules that they are created by."""

import pytest
from services import rules

from tmpmaild.errors import AddressTaken, InvalidRequest
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.model import Page
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import LIFETIME_MS, World, mailbox_of


async def test_a_plain_create_gives_a_random_address_at_the_first_domain(world):
    inbox, token = await world.create()
    name, domain = inbox.address.split("@")
    assert (len(name), domain, len(token)) == (12, "mail.example.com", 43)
    assert (inbox.created_at_ms, inbox.expires_at_ms) == (world.clock(), world.clock() + LIFETIME_MS)
    assert await world.service.access.find(inbox.address) == inbox


async def test_neither_the_token_nor_the_creator_is_in_any_file(world, tmp_path):
    inbox, token = await world.create()
    await world.deliver(inbox.address)
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert inbox.address.encode() in files
    assert token.encode() not in files
    assert b"192.0.2.1" not in files


async def test_a_wish_for_name_and_domain_is_granted_in_lower_case(world):
    inbox, _ = await world.create(local_part="Ada.L", domain="SECOND.test")
    assert inbox.address == "ada.l@second.test"
    assert (await world.service.access.find("ADA.L+tag@Second.Test")).id == inbox.id


async def test_all_that_is_wrong_with_a_wish_is_told_at_once(world):
    longest_seconds = LIFETIME_MS // 1000
    world.service.inboxes.ensure_creatable(NewAddress("ada", "second.test", lifetime_seconds=longest_seconds))
    with pytest.raises(InvalidRequest) as refusal:
        world.service.inboxes.ensure_creatable(
            NewAddress("a b", "elsewhere.test", lifetime_seconds=longest_seconds + 1)
        )
    assert refusal.value.errors[0] == ("/domain", "expected one of mail.example.com, second.test")
    assert [pointer for pointer, _ in refusal.value.errors] == ["/domain", "/local_part", "/expires_in_seconds"]
    with pytest.raises(InvalidRequest):
        await world.create(domain="elsewhere.test")


async def test_a_random_name_that_is_taken_is_drawn_again_a_few_times(world):
    world.random.stuck = True
    await world.create()
    with pytest.raises(AddressTaken):
        await world.create()
    world.random.stuck = False
    await world.create()


async def test_a_retired_domain_gives_no_address_and_is_kept_to_the_millisecond(world):
    inbox, token = await world.create(local_part="ada", domain="second.test")
    kept_until_ms = inbox.expires_at_ms + 5000
    world.service.change_rules(rules(max_lifetime_seconds=7200, retired={"second.test": kept_until_ms}))
    with pytest.raises(InvalidRequest):
        await world.create(domain="second.test")
    await world.deliver("ada@second.test")
    assert await world.service.deliverer.recipient(mailbox_of("postmaster@second.test")) == OPERATOR_INBOX_ID
    assert world.service.rules.extendable_until_ms(inbox) == kept_until_ms
    assert (
        await world.service.inboxes.change(inbox.address, token, LIFETIME_MS // 1000 + 5)
    ).expires_at_ms == kept_until_ms
    world.clock.advance(ms=LIFETIME_MS + 4999)
    assert "second.test" in world.service.deliverer.mail_domains
    await world.deliver("ada@second.test")
    world.clock.advance(ms=1)
    assert "second.test" not in world.service.deliverer.mail_domains


async def test_every_name_below_a_wildcard_is_a_domain_and_its_postmaster_the_operator(world):
    world.service.change_rules(rules("mail.example.com", "*.tenants.test", accept_unknown=True))
    inbox, _ = await world.create(local_part="ada", domain="Acme.tenants.test")
    assert inbox.address == "ada@acme.tenants.test"
    await world.deliver("Ada+tag@acme.tenants.test", "unknown@a.b.tenants.test")
    assert len((await world.service.mail.list("unknown@a.b.tenants.test", Page())).messages) == 1
    assert await world.service.deliverer.recipient(mailbox_of("postmaster@any.tenants.test")) == OPERATOR_INBOX_ID
    assert (await world.create())[0].address.endswith("@mail.example.com")
    long = ".".join(["x" * 60] * 4) + ".tenants.test"
    for wrong in ("tenants.test", "*.tenants.test", "a_b.tenants.test", "a..tenants.test", long, "second.test"):
        with pytest.raises(InvalidRequest) as refusal:
            await world.create(domain=wrong)
        assert [pointer for pointer, _ in refusal.value.errors] == ["/domain"]


async def test_a_retired_wildcard_is_kept_and_a_domain_below_a_new_one_is_not_retired(world):
    wild, nine_hours = ("mail.example.com", "*.tenants.test"), {"max_lifetime_seconds": 9 * 3600}
    world.service.change_rules(rules(*wild, **nine_hours))
    inbox, _ = await world.create(local_part="ada", domain="acme.tenants.test")
    until_ms = inbox.expires_at_ms + 5000
    retired = {"*.tenants.test": until_ms}
    world.service.change_rules(rules(retired=retired, **nine_hours))
    await world.deliver("ada@acme.tenants.test")
    assert world.service.rules.extendable_until_ms(inbox) == until_ms
    with pytest.raises(InvalidRequest):
        await world.create(domain="acme.tenants.test")
    world.clock.advance(ms=LIFETIME_MS + 5000)
    assert "acme.tenants.test" not in world.service.deliverer.mail_domains
    world.service.change_rules(rules(*wild, retired={"acme.tenants.test": 1}, **nine_hours))
    assert world.service.rules.extendable_until_ms(inbox) == inbox.created_at_ms + 9 * LIFETIME_MS


async def test_an_address_can_be_extended_to_that_moment_and_no_millisecond_further(storage, clock):
    world = World(storage, clock, max_lifetime_seconds=3602)
    inbox, token = await world.create()
    last_ms = inbox.created_at_ms + LIFETIME_MS + 2000
    assert world.service.rules.extendable_until_ms(inbox) == last_ms
    extended = await world.service.inboxes.change(inbox.address, token, LIFETIME_MS // 1000 + 2)
    assert extended.expires_at_ms == world.service.rules.extendable_until_ms(extended) == last_ms
    world.clock.advance(ms=1)
    with pytest.raises(InvalidRequest):
        await world.service.inboxes.change(inbox.address, token, LIFETIME_MS // 1000 + 2)


async def test_an_address_keeps_what_it_was_given_when_the_operator_allows_less_from_then_on(storage, clock):
    generous, strict = World(storage, clock, max_lifetime_seconds=7200), World(storage, clock)
    inbox, token = await generous.create()
    inbox = await generous.service.inboxes.change(inbox.address, token, 2 * LIFETIME_MS // 1000)
    assert strict.service.rules.extendable_until_ms(inbox) == inbox.expires_at_ms
    with pytest.raises(InvalidRequest) as refusal:
        await strict.service.inboxes.change(inbox.address, token, 2 * LIFETIME_MS // 1000 + 1)
    ((_, detail),) = refusal.value.errors
    assert detail == "expected at most 7200 now: an address here lives 7200 seconds at most"
