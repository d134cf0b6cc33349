# Generated from aio.py by tools/sync_client.py: edit aio.py, then run `python tools/sync_client.py`.
"""The client for code without ``await``: the service, its inboxes and messages, and the I/O for all of them."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Self, TypeVar, Unpack

import httpx2

from tmpmaild.client import transport, views, waiting
from tmpmaild.client.errors import TmpmaildError, UnexpectedMail
from tmpmaild.client.models import AttachmentItem, Details, Fault, Message, Refusal, Webhook
from tmpmaild.client.reconnecting import Arrived, Event, ReconnectingStream
from tmpmaild.client.remote import Filter, RemoteInbox, RemoteService
from tmpmaild.client.transport import (
    Action,
    CheckLoop,
    OpenStream,
    ReadStream,
    Reply,
    Request,
    SendRequest,
    Sleep,
    Steps,
)
from tmpmaild.client.waiting import Pattern, Waiting

T = TypeVar("T")


class Client:
    """A tmpmaild service, identified by its URL (default: ``$TMPMAILD_URL``, else ``http://127.0.0.1:8025``).

    With ``wait_out_rate_limit``, requests that the rate limit refuses are retried for up to a minute; when waiting for
    mail, such requests are always retried. Use ``http`` to configure httpx2 itself (certificates, proxies); the caller
    closes it. ``clock`` (in seconds) and ``sleep`` can be replaced in tests. Threads may share a client. All
    methods can raise ``ServiceUnreachable``, ``NotTmpmaild`` and ``Problem``. Raises ValueError if ``url`` is not a
    valid URL.
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
        """The URL of the service."""
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
        """Create an inbox; without a local part, its address is random. Reading a private inbox requires its token.

        The inbox expires after ``expires_in_seconds``, within the operator's limits; the operator also sets the
        default. ``faults`` and ``webhook`` are described in ``Inbox.set_faults`` and ``Inbox.set_webhook``.
        With a webhook, ``webhook_secret`` contains its secret. Raises ``AddressTaken``, ``InvalidRequest``,
        ``StorageFull``.
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

    def inbox(self, address: str, token: str | None = None, *, timeout: float = 0) -> "Inbox":
        """Return an existing inbox. The token is needed to change the inbox, and to read it if it is private.

        If incoming messages create addresses (``smtp.accept_unknown``), ``timeout`` is the number of seconds to wait
        for the first message. Raises ``AddressNotFound`` (or ``WaitTimeout`` after a timeout), ``AddressExpired``,
        ``Unauthorized``.
        """
        found = waiting.existing(self._remote, address, token, timeout)
        return Inbox(self._driver.run(found), self._driver)

    def all_mail(self) -> "AllMail":
        """Return the list of all messages of a catcher (``tmpmaild catch``); its methods can raise ``CatchAllOff``."""
        return AllMail(self._remote.all_mail(), self._driver)

    def domains(self) -> list[str]:
        """Return the domains at which addresses can be created, with the default domain first."""
        return self._driver.run(self._remote.domains())

    def refusals(self) -> list[Refusal]:
        """Return the mail server's recent refusals, oldest first, which can explain why a message did not arrive.

        Raises ``NotFound`` if the service does not record refusals (``smtp.keep_refusals``).
        """
        return self._driver.run(self._remote.refusals())

    def close(self) -> None:
        """Close all connections. Call this when the client is no longer needed, or use ``with``."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MailList:
    """A list of messages that a test can read and wait for: the messages of an inbox, or all messages of a catcher."""

    def __init__(self, remote: RemoteInbox, driver: "Driver") -> None:
        self._remote = remote
        self._driver = driver

    def messages(self, *, limit: int | None = None, **filters: Unpack[views.AllFilters]) -> list["Mail"]:
        """Return at most ``limit`` messages, newest first.

        The filters ``subject`` and ``sender`` (address or name) match any part, ignoring case. ``text`` searches the
        subject, the sender and the text. ``has`` is "code", "link" or "attachment" (not inline), or several of these.
        ``after`` is a message or its id. ``to`` is a complete recipient, and only the list of all messages supports it.
        Raises ValueError if ``has`` contains an unknown value.
        """
        found = self._remote.messages(self._wanted(**filters), limit)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found)]

    def message(self, message_id: str) -> "Mail":
        """Return the message with this id, including its whole text. Raises ``MessageNotFound``."""
        return Mail(self._remote, self._driver.run(self._remote.message(message_id)), self._driver)

    def wait_for(self, *, timeout: float = 60, **filters: Unpack[views.AllFilters]) -> "Mail":
        """Return the oldest message that matches the filters (see ``messages``), waiting up to ``timeout`` seconds.

        This includes messages that have already arrived. To wait for a second message of the same kind, pass the first
        as ``after``. ``WaitTimeout`` lists the messages that arrived instead; it is raised at most a second late, and
        immediately if the service refuses requests for longer than the remaining time. Raises ``AddressExpired`` as
        soon as the address expires.
        """
        found = Waiting(self._remote, self._wanted(**filters), waiting.MAIL, timeout)
        return Mail(self._remote, self._driver.run(found.steps()), self._driver)

    def wait_for_messages(
        self, count: int, *, timeout: float = 60, **filters: Unpack[views.AllFilters]
    ) -> list["Mail"]:
        """Return the ``count`` oldest matching messages, oldest first, once all have arrived; see ``wait_for``."""
        found = Waiting(self._remote, self._wanted(**filters), waiting.several(count), timeout)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found.steps())]

    def assert_no_mail(self, *, within: float, **filters: Unpack[views.AllFilters]) -> None:
        """Wait ``within`` seconds. Raises ``UnexpectedMail``, an AssertionError, as soon as a message matches.

        This includes messages that have already arrived, unless they arrived before ``after``. If the last request
        failed, its ``ServiceUnreachable`` or temporary problem is raised: without a response, it is unknown whether a
        message arrived.
        """
        unwanted = Waiting(self._remote, self._wanted(**filters), waiting.MAIL, within)
        self._driver.run(unwanted.ensure_none())

    def wait_for_code(
        self, *, pattern: Pattern | None = None, timeout: float = 60, **filters: Unpack[views.AllFilters]
    ) -> str:
        """Return the code in the oldest matching message that has a code; see ``wait_for``.

        ``pattern`` is a regular expression (see ``Mail.get_code``).
        """
        found = Waiting(self._remote, self._wanted(**filters), waiting.code(pattern), timeout)
        return self._driver.run(found.steps())

    def wait_for_link(
        self,
        *,
        link_text: Pattern | None = None,
        url: Pattern | None = None,
        timeout: float = 60,
        **filters: Unpack[views.AllFilters],
    ) -> str:
        """Return the link to follow (confidence 0.3 or more) in the oldest matching message that contains such a link.

        ``link_text`` and ``url`` select the link (see ``Mail.get_link``). For the other arguments, see
        ``wait_for``.
        """
        found = Waiting(self._remote, self._wanted(**filters), waiting.link(link_text, url), timeout)
        return self._driver.run(found.steps())

    def mbox(self) -> bytes:
        """Return all messages, oldest first, as an mbox file for mail programs and Python's ``mailbox``."""
        return self._driver.run(self._remote.mbox())

    def _wanted(self, **filters: Unpack[views.AllFilters]) -> Filter:
        return views.wanted(**filters)


class Inbox(MailList, views.InboxView):
    """An inbox. All methods can also raise ``AddressExpired``, ``AddressNotFound`` and ``Unauthorized``."""

    def follow(self, after: "Mail | str | None" = None) -> Generator["Event[Mail]", None, None]:
        """Yield the inbox's events, from the first message or the message after ``after``, until the inbox expires.

        Each message causes exactly one ``Arrived`` event, even if the connection breaks. ``Deleted`` (for a message)
        and ``Extended`` are only received while connected; the expiry or deletion of the inbox is always reported.
        Raises ``ServiceUnreachable`` or a ``Problem`` when the service has been unavailable for a minute. To stop
        earlier, close the generator with ``with closing(inbox.follow()) as events``; otherwise its connection
        stays open.
        """
        stream = ReconnectingStream(self._remote, views.wanted(after=after).after)
        with closing(self._driver.for_stream()) as driver:
            while (event := driver.run(stream.next())) is not None:
                yield self._event(event)

    def extend(self, seconds: int) -> datetime:
        """Set the expiry to ``seconds`` from now, even if that is earlier than before; return the new expiry.

        Raises ``InvalidRequest``.
        """
        return self._driver.run(self._remote.extend(seconds))

    def set_faults(self, faults: Sequence[Fault]) -> None:
        """Make the next messages to this address fail (see ``Fault``); an empty list removes all faults.

        Raises ``InvalidRequest`` if a fault is invalid, or if the service does not allow faults (``smtp.faults``).
        """
        self._driver.run(self._remote.set_faults(faults))

    def faults(self) -> list[Fault]:
        """Return the pending faults, each with the number of times it will still occur."""
        return self._driver.run(self._remote.faults())

    def set_webhook(self, webhook: Webhook | None) -> Webhook | None:
        """Set or replace the webhook, which is called for events of this inbox; None removes it.

        Returns the webhook with its ``secret``, which cannot be read later. Raises ``InvalidRequest`` if the operator
        does not allow the URL, and ``WebhooksOff`` if the operator does not allow webhooks.
        """
        return self._driver.run(self._remote.set_webhook(webhook))

    def webhook(self) -> Webhook | None:
        """Return the webhook and the status of its calls, but not its secret; None if no webhook is set."""
        return self._driver.run(self._remote.webhook())

    def delete(self) -> None:
        """Delete the address and its messages."""
        self._driver.run(self._remote.delete())

    def delete_messages(self, mails: "Sequence[Mail | str] | None" = None, *, up_to: "Mail | str | None" = None) -> int:
        """Delete the given messages (or ids), all messages up to and including ``up_to``, or all messages.

        Returns the number of deleted messages, not counting messages that no longer existed. Raises ValueError if both
        arguments are given.
        """
        message_ids = None if mails is None else [views.id_of(mail) for mail in mails]
        last_id = None if up_to is None else views.id_of(up_to)
        return self._driver.run(self._remote.delete_messages(message_ids, last_id))

    def _wanted(self, **filters: Unpack[views.AllFilters]) -> Filter:
        if filters.get("to") is not None:
            raise TypeError("to= is a filter for the list of all messages; an inbox has only messages to its address")
        return super()._wanted(**filters)

    def _event(self, event: Event[Message]) -> "Event[Mail]":
        return Arrived(Mail(self._remote, event.mail, self._driver)) if isinstance(event, Arrived) else event


class AllMail(MailList):
    """All messages of a catcher, each listed once, regardless of its recipients.

    In addition to the filters of ``Inbox``, ``to`` matches a complete envelope recipient, ignoring case. Methods
    raise the errors of ``Inbox``, and ``CatchAllOff`` if the service does not catch all mail.
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def latest(self, **filters: Unpack[views.AllFilters]) -> "Mail | None":
        """Return the newest matching message without waiting, or None."""
        found = self.messages(limit=1, **filters)
        return found[0] if found else None

    def count(self, **filters: Unpack[views.AllFilters]) -> int:
        """Return the number of matching messages, without waiting."""
        return len(self.messages(**filters))

    def assert_count(
        self, count: int, *, timeout: float = 60, within: float = 1, **filters: Unpack[views.AllFilters]
    ) -> list["Mail"]:
        """Wait for exactly ``count`` matching messages and return them, oldest first.

        Raises ``WaitTimeout`` if fewer arrive, and ``UnexpectedMail`` if another message arrives in the next ``within``
        seconds.
        """
        found = self.wait_for_messages(count, timeout=timeout, **filters) if count else []
        more: views.AllFilters = {**filters, "after": found[-1]} if found else filters
        try:
            self.assert_no_mail(within=within, **more)
        except UnexpectedMail as error:
            raise UnexpectedMail(f"expected exactly {count}, but more arrived: {error}") from None
        return found

    def clear(self, *, to: str | None = None) -> int:
        """Delete all messages, or all messages to one recipient, from all inboxes; return the number of messages.

        Raises ``InvalidRequest`` if ``to`` is empty.
        """
        wanted = self._wanted() if to is None else self._wanted(to=to)
        if wanted.to is None:
            return self._driver.run(self._remote.delete_messages(None, None))
        return self._driver.run(self._remote.delete_messages_to(wanted.to))


class Mail(views.MailView):
    """A message in an inbox. Methods that send a request raise ``MessageNotFound`` if the message has been deleted."""

    def __init__(self, remote: RemoteInbox, message: Message, driver: "Driver") -> None:
        super().__init__(remote, message)
        self._driver = driver

    @property
    def html(self) -> str | None:
        """The HTML part as received, or None; ``mail.html`` fetches it on first use."""
        return self._html()

    @property
    def attachments(self) -> tuple["Attachment", ...]:
        """The attachments, in order."""
        items = self._message.attachments
        return tuple(Attachment(self._remote, self.id, item, self._driver) for item in items)

    @property
    def unsubscribe_link(self) -> str | None:
        """The List-Unsubscribe link, preferably https, or None; ``mail.unsubscribe_link`` fetches it."""
        return self._unsubscribe_link()

    def get_code(self, pattern: Pattern | None = None) -> str:
        """Return the best code, or the first match of a regular expression in the subject or else in the whole text.

        If the expression has a group, only the text matched by the first group is returned. If it is a string, ``^``
        and ``$`` match at each line. Raises ``NotInMail``, which shows the message, and ``re.error``.
        """
        if pattern is not None and self.truncated:
            self.details()
        return self._taken(waiting.code(pattern))

    def get_link(self, *, text: Pattern | None = None, url: Pattern | None = None) -> str:
        """Return the URL of the link to follow, or of the best link that contains ``text`` and ``url``.

        Without arguments, the best link must have a confidence of at least 0.3. ``text`` is compared
        ignoring case; both arguments may be compiled regular expressions. Raises ``NotInMail``.
        """
        return self._taken(waiting.link(text, url))

    def get_attachment(self, name: str) -> "Attachment":
        """Return the first attachment whose name matches a pattern such as ``invoice-*.pdf``, ignoring case.

        Raises ``NotInMail``.
        """
        return Attachment(self._remote, self.id, self._taken(waiting.attachment(name)), self._driver)

    def open(self, page: views.Page, *, remote_images: bool = False) -> None:
        """Show the message in a browser page (Playwright's): sanitised HTML without scripts, or the text.

        Remote images are only loaded with ``remote_images``. A link in the message opens a new page:
        ``page.expect_popup()``.
        """
        page.goto(self.view_url(remote_images=remote_images))

    def view_url(self, *, remote_images: bool = False) -> str:
        """Return a URL that shows the message in any browser; it is valid for a minute and needs no token."""
        return self._driver.run(self._remote.view_url(self.id, remote_images=remote_images))

    def details(self) -> Details:
        """Return details such as the headers, the HTML and the whole text; they are fetched on first use."""
        if self._details is None:
            self._details = self._driver.run(self._remote.details(self.id))
        return self._details

    def assert_authenticated(self, domain: str) -> None:
        """Check that ``domain`` is the verified sender (DMARC).

        Raises ``NotAuthenticated``, an AssertionError, with the reason and the DNS answers that the service received.
        """
        details = self._driver.run(self._remote.details(self.id))
        views.ensure_authenticated(details.authentication, domain)

    def raw(self) -> bytes:
        """Return the message as received, preceded by the service's ``Return-Path`` and ``Received`` fields."""
        return self._driver.run(self._remote.raw(self.id))

    def delete(self) -> None:
        """Delete the message from its inbox."""
        self._driver.run(self._remote.delete_message(self.id))

    def _html(self) -> str | None:
        details = self.details()
        return details.html

    def _unsubscribe_link(self) -> str | None:
        return views.unsubscribe_link(self.details())


class Attachment(views.AttachmentView):
    """An attachment of a message."""

    def __init__(self, remote: RemoteInbox, message_id: str, item: AttachmentItem, driver: "Driver") -> None:
        super().__init__(remote, message_id, item)
        self._driver = driver

    def content(self) -> bytes:
        """Return the decoded content."""
        return self._driver.run(self._remote.attachment(self._message_id, self._item.index))


class Driver:
    """Performs the I/O for the core, which decides what to send.

    At most one stream is open at a time.
    """

    def __init__(self, http: httpx2.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._http = http
        self._sleep = sleep
        self._stream: httpx2.Response | None = None
        self._pieces: Iterator[bytes] | None = None

    def for_stream(self) -> "Driver":
        """Return a separate driver for steps that open a stream."""
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
        """Close the open stream, if any."""
        if isinstance(self._pieces, Generator):
            self._pieces.close()  # the garbage collector may close the stream too late
        self._pieces = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _carry_out(self, action: Action) -> Any:
        match action:
            case SendRequest(request):
                return self._send_request(request)
            case OpenStream(request):
                return self._open(request)
            case ReadStream(request):
                return self._read(request)
            case Sleep(seconds):
                return self._sleep(seconds)
            case CheckLoop():
                return transport.blocks_loop(self._http)

    def _send_request(self, request: Request) -> Reply:
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
