"""The reader thread, and the private parts of aiosqlite that it uses."""

import asyncio
import threading
from importlib.metadata import version
from queue import SimpleQueue

import aiosqlite
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.scheduling.clients import on_behalf_of
from tmpmaild.storage.sqlite.paths import wal_of
from tmpmaild.storage.sqlite.reading import Reader, _run_in_thread
from tmpmaild.storage.sqlite.space import Files


async def test_a_function_runs_with_the_connection_on_the_thread_of_aiosqlite():
    """``_tx`` and ``_conn`` are private names.

    If this test fails, look for their replacements in the new version of aiosqlite.
    """
    found = SimpleQueue()

    def look(raw):
        found.put((*raw.execute("SELECT 7").fetchone(), threading.current_thread() is threading.main_thread()))

    async with aiosqlite.connect(":memory:") as connection:
        _run_in_thread(connection, look)
    assert found.get(timeout=PATIENCE_SECONDS) == (7, False), f"aiosqlite {version('aiosqlite')}"


@pytest.fixture
async def files(tmp_path):
    path = tmp_path / "mail.db"
    for file in (path, wal_of(path)):
        file.touch()
    return Files(path)


@pytest.mark.parametrize(
    "attackers", [["198.51.100.1"], [f"198.51.100.{number}" for number in range(100)], ["2001:db8:1:7::/64"], [""]]
)
@pytest.mark.parametrize("read_seconds", [0.001, 0.04, 1.0])
async def test_a_read_waits_for_few_others_whatever_their_number_and_duration(attackers, read_seconds, files):
    now, order = 0.0, []

    def read(_connection, client, seconds):
        nonlocal now
        now += seconds
        order.append(client)
        return client

    async with aiosqlite.connect(":memory:", isolation_level=None) as connection:
        reader = Reader(connection, files, lambda: now)

        async def ask(client, seconds):
            with on_behalf_of(client):
                assert await reader.run(read, client, seconds) == client

        waiting = [asyncio.create_task(ask(attackers[index % len(attackers)], read_seconds)) for index in range(200)]
        await asyncio.sleep(0)
        victim = asyncio.create_task(ask("192.0.2.1", 0.001))
        await asyncio.gather(victim, *waiting)
    assert order.index("192.0.2.1") * read_seconds <= 0.01 + 2 * read_seconds
    of_others = [client for client in order if client != "192.0.2.1"]
    # The attackers' reads run in the order of arrival.
    assert of_others == [attackers[index % len(attackers)] for index in range(200)]
