"""Following several inboxes in one stream, with a real service and storage."""

import asyncio
from itertools import groupby

import anyio
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import Stopping
from tmpmaild.inboxes import merging
from tmpmaild.inboxes.bus import Overflow
from tmpmaild.inboxes.following import BacklogShown, InboxExpired
from tmpmaild.inboxes.merging import InboxToFollow, NotChecked, Unavailable
from tmpmaild.model import ExpiryMoved, Message, MessageDeleted


@pytest.fixture
async def other(house):
    inbox, _ = await house.create(local_part="other")
    return inbox


@pytest.fixture
def follow(house, other):
    """Return a function that follows both inboxes, or the given inboxes."""

    def opened(*wishes, purse=None):
        async def pay():
            return purse is None or next(purse)

        both = [InboxToFollow(inbox.address) for inbox in (house.inbox, other)]
        return merging.follow_several(house.service.follower, wishes or both, pay)

    return opened


async def at_rest(several):
    """Yield all available events."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while True:
            events = await several.next(0)
            if not events:
                return
            for event in events:
                yield event


async def test_an_inbox_with_many_messages_does_not_delay_the_others(house, other, follow):
    flood = [await house.deliver() for _ in range(25)]
    few = [await house.deliver(address=other.address) for _ in range(2)]
    async with follow() as several:
        events = [event async for event in at_rest(several)]
    turns = [(named, len(list(turn))) for named, turn in groupby(event.named for event in events)]
    assert turns == [(house.inbox.address, 10), (other.address, 3), (house.inbox.address, 16)]
    ids = [event.event.id for event in events if isinstance(event.event, Message)]
    assert sorted(ids) == sorted(flood + few)
    states = [event.event.inbox for event in events if isinstance(event.event, BacklogShown)]
    assert [state.message_count for state in states] == [2, 25]


async def test_no_wake_up_of_any_inbox_is_lost_between_a_read_and_the_sleep(house, other, follow):
    async with follow() as several:
        assert len([event async for event in at_rest(several)]) == 2
        for yields in range(60):
            task = asyncio.ensure_future(several.next(60))
            for _ in range(yields):
                await asyncio.sleep(0)
            address = (house.inbox.address, other.address)[yields % 2]
            message_id = await house.deliver(address=address)
            with anyio.fail_after(PATIENCE_SECONDS):
                assert [(event.named, event.event.id) for event in await task] == [(address, message_id)]


async def test_the_state_of_an_inbox_is_sent_before_later_changes(house, follow):
    """If the order were different, a client would use the older of two expiry times."""
    message_id = await house.deliver()
    async with follow(InboxToFollow(house.inbox.address)) as several:
        await house.service.inboxes.change(house.inbox.address, house.token, 60)
        await house.service.inboxes.delete_message(house.inbox.address, message_id, house.token)
        moved = await house.service.inboxes.change(house.inbox.address, house.token, 120)
        kinds = [event.event async for event in at_rest(several)]
    state, *notices = kinds
    assert (type(state), state.inbox.expires_at_ms, state.inbox.message_count) == (BacklogShown, moved.expires_at_ms, 0)
    assert notices[1:] == [MessageDeleted(message_id), ExpiryMoved(moved.expires_at_ms)]


async def test_each_inbox_ends_at_its_own_time(house, other, follow):
    await house.service.inboxes.change(house.inbox.address, house.token, 60)
    async with follow() as several:
        assert len([event async for event in at_rest(several)]) == 2
        house.clock.advance(seconds=60)
        (ended,) = await several.next(60)
        assert (ended.named, ended.event, several.has_ended) == (house.inbox.address, InboxExpired(), False)
        assert await several.next(0.01) == []
        house.clock.now_ms = other.expires_at_ms
        (ended,) = await several.next(60)
        assert (ended.named, ended.event, several.has_ended) == (other.address, InboxExpired(), True)
    assert len(house.service.bus) == 0


async def test_no_mail_of_an_inbox_is_shown_after_it_was_deleted(house, other, follow):
    kept = await house.deliver(address=other.address)
    gone = await house.deliver()
    async with follow() as several:
        (first, _) = await several.next(60)
        (second, _) = await several.next(60)
        assert (first.event.id, second.event.id) == (gone, kept)
        await house.service.inboxes.delete_message(house.inbox.address, gone, house.token)
        assert [await several.may_show(event) for event in (first, second)] == [False, True]


async def test_a_stop_and_unread_changes_end_the_stream(house, follow):
    async with follow() as several:
        assert len([event async for event in at_rest(several)]) == 2
        for _ in range(201):
            await house.service.inboxes.change(house.inbox.address, house.token, 60)
        with pytest.raises(Overflow):
            await several.next(0)
    async with follow() as several:
        assert len([event async for event in at_rest(several)]) == 2
        house.service.bus.stop()
        with pytest.raises(Stopping):
            await several.next(60)
    assert len(house.service.bus) == 0


async def test_inboxes_without_a_token_left_are_not_looked_up_nor_are_later_ones(house, other, follow, monkeypatch):
    looked_up = []
    find = house.service.access.find

    async def counted(address, token):
        looked_up.append(address)
        return await find(address, token)

    monkeypatch.setattr(house.service.access, "find", counted)
    purse = iter([True, False])
    named = [house.inbox.address, "a@mail.example.com", "b@mail.example.com", other.address, "c@mail.example.com"]
    async with follow(*map(InboxToFollow, named), purse=purse) as several:
        assert await several.next(60) == [Unavailable(named[1]), *map(NotChecked, named[2:])]
        assert [event.named async for event in at_rest(several)] == [house.inbox.address]
    assert looked_up == named[:3]
