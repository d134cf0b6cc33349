"""How long a server may take to answer. After that its connection is closed, and whether it did the work is unknown."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

STATEMENT_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 3.0


@contextmanager
def deadline(connection: asyncpg.Connection, seconds: float = STATEMENT_SECONDS) -> Iterator[None]:
    """Close the connection if the statement within has no answer by then: it raises an error of a lost connection.

    A statement is never cancelled: one that waits for a standby would then end as if it had succeeded.
    """
    timer = asyncio.get_running_loop().call_later(seconds, connection.terminate)
    try:
        yield
    finally:
        timer.cancel()
