"""What signals ask of the process: SIGTERM and SIGINT that it stops, SIGHUP that it reads its configuration again."""

import asyncio
import signal

import anyio
from anyio.abc import TaskStatus


async def watch(running: anyio.CancelScope, reload_wanted: asyncio.Event, *, task_status: TaskStatus[None]) -> None:
    """Cancel ``running``, or set ``reload_wanted``, until cancelled."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                reload_wanted.set()
            else:
                running.cancel()
