"""The inboxes of one test: opening, deleting, and what the report of a failed test shows of their mail."""

import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from tmpmaild.client import (
    AddressExpired,
    AddressNotFound,
    AsyncClient,
    AsyncInbox,
    AsyncMail,
    Client,
    Inbox,
    Mail,
    TmpmaildError,
)
from tmpmaild.client.errors import printable
from tmpmaild.pytest_plugin.services import Service

# isort: split
# After the client, which says how to install these if they are missing.
import anyio
import httpx2

_MAX_MAILS = 10
_MAX_LINES = 15
_MAX_CHARACTERS = 200
_MAX_LINK_CHARACTERS = 2000


class Opened(NamedTuple):
    """An inbox of the running test, whichever client opened it; ``newest`` takes how many mails to return at most."""

    address: str
    newest: Callable[[int], Sequence[Mail | AsyncMail]]
    delete: Callable[[], None]


@contextmanager
def client(service: Service) -> Iterator[Client]:
    """Open the client of the session. Raises ValueError if the URL is not one of a service."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    with httpx2.Client(limits=limits, trust_env=not service.is_embedded) as http:
        yield Client(service.url, wait_out_rate_limit=True, http=http)


@contextmanager
def async_client(service: Service) -> Iterator[AsyncClient]:
    """Open the asynchronous client of the session: it keeps no connection, so each call may be on another loop."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    http = httpx2.AsyncClient(limits=limits, trust_env=not service.is_embedded)
    try:
        yield AsyncClient(service.url, wait_out_rate_limit=True, http=http)
    finally:
        run_in_thread(http.aclose)


def run_in_thread(function: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
    """Run a coroutine function on a loop of its own in a thread: a loop may be running in this one.

    (pytest-playwright, for one, keeps a loop running while it runs tests without ``await``.)
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, partial(function, *arguments, **named)).result()


def opened(inbox: Inbox) -> Opened:
    """Return what the report and the teardown need of an inbox."""
    return Opened(inbox.address, lambda limit: inbox.messages(limit=limit), inbox.delete)


def opened_async(inbox: AsyncInbox) -> Opened:
    """Return the same of one with ``await``."""
    return Opened(
        inbox.address, lambda limit: run_in_thread(inbox.messages, limit=limit), lambda: run_in_thread(inbox.delete)
    )


def delete(inbox: Opened) -> None:
    """Delete an inbox, if the test has not; warn if that fails, since the test says nothing about it."""
    try:
        inbox.delete()
    except (AddressExpired, AddressNotFound):
        pass
    except TmpmaildError as error:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # where warnings are errors it stays a warning
            warnings.warn(f"tmpmaild: {inbox.address} was not deleted: {error}", stacklevel=2)


def section(inbox: Opened) -> tuple[str, str]:
    """Return title and text of a report's section. Never raises, so that the failure of the test is reported."""
    try:
        newest = inbox.newest(_MAX_MAILS + 1)
        text = "\n".join(_listing(newest)) or "none came"
    except Exception as error:  # noqa: BLE001 - see above
        text = f"they cannot be read: {printable(str(error))}"
    return f"tmpmaild: mails of {printable(inbox.address)}", text


def _listing(newest: Sequence[Mail | AsyncMail]) -> Iterator[str]:
    if len(newest) > _MAX_MAILS:
        yield f"(older ones are left out; these are the {_MAX_MAILS} newest)"
    for mail in reversed(newest[:_MAX_MAILS]):
        time = mail.received_at.isoformat(sep=" ", timespec="seconds")
        sender = printable(mail.sender) or "unknown sender"
        yield f"{time}  {sender}  {printable(mail.subject) or '(no subject)'}"
        if mail.code:
            yield f"  code: {printable(mail.code)}"
        if mail.link:
            yield f"  link: {printable(mail.link, _MAX_LINK_CHARACTERS)}"
        yield from _beginning(mail.text)


def _beginning(text: str) -> Iterator[str]:
    lines = [line for line in text[: _MAX_LINES * _MAX_CHARACTERS].split("\n") if line.strip()]
    yield from (f"  | {printable(line)}" for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES or len(text) > _MAX_LINES * _MAX_CHARACTERS:
        yield "  | …"
