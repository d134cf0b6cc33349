"""Looks host names up by the machine's resolver, in threads that end with the process."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host; raises OSError. Called in a thread."""

_MOST_THREADS: Final = 64
_Found = Sequence[str] | Exception


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, in the order in which they are to be tried (RFC 6724)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Lookups:
    """Calls ``resolve``. A look-up cannot be ended, so all who want the same name meanwhile wait for one thread."""

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._underway: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises OSError."""
        found = await asyncio.shield(self._underway.get((host, port)) or self._begin(host, port))
        if isinstance(found, Exception):
            raise OSError(str(found)) from found
        return found

    def _begin(self, host: str, port: int) -> asyncio.Future[_Found]:
        if len(self._underway) >= _MOST_THREADS:
            raise OSError("too many look-ups wait for an answer")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Found] = loop.create_future()
        # Not a pool of the event loop: that waits for its threads when the daemon stops.
        try:
            Thread(target=self._look, args=(host, port, loop, future), name="lookup", daemon=True).start()
        except RuntimeError as error:  # the machine has no more threads for us
            raise OSError(str(error)) from error
        self._underway[host, port] = future
        future.add_done_callback(lambda _: self._underway.pop((host, port)))
        return future

    def _look(self, host: str, port: int, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[_Found]") -> None:
        found: _Found
        try:
            found = self._resolve(host, port)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            found = error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(future.set_result, found)
