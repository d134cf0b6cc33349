"""Every listener of an inbox is woken for each message, misses no wake-up, and uses a bounded amount of memory."""

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


async def test_a_change_between_a_check_and_the_sleep_ends_the_sleep():
    bus = Bus()
    with bus.subscribe("1") as subscription:
        for _ in range(3):
            bus.publish([mail()])
            await subscription.wait(60)
            assert subscription.take_mail()
            bus.publish([mail()])  # a second message arrives while the listener handles its wake-up
            with anyio.fail_after(PATIENCE_SECONDS):
                await subscription.wait(60)
            assert subscription.take_mail()


async def test_a_change_only_wakes_the_listeners_of_its_inbox():
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


async def test_a_listener_that_never_checks_uses_bounded_memory_and_is_notified_of_the_loss():
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


async def test_every_listener_is_notified_of_missed_changes():
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
