"""Free disk space is measured only occasionally, but measured again immediately after it has run out."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import StorageUnavailable
from tmpmaild.storage.sqlite.space import DiskSpace, Files, Remeasuring, sensible_cap_bytes

from .conftest import stranger_that_reads

KIB = 1024
MIB = 1024 * KIB


@pytest.fixture
def connection(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute("PRAGMA journal_mode = wal")
        opened.execute("CREATE TABLE t (x)")
        # Used for writing zeros.
        opened.execute("CREATE TABLE address (id INTEGER PRIMARY KEY, filler BLOB, slots BLOB)")
        yield opened


def test_the_disk_is_checked_after_many_bytes_and_while_there_is_no_room(path, connection, seconds):
    space = DiskSpace(Files(path), connection, cap_bytes=1024 * KIB, reserve_bytes=100 * KIB, monotonic=seconds)
    connection.execute("INSERT INTO t VALUES (zeroblob(?))", (1000 * KIB,))
    for written_bytes, has_room in ((10, True), (50 * KIB, False)):
        space.measure(written_bytes)
        assert space.has_room is has_room
    connection.execute("DELETE FROM t")
    space.measure(0)
    assert space.has_room


@pytest.fixture
def seconds():
    """Return a timer that tests advance."""

    def read():
        return read.now

    read.now = 0.0
    return read


def lengthen_wal(connection, mebibytes):
    """Write the same page repeatedly: the file does not grow."""
    connection.execute("CREATE TABLE IF NOT EXISTS again (x)")
    while wal_bytes(connection) < mebibytes * MIB:
        connection.execute("DELETE FROM again")
        connection.execute("INSERT INTO again VALUES (1)")


def wal_bytes(connection):
    (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
    return Path(file + "-wal").stat().st_size


def test_a_wal_behind_a_foreign_reader_counts_as_used(path, connection, seconds, caplog):
    files = Files(path)
    space = DiskSpace(files, connection, cap_bytes=2 * MIB, reserve_bytes=100 * KIB, monotonic=seconds)

    def measure():
        seconds.now += 1
        files.check()
        space.measure()

    with stranger_that_reads(path):
        lengthen_wal(connection, 5)
        measure()
        assert space.has_room
        lengthen_wal(connection, 6)
        for _ in range(100):
            measure()
            assert not space.has_room
    assert {(record.levelname, record.about) for record in caplog.records} == {("WARNING", "wal")}
    assert "grown to 6 MiB" in caplog.records[0].getMessage()
    measure()
    assert space.has_room
    assert wal_bytes(connection) == 0


def test_a_long_wal_without_readers_is_truncated_instead_of_refusing_mail(path, connection, caplog):
    with stranger_that_reads(path):
        lengthen_wal(connection, 7)
    space = DiskSpace(Files(path), connection, cap_bytes=2 * MIB, reserve_bytes=100 * KIB)
    assert space.has_room
    assert caplog.records == []


def test_a_full_storage_and_new_room_are_logged_once_each(path, connection, caplog, monkeypatch, seconds):
    caplog.set_level("INFO")
    space = DiskSpace(Files(path), connection, cap_bytes=64 * MIB, reserve_bytes=100 * KIB, monotonic=seconds)
    usage = shutil.disk_usage(path.parent)
    for free_mib in (255, 255, 1000, 1000):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free_mib * MIB: usage._replace(free=free))
        seconds.now += 1
        space.measure()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "storage full: the disk has 255 MiB free, and 256 MiB must stay free; new mail and addresses are refused",
        ),
        ("INFO", "storage has space again; mail and addresses are accepted"),
    ]


def test_a_file_system_that_does_not_report_its_size_is_not_full(path, connection, caplog, monkeypatch, seconds):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=0, used=0, free=0))
    space = DiskSpace(Files(path), connection, cap_bytes=2 * MIB, reserve_bytes=100 * KIB, monotonic=seconds)
    assert (space.has_room, space.missing_bytes(1 << 40)) == (True, 0)
    (free,) = [metric.values() for metric in space.metrics() if metric.name == "storage_free_disk_bytes"]
    assert free == {}
    assert sensible_cap_bytes(path) == 10 * 1024 * MIB
    seconds.now += 1
    connection.execute("INSERT INTO t VALUES (zeroblob(?))", (2 * MIB,))
    space.measure()
    assert not space.has_room
    unknown, full = (record.getMessage() for record in caplog.records)
    assert unknown.endswith("does not report its free space; only storage.max_bytes (2 MiB) limits the mail")
    assert full.startswith("storage full: storage.max_bytes (2 MiB) is reached")


async def test_a_cap_that_was_chosen_on_a_full_disk_grows_when_the_disk_has_room(open_engine, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    async with open_engine(max_bytes=0) as engine:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1024 * MIB))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not engine.storage.has_room():
                await asyncio.sleep(0)
        await engine.add(await engine.inbox("ada"))


async def test_room_is_measured_again_on_request_at_most_once_a_second_even_after_errors(seconds):
    measured = []

    async def measure():
        measured.append(seconds.now)
        raise StorageUnavailable("for now")

    again = Remeasuring(measure, seconds)
    for seconds.now in (0, 0, 0.5, 0.9, 1, 1.5, 2.5):
        again.begin()
        await again.close()
    assert measured == [0, 1, 2.5]


async def test_a_slow_measurement_is_not_started_twice(seconds):
    begun = []
    done = asyncio.Event()

    async def measure():
        begun.append(seconds.now)
        await done.wait()

    again = Remeasuring(measure, seconds)
    for seconds.now in range(10):
        again.begin()
        await asyncio.sleep(0)
    done.set()
    await again.close()
    assert begun == [0]
