"""``tmpmaild new`` and ``tmpmaild watch``: following an inbox until it ends, or until a signal does it."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial

import anyio
import httpx2
from anyio.abc import TaskStatus
from msgspec import Struct

from tmpmaild.client import AddressExpired, AddressNotFound, AsyncClient, AsyncInbox, TmpmaildError
from tmpmaild.commands import exits
from tmpmaild.commands.connection import Connection
from tmpmaild.commands.display import Display, Opening, fitting_display

_DELETING_SECONDS = 10  # the rate limit lets one request pass in that time
_TICK_SECONDS = 1


class Wish(Struct, frozen=True):
    """What address is asked for, and whether it is to outlive the command."""

    local_part: str | None = None
    domain: str | None = None
    private: bool = False
    keep: bool = False


def new(wish: Wish, server: str | None, *, as_json: bool) -> int:
    """Create an address and show what happens to it; return the exit code."""
    return _run(partial(_new, wish), server, fitting_display(as_json=as_json))


def watch(address: str, token: str | None, server: str | None, *, as_json: bool) -> int:
    """Show what happens to an address; return the exit code."""
    return _run(partial(_watch, address, token), server, fitting_display(as_json=as_json))


Work = Callable[[AsyncClient, Display], Awaitable[None]]


def _run(work: Work, server: str | None, display: Display) -> int:
    async def main() -> int:
        async with _connected(server, Connection(display.note)) as client:
            return await _until_signal(lambda: work(client, display), display)

    try:
        return exits.code_of(lambda: anyio.run(main))
    finally:
        display.end()


@asynccontextmanager
async def _connected(server: str | None, connection: Connection) -> AsyncIterator[AsyncClient]:
    hooks = {"response": [connection.answered]}
    async with httpx2.AsyncClient(event_hooks=hooks) as http:
        with exits.arguments():
            client = AsyncClient(server, http=http, sleep=connection.pause, wait_out_rate_limit=True)
        yield client


async def _new(wish: Wish, client: AsyncClient, display: Display) -> None:
    # A signal must wait for the answer, or an address would be left that nobody knows.
    with anyio.CancelScope(shield=True), exits.arguments():
        inbox = await client.create(wish.local_part, domain=wish.domain, private=wish.private)
    try:
        shows_token = wish.private or wish.keep
        display.begin(Opening(inbox.address, inbox.expires_at, inbox.token, shows_token, not wish.keep))
        await _follow(inbox, display)
    except BaseException:
        if not wish.keep:
            await _delete(inbox, display)
        raise


async def _watch(address: str, token: str | None, client: AsyncClient, display: Display) -> None:
    with exits.arguments():
        inbox = await client.inbox(address, token)
    display.begin(Opening(inbox.address, inbox.expires_at, token))
    await _follow(inbox, display)


async def _follow(inbox: AsyncInbox, display: Display) -> None:
    async with aclosing(inbox.follow()) as events:
        async for event in events:
            display.show(event)


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


async def _until_signal(work: Callable[[], Awaitable[None]], display: Display) -> int:
    """Do the work; return 0 at its end, or 128 and the number of the signal that ended it."""
    code = exits.DONE

    async def listen(*, task_status: TaskStatus[None]) -> None:
        nonlocal code
        with anyio.open_signal_receiver(*_signals()) as received:
            task_status.started()
            code = 128 + await anext(received)
        # From here on the signals are the system's again: a second one does not wait for the deletion.
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            await group.start(listen)
            group.start_soon(_tick, display)
            await work()
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return code


def _signals() -> list[signal.Signals]:
    """List the signals that end us; what nohup or a shell has us ignore stays ignored."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [one for one in ending if signal.getsignal(one) != signal.SIG_IGN]


async def _tick(display: Display) -> None:
    while True:
        display.tick()
        await anyio.sleep(_TICK_SECONDS)
