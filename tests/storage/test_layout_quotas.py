"""Quotas are kept in memory from batch to batch: as long as no other operation can have changed them."""

import sqlite3
from contextlib import closing

import pytest

from tmpmaild.errors import MailboxFull
from tmpmaild.model import Page
from tmpmaild.storage.base import Limits
from tmpmaild.storage.sqlite import layout
from tmpmaild.storage.sqlite.engine import migrate
from tmpmaild.storage.sqlite.layout import InboxQuotas

from .conftest import refusing


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


async def test_a_batch_that_failed_is_remembered_as_if_it_had_not_been(open_engine, path):
    async with open_engine(max_messages_per_inbox=2) as engine:
        inbox = await engine.inbox("ada")
        await engine.add(inbox)
        with refusing(path, "INSERT ON message"), pytest.raises(sqlite3.IntegrityError):
            await engine.add(inbox)
        await engine.add(inbox)
        with pytest.raises(MailboxFull):
            await engine.add(inbox)
        assert len(await engine.messages("ada", Page())) == 2


def test_no_more_inboxes_are_remembered_than_is_good(quotas, connection, monkeypatch):
    monkeypatch.setattr(layout, "_MAX_INBOXES", 1)
    assert [load(quotas, connection, "5", "6") for _ in range(3)] == [1, 1, 1]
