"""Commands that follow an inbox until it expires or a signal arrives, and that survive lost connections."""

import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

import anyio
import httpx2
from anyio.abc import TaskStatus

from tmpmaild import client
from tmpmaild.cli import console, exits
from tmpmaild.cli.display import Display, fitting_display
from tmpmaild.client import aio, transport
from tmpmaild.client.remote import RemoteInbox, RemoteService
from tmpmaild.client.transport import service_url

T = TypeVar("T")
LAST_RESPONSE_SECONDS: Final = 2
_DOMAINS_SECONDS: Final = 2
_TICK_SECONDS: Final = 1


def service_at(server: str | None, *, wait_out_rate_limit: bool = False) -> RemoteService:
    """Return the service at a URL. Raises ValueError for an invalid URL."""
    url = service_url(server, os.environ)
    return RemoteService(url, clock=time.monotonic, wait_out_rate_limit=wait_out_rate_limit)


class ConnectionMonitor:
    """Reports when the connection is lost and restored, judging by the client's pauses and the received responses.

    Interruptions after which the first attempt to reconnect succeeds are reported only once, because some proxies cut
    off every long response.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._is_refused = False
        self._pauses = 0
        self._is_break_noted = False
        self._was_break_noted = False

    async def pause(self, seconds: float) -> None:
        """Sleep before the client retries."""
        if self._is_refused:
            self._note(f"the service received too many requests; trying again in {seconds:g} s")
            self._is_refused = False
        else:
            self._note_break()
        await anyio.sleep(seconds)

    async def note_response(self, response: httpx2.Response) -> None:
        """Inspect a response: an open stream means that the connection is restored."""
        self._is_refused = response.status_code == httpx2.codes.TOO_MANY_REQUESTS
        if response.is_success and response.headers.get("content-type", "").startswith("text/event-stream"):
            if self._is_break_noted:
                self._note("reconnected")
            self._is_break_noted, self._pauses = False, 0

    def _note_break(self) -> None:
        self._pauses += 1
        if not self._is_break_noted and (self._pauses > 1 or not self._was_break_noted):
            self._is_break_noted = self._was_break_noted = True
            self._note("connection lost, reconnecting")


class Shield:
    """Delays cancellation until a request is complete or a grace period is over. Pauses are cancelled immediately."""

    def __init__(self) -> None:
        self._scope = anyio.CancelScope(shield=True)

    async def keep(self, request: Awaitable[T]) -> T:
        """Return the result of a request. This may be called only once."""
        with self._scope:
            return await request
        await anyio.lowlevel.checkpoint_if_cancelled()
        raise AssertionError("the scope ends early only after a cancellation")

    async def pause(self, sleep: Callable[[float], Awaitable[None]], seconds: float) -> None:
        """Sleep unshielded."""
        self._scope.shield = False
        await sleep(seconds)
        self._scope.shield = True

    async def wait_for_cancellation(self) -> None:
        """Sleep until cancelled, then start the grace period."""
        try:
            await anyio.sleep_forever()
        finally:
            self._scope.deadline = anyio.current_time() + LAST_RESPONSE_SECONDS


class Live(NamedTuple):
    """State for a command that runs until the address expires or a signal arrives."""

    service: RemoteService
    driver: aio.Driver
    display: Display
    shield: Shield


def run(work: Callable[[Live], Awaitable[int]], server: str | None, *, as_json: bool) -> int:
    """Run ``work`` with a service until it is done or a signal arrives; return the exit code."""
    display = fitting_display(as_json=as_json)

    async def main() -> int:
        async with _connected(server, display) as live:
            return await _until_signal(lambda: work(live), live.display, live.shield)

    try:
        return exits.code_of(lambda: anyio.run(main))
    finally:
        _end(display)


def _end(display: Display) -> None:
    try:
        display.end()
    except OSError:  # the terminal has been closed
        console.forget_output()


@asynccontextmanager
async def _connected(server: str | None, display: Display) -> AsyncIterator[Live]:
    shield, monitor = Shield(), ConnectionMonitor(display.note)
    with exits.arguments():
        service = service_at(server, wait_out_rate_limit=True)
    hooks = {"response": [monitor.note_response]}
    async with transport.opened(httpx2.AsyncClient, service.url, event_hooks=hooks) as http:
        yield Live(service, aio.Driver(http, partial(shield.pause, monitor.pause)), display, shield)


async def find(live: Live, address: str, token: str | None) -> RemoteInbox:
    """Find an existing address. Raises ``AddressNotFound`` with a more helpful text than the client's."""
    try:
        with exits.arguments():
            return await live.driver.run(live.service.find(address, token))
    except client.AddressNotFound as error:
        domains: list[str] = []
        # Domains only improve the error message, so a failure to load them is not reported.
        with anyio.move_on_after(_DOMAINS_SECONDS), suppress(client.TmpmaildError):
            async with transport.opened(httpx2.AsyncClient, live.service.url) as http:
                domains = await aio.Driver(http).run(live.service.domains())
        raise exits.address_not_found(error, live.service.url, address, token, domains) from error


async def _until_signal(work: Callable[[], Awaitable[int]], display: Display, shield: Shield) -> int:
    """Do the work and return its exit code, or 128 plus the number of a signal that stops it, even if it then fails."""
    code = exits.DONE

    async def listen(*, task_status: TaskStatus[None]) -> None:
        nonlocal code
        with anyio.open_signal_receiver(*_signals()) as received:
            task_status.started()
            code = 128 + await anext(received)
        # From here on, signals have their default effect: a second signal does not wait for the deletion.
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            await group.start(listen)
            group.start_soon(_tick, display)
            group.start_soon(shield.wait_for_cancellation)
            done = await work()
            group.cancel_scope.cancel()
            return done
    except BaseExceptionGroup as errors:
        if code == exits.DONE:
            raise errors.exceptions[0] from None
        console.forget_output()  # standard output may be the cause of the failure
    return code


def _signals() -> list[signal.Signals]:
    """Return the signals that stop the command, except signals that nohup or a shell has set to be ignored."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [one for one in ending if signal.getsignal(one) != signal.SIG_IGN]


async def _tick(display: Display) -> None:
    while True:
        display.tick()
        await anyio.sleep(_TICK_SECONDS)
