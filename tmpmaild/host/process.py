"""The process: what signals ask of it, how late its event loop is, and memory that goes back to the system.

The latter is done by the C library; nothing happens where that is not glibc.
"""

import asyncio
import ctypes
import signal
from contextlib import suppress

import anyio
from anyio.abc import TaskStatus

from tmpmaild.measures import Histogram

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_BYTES = 2 * 1024 * 1024
_LOOK_SECONDS = 0.5


def return_large_blocks() -> None:
    """Fix the size from which malloc maps a block of its own, so that it goes back as soon as it is free.

    By default that size rises to the largest block that was ever freed. After some mails of 10 MiB their copies are cut
    out of heaps that never shrink.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def give_back() -> None:
    """Give free pages in the middle of heaps back: a large mail comes in pieces of 64 KiB, which live there."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def watch(running: anyio.CancelScope, reload_wanted: asyncio.Event, *, task_status: TaskStatus[None]) -> None:
    """Cancel ``running`` on SIGTERM and SIGINT, set ``reload_wanted`` on SIGHUP, until cancelled."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                reload_wanted.set()
            else:
                running.cancel()


class LoopLag:
    """Measures how late the event loop is: sleeps, and looks how much longer that took."""

    def __init__(self) -> None:
        self._lateness = Histogram("event_loop_lag_seconds", "How late the event loop woke up a task.")

    def measures(self) -> tuple[Histogram]:
        """Return the lateness of each wake-up."""
        return (self._lateness,)

    async def run(self) -> None:
        """Observe for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
            self._lateness.observe(max(loop.time() - due, 0.0))
