"""ASGI middleware of every route: counts, the client and its token bucket, checks of the header, fields of answers."""

import logging
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.boundedh11 import MAX_FIELDS, MAX_HEADER_BYTES
from tmpmaild.errors import StorageUnavailable
from tmpmaild.http.problems import Problems
from tmpmaild.http.resource import Client, Resource
from tmpmaild.measures import Count
from tmpmaild.peers import LOCAL, Networks, belongs, client_ip, client_name
from tmpmaild.ratelimit import Buckets, Decision, RateLimits

_VIEWS = "/view/"
_new_view = re.compile(r"/api/v1/addresses/[^/]+/messages/[^/]+/view").fullmatch  # as app.py routes it
_host = re.compile(rb"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?").fullmatch

log = logging.getLogger(__name__)
EVERYWHERE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
# A cached 404 would outlive the creation of the name.
UNCACHED = (b"cache-control", b"no-store")
UNCACHED_PATHS = ("/api/", "/view/")


_OTHER_OPERATION = "other"
"""The operation of a request that is refused before its path is looked at, or whose path leads to none."""


class Counting:
    """Counts every request when its answer begins, also those that other middleware refuses."""

    def __init__(self, app: ASGIApp, requests: Count) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests.add(_operation(scope), str(message["status"]))
            await send(message)

        await self._app(scope, receive, note)


def _operation(scope: Scope) -> str:
    resource = scope.get("endpoint")  # the router puts it there
    operations = resource.operations if isinstance(resource, Resource) else {}
    return operations.get(scope["method"], _OTHER_OPERATION)


class RateLimit:
    """Finds out which client sends a request, and takes a token from its bucket if the path has a limit."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: RateLimits,
        problems: Problems,
        trusted_proxies: Networks,
        exempt: Networks,
        clock_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._limits = limits
        self._problems = problems
        self._trusted_proxies = trusted_proxies
        self._known = lru_cache(maxsize=4096)(lambda ip: Client(client_name(ip), belongs(ip, exempt), ip))
        self._clock_seconds = clock_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        client = scope["tmpmaild.client"] = self._client(scope)
        buckets = None if client.exempt else self._buckets(scope)
        if buckets is None:
            scope["tmpmaild.take_token"] = _free
            await self._app(scope, receive, send)
            return
        account = _Account(buckets, client.name, self._clock_seconds)
        scope["tmpmaild.take_token"] = account.take
        announced = _announcing(account, send)
        try:
            has_token = await account.take()
        except StorageUnavailable:
            await self._problems.response("storage-unavailable")(scope, receive, with_headers(scope, send))
            return
        if not has_token:
            await self._refuse(account.decision, scope, receive, announced)
        elif _is_new_view(scope):
            await self._app(scope, receive, self._charging_refusals(scope, receive, send, announced))
        else:
            await self._app(scope, receive, announced)

    async def _refuse(self, decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
        wait = str(decision.next_token_seconds)
        response = self._problems.response("rate-limited", headers={"Retry-After": wait})
        await response(scope, receive, with_headers(scope, send))

    def _charging_refusals(self, scope: Scope, receive: Receive, send: Send, announced: Send) -> Send:
        """Return a ``send`` for an answer to a new view; one that refuses it (4xx) takes a token of the API as well.

        Otherwise addresses could be guessed at the rate of pages. With no token left the answer becomes a 429, which
        does not tell whether the address exists.
        """
        chosen = announced

        async def charge(message: Message) -> None:
            nonlocal chosen
            default = self._limits.default
            if default is not None and 400 <= message.get("status", 0) < 500:  # noqa: PLR2004 - the class of a status
                account = _Account(default, scope["tmpmaild.client"].name, self._clock_seconds)
                chosen = _announcing(account, send)
                if not await account.take():
                    await self._refuse(account.decision, scope, receive, chosen)
                    chosen = _dropped
            await chosen(message)

        return charge

    def _client(self, scope: Scope) -> Client:
        peer = scope["client"][0] if scope["client"] else LOCAL
        forwarded_for: Sequence[str] = ()
        if peer == LOCAL or belongs(peer, self._trusted_proxies):
            forwarded_for = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        return self._known(client_ip(peer, forwarded_for, self._trusted_proxies) if forwarded_for else peer)

    def _buckets(self, scope: Scope) -> Buckets | None:
        if scope["method"] == "OPTIONS":
            return None
        if scope["path"].startswith(_VIEWS) or _is_new_view(scope):
            return self._limits.page
        return self._limits.default if scope["path"].startswith("/api/") else None


class _Account:
    """The bucket of one client; ``decision`` is the latest about it."""

    def __init__(self, buckets: Buckets, client_name: str, clock_seconds: Callable[[], float]) -> None:
        self.buckets = buckets
        self._client_name = client_name
        self._clock_seconds = clock_seconds

    async def take(self) -> bool:
        decision = self.buckets.take(self._client_name, self._clock_seconds())
        self.decision = decision if isinstance(decision, Decision) else await decision
        if not self.decision.allowed:
            log.info("HTTP from %s refused: rate-limited", self._client_name)
        return self.decision.allowed


class Guard:
    """Refuses headers that are too large and invalid hosts; adds our header fields to every answer.

    An exception of a request that was answered, or whose answer was broken off, is dropped here: it has been logged.
    """

    def __init__(self, app: ASGIApp, *, problems: Problems, allowed_hosts: Sequence[str]) -> None:
        self._app = app
        self._problems = problems
        self._allowed_hosts = frozenset(host.lower().encode() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        send = with_headers(scope, send)
        code = self._objection(scope["headers"])
        if code is not None:
            await self._problems.response(code)(scope, receive, send)
            return
        answered = False

        async def note(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        except Exception:
            if not answered:
                raise

    def _objection(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        # The server of this package has refused such headers before; another ASGI server may not.
        size_bytes = sum([len(name) + len(value) + 4 for name, value in headers])
        if size_bytes > MAX_HEADER_BYTES or len(headers) > MAX_FIELDS:
            return "headers-too-large"
        hosts = [value for name, value in headers if name == b"host"]
        host = _host(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return "bad-host"
        if self._allowed_hosts and host[1].strip(b"[]").lower() not in self._allowed_hosts:
            return "bad-host"
        return None


def _is_new_view(scope: Scope) -> bool:
    return scope["method"] == "POST" and _new_view(scope["path"]) is not None


async def _free() -> bool:
    """Take no token: the request has no limit."""
    return True


async def _dropped(_message: Message) -> None:
    """Send nothing: another answer was sent."""


def _announcing(account: _Account, send: Send) -> Send:
    async def announce(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *_rate_limit_headers(account.buckets, account.decision)]
        await send(message)

    return announce


def _rate_limit_headers(buckets: Buckets, decision: Decision) -> list[tuple[bytes, bytes]]:
    policy = f'"{buckets.name}";q={buckets.tokens_per_minute};w=60'
    state = f'"{buckets.name}";r={decision.remaining};t={decision.next_token_seconds}'
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", state.encode())]


def with_headers(scope: Scope, send: Send) -> Send:
    """Return a ``send`` that adds these fields to the answer to a request."""
    extra = [*EVERYWHERE, UNCACHED] if scope["path"].startswith(UNCACHED_PATHS) else list(EVERYWHERE)

    async def add_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *extra]
        await send(message)

    return add_headers
