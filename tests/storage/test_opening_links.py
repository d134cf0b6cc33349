"""A database with several names: the links lead to the same file, which only one process at a time may use."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tmpmaild.errors import DatabaseError
from tmpmaild.model import Page
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite import space
from tmpmaild.storage.sqlite.engine import assert_usable, open_storage, operator_mail, summary, upgrade
from tmpmaild.storage.sqlite.restoring import restore

from .conftest import run, settings

UPGRADE = """
import pathlib, sys
from tmpmaild.errors import DatabaseError
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import upgrade
try: print(upgrade(SqliteSettings(path=pathlib.Path(sys.argv[1]))))
except DatabaseError as error: print(error)
"""
LEAVE_WAL = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try: print(connection.execute("PRAGMA journal_mode = delete").fetchone())
except sqlite3.OperationalError as error: print(error)
"""


def link_to_a_link(path, other):
    other.with_name("between").symlink_to(path)
    other.symlink_to("between")


def link_to_the_folder(path, other):
    other.parent.rmdir()
    other.parent.symlink_to(path.parent)
    other.symlink_to(path.name)


LINKS = {
    "symbolic": lambda path, other: other.symlink_to(path),
    "relative": lambda path, other: other.symlink_to(os.path.relpath(path, other.parent)),
    "of a link": link_to_a_link,
    "in a folder behind a link": link_to_the_folder,
    "hard": lambda path, other: other.hardlink_to(path),
}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "mail.db"


@pytest.fixture
def other(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "other.db"


async def by_another_process(code, path):
    done = await anyio.run_process([sys.executable, "-c", code, path], stderr=subprocess.STDOUT)
    return done.stdout.decode().strip()


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_database_in_use_cannot_be_opened_by_another_name(path, other, clock, link, is_first):
    upgrade(SqliteSettings(path=path))
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    link(path, other)
    first, second = (path, other) if is_first else (other, path)
    async with open_storage(settings(first), clock):
        for attempt in (lambda path: upgrade(SqliteSettings(path=path)), lambda path: restore(copy, path)):
            with pytest.raises(DatabaseError, match=rf"{second}: in use by another tmpmaild"):
                attempt(second)
        with pytest.raises(DatabaseError, match="in use by another tmpmaild"):
            async with open_storage(settings(second), clock):
                pass
    assert upgrade(SqliteSettings(path=second)) == []


async def test_a_different_process_cannot_open_a_hard_link_either(path, other, clock):
    upgrade(SqliteSettings(path=path))
    other.hardlink_to(path)
    async with open_storage(settings(path), clock):
        assert (await by_another_process(UPGRADE, other)).startswith(f"{other}: in use by another tmpmaild; ")
        with pytest.raises(DatabaseError, match="in use"):
            upgrade(SqliteSettings(path=other))
        # The refusal in this process closed no descriptor of the file, so SQLite's own locks are still held.
        assert await by_another_process(LEAVE_WAL, path) == "database is locked"


@pytest.mark.parametrize("link", [LINKS["symbolic"], link_to_a_link], ids=["symbolic", "of a link"])
async def test_a_database_in_use_is_not_created_again_by_a_different_name(path, other, open_engine, link):
    link(path, other)
    async with open_engine() as engine:
        with pytest.raises(DatabaseError, match="in use by another tmpmaild"):
            upgrade(SqliteSettings(path=other))
        await engine.inbox("ada")


async def test_reading_a_database_in_use_leaves_its_locks(path, open_engine):
    """Closing any descriptor of a file releases all POSIX locks that the process holds on it."""
    at = SqliteSettings(path=path)
    async with open_engine() as engine:
        await engine.inbox("ada")
        for look in (operator_mail(at).messages, lambda: summary(at), lambda: assert_usable(path)):
            look()
            assert await by_another_process(LEAVE_WAL, path) == "database is locked"


async def test_an_older_daemon_that_locks_next_to_the_link_is_detected(path, other):
    upgrade(SqliteSettings(path=path))
    other.symlink_to(path)
    with other.with_name("other.db.lock").open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(DatabaseError, match="in use by another tmpmaild"):
            upgrade(SqliteSettings(path=other))
    assert upgrade(SqliteSettings(path=other)) == []


async def test_a_copy_is_restored_to_where_the_link_leads(path, other, open_engine, tmp_path):
    async with open_engine() as engine:
        await engine.add(await engine.inbox("ada"), subject="kept")
        async with engine.storage.backup() as made:
            (tmp_path / "copy").write_bytes(made.read())
    for file in path.parent.iterdir():
        file.unlink()
    other.symlink_to(path)
    restore(tmp_path / "copy", other)
    assert other.is_symlink()
    assert {file.name for file in other.parent.iterdir()} == {"other.db"}
    async with open_engine() as engine:
        assert await engine.subjects("ada", Page()) == ["kept"]


def test_the_disk_of_the_file_and_not_of_the_link_is_measured(other, path):
    target = Path("/dev/shm/tmpmaild-nothing.db")
    if not target.parent.is_dir():
        pytest.skip("needs /dev/shm")
    other.symlink_to(target)
    free_bytes = shutil.disk_usage(target.parent).free
    assert space.sensible_cap_bytes(other) == pytest.approx(min(10 * 1024**3, free_bytes // 2), rel=0.1)


async def test_after_a_kill_the_database_can_be_opened_only_by_the_name_that_has_the_log(
    path, other, open_engine, clock
):
    async with open_engine() as engine:
        await engine.add(await engine.inbox("ada"), subject="acknowledged")
        assert run(path, "SELECT count(*) FROM message") == [(1,)]
        # This is the state after SIGKILL: no data has been copied from the WAL into the file.
        left = {end: path.with_name(f"mail.db{end}").read_bytes() for end in ("", "-wal")}
    for end, octets in left.items():
        path.with_name(f"mail.db{end}").write_bytes(octets)
    other.hardlink_to(path)
    with pytest.raises(DatabaseError, match=r"has 2 names .* other\.db-wal is missing"):
        async with open_storage(settings(other), clock):
            pass
    async with open_engine() as engine:
        assert await engine.subjects("ada", Page()) == ["acknowledged"]
