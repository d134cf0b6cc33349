"""The cleaner: it sweeps everything, survives failures, and warns when another program prevents it from erasing."""

import logging
import sqlite3
from contextlib import closing

import anyio
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import StorageUnavailable
from tmpmaild.inboxes import expiry
from tmpmaild.inboxes.expiry import Cleaner

from .conftest import add_inbox, add_mail

LIFETIME_MS = 1000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mail.db"


async def fill(storage, inboxes=1):
    for number in range(inboxes):
        inbox = await add_inbox(storage, f"box{number}@mail.example.com", LIFETIME_MS)
    await add_mail(storage, inbox.id)


def living(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM inboxes").fetchone()[0]


async def test_one_sweep_takes_many_steps_until_nothing_expired_is_left(storage, clock, path, caplog, monkeypatch):
    await fill(storage, 600)
    cleaner = Cleaner(storage, interval_seconds=30)
    await cleaner.sweep()
    assert living(path) == 600
    assert not caplog.records
    clock.advance(ms=LIFETIME_MS)
    monkeypatch.setattr(expiry, "_WARN_AFTER_SECONDS", 0)
    await cleaner.sweep()
    assert living(path) == 0
    assert "a sweep has been running" in caplog.text
    assert b"secret-octets" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


class Failing:
    """Wraps a storage whose sweeps fail at first, with a locked database and then with an internal error."""

    def __init__(self, storage, failures):
        self._storage = storage
        self.clock = storage.clock
        self._failures = failures
        self._reason = ""

    async def sweep(self, now_ms):
        self._reason = "database is locked" if self._failures else ""
        if self._failures:
            self._failures -= 1
            raise (StorageUnavailable if self._failures else RuntimeError)(self._reason)
        return await self._storage.sweep(now_ms)

    def reason_not_ready(self):
        return self._reason

    async def erase(self):
        return await self._storage.erase()

    async def operator_box(self):
        return await self._storage.operator_box()


async def run_until(cleaner, done):
    """Run the cleaner until the event is set."""
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cleaner.run)
            await done.wait()
            tasks.cancel_scope.cancel()


async def test_after_a_failure_the_storage_is_checked_every_second_whatever_the_interval(
    storage, clock, path, monkeypatch, caplog
):
    monkeypatch.setattr("tmpmaild.inboxes.expiry._LOOK_SECONDS", 0.001)
    await fill(storage)
    clock.advance(ms=LIFETIME_MS)
    failing, done = Failing(storage, 2), anyio.Event()

    def chore():
        if not failing.reason_not_ready():
            done.set()

    await run_until(Cleaner(failing, interval_seconds=3600, chores=[chore]), done)
    assert ["sweep failed" in record.message for record in caplog.records] == [True, True]
    assert living(path) == 0


async def test_a_failing_chore_delays_neither_the_sweep_nor_the_other_chores(storage, clock, path, caplog):
    await fill(storage)
    clock.advance(ms=LIFETIME_MS)
    done = anyio.Event()

    def fail():
        raise ValueError("a mistake")

    def finish():
        if len(caplog.records) == 2:
            done.set()

    await run_until(Cleaner(storage, interval_seconds=0.001, chores=[fail, finish]), done)
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]
    assert "a cleaner chore failed" in caplog.text
    assert living(path) == 0


async def test_a_long_foreign_read_transaction_causes_a_warning(storage, clock, path, caplog, monkeypatch):
    monkeypatch.setattr(expiry, "_ERASE_PAUSE_SECONDS", 0)
    cleaner = Cleaner(storage, interval_seconds=30)
    await fill(storage)
    clock.advance(ms=LIFETIME_MS)
    with closing(sqlite3.connect(path, isolation_level=None)) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("SELECT count(*) FROM inbox").fetchone()
        for _ in range(2):
            await cleaner.sweep()
        assert not caplog.records  # no warning is logged in the first minute
        first_seconds = unerased_seconds(cleaner)
        assert first_seconds > 0
        monkeypatch.setattr(expiry, "_WARN_AFTER_SECONDS", first_seconds)
        for _ in range(2):
            await cleaner.sweep()
        assert unerased_seconds(cleaner) > first_seconds
        assert (
            caplog.text.count("another process has kept a read transaction") == 2
        )  # the log itself would limit this to one line a minute
        assert {record.levelno for record in caplog.records} == {logging.WARNING}
        stranger.execute("COMMIT")
    caplog.clear()
    for _ in range(2):
        await cleaner.sweep()
    assert caplog.records == []
    assert unerased_seconds(cleaner) == 0


def unerased_seconds(cleaner):
    (found,) = [one for one in cleaner.metrics() if one.name == "sweep_unerased_seconds"]
    return found.values()[()]
