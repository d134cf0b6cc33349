"""The clients of a session and the inboxes of its tests: opening, deleting, and what is worth a warning."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tmpmaild.client import AddressExpired, AddressNotFound, AsyncClient, AsyncInbox, Client, Inbox, TmpmaildError
from tmpmaild.pytest_plugin.services import Service

# isort: split
# After the client, which says how to install these if they are missing.
import httpx2


class Clients:
    """Both clients of a session; ``asynchronous`` keeps no connection, so each of its calls may be on another loop."""

    def __init__(self, service: Service, http: httpx2.Client, async_http: httpx2.AsyncClient) -> None:
        self.service = service
        self.plain = Client(service.url, wait_out_rate_limit=True, http=http)
        self.asynchronous = AsyncClient(service.url, wait_out_rate_limit=True, http=async_http)
        self.http = http

    def awaited(self, inbox: Inbox) -> AsyncInbox:
        """Return the same inbox for code with ``await``, without a request: both clients share what they know of it."""
        return AsyncInbox(inbox._remote, self.asynchronous._driver)  # noqa: SLF001 - see above


@contextmanager
def clients(service: Service) -> Iterator[Clients]:
    """Open the clients of the session. Raises ValueError if the URL is not one of a service."""
    patience = _Patience(service.url)
    settings: dict[str, Any] = {"trust_env": not service.is_embedded}
    async_http = httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        event_hooks={"response": [patience.look_later]},
        **settings,
    )
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    with httpx2.Client(limits=limits, event_hooks={"response": [patience.look]}, **settings) as http:
        yield Clients(service, http, async_http)


class _Patience:
    """Warns once when the service limits the rate: the clients wait then, and tests become slow."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._has_warned = False

    def look(self, response: httpx2.Response) -> None:
        """Look at an answer."""
        if response.status_code == httpx2.codes.TOO_MANY_REQUESTS and not self._has_warned:
            self._has_warned = True
            _warn(
                f"{self._url} limits how often this machine may ask (429), so tests wait. In its configuration, add "
                "this machine to limits.exempt, or set rate_limit.requests_per_minute = 0"
            )

    async def look_later(self, response: httpx2.Response) -> None:
        """Look at an answer of the client with ``await``."""
        self.look(response)


def delete(inbox: Inbox) -> None:
    """Delete an inbox, if the test has not; warn if that fails, since the test says nothing about it."""
    try:
        inbox.delete()
    except (AddressExpired, AddressNotFound):
        pass
    except TmpmaildError as error:
        _warn(f"{inbox.address} was not deleted: {error}")


def _warn(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # where warnings are errors it stays a warning
        warnings.warn(f"tmpmaild: {text}", stacklevel=2)
