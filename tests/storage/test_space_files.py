"""A database file removed or replaced while it is open: no more mail is accepted, and no other file is touched."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import StorageLost
from tmpmaild.model import Page
from tmpmaild.storage.sqlite.engine import open_storage

from .conftest import new_mail, run, settings


def lose(path, command):
    subprocess.run(["sh", "-c", command], cwd=path.parent, check=True)


def put_in_place(other, path):
    for end in ("", "-wal"):
        shutil.copy(f"{other}{end}", f"{other}{end}.copy")
        Path(f"{other}{end}.copy").replace(f"{path}{end}")


LOSSES = [
    *("rm mail.db", "rm mail.db-wal", "rm -r ../state", "mv mail.db moved.db", "mv ../state ../moved"),
    *("cp mail.db copy; mv copy mail.db", "cp mail.db-wal copy; mv copy mail.db-wal"),
]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "mail.db"


@pytest.mark.parametrize("loss", LOSSES)
async def test_all_mail_is_refused_from_the_first_commit_on(open_engine, path, loss, caplog):
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        kept = await engine.add(inbox)
        told = []
        engine.storage.on_committed(told.append)
        lose(path, loss)
        for attempt in (
            lambda: engine.add(inbox),
            lambda: engine.add(inbox),
            lambda: engine.inbox("bob"),
            lambda: engine.delete(inbox, kept),
            lambda: engine.find("ada"),
            lambda: engine.messages("ada", Page()),
        ):
            with pytest.raises(StorageLost):
                await attempt()
        assert engine.storage.lost.is_set()
        with anyio.fail_after(PATIENCE_SECONDS):
            await engine.storage.lost.wait()
        assert told == []
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (line.levelname, line.name) == ("ERROR", "tmpmaild.storage.sqlite.space")
    assert str(path) in line.getMessage()


async def test_a_lost_database_is_noticed_without_mail(open_engine, path, clock):
    async with open_engine() as engine, anyio.create_task_group() as tasks:
        tasks.start_soon(engine.storage.lost.wait)
        path.unlink()
        with pytest.raises(StorageLost):
            await engine.storage.sweep(clock())


@pytest.mark.parametrize(("loss", "folder"), [("rm mail.db-wal", "state"), ("mv ../state ../moved", "moved")])
async def test_earlier_mail_is_still_there_at_the_end_wherever_the_database_is(open_engine, path, clock, loss, folder):
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        kept = await engine.add(inbox)
        lose(path, loss)
        with pytest.raises(StorageLost):
            await engine.add(inbox)
    async with open_storage(settings(path.parent.with_name(folder) / "mail.db"), clock) as storage:
        listing = await storage.list_messages("ada@mail.example.com", Page(), clock())
        assert kept in [message.id for message in listing.messages]


async def test_a_new_database_in_its_place_is_left_unchanged(open_engine, path, clock, tmp_path):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "mail.db"
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        async with open_storage(settings(other), clock) as storage:
            await storage.add_message(new_mail("1", subject="theirs"))
            put_in_place(other, path)
        with pytest.raises(StorageLost):
            await engine.add(inbox)
    assert run(path, "SELECT subject FROM mail") == [("theirs",)]


async def test_a_database_behind_a_link_is_not_lost(open_engine, path, tmp_path):
    (tmp_path / "disk").mkdir()
    path.symlink_to(tmp_path / "disk" / "real.db")
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        await engine.add(inbox)
        (tmp_path / "disk" / "real.db-wal").unlink()
        with pytest.raises(StorageLost):
            await engine.add(inbox)


async def test_our_locks_are_visible_to_other_processes_whatever_file_we_read(open_engine, path):
    """Closing any descriptor of a file releases all POSIX locks that the process holds on it."""
    leave_wal = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], timeout=0)\n"
        "try: print(connection.execute('PRAGMA journal_mode = delete').fetchone())\n"
        "except sqlite3.OperationalError as error: print(error)\n"
    )
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        for _ in range(3):
            await engine.add(inbox)
        ended = await anyio.run_process([sys.executable, "-c", leave_wal, path], stderr=subprocess.STDOUT)
        assert ended.stdout == b"database is locked\n"
        await engine.add(inbox)
