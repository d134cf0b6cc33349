"""Round-robin turns, which are not charged for processor time."""

import asyncio

import pytest

from tmpmaild.scheduling.clients import on_behalf_of
from tmpmaild.scheduling.roundrobin import FairSemaphore, RoundRobin

from .conftest import VICTIM


def test_networks_take_turns_and_in_them_their_clients():
    waiting = RoundRobin()
    for client in ("198.51.100.1", "198.51.100.1", "198.51.100.2", "198.51.100.2", "192.0.2.1"):
        waiting.append(client, client)
    first = waiting.popleft()
    assert first == "198.51.100.1"
    waiting.put_back(first, first)  # the order is now the same as before ``popleft``
    served = []
    while waiting:
        served.append(waiting.popleft())
    assert served == ["198.51.100.1", "192.0.2.1", "198.51.100.2", "198.51.100.1", "198.51.100.2"]


@pytest.mark.parametrize("steps", range(6))
async def test_a_semaphore_loses_no_slot_whenever_waiting_clients_are_cancelled(steps):
    semaphore, let_go, inside = FairSemaphore(2), asyncio.Event(), []

    async def enter(client):
        async with semaphore:
            inside.append(client)
            await let_go.wait()

    def wait(client):
        with on_behalf_of(client):
            return asyncio.create_task(enter(client))

    tasks = [wait(client) for client in ("a", "b", "cancelled", "cancelled", VICTIM, "cancelled", "c", "d", "e")]
    await asyncio.sleep(0)
    assert inside == ["a", "b"]
    let_go.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    for task in tasks[2:4] + tasks[5:6]:
        task.cancel()
    let_go.clear()
    await asyncio.sleep(0)
    let_go.set()
    await asyncio.wait(tasks)
    assert {"a", "b", VICTIM, "c", "d", "e"} <= set(inside)
    assert inside.index(VICTIM) <= 3
    let_go.clear()
    inside.clear()
    again = [wait(client) for client in "xyz"]
    await asyncio.sleep(0)
    assert inside == ["x", "y"]  # the number of slots has not changed
    let_go.set()
    await asyncio.wait(again)
