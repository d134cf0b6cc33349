"""Databases of PostgreSQL and daemons on them: an emptied one for most tests, one of its own where a test changes it."""

import asyncpg
import pytest

from tests.storage.conftest import Engine, postgresql_settings
from tmpmaild.errors import DatabaseError
from tmpmaild.storage.postgresql import engine, notifications

NO_LIMITS = {"max_messages_per_inbox": 0, "max_bytes_per_inbox": 0}


@pytest.fixture
def engine_kind():
    return "postgresql"


@pytest.fixture
def new_database(cluster):
    """Return a function that creates a database, runs statements in it as the superuser, and returns its URL."""

    def made(*statements, encoding="UTF8"):
        name = cluster.database(encoding=encoding)
        cluster.execute(*statements, "SELECT 1", database=name)
        return cluster.parsed_url(name)

    return made


@pytest.fixture
def own(new_database):
    """Return the URL of a database of the test's own."""
    return new_database()


@pytest.fixture
def run(cluster, own):
    """Return a function that runs statements in the test's own database as the superuser."""
    return lambda *statements: cluster.execute(*statements, database=own.database)


@pytest.fixture
async def opened(own, clock):
    """Return an engine on the test's own database."""
    async with engine.open_storage(postgresql_settings(own, **NO_LIMITS), clock) as storage:
        yield Engine(storage, clock)


@pytest.fixture
async def two(cluster, store, clock):
    """Open the same storage twice; the second daemon has a clock of its own."""
    other = type(clock)(clock.now_ms)
    async with store.open(clock, **NO_LIMITS) as first, store.open(other, **NO_LIMITS) as second:
        yield Engine(first, clock), Engine(second, other)


@pytest.fixture
def quick_looks(monkeypatch):
    """Have daemons look for what nobody told all the time; to be asked for before they are opened."""
    monkeypatch.setattr(notifications, "POLL_SECONDS", 0.02)


async def connected(url):
    """Return a session of the daemons' role."""
    return await asyncpg.connect(host=url.hosts[0], user=url.user, database=url.database)


async def said(url, **changes):
    """Return what a start is refused with."""
    with pytest.raises(DatabaseError) as refusal:
        async with engine.open_storage(postgresql_settings(url, **changes)):
            pass
    return str(refusal.value)


async def reading(engine_, sql):
    """Return what a reader of the engine reads by a statement."""
    return await engine_.storage._readers.run(lambda client: client.fetchval(sql))
