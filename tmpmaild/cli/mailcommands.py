"""The commands that use the client: ``new`` and ``watch`` show an inbox, ``listen`` runs a command, ``wait`` waits.

They do not use the public classes of the client but what those are made of: steps of its core, run by a driver.
"""

import json
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import Any, Final, NamedTuple, TypeVar

import anyio
import httpx2
from anyio.abc import ByteSendStream, Process, TaskStatus
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild import client
from tmpmaild.cli import console, display, exits
from tmpmaild.cli.console import shown
from tmpmaild.cli.display import Display, fitting_display, json_line, timestamp
from tmpmaild.client import aio, sync, transport, waiting
from tmpmaild.client.reconnecting import Decoded, ReconnectingStream, ServerSentEvent
from tmpmaild.client.remote import Feature, Filter, RemoteInbox, RemoteService
from tmpmaild.client.transport import Steps, service_url
from tmpmaild.client.views import wanted as filter_of
from tmpmaild.client.waiting import Waiting

T = TypeVar("T")
Document = dict[str, Any]

_DELETING_SECONDS: Final = 10  # the rate limit lets one request pass in that time
_LAST_ANSWER_SECONDS: Final = 2
_DOMAINS_SECONDS: Final = 2
_TICK_SECONDS: Final = 1
_GRACE_SECONDS: Final = 5
_MOST_UNCHECKED: Final = 200
_NOT_STARTED: Final = 126  # as shells have it


def new(options: Mapping[str, Any], server: str | None, *, keep: bool, as_json: bool) -> int:
    """Create an address and show what happens to it; return the exit code.

    ``options`` are named as the arguments of ``RemoteService.create``. With ``keep`` it is not deleted on exit.
    """
    seconds, url = options["expires_in_seconds"], options["webhook"]
    wanted = {
        **options,
        "expires_in_seconds": None if seconds is None else ceil(seconds),
        "faults": [_fault(text) for text in options["faults"]],
        "webhook": None if url is None else client.Webhook(url),
    }
    return run(partial(_new, wanted, keep=keep), server, as_json=as_json)


def _fault(text: str) -> client.Fault:
    """Read a step, then a reply. The service checks both."""
    at, _, reply = text.partition(" ")
    return client.Fault(at, reply or None)


def watch(address: str, token: str | None, server: str | None, *, as_json: bool) -> int:
    """Show what happens to an address; return the exit code."""
    return run(partial(_watch, address, token), server, as_json=as_json)


class ListenOptions(Struct, frozen=True):
    """The options of ``tmpmaild listen``; without a command documents are printed."""

    command: str | None
    events: tuple[str, ...]
    has: tuple[Feature, ...]
    after: str | None
    once: bool


def listen(address: str, token: str | None, server: str | None, options: ListenOptions) -> int:
    """Run the command for each event of an address; return the exit code."""
    return run(partial(_listen, address, token, options), server, as_json=True)


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

    ``wanted`` holds filters, as ``Inbox.wait_for`` has them.
    """

    def work() -> int:
        with exits.arguments():
            service = _service(server)
        with exits.arguments(), transport.opened(httpx2.Client, service.url) as http:
            driver = sync.Driver(http)
            # Without a look for the inbox first, which would cost a token of the rate limit.
            found = _awaited(service.named(address, token), filter_of(**wanted), output, timeout_seconds)
            try:
                console.say(driver.run(found))
            except client.AddressNotFound as error:
                domains: list[str] = []
                with suppress(client.TmpmaildError):  # only for a better message
                    domains = driver.run(service.domains())
                raise exits.address_not_found(error, service.url, address, token, domains) from error
        return exits.DONE

    return exits.code_of(work)


def _service(server: str | None, *, wait_out_rate_limit: bool = False) -> RemoteService:
    """Return the service at a URL. Raises ValueError if it is not one."""
    url = service_url(server, os.environ)
    return RemoteService(url, clock=time.monotonic, wait_out_rate_limit=wait_out_rate_limit)


def _awaited(inbox: RemoteInbox, wanted: Filter, output: str, timeout_seconds: float) -> Steps[str]:
    """Wait, and return the text to print, without control characters."""
    match output:
        case "code":
            return shown((yield from Waiting(inbox, wanted, waiting.code(None), timeout_seconds).steps()))
        case "link":
            return shown((yield from Waiting(inbox, wanted, waiting.link(None, None), timeout_seconds).steps()))
    message = yield from Waiting(inbox, wanted, waiting.MAIL, timeout_seconds).steps()
    if message.truncated:
        details = yield from inbox.details(message.id)
        message = replace(message, text=details.text, truncated=False)
    if output == "json":
        return json_line(display.json_mail(message))
    return shown(message.text, keep="\n\t").rstrip("\n")


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


class Live(NamedTuple):
    """What a command works with that runs until the address ends or a signal comes."""

    service: RemoteService
    driver: aio.Driver
    display: Display
    shield: Shield


def run(work: Callable[[Live], Awaitable[int]], server: str | None, *, as_json: bool) -> int:
    """Do work with a service until it is done or a signal comes; return the exit code."""
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
    except OSError:  # the terminal is gone
        console.forget_output()


@asynccontextmanager
async def _connected(server: str | None, display: Display) -> AsyncIterator[Live]:
    shield, monitor = Shield(), ConnectionMonitor(display.note)
    with exits.arguments():
        service = _service(server, wait_out_rate_limit=True)
    hooks = {"response": [monitor.answered]}
    async with transport.opened(httpx2.AsyncClient, service.url, event_hooks=hooks) as http:
        yield Live(service, aio.Driver(http, partial(shield.pause, monitor.pause)), display, shield)


async def _new(wanted: Mapping[str, Any], live: Live, *, keep: bool) -> int:
    # A signal must wait for the answer, or an address would be left over whose token is not known.
    with exits.arguments():
        inbox = await live.shield.keep(live.driver.run(live.service.create(**wanted)))
    try:
        live.display.begin(inbox, shows_token=wanted["private"] or keep, deletes_at_the_end=not keep)
        return await _follow(inbox, live)
    except BaseException:
        if not keep:
            await _delete(inbox, live)
        raise


async def _watch(address: str, token: str | None, live: Live) -> int:
    inbox = await _find(live, address, token)
    live.display.begin(inbox)
    return await _follow(inbox, live)


async def _find(live: Live, address: str, token: str | None) -> RemoteInbox:
    """Find an address. Raises ``AddressNotFound`` with a better text than the client's."""
    try:
        with exits.arguments():
            return await live.driver.run(live.service.find(address, token))
    except client.AddressNotFound as error:
        domains: list[str] = []
        with anyio.move_on_after(_DOMAINS_SECONDS), suppress(client.TmpmaildError):  # only for a better message
            async with transport.opened(
                httpx2.AsyncClient, live.service.url
            ) as http:  # of whose trouble nothing is noted
                domains = await aio.Driver(http).run(live.service.domains())
        raise exits.address_not_found(error, live.service.url, address, token, domains) from error


async def _follow(inbox: RemoteInbox, live: Live) -> int:
    stream = ReconnectingStream(inbox, None)
    async with aclosing(live.driver.for_stream()) as driver:
        while (event := await driver.run(stream.next())) is not None:
            live.display.show(event)
    return exits.DONE


async def _delete(inbox: RemoteInbox, live: Live) -> None:
    reason = "no answer"
    with anyio.move_on_after(_DELETING_SECONDS, shield=True):
        try:
            await live.driver.run(inbox.delete())
        except (client.AddressNotFound, client.AddressExpired):
            return
        except client.TmpmaildError as error:
            reason = str(error)
        else:
            return
    live.display.note(f"{inbox.address} is not deleted: {reason}")


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


async def _listen(address: str, token: str | None, options: ListenOptions, live: Live) -> int:
    inbox = await _find(live, address, token)
    async with aclosing(_documents(inbox, options, live.driver)) as documents:
        async for document in documents:
            live.display.tick()  # nobody may read the output any more
            code = await _hand_out(document, options.command)
            if options.once:
                return code
            if code != exits.DONE:
                live.display.note(f"the command failed with exit code {code}; going on")
    if options.once:
        live.display.note("the address ended before anything came")
    return exits.NO_ADDRESS if options.once else exits.DONE


async def _documents(inbox: RemoteInbox, options: ListenOptions, driver: aio.Driver) -> AsyncGenerator[Document, None]:
    """Yield the documents that are wanted, until the address ends."""
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
    """Ask for the verdicts that are not known here, and return their events in the order of the mail."""
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
    """Makes of the events of a stream the documents that webhooks get (``Serializer.webhook_body`` of the server)."""

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

    def of(self, event: Decoded) -> Iterator[tuple[str, Document]]:
        """Yield documents, each with the name that webhooks have for its event."""
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


async def _hand_out(document: Document, command: str | None) -> int:
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
