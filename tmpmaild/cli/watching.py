"""The commands ``new`` and ``watch``: show an inbox and its events."""

from contextlib import aclosing
from functools import partial
from math import ceil
from typing import Final

import anyio
from msgspec import Struct

from tmpmaild import client
from tmpmaild.cli import exits
from tmpmaild.cli.live import Live, find, run
from tmpmaild.client.reconnecting import ReconnectingStream
from tmpmaild.client.remote import RemoteInbox

_DELETING_SECONDS: Final = 10  # the rate limit allows at least one request in this time


class NewOptions(Struct, frozen=True):
    """The options of ``tmpmaild new`` for the address."""

    local_part: str | None
    domain: str | None
    private: bool
    expires_in_seconds: float | None
    faults: tuple[str, ...]
    webhook: str | None


def new(options: NewOptions, server: str | None, *, keep: bool, as_json: bool) -> int:
    """Create an address and show its events; return the exit code. With ``keep``, do not delete the address on exit."""
    return run(partial(_new, options, keep=keep), server, as_json=as_json)


def _fault(text: str) -> client.Fault:
    """Parse a fault: a step, a space and a reply. The service validates the step and the reply."""
    at, _, reply = text.partition(" ")
    return client.Fault(at, reply or None)


def watch(address: str, token: str | None, server: str | None, *, as_json: bool) -> int:
    """Show the events of an address; return the exit code."""
    return run(partial(_watch, address, token), server, as_json=as_json)


async def _new(options: NewOptions, live: Live, *, keep: bool) -> int:
    seconds, url = options.expires_in_seconds, options.webhook
    creating = live.service.create(
        options.local_part,
        domain=options.domain,
        private=options.private,
        expires_in_seconds=None if seconds is None else ceil(seconds),
        faults=[_fault(text) for text in options.faults],
        webhook=None if url is None else client.Webhook(url),
    )
    # A signal must wait for the response; otherwise an address whose token is unknown would be left behind.
    with exits.arguments():
        inbox = await live.shield.keep(live.driver.run(creating))
    try:
        live.display.begin(inbox, shows_token=options.private or keep, deletes_at_the_end=not keep)
        return await _follow(inbox, live)
    except BaseException:
        if not keep:
            await _delete(inbox, live)
        raise


async def _watch(address: str, token: str | None, live: Live) -> int:
    inbox = await find(live, address, token)
    live.display.begin(inbox)
    return await _follow(inbox, live)


async def _follow(inbox: RemoteInbox, live: Live) -> int:
    stream = ReconnectingStream(inbox, None)
    async with aclosing(live.driver.for_stream()) as driver:
        while (event := await driver.run(stream.next())) is not None:
            live.display.show(event)
    return exits.DONE


async def _delete(inbox: RemoteInbox, live: Live) -> None:
    reason = "no response"
    with anyio.move_on_after(_DELETING_SECONDS, shield=True):
        try:
            await live.driver.run(inbox.delete())
        except (client.AddressNotFound, client.AddressExpired):
            return
        except client.TmpmaildError as error:
            reason = str(error)
        else:
            return
    live.display.note(f"{inbox.address} was not deleted: {reason}")
