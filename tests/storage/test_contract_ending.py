"""What every storage engine promises of ending an inbox or moving its expiry: only ``Storage`` is known here."""

import asyncio

import pytest

from tmpmaild.errors import AddressExpired, AddressNotFound
from tmpmaild.model import NAME_HELD_MS
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.rows import is_message_id

from .conftest import LIFETIME_MS, NO_INBOX_IDS, until_full


async def test_the_operators_inbox_and_those_of_nobody_can_be_neither_ended_nor_moved(engine):
    for inbox_id in (OPERATOR_INBOX_ID, *NO_INBOX_IDS):
        with pytest.raises(AddressNotFound):
            await engine.storage.move_expiry(inbox_id, engine.clock(), engine.clock())
        with pytest.raises(AddressNotFound):
            await engine.storage.move_expiry(inbox_id, engine.clock() + 1, engine.clock())
    await engine.add(OPERATOR_INBOX_ID)


async def test_a_deleted_inbox_is_like_one_that_is_over(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    engine.clock.advance(ms=1000)
    await engine.end(inbox)
    assert (await engine.find("ada")).expires_at_ms == engine.clock()
    with pytest.raises(AddressNotFound):
        await engine.add(inbox)
    for refused in (engine.end(inbox), engine.move(inbox, engine.clock() + 1000)):
        with pytest.raises(AddressExpired) as refusal:
            await refused
        assert refusal.value.expired_at_ms == engine.clock()
    await engine.sweep()
    assert (await engine.find("ada")).message_count == 0


async def test_an_inbox_lives_until_the_moment_its_end_was_moved_to(engine):
    later, sooner = await engine.inbox("later"), await engine.inbox("sooner")
    await engine.move(later, engine.clock() + 2 * LIFETIME_MS)
    await engine.move(sooner, engine.clock() + 10)
    assert (await engine.find("later")).expires_at_ms == engine.clock() + 2 * LIFETIME_MS
    engine.clock.advance(ms=10)
    with pytest.raises(AddressNotFound):
        await engine.add(sooner)
    engine.clock.advance(ms=2 * LIFETIME_MS - 11)
    await engine.sweep()
    await engine.add(later)
    engine.clock.advance(ms=1)
    with pytest.raises(AddressNotFound):
        await engine.add(later)


async def test_who_asked_a_moment_before_the_end_but_comes_to_its_turn_after_it_is_too_late(engine):
    """A sweep may have begun with the inbox."""
    inbox = await engine.inbox("ada")
    engine.clock.advance(ms=LIFETIME_MS)
    with pytest.raises(AddressExpired):
        await engine.storage.move_expiry(inbox.id, engine.clock() + LIFETIME_MS, engine.clock() - 1)


@pytest.mark.parametrize("sweep_first", [False, True])
async def test_moving_the_end_and_sweeping_at_once_leave_all_of_an_inbox_or_nothing(engine, sweep_first):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    over_ms = inbox.expires_at_ms
    # The sweep's clock may be ahead of the batch's: it was asked later.
    work = [engine.storage.sweep(over_ms), engine.move(inbox, over_ms + LIFETIME_MS)]
    _, *outcomes = await asyncio.gather(
        engine.inbox("other"), *(work if sweep_first else work[::-1]), return_exceptions=True
    )
    assert any(isinstance(outcome, AddressExpired) for outcome in outcomes) is sweep_first
    assert (await engine.find("ada")).message_count == (0 if sweep_first else 1)
    if not sweep_first:
        engine.clock.advance(ms=LIFETIME_MS)
        await engine.add(inbox)


async def test_when_an_inbox_ends_in_the_middle_of_a_batch_only_what_came_before_is_taken(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    _, before, _, after = await asyncio.gather(
        engine.inbox("other"), engine.add(inbox), engine.end(inbox), engine.add(inbox), return_exceptions=True
    )
    assert (is_message_id(before), type(after)) == (True, AddressNotFound)


async def test_at_the_cap_inboxes_end_and_move_and_the_cap_stays_what_it_was(open_engine):
    async with open_engine(max_bytes=1024 * 1024) as engine:
        inboxes = await until_full(lambda number: engine.inbox(f"box{number}"))
        half = len(inboxes) // 2
        # The newest first: an order by time then needs room far from where it gets some.
        await asyncio.gather(*(engine.end(inbox) for inbox in inboxes[:half:-1]))
        await asyncio.gather(*(engine.move(inbox, engine.clock() + 10) for inbox in inboxes[half::-1]))
        assert len(await until_full(lambda number: engine.inbox(f"more{number}"))) < 50
        engine.clock.advance(ms=NAME_HELD_MS + 10)
        await engine.sweep()
        assert engine.storage.has_room()
        await engine.inbox("box0")
