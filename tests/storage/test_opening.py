"""Opening a database file: a refusal is reported in a single line and leaves the files unchanged.

The tests also cover the pragmas of every connection.
"""

import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import anyio
import pytest

import tmpmaild
from tmpmaild.errors import DatabaseError
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.postgresql.engine import migrations as postgresql_migrations
from tmpmaild.storage.sqlite import opening
from tmpmaild.storage.sqlite.engine import migrate, migrations, open_storage, upgrade
from tmpmaild.storage.sqlite.layout import MIN_STORED_BYTES

from .conftest import run, settings

LEFT_BEHIND = ("", "-wal")
AWAY = "mail.db, mail.db-wal and mail.db-shm away together"


def hashes(path):
    files = [path.with_name(path.name + end) for end in LEFT_BEHIND]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()}


async def assert_refused_untouched(path, clock, reason):
    before = hashes(path)
    with pytest.raises(DatabaseError) as refusal:
        async with open_storage(settings(path), clock):
            pass
    assert reason in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert hashes(path) == before


async def fill(open_engine):
    async with open_engine(max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        for _ in range(100):
            await engine.add(inbox, body="x" * 10_000)


def is_clean(path):
    return run(path, "SELECT clean_stop FROM daemon") == [(1,)]


def kill(path):
    """Leave the files as after SIGKILL: the flag is unset, and the WAL and its index exist."""
    living = sqlite3.connect(path, isolation_level=None)
    living.execute("UPDATE daemon SET clean_stop = 0")
    living.execute("UPDATE daemon SET last_message_id = last_message_id + 1")
    copies = [(file, file.with_name("copy-" + file.name)) for file in path.parent.glob(path.name + "*")]
    for file, copy in copies:
        shutil.copy(file, copy)
    living.close()
    for file, copy in copies:
        copy.replace(file)


def damage_pages(path):
    """Overwrite pages in the middle of the file, after the header and schema, as after an unclean stop."""
    kill(path)
    assert set(hashes(path)) == {"mail.db", "mail.db-wal"}
    with path.open("r+b") as file:
        for page in range(20, 120):
            file.seek(page * 4096)
            file.write(b"\xa5" * 4096)


def damage_header(path):
    with path.open("r+b") as file:
        file.write(b"\0" * 64)


def truncated(left_bytes):
    return lambda path: os.truncate(path, left_bytes)


def theirs(mode):
    return lambda path: (path.unlink(), run(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE theirs (x)"))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: run(path, "PRAGMA user_version = 99"), "newer than this tmpmaild supports"),
        (damage_header, "damaged"),
        (damage_pages, "damaged ("),
        *((truncated(left_bytes), AWAY) for left_bytes in (50, 4096, 50_000)),
        *((theirs(mode), "another program") for mode in ("delete", "wal")),
    ],
)
async def test_a_newer_or_damaged_or_foreign_database_is_refused(open_engine, path, clock, spoil, reason):
    await fill(open_engine)
    spoil(path)
    await assert_refused_untouched(path, clock, reason)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (["ALTER TABLE block DROP COLUMN created_at_ms"], "column block.created_at_ms is missing or different"),
        (["ALTER TABLE inbox ADD COLUMN note TEXT"], "column inbox.note is new"),
        (["DROP INDEX inbox_by_expiry"], "index inbox_by_expiry is missing or different"),
        (["CREATE INDEX by_subject ON content (subject)"], "index by_subject is new"),
        (["CREATE TRIGGER copy AFTER INSERT ON message BEGIN SELECT 1; END"], "trigger copy is new"),
        (["DROP VIEW mail", "CREATE VIEW mail AS SELECT 1 AS one"], "view mail is missing or different"),
        (["DROP TABLE content"], "column content."),
    ],
    ids=[
        "column dropped",
        "column added",
        "index dropped",
        "index added",
        "trigger added",
        "view replaced",
        "table dropped",
    ],
)
async def test_a_schema_that_was_changed_by_hand_is_refused_with_the_difference(path, clock, changes, named):
    upgrade(SqliteSettings(path=path))
    run(path, *changes)
    await assert_refused_untouched(path, clock, f"changed by hand: {named}")
    with pytest.raises(DatabaseError, match="undo the change, or to start with an empty database, move mail"):
        upgrade(SqliteSettings(path=path))


async def test_foreign_tables_and_views_do_not_matter(open_engine, path):
    upgrade(SqliteSettings(path=path))
    run(path, "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
    run(path, "CREATE VIEW today AS SELECT count(*) FROM mail")
    async with open_engine():
        pass


async def test_an_undamaged_file_is_opened_after_an_unclean_stop(open_engine, path):
    async with open_engine():
        assert not is_clean(path)
    assert is_clean(path)
    await fill(open_engine)
    kill(path)
    async with open_engine() as engine:
        assert (await engine.find("ada")).message_count == 100


async def test_a_cancelled_daemon_closes_its_database_cleanly_too(open_engine, path):
    with anyio.CancelScope() as scope:
        async with open_engine() as engine:
            await engine.inbox("ada")
            scope.cancel()
            await anyio.sleep_forever()
    assert sorted(file.name for file in path.parent.iterdir()) == ["mail.db", "mail.db.lock"]
    assert is_clean(path)


async def test_a_missing_folder_is_refused(path, clock):
    with pytest.raises(DatabaseError, match="nowhere does not exist"):
        async with open_storage(settings(path / "nowhere" / "mail.db"), clock):
            pass


def begin(path):
    """Leave the file as after an interrupted first start, with the first page but no tables."""
    opening.connect(path).close()
    assert path.stat().st_size > 0


@pytest.mark.parametrize("made", [Path.touch, begin])
async def test_a_file_without_tables_becomes_a_database(open_engine, path, made):
    made(path)
    async with open_engine() as engine:
        await engine.inbox("ada")


async def test_a_second_daemon_or_migration_is_refused(open_engine, path, clock):
    async with open_engine() as engine:
        with pytest.raises(DatabaseError, match="in use by another tmpmaild"):
            async with open_storage(settings(path), clock):
                pass
        with pytest.raises(DatabaseError, match="in use by another tmpmaild"):
            upgrade(SqliteSettings(path=path))
        await engine.inbox("ada")
    assert upgrade(SqliteSettings(path=path)) == []


async def test_every_file_is_readable_only_by_its_owner(open_engine, path):
    async with open_engine() as engine:
        await engine.inbox("ada")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"mail.db": 0o600, "mail.db-wal": 0o600, "mail.db-shm": 0o600, "mail.db.lock": 0o600}


async def test_the_pragmas_of_the_writer_apply(open_engine):
    wanted = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "secure_delete": 1,
        "auto_vacuum": 2,
        "temp_store": 2,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "page_size": 4096,
        "max_page_count": 1000,
    }
    async with open_engine(max_bytes=4096 * 1000) as engine:
        execute = engine.storage._writer._connection.execute
        assert {name: execute(f"PRAGMA {name}").fetchone()[0] for name in wanted} == wanted


async def test_readers_cannot_write(open_engine):
    async with open_engine() as engine:
        for reader in (engine.storage._reader._connection, engine.storage._maintenance):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                await reader.execute("DELETE FROM inbox")


def test_a_pragma_that_has_no_effect_prevents_startup(path):
    run(path, "PRAGMA auto_vacuum = NONE", "CREATE TABLE early (x)")
    with pytest.raises(DatabaseError, match="auto_vacuum is 0, expected 2"):
        opening.connect(path)


@pytest.mark.parametrize("last", ["CREATE TABLE inbox (x);", "THIS IS NO SQL;", "SELECT 1; SELECT 2;"])
def test_a_failed_migration_leaves_nothing_behind(path, tmp_path, last):
    step = tmp_path / "0001_broken.sql"
    step.write_text(f"CREATE TABLE one (x);\nINSERT INTO one VALUES (1);\nCREATE TABLE inbox (x);\n{last}\n")
    with closing(opening.connect(path)) as connection:
        with pytest.raises(DatabaseError, match=r"0001_broken\.sql failed"):
            migrate(connection, {1: step})
        assert not connection.in_transaction
        assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)
        assert migrate(connection) == [step.stem for step in migrations().values()]
        assert migrate(connection) == []


async def test_a_database_that_is_larger_than_its_cap_is_opened(open_engine):
    async with open_engine() as engine:
        await engine.add(await engine.inbox("ada"), raw=b"x" * 5_000_000)
    async with open_engine(max_bytes=1024 * 1024) as engine:
        assert not engine.storage.has_room()
        assert (await engine.find("ada")).message_count == 1


def test_a_trigger_in_a_migration_stays_one_statement(path, tmp_path):
    step = tmp_path / "0001_trigger.sql"
    step.write_text(
        "CREATE TABLE one (x); -- a comment; with a semicolon\n"
        "CREATE TRIGGER t AFTER INSERT ON one BEGIN\n  DELETE FROM one;\n  SELECT 1;\nEND;\n-- the end\n"
    )
    with closing(opening.connect(path)) as connection:
        assert migrate(connection, {1: step}) == ["0001_trigger"]


def test_a_checkout_finds_its_migrations_without_gaps():
    steps = migrations()
    assert list(steps) == list(range(1, len(steps) + 1))
    assert steps[1].name == "0001_initial.sql"


def test_a_wheel_carries_the_migrations(tmp_path):
    root = Path(tmpmaild.__file__).parent.parent
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, tmp_path)
    shutil.copytree(root / "migrations", tmp_path / "migrations")
    (tmp_path / "tmpmaild").mkdir()
    (tmp_path / "tmpmaild" / "__init__.py").write_text('"""A package."""\n')
    build = "import hatchling.build; print(hatchling.build.build_wheel('.'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        carried = {name for name in wheel.namelist() if name.startswith("tmpmaild/migrations/")}
    steps = [*migrations().values(), *postgresql_migrations().values()]
    assert carried == {f"tmpmaild/{file.relative_to(root)}" for file in steps}


async def test_the_views_can_be_read_while_the_daemon_runs_and_have_no_swept_mail(open_engine, path, clock):
    async with open_engine() as engine:
        ada, bob = await engine.inbox("ada"), await engine.inbox("bob", lifetime_ms=1)
        await engine.add(ada, bob, subject="Hi", body="Hello\n", raw=b"raw")
        await engine.add("1", subject="To postmaster")
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
            reader.row_factory = sqlite3.Row
            mail = [dict(row) for row in reader.execute("SELECT * FROM mail")]
            inboxes = [dict(row) for row in reader.execute("SELECT * FROM inboxes")]
        sources = run(path, "SELECT s.octets FROM source AS s JOIN message AS m ON m.content_id = s.id")
        assert sources[:2] == [(b"raw",)] * 2
        clock.advance(ms=1)
        await engine.sweep()
        assert run(path, "SELECT address FROM inboxes") == [("ada@mail.example.com",)]
        assert run(path, "SELECT address FROM mail") == [("ada@mail.example.com",), ("postmaster",)]
    assert [row["address"] for row in mail] == ["ada@mail.example.com", "bob@mail.example.com", "postmaster"]
    assert mail[0].items() >= {"sender": "ada@example.com", "subject": "Hi", "size": 3, "body": "Hello\n"}.items()
    assert mail[0]["received_at"] == "2026-09-21T14:13:20.000Z"
    assert [row["address"] for row in inboxes] == ["ada@mail.example.com", "bob@mail.example.com"]
    assert inboxes[1]["expires_at"] == "2026-09-21T14:13:20.001Z"
    assert (inboxes[0]["message_count"], inboxes[0]["stored_bytes"]) == (1, MIN_STORED_BYTES)
