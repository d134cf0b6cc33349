"""The single writer: many operations in one commit, each with its own result."""

import asyncio
import contextlib
import logging
import sqlite3
import threading

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import StorageUnavailable
from tmpmaild.model import InboxChange, Page
from tmpmaild.storage.sqlite.engine import close, prepare
from tmpmaild.storage.sqlite.writer import MAX_BATCH_OPERATIONS, Operation, Writer

pytestmark = pytest.mark.both_loops  # the writer's thread passes results to the event loop


class Insert(Operation):
    """Insert a number; the table accepts each number once."""

    def __init__(self, number):
        self.number = number

    @classmethod
    def run(cls, batch, operations):
        for operation in operations:
            batch.connection.execute("INSERT INTO number VALUES (?)", (operation.number,))
            batch.changes.append(InboxChange(str(operation.number), full=False))
        return [operation.number for operation in operations]


class Wait(Operation):
    """Block the writer's thread until ``go_on`` is set, so that a batch is queued in the meantime."""

    transactional = False

    def __init__(self):
        self.begun = threading.Event()
        self.go_on = threading.Event()

    @classmethod
    def run(cls, _, operations):
        operations[0].begun.set()
        assert operations[0].go_on.wait(PATIENCE_SECONDS)
        return [None]


class Forgetful(Operation):
    """An operation with a bug: it does not return a result."""

    @classmethod
    def run(cls, *_):
        return []


@pytest.fixture
async def connection(path):
    connection, _ = prepare(path, 0)
    connection.execute("CREATE TABLE number (number INTEGER PRIMARY KEY) STRICT")
    yield connection
    close(connection, clean=True)


@pytest.fixture
async def writer(connection, clock):
    writer = Writer(connection, clock=clock)
    yield writer
    await writer.close()


def stored(connection):
    return [number for (number,) in connection.execute("SELECT number FROM number ORDER BY number")]


async def submit_together(writer, operations):
    """Queue all operations after one that blocks the thread, so that they share a batch."""
    wait = Wait()
    futures = [writer.submit(wait), *map(writer.submit, operations)]
    wait.go_on.set()
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    return outcomes[1:]


async def test_many_operations_share_few_commits(writer, connection):
    statements = []
    connection.set_trace_callback(statements.append)
    assert await submit_together(writer, map(Insert, range(200))) == list(range(200))
    assert statements.count("COMMIT") == -(-200 // MAX_BATCH_OPERATIONS)


async def test_fewer_large_operations_share_a_commit(writer, connection):
    statements = []
    connection.set_trace_callback(statements.append)
    operations = [Insert(number) for number in range(8)]
    for operation in operations:
        operation.size_bytes = 2 * 1024 * 1024
    await submit_together(writer, operations)
    assert statements.count("COMMIT") == 4


async def test_only_a_failing_operation_fails_and_it_reports_no_change(writer, connection):
    told = []
    writer.on_committed(told.extend)
    outcomes = await submit_together(writer, map(Insert, (1, 2, 2, 3)))
    assert [type(outcome) for outcome in outcomes] == [int, int, sqlite3.IntegrityError, int]
    assert stored(connection) == [1, 2, 3]
    assert [change.inbox_id for change in told] == ["1", "2", "3"]


async def test_an_operation_without_a_result_wakes_its_caller(writer, connection):
    outcomes = await submit_together(writer, [Insert(1), Forgetful(), Insert(2)])
    assert [type(outcome) for outcome in outcomes] == [int, AssertionError, int]
    assert stored(connection) == [1, 2]


@pytest.mark.parametrize("error", [OSError("no disk"), KeyError("a mistake")])
async def test_callers_are_woken_when_measuring_raises(connection, clock, caplog, error):
    def fail(_):
        raise error

    writer = Writer(connection, clock=clock, after_batch=fail)
    assert await asyncio.wait_for(writer.submit(Insert(1)), 10) == 1
    await writer.close()
    assert "measuring the database after a batch failed" in caplog.text


async def test_callers_are_woken_when_the_clock_raises(connection):
    def fail():
        raise OSError("no clock")

    writer = Writer(connection, clock=fail)
    outcomes = await asyncio.wait_for(submit_together(writer, map(Insert, range(3))), PATIENCE_SECONDS)
    await writer.close()
    assert {type(outcome) for outcome in outcomes} == {OSError}


async def test_a_writer_stops_if_its_loop_is_closed(connection, clock):
    def elsewhere():
        loop = asyncio.new_event_loop()
        wait = Wait()

        async def start():
            writer = Writer(connection, clock=clock)
            return writer, writer.submit(wait)

        writer, future = loop.run_until_complete(start())
        wait.begun.wait(PATIENCE_SECONDS)
        future.cancel()
        loop.close()
        wait.go_on.set()
        writer._thread.join(PATIENCE_SECONDS)
        return writer._thread.is_alive()

    assert not await asyncio.to_thread(elsewhere)


async def test_a_locked_database_refuses_a_whole_batch_after_one_wait(writer, connection, path, caplog):
    connection.execute("PRAGMA busy_timeout = 50")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        outcomes = await submit_together(writer, map(Insert, range(60)))
    assert {type(outcome) for outcome in outcomes} == {StorageUnavailable}
    assert len({id(outcome) for outcome in outcomes}) == 60
    refusals = [record for record in caplog.records if "unexpected error from the database" in record.message]
    assert [(len(refusals), refusals[0].levelno)] == [(1, logging.ERROR)]  # the batch tried to lock only once
    assert await writer.submit(Insert(1)) == 1


async def test_our_readers_do_not_keep_transactions_open(open_engine):
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        await engine.add(inbox, body="x" * 10_000)
        reads = [asyncio.ensure_future(engine.messages("ada", Page())) for _ in range(20)]
        await asyncio.sleep(0)
        for read in reads[::2]:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
        reader = engine.storage._reader._connection
        await reader.execute_fetchall("SELECT 1")  # this read is queued after the cancelled reads
        assert not reader.in_transaction
        with contextlib.closing(sqlite3.connect(engine.storage._space._files.path)) as other:
            busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
