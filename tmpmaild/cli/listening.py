"""The command ``listen``: runs a command for each event of an inbox, with the document that a webhook would receive."""

import json
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

import anyio
from anyio.abc import ByteSendStream, Process
from msgspec import Struct

from tmpmaild import client
from tmpmaild.cli import console, exits
from tmpmaild.cli.display import json_line, timestamp
from tmpmaild.cli.live import Live, find, run
from tmpmaild.client import aio
from tmpmaild.client.reconnecting import Decoded, ReconnectingStream, ServerSentEvent
from tmpmaild.client.remote import Feature, Filter, RemoteInbox
from tmpmaild.client.transport import Steps

Document = dict[str, object]
GRACE_SECONDS: Final = 5
_MAX_UNCHECKED: Final = 200
_NOT_STARTED: Final = 126  # the exit code that shells use


class ListenOptions(Struct, frozen=True):
    """The options of ``tmpmaild listen``; without a command, the documents are printed."""

    command: str | None
    events: tuple[str, ...]
    has: tuple[Feature, ...]
    after: str | None
    once: bool


def listen(address: str, token: str | None, server: str | None, options: ListenOptions) -> int:
    """Run the command for each event of an address; return the exit code."""
    return run(partial(_listen, address, token, options), server, as_json=True)


async def _listen(address: str, token: str | None, options: ListenOptions, live: Live) -> int:
    inbox = await find(live, address, token)
    async with aclosing(_documents(inbox, options, live.driver)) as documents:
        async for document in documents:
            live.display.tick()  # fails if the reader of the output has exited
            code = await _hand_out(document, options.command)
            if options.once:
                return code
            if code != exits.DONE:
                live.display.note(f"the command failed with exit code {code}; continuing")
    if options.once:
        live.display.note("the address expired or was deleted before any event arrived")
    return exits.NO_ADDRESS if options.once else exits.DONE


async def _documents(inbox: RemoteInbox, options: ListenOptions, driver: aio.Driver) -> AsyncGenerator[Document, None]:
    """Yield the requested documents until the address expires."""
    documents = WebhookDocuments(inbox.address, inbox.expires_at, options.after)
    missed = partial(_missed_verdicts, documents, inbox, options.has) if "verdict" in options.events else None
    stream = ReconnectingStream(inbox, options.after, options.has, missed)
    async with aclosing(driver.for_stream()) as streaming:
        while (event := await streaming.run(stream.next_decoded())) is not None:
            for name, document in _documents_of(event, documents, inbox.service.url):
                if name in options.events:
                    yield document


def _missed_verdicts(
    documents: "WebhookDocuments", inbox: RemoteInbox, has: tuple[Feature, ...]
) -> Steps[list[ServerSentEvent]]:
    """Request the verdicts that have not arrived yet, and return their events in message order."""
    if not documents.has_unchecked:
        return []
    messages = yield from inbox.messages(Filter(after=documents.checked_to, has=has), None)
    checked = [{"id": one.id, "dmarc": one.dmarc, "authenticated": one.authenticated} for one in messages if one.dmarc]
    return [ServerSentEvent("verdict", json.dumps(one), None) for one in reversed(checked)]


def _documents_of(event: Decoded, documents: "WebhookDocuments", url: str) -> list[tuple[str, Document]]:
    try:
        return list(documents.of(event))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise client.NotTmpmaild(f"{url} sent an unexpected event {event[0].name!r}") from error


class WebhookDocuments:
    """Converts stream events to webhook documents (see the server's ``Serializer.webhook_body``)."""

    def __init__(self, address: str, expires_at: datetime, after: str | None = None) -> None:
        self._address = address
        self._expires_at = expires_at
        self._newest_id = after
        # Messages that have no verdict yet, each with the id of the preceding message.
        self._unchecked: dict[str, tuple[str | None, Document]] = {}

    @property
    def has_unchecked(self) -> bool:
        """Whether any message has no verdict yet."""
        return bool(self._unchecked)

    @property
    def checked_to(self) -> str | None:
        """The id of the last message before the first message without a verdict; None if there is no such message."""
        return next((before for before, _ in self._unchecked.values()), self._newest_id)

    def of(self, event: Decoded) -> Iterator[tuple[str, Document]]:
        """Yield the documents for an event, each with its webhook event name."""
        sent, value = event
        match value:
            case client.Arrived():
                yield from self._arrived(json.loads(sent.data))
            case client.Extended(expires_at):
                self._expires_at = expires_at
            case client.Deleted(None) | client.Expired():
                ended_at = timestamp(min(self._expires_at, datetime.now(UTC)))
                yield "expired", _document("inbox.expired", ended_at, {"address": self._address})
            case client.Deleted(message_id):
                self._unchecked.pop(message_id or "", None)
            case None if sent.name == "verdict":
                checked = json.loads(sent.data)
                _, message = self._unchecked.pop(checked["id"], (None, None))
                if message is not None:
                    yield _verdict(message | checked)

    def _arrived(self, message: Document) -> Iterator[tuple[str, Document]]:
        yield "message", _document("message.received", str(message["received_at"]), message)
        message_id = str(message["id"])
        before, self._newest_id = self._newest_id, message_id
        if message.get("dmarc") is not None:
            yield _verdict(message)
            return
        self._unchecked[message_id] = (before, message)
        if len(self._unchecked) > _MAX_UNCHECKED:
            del self._unchecked[next(iter(self._unchecked))]


def _verdict(message: Document) -> tuple[str, Document]:
    return "verdict", _document("verdict.reached", timestamp(datetime.now(UTC)), message)


def _document(kind: str, time: str, data: Document) -> Document:
    return {"type": kind, "timestamp": time, "data": data}


async def _hand_out(document: Document, command: str | None) -> int:
    """Print a document, or run a command with it; return the exit code as a shell does."""
    line = json_line(document)
    if command is None:
        console.say(line)
        return exits.DONE
    try:
        process = await anyio.open_process(command, stdout=None, stderr=None, start_new_session=True)
    except OSError as error:  # for example, because too many processes are running
        console.print_to_stderr(f"cannot start the command: {error.strerror or error}")
        return _NOT_STARTED
    try:
        async with anyio.create_task_group() as tasks:
            assert process.stdin is not None
            tasks.start_soon(_write, process.stdin, f"{line}\n".encode())
            code = await process.wait()
            tasks.cancel_scope.cancel()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await stop_command(process)
        raise
    return code if code >= 0 else 128 - code


async def _write(stream: ByteSendStream, data: bytes) -> None:
    """Write to a command's standard input, which the command may close early."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.send(data)
    await stream.aclose()


async def stop_command(process: Process) -> None:
    """Stop a command and all processes in its session."""
    try:
        with suppress(ProcessLookupError), anyio.move_on_after(GRACE_SECONDS):
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    finally:  # a second signal interrupts the wait
        with suppress(ProcessLookupError):
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
