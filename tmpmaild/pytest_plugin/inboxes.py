"""Opens and deletes the inboxes of tests, and shows their messages in the report of a failed test."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, Unpack

import pytest

from tmpmaild.client import (
    AddressExpired,
    AddressNotFound,
    AllFilters,
    AllMail,
    AsyncAllMail,
    AsyncInbox,
    CatchAllOff,
    Client,
    Inbox,
    Mail,
    TmpmaildError,
    aio,
    sync,
    transport,
)
from tmpmaild.client.errors import beginning, heading, printable
from tmpmaild.client.remote import Filter, RemoteService
from tmpmaild.pytest_plugin.embedded import Service

# isort: split
# Imported after the client, whose import error says how to install httpx2 if it is missing.
import httpx2

_MAX_MAILS = 10
_MAX_REFUSALS = 20
_MAX_LINK_CHARACTERS = 2000
_MAX_ATTACHED_BYTES = 1_048_576
_MEDIA_TYPES = {"txt": "text/plain", "html": "text/html", "eml": "message/rfc822"}


class Opened(NamedTuple):
    """A test's inbox, for synchronous and asynchronous code; both forms share one remote object."""

    inbox: Inbox
    async_inbox: AsyncInbox
    created_at: datetime | None


class OpenedAllMail(NamedTuple):
    """The list of all messages, for synchronous and asynchronous code."""

    all_mail: AllMail
    async_all_mail: AsyncAllMail


class Clients:
    """The clients of a session: the client for tests, and the drivers for both kinds of inboxes."""

    def __init__(self, service: Service, http: httpx2.Client, async_http: httpx2.AsyncClient) -> None:
        self.service = service
        self.http = http
        self.plain = Client(service.url, wait_out_rate_limit=True, http=http)
        self._remote = RemoteService(self.plain.url, clock=time.monotonic, wait_out_rate_limit=True)
        self._driver = sync.Driver(http)
        self._async_driver = aio.Driver(async_http)

    def create(self, local_part: str | None = None, **wanted: Any) -> Opened:
        """Create an inbox as ``Client.create`` does."""
        remote = self._driver.run(self._remote.create(local_part, **wanted))
        return Opened(Inbox(remote, self._driver), AsyncInbox(remote, self._async_driver), remote.created_at)

    def all_mail(self, *, is_shared: bool) -> "OpenedAllMail":
        """Return the list of all messages; ``is_shared`` means that other tests use the service too."""
        remote = self._remote.all_mail()
        if is_shared:
            return OpenedAllMail(SharedAllMail(remote, self._driver), SharedAsyncAllMail(remote, self._async_driver))
        return OpenedAllMail(AllMail(remote, self._driver), AsyncAllMail(remote, self._async_driver))


@contextmanager
def clients(service: Service) -> Iterator[Clients]:
    """Open the clients of the session. Raises ValueError if the URL is not valid for a service."""
    rate_limit_warning = _RateLimitWarning(service.url)
    async_http = transport.opened(
        httpx2.AsyncClient,
        service.url,
        # No connection is kept alive, so each call may run in a different event loop.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        event_hooks={"response": [rate_limit_warning.check_later]},
    )
    with transport.opened(httpx2.Client, service.url, event_hooks={"response": [rate_limit_warning.check]}) as http:
        yield Clients(service, http, async_http)


class SharedAllMail(AllMail):
    """All messages of a service that other tests use at the same time; each call needs ``to``."""

    def _wanted(self, **filters: Unpack[AllFilters]) -> Filter:
        _require_recipient(filters)
        return super()._wanted(**filters)


class SharedAsyncAllMail(AsyncAllMail):
    """The asynchronous form of ``SharedAllMail``."""

    def _wanted(self, **filters: Unpack[AllFilters]) -> Filter:
        _require_recipient(filters)
        return super()._wanted(**filters)


def _require_recipient(filters: AllFilters) -> None:
    if not filters.get("to"):
        pytest.fail(
            "tmpmaild: all_mail needs to= here: tests in parallel use one service (--tmpmaild-url), and see each "
            "other's messages",
            pytrace=False,
        )


@contextmanager
def all_mail_of(clients: Clients, *, is_shared: bool) -> Iterator[OpenedAllMail]:
    """Open the list of all messages for one test, and delete them afterwards unless other tests share the service."""
    if ending := clients.service.ended():
        pytest.fail(f"tmpmaild: {ending}", pytrace=False)
    try:
        clients.plain.all_mail().latest()
    except CatchAllOff:
        raise pytest.fail.Exception(
            "tmpmaild: all_mail needs a service that catches all mail: tmpmaild_catch_all = true in the ini file, or "
            "--tmpmaild-url of tmpmaild catch",
            pytrace=False,
        ) from None
    found = clients.all_mail(is_shared=is_shared)
    yield found
    if not is_shared:
        try:
            found.all_mail.clear()
        except TmpmaildError as error:
            _warn(f"the messages were not deleted: {error}")


class _RateLimitWarning:
    """Warns once if the rate limit refuses a request, because the clients then wait, which makes tests slow."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._has_warned = False

    def check(self, response: httpx2.Response) -> None:
        """Warn if the status of a response is 429."""
        if response.status_code == httpx2.codes.TOO_MANY_REQUESTS and not self._has_warned:
            self._has_warned = True
            _warn(
                f"{self._url} limits the request rate of this machine (429), so tests wait. In its configuration, add "
                "this machine to limits.exempt, or set rate_limit.requests_per_minute = 0"
            )

    async def check_later(self, response: httpx2.Response) -> None:
        """Do the same as ``check`` for the asynchronous client."""
        self.check(response)


def delete(inbox: Inbox) -> None:
    """Delete an inbox, unless the test has done so; only warn if that fails, since the test itself may have passed."""
    try:
        inbox.delete()
    except (AddressExpired, AddressNotFound):
        pass
    except TmpmaildError as error:
        _warn(f"{inbox.address} was not deleted: {error}")


def _warn(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # show a warning even if warnings are configured as errors
        warnings.warn(f"tmpmaild: {text}", stacklevel=2)


class Attachment(NamedTuple):
    """A file for a report; ``extension`` is txt, html or eml."""

    name: str
    extension: str
    content: bytes


def extend(report: pytest.TestReport, opened: Sequence[Opened], clients: Clients, config: pytest.Config) -> None:
    """Add the messages of a failed test to its report, or an error if they cannot be read."""
    if ending := clients.service.ended():
        report.sections.append(("tmpmaild", ending))
        return
    inboxes = [one.inbox for one in opened]
    report.sections += [*map(_section, inboxes), *_refused(opened, clients.plain)]
    wants_html = config.getoption("htmlpath", None)
    wants_allure = config.getoption("allure_report_dir", None)
    if wants_html or wants_allure:
        attachments = [one for inbox in inboxes for one in _attachments(inbox, clients.http)]
        if wants_html:
            _attach_to_html(report, attachments)
        if wants_allure:
            _attach_to_allure(attachments)


def _section(inbox: Inbox) -> tuple[str, str]:
    """Return the title and the text of an inbox's section."""
    try:
        newest = inbox.messages(limit=_MAX_MAILS + 1)
        text = "\n".join(_listing(newest)) or "no messages"
    except Exception as error:  # noqa: BLE001 - the test's own failure must be reported instead of this error
        text = f"the messages cannot be read: {printable(str(error))}"
    return f"tmpmaild: messages of {printable(inbox.address)}", text


def _refused(opened: Sequence[Opened], client: Client) -> Iterator[tuple[str, str]]:
    """Yield a section with the refusals since the first inbox was created, if the service records refusals."""
    begun = min(filter(None, (one.created_at for one in opened)), default=None)
    try:
        refusals = [one for one in client.refusals() if begun is None or one.at >= begun]
    except Exception:  # noqa: BLE001 - most services do not record refusals
        return
    lines = [f"{one.at:%X}  {one.client}  {printable(one.command)}  {printable(one.reason)}" for one in refusals]
    if lines:
        yield "tmpmaild: refused by the mail server in the meantime", "\n".join(lines[-_MAX_REFUSALS:])


def _listing(newest: Sequence[Mail]) -> Iterator[str]:
    if len(newest) > _MAX_MAILS:
        yield f"(older messages are left out; these are the {_MAX_MAILS} newest)"
    for mail in reversed(newest[:_MAX_MAILS]):
        yield _heading(mail)
        if mail.code:
            yield f"  code: {printable(mail.code)}"
        if mail.link:
            yield f"  link: {printable(mail.link, _MAX_LINK_CHARACTERS)}"
        yield from beginning(mail.text)


def _heading(mail: Mail) -> str:
    return heading(mail.received_at, mail.sender, mail.subject)


def _attachments(inbox: Inbox, http: httpx2.Client) -> Iterator[Attachment]:
    """Yield the text, view and source of the newest messages, oldest first; for large messages, only the text."""
    try:
        for number, mail in enumerate(reversed(inbox.messages(limit=_MAX_MAILS)), 1):
            name = f"{inbox.address} mail {number}"
            yield Attachment(f"{name} text", "txt", f"{_heading(mail)}\n\n{mail.text}".encode(errors="replace"))
            if mail.size_bytes > _MAX_ATTACHED_BYTES:
                continue
            if mail.has_html:
                yield Attachment(f"{name} HTML", "html", http.get(mail.view_url()).raise_for_status().content)
            yield Attachment(f"{name} source", "eml", mail.raw())
    except Exception as error:  # noqa: BLE001 - as above
        yield Attachment(f"{inbox.address} error", "txt", f"its mail cannot be read: {error}".encode(errors="replace"))


def _attach_to_html(report: pytest.TestReport, attachments: Sequence[Attachment]) -> None:
    """Add files to the pytest-html report, with its format "text", which links to a file of any type."""
    extras = [
        {
            "name": one.name,
            "format_type": "text",
            "content": one.content.decode(errors="replace"),
            "mime_type": _MEDIA_TYPES[one.extension],
            "extension": one.extension,
        }
        for one in attachments
    ]
    report.extras = [*getattr(report, "extras", []), *extras]  # type: ignore[attr-defined]  # pytest-html reads it


def _attach_to_allure(attachments: Sequence[Attachment]) -> None:
    import allure  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - installed if its option is set

    for one in attachments:
        kind = _MEDIA_TYPES[one.extension]
        allure.attach(one.content, name=one.name, attachment_type=kind, extension=one.extension)
