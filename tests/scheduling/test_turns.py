"""Turns: the thread that runs the work, the processor time charged for it, and clients that leave early."""

import asyncio

import anyio
import pytest

from tmpmaild.scheduling.clients import current_client, on_behalf_of
from tmpmaild.scheduling.turns import LIGHT_BYTES, LITTLE_SECONDS

from .conftest import ATTACKER, LARGE, VICTIM


async def test_a_lone_client_gets_all_turns_in_order(scheduler, time):
    served = []

    async def work(number):
        await scheduler.run(served.append, number, work_bytes=LARGE, client=VICTIM)

    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(work(number))
    assert served == list(range(20))


async def test_light_work_does_not_wait_for_the_end_of_large_work(scheduler):
    async with scheduler.turn(LARGE, ATTACKER):
        with anyio.fail_after(30):
            assert await scheduler.run(str, 1, work_bytes=LIGHT_BYTES, client=VICTIM) == "1"


@pytest.mark.parametrize(("work_bytes", "used"), [(LARGE, 0.0), (LIGHT_BYTES, 2 * LITTLE_SECONDS)])
async def test_neither_large_work_nor_a_client_with_much_use_takes_the_thread_of_light_work(
    scheduler, work_bytes, used
):
    scheduler.usage.charge(ATTACKER, used)
    async with asyncio.TaskGroup() as tasks, scheduler.turn(LARGE, ATTACKER):
        waiting = tasks.create_task(scheduler.run(str, 1, work_bytes=work_bytes, client=ATTACKER))
        await anyio.wait_all_tasks_blocked()
        assert not waiting.done()
        assert await scheduler.run(str, 2, work_bytes=LIGHT_BYTES, client=VICTIM) == "2"
        assert not waiting.done()


async def test_the_cpu_time_of_the_thread_is_charged_to_the_current_client_even_if_the_work_fails(scheduler, time):
    def fail(seconds):
        time.work(seconds)
        raise ValueError("a fault")

    with on_behalf_of(ATTACKER):
        await scheduler.run(time.work, 0.25, work_bytes=1)
        with pytest.raises(ValueError, match="a fault"):
            await scheduler.run(fail, 0.5, work_bytes=1)
    assert scheduler.usage.seconds(ATTACKER) == pytest.approx(0.75)
    assert scheduler.usage.seconds(VICTIM) == 0
    assert scheduler.usage.rank("198.51.100.77") > scheduler.usage.rank(VICTIM)
    assert current_client() == ""


async def test_a_client_that_leaves_while_waiting_leaves_its_turn_to_others(scheduler):
    async with scheduler.turn(LARGE, ATTACKER):
        gone = asyncio.create_task(scheduler.run(str, 1, work_bytes=LARGE, client=VICTIM))
        await anyio.wait_all_tasks_blocked()
        gone.cancel()
        await asyncio.wait([gone])
        assert scheduler.waiting == 0
    assert await scheduler.run(str, 2, work_bytes=LARGE, client=ATTACKER) == "2"


@pytest.mark.parametrize("released_first", [True, False])
async def test_a_client_that_leaves_as_its_turn_starts_returns_the_turn(scheduler, released_first):
    turn = scheduler.turn(LARGE, ATTACKER)
    await turn.__aenter__()
    gone = asyncio.create_task(scheduler.run(str, 1, work_bytes=LARGE, client=VICTIM))
    await anyio.wait_all_tasks_blocked()
    for release in (True, False) if released_first else (False, True):
        if release:
            await turn.__aexit__(None, None, None)
        else:
            gone.cancel()
    await asyncio.wait([gone])
    assert gone.cancelled()
    with anyio.fail_after(30):
        assert await scheduler.run(str, 2, work_bytes=LARGE, client=ATTACKER) == "2"


async def test_heavy_inputs_are_in_memory_one_at_a_time_and_let_light_ones_pass(scheduler):
    async def heavy(stored):
        with scheduler.heavy_slot() as slot:
            await scheduler.run(str, 1, work_bytes=LARGE, client=ATTACKER, heavy_slot=slot)
            await stored.wait()

    first, second = asyncio.Event(), asyncio.Event()
    second.set()
    async with asyncio.TaskGroup() as tasks:
        storing = tasks.create_task(heavy(first))
        await anyio.wait_all_tasks_blocked()
        waiting = tasks.create_task(heavy(second))
        await anyio.wait_all_tasks_blocked()
        assert await scheduler.run(str, 3, work_bytes=LARGE, client=VICTIM) == "3"
        assert not waiting.done()
        first.set()
    assert storing.done()


async def test_a_heavy_input_that_leaves_while_waiting_takes_no_slot(scheduler):
    async with scheduler.turn(LARGE, ATTACKER):
        with scheduler.heavy_slot() as slot:
            gone = asyncio.create_task(scheduler.run(str, 1, work_bytes=LARGE, client=VICTIM, heavy_slot=slot))
            await anyio.wait_all_tasks_blocked()
            gone.cancel()
            await asyncio.wait([gone])
    with anyio.fail_after(30), scheduler.heavy_slot() as slot:
        assert await scheduler.run(str, 2, work_bytes=LARGE, client=VICTIM, heavy_slot=slot) == "2"
