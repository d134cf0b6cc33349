"""Lifetimes follow a correct clock immediately, but follow a clock that has jumped only after a while."""

import pytest

from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.storage.clocks import MachineClock
from tmpmaild.storage.sqlite.engine import open_storage

from .conftest import Engine, settings

BEGUN = 1_790_000_000.0
HOUR, TWO_HOURS = 3600, 7200


class World:
    """The real elapsed time, and the time that the machine's clock shows."""

    def __init__(self):
        self.passed = 1000.0
        self.wrong_by = 0.0
        self.looks = 0
        self.clock = MachineClock(self.wall, lambda: self.passed)

    def wall(self):
        self.looks += 1
        return BEGUN + self.passed + self.wrong_by

    def after(self, seconds, *, wrong_by=None):
        """Let time pass while the service reads the clock every second."""
        self.wrong_by = self.wrong_by if wrong_by is None else wrong_by
        for _ in range(int(seconds)):
            self.passed += 1
            self.clock()
        return self.wrong

    @property
    def wrong(self):
        """Return how many seconds the time used for lifetimes is ahead of the correct time."""
        return round(self.clock() / 1000 - BEGUN - self.passed, 3)

    def counted(self):
        jumps, doubted = self.clock.metrics()
        return jumps.values()[()], round(doubted.values()[()])


@pytest.fixture
def world():
    return World()


def test_a_correct_clock_is_followed_to_the_millisecond(world):
    for second in range(1000):
        world.after(1, wrong_by=second * 0.0005)  # adjtime(3) corrects a clock at this speed
        assert abs(world.wrong - world.wrong_by) <= 0.0011
    assert world.counted() == (0, 0)


def test_the_clock_is_checked_once_a_second(world):
    looks = world.looks
    for _ in range(1000):
        world.passed += 0.01
        world.clock()
    assert world.looks - looks <= 10


@pytest.mark.parametrize(
    ("jump", "followed"), [(0.9, True), (-0.9, True), (90, True), (-90, True), (121, False), (-121, False)]
)
def test_a_jump_of_up_to_two_minutes_is_followed_at_once(jump, followed):
    assert World().after(2, wrong_by=jump) == (jump if followed else 0)


@pytest.mark.parametrize("jump", [TWO_HOURS, -TWO_HOURS])
def test_a_jump_that_is_reverted_changes_nothing_and_counts_twice(jump, caplog):
    world = World()
    assert world.after(8, wrong_by=jump) == 0
    assert world.counted() == (1, jump)
    assert world.after(5, wrong_by=0) == 0
    assert world.counted() == (2, 0)
    first, second = (record.getMessage() for record in caplog.records)
    assert (
        first == f"the clock of this machine has jumped by {jump:+} s, which is ignored unless it lasts for 10 minutes"
    )
    assert second == f"the clock of this machine has jumped back by {-jump:+} s"
    caplog.clear()


def test_a_jump_that_lasts_for_ten_minutes_is_followed(world):
    assert world.after(600, wrong_by=TWO_HOURS) == 0
    assert world.after(2) == TWO_HOURS
    assert world.counted() == (1, 0)


def test_a_clock_that_keeps_jumping_is_not_followed(world):
    for minute in range(30):
        assert world.after(60, wrong_by=TWO_HOURS * (1 + minute)) == 0
    assert world.counted()[0] == 30


async def test_neither_acknowledged_mail_nor_a_new_address_follows_a_jump(world, path):
    async with open_storage(settings(path), world.clock) as storage:
        cleaner = Cleaner(storage, interval_seconds=30)

        async def create(name):
            await Engine(storage, storage.clock).inbox(name, lifetime_ms=HOUR * 1000)

        async def there():
            await cleaner.sweep()
            return [one.address[:3] for one in (await storage.list_inboxes(storage.clock())).inboxes]

        await create("ada")
        world.after(8, wrong_by=TWO_HOURS)
        await create("eve")
        assert await there() == ["ada", "eve"]
        world.after(5, wrong_by=0)
        world.after(HOUR - 13)
        assert await there() == ["eve"]  # the lifetime is exact to the second
        world.after(8)
        assert await there() == []
        await create("bob")
        world.after(599, wrong_by=TWO_HOURS)
        assert await there() == ["bob"]
        world.after(3)
        assert await there() == []
        assert {metric.name for metric in storage.metrics()} >= {"clock_jumps_total", "clock_doubted_seconds"}
