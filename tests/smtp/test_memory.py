"""The memory used by incoming messages is bounded, in total and for each client, and all of it is counted."""

from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.smtp.memory import ALLOWANCE_BYTES, MailMemory, MemoryAccount

STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["reserve", "hold", "release"]), st.integers(0, 1 << 18)))


@given(STEPS)
def test_the_bounds_are_kept_and_all_memory_is_returned(steps):
    memory = MailMemory(300_000, 200_000)
    accounts = [MemoryAccount(memory, client) for client in ("a", "a", "a", "b", "b", None)]
    for number, step, size_bytes in steps:
        account = accounts[number]
        account.release() if step == "release" else getattr(account, step)(size_bytes)
        assert 0 <= memory.held_bytes <= 300_000
        assert all(0 < share <= 200_000 for share in memory._shares.values())
    for account in accounts:
        account.release()
    assert memory.held_bytes == 0
    assert not memory._shares


def test_an_allowance_is_free_and_bytes_beyond_the_declared_size_are_charged():
    memory = MailMemory(0, 0)
    account = MemoryAccount(memory, "a")
    assert account.hold(ALLOWANCE_BYTES)
    assert not account.hold(ALLOWANCE_BYTES + 1)
    memory = MailMemory(100_000, 100_000)
    account = MemoryAccount(memory, "a")
    assert account.reserve(10)
    assert account.hold(ALLOWANCE_BYTES + 100_000)
    assert not account.hold(ALLOWANCE_BYTES + 100_001)
    assert memory.held_bytes == 0
