"""Each reason why a database cannot be opened has its own text and advice, and only damage is reported as damage."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import tmpmaild
from patience import PATIENCE_SECONDS
from tmpmaild.config import databaseurl
from tmpmaild.errors import DatabaseError, StartError
from tmpmaild.storage import engines
from tmpmaild.storage.engines import PostgresqlSettings, SqliteSettings, steps_in
from tmpmaild.storage.sqlite import engine, opening
from tmpmaild.storage.sqlite.engine import (
    assert_usable,
    close,
    migrations,
    open_storage,
    operator_mail,
    prepare,
    upgrade,
)

from .conftest import settings

NOBODY = 65534
OPEN = "import pathlib, sys; from tmpmaild.storage.engines import SqliteSettings; from tmpmaild.storage.sqlite.engine import upgrade; upgrade(SqliteSettings(path=pathlib.Path(sys.argv[1])))"

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="requires root, to become nobody and to mount")


@contextmanager
def as_nobody():
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def public_path(monkeypatch):
    """Return the path of a database in a folder that the user ``nobody`` owns and, unlike this checkout, can access."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, tempfile.TemporaryDirectory(dir="/tmp") as package:
        Path(package).chmod(0o755)
        steps = Path(shutil.copytree(migrations()[1].parent, f"{package}/migrations"))
        for one in (steps, *steps.iterdir()):
            one.chmod(0o755)  # with umask 077, a checkout is only readable by its owner
        monkeypatch.setattr(tmpmaild, "__file__", f"{package}/tmpmaild/__init__.py")
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder) / "mail.db"


def upgraded(path):
    return upgrade(SqliteSettings(path=path))


def refusal(path, open_database=upgraded):
    with pytest.raises(DatabaseError) as refused:
        open_database(path)
    said = str(refused.value)
    assert "\n" not in said
    assert said.startswith(f"{path}: ")
    return said.removeprefix(f"{path}: ")


@root_only
@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".lock"])
def test_a_file_of_a_different_user_is_reported_with_actual_and_required_owner_and_mode(public_path, end):
    file = public_path.with_name(f"mail.db{end}")
    with as_nobody():
        upgrade(SqliteSettings(path=public_path))
    file.touch()
    os.chown(file, 0, 0)
    file.chmod(0o640)
    with as_nobody():
        said = refusal(public_path)
    assert said == (
        f"no permission on {file}: it is owned by root:root, mode 0640; it must be owned by nobody, mode 0600,"
        f" like its folder: chown --reference {file.parent} {file}"
    )


@root_only
@pytest.mark.parametrize(
    ("owner", "mode", "found"),
    [((4242, 4243), 0o755, "4242:4243, mode 0755"), ((0, 0), 0o700, "root:root, mode 0700")],
    ids=["without names", "not to be entered"],
)
def test_a_folder_of_a_different_user_is_reported_with_actual_and_required_owner_and_mode(
    public_path, owner, mode, found
):
    folder = public_path.parent
    os.chown(folder, *owner)
    folder.chmod(mode)
    with as_nobody():
        said = f"no permission on {folder}: it is owned by {found}; it must be owned by nobody, mode 0700"
        assert refusal(public_path) == said
        assert refusal(folder / "deeper" / "mail.db") == (
            f"the folder {folder / 'deeper'} does not exist or cannot be accessed; correct storage.path, create"
            " the folder, or change its owner: it must be owned by nobody, mode 0700"
        )


@root_only
def test_readers_need_no_write_permission(public_path):
    upgrade(SqliteSettings(path=public_path))
    public_path.parent.chmod(0o755)
    public_path.chmod(0o640)
    with as_nobody():
        assert "it is owned by root:root, mode 0640" in refusal(
            public_path, lambda path: operator_mail(SqliteSettings(path=path)).messages()
        )
    public_path.chmod(0o644)
    with as_nobody():
        assert operator_mail(SqliteSettings(path=public_path)).messages() == ()
        assert refusal(public_path, assert_usable).startswith(f"no permission on {public_path.parent}")


def test_a_folder_instead_of_the_file_is_reported(path):
    (path / "treasure").mkdir(parents=True)
    assert refusal(path) == "is a folder; storage.path must be a file"
    assert (path / "treasure").exists()


def test_a_text_file_is_not_reported_as_certainly_damaged(path):
    diary = "Dear diary,\n" * 1000
    path.write_text(diary)
    said = refusal(path)
    assert path.read_text() == diary
    assert said.startswith("not a SQLite database, or damaged at its start; correct storage.path; ")
    assert "mail.db, mail.db-wal and mail.db-shm away together; the messages in them are lost" in said


def test_a_file_system_that_does_not_report_its_size_is_not_reported_as_full(path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=0, used=0, free=0))
    path.write_text("Dear diary,\n" * 1000)
    assert refusal(path).startswith("not a SQLite database")


@pytest.fixture
def locked(path, monkeypatch):
    """Hold the write lock, as a different program might; other connections do not wait for it."""
    upgrade(SqliteSettings(path=path))
    monkeypatch.setitem(opening._PRAGMAS, "busy_timeout", 0)
    connection, _ = prepare(path, 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield connection


def test_a_database_locked_by_a_different_program_is_reported(path, locked):
    assert refusal(path) == "locked by a different process; stop that process first"
    locked.close()


def test_a_stop_that_cannot_be_marked_as_clean_is_logged(path, locked, caplog):
    close(locked, clean=True)
    assert "could not be marked as cleanly closed (database is locked); the next start will check it" in caplog.text


def test_a_migration_that_fails_names_the_database(path, tmp_path, monkeypatch):
    (step := tmp_path / "0001_broken.sql").write_text("THIS IS NO SQL;")
    monkeypatch.setattr(engine, "migrations", lambda: {1: step})
    assert refusal(path).startswith("migration 0001_broken.sql failed: ")


def test_an_installation_without_migrations_is_incomplete():
    with pytest.raises(DatabaseError, match="the installation is incomplete"):
        steps_in("no-such-folder")


def test_the_other_engine_without_its_driver_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.delitem(sys.modules, "tmpmaild.storage.postgresql.engine", raising=False)
    monkeypatch.delattr("tmpmaild.storage.postgresql.engine", raising=False)
    url = databaseurl.parse("postgresql://me@/mail?host=/nowhere")
    with pytest.raises(StartError, match=r"storage\.url needs asyncpg: .* -m pip install asyncpg"):
        engines.summary(PostgresqlSettings(url=url))


def run_with(path, *prefix, kind="DatabaseError"):
    """Open the database in a separate process; return its error message."""
    done = subprocess.run([*prefix, sys.executable, "-c", OPEN, path], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1].removeprefix(f"tmpmaild.errors.{kind}: {path}: ")


def inject(*failures):
    return ["strace", "-f", "-qq", "-o", "/dev/null", *(f"-einject={failure}" for failure in failures)]


@pytest.mark.needs("strace")
def test_a_disk_failure_is_not_reported_as_a_damaged_file(path):
    upgrade(SqliteSettings(path=path))
    said = run_with(path, *inject("pread64:error=EIO"), "-P", path)
    assert said.startswith("the disk failed (disk I/O error); read the kernel's log")


@pytest.mark.needs("strace")
@pytest.mark.parametrize("number", ["ENOLCK", "EINVAL"])
def test_a_file_system_without_locks_is_reported(path, number):
    said = run_with(path, *inject(f"flock:error={number}"))
    assert said.startswith("mail.db.lock cannot be locked (")
    assert said.endswith("keep the database on a local disk")


@root_only
@pytest.mark.needs("mergerfs")
def test_a_file_system_without_shared_maps_is_reported_at_each_start_and_used(path):
    (path.parent / "branch").mkdir()
    pool = path.parent / "pool"
    pool.mkdir()
    subprocess.run(["mergerfs", "-o", "cache.files=off", path.parent / "branch", pool], check=True)
    try:
        for _ in range(2):
            said = run_with(pool / "mail.db", kind="DatabaseRefused")
            assert said.startswith(f"the file system of {pool} does not support shared memory maps (mmap)")
    finally:
        subprocess.run(["umount", pool], check=True)


def mounted(path, options, then):
    """Return a command prefix that runs a command with a private 1 MiB file system mounted at the path's folder."""
    script = f'mount -t tmpfs -o size=1m none "$0" && {then} && {options} && exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, path.parent]


@root_only
@pytest.mark.parametrize("before", ["true", "$PYTHON -c '$OPEN' $DB"])
def test_a_full_disk_is_reported_as_full(path, before):
    before = before.replace("$PYTHON", sys.executable).replace("$OPEN", OPEN).replace("$DB", str(path))
    fill = f"(cat /dev/zero > {path.parent}/filling; true) 2>/dev/null"
    said = run_with(path, *mounted(path, fill, before))
    assert said.startswith(f"the disk is full; free some space in {path.parent}; ")


@root_only
def test_a_read_only_file_system_is_reported_as_read_only(path):
    said = run_with(path, *mounted(path, f"mount -o remount,ro {path.parent}", "true"), kind="DatabaseRefused")
    assert said == "the file system is mounted read-only; mount it for writing, or change storage.path"


async def test_a_reader_that_cannot_connect_leaves_nothing_running(path, clock, monkeypatch):
    monkeypatch.setattr(opening, "READER_PRAGMAS", (*opening.READER_PRAGMAS, "SELECT no_such_column"))
    before = set(threading.enumerate())
    with pytest.raises(DatabaseError, match=r"mail\.db: cannot be used as a database \(no such column"):
        async with open_storage(settings(path), clock):
            pass
    running = [thread for thread in threading.enumerate() if not thread.name.startswith(("asyncio", "uvloop"))]
    running = [thread for thread in running if thread not in before]
    for thread in running:
        thread.join(PATIENCE_SECONDS)
    assert not [thread.name for thread in running if thread.is_alive()]
    assert not path.with_name("mail.db-wal").exists()  # the last connection deleted the WAL when it closed
