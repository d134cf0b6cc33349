"""How late the event loop is: a task that sleeps and looks how much longer that took."""

import asyncio

from tmpmaild.measures import Histogram

_EVERY_SECONDS = 0.5


class LoopLag:
    """Measures until cancelled."""

    def __init__(self) -> None:
        self._lateness = Histogram("event_loop_lag_seconds", "How late the event loop woke up a task.")

    def measures(self) -> tuple[Histogram]:
        """Return the lateness of each wake-up."""
        return (self._lateness,)

    async def run(self) -> None:
        """Observe for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _EVERY_SECONDS
            await asyncio.sleep(_EVERY_SECONDS)
            self._lateness.observe(max(loop.time() - due, 0.0))
