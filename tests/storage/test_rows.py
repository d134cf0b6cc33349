"""The declared columns match the tables.

A batch is a single statement that inserts each row once, and no message stays in memory.
"""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tmpmaild.model import Page
from tmpmaild.storage.rows import CONTENT
from tmpmaild.storage.sqlite.layout import INSERTED, MAX_ROWS, MessageColumns, forget_values


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 16, 17, 33, MAX_ROWS, MAX_ROWS + 1])
async def test_each_message_of_a_batch_is_stored_once(open_engine, count):
    async with open_engine(max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        # The messages are queued while the writer is busy creating an inbox, so they share a batch.
        await asyncio.gather(engine.inbox("other"), *(engine.add(inbox, subject=str(n)) for n in range(count)))
        messages = await engine.messages("ada", Page())
        assert sorted(int(message.subject) for message in messages) == list(range(count))


async def test_forgetting_the_values_of_a_statement_writes_nothing(engine, path):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    before = path.with_name("mail.db-wal").read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        forget_values(connection)
        assert connection.total_changes == 0
        assert path.with_name("mail.db-wal").read_bytes() == before


OF_THE_ENGINE = {"received_at_ms", "stored_bytes", "recipients", "filler", "padding"}


def _columns(connection, table):
    """Return the columns of a table or a view with their types, in order."""
    return {name: kind for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")}


@pytest.fixture
def schema(engine, path):
    del engine  # the engine is only needed to create the tables
    with closing(sqlite3.connect(path)) as connection:
        yield connection


async def test_the_declared_columns_match_the_tables_and_the_view(schema):
    assert set(_columns(schema, "message")) == set(MessageColumns._fields)
    assert set(_columns(schema, "content")) == {"id", *OF_THE_ENGINE, *(column.name for column in CONTENT)}
    assert sorted(INSERTED) == sorted(_columns(schema, "delivery"))


async def test_numbers_are_stored_before_the_filler_and_text_after_it(schema):
    columns = _columns(schema, "content")
    places = list(columns)
    for column in CONTENT:
        is_text = not column.is_number
        assert (columns[column.name] in {"TEXT", "BLOB"}) == is_text, column.name
        assert (places.index(column.name) > places.index("filler")) == is_text, column.name
