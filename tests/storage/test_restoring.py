"""A backup only replaces a database if it is complete and ours; no data is lost in the process."""

import gzip
import resource
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tmpmaild.errors import DatabaseError
from tmpmaild.model import Page
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite import opening
from tmpmaild.storage.sqlite.engine import upgrade
from tmpmaild.storage.sqlite.restoring import restore

from .conftest import run

OLD = Path(__file__).parents[1] / "upgrades/1.0/sqlite.gz"


@pytest.fixture
async def copy(open_engine, path, tmp_path):
    """Return a backup of a database with one message; the database itself is deleted."""
    copy = tmp_path / "tmpmaild.copy"
    async with open_engine() as engine:
        await engine.add(await engine.inbox("ada"), subject="kept", raw=b"x" * 300_000)
        async with engine.storage.backup() as made:
            copy.write_bytes(made.read())
    for file in path.parent.glob("mail.db*"):
        file.unlink()
    return copy


def files(path):
    return {file.name for file in path.parent.glob("mail.db*")}


async def test_the_service_starts_from_a_restored_database(copy, path, open_engine):
    found = restore(copy, path)
    assert (found.inboxes, found.messages) == (1, 1)
    assert (stat.S_IMODE(path.stat().st_mode), files(path)) == (0o600, {"mail.db", "mail.db.lock"})
    async with open_engine() as engine:
        assert await engine.subjects("ada", Page()) == ["kept"]


async def test_an_empty_database_of_a_first_start_is_replaced_with_its_wal(copy, path, open_engine):
    upgrade(SqliteSettings(path=path))
    with closing(sqlite3.connect(path)) as running:
        running.execute("UPDATE daemon SET clean_stop = 0")
        running.commit()
        kept = {end: path.with_name(path.name + end).read_bytes() for end in ("-wal", "-shm")}
    for end, octets in kept.items():  # restore the files that SIGKILL would leave behind
        path.with_name(path.name + end).write_bytes(octets)
    restore(copy, path)
    assert files(path) == {"mail.db", "mail.db.lock"}
    async with open_engine() as engine:
        assert await engine.subjects("ada", Page()) == ["kept"]


async def test_a_journal_of_a_different_database_is_not_applied_to_the_restored_one(copy, path, open_engine, tmp_path):
    (other := tmp_path / "other.db").touch()
    journal = other.with_name("other.db-journal")
    with closing(sqlite3.connect(other, isolation_level=None)) as rolled_back:
        rolled_back.execute("CREATE TABLE t (x)")
        rolled_back.execute("INSERT INTO t VALUES (zeroblob(200000))")
        rolled_back.execute("PRAGMA cache_size = 1")
        rolled_back.execute("BEGIN")
        rolled_back.execute("UPDATE t SET x = randomblob(200000)")
        left = journal.read_bytes()
    assert left.startswith(bytes.fromhex("d9d505f920a163d7"))
    path.with_name("mail.db-journal").write_bytes(left)
    restore(copy, path)
    assert files(path) == {"mail.db", "mail.db.lock"}
    async with open_engine() as engine:
        assert await engine.subjects("ada", Page()) == ["kept"]


async def test_a_database_with_any_data_is_not_replaced(copy, path, open_engine):
    async with open_engine() as engine:
        await engine.inbox("eve")
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match=r"holds 1 inbox and 0 messages; move mail.db, mail.db-wal and"):
        restore(copy, path)
    assert path.read_bytes() == before
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(DatabaseError, match=r"already exists; move mail\.db"):
        restore(copy, path)


async def test_nothing_is_restored_while_the_service_runs(copy, path):
    with opening.lock(path), pytest.raises(DatabaseError, match="in use by another tmpmaild; stop it first"):
        restore(copy, path)
    assert not path.exists()


def _damage(copy):
    octets = bytearray(copy.read_bytes())
    octets[4096 + 100 : 8192] = b"\xff" * 3996
    copy.write_bytes(octets)


def _cut(copy):
    copy.write_bytes(copy.read_bytes()[:-4096])


def _another(statement):
    def spoil(copy):
        copy.unlink()
        run(copy, statement, "VACUUM")

    return spoil


def _with_a_log(copy):
    copy.with_name(copy.name + "-wal").write_bytes(b"x")


SPOILED = [
    (_damage, "damaged"),
    (_cut, "damaged"),
    (lambda copy: run(copy, "PRAGMA user_version = 9999"), "schema version 9999 is newer"),
    (
        lambda copy: run(copy, "ALTER TABLE inbox ADD COLUMN more TEXT"),
        "changed by hand: column inbox.more is new",
    ),
    (_another("CREATE TABLE notes (text TEXT)"), "a database created by another program"),
    (_another("PRAGMA user_version = 0"), "not a copy made by tmpmaild backup"),
    (_with_a_log, "part of its data is in tmpmaild.copy-wal"),
    (lambda copy: copy.write_bytes(b""), "not a copy made by tmpmaild backup"),
    (lambda copy: copy.write_bytes(b"PGDMP" * 1000), "not a copy made by tmpmaild backup"),
    (lambda copy: copy.unlink(), "cannot be read: No such file"),
]
"""Changes to a backup, and the reason for which the changed backup is refused."""


async def test_a_copy_that_is_incomplete_or_not_ours_is_not_restored(copy, path, subtests):
    whole = copy.read_bytes()
    for number, (spoil, why) in enumerate(SPOILED):
        with subtests.test(why, number=number):
            try:
                spoil(copy)
                with pytest.raises(DatabaseError, match=why) as refused:
                    restore(copy, path)
            finally:
                copy.write_bytes(whole)
                copy.with_name(copy.name + "-wal").unlink(missing_ok=True)
            assert str(refused.value).startswith(f"{copy}: ")
            assert files(path) == {"mail.db.lock"}


async def test_a_copy_of_the_first_release_is_restored_and_migrated_at_the_start(path, tmp_path, open_engine):
    (old := tmp_path / "old").write_bytes(gzip.decompress(OLD.read_bytes()))
    assert restore(old, path).messages
    async with open_engine():
        pass


async def test_a_full_disk_leaves_no_partial_database(copy, path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DatabaseError, match=r"mail\.db: cannot be opened \(File too large\)"):
            restore(copy, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(path) == {"mail.db.lock"}
