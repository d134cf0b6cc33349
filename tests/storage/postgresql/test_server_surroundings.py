"""The engine keeps its guarantees or reports the problem, regardless of the operator's changes on the server."""

import asyncio
import struct
from pathlib import Path

import asyncpg
import pytest

from patience import PATIENCE_SECONDS
from tests.storage.conftest import Engine, postgresql_settings
from tmpmaild.config import databaseurl
from tmpmaild.errors import DatabaseError, StorageUnavailable
from tmpmaild.model import NAME_HELD_MS, Page
from tmpmaild.storage.postgresql import engine, server
from tmpmaild.storage.postgresql.partitions import SLOT_MS
from tmpmaild.storage.postgresql.server import DatabaseClock

from .conftest import connected, said

READY = b"Z" + struct.pack("!i", 5) + b"I"
ENDING = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"


SETTINGS = [
    ("client_min_messages", "error", "warning"),
    ("default_transaction_isolation", "serializable", "read committed"),
    ("standard_conforming_strings", "off", "on"),
    ("statement_timeout", "1ms", "0"),
    ("lock_timeout", "1ms", "0"),
    ("idle_session_timeout", "1ms", "0"),
    ("idle_in_transaction_session_timeout", "0", "10s"),
    ("enable_seqscan", "on", "off"),
    ("enable_nestloop", "off", "on"),
    ("exit_on_error", "on", "off"),
    ("quote_all_identifiers", "on", "off"),
    ("plpgsql.extra_errors", "all", "none"),
]
"""Database settings, and the values that our sessions have in spite of them."""


async def test_database_settings_do_not_apply_to_a_daemon(own, cluster):
    cluster.execute(*(f"ALTER DATABASE {own.database} SET {name} = '{value}'" for name, value, _ in SETTINGS))
    client = await server.Server(own).connect()
    found = [await client.fetchval(f"SHOW {name}") for name, _, _ in SETTINGS]
    await client.close()
    assert found == [expected for _, _, expected in SETTINGS]


@pytest.mark.parametrize("which", [1, 2])
async def test_no_database_setting_prevents_a_daemon_from_working(own, cluster, clock, which):
    found = {row[0]: row[which] for row in cluster.fetch(Path(__file__).with_suffix(".sql").read_text())}
    assert len(found) > 100
    alter = f"ALTER DATABASE {own.database}"
    sets = [f"{alter} SET {name} = '{value}'" for name, value in found.items()]
    # Start the engine first without a schema, and then with a schema created under different settings.
    for statements in (sets, [f"{alter} RESET ALL"], sets):
        cluster.execute(*statements)
        async with engine.open_storage(postgresql_settings(own, max_messages_per_inbox=0), clock) as storage:
            opened = Engine(storage, clock)
            inbox = await opened.inbox("ada")
            message_id = await opened.add(inbox, subject="kept")
            await opened.delete(inbox, await opened.add(inbox, inbox))
            assert await opened.subjects("ada", Page(text="hello")) == ["kept"]
            assert (await opened.find("ada")).message_count == 1
            await opened.move(inbox, inbox.expires_at_ms + SLOT_MS)
            assert (await opened.messages("ada", Page()))[0].id == message_id
            await opened.end(inbox)
            clock.advance(ms=2 * SLOT_MS + NAME_HELD_MS)
            await opened.sweep()
            assert storage.reason_not_ready() == ""


async def test_a_read_only_database_is_refused(own, run):
    run(f"ALTER DATABASE {own.database} SET default_transaction_read_only = on")
    with pytest.raises(DatabaseError, match=r"cannot be reached: .*: it accepts no writes, or is a former primary"):
        await engine.bring_up_to_date(postgresql_settings(own))


async def test_a_pooler_that_drops_connection_settings_is_reported(own, monkeypatch):
    monkeypatch.setattr(server, "_SETTINGS", {})
    assert (await said(own)).endswith("a connection loses its settings; connect without a pooler")


async def test_extensions_are_not_a_schema_change(own, run):
    run("CREATE EXTENSION pg_buffercache")
    await engine.bring_up_to_date(postgresql_settings(own))
    run("CREATE EXTENSION pg_trgm", "CREATE EXTENSION pg_stat_statements")
    assert await engine.bring_up_to_date(postgresql_settings(own)) == []


@pytest.fixture
def stranger(cluster):
    """Create a second role and return its name."""
    cluster.execute("CREATE ROLE other_role")
    yield "other_role"
    cluster.execute("DROP ROLE other_role")


@pytest.mark.parametrize(
    "what",
    ["TABLE inbox", "TABLE schema_step", "TABLE message_0", "FUNCTION sweep", "SEQUENCE content_id", "VIEW mail"],
)
async def test_objects_of_another_role_are_refused_at_startup_and_cause_no_internal_error_later(
    own, opened, run, stranger, what
):
    inbox = await opened.inbox("ada")
    run(f"ALTER {what} OWNER TO {stranger}", "CREATE EXTENSION IF NOT EXISTS pg_trgm")
    outcomes = await asyncio.gather(
        opened.find("ada"),
        opened.messages("ada", Page()),
        opened.add(inbox),
        opened.end(inbox),
        opened.storage.erase(),
        return_exceptions=True,
    )
    assert {type(one) for one in outcomes if isinstance(one, Exception)} <= {StorageUnavailable}
    told = await said(own)
    assert (
        "belongs to the role other_role; make the role in storage.url its owner" in told
        or "insufficient rights" in told
    )
    run(f"ALTER {what} OWNER TO {own.user}")
    assert await engine.bring_up_to_date(postgresql_settings(own)) == []


async def test_tables_that_are_being_restored_are_unavailable_for_a_moment(opened, run):
    inbox = await opened.inbox("ada")
    run("ALTER TABLE inbox RENAME TO gone", "ALTER FUNCTION deliver RENAME TO gone")
    for refused in (opened.find("ada"), opened.messages("ada", Page()), opened.add(inbox)):
        with pytest.raises(StorageUnavailable):
            await refused
    run("ALTER TABLE gone RENAME TO inbox", "ALTER FUNCTION gone RENAME TO deliver")
    await opened.add(inbox)


async def test_a_schema_that_now_comes_first_in_the_search_path_is_reported(own, run):
    await engine.bring_up_to_date(postgresql_settings(own))
    run(f"CREATE SCHEMA {own.user} AUTHORIZATION {own.user}")
    assert (await said(own)).endswith("its tables are not in the first schema of search_path; was a schema added?")


class Between:
    """A proxy between a daemon and the server, which can stop responding."""

    def __init__(self, folder, server, *, silent_after_login=False) -> None:
        self.folder = folder
        self._server = f"{server}/.s.PGSQL.5432"
        self._silent_after_login = silent_after_login
        self._clients = set()
        self._serving = set()

    async def __aenter__(self):
        self._listener = await asyncio.start_unix_server(self._serve, f"{self.folder}/.s.PGSQL.5432")
        return self

    async def __aexit__(self, *_):
        self._listener.close()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._serving.add(asyncio.current_task())
        there, back = await asyncio.open_unix_connection(self._server)
        self._clients.add(writer)
        answers = asyncio.create_task(self._answer(there, writer))
        while part := await reader.read(100_000):  # until the daemon closes the connection
            back.write(part)
        for end in (back, writer):
            end.close()
        await answers
        self._clients.discard(writer)

    async def _answer(self, there, writer):
        is_silent = False
        while part := await there.read(100_000):
            if not is_silent:
                writer.write(part)
            is_silent = is_silent or (self._silent_after_login and part.endswith(READY))

    def say_that_the_server_ends(self):
        """Send the error of a server that is shutting down.

        The connection stays open, as it does briefly in reality.
        """
        for client in self._clients:
            client.write(b"E" + struct.pack("!i", 4 + len(ENDING)) + ENDING)


async def test_a_host_that_hangs_after_the_login_is_skipped(own, tmp_path):
    folder = own.hosts[0]
    async with Between(tmp_path, folder, silent_after_login=True):
        both = databaseurl.parse(f"postgresql://{own.user}@/{own.database}?host={tmp_path},{folder}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await engine.bring_up_to_date(postgresql_settings(both))


async def until_refused(engine_):
    while True:
        await engine_.find("ada")


async def test_a_server_that_is_about_to_close_its_connections_does_not_stop_notifications(
    opened, own, tmp_path, clock
):
    url = databaseurl.parse(f"postgresql://{own.user}@/{own.database}?host={tmp_path}")
    heard = []
    async with (
        Between(tmp_path, own.hosts[0]) as between,
        engine.open_storage(postgresql_settings(url), clock) as storage,
    ):
        second = Engine(storage, clock)
        inbox = await opened.inbox("ada")
        await second.find("ada")
        storage.on_committed(heard.extend)
        between.say_that_the_server_ends()
        with pytest.raises(StorageUnavailable, match="the server has closed the connection"):
            await until_refused(second)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not heard:
                await opened.add(inbox)
                await asyncio.sleep(0.05)
        assert (await second.find("ada")).id == inbox.id


async def test_a_connection_closed_between_preparing_and_running_counts_as_lost(opened, monkeypatch):
    inbox = await opened.inbox("ada")
    prepare = asyncpg.Connection._get_statement

    async def prepare_too_late(connection, *arguments, **options):
        statement = await prepare(connection, *arguments, **options)
        connection.terminate()  # simulates a timeout of the query at this moment
        return statement

    monkeypatch.setattr(asyncpg.Connection, "_get_statement", prepare_too_late)
    for refused in (opened.find("ada"), opened.add(inbox)):
        with pytest.raises(StorageUnavailable, match="the connection was closed"):
            await refused


@pytest.fixture
def limit(run, own):
    """Return a function that limits the number of connections to the database."""
    return lambda count: run(f"ALTER DATABASE {own.database} CONNECTION LIMIT {count}")


@pytest.mark.parametrize("count", [2, 3, 4])
async def test_without_a_connection_for_each_part_the_engine_is_not_ready(own, limit, count):
    await engine.bring_up_to_date(postgresql_settings(own))
    limit(count)
    async with engine.open_storage(postgresql_settings(own)) as storage:
        assert "too many connections" in storage.reason_not_ready()
        limit(-1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while storage.reason_not_ready():
                await asyncio.sleep(0.05)


async def test_readers_without_connections_are_reported_as_trouble(opened, run, own, limit):
    await asyncio.gather(*(opened.find(str(number)) for number in range(20)))
    assert opened.storage.reason_not_ready() == ""
    limit(0)
    run(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'tmpmaild' AND query LIKE '%place%'"
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        # The engine detects this without any request.
        while "too many connections" not in opened.storage.reason_not_ready():
            await asyncio.sleep(0.05)
    with pytest.raises(StorageUnavailable):
        await opened.find("ada")


async def test_reads_wait_for_each_other_if_the_server_has_no_room_for_more_connections(own, limit):
    await engine.bring_up_to_date(postgresql_settings(own))
    limit(5)
    async with engine.open_storage(postgresql_settings(own)) as storage:
        pages = await asyncio.gather(*(storage.list_webhooks() for _ in range(40)))
        assert [list(page) for page in pages] == [[]] * 40
        assert storage.reason_not_ready() == ""


async def test_a_rate_limit_from_a_time_when_the_clock_was_ahead_is_forgotten(opened, run):
    shared = opened.storage.sharing

    async def taken():
        return await shared.take_token(policy="default", client="ada", refill_seconds=6, burst=10)

    assert 5 < await taken() < 7
    run("UPDATE bucket SET full_at_us = full_at_us + 3600000000")
    assert [round(await taken() / 6) for _ in range(2)] == [1, 2]


async def test_a_slow_response_does_not_change_the_clock(own, monkeypatch):
    client = await connected(own)
    clock = DatabaseClock()
    await clock.measure(client)
    before_ms = clock()
    monkeypatch.setattr(server, "_CLOCK", "SELECT 0.0")
    monkeypatch.setattr(server, "_SLOW_SECONDS", 0.0)
    await clock.measure(client)
    await client.close()
    assert clock() >= before_ms


async def test_a_daemon_suspended_while_it_checked_the_schema_is_reported(own, monkeypatch, caplog):
    monkeypatch.setattr(engine, "_SILENT_SECONDS", 0)
    other = await connected(own)
    await other.execute("SELECT pg_advisory_lock(7238716, 1)")
    waiting = asyncio.create_task(engine.bring_up_to_date(postgresql_settings(own)))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while f"role {own.user} has been upgrading the schema" not in caplog.text:
                await asyncio.sleep(0.01)
    finally:
        await other.close()
    assert await waiting != []


async def test_a_lock_that_anybody_may_take_does_not_delay_a_start_on_the_newest_schema(own):
    await engine.bring_up_to_date(postgresql_settings(own))
    other = await connected(own)
    try:
        await other.execute("SELECT pg_advisory_lock(7238716, 1)")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await engine.bring_up_to_date(postgresql_settings(own)) == []
    finally:
        await other.close()
