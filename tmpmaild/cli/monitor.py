"""Messages when the connection to the service is lost and when it is back; the client itself reconnects."""

from collections.abc import Callable

import anyio
import httpx2


class ConnectionMonitor:
    """Watches a client through its pauses and its answers, and notes each change.

    A break that the first attempt repairs (some proxies cut every long answer) is noted the first time only.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._is_refused = False
        self._pauses = 0
        self._is_break_noted = False
        self._was_break_noted = False

    async def pause(self, seconds: float) -> None:
        """Sleep as the client asks, which it does before it tries again."""
        if self._is_refused:
            self._note(f"too many requests for the service; trying again in {seconds:g} s")
            self._is_refused = False
        else:
            self._note_break()
        await anyio.sleep(seconds)

    async def answered(self, response: httpx2.Response) -> None:
        """Look at an answer: an open stream means that the connection is back."""
        self._is_refused = response.status_code == httpx2.codes.TOO_MANY_REQUESTS
        if response.is_success and response.headers.get("content-type", "").startswith("text/event-stream"):
            if self._is_break_noted:
                self._note("connected again")
            self._is_break_noted, self._pauses = False, 0

    def _note_break(self) -> None:
        self._pauses += 1
        if not self._is_break_noted and (self._pauses > 1 or not self._was_break_noted):
            self._is_break_noted = self._was_break_noted = True
            self._note("connection lost, reconnecting")
