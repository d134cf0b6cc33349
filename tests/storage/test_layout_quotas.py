"""Quotas are kept in memory from batch to batch: as long as no other operation can have changed them."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tmpmaild.errors import MailboxFull
from tmpmaild.model import Page
from tmpmaild.storage.base import Limits
from tmpmaild.storage.sqlite import layout
from tmpmaild.storage.sqlite.engine import migrate
from tmpmaild.storage.sqlite.layout import InboxQuotas

from .conftest import LIFETIME_MS


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        migrate(opened)
        add = "INSERT INTO inbox (id, name_hash, created_at_ms, expires_at_ms, private) VALUES (?, ?, 0, ?, 0)"
        opened.executemany(add, [(5, b"5", 100), (6, b"6", 200)])
        yield opened


@pytest.fixture
def quotas():
    return InboxQuotas(Limits(max_messages_per_inbox=2, max_bytes_per_inbox=100_000, max_bytes=100_000))


def load(quotas, connection, *inbox_ids, now_ms=50):
    statements = []
    connection.set_trace_callback(statements.append)
    quotas.load(connection, now_ms, inbox_ids)
    connection.set_trace_callback(None)
    return len(statements)


def test_an_inbox_is_read_once_until_it_is_forgotten(quotas, connection):
    assert load(quotas, connection, "5") == 1
    assert load(quotas, connection, "5") == 0
    assert load(quotas, connection, "5", "6") == 1
    quotas.forget()
    assert load(quotas, connection, "5", "6") == 1


def test_what_a_batch_took_counts_in_the_next(quotas, connection):
    for taken in (True, True, False):
        load(quotas, connection, "5")
        assert quotas.charge(["5"], 10) is taken


def test_what_was_forgotten_is_read_from_the_tables_again(quotas, connection):
    load(quotas, connection, "5")
    assert quotas.charge(["5"], 100_000)
    quotas.forget()
    load(quotas, connection, "5")
    assert quotas.charge(["5"], 100_000)


def test_changes_are_those_of_this_batch(quotas, connection):
    load(quotas, connection, "5", "6")
    quotas.charge(["5"], 100_000)
    assert [(change.inbox_id, change.full) for change in quotas.changes()] == [("5", True)]
    load(quotas, connection, "6")
    assert quotas.changes() == []


def test_a_remembered_inbox_is_over_at_its_time(quotas, connection):
    for now_ms, lives in ((99, True), (100, False)):
        load(quotas, connection, "5", now_ms=now_ms)
        assert quotas.is_live("5") is lives
    assert not quotas.is_live("7")


async def test_a_batch_that_failed_is_remembered_as_if_it_had_not_been(open_engine, path):
    async with open_engine(max_messages_per_inbox=2) as engine:
        inbox = await engine.inbox("ada")
        await engine.add(inbox)
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TRIGGER no BEFORE INSERT ON message BEGIN SELECT RAISE(ABORT, 'no'); END")
        with pytest.raises(sqlite3.IntegrityError):
            await engine.add(inbox)
        with closing(sqlite3.connect(path)) as other:
            other.execute("DROP TRIGGER no")
        await engine.add(inbox)
        with pytest.raises(MailboxFull):
            await engine.add(inbox)
        assert len(await engine.messages("ada", Page())) == 2


async def test_a_sweep_gives_a_creator_its_room_back_within_the_same_batch(open_engine):
    async with open_engine(max_share_per_creator=0.01, max_bytes=100_000_000) as engine:  # 1,000,000 octets
        short = await engine.inbox("short", lifetime_ms=1, creator="192.0.2.1")
        await engine.add(short, raw=b"x" * 950_000)
        long = await engine.inbox("long", creator="192.0.2.1")
        with pytest.raises(MailboxFull):
            await engine.add(long, raw=b"x" * 100_000)
        engine.clock.advance(ms=LIFETIME_MS - 1)
        # Behind a create both are queued while the writer is busy, and so go together.
        await asyncio.gather(
            engine.inbox("third"), engine.storage.sweep(engine.clock()), engine.add(long, raw=b"x" * 100_000)
        )
        assert len(await engine.messages("long", Page())) == 1


def test_no_more_inboxes_are_remembered_than_is_good(quotas, connection, monkeypatch):
    monkeypatch.setattr(layout, "_MAX_INBOXES", 1)
    assert [load(quotas, connection, "5", "6") for _ in range(3)] == [1, 1, 1]
