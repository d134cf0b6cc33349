"""The thread that reads, and what of aiosqlite is used for it that is private."""

import threading
from importlib.metadata import version
from queue import SimpleQueue

import aiosqlite

from patience import PATIENCE_SECONDS
from tmpmaild.storage.sqlite.reading import _run_in_thread


async def test_a_function_runs_with_the_connection_on_the_thread_of_aiosqlite():
    """``_tx`` and ``_conn`` are private names; when this fails, see what the new version has in their place."""
    found = SimpleQueue()

    def look(raw):
        found.put((*raw.execute("SELECT 7").fetchone(), threading.current_thread() is threading.main_thread()))

    async with aiosqlite.connect(":memory:") as connection:
        _run_in_thread(connection, look)
    assert found.get(timeout=PATIENCE_SECONDS) == (7, False), f"aiosqlite {version('aiosqlite')}"
