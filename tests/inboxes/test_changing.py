"""Requests that create, change and delete inboxes."""

import pytest

from tmpmaild.errors import AddressNotFound, AddressTaken, InvalidRequest
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.model import Purpose

from .conftest import LIFETIME_MS, World


async def test_all_mistakes_in_a_request_are_reported_at_once(world):
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


async def test_a_random_name_that_is_taken_is_generated_again_a_few_times(world):
    world.random.stuck = True
    await world.create()
    with pytest.raises(AddressTaken):
        await world.create()
    world.random.stuck = False
    await world.create()


async def test_an_address_can_be_extended_to_the_limit_but_not_by_another_millisecond(storage, clock):
    world = World(storage, clock, max_lifetime_seconds=3602)
    inbox, token = await world.create()
    last_ms = inbox.created_at_ms + LIFETIME_MS + 2000
    assert world.service.rules.extendable_until_ms(inbox) == last_ms
    extended = await world.service.inboxes.change(inbox.address, token, LIFETIME_MS // 1000 + 2)
    assert extended.expires_at_ms == world.service.rules.extendable_until_ms(extended) == last_ms
    world.clock.advance(ms=1)
    with pytest.raises(InvalidRequest):
        await world.service.inboxes.change(inbox.address, token, LIFETIME_MS // 1000 + 2)


async def test_an_address_keeps_its_lifetime_when_the_operator_lowers_the_limit(storage, clock):
    generous, strict = World(storage, clock, max_lifetime_seconds=7200), World(storage, clock)
    inbox, token = await generous.create()
    inbox = await generous.service.inboxes.change(inbox.address, token, 2 * LIFETIME_MS // 1000)
    assert strict.service.rules.extendable_until_ms(inbox) == inbox.expires_at_ms
    with pytest.raises(InvalidRequest) as refusal:
        await strict.service.inboxes.change(inbox.address, token, 2 * LIFETIME_MS // 1000 + 1)
    ((_, detail),) = refusal.value.errors
    assert detail == "expected at most 7200 now: the lifetime of an address is at most 7200 seconds"


@pytest.mark.parametrize("ending", ["deleted", "expired"])
async def test_in_a_service_for_tests_a_name_is_free_as_soon_as_its_inbox_has_ended(storage, clock, ending):
    world = World(storage, clock, purpose=Purpose.TESTS)
    first, token = await world.create(local_part="chosen", lifetime_seconds=60)
    await world.deliver(first.address)
    with pytest.raises(AddressTaken):
        await world.create(local_part="chosen")
    if ending == "deleted":
        await world.service.inboxes.delete(first.address, token)
    else:
        clock.advance(ms=60_000)
    second, new_token = await world.create(local_part="chosen")
    assert (second.address, second.message_count) == (first.address, 0)
    with pytest.raises(AddressNotFound):
        await world.service.inboxes.delete(second.address, token)
    await world.deliver(second.address)
    await world.service.inboxes.delete(second.address, new_token)


@pytest.mark.parametrize("ending", ["deleted", "expired"])
async def test_a_name_is_blocked_for_24_hours_in_a_permanent_service(storage, clock, ending):
    world = World(storage, clock)
    inbox, token = await world.create(local_part="chosen")
    if ending == "deleted":
        await world.service.inboxes.delete(inbox.address, token)
    clock.advance(ms=24 * LIFETIME_MS - 1 + (0 if ending == "deleted" else LIFETIME_MS))
    with pytest.raises(AddressTaken):
        await world.create(local_part="chosen")
    clock.advance(ms=1)
    await world.create(local_part="chosen")


@pytest.mark.parametrize(("purpose", "is_created"), [(Purpose.MAIL, False), (Purpose.TESTS, True)])
async def test_mail_creates_an_address_again_if_its_name_is_free(storage, clock, purpose, is_created):
    world = World(storage, clock, purpose=purpose, accept_unknown=True)
    await world.deliver("ada@mail.example.com")
    clock.advance(ms=LIFETIME_MS)
    if is_created:
        await world.deliver("ada@mail.example.com")
    else:
        with pytest.raises(AddressNotFound):
            await world.deliver("ada@mail.example.com")
