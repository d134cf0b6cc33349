"""How long a server may take to answer. After that its connection is closed, and whether it did the work is unknown."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

STATEMENT_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 3.0


@contextmanager
def deadline(
    connection: asyncpg.Connection, seconds: float | None = None, expired: Callable[[], None] | None = None
) -> Iterator[None]:
    """Close the connection if the statement within has no answer by then: it raises an error of a lost connection.

    ``expired`` is what to do in place of that. A statement is never cancelled: one that waits for a standby would then
    end as if it had succeeded.
    """
    after = STATEMENT_SECONDS if seconds is None else seconds
    timer = asyncio.get_running_loop().call_later(after, expired or connection.terminate)
    try:
        yield
    except asyncpg.InternalClientError:
        connection.terminate()  # the driver is in a state from which it does not come back
        raise
    finally:
        timer.cancel()
