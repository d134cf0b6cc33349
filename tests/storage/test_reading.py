"""The thread that reads, and what of aiosqlite is used for it that is private."""

import threading
from importlib.metadata import version

import aiosqlite

from tmpmaild.storage.sqlite.reading import _run_in_thread


async def test_a_function_runs_with_the_connection_on_the_thread_of_aiosqlite():
    """``_execute`` and ``_conn`` are private names; when this fails, see what the new version has in their place."""
    async with aiosqlite.connect(":memory:") as connection:

        def look(raw, argument):
            return [*raw.execute("SELECT ?", (argument,)).fetchone(), threading.current_thread()]

        value, thread = await _run_in_thread(connection, look, 7)
    assert (value, thread is not threading.main_thread()) == (7, True), f"aiosqlite {version('aiosqlite')}"
