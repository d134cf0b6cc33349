"""The client for code with ``await``: sends what the core asks for over httpx2 and decides nothing itself."""

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any, Self, TypeVar

import anyio
import httpx2

from tmpmaild.client import transport
from tmpmaild.client.actions import Action, Ask, OpenStream, ReadStream, Reply, Request, Sleep, Steps
from tmpmaild.client.errors import TmpmaildError
from tmpmaild.client.reconnecting import Arrived, Event, ReconnectingStream
from tmpmaild.client.remote import RemoteInbox, RemoteService
from tmpmaild.client.views import AttachmentView, InboxView, MailView, wanted
from tmpmaild.client.waiting import CODE, LINK, MAIL, Waiting
from tmpmaild.client.wire import AttachmentItem, Details, Message

T = TypeVar("T")


class Driver:
    """Runs steps of the core; holds the one stream they may open."""

    def __init__(self, http: httpx2.AsyncClient, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._http = http
        self._sleep = sleep
        self._stream: httpx2.Response | None = None
        self._pieces: AsyncGenerator[bytes, None] | None = None

    def for_stream(self) -> "Driver":
        """Return a driver for steps that open a stream."""
        return Driver(self._http, self._sleep)

    async def run(self, steps: Steps[T]) -> T:
        """Carry out the steps and return their result."""
        try:
            action = next(steps)
            while True:
                try:
                    result = await self._carry_out(action)
                except TmpmaildError as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Close the stream."""
        if self._pieces is not None:
            await self._pieces.aclose()  # the garbage collector may do it too late
            self._pieces = None
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None

    async def _carry_out(self, action: Action) -> Any:
        match action:
            case Ask(request):
                return await self._ask(request)
            case OpenStream(request):
                return await self._open(request)
            case ReadStream(request):
                return await self._read(request)
            case Sleep(seconds):
                return await self._sleep(seconds)

    async def _ask(self, request: Request) -> Reply:
        try:
            response = await self._send(request)
            async with aclosing(response):
                return transport.reply(request, response, await response.aread())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    async def _open(self, request: Request) -> Reply:
        await self.aclose()
        try:
            response = self._stream = await self._send(request)
            if response.status_code == httpx2.codes.OK:
                self._pieces = transport.async_pieces(response)
                return transport.reply(request, response, b"")
            return transport.reply(request, response, await response.aread())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    async def _read(self, request: Request) -> bytes:
        try:
            assert self._pieces is not None
            return await anext(self._pieces, b"")
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    async def _send(self, request: Request) -> httpx2.Response:
        prepared = self._http.build_request(**transport.arguments(request))
        return await self._http.send(prepared, stream=True, follow_redirects=False)


class AsyncClient:
    """A tmpmaild service, as seen by its URL (default: ``$TMPMAILD_URL``, else ``http://127.0.0.1:8025``).

    With ``wait_out_rate_limit`` every call that the rate limit refuses is repeated, for up to a minute; waits for mail
    always do this. ``http`` is for settings of httpx2 itself (certificates, proxies); the caller closes it.
    ``clock`` (in seconds) and ``sleep`` are for tests of tests. A client belongs to one event loop. All calls raise
    ``ServiceUnreachable``, ``NotTmpmaild`` and ``Problem``. Raises ValueError if ``url`` is not a URL.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        wait_out_rate_limit: bool = False,
        http: httpx2.AsyncClient | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        found_url = transport.service_url(url, os.environ)
        self._remote = RemoteService(found_url, clock=clock, wait_out_rate_limit=wait_out_rate_limit)
        self._http = http or httpx2.AsyncClient(limits=transport.LIMITS)
        self._owns_http = http is None
        self._driver = Driver(self._http, sleep)

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._remote.url

    async def create(
        self,
        local_part: str | None = None,
        *,
        domain: str | None = None,
        private: bool = False,
        expires_in_seconds: int | None = None,
    ) -> "AsyncInbox":
        """Create an address; without a local part a random one. A private one is read with its token only.

        It lives for ``expires_in_seconds``, which the operator bounds; by default as long as the operator has set.
        Raises ``AddressTaken``, ``InvalidRequest``, ``StorageFull``.
        """
        steps = self._remote.create(local_part, domain, private=private, expires_in_seconds=expires_in_seconds)
        return AsyncInbox(await self._driver.run(steps), self._driver)

    async def inbox(self, address: str, token: str | None = None) -> "AsyncInbox":
        """Return an inbox that exists; the token is needed to change it, and to read it if it is private.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        return AsyncInbox(await self._driver.run(self._remote.find(address, token)), self._driver)

    async def domains(self) -> list[str]:
        """Return the domains that addresses can be created at, the default first."""
        return await self._driver.run(self._remote.domains())

    async def aclose(self) -> None:
        """Close all connections. Call it at the end, or use ``async with``."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncInbox(InboxView):
    """An address and its mail. All calls raise ``AddressExpired``, ``AddressNotFound``, ``Unauthorized`` as well."""

    def __init__(self, remote: RemoteInbox, driver: Driver) -> None:
        super().__init__(remote)
        self._driver = driver

    async def messages(
        self,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        after: "AsyncMail | str | None" = None,
        limit: int | None = None,
    ) -> list["AsyncMail"]:
        """Return the mails, newest first, at most ``limit``.

        ``subject`` and ``sender`` (address or name) keep what contains them, in any case, ``text`` looks in both and in
        the text; ``after`` is a mail or its id.
        """
        found = self._remote.messages(wanted(subject, sender, text, after), limit)
        return [AsyncMail(self._remote, message, self._driver) for message in await self._driver.run(found)]

    async def wait_for(
        self,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        after: "AsyncMail | str | None" = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
    ) -> "AsyncMail":
        """Return the oldest mail that matches (as ``messages`` has it) and comes within ``timeout`` seconds.

        What is there already counts; for a second mail of the same kind give the first as ``after``. Raises
        ``WaitTimeout``, at most a second late, which says what came instead (at once if the service refuses requests
        for longer than what is left); ``AddressExpired`` as soon as the address ends.
        """
        found = Waiting(self._remote, wanted(subject, sender, text, after), MAIL, timeout)
        return AsyncMail(self._remote, await self._driver.run(found.steps()), self._driver)

    async def wait_for_code(
        self,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        after: "AsyncMail | str | None" = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
    ) -> str:
        """Return the code of the oldest such mail that has one; else as ``wait_for``."""
        found = Waiting(self._remote, wanted(subject, sender, text, after), CODE, timeout)
        return await self._driver.run(found.steps())

    async def wait_for_link(
        self,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        after: "AsyncMail | str | None" = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
    ) -> str:
        """Return the link to follow in the oldest such mail that has one; else as ``wait_for``."""
        found = Waiting(self._remote, wanted(subject, sender, text, after), LINK, timeout)
        return await self._driver.run(found.steps())

    async def follow(self, after: "AsyncMail | str | None" = None) -> AsyncGenerator["Event[AsyncMail]", None]:
        """Yield what happens, from the beginning or after a mail, until the address ends.

        ``Arrived`` comes once for each mail, however often the connection breaks. ``Deleted`` and ``Extended`` come
        only while there is a connection; the end of the address is always reported. Raises ``ServiceUnreachable`` (or
        the ``Problem`` it was) when the service has been away for a minute. To stop earlier, close the generator, or
        its connection stays open: ``async with aclosing(inbox.follow()) as events``.
        """
        stream = ReconnectingStream(self._remote, wanted(None, None, None, after).after)
        async with aclosing(self._driver.for_stream()) as driver:
            while (event := await driver.run(stream.next())) is not None:
                yield self._event(event)

    async def extend(self, seconds: int) -> datetime:
        """Set the expiry to ``seconds`` from now, also to an earlier time; return it. Raises ``InvalidRequest``."""
        return await self._driver.run(self._remote.extend(seconds))

    async def delete(self) -> None:
        """Delete the address and its mail."""
        await self._driver.run(self._remote.delete())

    def _event(self, event: Event[Message]) -> "Event[AsyncMail]":
        return Arrived(AsyncMail(self._remote, event.mail, self._driver)) if isinstance(event, Arrived) else event


class AsyncMail(MailView):
    """A mail in an inbox. What asks the service raises ``MessageNotFound`` when the mail was deleted."""

    def __init__(self, remote: RemoteInbox, message: Message, driver: Driver) -> None:
        super().__init__(remote, message)
        self._driver = driver

    @property
    def html(self) -> Awaitable[str | None]:
        """The HTML part as it was received, or None; ``await mail.html`` fetches it the first time."""
        return self._html()

    @property
    def attachments(self) -> tuple["AsyncAttachment", ...]:
        """The attachments, in order."""
        items = self._message.attachments
        return tuple(AsyncAttachment(self._remote, self.id, item, self._driver) for item in items)

    async def details(self) -> Details:
        """Return the headers, the HTML, the whole text. Fetched the first time."""
        if self._details is None:
            self._details = await self._driver.run(self._remote.details(self.id))
        return self._details

    async def raw(self) -> bytes:
        """Return the source, octet by octet, below the service's ``Return-Path`` and ``Received``."""
        return await self._driver.run(self._remote.raw(self.id))

    async def delete(self) -> None:
        """Delete it from its inbox."""
        await self._driver.run(self._remote.delete_message(self.id))

    async def _html(self) -> str | None:
        details = await self.details()
        return details.html


class AsyncAttachment(AttachmentView):
    """An attachment of a mail."""

    def __init__(self, remote: RemoteInbox, message_id: str, item: AttachmentItem, driver: Driver) -> None:
        super().__init__(remote, message_id, item)
        self._driver = driver

    async def content(self) -> bytes:
        """Return the content, decoded."""
        return await self._driver.run(self._remote.attachment(self._message_id, self._item.index))
