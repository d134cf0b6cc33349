"""The client for code with ``await``: the service and its inboxes. Mails are in ``aiomail.py``."""

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Self, TypeVar

import anyio
import httpx2

from tmpmaild.client import goals, transport
from tmpmaild.client.aiodriver import Driver
from tmpmaild.client.aiomail import AsyncMail
from tmpmaild.client.goals import Pattern
from tmpmaild.client.reconnecting import Arrived, Event, ReconnectingStream
from tmpmaild.client.remote import Held, RemoteInbox, RemoteService
from tmpmaild.client.views import InboxView, wanted
from tmpmaild.client.waiting import Waiting
from tmpmaild.client.wire import Fault, Message, Refusal

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
        faults: Sequence[Fault] = (),
    ) -> "AsyncInbox":
        """Create an address; without a local part a random one. A private one is read with its token only.

        It lives for ``expires_in_seconds``, which the operator bounds; by default as long as the operator has set.
        ``faults`` are as in ``AsyncInbox.set_faults``. Raises ``AddressTaken``, ``InvalidRequest``, ``StorageFull``.
        """
        steps = self._remote.create(
            local_part, domain, private=private, expires_in_seconds=expires_in_seconds, faults=faults
        )
        return AsyncInbox(await self._driver.run(steps), self._driver)

    async def inbox(self, address: str, token: str | None = None) -> "AsyncInbox":
        """Return an inbox that exists; the token is needed to change it, and to read it if it is private.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        return AsyncInbox(await self._driver.run(self._remote.find(address, token)), self._driver)

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
        has: "Held | Sequence[Held]" = (),
        after: "AsyncMail | str | None" = None,
        limit: int | None = None,
    ) -> list["AsyncMail"]:
        """Return the mails, newest first, at most ``limit``.

        ``subject`` and ``sender`` (address or name) keep what contains them, in any case, ``text`` looks in both and in
        the text; ``has`` is "code", "link", "attachment" (one that is not inline) or several of them; ``after`` is a
        mail or its id. Raises ValueError for anything else in ``has``.
        """
        found = self._remote.messages(wanted(subject, sender, text, after, has), limit)
        return [AsyncMail(self._remote, message, self._driver) for message in await self._driver.run(found)]

    async def message(self, message_id: str) -> "AsyncMail":
        """Return the mail with this id, its text whole. Raises ``MessageNotFound``."""
        return AsyncMail(self._remote, await self._driver.run(self._remote.message(message_id)), self._driver)

    async def wait_for(
        self,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "AsyncMail | str | None" = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
    ) -> "AsyncMail":
        """Return the oldest mail that matches (as ``messages`` has it) and comes within ``timeout`` seconds.

        What is there already counts; for a second mail of the same kind give the first as ``after``. Raises
        ``WaitTimeout``, at most a second late, which says what came instead (at once if the service refuses requests
        for longer than what is left); ``AddressExpired`` as soon as the address ends.
        """
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.MAIL, timeout)
        return AsyncMail(self._remote, await self._driver.run(found.steps()), self._driver)

    async def wait_for_messages(
        self,
        count: int,
        *,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "AsyncMail | str | None" = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
    ) -> list["AsyncMail"]:
        """Return the ``count`` oldest such mails, oldest first, as soon as they are there; else as ``wait_for``."""
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.several(count), timeout)
        return [AsyncMail(self._remote, message, self._driver) for message in await self._driver.run(found.steps())]

    async def assert_no_mail(
        self,
        *,
        within: float,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "AsyncMail | str | None" = None,
    ) -> None:
        """Wait ``within`` seconds. Raises ``UnexpectedMail``, an AssertionError, as soon as such a mail is there.

        What is there already counts, unless it came before ``after``. A service that does not answer proves nothing:
        ``ServiceUnreachable`` and the temporary problems are raised if the last request failed.
        """
        unwanted = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.MAIL, within)
        await self._driver.run(unwanted.ensure_none())

    async def wait_for_code(
        self,
        *,
        pattern: Pattern | None = None,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "AsyncMail | str | None" = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
    ) -> str:
        """Return the code of the oldest such mail that has one; else as ``wait_for``.

        ``pattern`` is a regular expression, as in ``AsyncMail.get_code``.
        """
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.code(pattern), timeout)
        return await self._driver.run(found.steps())

    async def wait_for_link(
        self,
        *,
        link_text: Pattern | None = None,
        url: Pattern | None = None,
        subject: str | None = None,
        sender: str | None = None,
        text: str | None = None,
        has: "Held | Sequence[Held]" = (),
        after: "AsyncMail | str | None" = None,
        timeout: float = 60,  # noqa: ASYNC109 - the service waits so long; nothing is cancelled
    ) -> str:
        """Return the link to follow (confidence 0.3 or more) in the oldest such mail with one; else as ``wait_for``.

        ``link_text`` and ``url`` choose the link, as in ``AsyncMail.get_link``.
        """
        found = Waiting(self._remote, wanted(subject, sender, text, after, has), goals.link(link_text, url), timeout)
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

    async def set_faults(self, faults: Sequence[Fault]) -> None:
        """Make the next mails to this address fail, or end that with an empty list; see ``Fault``.

        Raises ``InvalidRequest`` if one is impossible, or if the service does not allow them (``smtp.faults``).
        """
        await self._driver.run(self._remote.set_faults(faults))

    async def faults(self) -> list[Fault]:
        """Return the faults that are still to come, each with how often."""
        return await self._driver.run(self._remote.faults())

    async def delete(self) -> None:
        """Delete the address and its mail."""
        await self._driver.run(self._remote.delete())

    def _event(self, event: Event[Message]) -> "Event[AsyncMail]":
        return Arrived(AsyncMail(self._remote, event.mail, self._driver)) if isinstance(event, Arrived) else event
