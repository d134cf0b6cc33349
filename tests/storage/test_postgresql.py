"""What the engine on PostgreSQL refuses at its start, and what is its own: slots, clocks, and several daemons."""

import asyncio
import time

import asyncpg
import pytest

from daemonsatonce import follow_four_daemons
from tmpmaild import databaseurl
from tmpmaild.errors import DatabaseError
from tmpmaild.model import Page
from tmpmaild.storage.postgresql import connection, engine
from tmpmaild.storage.postgresql.slots import SLOT_MS

from .conftest import LIFETIME_MS, Engine, postgresql_settings

DAY_MS = 86_400_000


async def said(url, **changes):
    with pytest.raises(DatabaseError) as refusal:
        async with engine.open_storage(postgresql_settings(url, **changes)):
            pass
    return str(refusal.value)


async def run(url, *statements, user=None):
    client = await asyncpg.connect(host=url.hosts[0], user=user or url.user, database=url.database)
    try:
        for statement in statements:
            value = await client.fetchval(statement)
        return value
    finally:
        await client.close()


@pytest.fixture
def new_database(cluster):
    def made(*statements, encoding="UTF8"):
        name = cluster.database(encoding=encoding)
        cluster.execute(*statements, "SELECT 1", database=name)
        return cluster.parsed_url(name)

    return made


def test_a_database_of_something_else_is_left_alone(new_database):
    url = new_database("CREATE TABLE customers (id int)")
    assert asyncio.run(said(url)) == (
        f"{url}: the database holds something else (such as customers); create one for tmpmaild alone"
    )


def test_another_encoding_is_refused(new_database):
    assert "its encoding is SQL_ASCII; create a database with ENCODING 'UTF8'" in asyncio.run(
        said(new_database(encoding="SQL_ASCII"))
    )


def test_a_role_without_rights_is_told_what_it_needs(new_database, cluster):
    url = new_database("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    guest = cluster.parsed_url(url.database, user="guest")
    assert asyncio.run(said(guest)) == (
        f"{guest}: the role may not change the schema (permission denied for schema public);"
        " make it the owner of the database"
    )


def test_settings_that_lose_mail_are_refused(new_database, cluster):
    url = new_database()
    for value in ("off", "local", "remote_write"):
        cluster.execute(f"ALTER DATABASE {url.database} SET synchronous_commit = {value}")
        assert f"synchronous_commit is {value}; expected on or remote_apply" in asyncio.run(said(url))


def test_a_server_that_does_not_flush_is_refused(new_database, cluster):
    url = new_database()
    try:
        set_and_wait(cluster, "off")
        assert "fsync is off; mail would be lost in a power cut" in asyncio.run(said(url))
    finally:
        set_and_wait(cluster, "on")


def set_and_wait(cluster, value):
    cluster.execute(f"ALTER SYSTEM SET fsync = {value}")
    cluster.execute("SELECT pg_reload_conf()")
    while cluster.execute("SHOW fsync") != value:
        time.sleep(0.01)


def test_an_old_server_is_told_which_version_is_needed(new_database, monkeypatch):
    monkeypatch.setattr(connection, "OLDEST_VERSION", 99)
    assert asyncio.run(said(new_database())).endswith(" is too old; 99 or newer is needed")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("ALTER TABLE inbox ADD COLUMN note text", "column inbox.note is new"),
        ("ALTER TABLE block DROP COLUMN created_at_ms", "column block.created_at_ms is missing or different"),
        ("DROP INDEX inbox_by_expiry", "index CREATE INDEX inbox_by_expiry ON"),
        ("CREATE OR REPLACE VIEW mail AS SELECT 1 AS one", None),
    ],
)
def test_a_schema_that_was_changed_by_hand_is_refused_with_the_difference(new_database, change, named):
    url = new_database()

    async def change_it():
        await engine.upgrade(postgresql_settings(url))
        if named is None:
            await run(url, "DROP VIEW mail")
        else:
            await run(url, change)
        return await said(url)

    assert f"{url}: the schema has been changed by hand: {named or 'column mail.'}" in asyncio.run(change_it())


def test_a_schema_that_needs_a_newer_daemon_is_refused_and_one_that_does_not_is_used(new_database):
    url = new_database()

    async def meet(needs):
        await engine.upgrade(postgresql_settings(url))
        await run(
            url,
            f"INSERT INTO schema_step SELECT 2, 'later', {needs}, shape FROM schema_step WHERE number = 1"
            f" ON CONFLICT (number) DO UPDATE SET needs = {needs}",
        )
        return await engine.upgrade(postgresql_settings(url))

    assert asyncio.run(meet(1)) == []
    with pytest.raises(DatabaseError, match=r"a newer tmpmaild \(step 2\), this one knows step 1; update it"):
        asyncio.run(meet(2))


def test_nobody_there_is_said_with_the_host_and_without_the_password():
    url = databaseurl.parse("postgresql://me:hunter2@/mail?host=/nowhere")
    with pytest.raises(DatabaseError) as refusal:
        asyncio.run(engine.upgrade(postgresql_settings(url)))
    message = str(refusal.value)
    assert message == "postgresql://me@/nowhere/mail: cannot be reached: /nowhere: No such file or directory"


def test_a_wrong_password_file_is_named(new_database, tmp_path):
    message = asyncio.run(said(new_database(), password_file=tmp_path / "none"))
    assert message == f"{tmp_path / 'none'}: cannot be read: No such file or directory"


def test_ten_daemons_may_start_at_once(new_database):
    settings = postgresql_settings(new_database())

    async def start():
        return await asyncio.gather(*(engine.upgrade(settings) for _ in range(10)))

    assert sorted(map(tuple, asyncio.run(start()))) == [()] * 9 + [("0001_initial",)]


@pytest.fixture
async def two(new_database, clock):
    """Open the same storage twice; the second daemon has a clock of its own."""
    settings = postgresql_settings(new_database(), max_messages_per_inbox=0, max_bytes_per_inbox=0)
    other = type(clock)(clock.now_ms)
    async with engine.open_storage(settings, clock) as first, engine.open_storage(settings, other) as second:
        yield Engine(first, clock), Engine(second, other)


async def test_followers_of_four_daemons_whose_clocks_differ_miss_nothing_and_see_nothing_twice(new_database, clock):
    await follow_four_daemons(new_database(), clock.now_ms)


async def tables(engine_):
    sql = "SELECT relname FROM pg_class WHERE relname ~ '^(message|content)_[0-9]+$' AND relkind = 'r' ORDER BY 1"
    return [row["relname"] for row in await engine_.storage._readers.run(lambda client: client.fetch(sql))]


async def test_the_partitions_of_a_slot_are_dropped_when_it_has_passed(two):
    first, _ = two
    inbox = await first.inbox("ada")
    await first.add(inbox)
    slot = inbox.expires_at_ms // SLOT_MS
    first.clock.advance(ms=LIFETIME_MS)
    await first.sweep()
    assert f"message_{slot}" in await tables(first)
    first.clock.advance(ms=SLOT_MS + 30_000)
    await first.sweep()
    left = await tables(first)
    assert (f"message_{slot}" in left, f"content_{slot}" in left) == (False, False)
    for page in (Page(), Page(text="x")):
        assert await first.messages("ada", page) == ()
    assert {f"content_{first.clock() // SLOT_MS}", "content_0", "message_0"} < set(left)


async def test_mail_moves_to_the_slot_in_which_its_inbox_now_expires(two):
    first, second = two
    ada, bob = await first.inbox("ada"), await second.inbox("bob")
    await first.add(ada, bob, subject="shared")
    for later_ms in (2 * SLOT_MS, 3 * DAY_MS):  # the last is kept apart
        await first.move(ada, first.clock() + later_ms)
        assert await first.subjects("ada", Page()) == await second.subjects("bob", Page()) == ["shared"]
    for engine_ in two:
        engine_.clock.advance(ms=2 * SLOT_MS)
    await second.sweep()
    assert await first.subjects("ada", Page()) == ["shared"]
    assert (await first.find("ada")).message_count == 1
    for engine_ in two:
        engine_.clock.advance(ms=5 * DAY_MS)
    await second.sweep()
    used = await second.storage._readers.run(
        lambda client: client.fetchrow("SELECT sum(stored_bytes), sum(inboxes), sum(messages) FROM usage")
    )
    assert tuple(used) == (0, 0, 0)
    contents = await second.storage._readers.run(lambda client: client.fetchval("SELECT count(*) FROM content"))
    assert contents == 0


async def test_a_reader_of_a_partition_only_delays_its_end(two):
    first, _ = two
    inbox = await first.inbox("ada")
    await first.add(inbox)
    first.clock.advance(ms=LIFETIME_MS + 2 * SLOT_MS)
    reader = await first.storage._readers._idle[-1].connection()
    transaction = reader.transaction()
    await transaction.start()
    await reader.fetch("SELECT * FROM message")
    while await first.storage.sweep(first.clock()):
        pass
    assert not await first.storage.erase()
    later = await first.inbox("later")
    await asyncio.wait_for(first.add(later), 5)
    await transaction.rollback()
    assert await first.storage.erase()


async def test_the_clock_is_that_of_the_database(new_database, monkeypatch):
    url = new_database()
    wall_seconds = time.time()
    monkeypatch.setattr("time.time", lambda: wall_seconds - 3600)
    async with engine.open_storage(postgresql_settings(url)) as storage:
        database_seconds = float(await run(url, "SELECT extract(epoch FROM clock_timestamp())"))
        assert abs(storage.clock() / 1000 - database_seconds) < 5
