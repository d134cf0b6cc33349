"""Operator commands that use a storage of either engine without a daemon."""

import asyncio

import pytest
from stores import ENGINES

from tmpmaild.config.settings import Config, Storage
from tmpmaild.storage import engines
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import Engine


def read(where, message_id):
    """Return the operator's message, the total counts, and the migrations that were missing."""
    mail, stored = engines.operator_mail(where), engines.summary(where)
    (listed,) = mail.messages()
    found = (listed.id, mail.message(message_id).body, mail.source(message_id).source, mail.message("msg_x"))
    return found, (stored.inboxes, stored.messages), engines.upgrade(where)


@pytest.mark.parametrize("engine_kind", ENGINES)
async def test_commands_read_the_storage_without_a_daemon(store):
    place = {"path": str(store.path)} if store.engine == "sqlite" else {"url": store.cluster.url(store.url.database)}
    where = engines.settings_of(Config(domains=("mail.example.com",), storage=Storage(**place)))
    async with engines.open_storage(where) as storage:
        engine = Engine(storage, storage.clock)
        await engine.add(await engine.inbox("ada"))
        message_id = await engine.add(OPERATOR_INBOX_ID, body="whole", raw=b"source")
    found, counts, steps = await asyncio.to_thread(read, where, message_id)
    assert found == (message_id, "whole", b"source", None)
    assert (counts, steps) == ((1, 2), [])
    assert where.name == str(store.path if store.engine == "sqlite" else store.url)
