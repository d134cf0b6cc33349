"""One statement a batch: every row once, whatever the number of rows, and nothing kept behind."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tmpmaild.model import Page
from tmpmaild.storage.sqlite.delivery import MAX_ROWS, forget_values


@pytest.mark.parametrize("count", [1, 2, 4, 5, 16, 17, 33, MAX_ROWS, MAX_ROWS + 1])
async def test_each_mail_of_a_batch_is_stored_once(open_engine, count):
    async with open_engine(max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        # Behind a create they are queued while the writer is busy, and so go together.
        await asyncio.gather(engine.inbox("other"), *(engine.add(inbox, subject=str(n)) for n in range(count)))
        messages = await engine.messages("ada", Page())
        assert sorted(int(message.subject) for message in messages) == list(range(count))


async def test_forgetting_the_values_of_a_statement_stores_nothing(engine, path):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = ("message", "content", "inbox", "creator")
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables]
        version = connection.execute("PRAGMA data_version").fetchone()
        forget_values(connection)
        assert connection.total_changes == 0
        assert [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables] == counts
        assert connection.execute("PRAGMA data_version").fetchone() == version
