"""Slots: how many a client may have, and when a slow reader loses a slot."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from tmpmaild.scheduling.slots import GRACE_SECONDS, LONE_GRACE_SECONDS, PACE_BYTES_PER_SECOND, Slots

from .conftest import ATTACKER, VICTIM


@pytest.fixture
def slots(scheduler, time):
    return Slots(scheduler, 8, 2, time)


@asynccontextmanager
async def held(slots, *clients, sending=True):
    """Take slots for clients that do not read."""
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(slots.take(client)) for client in clients]
        for slot in found if sending else ():
            stack.enter_context(slot.sending(64 * 1024))
        yield found


async def is_refused(slots, client, *, exempt=False):
    """Request a slot for a client and cancel the request; return whether the client had to wait."""
    with anyio.move_on_after(0) as waiting:
        async with slots.take(client, exempt=exempt):
            return False
    return waiting.cancelled_caught


async def until_cut(slots, time, held, step=0.05):
    """Return the number of seconds after which one of the slots is reclaimed."""
    waited = 0.0
    while not any(slot.scope.cancel_called for slot in held) and waited < 60:
        time.now += step
        waited += step
        slots.preempt()
    return waited


def clients(count):
    return [f"198.51.{number}.1" for number in range(count)]


async def test_a_client_has_two_slots_and_a_network_three_quarters_of_all(slots):
    async with held(slots, ATTACKER, ATTACKER, sending=False):
        assert await is_refused(slots, ATTACKER)
        assert not await is_refused(slots, VICTIM)
        assert not await is_refused(slots, ATTACKER, exempt=True)
    network = [f"198.51.100.{number}" for number in range(6)]
    async with held(slots, *network, sending=False):
        assert await is_refused(slots, "198.51.100.77")
        assert not await is_refused(slots, VICTIM)
    assert len(slots) == 0


async def test_slow_readers_above_their_share_lose_a_slot_when_a_client_waits(slots, time, scheduler):
    async with held(slots, *clients(4) * 2) as slow, asyncio.TaskGroup() as tasks:
        time.now += 60
        # Slots are not reclaimed, because no client is waiting.
        assert not any(slot.scope.cancel_called for slot in slow)
        waiting = tasks.create_task(is_served(slots, VICTIM))
        await anyio.wait_all_tasks_blocked()
        assert sum(slot.scope.cancel_called for slot in slow) == 1
        waiting.cancel()


async def is_served(slots, client):
    async with slots.take(client):
        return True


@pytest.mark.parametrize(("holders", "seconds"), [(clients(4) * 2, GRACE_SECONDS), (clients(8), LONE_GRACE_SECONDS)])
async def test_the_time_that_a_slow_reader_keeps_others_waiting_depends_on_its_share(slots, time, holders, seconds):
    async with held(slots, *holders) as slow:
        waiting = asyncio.create_task(is_served(slots, VICTIM))
        await anyio.wait_all_tasks_blocked()
        assert await until_cut(slots, time, slow) == pytest.approx(seconds, abs=0.06)
        slots.preempt()
        assert sum(slot.scope.cancel_called for slot in slow) == 1
        waiting.cancel()


async def test_parts_that_only_the_kernel_has_taken_give_no_credit(slots, time):
    """The kernel accepts the first parts of a response immediately, whether or not the client reads them."""
    async with held(slots, *clients(4) * 2, sending=False) as slow, AsyncExitStack() as stack:
        for slot in slow:
            for _ in range(10):
                with slot.sending(64 * 1024):
                    pass
            stack.enter_context(slot.sending(64 * 1024))
        waiting = asyncio.create_task(is_served(slots, VICTIM))
        await anyio.wait_all_tasks_blocked()
        part_seconds = 64 * 1024 / PACE_BYTES_PER_SECOND
        assert await until_cut(slots, time, slow) == pytest.approx(GRACE_SECONDS + part_seconds, abs=0.06)
        waiting.cancel()


async def test_a_reader_that_keeps_up_or_has_no_data_yet_keeps_its_slot(slots, time):
    async with held(slots, *clients(4) * 2, sending=False) as steady:
        waiting = asyncio.create_task(is_served(slots, VICTIM))
        await anyio.wait_all_tasks_blocked()
        for _ in range(100):
            for slot in steady[:-1]:
                with slot.sending(64 * 1024):
                    pass
            time.now += 64 * 1024 / PACE_BYTES_PER_SECOND
            slots.preempt()
        assert not any(slot.scope.cancel_called for slot in steady)
        waiting.cancel()


async def test_a_free_slot_goes_to_the_client_with_the_least_use(slots, scheduler):
    served = []

    async def wait(client):
        async with slots.take(client):
            served.append(client)
            scheduler.usage.charge(client, 0.1)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks, held(slots, *clients(8), sending=False):
        scheduler.usage.charge(ATTACKER, 1)
        for client in (ATTACKER, VICTIM):
            tasks.create_task(wait(client))
            await anyio.wait_all_tasks_blocked()
    assert served == [VICTIM, ATTACKER]


async def test_a_client_that_leaves_as_it_gets_a_slot_returns_the_slot(slots):
    first, *others = clients(8)
    async with held(slots, *others, sending=False):
        async with held(slots, first, sending=False):
            gone = asyncio.create_task(is_served(slots, VICTIM))
            await anyio.wait_all_tasks_blocked()
        gone.cancel()  # the task has been given a slot, but has not run since
        await asyncio.wait([gone])
        assert gone.cancelled()
        assert len(slots) == 7
