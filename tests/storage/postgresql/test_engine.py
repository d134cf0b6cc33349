"""The PostgreSQL engine: refusals at startup, slots, clocks, and several daemons."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest

from daemonsatonce import follow_four_daemons
from tests.storage.conftest import LIFETIME_MS, Engine, postgresql_settings
from tmpmaild.config import databaseurl
from tmpmaild.errors import DatabaseError
from tmpmaild.model import Page, Webhook
from tmpmaild.storage.postgresql import engine, server
from tmpmaild.storage.postgresql.engine import migrate, migrations
from tmpmaild.storage.postgresql.operations import CONTENT
from tmpmaild.storage.postgresql.partitions import SLOT_MS

from .conftest import connected, said


async def test_a_database_of_a_different_program_is_left_unchanged(new_database):
    url = new_database("CREATE TABLE customers (id int)")
    assert await said(url) == (
        f"{url}: the database contains other tables (such as customers); create a database only for tmpmaild"
    )


async def test_another_encoding_is_refused(new_database):
    told = await said(new_database(encoding="SQL_ASCII"))
    assert "its encoding is SQL_ASCII; create a database with ENCODING 'UTF8'" in told


async def test_the_error_for_a_role_without_rights_names_the_missing_rights(new_database, cluster):
    url = new_database("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    guest = cluster.parsed_url(url.database, user="guest")
    assert await said(guest) == (
        f"{guest}: the role may not change the schema (permission denied for schema public);"
        " make it the owner of the database"
    )


async def test_settings_that_lose_mail_are_refused(own, run):
    for value in ("off", "local", "remote_write"):
        run(f"ALTER DATABASE {own.database} SET synchronous_commit = {value}")
        assert f"synchronous_commit is {value}; expected on or remote_apply" in await said(own)


async def test_a_server_that_does_not_flush_is_refused(own, cluster):
    try:
        set_and_wait(cluster, "fsync", "off")
        assert "fsync is off; mail would be lost in a power cut" in await said(own)
    finally:
        set_and_wait(cluster, "fsync", "on")


async def test_a_server_that_is_reconfigured_later_still_flushes_our_commits(own, cluster):
    opened = await server.Server(own).connect()
    try:
        await asyncio.to_thread(set_and_wait, cluster, "synchronous_commit", "off")
        assert await opened.fetchval("SHOW synchronous_commit") == "on"
    finally:
        await opened.close()
        set_and_wait(cluster, "synchronous_commit", "on")


def set_and_wait(cluster, name, value):
    cluster.execute(f"ALTER SYSTEM SET {name} = {value}")
    cluster.execute("SELECT pg_reload_conf()")
    while cluster.execute(f"SHOW {name}") != value:
        time.sleep(0.01)


def octets(kind, body):
    return kind + (len(body) + 4).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("answers", "ending"),
    [
        (
            [(b"R", b"\0\0\0\0"), (b"S", b"server_version\x0014.11 (Debian)\0"), (b"Z", b"I")],
            "PostgreSQL 14 is too old; 15 or newer is required",
        ),
        (
            [(b"E", b"SFATAL\0VFATAL\0C42704\0Munrecognized\0\0")],
            "PostgreSQL is too old (unrecognized); 15 or newer is required",
        ),
        (
            [(b"E", b"SERROR\0VERROR\0C08P01\0Munsupported\0\0")],
            ": unsupported; connect to the server itself, without a pooler",
        ),
    ],
    ids=["version 14", "before version 12, which does not know all settings of a session", "pooler"],
)
async def test_the_error_for_an_outdated_server_names_the_required_version(answers, ending):
    async def answer(reader, writer):
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big") - 4)
        writer.write(b"".join(octets(*one) for one in answers))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = databaseurl.parse(f"postgresql://me:hunter2@127.0.0.1:{port}/mail?sslmode=disable")
        told = await said(url)
    assert (told.startswith(f"postgresql://me@127.0.0.1:{port}/mail: "), told.endswith(ending)) == (True, True), told


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("ALTER TABLE inbox ADD COLUMN note text", "column inbox.note is new"),
        ("ALTER TABLE block DROP COLUMN created_at_ms", "column block.created_at_ms is missing or different"),
        ("DROP INDEX inbox_by_expiry", "index CREATE INDEX inbox_by_expiry ON"),
        ("DROP VIEW mail", "column mail."),
    ],
    ids=["column added", "column dropped", "index dropped", "view dropped"],
)
async def test_a_schema_that_was_changed_by_hand_is_refused_with_the_difference(own, run, change, named):
    await engine.bring_up_to_date(postgresql_settings(own))
    run(change)
    assert f"{own}: the schema has been changed by hand: {named}" in await said(own)


async def test_a_schema_that_requires_a_newer_daemon_is_refused_and_a_compatible_schema_is_used(own, run):
    settings, known = postgresql_settings(own), max(migrations())
    await engine.bring_up_to_date(settings)
    later = f"{known + 1}, 'later', {known}, shape FROM schema_step WHERE number = {known}"
    run(f"INSERT INTO schema_step SELECT {later}")
    assert await engine.bring_up_to_date(settings) == []
    run(f"UPDATE schema_step SET needs = {known + 1} WHERE number = {known + 1}")
    told = rf"a newer tmpmaild \(step {known + 1}\); this version supports step {known}; upgrade tmpmaild"
    with pytest.raises(DatabaseError, match=told):
        await engine.bring_up_to_date(settings)


async def test_running_and_starting_daemons_use_a_newer_schema_that_is_compatible(new_database, clock):
    url, number, file = new_database(), max(migrations()) + 1, Path(__file__).with_suffix(".sql")

    async def upgrade_behind_a_reader(running, inbox):
        """Apply the step while a client reads: mail is still stored, and does not wait for the step."""
        reader, upgrading = await connected(url), await connected(url)
        async with reader.transaction():
            await reader.execute("SELECT FROM content")
            applying = asyncio.ensure_future(migrate(upgrading, {**migrations(), number: file}))
            refused = []
            upgrading.add_query_logger(lambda query: query.exception and refused.append(type(query.exception)))
            while not refused:
                await running.add(inbox)
                await asyncio.sleep(0.005)
        assert await applying == [file.stem]
        assert set(refused) == {asyncpg.LockNotAvailableError}
        for client in (reader, upgrading):
            await client.close()

    async def use(daemon, name):
        await daemon.storage.serve_domains(["mail.example.com"], now_ms=1, until_ms=2)
        inbox = await daemon.inbox(name)
        message = await daemon.add(inbox, subject="first")
        await daemon.add(inbox, await daemon.find("ada"), subject="last")
        await daemon.delete(inbox, message)
        await daemon.move(inbox, inbox.expires_at_ms + 3 * SLOT_MS)
        assert await daemon.subjects(name, Page()) == await daemon.subjects(name, Page(text="las")) == ["last"]

    async with engine.open_storage(postgresql_settings(url), clock) as storage:
        running = Engine(storage, clock)
        inbox = await running.inbox("ada")
        await use(running, "before")
        await upgrade_behind_a_reader(running, inbox)
        await use(running, "after")
        async with engine.open_storage(postgresql_settings(url), clock) as another:
            await use(Engine(another, clock), "started")
        clock.advance(ms=LIFETIME_MS + 5 * SLOT_MS)
        await running.sweep()
        assert (await running.find("ada")).message_count == 0


async def test_a_start_on_an_older_database_logs_the_upgrade_in_one_line(own, clock, caplog):
    connection = await connected(own)
    await migrate(connection, {1: migrations()[1]})
    await connection.close()
    caplog.set_level("INFO", "tmpmaild.storage")
    for _ in range(2):
        async with engine.open_storage(postgresql_settings(own), clock):
            pass
    names = ", ".join(file.stem for number, file in migrations().items() if number > 1)
    assert caplog.messages == [f"{own}: the schema was upgraded: {names}"]


async def test_a_wrong_password_file_is_named(own, tmp_path):
    message = await said(own, password_file=tmp_path / "none")
    assert message == f"{tmp_path / 'none'} (storage.password_file): cannot be read: No such file or directory"
    (tmp_path / "latin").write_bytes(b"\xfc")
    assert (
        await said(own, password_file=tmp_path / "latin")
        == f"{tmp_path / 'latin'} (storage.password_file): is not UTF-8"
    )


async def test_a_failed_step_and_a_step_whose_tables_stay_locked_are_reported(own, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_ATTEMPTS", 2)
    await engine.bring_up_to_date(postgresql_settings(own))
    step, upgrading, reader = tmp_path / "9999_later.sql", await connected(own), await connected(own)
    step.write_text("-- needs 1: …\nTHIS IS NO SQL;")
    with pytest.raises(DatabaseError, match=r"migration 9999_later\.sql failed: syntax error"):
        await migrate(upgrading, migrations() | {9999: step})
    step.write_text("-- needs 1: …\nALTER TABLE content ADD COLUMN thread text;")
    async with reader.transaction():
        await reader.execute("SELECT FROM content")
        with pytest.raises(DatabaseError, match=r"9999_later\.sql failed: its tables remain locked by another session"):
            await migrate(upgrading, migrations() | {9999: step})
    for client in (upgrading, reader):
        await client.close()


async def test_ten_daemons_may_start_at_once(new_database):
    settings = postgresql_settings(new_database())
    applied = await asyncio.gather(*(engine.bring_up_to_date(settings) for _ in range(10)))
    assert sorted(map(tuple, applied)) == [()] * 9 + [tuple(file.stem for file in migrations().values())]


async def test_followers_of_four_daemons_whose_clocks_differ_miss_nothing_and_see_nothing_twice(new_database, clock):
    await follow_four_daemons(new_database(), clock.now_ms)


async def test_two_daemons_that_lease_the_same_webhooks_get_different_webhooks(two):
    first, second = two
    inboxes = [await first.inbox(f"box{number}") for number in range(30)]
    for inbox in inboxes:
        webhook = Webhook("https://hooks.example/", frozenset({"message"}), frozenset(), "whsec_x")
        await first.storage.set_webhook(inbox.id, webhook, first.clock())
    until_ms, stored = first.clock() + 1000, await first.storage.list_webhooks()
    leases = [one.lease(webhook, until_ms) for webhook in stored for one in (first, second)]
    leased = [one for one in await asyncio.gather(*leases) if one is not None]
    assert sorted(one.address for one in leased) == sorted(inbox.address for inbox in inboxes)
    assert None not in await asyncio.gather(*(second.storage.store_webhook(one, None) for one in leased))
    assert list(await first.storage.list_webhooks()) == []


async def test_a_daemon_of_1_0_2_and_a_current_one_never_lease_the_same_webhook(two):
    first, second = two
    inbox = await first.inbox("ada")
    webhook = Webhook("https://hooks.example/", frozenset({"message"}), frozenset(), "whsec_x")
    await first.storage.set_webhook(inbox.id, webhook, first.clock())
    older = await second.storage._writer._session.connection()
    now_ms = first.clock()
    take = f"SELECT taken_version FROM take_webhooks({now_ms}, {now_ms + 1000}, ARRAY[{inbox.id}])"
    settle = f"SELECT settle_webhooks(ARRAY[{inbox.id}], ARRAY[$1::bigint], '{{0}}', '{{0}}', '{{3}}', '{{0}}', '{{0}}', '{{x}}')"
    stored = await first.storage.read_webhook(inbox.id)
    version = await older.fetchval(take)
    assert await first.lease(stored, now_ms) is None
    assert await older.fetchval(settle, version) == [True]
    stored = await first.storage.read_webhook(inbox.id)
    assert (stored.state.failures, stored.state.next_at_ms) == (3, 0)
    assert await first.lease(stored, now_ms + 1000)
    assert await older.fetchval(take) is None
    assert await older.fetchval(settle, version) == [False]


async def test_the_declared_columns_are_those_that_the_database_takes(own, run):
    await engine.bring_up_to_date(postgresql_settings(own))
    taken = run("SELECT content_columns('%1$s %2$s')")
    assert taken.split(", ") == [f"{column.name} {column.kind}" for column in CONTENT]


async def test_a_step_may_add_a_column_while_a_daemon_runs_that_does_not_know_the_column(opened, tmp_path):
    step = tmp_path / "9999_thread.sql"
    step.write_text(
        "-- needs 1: …\nALTER TABLE content ADD COLUMN thread text; SELECT define_deliver(), define_move_mail();"
    )
    ada = await opened.inbox("ada")
    await opened.add(ada, subject="before")
    async with AsyncExitStack() as stack:
        client = await opened.storage._writer._session.server.connect()
        stack.push_async_callback(client.close)
        assert await migrate(client, migrations() | {9999: step}) == ["9999_thread"]
        await opened.add(ada, subject="after")
        await client.execute("UPDATE content SET thread = subject")
        await opened.move(ada, opened.clock() + 2 * SLOT_MS)
        assert await opened.subjects("ada", Page()) == ["after", "before"]
        slot = (opened.clock() + 2 * SLOT_MS) // SLOT_MS
        moved = await client.fetch("SELECT thread FROM content WHERE slot = $1 ORDER BY id", slot)
        assert [row["thread"] for row in moved] == ["before", "after"]
        taken = await client.fetch("SELECT pronargs FROM pg_proc WHERE proname = 'deliver' ORDER BY 1 DESC")
        assert taken[0]["pronargs"] == taken[1]["pronargs"] + 1


async def test_the_clock_is_the_database_clock(own, run, monkeypatch):
    wall_seconds = time.time()
    monkeypatch.setattr("time.time", lambda: wall_seconds - 3600)
    async with engine.open_storage(postgresql_settings(own)) as storage:
        database_seconds = float(run("SELECT extract(epoch FROM clock_timestamp())"))
        assert abs(storage.clock() / 1000 - database_seconds) < 5
        assert 3590 < figure(storage, "storage_clock_offset_seconds") < 3610


def figure(storage, name):
    (found,) = [one for one in storage.metrics() if one.name == name]
    return found.values()[()]


async def test_lost_and_reopened_connections_are_counted(opened):
    storage = opened.storage
    await opened.find("ada")
    count = figure(storage, "storage_connects_total")
    assert figure(storage, "storage_connections") == count
    storage._readers._idle[-1]._connection.terminate()
    assert figure(storage, "storage_connections") == count - 1
    await opened.find("ada")
    assert figure(storage, "storage_connects_total") == count + 1
