"""Tells systemd's watchdog that the event loop turns (sd_watchdog_enabled(3)); without a watchdog nothing is done."""

import asyncio
import os
from collections.abc import Mapping

from tmpmaild.host.notify import notify


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
