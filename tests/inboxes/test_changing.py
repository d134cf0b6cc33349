"""Requests that create, change and delete inboxes."""

import pytest

from tmpmaild.errors import AddressTaken, InvalidRequest
from tmpmaild.inboxes.creating import NewAddress

from .conftest import LIFETIME_MS, World


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
