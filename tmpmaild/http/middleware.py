"""The middleware around the application: refuses requests, limits their rate, and completes and counts responses."""

import logging
import re
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.boundedh11 import MAX_FIELDS, MAX_HEADER_BYTES
from tmpmaild.clients import LOCAL, Networks, belongs, client_ip, client_name, is_public
from tmpmaild.errors import StorageUnavailable
from tmpmaild.http.crosssite import CrossSite
from tmpmaild.http.problems import BadRequest, Problems
from tmpmaild.http.requests import BodyMemory, Client
from tmpmaild.http.routing import Resource
from tmpmaild.metrics import Count
from tmpmaild.ratelimit import Buckets, Decision, RateLimits
from tmpmaild.scheduling.clients import on_behalf_of

_FIELDS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
# A cached 404 would still be served after the name is created.
_UNCACHED_FIELDS = (*_FIELDS, (b"cache-control", b"no-store"))
_VIEWS = "/view/"
_UNCACHED_PATHS = ("/api/", _VIEWS)
_FORWARDED_FOR = "x-forwarded-for"
_OTHER_OPERATION = "other"
"""Requests are counted under this operation if they are refused before their path is examined, or if their path does
not exist."""
_is_new_view = re.compile(r"/api/v1/addresses/[^/]+/messages/[^/]+/view").fullmatch  # the path of the view endpoint
_host = re.compile(rb"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?").fullmatch
_NO_HOST: Final[Sequence[list[bytes]]] = ([], [b""])

log = logging.getLogger(__name__)


class Middleware:
    """Refuses a request or passes it on to ``app``; completes the header of every response, and counts it.

    It refuses, in this order: requests that ``CrossSite`` refuses, which take no token; requests over the rate limit of
    their path; headers that are too large; and invalid hosts. Exceptions that ``app`` raises are converted to problem
    documents here.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        problems: Problems,
        limits: RateLimits,
        requests: Count,
        unreadable: Count,
        untrusted: Count,
        cross_site: CrossSite,
        trusted_proxies: Networks = (),
        exempt: Networks = (),
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        self._app = app
        self._problems = problems
        self._limits = limits
        self._requests = requests
        self._cross_site = cross_site
        self._trusted_proxies = trusted_proxies
        self._allowed_hosts = frozenset(host.lower().encode() for host in allowed_hosts)
        self._unreadable = unreadable
        self._untrusted = untrusted
        self._bodies = BodyMemory()
        self._client_at = lru_cache(maxsize=4096)(lambda ip: Client(client_name(ip), belongs(ip, exempt), ip))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        exchange = _Exchange(scope, send, self._requests, self._cross_site.fields(scope))
        if self._cross_site.refuses(scope):
            refusal = self._problems.response_to(Request(scope), BadRequest("cross-site"))
            await refusal(scope, receive, exchange.send)
            return
        client = scope["tmpmaild.client"] = self._client(scope)
        scope["tmpmaild.take_token"] = exchange.take_token
        scope["tmpmaild.bodies"] = self._bodies
        is_new_view = scope["method"] == "POST" and _is_new_view(scope["path"]) is not None
        buckets = None if client.exempt else self._buckets(scope, is_new_view=is_new_view)
        send = exchange.send
        if buckets is not None:
            rate_limited = await self._charge(exchange, buckets, client)
            if rate_limited is not None:
                await rate_limited(scope, receive, send)
                return
            if is_new_view:
                send = self._charging_refusals(exchange, scope, receive)
        code = self._invalid_header(scope)
        if code is not None:
            await self._problems.response(code)(scope, receive, send)
            return
        try:
            with on_behalf_of(client.name):
                await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - an unexpected error is logged as a fault
            response = self._problems.response_to(Request(scope), error, has_begun=exchange.has_begun)
            if not exchange.has_begun:
                await response(scope, receive, send)

    def _client(self, scope: Scope) -> Client:
        peer = scope["client"][0] if scope["client"] else LOCAL
        headers = Headers(scope=scope)
        if peer != LOCAL and not (self._trusted_proxies and belongs(peer, self._trusted_proxies)):
            client = self._client_at(peer)
            # Anybody on the internet can send this header, but an internal address that sends it is probably a proxy.
            if _FORWARDED_FOR in headers and not (client.exempt or is_public(peer)):
                self._report_untrusted(peer)
            return client
        given = ",".join(headers.getlist(_FORWARDED_FOR))
        ip, is_unreadable = client_ip(peer, given.split(",") if given else (), self._trusted_proxies)
        if is_unreadable:
            self._unreadable.add()
            log.warning(
                "HTTP: X-Forwarded-For from the proxy %s does not end with an IP address, so all its visitors share one"
                " rate limit and cannot be blocked individually",
                ip,
                extra={"event": "http_forwarded_for", "client": ip},
            )
        return self._client_at(ip)

    def _report_untrusted(self, peer: str) -> None:
        self._untrusted.add()
        log.warning(
            "HTTP: %s sent X-Forwarded-For, but is not in http.trusted_proxies; if it is a proxy, all its visitors"
            " share one rate limit and cannot be blocked individually",
            peer,
            extra={"event": "http_untrusted_forwarded_for", "client": peer},
        )

    def _buckets(self, scope: Scope, *, is_new_view: bool) -> Buckets | None:
        """Return the buckets from which a request takes its token; None if it needs no token."""
        if scope["method"] == "OPTIONS":
            return None
        if is_new_view or scope["path"].startswith(_VIEWS):
            return self._limits.page
        return self._limits.default if scope["path"].startswith("/api/") else None

    async def _charge(self, exchange: "_Exchange", buckets: Buckets, client: Client) -> Response | None:
        """Take a token for a request; return an error response if no token is left."""
        exchange.charge_to(buckets, client.name)
        try:
            if await exchange.take_token():
                return None
        except StorageUnavailable:
            return self._problems.response("storage-unavailable")
        assert exchange.decision is not None
        wait_seconds = exchange.decision.next_token_seconds
        return self._problems.response("rate-limited", headers={"Retry-After": str(wait_seconds)})

    def _charging_refusals(self, exchange: "_Exchange", scope: Scope, receive: Receive) -> Send:
        """Return a ``send`` callable for the response to a new view.

        A 4xx response also takes a token from the API's bucket. Otherwise, a client could guess addresses at the higher
        rate that applies to pages. If no token is left, the response becomes a 429, which does not reveal whether the
        address exists.
        """
        is_replaced = False

        async def charge(event: Message) -> None:
            nonlocal is_replaced
            default = self._limits.default
            if default is not None and 400 <= event.get("status", 0) < 500:  # noqa: PLR2004 - the 4xx status class
                rate_limited = await self._charge(exchange, default, scope["tmpmaild.client"])
                if rate_limited is not None:
                    is_replaced = True
                    await rate_limited(scope, receive, exchange.send)
            if not is_replaced:
                await exchange.send(event)

        return charge

    def _invalid_header(self, scope: Scope) -> str | None:
        """Return the problem code for an invalid request header, or None."""
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        # Our own server has already refused such headers, but a different ASGI server may have let them through.
        size_bytes, hosts = 4 * len(headers), []
        for name, value in headers:
            size_bytes += len(name) + len(value)
            if name == b"host":
                hosts.append(value)
        if size_bytes > MAX_HEADER_BYTES or len(headers) > MAX_FIELDS:
            return "headers-too-large"
        if hosts in _NO_HOST and scope["http_version"] == "1.0":  # RFC 9112 §3.2 requires Host only since HTTP/1.1
            return None
        host = _host(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return "bad-host"
        # ``allowed_hosts`` contains hosts without brackets and without a trailing dot.
        if self._allowed_hosts and host[1].strip(b"[]").removesuffix(b".").lower() not in self._allowed_hosts:
            return "bad-host"
        return None


class _Exchange:
    """One request and its response, with the bucket from which the request takes a token, if any.

    When the response starts, it is counted, and our header fields are added; ``decision`` determines the rate limit
    fields.
    """

    decision: Decision | None = None
    has_begun = False
    _buckets: Buckets | None = None

    def __init__(self, scope: Scope, send: Send, requests: Count, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self._scope = scope
        self._send = send
        self._requests = requests
        self._fields = fields

    def charge_to(self, buckets: Buckets, client_name: str) -> None:
        """Take tokens from this client's bucket from now on."""
        self._buckets, self.decision = buckets, None
        self._client_name = client_name

    async def take_token(self) -> bool:
        """Take a token from the bucket; return False if the bucket is empty."""
        if self._buckets is None:
            return True
        decision = self._buckets.take(self._client_name, time.monotonic())
        self.decision = decision if isinstance(decision, Decision) else await decision
        if not self.decision.allowed:
            extra = {"event": "http_refused", "client": self._client_name, "code": "rate-limited"}
            log.info("HTTP from %s refused: rate-limited", self._client_name, extra=extra)
        return self.decision.allowed

    async def send(self, event: Message) -> None:
        """Send part of the response."""
        self.has_begun = True
        if event["type"] == "http.response.start":
            scope, buckets, decision = self._scope, self._buckets, self.decision
            resource = scope.get("endpoint")  # set by the router
            operations = resource.operations if isinstance(resource, Resource) else {}
            self._requests.add(operations.get(scope["method"], _OTHER_OPERATION), str(event["status"]))
            headers = [*event["headers"], *(_UNCACHED_FIELDS if scope["path"].startswith(_UNCACHED_PATHS) else _FIELDS)]
            if buckets is not None and decision is not None:
                policy = f'"{buckets.name}";q={buckets.tokens_per_minute};w=60'
                state = f'"{buckets.name}";r={decision.remaining};t={decision.next_token_seconds}'
                headers += ((b"ratelimit-policy", policy.encode()), (b"ratelimit", state.encode()))
            event["headers"] = [*headers, *self._fields]
        await self._send(event)
