"""The clock of the database, which all daemons go by: one whose own clock is wrong would sweep another's mail."""

import time
from functools import partial
from typing import Final

import asyncpg

from tmpmaild.measures import Gauge, Measure

EVERY_SECONDS: Final = 10.0
_SLOW_SECONDS: Final = 1.0
_SQL: Final = "SELECT extract(epoch FROM clock_timestamp())"

# The monotonic clock stands still while a machine is suspended.
_elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class DatabaseClock:
    """Unix milliseconds as the server has them: measured now and then, carried on by a clock that never steps."""

    def __init__(self) -> None:
        self._ahead_seconds = time.time() - _elapsed()
        self._was_measured = False

    def __call__(self) -> int:
        """Return the time."""
        return int((_elapsed() + self._ahead_seconds) * 1000)

    async def measure(self, connection: asyncpg.Connection) -> None:
        """Ask the server for its time. Its answer is of the middle between question and receipt.

        So a slow answer may be wrong by half of the time that it took: it only counts until a better one is known.
        """
        asked = _elapsed()
        server_seconds = float(await connection.fetchval(_SQL))
        received = _elapsed()
        if received - asked < _SLOW_SECONDS or not self._was_measured:
            self._ahead_seconds = server_seconds - (asked + received) / 2
            self._was_measured = True

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        help_text = "How far the database server's clock is ahead of this machine's."
        return (Gauge("storage_clock_offset_seconds", help_text, self._offset_seconds),)

    def _offset_seconds(self) -> float:
        return _elapsed() + self._ahead_seconds - time.time()
