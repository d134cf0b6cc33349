"""What stands before every route, as pure ASGI: the client and its token bucket, checks of the header, headers out."""

import logging
import re
import time
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.clients import LOCAL, Networks, belongs, client_ip, client_name
from tmpmaild.http.headers import EVERYWHERE, UNCACHED, UNCACHED_PATHS
from tmpmaild.http.problems import Problems
from tmpmaild.http.routes import Client
from tmpmaild.ratelimit import Decision, TokenBuckets

_MAX_HEADER_BYTES = 16 * 1024
_is_host = re.compile(rb"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?").fullmatch

access_log = logging.getLogger("tmpmaild.access")


class RateLimit:
    """Outside of everything else: finds out who asks, and takes a token for each request below ``/api/``."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        buckets: TokenBuckets | None,
        problems: Problems,
        trusted_proxies: Networks,
        exempt: Networks,
        clock_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._buckets = buckets
        self._problems = problems
        self._trusted_proxies = trusted_proxies
        self._exempt = exempt
        self._clock_seconds = clock_seconds
        if buckets is not None:
            self._policy = f'"default";q={buckets.tokens_per_minute};w=60'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await _refuse_websocket(scope, receive, send)
            return
        client = scope["tmpmaild.client"] = self._client(scope)
        if self._buckets is None or client.exempt or not _is_limited(scope):
            await self._app(scope, receive, send)
            return
        decision = self._buckets.take(client.name, self._clock_seconds())
        send = self._announcing(decision, send)
        if decision.allowed:
            await self._app(scope, receive, send)
            return
        wait = str(decision.next_token_seconds)
        response = self._problems.response("rate-limited", headers={"Retry-After": wait})
        await response(scope, receive, _with_headers(scope, send))

    def _client(self, scope: Scope) -> Client:
        peer = scope["client"][0] if scope["client"] else LOCAL
        forwarded_for: Sequence[str] = ()
        if peer == LOCAL or belongs(peer, self._trusted_proxies):
            forwarded_for = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        ip = client_ip(peer, forwarded_for, self._trusted_proxies)
        return Client(client_name(ip), belongs(ip, self._exempt))

    def _announcing(self, decision: Decision, send: Send) -> Send:
        async def announce(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["RateLimit-Policy"] = self._policy
                headers["RateLimit"] = f'"default";r={decision.remaining};t={decision.next_token_seconds}'
            await send(message)

        return announce


class Guard:
    """Refuses headers that are too large and hosts that are none; puts our headers on every answer.

    An exception that has been answered and comes through all the same ends here: it has been logged.
    """

    def __init__(self, app: ASGIApp, *, problems: Problems, allowed_hosts: Sequence[str]) -> None:
        self._app = app
        self._problems = problems
        self._allowed_hosts = frozenset(host.lower().encode() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        send = _with_headers(scope, send)
        code = self._objection(scope["headers"])
        if code is not None:
            await self._problems.response(code)(scope, receive, send)
            return
        started = time.monotonic()
        status = 0

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, note)
        except Exception:
            if status != 500:  # noqa: PLR2004 - not the answer to this exception: it broke off another one
                access_log.exception("an answer broke off")
                raise
        finally:
            _log_access(scope, status, time.monotonic() - started)

    def _objection(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        hosts = [value for name, value in headers if name == b"host"]
        # h11's own limit does not count what arrives in one read.
        if sum(len(name) + len(value) + 4 for name, value in headers) > _MAX_HEADER_BYTES:
            return "headers-too-large"
        if len(hosts) != 1 or not _is_host(hosts[0]):
            return "bad-host"
        if self._allowed_hosts and hosts[0].lower() not in self._allowed_hosts:
            name = hosts[0].lower().rpartition(b":")[0] or hosts[0].lower()
            return None if name in self._allowed_hosts else "bad-host"
        return None


def _is_limited(scope: Scope) -> bool:
    return bool(scope["path"].startswith("/api/")) and scope["method"] != "OPTIONS"


def _with_headers(scope: Scope, send: Send) -> Send:
    extra = [*EVERYWHERE, UNCACHED] if scope["path"].startswith(UNCACHED_PATHS) else list(EVERYWHERE)

    async def add_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *extra]
        await send(message)

    return add_headers


def _log_access(scope: Scope, status: int, seconds: float) -> None:
    # Paths hold addresses, which are keys to inboxes: above debug nobody logs them.
    access_log.debug("%s %s %d %.1f ms", scope["method"], ascii(scope["path"]), status, seconds * 1000)


async def _refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1000})
