"""The order in which clients are served, regardless of other clients' behaviour."""

import asyncio

import pytest

from growth import assert_linear
from tmpmaild.scheduling.fairqueue import PATIENCE_SECONDS
from tmpmaild.scheduling.slots import Slots
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.scheduling.usage import HALF_LIFE_SECONDS

from .conftest import ATTACKER, LARGE, VICTIM, crowd


@pytest.mark.parametrize("attackers", [1, 5, 50])
async def test_a_message_waits_for_at_most_one_turn_whatever_else_is_queued(scheduler, time, attackers):
    names = [f"198.51.{number}.1" for number in range(attackers)]
    async with crowd(scheduler, time) as gathered:
        for name in names:
            scheduler.usage.charge(name, 0.5)
            for _ in range(9):
                await gathered.arrive(name)
        await gathered.arrive(VICTIM, seconds=0.01)
    assert gathered.served[0] == VICTIM
    # Each attacker had a turn before any attacker had a second turn.
    assert set(gathered.served[1 : attackers + 1]) == set(names)


async def test_a_client_with_past_use_is_served_before_a_client_with_present_use(scheduler, time):
    scheduler.usage.charge(VICTIM, 5)
    time.now += 4 * HALF_LIFE_SECONDS
    async with crowd(scheduler, time) as gathered:
        scheduler.usage.charge(ATTACKER, 0.5)
        for _ in range(9):
            await gathered.arrive(ATTACKER)
        await gathered.arrive(VICTIM)
    assert gathered.served[0] == VICTIM


@pytest.mark.parametrize("fresh", ["198.51.100.{}", "2001:db8:1:{:x}::/64"])
async def test_a_new_address_for_each_message_gives_no_advantage_over_other_networks(scheduler, time, fresh):
    scheduler.usage.charge(VICTIM, 0.1)
    scheduler.usage.charge(fresh.format(250), 0.2)
    async with crowd(scheduler, time) as gathered:
        for number in range(100):
            await gathered.arrive(fresh.format(number))
        await gathered.arrive(VICTIM)
    assert gathered.served[0] == VICTIM


async def test_new_addresses_of_the_same_network_cannot_keep_a_client_waiting_for_ever(scheduler, time):
    """The client has used processor time, but the new addresses have not.

    If the rank depended only on the address, the client would always be last.
    """
    scheduler.usage.charge(VICTIM, 0.1)
    async with crowd(scheduler, time) as gathered:
        await gathered.arrive(VICTIM)
        for number in range(2, 200):
            await gathered.arrive(f"192.0.2.{number}")
    waited_seconds = gathered.served.index(VICTIM) * 0.06
    assert PATIENCE_SECONDS < waited_seconds < PATIENCE_SECONDS + 3 * 0.06


async def test_clients_that_have_waited_long_get_only_every_other_turn(scheduler, time):
    async with crowd(scheduler, time) as gathered:
        for number in range(40):
            await gathered.arrive(f"198.51.{number}.1")
        time.now += 2 * PATIENCE_SECONDS
        for number in range(4):
            await gathered.arrive(f"203.0.{number}.1")
            scheduler.usage.charge(f"198.51.{number}.1", 0.1)
        for number in range(40):
            scheduler.usage.charge(f"198.51.{number}.1", 0.1)
    slots = [gathered.served.index(f"203.0.{number}.1") for number in range(4)]
    assert max(slots) <= 2 * 4


async def come_and_go(take, clients):
    """Let every client wait; then half of the clients leave at the same time, and the rest are served one by one."""
    served = []

    async def wait(client):
        async with take(client):
            await asyncio.sleep(0)
            served.append(client)

    waiting = [asyncio.create_task(wait(client)) for client in clients]
    await asyncio.sleep(0)
    for one in waiting[::2]:
        one.cancel()
    await asyncio.wait(waiting)
    assert set(served) >= set(clients[1::2])


@pytest.mark.parametrize("form", ["10.{1}.{0}.1", "2001:db8:1:{0:x}{1:02x}::/64"], ids=["networks", "clients of one"])
@pytest.mark.parametrize(
    "take",
    [
        lambda scheduler: lambda client: scheduler.turn(1, client),
        lambda scheduler: lambda client: scheduler.turn(LARGE, client),
        lambda scheduler: Slots(scheduler, 16, 2).take,
    ],
    ids=["light turns", "large turns", "slots"],
)
def test_the_work_for_clients_that_wait_is_linear(take, form):
    clients = [form.format(number % 250, number // 250) for number in range(2000)]

    def work(some):
        scheduler = FairScheduler()
        for client in some:
            scheduler.usage.charge(client, 0.001)
        asyncio.run(come_and_go(take(scheduler), some))

    assert_linear(work, clients)
