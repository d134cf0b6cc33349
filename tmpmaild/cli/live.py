"""``tmpmaild new`` and ``tmpmaild watch``: showing the events of an inbox until it ends or a signal comes."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import httpx2
from anyio.abc import TaskStatus

from tmpmaild.cli import console, exits
from tmpmaild.cli.display import Display, Opening, fitting_display
from tmpmaild.client import AddressExpired, AddressNotFound, AsyncClient, AsyncInbox, Fault, TmpmaildError, Webhook

T = TypeVar("T")

_DELETING_SECONDS = 10  # the rate limit lets one request pass in that time
_LAST_ANSWER_SECONDS = 2
_DOMAINS_SECONDS = 2
_TICK_SECONDS = 1


def new(wanted: Mapping[str, Any], server: str | None, *, keep: bool, as_json: bool) -> int:
    """Create an address and show what happens to it; return the exit code.

    ``wanted`` holds arguments of ``AsyncClient.create``. With ``keep`` the address is not deleted on exit.
    """
    return run(partial(_new, wanted, keep=keep), server, as_json=as_json)


def fault(text: str) -> Fault:
    """Read a fault from the command line: a step, then a reply. The service checks both."""
    at, _, reply = text.partition(" ")
    return Fault(at, reply or None)


def webhook(url: str | None) -> Webhook | None:
    """Return the webhook for a URL on the command line."""
    return None if url is None else Webhook(url)


def watch(address: str, token: str | None, server: str | None, *, as_json: bool) -> int:
    """Show what happens to an address; return the exit code."""
    return run(partial(_watch, address, token), server, as_json=as_json)


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


class Shield:
    """Delays cancellation until a request is answered or a grace period has passed; pauses are cancelled at once."""

    def __init__(self) -> None:
        self._scope = anyio.CancelScope(shield=True)

    async def keep(self, request: Awaitable[T]) -> T:
        """Return what the request results in; to be called once."""
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
        """Sleep until cancelled; the grace period starts then."""
        try:
            await anyio.sleep_forever()
        finally:
            self._scope.deadline = anyio.current_time() + _LAST_ANSWER_SECONDS


Work = Callable[[AsyncClient, Display, Shield], Awaitable[int]]


def run(work: Work, server: str | None, *, as_json: bool) -> int:
    """Do work with a service until it is done or a signal comes; return the exit code."""
    display = fitting_display(as_json=as_json)
    monitor = ConnectionMonitor(display.note)

    async def main() -> int:
        shield = Shield()
        async with _connected(server, partial(shield.pause, monitor.pause), monitor) as client:
            return await _until_signal(lambda: work(client, display, shield), display, shield)

    try:
        return exits.code_of(lambda: anyio.run(main))
    finally:
        _end(display)


def _end(display: Display) -> None:
    try:
        display.end()
    except OSError:  # the terminal is gone
        console.forget_output()


@asynccontextmanager
async def _connected(
    server: str | None, pause: Callable[[float], Awaitable[None]], monitor: ConnectionMonitor
) -> AsyncIterator[AsyncClient]:
    hooks = {"response": [monitor.answered]}
    async with httpx2.AsyncClient(event_hooks=hooks) as http:
        with exits.arguments():
            client = AsyncClient(server, http=http, sleep=pause, wait_out_rate_limit=True)
        yield client


async def _new(wanted: Mapping[str, Any], client: AsyncClient, display: Display, shield: Shield, *, keep: bool) -> int:
    # A signal must wait for the answer, or an address would be left over whose token is not known.
    with exits.arguments():
        inbox = await shield.keep(client.create(**wanted))
    try:
        shows_token = wanted["private"] or keep
        opening = Opening(inbox.address, inbox.expires_at, inbox.token, inbox.webhook_secret, shows_token, not keep)
        display.begin(opening)
        return await _follow(inbox, display)
    except BaseException:
        if not keep:
            await _delete(inbox, display)
        raise


async def _watch(address: str, token: str | None, client: AsyncClient, display: Display, _: Shield) -> int:
    with exits.arguments():
        inbox = await find(client, address, token)
    display.begin(Opening(inbox.address, inbox.expires_at, token))
    return await _follow(inbox, display)


async def find(client: AsyncClient, address: str, token: str | None) -> AsyncInbox:
    """Find an address. Raises ``AddressNotFound`` with a better text than the client's."""
    try:
        return await client.inbox(address, token)
    except AddressNotFound as error:
        domains: list[str] = []
        with anyio.move_on_after(_DOMAINS_SECONDS), suppress(TmpmaildError):  # only for a better message
            async with AsyncClient(client.url) as second_client:
                domains = await second_client.domains()
        raise exits.address_not_found(error, client.url, address, token, domains) from error


async def _follow(inbox: AsyncInbox, display: Display) -> int:
    async with aclosing(inbox.follow()) as events:
        async for event in events:
            display.show(event)
    return exits.DONE


async def _delete(inbox: AsyncInbox, display: Display) -> None:
    reason = "no answer"
    with anyio.move_on_after(_DELETING_SECONDS, shield=True):
        try:
            await inbox.delete()
        except (AddressNotFound, AddressExpired):
            return
        except TmpmaildError as error:
            reason = str(error)
        else:
            return
    display.note(f"{inbox.address} is not deleted: {reason}")


async def _until_signal(work: Callable[[], Awaitable[int]], display: Display, shield: Shield) -> int:
    """Do the work; return its exit code, or 128 and the number of the signal that ended it, whatever fails then."""
    code = exits.DONE

    async def listen(*, task_status: TaskStatus[None]) -> None:
        nonlocal code
        with anyio.open_signal_receiver(*_signals()) as received:
            task_status.started()
            code = 128 + await anext(received)
        # From here on signals have their default effect: a second one does not wait for the deletion.
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
        console.forget_output()  # it may be what failed
    return code


def _signals() -> list[signal.Signals]:
    """List the signals that end the command, without those that nohup or a shell made it ignore."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [one for one in ending if signal.getsignal(one) != signal.SIG_IGN]


async def _tick(display: Display) -> None:
    while True:
        display.tick()
        await anyio.sleep(_TICK_SECONDS)
