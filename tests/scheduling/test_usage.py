"""The record of clients' processor time."""

import pytest

from tmpmaild.scheduling.usage import HALF_LIFE_SECONDS, Usage


def test_half_of_the_usage_is_forgotten_after_a_half_life(time):
    usage = Usage(time)
    usage.charge("192.0.2.1", 8.0)
    for left in (8.0, 4.0, 2.0):
        assert usage.seconds("192.0.2.1") == pytest.approx(left)
        time.now += HALF_LIFE_SECONDS
    assert usage.seconds("192.0.2.2") == 0
    assert usage.rank("192.0.2.2") > usage.rank("198.51.100.1")  # other addresses in its network have used some time


def test_the_memory_of_clients_is_bounded(time):
    usage = Usage(time)
    for number in range(100_000):
        usage.charge(f"2001:db8:{number:x}::/64", 0.002)
        time.now += 0.002
    assert len(usage) < 20_000
