"""The client for code with ``await``: the service, its inboxes, their mails, and the I/O for all of them."""

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Self, TypeVar, Unpack

import anyio
import httpx2

from tmpmaild.client import transport, views, waiting
from tmpmaild.client.errors import TmpmaildError
from tmpmaild.client.models import AttachmentItem, Details, Fault, Message, Refusal, Webhook
from tmpmaild.client.reconnecting import Arrived, Event, ReconnectingStream
from tmpmaild.client.remote import RemoteAllMail, RemoteInbox, RemoteService
from tmpmaild.client.transport import Action, Ask, OpenStream, ReadStream, Reply, Request, Sleep, Steps
from tmpmaild.client.waiting import Pattern, Waiting

T = TypeVar("T")


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
        self._http = http or transport.opened(httpx2.AsyncClient, found_url)
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
        faults: Sequence[Fault] = (),
        webhook: Webhook | None = None,
    ) -> "AsyncInbox":
        """Create an address; without a local part a random one. A private one is read with its token only.

        It lives for ``expires_in_seconds``, which the operator bounds; by default as long as the operator has set.
        ``faults`` are as in ``AsyncInbox.set_faults``, ``webhook`` is as in ``AsyncInbox.set_webhook``; its secret is
        then in ``webhook_secret``. Raises ``AddressTaken``, ``InvalidRequest``, ``StorageFull``.
        """
        created = self._remote.create(
            local_part,
            domain=domain,
            private=private,
            expires_in_seconds=expires_in_seconds,
            faults=faults,
            webhook=webhook,
        )
        return AsyncInbox(await self._driver.run(created), self._driver)

    async def inbox(self, address: str, token: str | None = None) -> "AsyncInbox":
        """Return an inbox that exists; the token is needed to change it, and to read it if it is private.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        return AsyncInbox(await self._driver.run(self._remote.find(address, token)), self._driver)

    def all_mail(self) -> "AsyncAllMail":
        """Return all messages of a service that catches them (``tmpmaild catch``); its calls raise ``CatchAllOff``."""
        return AsyncAllMail(self._remote.all_mail(), self._driver)

    async def domains(self) -> list[str]:
        """Return the domains that addresses can be created at, the default first."""
        return await self._driver.run(self._remote.domains())

    async def refusals(self) -> list[Refusal]:
        """Return what the mail server refused lately, oldest first: why a mail did not come.

        Raises ``NotFound`` where the service does not keep it (``smtp.keep_refusals``).
        """
        return await self._driver.run(self._remote.refusals())

    async def aclose(self) -> None:
        """Close all connections. Call it at the end, or use ``async with``."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncInbox(views.InboxView):
    """An address and its mail. All calls raise ``AddressExpired``, ``AddressNotFound``, ``Unauthorized`` as well."""

    def __init__(self, remote: RemoteInbox, driver: "Driver") -> None:
        super().__init__(remote)
        self._driver = driver

    async def messages(self, *, limit: int | None = None, **filters: Unpack[views.Filters]) -> list["AsyncMail"]:
        """Return the mails, newest first, at most ``limit``.

        Of the filters ``subject`` and ``sender`` (address or name) keep what contains them, in any case, ``text`` looks
        in both and in the text; ``has`` is "code", "link", "attachment" (one that is not inline) or several of them;
        ``after`` is a mail or its id. Raises ValueError for anything else in ``has``.
        """
        found = self._remote.messages(views.wanted(**filters), limit)
        return [AsyncMail(self._remote, message, self._driver) for message in await self._driver.run(found)]

    async def message(self, message_id: str) -> "AsyncMail":
        """Return the mail with this id, its text whole. Raises ``MessageNotFound``."""
        return AsyncMail(self._remote, await self._driver.run(self._remote.message(message_id)), self._driver)

    async def wait_for(
        self,
        *,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.Filters],
    ) -> "AsyncMail":
        """Return the oldest mail that matches (as ``messages`` has it) and comes within ``timeout`` seconds.

        What is there already counts; for a second mail of the same kind give the first as ``after``. Raises
        ``WaitTimeout``, at most a second late, which says what came instead (at once if the service refuses requests
        for longer than what is left); ``AddressExpired`` as soon as the address ends.
        """
        found = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, timeout)
        return AsyncMail(self._remote, await self._driver.run(found.steps()), self._driver)

    async def wait_for_messages(
        self,
        count: int,
        *,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.Filters],
    ) -> list["AsyncMail"]:
        """Return the ``count`` oldest such mails, oldest first, as soon as they are there; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.several(count), timeout)
        return [AsyncMail(self._remote, message, self._driver) for message in await self._driver.run(found.steps())]

    async def assert_no_mail(self, *, within: float, **filters: Unpack[views.Filters]) -> None:
        """Wait ``within`` seconds. Raises ``UnexpectedMail``, an AssertionError, as soon as such a mail is there.

        What is there already counts, unless it came before ``after``. A service that does not answer proves nothing:
        ``ServiceUnreachable`` and the temporary problems are raised if the last request failed.
        """
        unwanted = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, within)
        await self._driver.run(unwanted.ensure_none())

    async def wait_for_code(
        self,
        *,
        pattern: Pattern | None = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.Filters],
    ) -> str:
        """Return the code of the oldest such mail that has one; else as ``wait_for``.

        ``pattern`` is a regular expression, as in ``AsyncMail.get_code``.
        """
        found = Waiting(self._remote, views.wanted(**filters), waiting.code(pattern), timeout)
        return await self._driver.run(found.steps())

    async def wait_for_link(
        self,
        *,
        link_text: Pattern | None = None,
        url: Pattern | None = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.Filters],
    ) -> str:
        """Return the link to follow (confidence 0.3 or more) in the oldest such mail with one; else as ``wait_for``.

        ``link_text`` and ``url`` choose the link, as in ``AsyncMail.get_link``.
        """
        found = Waiting(self._remote, views.wanted(**filters), waiting.link(link_text, url), timeout)
        return await self._driver.run(found.steps())

    async def follow(self, after: "AsyncMail | str | None" = None) -> AsyncGenerator["Event[AsyncMail]", None]:
        """Yield what happens, from the beginning or after a mail, until the address ends.

        ``Arrived`` comes once for each mail, however often the connection breaks. ``Deleted`` and ``Extended`` come
        only while there is a connection; the end of the address is always reported. Raises ``ServiceUnreachable`` (or
        the ``Problem`` it was) when the service has been away for a minute. To stop earlier, close the generator, or
        its connection stays open: ``async with aclosing(inbox.follow()) as events``.
        """
        stream = ReconnectingStream(self._remote, views.wanted(after=after).after)
        async with aclosing(self._driver.for_stream()) as driver:
            while (event := await driver.run(stream.next())) is not None:
                yield self._event(event)

    async def extend(self, seconds: int) -> datetime:
        """Set the expiry to ``seconds`` from now, also to an earlier time; return it. Raises ``InvalidRequest``."""
        return await self._driver.run(self._remote.extend(seconds))

    async def set_faults(self, faults: Sequence[Fault]) -> None:
        """Make the next mails to this address fail, or end that with an empty list; see ``Fault``.

        Raises ``InvalidRequest`` if one is impossible, or if the service does not allow them (``smtp.faults``).
        """
        await self._driver.run(self._remote.set_faults(faults))

    async def faults(self) -> list[Fault]:
        """Return the faults that are still to come, each with how often."""
        return await self._driver.run(self._remote.faults())

    async def set_webhook(self, webhook: Webhook | None) -> Webhook | None:
        """Set the URL that is called when something happens here, in place of the one before; None ends that.

        Returns the webhook with its ``secret``, which is told only now. Raises ``InvalidRequest`` if the operator does
        not allow the URL, ``WebhooksOff`` if none.
        """
        return await self._driver.run(self._remote.set_webhook(webhook))

    async def webhook(self) -> Webhook | None:
        """Return the webhook and how its calls go, without its secret; None if there is none."""
        return await self._driver.run(self._remote.webhook())

    async def delete(self) -> None:
        """Delete the address and its mail."""
        await self._driver.run(self._remote.delete())

    async def delete_messages(
        self, mails: "Sequence[AsyncMail | str] | None" = None, *, up_to: "AsyncMail | str | None" = None
    ) -> int:
        """Delete these mails (or their ids), or with ``up_to`` that one and all before it, or all; return how many.

        One that is not there any more is not counted. Raises ValueError if both are given.
        """
        message_ids = None if mails is None else [views.id_of(mail) for mail in mails]
        last_id = None if up_to is None else views.id_of(up_to)
        return await self._driver.run(self._remote.delete_messages(message_ids, last_id))

    async def mbox(self) -> bytes:
        """Return all mails as one mbox file, oldest first: what mail programs and Python's ``mailbox`` read."""
        return await self._driver.run(self._remote.mbox())

    def _event(self, event: Event[Message]) -> "Event[AsyncMail]":
        return Arrived(AsyncMail(self._remote, event.mail, self._driver)) if isinstance(event, Arrived) else event


class AsyncAllMail:
    """All messages of a service that catches them, each once, whoever they were sent to.

    Filters are those of ``AsyncInbox``, and ``to``: a whole recipient of the envelope, in any case. Calls raise as
    those of ``AsyncInbox``, and ``CatchAllOff`` if the service does not catch all mail.
    """

    def __init__(self, remote: RemoteAllMail, driver: "Driver") -> None:
        self._remote = remote
        self._driver = driver

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    async def messages(self, *, limit: int | None = None, **filters: Unpack[views.AllFilters]) -> list["AsyncMail"]:
        """Return the messages, newest first, at most ``limit``."""
        found = self._remote.messages(views.wanted(**filters), limit)
        return [AsyncMail(self._remote, message, self._driver) for message in await self._driver.run(found)]

    async def message(self, message_id: str) -> "AsyncMail":
        """Return the message with this id, its text whole. Raises ``MessageNotFound``."""
        return AsyncMail(self._remote, await self._driver.run(self._remote.message(message_id)), self._driver)

    async def latest(self, **filters: Unpack[views.AllFilters]) -> "AsyncMail | None":
        """Return the newest message that matches, without waiting; None if there is none."""
        found = await self.messages(limit=1, **filters)
        return found[0] if found else None

    async def count(self, **filters: Unpack[views.AllFilters]) -> int:
        """Return how many messages match, without waiting."""
        return len(await self.messages(**filters))

    async def wait_for(
        self,
        *,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.AllFilters],
    ) -> "AsyncMail":
        """Return the oldest message that matches and arrives within ``timeout`` seconds. Raises ``WaitTimeout``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, timeout)
        return AsyncMail(self._remote, await self._driver.run(found.steps()), self._driver)

    async def wait_for_messages(
        self,
        count: int,
        *,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.AllFilters],
    ) -> list["AsyncMail"]:
        """Return the ``count`` oldest such messages, oldest first, as soon as they are there; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.several(count), timeout)
        return [AsyncMail(self._remote, message, self._driver) for message in await self._driver.run(found.steps())]

    async def assert_count(
        self,
        count: int,
        *,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        within: float = 1,
        **filters: Unpack[views.AllFilters],
    ) -> list["AsyncMail"]:
        """Wait for exactly ``count`` such messages and return them, oldest first.

        Raises ``WaitTimeout`` for fewer, ``UnexpectedMail`` for one more within ``within`` seconds after the last.
        """
        found = await self.wait_for_messages(count, timeout=timeout, **filters) if count else []
        more: views.AllFilters = {**filters, "after": found[-1]} if found else filters
        await self.assert_no_mail(within=within, **more)
        return found

    async def assert_no_mail(self, *, within: float, **filters: Unpack[views.AllFilters]) -> None:
        """Wait ``within`` seconds. Raises ``UnexpectedMail``, an AssertionError, as soon as such a message is there."""
        unwanted = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, within)
        await self._driver.run(unwanted.ensure_none())

    async def wait_for_code(
        self,
        *,
        pattern: Pattern | None = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.AllFilters],
    ) -> str:
        """Return the code of the oldest such message that has one; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.code(pattern), timeout)
        return await self._driver.run(found.steps())

    async def wait_for_link(
        self,
        *,
        link_text: Pattern | None = None,
        url: Pattern | None = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
        **filters: Unpack[views.AllFilters],
    ) -> str:
        """Return the link to follow in the oldest such message that has one; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.link(link_text, url), timeout)
        return await self._driver.run(found.steps())

    async def clear(self, *, to: str | None = None) -> int:
        """Delete all messages, or those to one recipient, from its inboxes as well; return how many."""
        if to is None:
            return await self._driver.run(self._remote.delete_messages(None, None))
        message_ids = [message.id for message in await self.messages(to=to)]
        return await self._driver.run(self._remote.delete_messages(message_ids, None))

    async def mbox(self) -> bytes:
        """Return all messages as one mbox file, oldest first."""
        return await self._driver.run(self._remote.mbox())


class AsyncMail(views.MailView):
    """A mail in an inbox. What asks the service raises ``MessageNotFound`` when the mail was deleted."""

    def __init__(self, remote: RemoteInbox, message: Message, driver: "Driver") -> None:
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

    @property
    def unsubscribe_link(self) -> Awaitable[str | None]:
        """The link of List-Unsubscribe, https before http, or None; ``await mail.unsubscribe_link`` fetches it."""
        return self._unsubscribe_link()

    async def get_code(self, pattern: Pattern | None = None) -> str:
        """Return the best code, or what a regular expression finds first: in the subject, else in the whole text.

        Of an expression with a group it is what the first group matches; in a string ``^`` and ``$`` match at each
        line. Raises ``NotInMail``, which shows the mail; ``re.error``.
        """
        if pattern is not None and self.truncated:
            await self.details()
        return self._taken(waiting.code(pattern))

    async def get_link(self, *, text: Pattern | None = None, url: Pattern | None = None) -> str:
        """Return the URL of the link to follow, or of the best one whose text and URL contain this.

        The link to follow is the best one, if its confidence is at least 0.3: an unlikely link is never returned.
        ``text`` is compared in any case; both may be compiled regular expressions. Raises ``NotInMail``.
        """
        return self._taken(waiting.link(text, url))

    async def get_attachment(self, name: str) -> "AsyncAttachment":
        """Return the first attachment of this name, in any case: ``invoice-*.pdf``. Raises ``NotInMail``."""
        return AsyncAttachment(self._remote, self.id, self._taken(waiting.attachment(name)), self._driver)

    async def open(self, page: views.AsyncPage, *, remote_images: bool = False) -> None:
        """Show the mail in a page of a browser (Playwright's): sanitised HTML without scripts, or the text.

        Images from elsewhere are loaded only with ``remote_images``. A link of the mail opens a page of its own:
        ``page.expect_popup()``.
        """
        await page.goto(await self.view_url(remote_images=remote_images))

    async def view_url(self, *, remote_images: bool = False) -> str:
        """Return a URL that shows the mail in any browser; it works for a minute, without a token."""
        return await self._driver.run(self._remote.view_url(self.id, remote_images=remote_images))

    async def details(self) -> Details:
        """Return the headers, the HTML, the whole text. Fetched the first time."""
        if self._details is None:
            self._details = await self._driver.run(self._remote.details(self.id))
        return self._details

    async def assert_authenticated(self, domain: str) -> None:
        """Return if it is proven that the mail is from ``domain`` (DMARC).

        Raises ``NotAuthenticated``, an AssertionError, which says why not, with the DNS answers that the service saw.
        """
        details = await self._driver.run(self._remote.details(self.id))
        views.ensure_authenticated(details.authentication, domain)

    async def raw(self) -> bytes:
        """Return the source, octet by octet, below the service's ``Return-Path`` and ``Received``."""
        return await self._driver.run(self._remote.raw(self.id))

    async def delete(self) -> None:
        """Delete it from its inbox."""
        await self._driver.run(self._remote.delete_message(self.id))

    async def _html(self) -> str | None:
        details = await self.details()
        return details.html

    async def _unsubscribe_link(self) -> str | None:
        return views.unsubscribe_link(await self.details())


class AsyncAttachment(views.AttachmentView):
    """An attachment of a mail."""

    def __init__(self, remote: RemoteInbox, message_id: str, item: AttachmentItem, driver: "Driver") -> None:
        super().__init__(remote, message_id, item)
        self._driver = driver

    async def content(self) -> bytes:
        """Return the content, decoded."""
        return await self._driver.run(self._remote.attachment(self._message_id, self._item.index))


class Driver:
    """Does the I/O: sends what the core asks for over httpx2, and decides nothing itself.

    It holds the one stream that steps may open.
    """

    def __init__(self, http: httpx2.AsyncClient, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        self._http = http
        self._sleep = sleep
        self._stream: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

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
        if isinstance(self._pieces, AsyncGenerator):
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
                self._pieces = response.aiter_bytes()
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
