"""A sweep consists of many small operations: the size of each operation is bounded, and mail is stored between them."""

import asyncio
import contextlib

import pytest

from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.model import NAME_HELD_MS
from tmpmaild.storage.sqlite import sweeping
from tmpmaild.storage.sqlite.sweeping import STEP_SECONDS, StepSize

from .conftest import LIFETIME_MS, stranger_that_reads

MIB = 1024 * 1024


@pytest.fixture
async def engine(open_engine):
    async with open_engine(max_messages_per_inbox=0, max_bytes_per_inbox=0, max_bytes=2**30) as opened:
        yield opened


def rows(engine):
    """Count messages, contents, addresses that have not been swept, and tombstones."""
    execute = engine.storage._writer._connection.execute
    return [
        execute(sql).fetchone()[0]
        for sql in (
            "SELECT count(*) FROM message",
            "SELECT count(*) FROM content",
            "SELECT count(*) FROM inbox WHERE swept = 0",
            "SELECT count(*) FROM inbox WHERE swept = 1",
        )
    ]


async def fill(engine, inboxes, mails_each, prefix="box", **mail):
    made = await asyncio.gather(*(engine.inbox(f"{prefix}{number}") for number in range(inboxes)))
    await asyncio.gather(*(engine.add(inbox, **mail) for inbox in made for _ in range(mails_each)))


def swept_units(before, after):
    """Return the work done between two results of ``rows``, in the sweep's units."""
    deleted = [old - new for old, new in zip(before, after, strict=True)]
    return deleted[0] * sweeping._MESSAGE_UNITS + deleted[2] * sweeping._INBOX_UNITS


async def test_a_step_deletes_as_many_rows_as_the_pace_allows_and_no_more(engine):
    await fill(engine, inboxes=400, mails_each=2)
    engine.storage._sweep_step_size = StepSize(first=200, least=50, most=2000)
    engine.clock.advance(ms=LIFETIME_MS)
    before, more, steps = rows(engine), True, 0
    while more:
        amount = engine.storage._sweep_step_size.amount
        more = await engine.storage.sweep(engine.clock())
        after = rows(engine)
        assert swept_units(before, after) <= amount + sweeping._INBOX_UNITS
        before, steps = after, steps + 1
    assert before == [0, 0, 1, 400]  # only the operator's inbox and the tombstones remain
    assert steps >= 800 * sweeping._MESSAGE_UNITS // 2000


async def test_the_steps_become_as_large_as_the_time_for_a_step_allows(engine):
    """Each changed row takes 0.1 ms on this timer, so a step has fifty changes."""
    connection = engine.storage._writer._connection
    await fill(engine, inboxes=1000, mails_each=1)
    engine.clock.advance(ms=LIFETIME_MS)
    for first in (60, 1500):
        engine.storage._sweep_step_size = StepSize(
            first=first, least=20, most=9999, timer=lambda: connection.total_changes / 1e4
        )
        for _ in range(15):
            await engine.storage.sweep(engine.clock())
        changes = connection.total_changes
        await engine.storage.sweep(engine.clock())
        assert 30 <= connection.total_changes - changes <= 70


async def test_a_step_deletes_a_limited_number_of_bytes(engine):
    engine.storage._sweep_step_size = StepSize(first=500, least=500, most=500)
    await fill(engine, inboxes=2, mails_each=10, raw=b"x" * (3 * MIB // 4))
    engine.clock.advance(ms=LIFETIME_MS)
    more, steps = True, 0
    while more:
        before = rows(engine)[1]
        more = await engine.storage.sweep(engine.clock())
        assert (before - rows(engine)[1]) * 3 * MIB // 4 <= 500 * 4096
        steps += 1
    assert (rows(engine)[:2], steps >= 10) == ([0, 0], True)


async def test_a_message_larger_than_a_step_is_a_separate_step(engine):
    await fill(engine, inboxes=1, mails_each=3, raw=b"x" * (3 * MIB))  # the limit of the first step is 200 pages
    engine.clock.advance(ms=LIFETIME_MS)
    for left in (2, 1, 0):
        await engine.storage.sweep(engine.clock())
        assert rows(engine)[1] == left


async def test_tombstones_go_after_a_day_in_steps(engine):
    await fill(engine, inboxes=600, mails_each=0)
    engine.clock.advance(ms=LIFETIME_MS)
    await engine.sweep()
    engine.clock.advance(ms=NAME_HELD_MS - 1)
    await engine.sweep()
    assert rows(engine)[3] == 600
    engine.storage._sweep_step_size = StepSize(first=750, least=750, most=750)
    engine.clock.advance(ms=1)
    for left in (350, 100, 0):
        assert await engine.storage.sweep(engine.clock()) is (left > 0)
        assert rows(engine)[3] == left


async def test_the_freed_file_shrinks_in_small_steps(engine, path):
    await fill(engine, inboxes=10, mails_each=10, raw=b"x" * 200_000)
    await engine.storage.erase()
    full_bytes = path.stat().st_size
    engine.clock.advance(ms=LIFETIME_MS)
    while await engine.storage.sweep(engine.clock()):
        pass
    statements = []
    engine.storage._writer._connection.set_trace_callback(statements.append)
    await engine.storage.erase()
    assert path.stat().st_size < full_bytes / 4
    assert sum("incremental_vacuum" in sql for sql in statements) >= 5


async def test_the_file_is_not_shrunk_during_a_foreign_read_because_that_would_grow_the_wal(engine, path):
    await fill(engine, inboxes=10, mails_each=10, raw=b"x" * 200_000)
    await engine.storage.erase()
    engine.clock.advance(ms=LIFETIME_MS)
    statements = []
    engine.storage._writer._connection.set_trace_callback(statements.append)
    with stranger_that_reads(path):
        while await engine.storage.sweep(engine.clock()):
            pass
        assert not await engine.storage.erase()
        assert not any("incremental_vacuum" in sql for sql in statements)
    assert await engine.storage.erase()
    assert any("incremental_vacuum" in sql for sql in statements)
    assert path.with_name("mail.db-wal").stat().st_size == 0


async def _deliver_during_a_sweep(engine):
    """Deliver messages during a sweep, one at a time; return the writer's operations between the deliveries."""
    inbox = await engine.inbox("receives", lifetime_ms=100 * LIFETIME_MS)
    operations = []
    engine.storage._writer._connection.set_trace_callback(operations.append)
    cleaner = Cleaner(engine.storage, interval_seconds=30)
    sweep = asyncio.ensure_future(cleaner.sweep())
    deliveries = 0
    while not sweep.done():
        await engine.add(inbox)
        deliveries += 1
    await sweep
    return deliveries, operations


def _most_between_deliveries(operations):
    most = steps = 0
    for sql in operations:
        if sql.startswith("INSERT INTO delivery"):
            most, steps = max(most, steps), 0
        elif sql == "COMMIT" or "incremental_vacuum" in sql or "wal_checkpoint" in sql:
            steps += 1
    return most


@pytest.mark.parametrize("stranger_reads", [False, True])
async def test_mail_is_stored_between_the_steps_of_a_sweep(engine, path, stranger_reads, monkeypatch):
    monkeypatch.setattr("tmpmaild.inboxes.expiry._ERASE_PAUSE_SECONDS", 0.001)
    await fill(engine, inboxes=400, mails_each=2)
    await fill(engine, inboxes=1, mails_each=3, prefix="large", raw=b"x" * (4 * MIB))
    engine.clock.advance(ms=LIFETIME_MS)
    with stranger_that_reads(path) if stranger_reads else contextlib.nullcontext():
        deliveries, operations = await _deliver_during_a_sweep(engine)
    assert deliveries > 20
    assert _most_between_deliveries(operations) <= 4
    assert rows(engine)[0] == deliveries


async def test_a_message_without_its_content_does_not_repeat_a_sweep_forever(engine):
    """In a damaged or edited file, a row that cannot be deleted must not be retried endlessly."""
    await fill(engine, inboxes=3, mails_each=1)
    engine.storage._writer._connection.execute("DELETE FROM content WHERE id = (SELECT min(id) FROM content)")
    engine.clock.advance(ms=LIFETIME_MS)
    steps = 0
    while await engine.storage.sweep(engine.clock()):
        steps += 1
        assert steps < 10
    assert rows(engine)[:2] == [1, 0]


class Machine:
    """A machine on which each unit of work takes ``unit_seconds``, and each step ``step_seconds`` more."""

    def __init__(self, unit_seconds, step_seconds=0.0):
        self.unit_seconds = unit_seconds
        self.step_seconds = step_seconds
        self.now = 0.0

    def step_size(self, first=100, least=10, most=10_000):
        return StepSize(first=first, least=least, most=most, timer=lambda: self.now)

    def step(self, step_size, at_most=1 << 30):
        done = min(step_size.amount, at_most)
        step_size.begin()
        self.now += self.step_seconds + done * self.unit_seconds
        step_size.end(done)
        return self.step_seconds + done * self.unit_seconds


@pytest.mark.parametrize("unit_seconds", [2e-6, 40e-6, 300e-6])
def test_a_step_soon_has_the_intended_duration_on_a_machine_of_any_speed(unit_seconds):
    machine = Machine(unit_seconds)
    step_size = machine.step_size()
    for _ in range(20):
        machine.step(step_size)
    assert machine.step(step_size) == pytest.approx(STEP_SECONDS, rel=0.05)
    machine.step_seconds = 0.002
    for _ in range(20):
        machine.step(step_size)
    assert machine.step(step_size) <= STEP_SECONDS * 1.05


@pytest.mark.parametrize(
    ("unit_seconds", "step_seconds", "at_most", "amount"),
    [(50e-6, 1.0, 100, 50), (1e-6, 0.0, 99, 100), (1e-3, 0.0, 50, 50)],
    ids=["interrupted", "with little to do", "with little to do that takes too long"],
)
def test_the_size_of_the_next_step_follows_from_the_last_one(unit_seconds, step_seconds, at_most, amount):
    machine = Machine(unit_seconds, step_seconds)
    step_size = machine.step_size(first=100)
    machine.step(step_size, at_most=at_most)
    assert step_size.amount == amount


def test_the_amount_stays_within_its_limits():
    machine = Machine(1.0)
    step_size = machine.step_size()
    for unit_seconds, steps, amount in ((1.0, 20, 10), (1e-9, 40, 10_000)):
        machine.unit_seconds = unit_seconds
        for _ in range(steps):
            machine.step(step_size)
        assert step_size.amount == amount
