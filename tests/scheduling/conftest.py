"""A clock controlled by the test, a scheduler that uses it, and a crowd of clients that wait for turns."""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from tmpmaild.scheduling.turns import LIGHT_BYTES, FairScheduler

LARGE = LIGHT_BYTES + 1
VICTIM, ATTACKER = "192.0.2.1", "198.51.100.1"


class Time:
    """Replaces the ``time`` module: only the test advances the clock and the processor time of each thread."""

    def __init__(self):
        self.now = 0.0
        self._threads = threading.local()

    def monotonic(self):
        return self.now

    def thread_time(self):
        return getattr(self._threads, "seconds", 0.0)

    def work(self, seconds):
        self._threads.seconds = self.thread_time() + seconds


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def scheduler(time):
    return FairScheduler(time)


class Crowd:
    """Clients that wait for turns; ``served`` lists their names in the order of their turns."""

    def __init__(self, tasks, scheduler, time):
        self._tasks = tasks
        self._scheduler = scheduler
        self._time = time
        self._left = asyncio.Event()
        self.served = []

    async def arrive(self, client, *, work_bytes=LARGE, seconds=0.06, again=0):
        """Wait for a turn of this many seconds, then for ``again`` more turns, each after the previous turn ends."""
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
    """Queue clients during a different client's turn, and then serve them all."""
    async with asyncio.TaskGroup() as tasks:
        gathered = Crowd(tasks, scheduler, time)
        async with scheduler.turn(LARGE, "203.0.113.1"), AsyncExitStack() as stack:
            gathered.held = stack
            yield gathered
    assert scheduler.waiting == 0
