"""Tells systemd the state of the service (sd_notify(3)), and its watchdog that the event loop turns."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_ASK_EVERY_SECONDS = 10.0
_MORE_TIME = "EXTEND_TIMEOUT_USEC=60000000"

log = logging.getLogger(__name__)


def notify(state: str, *, wait: bool = True) -> None:
    """Send a state such as ``READY=1`` to the supervisor, if there is one; that it cannot be reached is logged.

    Without ``wait`` so is a supervisor that is too busy to take it.
    """
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as supervisor:
            supervisor.sendto(state.encode(), 0 if wait else socket.MSG_DONTWAIT, address)
    except OSError as error:
        log.warning("NOTIFY_SOCKET %s cannot be told %s: %s", path, state, error.strerror or error)


@contextmanager
def more_time_to_start() -> Iterator[None]:
    """Ask the supervisor, as long as the body runs, to wait another minute for ``READY=1``."""
    done = threading.Event()
    asking = threading.Thread(target=_ask_for_time, args=(done,), name="tmpmaild-starting", daemon=True)
    asking.start()
    try:
        yield
    finally:
        done.set()
        asking.join()


def _ask_for_time(done: threading.Event) -> None:
    notify(_MORE_TIME)
    while not done.wait(_ASK_EVERY_SECONDS):
        notify(_MORE_TIME)


async def keep_alive(environ: Mapping[str, str]) -> None:
    """Report twice as often as the watchdog asks for, until cancelled."""
    seconds = interval_seconds(environ)
    while seconds:
        notify("WATCHDOG=1", wait=False)
        await asyncio.sleep(seconds)


def interval_seconds(environ: Mapping[str, str]) -> float:
    """Return the time between two reports; 0 if none are asked of this process."""
    if environ.get("WATCHDOG_PID") not in (None, str(os.getpid())):
        return 0
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 2_000_000 if microseconds.isdecimal() else 0
