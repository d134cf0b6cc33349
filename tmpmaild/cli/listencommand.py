"""``tmpmaild listen``: what a webhook would be told, on the standard input of a command, one after the other.

Nothing of a mail is in a command line or an environment.
"""

import json
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import ByteSendStream, Process
from msgspec import Struct

from tmpmaild.cli import console, exits, live
from tmpmaild.cli.display import Display, json_line, timestamp
from tmpmaild.client import Arrived, AsyncClient, AsyncInbox, Deleted, Expired, Extended, NotTmpmaild
from tmpmaild.client.actions import Steps
from tmpmaild.client.eventstream import ServerSentEvent
from tmpmaild.client.reconnecting import ReconnectingStream, Told
from tmpmaild.client.remote import Filter, Held, RemoteInbox

_MOST_UNCHECKED: Final = 200
_GRACE_SECONDS: Final = 5
_NOT_STARTED: Final = 126  # as shells have it

Document = dict[str, Any]


class ListenOptions(Struct, frozen=True):
    """The options of ``tmpmaild listen``; without a command documents are printed."""

    command: str | None
    events: tuple[str, ...]
    has: tuple[Held, ...]
    after: str | None
    once: bool


def listen(address: str, token: str | None, server: str | None, options: ListenOptions) -> int:
    """Tell the command what happens to an address; return the exit code."""
    return live.run(partial(_listen, address, token, options), server, as_json=True)


async def _listen(
    address: str, token: str | None, options: ListenOptions, client: AsyncClient, display: Display, _: live.Shield
) -> int:
    with exits.arguments():
        inbox = await live.find(client, address, token)
    async with aclosing(_documents(inbox, options)) as documents:
        async for document in documents:
            display.tick()  # nobody may read the output any more
            code = await _tell(document, options.command)
            if options.once:
                return code
            if code != exits.DONE:
                display.note(f"the command failed with exit code {code}; going on")
    if options.once:
        display.note("the address ended before anything came")
    return exits.NO_ADDRESS if options.once else exits.DONE


async def _documents(inbox: AsyncInbox, options: ListenOptions) -> AsyncGenerator[Document, None]:
    """Yield the documents that are wanted, until the address ends."""
    reader = Reader(inbox.address, inbox.expires_at, options.after)
    remote = inbox._remote  # noqa: SLF001 - raw events are not public
    missed = partial(_missed_verdicts, reader, remote, options.has) if "verdict" in options.events else None
    stream = ReconnectingStream(remote, options.after, options.has, missed)
    async with aclosing(inbox._driver.for_stream()) as driver:  # noqa: SLF001
        while (told := await driver.run(stream.next_told())) is not None:
            for event, document in _read(reader, told, inbox):
                if event in options.events:
                    yield document


def _missed_verdicts(reader: "Reader", remote: RemoteInbox, has: tuple[Held, ...]) -> Steps[list[ServerSentEvent]]:
    """Ask for the verdicts that are not known here, and return their events in the order of the mail."""
    if not reader.has_unchecked:
        return []
    messages = yield from remote.messages(Filter(after=reader.checked_to, has=has), None)
    checked = [{"id": one.id, "dmarc": one.dmarc, "authenticated": one.authenticated} for one in messages if one.dmarc]
    return [ServerSentEvent("verdict", json.dumps(one), None) for one in reversed(checked)]


def _read(reader: "Reader", told: Told, inbox: AsyncInbox) -> list[tuple[str, Document]]:
    try:
        return list(reader.read(told))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotTmpmaild(f"{inbox._remote.service.url} sent an unexpected event {told[0].name!r}") from error  # noqa: SLF001


class Reader:
    """Makes of the events of a stream what webhooks are told, as ``Wire.webhook_body`` of the server has it."""

    def __init__(self, address: str, expires_at: datetime, after: str | None = None) -> None:
        self._address = address
        self._expires_at = expires_at
        self._newest_id = after
        # Messages of which it is not known yet who sent them, each with the id of the one before it.
        self._unchecked: dict[str, tuple[str | None, Document]] = {}

    @property
    def has_unchecked(self) -> bool:
        """Whether it is not known of all messages who sent them."""
        return bool(self._unchecked)

    @property
    def checked_to(self) -> str | None:
        """The message before the first of which that is not known; None for the beginning."""
        return next((before for before, _ in self._unchecked.values()), self._newest_id)

    def read(self, told: Told) -> Iterator[tuple[str, Document]]:
        """Yield documents, each with the name that webhooks have for its event."""
        sent, value = told
        match value:
            case Arrived():
                yield from self._arrived(json.loads(sent.data))
            case Extended(expires_at):
                self._expires_at = expires_at
            case Deleted(None) | Expired():
                ended_at = timestamp(min(self._expires_at, datetime.now(UTC)))
                yield "expired", _document("inbox.expired", ended_at, {"address": self._address})
            case Deleted(message_id):
                self._unchecked.pop(message_id or "", None)
            case None if sent.name == "verdict":
                checked = json.loads(sent.data)
                _, message = self._unchecked.pop(checked["id"], (None, None))
                if message is not None:
                    yield _verdict(message | checked)

    def _arrived(self, message: Document) -> Iterator[tuple[str, Document]]:
        yield "message", _document("message.received", message["received_at"], message)
        before, self._newest_id = self._newest_id, message["id"]
        if message.get("dmarc") is not None:
            yield _verdict(message)
            return
        self._unchecked[message["id"]] = (before, message)
        if len(self._unchecked) > _MOST_UNCHECKED:
            del self._unchecked[next(iter(self._unchecked))]


def _verdict(message: Document) -> tuple[str, Document]:
    return "verdict", _document("verdict.reached", timestamp(datetime.now(UTC)), message)


def _document(kind: str, time: str, data: Document) -> Document:
    return {"type": kind, "timestamp": time, "data": data}


async def _tell(document: Document, command: str | None) -> int:
    """Print a document, or run a command with it; return the exit code, as a shell has it."""
    line = json_line(document)
    if command is None:
        console.say(line)
        return exits.DONE
    try:
        process = await anyio.open_process(command, stdout=None, stderr=None, start_new_session=True)
    except OSError as error:  # too many processes
        console.complain(f"cannot start the command: {error.strerror or error}")
        return _NOT_STARTED
    try:
        async with anyio.create_task_group() as tasks:
            assert process.stdin is not None
            tasks.start_soon(_write, process.stdin, f"{line}\n".encode())
            code = await process.wait()
            tasks.cancel_scope.cancel()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await _end(process)
        raise
    return code if code >= 0 else 128 - code


async def _write(stream: ByteSendStream, octets: bytes) -> None:
    """Write to a command, which may read no more of it than it needs."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.send(octets)
    await stream.aclose()


async def _end(process: Process) -> None:
    """End a command and all that it has started, which are a session of their own."""
    try:
        with suppress(ProcessLookupError), anyio.move_on_after(_GRACE_SECONDS):
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    finally:  # a second signal ends the wait
        with suppress(ProcessLookupError):
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
