"""Helpers for all storage tests: an engine with a settable clock, and builders of addresses and messages."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager

import pytest
from msgspec.structs import replace
from stores import ENGINES, SqliteStore

from tmpmaild.errors import MailboxFull, StorageFull
from tmpmaild.model import NO_SESSION, Envelope, NewInbox, NewMail, ParsedMail
from tmpmaild.storage.engines import PostgresqlSettings, SqliteSettings
from tmpmaild.storage.sqlite.storage import SqliteStorage

from .plans import Recorder, filled_database, objections

LIFETIME_MS = 60_000
NO_INBOX_IDS = ["", "0", "01", "-1", " 1", "999", "x", "1\n", "²", "9" * 18, "9" * 5000, "\ud800"]


class Engine:
    """A storage under test, with shorthand methods; ``storage`` is the engine itself."""

    def __init__(self, storage, clock) -> None:
        self.storage = storage
        self.clock = clock

    async def inbox(self, name, *, lifetime_ms=LIFETIME_MS, creator=None):
        now_ms = self.clock()
        return await self.storage.create_inbox(
            NewInbox(
                f"{name}@mail.example.com",
                now_ms,
                now_ms + lifetime_ms,
                private=False,
                token_hash=b"t" * 32,
                creator=creator,
            )
        )

    async def find(self, name):
        return await self.storage.find_inbox(f"{name}@mail.example.com", self.clock())

    async def add(self, *inboxes, **mail):
        return await self.storage.add_message(new_mail(*inboxes, **mail))

    async def messages(self, name, page):
        return (await self.storage.list_messages(f"{name}@mail.example.com", page, self.clock())).messages

    async def subjects(self, name, page):
        return [message.subject for message in await self.messages(name, page)]

    async def delete(self, inbox, message_id):
        return await self.storage.delete_messages(inbox.id, [message_id])

    async def end(self, inbox):
        await self.storage.move_expiry(inbox.id, expires_at_ms=self.clock(), now_ms=self.clock())

    async def move(self, inbox, expires_at_ms):
        await self.storage.move_expiry(inbox.id, expires_at_ms=expires_at_ms, now_ms=self.clock())

    def told(self):
        """Return a list to which every change that the storage reports is appended."""
        changes = []
        self.storage.on_committed(changes.extend)
        return changes

    async def lease(self, stored, until_ms):
        return await self.storage.store_webhook(stored, replace(stored.state, next_at_ms=until_ms))

    async def reading_statements(self):
        """Return a list to which every read statement is appended."""
        statements = []
        if isinstance(self.storage, SqliteStorage):
            await self.storage._reader.run(lambda connection: connection.set_trace_callback(statements.append))
        else:
            for session in self.storage._readers._idle:
                (await session.connection()).add_query_logger(lambda record: statements.append(record.query))
        return statements

    async def sweep(self):
        while await self.storage.sweep(self.clock()):
            pass
        while not await self.storage.erase():
            pass


def new_mail(
    *inboxes,
    body="Hello\n",
    raw=None,
    subject="A subject",
    html=None,
    recipients=None,
    sender="ada@example.com",
    name="Ada",
    warnings=(),
    attachments=(),
    session=NO_SESSION,
    headers=None,
    remote_ip="192.0.2.1",
    client=None,
):
    parsed = ParsedMail(sender, name, subject, body, html, attachments, headers or (("Subject", subject),), warnings)
    ids = tuple(inbox if isinstance(inbox, str) else inbox.id for inbox in inboxes)
    recipients = recipients or tuple(f"to-{inbox_id}@mail.example.com" for inbox_id in ids)
    envelope = Envelope("bounce@example.com", recipients, "mx.example.com", remote_ip, tls=False, session=session)
    raw = f"Subject: {subject}\r\n\r\n{body}".encode() if raw is None else raw
    return NewMail(envelope, ids, raw, parsed, client)


async def fill_up(engine, inbox):
    """Add small messages to an inbox until it is full; return how many were accepted."""
    for count in range(1000):
        try:
            await engine.add(inbox, raw=b"", body="")
        except MailboxFull:
            return count
    raise AssertionError("the inbox never became full")


async def until_full(make):
    """Call ``make`` with successive numbers until the storage is full; return the created items."""
    made = []
    while True:
        numbers = range(len(made), len(made) + 50)
        outcomes = await asyncio.gather(*map(make, numbers), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        made += [outcome for outcome in outcomes if outcome not in refused]
        if refused:
            assert {type(outcome) for outcome in refused} == {StorageFull}
            return made


LIMITS = {
    "max_bytes": 256 * 1024 * 1024,
    "reserve_bytes": 1024,
    "max_messages_per_inbox": 100,
    "max_bytes_per_inbox": 30 * 1024 * 1024,
    "max_share_per_creator": 0.5,
}


def settings(path, **changes):
    return SqliteSettings(path=path, **(LIMITS | changes))


def postgresql_settings(url, **changes):
    return PostgresqlSettings(url=url, **(LIMITS | changes))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mail.db"


def run(path, *statements):
    """Run statements on a separate connection, like another program; return the rows of the last statement."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for sql in statements:
            rows = connection.execute(sql).fetchall()
    return rows


@contextmanager
def stranger_that_reads(path):
    """Keep a read transaction open, as an operator's shell might."""
    with closing(sqlite3.connect(path, isolation_level=None)) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        yield


@contextmanager
def refusing(path, change):
    """Make the database reject changes to a table."""
    run(path, f"CREATE TRIGGER no BEFORE {change} BEGIN SELECT RAISE(ABORT, 'no'); END")
    yield
    run(path, "DROP TRIGGER no")


def pytest_generate_tests(metafunc):
    """Run the contract tests on every engine."""
    is_contract = metafunc.definition.path.name.startswith("test_contract")
    if is_contract and "engine_kind" in metafunc.fixturenames:
        metafunc.parametrize("engine_kind", ENGINES)


@pytest.fixture
def store(store, path):
    """Return the location of a storage; for SQLite, the file ``path``."""
    return SqliteStore(path) if store.engine == SqliteStore.engine else store


@pytest.fixture
def open_engine(store, clock):
    """Return a function that opens an engine; its arguments change the limits."""

    @asynccontextmanager
    async def opened(**changes):
        async with store.open(clock, **(LIMITS | changes)) as storage:
            yield Engine(storage, clock)

    return opened


@pytest.fixture
async def engine(open_engine):
    async with open_engine() as opened:
        yield opened


@pytest.fixture(scope="session")
def planner():
    """Return a function that returns the plan lines of a statement that are not allowed.

    The result is cached, because most tests run the same statements.
    """
    known = {}
    with closing(filled_database()) as connection:

        def objections_to(sql):
            if sql not in known:
                known[sql] = objections(connection, sql)
            return known[sql]

        yield objections_to


@pytest.fixture(autouse=True)
def every_plan_is_known(request, monkeypatch, planner):
    """Check the query plans of all statements that the engine runs in a contract test."""
    if not request.path.name.startswith("test_contract"):
        yield
        return
    recorder = Recorder()
    monkeypatch.setattr(sqlite3, "connect", recorder.connect)
    yield
    assert [f"{module}: {line}" for sql, module in recorder.statements.items() for line in planner(sql)] == []
