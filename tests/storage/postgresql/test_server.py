"""The PostgreSQL engine while its server is unreachable, silent, full, or no longer the primary."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest
from msgspec.structs import replace

from patience import PATIENCE_SECONDS
from tests.storage.conftest import Engine, postgresql_settings
from tmpmaild.errors import CommandError, DatabaseError, StorageFull, StorageUnavailable
from tmpmaild.host.logs import Repeats
from tmpmaild.scheduling.clients import on_behalf_of
from tmpmaild.storage.postgresql import engine as postgresql
from tmpmaild.storage.postgresql import reading, server, writer
from tmpmaild.storage.postgresql.server import Server, Session, is_of_one_row, reason, translate

from .conftest import connected


def elsewhere(url, folder):
    return replace(url, hosts=(str(folder),))


async def test_a_statement_without_a_response_is_abandoned_and_the_next_statement_works(engine, database, monkeypatch):
    inbox = await engine.inbox("ada")
    other = await connected(database)
    with monkeypatch.context() as impatient:
        for module in (server, writer):
            impatient.setattr(module, "STATEMENT_SECONDS", 0.2)
        async with other.transaction():
            await other.execute("LOCK TABLE inbox, bucket IN ACCESS EXCLUSIVE MODE")
            taking = engine.storage.sharing.take_token(policy="default", client="ada", refill_seconds=6.0, burst=10)
            outcomes = await asyncio.gather(engine.add(inbox), engine.find("ada"), taking, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StorageUnavailable] * 3
            assert engine.storage.reason_not_ready()
    await other.close()
    assert await engine.add(inbox)
    assert await engine.find("ada")
    assert engine.storage.reason_not_ready() == ""


async def test_a_daemon_waits_for_a_server_that_is_unavailable_at_startup(cluster, database, clock, tmp_path, caplog):
    there = tmp_path / "socket"
    url = elsewhere(database, there)
    async with asyncio.TaskGroup() as tasks:

        async def start():
            async with postgresql.open_storage(postgresql_settings(url), clock) as storage:
                return await Engine(storage, clock).find("nobody")

        opening = tasks.create_task(start())
        while "cannot be reached" not in caplog.text:
            await asyncio.sleep(0.01)
        there.symlink_to(cluster.folder)
        assert await opening is None
    assert caplog.text.count("cannot be reached") == 1


async def test_the_reason_for_a_missing_connection_is_logged(cluster, database, clock, tmp_path, caplog):
    there = tmp_path / "socket"
    there.symlink_to(cluster.folder)
    async with postgresql.open_storage(postgresql_settings(elsewhere(database, there)), clock) as storage:
        there.unlink()  # open connections are not affected, such as the connection that checks the database
        (await storage._readers._sessions[-1].connection()).terminate()
        with pytest.raises(StorageUnavailable, match="No such file or directory"):
            await Engine(storage, clock).find("ada")
        assert "No such file or directory" in storage.reason_not_ready()
    assert f"cannot connect to the database: {there}: No such file or directory" in caplog.messages


@pytest.fixture
def there(cluster, tmp_path, monkeypatch):
    """Return a link to the server's folder; removing it makes the server unreachable.

    Engines reconnect without delay.
    """
    monkeypatch.setattr(server, "_PAUSE_SECONDS", 0.05)
    (there := tmp_path / "socket").symlink_to(cluster.folder)
    return there


async def test_a_second_outage_within_a_minute_is_logged(cluster, there, database, clock, caplog):
    caplog.set_level("INFO")
    repeats = Repeats()

    def written():
        """Return the kinds of all log lines so far."""
        kinds = ("cannot connect to the database", "the database is back")
        return [kind for record in caplog.records for kind in kinds if kind in record.message]

    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        postgresql.open_storage(postgresql_settings(elsewhere(database, there)), clock) as storage,
    ):
        for outage in (1, 2):
            there.unlink()
            storage._readers._sessions[-1].server.terminate_all()
            while written().count("cannot connect to the database") < outage:
                with suppress(StorageUnavailable):
                    await storage.find_inbox("ada@mail.example.com", clock())
                await asyncio.sleep(0.01)
            there.symlink_to(cluster.folder)
            while written().count("the database is back") < outage:
                await asyncio.sleep(0.01)
    told = [record for record in caplog.records if repeats.passes(record, now=0.0)]
    assert [sum(what in record.message for record in told) for what in ("cannot connect", "is back")] == [2, 2]


async def test_a_wrong_url_is_an_immediate_error(cluster, clock):
    with pytest.raises(DatabaseError, match='database "nowhere" does not exist'):
        async with postgresql.open_storage(postgresql_settings(cluster.parsed_url("nowhere")), clock):
            pass


async def test_a_replaced_primary_is_not_used(database):
    server = Server(database)
    await (await server.connect()).close()
    server._timeline = "00000009"
    with pytest.raises(StorageUnavailable, match="is a former primary"):
        await server.connect()


def test_each_failure_has_an_error_and_a_short_reason_except_an_internal_error():
    assert isinstance(translate(asyncpg.DiskFullError("could not extend file")), StorageFull)
    assert reason(TimeoutError()) == "no response"
    assert reason(OSError(111, "Connect call failed ('127.0.0.1', 5432)")) == "Connection refused"
    assert reason(ValueError("secret")) == "a value that the database does not accept"
    mistake = KeyError("a mistake")
    assert translate(mistake) is mistake
    assert is_of_one_row(asyncpg.DataError("x"))
    assert not is_of_one_row(mistake)


async def test_a_different_host_is_searched_for_if_there_is_one_and_not_constantly(database):
    two = Server(replace(database, hosts=(*database.hosts, "/nowhere"), ports=(5432, 5433)))
    assert [two.try_next_host() for _ in range(3)] == [True, False, False]
    session = Session(Server(database))
    connection = await session.connection()
    session.try_next_host()
    assert not connection.is_closed()
    await session.close()


async def test_a_database_that_became_unsafe_counts_as_unavailable(opened, own, run):
    run(
        f"ALTER DATABASE {own.database} SET synchronous_commit = off",
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND datname = current_database()",
    )

    async def refused():
        work = [opened.storage.list_webhooks(), opened.storage.get_permission("secret")]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        return ["synchronous_commit is off" in str(one) for one in outcomes if type(one) is StorageUnavailable]

    async with asyncio.timeout(PATIENCE_SECONDS):
        while await refused() != [True, True]:
            await asyncio.sleep(0.02)


async def test_a_copy_is_made_by_the_program_of_the_server(opened):
    with pytest.raises(CommandError, match="pg_dump makes the copy"):
        opened.storage.backup()


@pytest.mark.parametrize(
    "attackers", [["198.51.100.1"], [f"198.51.100.{number}" for number in range(100)], ["2001:db8:1:7::/64"]]
)
async def test_reads_and_lookups_wait_for_few_others_however_many_are_waiting(attackers, opened, monkeypatch):
    readers, find_several, victim = opened.storage._readers, reading.find_several, "192.0.2.1"
    are_all_held, let_go = asyncio.Barrier(server._MAX_READERS + 1), asyncio.Event()
    begun = []

    async def hold(_connection):
        await are_all_held.wait()
        await let_go.wait()

    async def read(connection, client):
        begun.append(client)
        return await connection.fetchval("SELECT 1")

    async def look_up(connection, lookups):
        begun.append([lookup.address for lookup in lookups])
        return await find_several(connection, lookups)

    def ask(client):
        with on_behalf_of(client):
            return [asyncio.create_task(readers.run(read, client)), asyncio.create_task(opened.find(client))]

    monkeypatch.setattr(reading, "find_several", look_up)
    holding = [asyncio.create_task(readers.run(hold)) for _ in range(server._MAX_READERS)]
    await are_all_held.wait()
    asked = [task for index in range(300) for task in ask(attackers[index % len(attackers)])]
    asked += ask(victim)
    for _ in range(10):  # run the event loop until all reads are waiting
        await asyncio.sleep(0)
    let_go.set()
    await asyncio.gather(*holding, *asked)
    batches = [one for one in begun if isinstance(one, list)]
    assert begun.index(victim) <= 2
    assert begun.index(batches[0]) <= 2
    assert any(f"{victim}@mail.example.com" in batch for batch in batches[:3])
    of_others = [one for one in begun if one != victim and one not in batches]
    # The attackers' reads run in the order of arrival.
    assert of_others == [attackers[index % len(attackers)] for index in range(300)]
