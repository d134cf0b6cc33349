"""``tmpmaild new`` and ``tmpmaild watch``: showing the events of an inbox until it ends or a signal comes."""

import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import httpx2
from anyio.abc import ByteSendStream, Process, TaskStatus
from msgspec import Struct

from tmpmaild.cli import console, display, exits
from tmpmaild.cli.console import shown
from tmpmaild.cli.display import Display, Opening, fitting_display, json_line, timestamp
from tmpmaild.client import (
    AddressExpired,
    AddressNotFound,
    Arrived,
    AsyncClient,
    AsyncInbox,
    Client,
    Deleted,
    Expired,
    Extended,
    Fault,
    Inbox,
    NotTmpmaild,
    TmpmaildError,
    Webhook,
)
from tmpmaild.client.reconnecting import ReconnectingStream, ServerSentEvent, Told
from tmpmaild.client.remote import Filter, Held, RemoteInbox
from tmpmaild.client.transport import Steps

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
    return run(partial(_listen, address, token, options), server, as_json=True)


async def _listen(
    address: str, token: str | None, options: ListenOptions, client: AsyncClient, display: Display, _: Shield
) -> int:
    with exits.arguments():
        inbox = await find(client, address, token)
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
    """Makes of the events of a stream what webhooks are told, as ``Serializer.webhook_body`` of the server has it."""

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
            await _end_listening(process)
        raise
    return code if code >= 0 else 128 - code


async def _write(stream: ByteSendStream, octets: bytes) -> None:
    """Write to a command, which may read no more of it than it needs."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.send(octets)
    await stream.aclose()


async def _end_listening(process: Process) -> None:
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


def wait(
    address: str,
    token: str | None,
    server: str | None,
    wanted: Mapping[str, Any],
    *,
    output: str,
    timeout_seconds: float,
) -> int:
    """Wait for a mail and print its "text", "code" or "link", or all of it ("json"); return the exit code.

    ``wanted`` holds arguments of ``Inbox.wait_for``.
    """

    def work() -> int:
        with exits.arguments(), Client(server) as client:
            # Without a look for the inbox first, which would cost a token of the rate limit.
            inbox = Inbox(client._remote.named(address, token), client._driver)  # noqa: SLF001 - see above
            try:
                console.say(_value(inbox, wanted, output, timeout_seconds))
            except AddressNotFound as error:
                raise exits.address_not_found(error, client.url, address, token, _domains(client)) from error
        return exits.DONE

    return exits.code_of(work)


def _domains(client: Client) -> list[str]:
    try:
        return client.domains()
    except TmpmaildError:  # only for a better message
        return []


def _value(inbox: Inbox, wanted: Mapping[str, Any], output: str, timeout_seconds: float) -> str:
    """Wait, and return the text to print, without control characters."""
    match output:
        case "code":
            return shown(inbox.wait_for_code(**wanted, timeout=timeout_seconds))
        case "link":
            return shown(inbox.wait_for_link(**wanted, timeout=timeout_seconds))
    mail = inbox.wait_for(**wanted, timeout=timeout_seconds)
    if mail.truncated:
        mail.details()
    if output == "json":
        return display.json_line(display.json_mail(mail))
    return shown(mail.text, keep="\n\t").rstrip("\n")
