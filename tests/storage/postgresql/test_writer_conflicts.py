"""Conflicts with other sessions on the server: a statement is retried or abandoned, but never applied twice."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest
from msgspec.structs import replace

from patience import PATIENCE_SECONDS
from tests.storage.conftest import Engine
from tmpmaild.errors import MailboxFull, StorageUnavailable
from tmpmaild.model import Page, Webhook
from tmpmaild.storage.postgresql import partitions, server, writer
from tmpmaild.storage.postgresql.partitions import SLOT_MS

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
async def engine(open_engine, store):
    """Return an engine whose sessions detect a deadlock immediately."""
    store.execute(f"ALTER DATABASE {store.url.database} SET deadlock_timeout = '10ms'")
    try:
        async with open_engine(max_messages_per_inbox=2) as opened:
            yield opened
    finally:
        store.execute(f"ALTER DATABASE {store.url.database} RESET deadlock_timeout")


class Stranger:
    """Another session on the server, in its own transaction; it leaves the detection of deadlocks to our session."""

    def __init__(self, connection) -> None:
        self._connection = connection
        self.execute = connection.execute

    async def begin(self):
        await self.execute("SET deadlock_timeout = '1h'")
        await self.execute("BEGIN")

    async def end(self):
        await self.execute("COMMIT")

    async def waiting(self, sessions):
        """Wait until the given number of sessions are waiting for a lock."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self._connection.fetchval(WAITING) != sessions:
                await asyncio.sleep(0.005)


@pytest.fixture
async def strangers(cluster, database):
    """Return three sessions; the third is an observer."""
    connections = [
        await asyncpg.connect(host=str(cluster.folder), user="postgres", database=database.database) for _ in range(3)
    ]
    strangers = [Stranger(connection) for connection in connections]
    for stranger in strangers[:2]:
        await stranger.begin()
    yield strangers
    for connection in connections:
        await connection.close()


class Case(NamedTuple):
    """An operation that a daemon performs with a single statement, and the rows that the statement locks, in order."""

    run: Callable[[], Awaitable[object]]
    rows: list[tuple[str, str]]
    """The table and condition of each row."""

    session: object
    stored: Callable[[], Awaitable[object]]
    expected: object


def of_inboxes(inboxes):
    return [("inbox", f"id = {inbox.id}") for inbox in inboxes]


async def counts(engine: Engine):
    return [(await engine.find(name)).message_count for name in ("ada", "bob", "eve")]


async def three_inboxes(engine):
    return [await engine.inbox(name) for name in ("ada", "bob", "eve")]


async def delivery(engine):
    inboxes, session = await three_inboxes(engine), engine.storage._writer._session
    return Case(lambda: engine.add(*inboxes), of_inboxes(inboxes), session, lambda: counts(engine), [1, 1, 1])


async def deletion(engine):
    inboxes, session = await three_inboxes(engine), engine.storage._writer._session
    first, _ = [[await engine.add(inbox) for inbox in inboxes] for _ in range(2)]

    async def delete():
        await asyncio.gather(*map(engine.delete, inboxes, first))

    return Case(delete, of_inboxes(inboxes), session, lambda: counts(engine), [1, 1, 1])


async def longer_life(engine):
    inbox = await engine.inbox("ada", creator="192.0.2.1")
    await engine.add(inbox)
    expires_at_ms = inbox.expires_at_ms + 3 * SLOT_MS

    async def moved():
        found = await engine.find("ada")
        return found.expires_at_ms, found.message_count, len(await engine.messages("ada", Page()))

    rows = [*of_inboxes([inbox]), ("creator", "true"), ("content", "true")]
    session = engine.storage._writer._session
    return Case(lambda: engine.move(inbox, expires_at_ms), rows, session, moved, (expires_at_ms, 1, 1))


async def tokens(engine):
    shared = engine.storage.sharing

    async def take():
        clients = ("ada", "bob", "eve")
        work = [shared.take_token(policy="slow", client=client, refill_seconds=3600.0, burst=10) for client in clients]
        return [round(seconds / 3600) for seconds in await asyncio.gather(*work)]

    await take()
    find = "SELECT array_agg(client ORDER BY client) FROM bucket"
    hashes = await shared._session.use(lambda connection: connection.fetchval(find))
    rows = [("bucket", f"client = '\\x{one.hex()}'") for one in hashes]
    return Case(take, rows, shared._session, take, [3, 3, 3])


async def calls(engine):
    inboxes, storage, now_ms = await three_inboxes(engine), engine.storage, engine.clock()
    for inbox in inboxes:
        webhook = Webhook("https://hooks.example/", frozenset({"message"}), frozenset(), "whsec_x")
        await storage.set_webhook(inbox.id, webhook, now_ms)

    async def store():
        stored = await storage.list_webhooks()
        states = [replace(one.state, failures=number) for number, one in enumerate(stored)]
        assert all(await asyncio.gather(*map(storage.store_webhook, stored, states)))

    async def stored():
        return [one.state.failures for one in await storage.list_webhooks()]

    rows = [("webhook", f"inbox_id = {inbox.id}") for inbox in inboxes]
    return Case(store, rows, storage._writer._session, stored, [0, 1, 2])


CASES = [delivery, deletion, longer_life, tokens, calls]


async def failures(session):
    """Return a list that receives each error that the server returns in a session."""
    found = []
    connection = await session.connection()
    connection.add_query_logger(lambda query: query.exception and found.append(type(query.exception)))
    return found


async def until(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("prepare", CASES)
async def test_the_loser_of_a_deadlock_retries(engine, strangers, prepare, monkeypatch):
    # Deadlocks are detected a hundred times sooner here, so our session may lose many before the other session runs.
    monkeypatch.setattr(server, "_PAUSES_SECONDS", [*server._PAUSES_SECONDS, *[0.1] * 300])
    monkeypatch.setattr(writer, "STATEMENT_SECONDS", PATIENCE_SECONDS)  # long enough for a machine that stalls
    case = await prepare(engine)
    answered = await failures(case.session)
    lock = [f"SELECT FROM {table} WHERE {where} FOR UPDATE" for table, where in case.rows]
    one, other, onlooker = strangers
    # Our session locks the first row and waits for the second; ``one`` locks the third row and waits for the first.
    await other.execute(lock[1])
    await one.execute(lock[2])
    running = asyncio.create_task(case.run())
    await onlooker.waiting(1)
    blocked = asyncio.create_task(one.execute(lock[0]))
    await onlooker.waiting(2)
    await other.end()  # now our session waits for the third row, which completes the deadlock
    await until(lambda: answered)
    await blocked
    await one.end()
    await running
    assert set(answered) == {asyncpg.DeadlockDetectedError}
    assert await case.stored() == case.expected


@pytest.mark.parametrize("prepare", CASES)
async def test_a_serialization_failure_is_retried(engine, strangers, prepare):
    case = await prepare(engine)
    answered = await failures(case.session)
    await (await case.session.connection()).execute("SET default_transaction_isolation = 'repeatable read'")
    one, _, onlooker = strangers
    table, where = case.rows[0]
    column = {"bucket": "full_at_us", "webhook": "failures"}.get(table, "private")
    await one.execute(f"UPDATE {table} SET {column} = {column} WHERE {where}")
    running = asyncio.create_task(case.run())
    await onlooker.waiting(1)
    await one.end()
    await running
    assert set(answered) == {asyncpg.SerializationError}
    assert await case.stored() == case.expected


async def test_the_stored_part_of_a_batch_is_not_stored_again_with_the_rest(engine, strangers):
    """There is no room for one message, so the batch is stored in two parts, and the second part is rolled back."""
    ada, bob, full = [await engine.inbox(name) for name in ("ada", "bob", "full")]
    for _ in range(2):
        await engine.add(full)
    onlooker = strangers[2]
    await onlooker.execute(Path(__file__).with_suffix(".sql").read_text())
    try:
        outcomes = await asyncio.gather(*map(engine.add, (ada, bob, full)), return_exceptions=True)
    finally:
        await onlooker.execute("DROP FUNCTION fail_once CASCADE; DROP SEQUENCE attempt")
    assert [type(outcome) for outcome in outcomes] == [str, str, MailboxFull]
    assert [(await engine.find(name)).message_count for name in ("ada", "bob", "full")] == [1, 1, 2]


async def test_a_slot_whose_table_is_locked_is_added_when_the_lock_is_released(engine, strangers):
    one, _, _ = strangers
    inbox = await engine.inbox("ada")
    answered = await failures(engine.storage._partitions._session)
    await one.execute("LOCK TABLE message IN SHARE UPDATE EXCLUSIVE MODE")  # VACUUM and ANALYZE take this lock
    moving = asyncio.create_task(engine.move(inbox, inbox.expires_at_ms + 30 * SLOT_MS))
    await until(lambda: answered)
    await engine.add(inbox)  # storing mail does not wait for the blocked statement
    await one.end()
    await moving
    assert set(answered) == {asyncpg.LockNotAvailableError}
    assert len(await engine.messages("ada", Page())) == 1


async def test_a_table_that_stays_locked_makes_the_storage_unavailable(engine, strangers, monkeypatch):
    monkeypatch.setattr(partitions, "_ATTEMPTS", 2)
    inbox = await engine.inbox("ada")
    await strangers[0].execute("LOCK TABLE message IN SHARE UPDATE EXCLUSIVE MODE")
    with pytest.raises(StorageUnavailable, match="the message tables remain locked"):
        await engine.move(inbox, inbox.expires_at_ms + 31 * SLOT_MS)


END = "SELECT {}(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
@pytest.mark.parametrize("prepare", [delivery, tokens])
async def test_a_statement_ended_by_an_administrator_changes_nothing_and_the_next_statement_works(
    engine, strangers, prepare, end
):
    case = await prepare(engine)
    one, _, onlooker = strangers
    table, where = case.rows[0]
    await one.execute(f"SELECT FROM {table} WHERE {where} FOR UPDATE")
    running = asyncio.create_task(case.run())
    await onlooker.waiting(1)
    await onlooker.execute(END.format(end))
    with pytest.raises(StorageUnavailable):
        await running
    await one.end()
    await succeeds(case.run)
    assert await case.stored() == case.expected


async def succeeds(run):
    """Call ``run`` until it succeeds; it may fail until the engine has noticed the lost connection."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await run()
            except StorageUnavailable:
                await asyncio.sleep(0.005)
