"""Files are overwritten before SQLite truncates or deletes them, so that freed disk blocks do not contain mail."""

import os
import sqlite3
from contextlib import closing

import pytest

from tmpmaild.storage.sqlite import copies, paths, space, sweeping, wal
from tmpmaild.storage.sqlite.engine import close, prepare
from tmpmaild.storage.sqlite.layout import FILLER, PAGE_BYTES

from .conftest import LIFETIME_MS, new_mail, stranger_that_reads

SECRET = b"secret-octets"


def fill(connection, rows, secret=SECRET):
    """Write rows of one page each, in transactions of twenty, without checkpoints."""
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    for start in range(0, rows, 20):
        connection.execute("BEGIN")
        for row_id in range(start + 1, min(start + 20, rows) + 1):
            connection.execute("REPLACE INTO address VALUES (?, ?, ?)", (row_id, FILLER, secret.ljust(3840)))
        connection.execute("COMMIT")


@pytest.fixture
def connection(path):
    connection, _ = prepare(path, 0)
    yield connection
    connection.close()


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 33, 500, 3000])
def test_a_wal_of_any_length_is_overwritten_to_its_end_without_changing_the_database(path, connection, rows):
    fill(connection, rows)
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    before = path.read_bytes(), connection.execute("PRAGMA max_page_count").fetchone()
    length = paths.wal_of(path).stat().st_size
    assert SECRET in paths.wal_of(path).read_bytes()
    wal.overwrite_wal(connection)
    octets = paths.wal_of(path).read_bytes()
    assert len(octets) >= length
    assert SECRET not in octets
    assert (path.read_bytes(), connection.execute("PRAGMA max_page_count").fetchone()) == before
    assert not connection.in_transaction
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT count(*) FROM address WHERE id < 0").fetchone() == (0,)


def test_a_wal_that_was_once_longer_is_overwritten_to_its_old_end(path, connection):
    fill(connection, 500)
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    fill(connection, 3, b"later")  # written at the start of the WAL; SQLite must not truncate the rest
    assert SECRET in paths.wal_of(path).read_bytes()
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    wal.overwrite_wal(connection)
    assert SECRET not in paths.wal_of(path).read_bytes()


def test_a_full_database_is_also_erased_and_keeps_its_cap(path, connection):
    fill(connection, 100)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    space.cap_pages(connection, pages * PAGE_BYTES)
    assert wal.erase_wal(connection)
    assert paths.wal_of(path).stat().st_size == 0
    assert connection.execute("PRAGMA max_page_count").fetchone() == (pages,)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        fill(connection, 300)


def test_a_wal_with_readers_is_not_overwritten(path, connection):
    fill(connection, 100)
    with stranger_that_reads(path):
        fill(connection, 100, b"later")
        before = paths.wal_of(path).read_bytes()
        assert not wal.erase_wal(connection)
        assert paths.wal_of(path).read_bytes() == before
    assert wal.erase_wal(connection)


@pytest.mark.parametrize("rows", [50, 2000])
def test_every_truncation_follows_an_overwrite(path, connection, monkeypatch, rows):
    """Closing the last connection, which deletes the WAL, is included."""
    fill(connection, rows)
    overwritten = []

    def overwrite(connection):
        really(connection)
        overwritten.append(SECRET not in paths.wal_of(path).read_bytes())

    really = wal.overwrite_wal
    monkeypatch.setattr(wal, "overwrite_wal", overwrite)
    close(connection, clean=True)
    assert (overwritten, paths.wal_of(path).exists()) == ([True], False)


def test_the_end_of_the_file_is_recognized_by_its_content(path, connection):
    """Text is stored only in overflow pages, not in b-tree pages or free pages."""
    fill(connection, 400)
    assert wal.erase_wal(connection)

    def tail(most=10_000):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return sweeping.tail_without_text(descriptor, pages, most)
        finally:
            os.close(descriptor)

    few = tail()
    assert few < 60
    connection.execute("DELETE FROM address WHERE id > 200")
    many = tail()
    assert 180 < many < 260
    assert tail(most=10) == 10
    connection.executescript(f"PRAGMA incremental_vacuum({many})")
    assert tail() < 60
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM address WHERE id > 0").fetchone() == (200,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_file_does_not_shrink_while_mail_is_at_its_end(open_engine, path):
    """SQLite would copy the last message to a free page, and truncate the old page that still contains its text."""
    async with open_engine(max_messages_per_inbox=0, max_bytes=2**30) as engine:
        over, lives = await engine.inbox("over"), await engine.inbox("lives", lifetime_ms=10 * LIFETIME_MS)
        for _ in range(40):
            await engine.add(over, raw=b"x" * 100_000)
        await engine.storage.add_message(new_mail(lives, raw=SECRET * 1000))
        await engine.storage.erase()
        full_bytes = path.stat().st_size
        engine.clock.advance(ms=LIFETIME_MS)
        await engine.sweep()
        assert path.stat().st_size > full_bytes * 3 // 4
        engine.clock.advance(ms=10 * LIFETIME_MS)
        await engine.sweep()
        assert path.stat().st_size < full_bytes // 4


async def test_a_copy_is_overwritten_before_its_blocks_are_freed(open_engine, path):
    async with open_engine() as engine:
        await engine.add(await engine.inbox("ada"), raw=SECRET)
        async with engine.storage.backup() as copy:
            assert SECRET in copy.read()
            same = os.fdopen(os.dup(copy.fileno()), "rb")
        with same:
            same.seek(0)
            assert set(same.read()) == {0}
        left = paths.unfinished(path)
        left.write_bytes(SECRET)
        with left.open("rb") as same:
            copies.remove_unfinished(path)
            assert set(same.read()) == {0}
        assert not left.exists()
