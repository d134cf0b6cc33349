"""How the size of a step of sweeping follows from what the last steps took."""

import pytest

from tmpmaild.storage.sqlite.pace import STEP_SECONDS, Pace


class Machine:
    """A machine on which a unit of work takes ``unit_seconds``, and each step ``step_seconds`` more."""

    def __init__(self, unit_seconds, step_seconds=0.0):
        self.unit_seconds = unit_seconds
        self.step_seconds = step_seconds
        self.now = 0.0

    def pace(self, first=100, least=10, most=10_000):
        return Pace(first=first, least=least, most=most, timer=lambda: self.now)

    def step(self, pace, at_most=1 << 30):
        done = min(pace.amount, at_most)
        pace.begin()
        self.now += self.step_seconds + done * self.unit_seconds
        pace.end(done)
        return self.step_seconds + done * self.unit_seconds


@pytest.mark.parametrize("unit_seconds", [2e-6, 40e-6, 300e-6])
def test_on_a_machine_of_any_speed_a_step_soon_takes_its_time(unit_seconds):
    machine = Machine(unit_seconds)
    pace = machine.pace()
    for _ in range(20):
        machine.step(pace)
    assert machine.step(pace) == pytest.approx(STEP_SECONDS, rel=0.05)


def test_what_a_commit_takes_counts_as_well():
    machine = Machine(40e-6, step_seconds=0.002)
    pace = machine.pace()
    for _ in range(20):
        machine.step(pace)
    assert machine.step(pace) <= STEP_SECONDS * 1.05


def test_one_interrupted_step_makes_the_next_smaller_by_half_and_no_more():
    machine = Machine(50e-6)
    pace = machine.pace(first=100)
    machine.step_seconds = 1.0
    machine.step(pace)
    assert pace.amount == 50


def test_the_amount_keeps_to_its_bounds():
    machine = Machine(1.0)
    pace = machine.pace()
    for _ in range(20):
        machine.step(pace)
    assert pace.amount == 10
    machine.unit_seconds = 1e-9
    for _ in range(40):
        machine.step(pace)
    assert pace.amount == 10_000


def test_a_step_with_little_to_do_tells_nothing_of_a_full_one():
    machine = Machine(1e-6)
    pace = machine.pace(first=100)
    machine.step(pace, at_most=99)
    assert pace.amount == 100


def test_a_step_with_little_to_do_that_takes_too_long_makes_the_next_smaller():
    machine = Machine(1e-3)
    pace = machine.pace(first=100)
    machine.step(pace, at_most=50)
    assert pace.amount == 50
