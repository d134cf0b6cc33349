"""Waiting for messages and following an inbox, with a real service and storage."""

import asyncio
import gc

import anyio
import anyio.lowlevel
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import AddressExpired, Stopping
from tmpmaild.inboxes import filtering
from tmpmaild.inboxes.bus import Bus
from tmpmaild.inboxes.caches import Invalidation
from tmpmaild.inboxes.following import Follower, Following, InboxExpired, seconds_until
from tmpmaild.model import ExpiryMoved, InboxDeleted, MessageDeleted, Page

from .conftest import LIFETIME_MS, World


async def finished(task):
    with anyio.fail_after(PATIENCE_SECONDS):
        return await task


async def test_a_wait_returns_as_soon_as_a_message_arrives_and_otherwise_ends_empty(house):
    async with house.waiting() as waiting:
        message_id = await house.deliver()
        assert [message.id for message in (await finished(waiting)).messages] == [message_id]
    assert len(house.service.bus) == 0
    listing = await finished(house.service.follower.wait(house.inbox.address, Page(after=message_id), None, 0.01))
    assert listing.messages == ()
    assert listing.inbox.id == house.inbox.id


@pytest.fixture
def examined(monkeypatch):
    """Return a function that records the messages passed to one of the functions in ``filtering``."""

    def count(name):
        found, really = [], getattr(filtering, name)
        monkeypatch.setattr(filtering, name, lambda message, *more: found.append(message.id) or really(message, *more))
        return found

    return count


@pytest.mark.parametrize("ascending", [False, True])
async def test_a_wait_checks_each_message_once(house, examined, ascending):
    """A new message does not cause all messages to be examined again."""
    examined = examined("matches")
    for _ in range(20):
        await house.deliver("newsletter")
    async with house.waiting(Page(subject="code", ascending=ascending)) as waiting:
        for number in range(20):
            await house.deliver("newsletter")
            with anyio.fail_after(PATIENCE_SECONDS):
                while len(examined) < 21 + number:
                    await anyio.sleep(0.001)
        message_id = await house.deliver("Your code")
        assert [message.id for message in (await finished(waiting)).messages] == [message_id]
    assert len(examined) == 41


@pytest.mark.parametrize("ascending", [False, True])
async def test_a_wait_for_a_code_searches_each_message_once(house, monkeypatch, examined, ascending):
    """The existing messages are examined first, in several pages, and then each new message."""
    monkeypatch.setattr(filtering, "MAX_EXAMINED", 8)
    examined = examined("_has_findings")
    for _ in range(20):
        await house.deliver("newsletter")
    async with house.waiting(Page(has=frozenset({"code"}), ascending=ascending)) as waiting:
        for number in range(3):
            with anyio.fail_after(PATIENCE_SECONDS):
                while len(examined) < 20 + number:
                    await anyio.sleep(0.001)
            await house.deliver("newsletter")
        message_id = await house.deliver("Your code is 481516")
        assert [message.id for message in (await finished(waiting)).messages] == [message_id]
    assert len(examined) == len(set(examined)) == 24


async def test_a_follower_of_messages_with_codes_gets_only_those_and_all_other_events(house, monkeypatch):
    monkeypatch.setattr(filtering, "MAX_EXAMINED", 8)
    ids = [await house.deliver("newsletter" if number % 20 else "Your code is 481516") for number in range(30)]
    async with house.follow(has=frozenset({"code"})) as following:
        seen = [*await following.next(5), *await following.next(5)]
        assert [event.id for event in seen] == [ids[0], ids[20]]
        await house.service.inboxes.delete_message(house.inbox.address, ids[1], house.token)
        assert list(await following.next(5)) == [MessageDeleted(ids[1])]
        await house.deliver("newsletter")
        last = await house.deliver("Your code is 481516")
        assert [event.id for event in await following.next(5)] == [last]


async def test_a_wait_with_a_filter_stays_after_its_position(house):
    """The position may belong to a different inbox, and a search may end before it."""
    future = "msg_7" + "z" * 25
    async with house.waiting(Page(subject="code", after=future)) as waiting:
        for _ in range(3):
            await house.deliver("Your code")
        await anyio.sleep(0.02)
        assert not waiting.done()


async def test_no_wake_up_is_lost_between_a_read_and_the_sleep(house):
    """Messages arrive at every stage of a wait: before it reads, while it reads, and before it sleeps."""
    after = None
    for yields in range(60):
        wait = house.service.follower.wait(house.inbox.address, Page(after=after, ascending=True), None, 60)
        task = asyncio.ensure_future(wait)
        for _ in range(yields):
            await asyncio.sleep(0)
        message_id = await house.deliver()
        assert [message.id for message in (await finished(task)).messages] == [message_id]
        after = message_id


async def test_a_wait_ends_when_its_inbox_is_deleted(house):
    async with house.waiting() as waiting:
        await house.service.inboxes.delete(house.inbox.address, house.token)
        with pytest.raises(AddressExpired):
            await finished(waiting)


async def test_a_wait_continues_beyond_the_first_expiry_if_the_inbox_is_extended(house):
    house.clock.advance(ms=LIFETIME_MS - 20)
    async with house.waiting() as waiting:
        await house.service.inboxes.change(house.inbox.address, house.token, 3600)
        house.clock.advance(ms=1000)
        message_id = await house.deliver()
        assert [message.id for message in (await finished(waiting)).messages] == [message_id]


async def test_a_stop_ends_waits_and_refuses_new_ones(house):
    async with house.waiting() as waiting:
        house.service.bus.stop()
        with pytest.raises(Stopping):
            await finished(waiting)
    with pytest.raises(Stopping):
        await finished(house.service.follower.wait(house.inbox.address, Page(), None, 60))


async def ids_of(following, count):
    """Read this many messages of a stream, batch by batch."""
    found = []
    with anyio.fail_after(PATIENCE_SECONDS):
        while len(found) < count:
            found += [event.id for event in await following.next(60)]
    return found


async def test_a_stream_starts_with_the_existing_messages_and_continues_with_new_ones(house):
    first = [await house.deliver() for _ in range(25)]
    async with house.follow() as following:
        assert await ids_of(following, 25) == first
        later = [await house.deliver() for _ in range(3)]
        assert await ids_of(following, 3) == later
        assert await following.next(0.01) == []


async def test_resuming_has_no_missing_or_repeated_messages_while_mail_arrives(house):
    sent = []

    async def send():
        sent.extend([await house.deliver() for _ in range(100)])

    seen = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(seen) < 100:  # open a new stream for each batch
                async with house.follow(seen[-1] if seen else None) as following:
                    seen += [event.id for event in await following.next(60)]
    assert seen == sent


async def test_a_stream_reports_deletions_and_changed_expiries(house):
    message_id = await house.deliver()
    async with house.follow(message_id) as following:
        assert await following.next(0) == []
        await house.service.inboxes.delete_message(house.inbox.address, message_id, house.token)
        assert await following.next(60) == [MessageDeleted(message_id)]
        extended = await house.service.inboxes.change(house.inbox.address, house.token, 5000)
        assert await following.next(60) == [ExpiryMoved(extended.expires_at_ms)]
        await house.service.inboxes.delete(house.inbox.address, house.token)
        assert await following.next(60) == [InboxDeleted()]


async def test_a_deletion_is_reported_as_such_even_directly_after_a_message(house):
    async with house.follow() as following:
        await house.deliver()
        (message,) = await following.next(60)
        await house.deliver()
        await house.service.inboxes.delete(house.inbox.address, house.token)
        assert not await following.may_show(message)
        assert await following.next(60) == [InboxDeleted()]


@pytest.mark.parametrize(("advance_ms", "end"), [(0, InboxDeleted()), (LIFETIME_MS, InboxExpired())])
async def test_a_deletion_stored_before_the_listener_started_is_reported_as_such(house, advance_ms, end):
    """The listener is never woken, because its bus is separate, so only a read can detect the deletion or expiry."""
    follower = Follower(house.service.mail, house.service.access, Bus(), clock=house.clock)
    async with follower.follow(house.inbox.address, None, None) as following:
        if not advance_ms:
            await house.service.inboxes.delete(house.inbox.address, house.token)
        house.clock.advance(ms=advance_ms)
        assert await following.next(60) == [end]


async def test_an_event_may_be_shown_until_its_message_or_its_inbox_is_gone(house):
    ids = [await house.deliver() for _ in range(3)]
    async with house.follow() as following:
        first, second, third = await following.next(60)
        assert [await following.may_show(event) for event in (first, second, third)] == [True] * 3
        await house.service.inboxes.delete_message(house.inbox.address, ids[1], house.token)
        assert [await following.may_show(event) for event in (first, second, third)] == [True, False, True]
        (deleted,) = await following.next(60)
        assert (deleted, await following.may_show(deleted)) == (MessageDeleted(ids[1]), True)
        moved = await house.service.inboxes.change(house.inbox.address, house.token, 7200)
        house.clock.advance(ms=LIFETIME_MS)
        assert await following.may_show(first)
        assert await following.next(60) == [ExpiryMoved(moved.expires_at_ms)]
        house.clock.advance(ms=LIFETIME_MS)
        assert not await following.may_show(first)
        (end,) = await following.next(60)
        assert (end, await following.may_show(end)) == (InboxExpired(), True)


async def test_a_long_body_is_cut_in_a_stream(house):
    await World.deliver(house, house.inbox.address, raw=b"\r\n" + b"x" * 100_000)
    async with house.follow() as following:
        (message,) = await following.next(60)
    assert (message.truncated, len(message.body)) == (True, 1024)


def test_a_sleep_lasts_until_the_end_and_at_least_a_millisecond():
    assert seconds_until(1500, 1000) == 0.5
    assert seconds_until(0, 1000) == 0.001


@pytest.mark.parametrize(("moved_seconds", "advance_ms"), [(7200, LIFETIME_MS), (1, 1000)])
async def test_a_stream_knows_an_expiry_that_changed_before_it_subscribed(house, moved_seconds, advance_ms):
    """The inbox may have changed between the lookup and the subscription."""
    moved = await house.service.inboxes.change(house.inbox.address, house.token, moved_seconds)
    with house.service.bus.subscribe(house.inbox.id) as subscription:
        following = Following(
            house.service.mail, subscription, house.inbox, page=Page(ascending=True), token=None, clock=house.clock
        )
        assert await following.next(0) == []
        house.clock.advance(ms=advance_ms)
        expected = [InboxExpired()] if moved.expires_at_ms <= house.clock() else []
        assert await following.next(0.01) == expected


def invalidations():
    return sum(isinstance(one, Invalidation) for one in gc.get_objects())


async def test_a_quiet_listener_keeps_no_deletions_of_other_inboxes(house):
    """A listener references the deletions since its last check; each check releases these references."""
    other, token = await house.create()
    async with house.follow() as following:
        assert await following.next(0) == []
        before = invalidations()
        for lifetime_seconds in range(1, 51):
            await house.service.inboxes.change(other.address, token, lifetime_seconds)
        assert await following.next(0) == []
        assert invalidations() <= before + 1
