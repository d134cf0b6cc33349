"""Turns and places: who is next, whatever others do. The clock and the CPU time are the test's own."""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from growth import assert_linear
from tmpmaild.scheduling import (
    GRACE_SECONDS,
    HALF_LIFE_SECONDS,
    LIGHT_BYTES,
    LITTLE_SECONDS,
    LONE_GRACE_SECONDS,
    PACE_BYTES_PER_SECOND,
    PATIENCE_SECONDS,
    FairScheduler,
    FairSemaphore,
    Places,
    Usage,
    current_client,
    on_behalf_of,
)

LARGE = LIGHT_BYTES + 1
VICTIM, ATTACKER = "192.0.2.1", "198.51.100.1"


class Time:
    """A clock, and the CPU time of each thread, which pass only when the test says so."""

    def __init__(self):
        self.now = 0.0
        self._threads = threading.local()

    def clock(self):
        return self.now

    def cpu_seconds(self):
        return getattr(self._threads, "seconds", 0.0)

    def work(self, seconds):
        self._threads.seconds = self.cpu_seconds() + seconds


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def scheduler(time):
    return FairScheduler(time.clock, time.cpu_seconds)


class Crowd:
    """Clients that wait for turns; ``served`` has their names in the order in which they got one."""

    def __init__(self, tasks, scheduler, time):
        self._tasks = tasks
        self._scheduler = scheduler
        self._time = time
        self._left = asyncio.Event()
        self.served = []

    async def arrive(self, client, *, work_bytes=LARGE, seconds=0.06, again=0):
        """Wait for a turn of so many seconds, and again so many times, each time at the end of the turn before."""
        self._tasks.create_task(self._work(client, work_bytes, seconds, again))
        await anyio.wait_all_tasks_blocked()

    async def _work(self, client, work_bytes, seconds, again):
        async with self._scheduler.turn(work_bytes, client):
            self.served.append(client)
            self._time.now += seconds
            self._scheduler.usage.charge(client, seconds)
            if again:
                self._tasks.create_task(self._work(client, work_bytes, seconds, again - 1))
                await asyncio.sleep(0)


@asynccontextmanager
async def crowd(scheduler, time):
    """Let clients gather while a turn of somebody else lasts, then serve them all."""
    async with asyncio.TaskGroup() as tasks:
        gathered = Crowd(tasks, scheduler, time)
        async with scheduler.turn(LARGE, "203.0.113.1"), AsyncExitStack() as stack:
            gathered.held = stack
            yield gathered
    assert len(scheduler._queue) == 0


async def test_a_client_that_is_alone_gets_all_turns_in_its_order(scheduler, time):
    served = []

    async def work(number):
        await scheduler.run(served.append, number, work_bytes=LARGE, client=VICTIM)

    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(work(number))
    assert served == list(range(20))


@pytest.mark.parametrize("attackers", [1, 5, 50])
async def test_one_mail_waits_for_no_more_than_a_turn_whatever_the_others_have_waiting(scheduler, time, attackers):
    names = [f"198.51.{number}.1" for number in range(attackers)]
    async with crowd(scheduler, time) as gathered:
        for name in names:
            scheduler.usage.charge(name, 0.5)
            for _ in range(9):
                await gathered.arrive(name)
        await gathered.arrive(VICTIM, seconds=0.01)
    assert gathered.served[0] == VICTIM
    assert set(gathered.served[1 : attackers + 1]) == set(names)  # and each of them had a turn before any had a second


async def test_who_has_used_much_and_then_waited_comes_before_who_uses_much_now(scheduler, time):
    scheduler.usage.charge(VICTIM, 5)
    time.now += 4 * HALF_LIFE_SECONDS
    async with crowd(scheduler, time) as gathered:
        scheduler.usage.charge(ATTACKER, 0.5)
        for _ in range(9):
            await gathered.arrive(ATTACKER)
        await gathered.arrive(VICTIM)
    assert gathered.served[0] == VICTIM


@pytest.mark.parametrize("fresh", ["198.51.100.{}", "2001:db8:1:{:x}::/64"])
async def test_a_new_address_for_each_mail_gains_nothing_over_other_networks(scheduler, time, fresh):
    scheduler.usage.charge(VICTIM, 0.1)
    scheduler.usage.charge(fresh.format(250), 0.2)
    async with crowd(scheduler, time) as gathered:
        for number in range(100):
            await gathered.arrive(fresh.format(number))
        await gathered.arrive(VICTIM)
    assert gathered.served[0] == VICTIM


async def test_new_addresses_of_the_same_network_cannot_keep_a_client_waiting_for_ever(scheduler, time):
    """Each of them has used nothing, the client a little: it would always be last."""
    scheduler.usage.charge(VICTIM, 0.1)
    async with crowd(scheduler, time) as gathered:
        await gathered.arrive(VICTIM)
        for number in range(2, 200):
            await gathered.arrive(f"192.0.2.{number}")
    waited_seconds = gathered.served.index(VICTIM) * 0.06
    assert PATIENCE_SECONDS < waited_seconds < PATIENCE_SECONDS + 3 * 0.06


async def test_those_who_have_waited_long_get_every_other_turn_only(scheduler, time):
    async with crowd(scheduler, time) as gathered:
        for number in range(40):
            await gathered.arrive(f"198.51.{number}.1")
        time.now += 2 * PATIENCE_SECONDS
        for number in range(4):
            await gathered.arrive(f"203.0.{number}.1")
            scheduler.usage.charge(f"198.51.{number}.1", 0.1)
        for number in range(40):
            scheduler.usage.charge(f"198.51.{number}.1", 0.1)
    places = [gathered.served.index(f"203.0.{number}.1") for number in range(4)]
    assert max(places) <= 2 * 4


async def test_light_work_does_not_wait_for_the_end_of_large_work(scheduler):
    async with scheduler.turn(LARGE, ATTACKER):
        with anyio.fail_after(30):
            assert await scheduler.run(str, 1, work_bytes=LIGHT_BYTES, client=VICTIM) == "1"


@pytest.mark.parametrize(("work_bytes", "used"), [(LARGE, 0.0), (LIGHT_BYTES, 2 * LITTLE_SECONDS)])
async def test_neither_large_work_nor_a_client_that_has_used_much_takes_the_thread_of_light_work(
    scheduler, work_bytes, used
):
    scheduler.usage.charge(ATTACKER, used)
    async with asyncio.TaskGroup() as tasks, scheduler.turn(LARGE, ATTACKER):
        waiting = tasks.create_task(scheduler.run(str, 1, work_bytes=work_bytes, client=ATTACKER))
        await anyio.wait_all_tasks_blocked()
        assert not waiting.done()
        assert await scheduler.run(str, 2, work_bytes=LIGHT_BYTES, client=VICTIM) == "2"
        assert not waiting.done()


async def test_the_cpu_time_of_the_thread_is_charged_to_the_current_client_also_when_it_fails(scheduler, time):
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


async def test_a_client_that_goes_while_it_waits_leaves_its_turn_to_others(scheduler):
    async with scheduler.turn(LARGE, ATTACKER):
        gone = asyncio.create_task(scheduler.run(str, 1, work_bytes=LARGE, client=VICTIM))
        await anyio.wait_all_tasks_blocked()
        gone.cancel()
        await asyncio.wait([gone])
        assert len(scheduler._queue) == 0
    assert await scheduler.run(str, 2, work_bytes=LARGE, client=ATTACKER) == "2"


@pytest.mark.parametrize("released_first", [True, False])
async def test_a_client_that_goes_at_the_moment_of_its_turn_gives_it_back(scheduler, released_first):
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


async def test_heavy_inputs_are_in_memory_one_at_a_time_and_let_others_pass(scheduler):
    async def heavy(stored):
        with scheduler.heavy_place() as place:
            await scheduler.run(str, 1, work_bytes=LARGE, client=ATTACKER, heavy_place=place)
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


async def test_a_heavy_input_that_goes_while_it_waits_takes_no_place_with_it(scheduler):
    async with scheduler.turn(LARGE, ATTACKER):
        with scheduler.heavy_place() as place:
            gone = asyncio.create_task(scheduler.run(str, 1, work_bytes=LARGE, client=VICTIM, heavy_place=place))
            await anyio.wait_all_tasks_blocked()
            gone.cancel()
            await asyncio.wait([gone])
    with anyio.fail_after(30), scheduler.heavy_place() as place:
        assert await scheduler.run(str, 2, work_bytes=LARGE, client=VICTIM, heavy_place=place) == "2"


def test_what_is_remembered_of_clients_is_bounded(time):
    usage = Usage(time.clock)
    for number in range(100_000):
        usage.charge(f"2001:db8:{number:x}::/64", 0.002)
        time.now += 0.002
    assert len(usage._levels) < 20_000


@pytest.fixture
def places(scheduler, time):
    return Places(scheduler, 8, 2, time.clock)


@asynccontextmanager
async def held(places, *clients, sending=True):
    """Hold places for clients that take nothing of what is sent to them."""
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(places.take(client)) for client in clients]
        for place in found if sending else ():
            stack.enter_context(place.sending(64 * 1024))
        yield found


async def is_refused(places, client, *, exempt=False):
    """Return whether a client has to wait for a place, and let it go."""
    with anyio.move_on_after(0) as waiting:
        async with places.take(client, exempt=exempt):
            return False
    return waiting.cancelled_caught


async def until_cut(places, time, held, step=0.05):
    """Return after how many seconds one of the places is taken back."""
    waited = 0.0
    while not any(place.scope.cancel_called for place in held) and waited < 60:
        time.now += step
        waited += step
        places.take_back()
    return waited


def clients(count):
    return [f"198.51.{number}.1" for number in range(count)]


async def test_a_client_has_two_places_and_a_network_three_quarters_of_all(places):
    async with held(places, ATTACKER, ATTACKER, sending=False):
        assert await is_refused(places, ATTACKER)
        assert not await is_refused(places, VICTIM)
        assert not await is_refused(places, ATTACKER, exempt=True)
    network = [f"198.51.100.{number}" for number in range(6)]
    async with held(places, *network, sending=False):
        assert await is_refused(places, "198.51.100.77")
        assert not await is_refused(places, VICTIM)
    assert not places._held


async def test_slow_readers_with_more_than_their_part_lose_a_place_as_soon_as_somebody_waits(places, time, scheduler):
    async with held(places, *clients(4) * 2) as slow, asyncio.TaskGroup() as tasks:
        time.now += 60
        assert not any(place.scope.cancel_called for place in slow)  # nobody waits
        waiting = tasks.create_task(is_served(places, VICTIM))
        await anyio.wait_all_tasks_blocked()
        assert sum(place.scope.cancel_called for place in slow) == 1
        waiting.cancel()


async def is_served(places, client):
    async with places.take(client):
        return True


@pytest.mark.parametrize(("holders", "seconds"), [(clients(4) * 2, GRACE_SECONDS), (clients(8), LONE_GRACE_SECONDS)])
async def test_how_long_a_slow_reader_keeps_others_waiting_depends_on_its_part(places, time, holders, seconds):
    async with held(places, *holders) as slow:
        waiting = asyncio.create_task(is_served(places, VICTIM))
        await anyio.wait_all_tasks_blocked()
        assert await until_cut(places, time, slow) == pytest.approx(seconds, abs=0.06)
        places.take_back()
        assert sum(place.scope.cancel_called for place in slow) == 1
        waiting.cancel()


async def test_parts_that_only_the_kernel_has_taken_give_no_credit(places, time):
    """The kernel takes the first parts of a response at once, whatever the client reads."""
    async with held(places, *clients(4) * 2, sending=False) as slow, AsyncExitStack() as stack:
        for place in slow:
            for _ in range(10):
                with place.sending(64 * 1024):
                    pass
            stack.enter_context(place.sending(64 * 1024))
        waiting = asyncio.create_task(is_served(places, VICTIM))
        await anyio.wait_all_tasks_blocked()
        part_seconds = 64 * 1024 / PACE_BYTES_PER_SECOND
        assert await until_cut(places, time, slow) == pytest.approx(GRACE_SECONDS + part_seconds, abs=0.06)
        waiting.cancel()


async def test_who_keeps_up_or_is_not_sent_to_yet_loses_nothing(places, time):
    async with held(places, *clients(4) * 2, sending=False) as steady:
        waiting = asyncio.create_task(is_served(places, VICTIM))
        await anyio.wait_all_tasks_blocked()
        for _ in range(100):
            for place in steady[:-1]:
                with place.sending(64 * 1024):
                    pass
            time.now += 64 * 1024 / PACE_BYTES_PER_SECOND
            places.take_back()
        assert not any(place.scope.cancel_called for place in steady)
        waiting.cancel()


async def test_a_place_that_comes_free_goes_to_the_client_that_used_least(places, scheduler):
    served = []

    async def wait(client):
        async with places.take(client):
            served.append(client)
            scheduler.usage.charge(client, 0.1)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks, held(places, *clients(8), sending=False):
        scheduler.usage.charge(ATTACKER, 1)
        for client in (ATTACKER, VICTIM):
            tasks.create_task(wait(client))
            await anyio.wait_all_tasks_blocked()
    assert served == [VICTIM, ATTACKER]


async def test_who_goes_while_a_place_is_given_to_it_gives_it_back(places):
    async with held(places, *clients(8), sending=False) as full:
        gone = asyncio.create_task(is_served(places, VICTIM))
        await anyio.wait_all_tasks_blocked()
        places._give_back(full[0])
        gone.cancel()
        await asyncio.wait([gone])
        assert gone.cancelled()
        assert len(places._held) == 7
        places._held.add(full[0])  # for the end of the block
        places._count(full[0].client, 1)


async def come_and_go(take, clients):
    """Let every client wait; then half of them go at the same time, and the others are served one by one."""
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
        lambda scheduler: Places(scheduler, 16, 2).take,
    ],
    ids=["light turns", "large turns", "places"],
)
def test_the_work_for_clients_that_wait_is_linear(take, form):
    clients = [form.format(number % 250, number // 250) for number in range(2000)]

    def work(some):
        scheduler = FairScheduler()
        for client in some:
            scheduler.usage.charge(client, 0.001)
        asyncio.run(come_and_go(take(scheduler), some))

    assert_linear(work, clients)


@pytest.mark.parametrize("steps", range(6))
async def test_a_semaphore_loses_no_place_whenever_those_who_wait_are_cancelled(steps):
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
    assert inside == ["x", "y"]  # neither fewer places nor more
    let_go.set()
    await asyncio.wait(again)
