# Made from aio.py by tools/sync_client.py: change that one, then run `python tools/sync_client.py`.
"""The client for code without ``await``: the service, its inboxes, their mails, and the I/O for all of them."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Self, TypeVar, Unpack

import httpx2

from tmpmaild.client import transport, views, waiting
from tmpmaild.client.errors import TmpmaildError
from tmpmaild.client.models import AttachmentItem, Details, Fault, Message, Refusal, Webhook
from tmpmaild.client.reconnecting import Arrived, Event, ReconnectingStream
from tmpmaild.client.remote import RemoteAllMail, RemoteInbox, RemoteService
from tmpmaild.client.transport import Action, Ask, OpenStream, ReadStream, Reply, Request, Sleep, Steps
from tmpmaild.client.waiting import Pattern, Waiting

T = TypeVar("T")


class Client:
    """A tmpmaild service, as seen by its URL (default: ``$TMPMAILD_URL``, else ``http://127.0.0.1:8025``).

    With ``wait_out_rate_limit`` every call that the rate limit refuses is repeated, for up to a minute; waits for mail
    always do this. ``http`` is for settings of httpx2 itself (certificates, proxies); the caller closes it.
    ``clock`` (in seconds) and ``sleep`` are for tests of tests. Threads may share a client. All calls raise
    ``ServiceUnreachable``, ``NotTmpmaild`` and ``Problem``. Raises ValueError if ``url`` is not a URL.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        wait_out_rate_limit: bool = False,
        http: httpx2.Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        found_url = transport.service_url(url, os.environ)
        self._remote = RemoteService(found_url, clock=clock, wait_out_rate_limit=wait_out_rate_limit)
        self._http = http or transport.opened(httpx2.Client, found_url)
        self._owns_http = http is None
        self._driver = Driver(self._http, sleep)

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._remote.url

    def create(
        self,
        local_part: str | None = None,
        *,
        domain: str | None = None,
        private: bool = False,
        expires_in_seconds: int | None = None,
        faults: Sequence[Fault] = (),
        webhook: Webhook | None = None,
    ) -> "Inbox":
        """Create an address; without a local part a random one. A private one is read with its token only.

        It lives for ``expires_in_seconds``, which the operator bounds; by default as long as the operator has set.
        ``faults`` are as in ``Inbox.set_faults``, ``webhook`` is as in ``Inbox.set_webhook``; its secret is
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
        return Inbox(self._driver.run(created), self._driver)

    def inbox(self, address: str, token: str | None = None) -> "Inbox":
        """Return an inbox that exists; the token is needed to change it, and to read it if it is private.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        return Inbox(self._driver.run(self._remote.find(address, token)), self._driver)

    def all_mail(self) -> "AllMail":
        """Return all messages of a service that catches them (``tmpmaild catch``); its calls raise ``CatchAllOff``."""
        return AllMail(self._remote.all_mail(), self._driver)

    def domains(self) -> list[str]:
        """Return the domains that addresses can be created at, the default first."""
        return self._driver.run(self._remote.domains())

    def refusals(self) -> list[Refusal]:
        """Return what the mail server refused lately, oldest first: why a mail did not come.

        Raises ``NotFound`` where the service does not keep it (``smtp.keep_refusals``).
        """
        return self._driver.run(self._remote.refusals())

    def close(self) -> None:
        """Close all connections. Call it at the end, or use ``with``."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Inbox(views.InboxView):
    """An address and its mail. All calls raise ``AddressExpired``, ``AddressNotFound``, ``Unauthorized`` as well."""

    def __init__(self, remote: RemoteInbox, driver: "Driver") -> None:
        super().__init__(remote)
        self._driver = driver

    def messages(self, *, limit: int | None = None, **filters: Unpack[views.Filters]) -> list["Mail"]:
        """Return the mails, newest first, at most ``limit``.

        Of the filters ``subject`` and ``sender`` (address or name) keep what contains them, in any case, ``text`` looks
        in both and in the text; ``has`` is "code", "link", "attachment" (one that is not inline) or several of them;
        ``after`` is a mail or its id. Raises ValueError for anything else in ``has``.
        """
        found = self._remote.messages(views.wanted(**filters), limit)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found)]

    def message(self, message_id: str) -> "Mail":
        """Return the mail with this id, its text whole. Raises ``MessageNotFound``."""
        return Mail(self._remote, self._driver.run(self._remote.message(message_id)), self._driver)

    def wait_for(self, *, timeout: float = 60, **filters: Unpack[views.Filters]) -> "Mail":
        """Return the oldest mail that matches (as ``messages`` has it) and comes within ``timeout`` seconds.

        What is there already counts; for a second mail of the same kind give the first as ``after``. Raises
        ``WaitTimeout``, at most a second late, which says what came instead (at once if the service refuses requests
        for longer than what is left); ``AddressExpired`` as soon as the address ends.
        """
        found = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, timeout)
        return Mail(self._remote, self._driver.run(found.steps()), self._driver)

    def wait_for_messages(self, count: int, *, timeout: float = 60, **filters: Unpack[views.Filters]) -> list["Mail"]:
        """Return the ``count`` oldest such mails, oldest first, as soon as they are there; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.several(count), timeout)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found.steps())]

    def assert_no_mail(self, *, within: float, **filters: Unpack[views.Filters]) -> None:
        """Wait ``within`` seconds. Raises ``UnexpectedMail``, an AssertionError, as soon as such a mail is there.

        What is there already counts, unless it came before ``after``. A service that does not answer proves nothing:
        ``ServiceUnreachable`` and the temporary problems are raised if the last request failed.
        """
        unwanted = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, within)
        self._driver.run(unwanted.ensure_none())

    def wait_for_code(
        self, *, pattern: Pattern | None = None, timeout: float = 60, **filters: Unpack[views.Filters]
    ) -> str:
        """Return the code of the oldest such mail that has one; else as ``wait_for``.

        ``pattern`` is a regular expression, as in ``Mail.get_code``.
        """
        found = Waiting(self._remote, views.wanted(**filters), waiting.code(pattern), timeout)
        return self._driver.run(found.steps())

    def wait_for_link(
        self,
        *,
        link_text: Pattern | None = None,
        url: Pattern | None = None,
        timeout: float = 60,
        **filters: Unpack[views.Filters],
    ) -> str:
        """Return the link to follow (confidence 0.3 or more) in the oldest such mail with one; else as ``wait_for``.

        ``link_text`` and ``url`` choose the link, as in ``Mail.get_link``.
        """
        found = Waiting(self._remote, views.wanted(**filters), waiting.link(link_text, url), timeout)
        return self._driver.run(found.steps())

    def follow(self, after: "Mail | str | None" = None) -> Generator["Event[Mail]", None, None]:
        """Yield what happens, from the beginning or after a mail, until the address ends.

        ``Arrived`` comes once for each mail, however often the connection breaks. ``Deleted`` and ``Extended`` come
        only while there is a connection; the end of the address is always reported. Raises ``ServiceUnreachable`` (or
        the ``Problem`` it was) when the service has been away for a minute. To stop earlier, close the generator, or
        its connection stays open: ``with closing(inbox.follow()) as events``.
        """
        stream = ReconnectingStream(self._remote, views.wanted(after=after).after)
        with closing(self._driver.for_stream()) as driver:
            while (event := driver.run(stream.next())) is not None:
                yield self._event(event)

    def extend(self, seconds: int) -> datetime:
        """Set the expiry to ``seconds`` from now, also to an earlier time; return it. Raises ``InvalidRequest``."""
        return self._driver.run(self._remote.extend(seconds))

    def set_faults(self, faults: Sequence[Fault]) -> None:
        """Make the next mails to this address fail, or end that with an empty list; see ``Fault``.

        Raises ``InvalidRequest`` if one is impossible, or if the service does not allow them (``smtp.faults``).
        """
        self._driver.run(self._remote.set_faults(faults))

    def faults(self) -> list[Fault]:
        """Return the faults that are still to come, each with how often."""
        return self._driver.run(self._remote.faults())

    def set_webhook(self, webhook: Webhook | None) -> Webhook | None:
        """Set the URL that is called when something happens here, in place of the one before; None ends that.

        Returns the webhook with its ``secret``, which is told only now. Raises ``InvalidRequest`` if the operator does
        not allow the URL, ``WebhooksOff`` if none.
        """
        return self._driver.run(self._remote.set_webhook(webhook))

    def webhook(self) -> Webhook | None:
        """Return the webhook and how its calls go, without its secret; None if there is none."""
        return self._driver.run(self._remote.webhook())

    def delete(self) -> None:
        """Delete the address and its mail."""
        self._driver.run(self._remote.delete())

    def delete_messages(self, mails: "Sequence[Mail | str] | None" = None, *, up_to: "Mail | str | None" = None) -> int:
        """Delete these mails (or their ids), or with ``up_to`` that one and all before it, or all; return how many.

        One that is not there any more is not counted. Raises ValueError if both are given.
        """
        message_ids = None if mails is None else [views.id_of(mail) for mail in mails]
        last_id = None if up_to is None else views.id_of(up_to)
        return self._driver.run(self._remote.delete_messages(message_ids, last_id))

    def mbox(self) -> bytes:
        """Return all mails as one mbox file, oldest first: what mail programs and Python's ``mailbox`` read."""
        return self._driver.run(self._remote.mbox())

    def _event(self, event: Event[Message]) -> "Event[Mail]":
        return Arrived(Mail(self._remote, event.mail, self._driver)) if isinstance(event, Arrived) else event


class AllMail:
    """All messages of a service that catches them, each once, whoever they were sent to.

    Filters are those of ``Inbox``, and ``to``: a whole recipient of the envelope, in any case. Calls raise as
    those of ``Inbox``, and ``CatchAllOff`` if the service does not catch all mail.
    """

    def __init__(self, remote: RemoteAllMail, driver: "Driver") -> None:
        self._remote = remote
        self._driver = driver

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def messages(self, *, limit: int | None = None, **filters: Unpack[views.AllFilters]) -> list["Mail"]:
        """Return the messages, newest first, at most ``limit``."""
        found = self._remote.messages(views.wanted(**filters), limit)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found)]

    def message(self, message_id: str) -> "Mail":
        """Return the message with this id, its text whole. Raises ``MessageNotFound``."""
        return Mail(self._remote, self._driver.run(self._remote.message(message_id)), self._driver)

    def latest(self, **filters: Unpack[views.AllFilters]) -> "Mail | None":
        """Return the newest message that matches, without waiting; None if there is none."""
        found = self.messages(limit=1, **filters)
        return found[0] if found else None

    def count(self, **filters: Unpack[views.AllFilters]) -> int:
        """Return how many messages match, without waiting."""
        return len(self.messages(**filters))

    def wait_for(self, *, timeout: float = 60, **filters: Unpack[views.AllFilters]) -> "Mail":
        """Return the oldest message that matches and arrives within ``timeout`` seconds. Raises ``WaitTimeout``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, timeout)
        return Mail(self._remote, self._driver.run(found.steps()), self._driver)

    def wait_for_messages(
        self, count: int, *, timeout: float = 60, **filters: Unpack[views.AllFilters]
    ) -> list["Mail"]:
        """Return the ``count`` oldest such messages, oldest first, as soon as they are there; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.several(count), timeout)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found.steps())]

    def assert_count(
        self, count: int, *, timeout: float = 60, within: float = 1, **filters: Unpack[views.AllFilters]
    ) -> list["Mail"]:
        """Wait for exactly ``count`` such messages and return them, oldest first.

        Raises ``WaitTimeout`` for fewer, ``UnexpectedMail`` for one more within ``within`` seconds after the last.
        """
        found = self.wait_for_messages(count, timeout=timeout, **filters) if count else []
        more: views.AllFilters = {**filters, "after": found[-1]} if found else filters
        self.assert_no_mail(within=within, **more)
        return found

    def assert_no_mail(self, *, within: float, **filters: Unpack[views.AllFilters]) -> None:
        """Wait ``within`` seconds. Raises ``UnexpectedMail``, an AssertionError, as soon as such a message is there."""
        unwanted = Waiting(self._remote, views.wanted(**filters), waiting.MAIL, within)
        self._driver.run(unwanted.ensure_none())

    def wait_for_code(
        self, *, pattern: Pattern | None = None, timeout: float = 60, **filters: Unpack[views.AllFilters]
    ) -> str:
        """Return the code of the oldest such message that has one; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.code(pattern), timeout)
        return self._driver.run(found.steps())

    def wait_for_link(
        self,
        *,
        link_text: Pattern | None = None,
        url: Pattern | None = None,
        timeout: float = 60,
        **filters: Unpack[views.AllFilters],
    ) -> str:
        """Return the link to follow in the oldest such message that has one; else as ``wait_for``."""
        found = Waiting(self._remote, views.wanted(**filters), waiting.link(link_text, url), timeout)
        return self._driver.run(found.steps())

    def clear(self, *, to: str | None = None) -> int:
        """Delete all messages, or those to one recipient, from its inboxes as well; return how many."""
        if to is None:
            return self._driver.run(self._remote.delete_messages(None, None))
        message_ids = [message.id for message in self.messages(to=to)]
        return self._driver.run(self._remote.delete_messages(message_ids, None))

    def mbox(self) -> bytes:
        """Return all messages as one mbox file, oldest first."""
        return self._driver.run(self._remote.mbox())


class Mail(views.MailView):
    """A mail in an inbox. What asks the service raises ``MessageNotFound`` when the mail was deleted."""

    def __init__(self, remote: RemoteInbox, message: Message, driver: "Driver") -> None:
        super().__init__(remote, message)
        self._driver = driver

    @property
    def html(self) -> str | None:
        """The HTML part as it was received, or None; ``mail.html`` fetches it the first time."""
        return self._html()

    @property
    def attachments(self) -> tuple["Attachment", ...]:
        """The attachments, in order."""
        items = self._message.attachments
        return tuple(Attachment(self._remote, self.id, item, self._driver) for item in items)

    @property
    def unsubscribe_link(self) -> str | None:
        """The link of List-Unsubscribe, https before http, or None; ``mail.unsubscribe_link`` fetches it."""
        return self._unsubscribe_link()

    def get_code(self, pattern: Pattern | None = None) -> str:
        """Return the best code, or what a regular expression finds first: in the subject, else in the whole text.

        Of an expression with a group it is what the first group matches; in a string ``^`` and ``$`` match at each
        line. Raises ``NotInMail``, which shows the mail; ``re.error``.
        """
        if pattern is not None and self.truncated:
            self.details()
        return self._taken(waiting.code(pattern))

    def get_link(self, *, text: Pattern | None = None, url: Pattern | None = None) -> str:
        """Return the URL of the link to follow, or of the best one whose text and URL contain this.

        The link to follow is the best one, if its confidence is at least 0.3: an unlikely link is never returned.
        ``text`` is compared in any case; both may be compiled regular expressions. Raises ``NotInMail``.
        """
        return self._taken(waiting.link(text, url))

    def get_attachment(self, name: str) -> "Attachment":
        """Return the first attachment of this name, in any case: ``invoice-*.pdf``. Raises ``NotInMail``."""
        return Attachment(self._remote, self.id, self._taken(waiting.attachment(name)), self._driver)

    def open(self, page: views.Page, *, remote_images: bool = False) -> None:
        """Show the mail in a page of a browser (Playwright's): sanitised HTML without scripts, or the text.

        Images from elsewhere are loaded only with ``remote_images``. A link of the mail opens a page of its own:
        ``page.expect_popup()``.
        """
        page.goto(self.view_url(remote_images=remote_images))

    def view_url(self, *, remote_images: bool = False) -> str:
        """Return a URL that shows the mail in any browser; it works for a minute, without a token."""
        return self._driver.run(self._remote.view_url(self.id, remote_images=remote_images))

    def details(self) -> Details:
        """Return the headers, the HTML, the whole text. Fetched the first time."""
        if self._details is None:
            self._details = self._driver.run(self._remote.details(self.id))
        return self._details

    def assert_authenticated(self, domain: str) -> None:
        """Return if it is proven that the mail is from ``domain`` (DMARC).

        Raises ``NotAuthenticated``, an AssertionError, which says why not, with the DNS answers that the service saw.
        """
        details = self._driver.run(self._remote.details(self.id))
        views.ensure_authenticated(details.authentication, domain)

    def raw(self) -> bytes:
        """Return the source, octet by octet, below the service's ``Return-Path`` and ``Received``."""
        return self._driver.run(self._remote.raw(self.id))

    def delete(self) -> None:
        """Delete it from its inbox."""
        self._driver.run(self._remote.delete_message(self.id))

    def _html(self) -> str | None:
        details = self.details()
        return details.html

    def _unsubscribe_link(self) -> str | None:
        return views.unsubscribe_link(self.details())


class Attachment(views.AttachmentView):
    """An attachment of a mail."""

    def __init__(self, remote: RemoteInbox, message_id: str, item: AttachmentItem, driver: "Driver") -> None:
        super().__init__(remote, message_id, item)
        self._driver = driver

    def content(self) -> bytes:
        """Return the content, decoded."""
        return self._driver.run(self._remote.attachment(self._message_id, self._item.index))


class Driver:
    """Does the I/O: sends what the core asks for over httpx2, and decides nothing itself.

    It holds the one stream that steps may open.
    """

    def __init__(self, http: httpx2.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._http = http
        self._sleep = sleep
        self._stream: httpx2.Response | None = None
        self._pieces: Iterator[bytes] | None = None

    def for_stream(self) -> "Driver":
        """Return a driver for steps that open a stream."""
        return Driver(self._http, self._sleep)

    def run(self, steps: Steps[T]) -> T:
        """Carry out the steps and return their result."""
        try:
            action = next(steps)
            while True:
                try:
                    result = self._carry_out(action)
                except TmpmaildError as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the stream."""
        if isinstance(self._pieces, Generator):
            self._pieces.close()  # the garbage collector may do it too late
        self._pieces = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _carry_out(self, action: Action) -> Any:
        match action:
            case Ask(request):
                return self._ask(request)
            case OpenStream(request):
                return self._open(request)
            case ReadStream(request):
                return self._read(request)
            case Sleep(seconds):
                return self._sleep(seconds)

    def _ask(self, request: Request) -> Reply:
        try:
            response = self._send(request)
            with closing(response):
                return transport.reply(request, response, response.read())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    def _open(self, request: Request) -> Reply:
        self.close()
        try:
            response = self._stream = self._send(request)
            if response.status_code == httpx2.codes.OK:
                self._pieces = response.iter_bytes()
                return transport.reply(request, response, b"")
            return transport.reply(request, response, response.read())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    def _read(self, request: Request) -> bytes:
        try:
            assert self._pieces is not None
            return next(self._pieces, b"")
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    def _send(self, request: Request) -> httpx2.Response:
        prepared = self._http.build_request(**transport.arguments(request))
        return self._http.send(prepared, stream=True, follow_redirects=False)
