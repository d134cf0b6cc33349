"""ASGI middleware of every route: counts, the client and its token bucket, checks of the header, fields of answers."""

import hashlib
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.boundedh11 import MAX_FIELDS, MAX_HEADER_BYTES
from tmpmaild.clients import LOCAL, Networks, belongs, client_ip, client_name
from tmpmaild.errors import StorageUnavailable
from tmpmaild.http.problems import Client, Problems, Resource
from tmpmaild.mail import addresses
from tmpmaild.measures import Count
from tmpmaild.ratelimit import Buckets, Decision, RateLimits

_HASH_BYTES = 4
_ADDRESSES = "addresses"
_BEFORE_SECRETS = ("view", "feed")
_SECRET_CHARACTERS = 40  # those of tokens, views and feeds are 43 long

access_log = logging.getLogger("tmpmaild.access")


class AccessLog:
    """Logs each request once its answer has ended: client, method, path, status, milliseconds.

    An address in a path becomes a hash of eight characters, the same for the same inbox as long as the process lives,
    so that one inbox can be followed without being known. ``key`` is random: without it the addresses that a hash may
    stand for could be tried.
    """

    def __init__(self, app: ASGIApp, *, key: bytes, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._key = key
        self._monotonic = monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it."""
        begun = self._monotonic()
        status = 0

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            milliseconds = (self._monotonic() - begun) * 1000
            path = self.masked(scope["path"])
            access_log.info("%s %s %s %d %.1f ms", _client(scope), scope["method"], path, status, milliseconds)

    def masked(self, path: str) -> str:
        """Return a path in ASCII without addresses and secrets."""
        segments = path.split("/")
        before = ""
        for index, segment in enumerate(segments):
            if segment:
                segments[index] = self._shown(segment, before)
                before = segment.lower()
        return "/".join(segments)

    def _shown(self, segment: str, before: str) -> str:
        """Return a segment as it may be seen: also a path that is wrong by a letter or a slash tells nothing."""
        if before in _BEFORE_SECRETS or len(segment) >= _SECRET_CHARACTERS:
            return "…"
        if "@" in segment or before == _ADDRESSES:
            return self._hash(segment)
        return segment.encode("unicode_escape").decode()

    def _hash(self, segment: str) -> str:
        address = addresses.canonical(segment) or segment
        return hashlib.blake2b(address.encode(errors="replace"), digest_size=_HASH_BYTES, key=self._key).hexdigest()


def _client(scope: Scope) -> str:
    client = scope.get("tmpmaild.client")  # not there when the request was refused before it was looked at
    if client is not None:
        return str(client.name)
    return scope["client"][0] if scope["client"] else LOCAL


_DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}
_READING = ("GET", "HEAD")
_SAFE = (*_READING, "OPTIONS")  # RFC 9110 §9.2.1
_VARY = (b"vary", b"Origin")
_EXPOSED = (b"access-control-expose-headers", b"Link, Location, RateLimit, RateLimit-Policy, Retry-After")
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID"),
    (b"access-control-max-age", b"600"),
)


class CrossSite:
    """Middleware in front of the rate limit. ``cors_origins`` are the origins whose pages may use the API."""

    def __init__(self, app: ASGIApp, *, problems: Problems, public_url: str, cors_origins: Sequence[str]) -> None:
        self._app = app
        self._problems = problems
        self._permitted = frozenset(origin.encode() for origin in cors_origins)
        self._public_origin = b"%s://%s" % urlsplit(public_url.encode())[:2]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["path"].startswith("/api/") and self._is_cross_site(scope["method"], dict(scope["headers"])):
            await self._problems.response("cross-site")(scope, receive, with_headers(scope, send))
        else:
            await self._app(scope, receive, send)

    def _is_cross_site(self, method: str, headers: Mapping[bytes, bytes]) -> bool:
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin in self._permitted or site == b"same-origin":
            return False
        if headers.get(b"sec-purpose", b"").startswith(b"prefetch"):
            return True  # Chromium says "none" of these, although any page can cause them by speculation rules
        if site is not None:
            return site in (b"cross-site", b"same-site") and not _is_followed_link(method, headers)
        # A WebSocket's handshake is a GET, and Chromium sends no Sec-Fetch-Site with it, not even to localhost.
        is_safe = method in _SAFE and b"sec-websocket-key" not in headers
        return origin is not None and not is_safe and not self._is_own(origin, headers.get(b"host", b""))

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        scheme, _, authority = origin.partition(b"://")
        default_port = _DEFAULT_PORTS.get(scheme)
        if default_port is None:
            return False
        return origin == self._public_origin or authority == host.lower().removesuffix(default_port)


def _is_followed_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a tab navigates to the API; a form's POST is ``navigate`` too, and so is a frame's GET."""
    return (
        method in _READING
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


class Cors:
    """Adds header fields to every answer of the application, so that pages can read errors too."""

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        await self._app(scope, receive, self._permitting(scope, send))

    def _permitting(self, scope: Scope, send: Send) -> Send:
        extra = self._headers(scope)

        async def permit(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        return permit

    def _headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        origin = dict(scope["headers"]).get(b"origin")
        if origin not in self._origins:
            return [_VARY]
        asks_first = _PREFLIGHT if scope["method"] == "OPTIONS" else ()
        return [_VARY, (b"access-control-allow-origin", origin), _EXPOSED, *asks_first]


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
