# Made from aio.py by tools/sync_client.py: change that one, then run `make client`.
"""The client for code without ``await``: the service and its inboxes. Mails are in ``syncmail.py``."""

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Self, TypeVar

import httpx2

from tmpmaild.client import goals, transport
from tmpmaild.client.goals import Pattern
from tmpmaild.client.reconnecting import Arrived, Event, ReconnectingStream
from tmpmaild.client.remote import Held, RemoteInbox, RemoteService
from tmpmaild.client.syncdriver import Driver
from tmpmaild.client.syncmail import Mail
from tmpmaild.client.views import InboxView, wanted
from tmpmaild.client.waiting import Waiting
from tmpmaild.client.wire import Fault, Message, Refusal

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
        self._http = http or httpx2.Client(limits=transport.LIMITS)
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
    ) -> "Inbox":
        """Create an address; without a local part a random one. A private one is read with its token only.

        It lives for ``expires_in_seconds``, which the operator bounds; by default as long as the operator has set.
        ``faults`` are as in ``Inbox.set_faults``. Raises ``AddressTaken``, ``InvalidRequest``, ``StorageFull``.
        """
        steps = self._remote.create(
            local_part, domain, private=private, expires_in_seconds=expires_in_seconds, faults=faults
        )
        return Inbox(self._driver.run(steps), self._driver)

    def inbox(self, address: str, token: str | None = None) -> "Inbox":
        """Return an inbox that exists; the token is needed to change it, and to read it if it is private.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        return Inbox(self._driver.run(self._remote.find(address, token)), self._driver)

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


class Inbox(InboxView):
    """An address and its mail. All calls raise ``AddressExpired``, ``AddressNotFound``, ``Unauthorized`` as well."""

    def __init__(self, remote: RemoteInbox, driver: Driver) -> None:
        super().__init__(remote)
        self._driver = driver

    def messages(
        self,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "Mail | str | None" = None,
        limit: int | None = None,
    ) -> list["Mail"]:
        """Return the mails, newest first, at most ``limit``.

        ``subject`` and ``sender`` (address or name) keep what contains them, in any case, ``text`` looks in both and in
        the text; ``has`` is "code", "link", "attachment" (one that is not inline) or several of them; ``after`` is a
        mail or its id. Raises ValueError for anything else in ``has``.
        """
        found = self._remote.messages(wanted(subject, sender, text, after, has), limit)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found)]

    def message(self, message_id: str) -> "Mail":
        """Return the mail with this id, its text whole. Raises ``MessageNotFound``."""
        return Mail(self._remote, self._driver.run(self._remote.message(message_id)), self._driver)

    def wait_for(
        self,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "Mail | str | None" = None,
        timeout: float = 60,
    ) -> "Mail":
        """Return the oldest mail that matches (as ``messages`` has it) and comes within ``timeout`` seconds.

        What is there already counts; for a second mail of the same kind give the first as ``after``. Raises
        ``WaitTimeout``, at most a second late, which says what came instead (at once if the service refuses requests
        for longer than what is left); ``AddressExpired`` as soon as the address ends.
        """
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.MAIL, timeout)
        return Mail(self._remote, self._driver.run(found.steps()), self._driver)

    def wait_for_messages(
        self,
        count: int,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "Mail | str | None" = None,
        timeout: float = 60,
    ) -> list["Mail"]:
        """Return the ``count`` oldest such mails, oldest first, as soon as they are there; else as ``wait_for``."""
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.several(count), timeout)
        return [Mail(self._remote, message, self._driver) for message in self._driver.run(found.steps())]

    def assert_no_mail(
        self,
        *,
        within: float,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "Mail | str | None" = None,
    ) -> None:
        """Wait ``within`` seconds. Raises ``UnexpectedMail``, an AssertionError, as soon as such a mail is there.

        What is there already counts, unless it came before ``after``. A service that does not answer proves nothing:
        ``ServiceUnreachable`` and the temporary problems are raised if the last request failed.
        """
        unwanted = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.MAIL, within)
        self._driver.run(unwanted.ensure_none())

    def wait_for_code(
        self,
        *,
        pattern: Pattern | None = None,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "Mail | str | None" = None,
        timeout: float = 60,
    ) -> str:
        """Return the code of the oldest such mail that has one; else as ``wait_for``.

        ``pattern`` is a regular expression, as in ``Mail.get_code``.
        """
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.code(pattern), timeout)
        return self._driver.run(found.steps())

    def wait_for_link(
        self,
        *,
        link_text: Pattern | None = None,
        url: Pattern | None = None,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "Mail | str | None" = None,
        timeout: float = 60,
    ) -> str:
        """Return the link to follow (confidence 0.3 or more) in the oldest such mail with one; else as ``wait_for``.

        ``link_text`` and ``url`` choose the link, as in ``Mail.get_link``.
        """
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.link(link_text, url), timeout)
        return self._driver.run(found.steps())

    def follow(self, after: "Mail | str | None" = None) -> Generator["Event[Mail]", None, None]:
        """Yield what happens, from the beginning or after a mail, until the address ends.

        ``Arrived`` comes once for each mail, however often the connection breaks. ``Deleted`` and ``Extended`` come
        only while there is a connection; the end of the address is always reported. Raises ``ServiceUnreachable`` (or
        the ``Problem`` it was) when the service has been away for a minute. To stop earlier, close the generator, or
        its connection stays open: ``with closing(inbox.follow()) as events``.
        """
        stream = ReconnectingStream(self._remote, wanted(None, None, None, after).after)
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

    def delete(self) -> None:
        """Delete the address and its mail."""
        self._driver.run(self._remote.delete())

    def _event(self, event: Event[Message]) -> "Event[Mail]":
        return Arrived(Mail(self._remote, event.mail, self._driver)) if isinstance(event, Arrived) else event
