"""State kept between batches: quotas, the need to erase the file, and the amount by which it may exceed its cap."""

import asyncio
import sqlite3

import pytest

from tmpmaild.errors import MailboxFull
from tmpmaild.storage.sqlite import layout

from .conftest import refusing


def pages(engine):
    return engine.storage._writer._connection.execute("PRAGMA max_page_count").fetchone()[0]


async def test_a_refused_delete_leaves_nothing_to_erase(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    message_id = await engine.add(other)
    await engine.storage.erase()
    assert await engine.delete(inbox, message_id) == 0
    assert not engine.storage._writer.state.unerased
    await engine.delete(other, message_id)
    assert engine.storage._writer.state.unerased


async def test_a_delete_that_fails_undoes_all_of_it_and_keeps_the_cap(engine, path):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox) for _ in range(2)]
    before = pages(engine)
    with refusing(path, "DELETE ON content"), pytest.raises(sqlite3.IntegrityError):
        await engine.delete(inbox, stored[1])
    assert ((await engine.find("ada")).message_count, pages(engine)) == (2, before)
    await engine.delete(inbox, stored[1])
    assert ((await engine.find("ada")).message_count, pages(engine)) == (1, before)


async def test_deletes_are_committed_a_few_at_a_time(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox) for _ in range(20)]
    statements = []
    engine.storage._writer._connection.set_trace_callback(statements.append)
    await asyncio.gather(engine.inbox("other"), *(engine.delete(inbox, message_id) for message_id in stored))
    between = "\n".join(statements).split("COMMIT")
    assert max(part.count("DELETE FROM content") for part in between) == 2


async def test_the_state_after_a_failed_batch_is_the_state_before_it(open_engine, path):
    async with open_engine(max_messages_per_inbox=2) as engine:
        inbox = await engine.inbox("ada")
        await engine.add(inbox)
        with refusing(path, "INSERT ON message"), pytest.raises(sqlite3.IntegrityError):
            await engine.add(inbox)
        await engine.add(inbox)
        with pytest.raises(MailboxFull):
            await engine.add(inbox)
        assert (await engine.find("ada")).message_count == 2


@pytest.mark.parametrize(("remembered", "looks"), [(10_000, 2), (1, 3)])
async def test_quotas_are_read_once_unless_too_many_are_cached(engine, monkeypatch, remembered, looks):
    monkeypatch.setattr(layout, "_MAX_INBOXES", remembered)
    first, second = await engine.inbox("first"), await engine.inbox("second")
    statements = []
    engine.storage._writer._connection.set_trace_callback(statements.append)
    for inbox in (first, first, second, first):
        await engine.add(inbox)
    assert sum(sql.startswith(layout._INBOXES.partition("WHERE")[0]) for sql in statements) == looks
