"""PostgreSQL databases and daemons: an emptied database for most tests, and a new database for tests that alter it."""

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
    """Return the URL of a database that only this test uses."""
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
    """Open the same storage twice; the second daemon has its own clock."""
    other = type(clock)(clock.now_ms)
    async with store.open(clock, **NO_LIMITS) as first, store.open(other, **NO_LIMITS) as second:
        yield Engine(first, clock), Engine(second, other)


@pytest.fixture
def quick_looks(monkeypatch):
    """Make daemons check fifty times a second for changes that were not notified.

    Request this fixture before opening the daemons.
    """
    monkeypatch.setattr(notifications, "POLL_SECONDS", 0.02)


async def connected(url):
    """Return a database session with the daemons' role."""
    return await asyncpg.connect(host=url.hosts[0], user=url.user, database=url.database)


async def said(url, **changes):
    """Return the error message of a daemon that refuses to start."""
    with pytest.raises(DatabaseError) as refusal:
        async with engine.open_storage(postgresql_settings(url, **changes)):
            pass
    return str(refusal.value)


async def reading(engine_, sql):
    """Return the value of a statement that one of the engine's readers runs."""
    return await engine_.storage._readers.run(lambda client: client.fetchval(sql))
