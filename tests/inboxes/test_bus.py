"""Who listens to an inbox is woken, never loses a wake-up, and costs a bounded amount."""

import asyncio
import tracemalloc

import anyio
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import Stopping
from tmpmaild.inboxes.bus import Bus, Overflow
from tmpmaild.model import ExpiryMoved, InboxChange


def mail(inbox_id="1"):
    return InboxChange(inbox_id, full=False)


def notice(what, inbox_id="1"):
    return InboxChange(inbox_id, full=False, notice=what)


async def test_what_comes_between_a_look_and_the_sleep_ends_the_sleep():
    bus = Bus()
    with bus.subscribe("1") as subscription:
        for _ in range(3):
            bus.publish([mail()])
            await subscription.wait(60)
            assert subscription.take_mail()
            bus.publish([mail()])  # while the listener reads what it was woken for
            with anyio.fail_after(PATIENCE_SECONDS):
                await subscription.wait(60)
            assert subscription.take_mail()


async def test_a_change_wakes_those_of_its_inbox_and_nobody_else():
    bus = Bus()
    with bus.subscribe("1") as one, bus.subscribe("1") as another, bus.subscribe("2") as stranger:
        bus.publish([mail("1"), mail("3")])
        assert (one.take_mail(), another.take_mail(), stranger.take_mail()) == (True, True, False)
        sleeping = asyncio.ensure_future(stranger.wait(60))
        await anyio.wait_all_tasks_blocked()
        bus.publish([mail("1")])
        await anyio.wait_all_tasks_blocked()
        assert not sleeping.done()
        sleeping.cancel()


async def test_who_never_looks_holds_a_bounded_amount_and_learns_that_it_missed_something():
    bus = Bus()
    with bus.subscribe("1") as subscription:
        tracemalloc.start()
        try:
            for number in range(10_000):
                bus.publish([mail(), notice(ExpiryMoved(number))])
            assert tracemalloc.get_traced_memory()[0] < 64 * 1024
        finally:
            tracemalloc.stop()
        with pytest.raises(Overflow):
            subscription.take_notices()


async def test_everybody_learns_that_changes_were_not_told():
    bus = Bus()
    with bus.subscribe("1") as subscription:
        assert list(bus.listened_inboxes()) == ["1"]
        bus.overflow()
        with anyio.fail_after(PATIENCE_SECONDS):
            await subscription.wait(60)
        assert subscription.take_mail()
        with pytest.raises(Overflow):
            subscription.take_notices()


async def test_a_stop_wakes_everybody_now_and_in_future():
    bus = Bus()
    with bus.subscribe("1") as subscription:
        sleeping = asyncio.ensure_future(subscription.wait(60))
        await anyio.wait_all_tasks_blocked()
        bus.stop()
        for wait in (sleeping, subscription.wait(60)):
            with pytest.raises(Stopping), anyio.fail_after(PATIENCE_SECONDS):
                await wait
        with bus.subscribe("2") as late, pytest.raises(Stopping):
            await late.wait(60)
