"""The clock of the database, which all daemons go by: one whose own clock is wrong would sweep another's mail."""

import time
from typing import Final

import asyncpg

EVERY_SECONDS: Final = 10.0
_SQL: Final = "SELECT extract(epoch FROM clock_timestamp())"


class DatabaseClock:
    """Unix milliseconds as the server has them: measured now and then, carried on by the monotonic clock."""

    def __init__(self) -> None:
        self._ahead_seconds = time.time() - time.monotonic()

    def __call__(self) -> int:
        """Return the time."""
        return int((time.monotonic() + self._ahead_seconds) * 1000)

    async def measure(self, connection: asyncpg.Connection) -> None:
        """Ask the server for its time. Its answer is of the middle between question and receipt."""
        asked = time.monotonic()
        server_seconds = float(await connection.fetchval(_SQL))
        self._ahead_seconds = server_seconds - (asked + time.monotonic()) / 2
