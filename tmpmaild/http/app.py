"""The HTTP application: its routes, and the middleware around them. ``server.py`` serves it.

The middleware refuses requests of other websites, limits rates, adds header fields and writes the access log.
"""

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.boundedh11 import MAX_FIELDS, MAX_HEADER_BYTES
from tmpmaild.clients import LOCAL, Networks, belongs, client_ip, client_name
from tmpmaild.config.settings import Addresses, Http
from tmpmaild.errors import StorageUnavailable
from tmpmaild.hostnames import WILDCARD
from tmpmaild.http import allmail, health, openapi, pages
from tmpmaild.http.addresses import AddressEndpoints
from tmpmaild.http.allmail import AllMailEndpoints
from tmpmaild.http.answers import AnswerSlots, JsonResponse, StreamSlots
from tmpmaild.http.feed import FeedEndpoints
from tmpmaild.http.files import WebFiles, docs_files, web_files
from tmpmaild.http.health import Ready
from tmpmaild.http.messages import MessageEndpoints, ViewEndpoints
from tmpmaild.http.openapi import Answer, Operation, declared
from tmpmaild.http.problems import BadRequest, Problems, client_of
from tmpmaild.http.requests import EXAMPLE_DOMAIN, BodyMemory, Client, Endpoint, Paths, Resource
from tmpmaild.http.schemas import Serializer
from tmpmaild.http.streams import StreamEndpoints
from tmpmaild.inboxes.catching import Catcher
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail import addresses
from tmpmaild.metrics import Count, Gauge, Metric
from tmpmaild.model import Message
from tmpmaild.ratelimit import Buckets, Decision, RateLimits
from tmpmaild.scheduling.clients import on_behalf_of

AsgiEvent = MutableMapping[str, Any]

_FIELDS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
# A cached 404 would outlive the creation of the name.
_UNCACHED_FIELDS = (*_FIELDS, (b"cache-control", b"no-store"))
_UNCACHED_PATHS = ("/api/", "/view/")
_VIEWS = "/view/"
_OTHER_OPERATION = "other"
"""The operation of a request that is refused before its path is looked at, or whose path leads to none."""
_is_new_view = re.compile(r"/api/v1/addresses/[^/]+/messages/[^/]+/view").fullmatch  # as it is routed below
_host = re.compile(rb"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?").fullmatch

_FRAMES = (b"iframe", b"frame", b"object", b"embed")
_NO_HOST: Final[Sequence[list[bytes]]] = ([], [b""])
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

_HASH_BYTES = 4
_ADDRESSES = "addresses"
_BEFORE_SECRETS = ("view", "feed")
_SECRET_CHARACTERS = 40  # those of tokens, views and feeds are 43 long

log = logging.getLogger(__name__)
access_log = logging.getLogger("tmpmaild.access")


class HttpSettings(Http, frozen=True, kw_only=True):
    """The section ``[http]``, and what else the application needs of ``[addresses]``, ``[limits]`` and ``[log]``."""

    local_url: str = ""  # where this machine finds it, "" if nowhere
    lifetime_seconds: int = Addresses().lifetime_seconds
    exempt: Networks = ()
    access_log: bool = False


class HttpApp:
    """The whole application, and what it counts. Reads the files it serves. ``ready`` is for ``/readyz``."""

    def __init__(
        self, service: InboxService, settings: HttpSettings, limits: RateLimits, ready: Ready = lambda: ""
    ) -> None:
        self._service = service
        self._limits = limits
        self._streams = StreamSlots(0)
        self._slots = AnswerSlots(service.scheduler)
        self._health = health.public_paths(ready)
        help_text = "Requests, by operation of the API and status of the answer."
        self._requests = Count("http_requests_total", help_text, ("operation", "status"))
        self._unreadable = Count(
            "http_unreadable_forwarded_for_total", "Requests whose X-Forwarded-For a trusted proxy wrote unreadably."
        )
        self._access_key = secrets.token_bytes()
        self.prepare(settings, service.rules.domains[0])()

    def prepare(self, settings: HttpSettings, domain: str) -> Callable[[], None]:
        """Build the application for these settings; return a function that begins to use it.

        Building takes long for the event loop. ``domain`` is for examples. Requests that are being answered end as they
        began.
        """
        public = urlsplit(settings.public_url)
        origin = f"{public.scheme}://{public.netloc}" if public.netloc else ""
        serializer = Serializer(public.path.rstrip("/"), origin)
        app = self._build(settings, domain, serializer)

        def use() -> None:
            self._app, self._serializer = app, serializer
            self._streams.max_per_client = settings.max_streams_per_client

        return use

    def metrics(self) -> Iterable[Metric]:
        """Return what is counted of requests."""
        return (
            self._requests,
            self._unreadable,
            Gauge("http_streams", "Open event streams and waits.", lambda: self._streams.taken),
        )

    def webhook_body(self, kind: str, at_ms: int, address: str, message: Message | None) -> bytes:
        """See ``Serializer``."""
        return self._serializer.webhook_body(kind, at_ms, address, message)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    def _build(self, settings: HttpSettings, domain: str, serializer: Serializer) -> ASGIApp:
        problems = Problems(serializer.base_path)
        description, docs = _described(domain, settings.public_url, settings.local_url)
        host = urlsplit(settings.public_url).netloc or domain.removeprefix(WILDCARD)
        resources = {
            **self._api_resources(serializer, description, host, settings.cors_origins),
            "/problems/{code}": Resource(get=problems.page),
            "/": _inbox_page(settings.lifetime_seconds),
            **_file_resources(_web_files().loaded),
            **self._health,
            **_file_resources(docs),
        }
        checked = Middleware(
            Paths(resources),
            problems=problems,
            limits=self._limits,
            requests=self._requests,
            unreadable=self._unreadable,
            cross_site=CrossSite(settings.public_url, settings.cors_origins),
            trusted_proxies=settings.trusted_proxies,
            exempt=settings.exempt,
            allowed_hosts=settings.allowed_hosts,
        )
        return AccessLog(checked, key=self._access_key) if settings.access_log else checked

    def _api_resources(
        self, serializer: Serializer, description: bytes, host: str, cors_origins: Sequence[str]
    ) -> dict[str, Resource]:
        service, slots, stream_slots = self._service, self._slots, self._streams
        messages = MessageEndpoints(service, serializer, slots, stream_slots)
        views = ViewEndpoints(service, serializer, slots, host, cors_origins)
        streams = StreamEndpoints(service, serializer, stream_slots)
        return _resources(
            AddressEndpoints(service, serializer),
            messages,
            views,
            FeedEndpoints(service, serializer, slots),
            streams,
            AllMailEndpoints(service, messages, views, streams),
            _DescriptionEndpoint(description),
            catcher=service.catcher,
        )


class _DescriptionEndpoint:
    """The endpoint of the API about itself."""

    def __init__(self, description: bytes) -> None:
        self._description = description

    @Operation(
        "GET /api/v1/openapi.json",
        "describe",
        Answer(200, "An OpenAPI 3.1 document.", schema={"type": "object"}),
        tag="Description",
        security="none",
    )
    async def show(self, _request: Request) -> Response:
        """This description.

        Made from the table that the server routes by; its examples use a domain of this server.
        """  # noqa: D401, D404 - as the document has it
        return JsonResponse(self._description)


def _operations() -> Iterable[Operation]:
    kinds = (
        AddressEndpoints,
        MessageEndpoints,
        ViewEndpoints,
        FeedEndpoints,
        StreamEndpoints,
        AllMailEndpoints,
    )
    operations = [operation for kind in kinds for operation in declared(kind).values()]
    # Those for programs come first.
    yield from sorted(operations, key=lambda one: not one.path.startswith("/api/"))
    yield from declared(_DescriptionEndpoint).values()


OPERATIONS: Final = tuple(_operations())
"""All operations of the API, in the order of the OpenAPI document."""


def describe_api(domain: str = EXAMPLE_DOMAIN, public_url: str = "") -> bytes:
    """Return the OpenAPI document, with examples that a server of this domain accepts."""
    return openapi.document(OPERATIONS, domain, public_url)


@lru_cache(maxsize=4)  # a reload seldom changes it
def _described(domain: str, public_url: str, local_url: str) -> tuple[bytes, Mapping[str, Endpoint]]:
    """Return the OpenAPI document, and what ``/docs`` makes of it for people."""
    description = describe_api(domain, public_url)
    return description, docs_files(pages.docs(description, public_url or local_url))


@cache
def _web_files() -> WebFiles:
    """Read once a process: after an upgrade the files on disk are those of another version."""
    return web_files()


@lru_cache(maxsize=4)  # a reload seldom changes it
def _inbox_page(lifetime_seconds: int) -> Resource:
    return Resource(get=_web_files().page(lifetime_seconds))


def _file_resources(files: Mapping[str, Endpoint]) -> dict[str, Resource]:
    return {path: Resource(get=file) for path, file in files.items()}


def _resources(*endpoints: object, catcher: Catcher | None) -> dict[str, Resource]:
    """Return what the methods of these objects declare, by path; with a catcher every address can be read."""
    at_path: dict[str, dict[str, Endpoint]] = {}
    names: dict[str, dict[str, str]] = {}
    for one in endpoints:
        for method, operation in declared(type(one)).items():
            endpoint = getattr(one, method)
            if catcher is not None and operation.method == "GET" and "{address}" in operation.path:
                endpoint = allmail.opening(catcher, endpoint)
            at_path.setdefault(operation.path, {})[operation.method.lower()] = endpoint
            names.setdefault(operation.path, {})[operation.method] = operation.id
    # Most requests are for messages; paths are tried in order.
    ordered = sorted(at_path, key=lambda path: not path.endswith("/messages"))
    return {path: Resource(names[path], **at_path[path]) for path in ordered}


class Middleware:
    """Refuses a request before ``app`` gets it, or passes it on; completes the header of every answer and counts it.

    Refused are, in this order, what ``CrossSite`` refuses, which costs no token; a client without a token in its
    bucket, where the path has a limit; headers that are too large; and invalid hosts. What ``app`` raises is answered
    here, by the table of problems.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        problems: Problems,
        limits: RateLimits,
        requests: Count,
        unreadable: Count,
        cross_site: "CrossSite",
        trusted_proxies: Networks = (),
        exempt: Networks = (),
        allowed_hosts: Sequence[str] = (),
        clock_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._problems = problems
        self._limits = limits
        self._requests = requests
        self._cross_site = cross_site
        self._trusted_proxies = trusted_proxies
        self._allowed_hosts = frozenset(host.lower().encode() for host in allowed_hosts)
        self._unreadable = unreadable
        self._bodies = BodyMemory()
        self._known = lru_cache(maxsize=4096)(lambda ip: Client(client_name(ip), belongs(ip, exempt), ip))
        self._clock_seconds = clock_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        answer = _Answer(scope, send, self._requests, self._cross_site.fields(scope))
        refusal = await self._refusal(scope, answer)
        if refusal is not None:
            await refusal(scope, receive, answer.send)
            return
        send = answer.send
        if answer.buckets is not None and scope["method"] == "POST" and _is_new_view(scope["path"]):
            send = self._charging_refusals(answer, scope, receive)
        code = self._objection(scope)
        if code is not None:
            await self._problems.response(code)(scope, receive, send)
            return
        try:
            with on_behalf_of(scope["tmpmaild.client"].name):
                await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - what is not known is a fault, and logged
            response = self._problems.answer_to(Request(scope), error, has_begun=answer.has_begun)
            if not answer.has_begun:
                await response(scope, receive, send)

    async def _refusal(self, scope: Scope, answer: "_Answer") -> Response | None:
        """Return the answer to a request that its page may not send, or for which its client has no token."""
        if self._cross_site.refuses(scope):
            return self._problems.answer_to(Request(scope), BadRequest("cross-site"))
        client = scope["tmpmaild.client"] = self._client(scope)
        scope["tmpmaild.take_token"] = answer.take_token
        scope["tmpmaild.bodies"] = self._bodies
        if client.exempt:
            return None
        buckets = self._buckets(scope["method"], scope["path"])
        return None if buckets is None else await self._no_token(answer, buckets, client)

    def _client(self, scope: Scope) -> Client:
        peer = scope["client"][0] if scope["client"] else LOCAL
        if peer != LOCAL and not (self._trusted_proxies and belongs(peer, self._trusted_proxies)):
            return self._known(peer)
        given = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
        ip, is_unreadable = client_ip(peer, given.split(",") if given else (), self._trusted_proxies)
        if is_unreadable:
            self._unreadable.add()
            log.warning(
                "HTTP: X-Forwarded-For from the proxy %s does not end with an IP address, so all its visitors share one"
                " rate limit and cannot be blocked one by one",
                ip,
                extra={"event": "http_forwarded_for", "client": ip},
            )
        return self._known(ip)

    def _buckets(self, method: str, path: str) -> Buckets | None:
        if method == "OPTIONS":
            return None
        if path.startswith(_VIEWS) or (method == "POST" and _is_new_view(path)):
            return self._limits.page
        return self._limits.default if path.startswith("/api/") else None

    async def _no_token(self, answer: "_Answer", buckets: Buckets, client: Client) -> Response | None:
        """Take a token for a request; return its answer if there is none."""
        answer.cost(buckets, client.name, self._clock_seconds)
        try:
            if await answer.take_token():
                return None
        except StorageUnavailable:
            return self._problems.response("storage-unavailable")
        assert answer.decision is not None
        wait_seconds = answer.decision.next_token_seconds
        return self._problems.response("rate-limited", headers={"Retry-After": str(wait_seconds)})

    def _charging_refusals(self, answer: "_Answer", scope: Scope, receive: Receive) -> Send:
        """Return a ``send`` for an answer to a new view; one that refuses it (4xx) takes a token of the API as well.

        Otherwise addresses could be guessed at the rate of pages. With no token left the answer becomes a 429, which
        does not tell whether the address exists.
        """
        is_replaced = False

        async def charge(event: AsgiEvent) -> None:
            nonlocal is_replaced
            default = self._limits.default
            if default is not None and 400 <= event.get("status", 0) < 500:  # noqa: PLR2004 - the class of a status
                refusal = await self._no_token(answer, default, scope["tmpmaild.client"])
                if refusal is not None:
                    is_replaced = True
                    await refusal(scope, receive, answer.send)
            if not is_replaced:
                await answer.send(event)

        return charge

    def _objection(self, scope: Scope) -> str | None:
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        # The server of this package has refused such headers before; another ASGI server may not.
        size_bytes, hosts = 4 * len(headers), []
        for name, value in headers:
            size_bytes += len(name) + len(value)
            if name == b"host":
                hosts.append(value)
        if size_bytes > MAX_HEADER_BYTES or len(headers) > MAX_FIELDS:
            return "headers-too-large"
        if hosts in _NO_HOST and scope["http_version"] == "1.0":  # RFC 9112 §3.2 asks for one since HTTP/1.1
            return None
        host = _host(hosts[0]) if len(hosts) == 1 else None
        if host is None or (self._allowed_hosts and _name_of(host[1]) not in self._allowed_hosts):
            return "bad-host"
        return None


def _name_of(host: bytes) -> bytes:
    """Return a host as ``allowed_hosts`` has it: without brackets, and without the dot of the root."""
    return host.strip(b"[]").removesuffix(b".").lower()


class _Answer:
    """The answer to one request, and the bucket that the request costs a token of, if any.

    When the answer begins, it gets our header fields, with what ``decision`` says of the bucket, and is counted.
    """

    buckets: Buckets | None = None
    decision: Decision | None = None
    has_begun = False

    def __init__(self, scope: Scope, send: Send, requests: Count, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self._scope = scope
        self._send = send
        self._requests = requests
        self._fields = fields

    def cost(self, buckets: Buckets, client_name: str, clock_seconds: Callable[[], float]) -> None:
        """Go by the bucket of a client from now on."""
        self.buckets, self.decision = buckets, None
        self._client_name = client_name
        self._clock_seconds = clock_seconds

    async def take_token(self) -> bool:
        """Take a token from the bucket; return whether there was one, or none was needed."""
        if self.buckets is None:
            return True
        decision = self.buckets.take(self._client_name, self._clock_seconds())
        self.decision = decision if isinstance(decision, Decision) else await decision
        if not self.decision.allowed:
            extra = {"event": "http_refused", "client": self._client_name, "code": "rate-limited"}
            log.info("HTTP from %s refused: rate-limited", self._client_name, extra=extra)
        return self.decision.allowed

    async def send(self, event: AsgiEvent) -> None:
        """Send a part of the answer."""
        self.has_begun = True
        if event["type"] == "http.response.start":
            self._requests.add(self._operation(), str(event["status"]))
            ours = _UNCACHED_FIELDS if self._scope["path"].startswith(_UNCACHED_PATHS) else _FIELDS
            event["headers"] = [*event["headers"], *ours, *self._rate_limit_fields(), *self._fields]
        await self._send(event)

    def _operation(self) -> str:
        resource = self._scope.get("endpoint")  # the router puts it there
        operations = resource.operations if isinstance(resource, Resource) else {}
        return operations.get(self._scope["method"], _OTHER_OPERATION)

    def _rate_limit_fields(self) -> Sequence[tuple[bytes, bytes]]:
        buckets, decision = self.buckets, self.decision
        if buckets is None or decision is None:
            return ()
        policy = f'"{buckets.name}";q={buckets.tokens_per_minute};w=60'
        state = f'"{buckets.name}";r={decision.remaining};t={decision.next_token_seconds}'
        return ((b"ratelimit-policy", policy.encode()), (b"ratelimit", state.encode()))


class CrossSite:
    """What pages of other origins may do with the API and with views: nothing, except those of ``cors_origins``.

    ``public_url`` names our own origin behind a proxy that changes the Host field.
    """

    def __init__(self, public_url: str = "", cors_origins: Sequence[str] = ()) -> None:
        self._permitted = frozenset(origin.encode() for origin in cors_origins)
        self._public_origin = b"%s://%s" % urlsplit(public_url.encode())[:2]

    def fields(self, scope: Scope) -> Sequence[tuple[bytes, bytes]]:
        """Return the fields that every answer has for browsers, so that pages can read errors too."""
        if not self._permitted:
            return ()
        origin = dict(scope["headers"]).get(b"origin")
        if origin not in self._permitted:
            return (_VARY,)
        asks_first = _PREFLIGHT if scope["method"] == "OPTIONS" else ()
        return (_VARY, (b"access-control-allow-origin", origin), _EXPOSED, *asks_first)

    def refuses(self, scope: Scope) -> bool:
        """Return whether a request is one that its page may not send."""
        headers = dict(scope["headers"])
        if scope["path"].startswith(_VIEWS):
            return self._refuses_view(headers)
        return scope["path"].startswith("/api/") and self._refuses_call(scope["method"], headers)

    def _refuses_call(self, method: str, headers: Mapping[bytes, bytes]) -> bool:
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin in self._permitted:
            return False
        if site == b"same-origin":
            # No page of ours loads an image from here, but a mail in its frame may.
            return headers.get(b"sec-fetch-dest") == b"image"
        if headers.get(b"sec-purpose", b"").startswith(b"prefetch"):
            return True  # Chromium says "none" of these, although any page can cause them by speculation rules
        if site is not None:
            return site in (b"cross-site", b"same-site") and not _is_followed_link(method, headers)
        # A WebSocket's handshake is a GET, and Chromium sends no Sec-Fetch-Site with it, not even to localhost.
        is_safe = method in _SAFE and b"sec-websocket-key" not in headers
        return origin is not None and not is_safe and not self._is_own(origin, headers.get(b"host", b""))

    def _refuses_view(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a page may neither frame a view nor lead to it; which pages may frame it, its policy says."""
        site = headers.get(b"sec-fetch-site")
        if site != b"same-origin" and headers.get(b"sec-purpose", b"").startswith(b"prefetch"):
            return True
        if site not in (b"cross-site", b"same-site"):
            return False
        if self._permitted and headers.get(b"sec-fetch-dest") in _FRAMES:
            return False
        scheme, _, rest = headers.get(b"referer", b"").partition(b"://")
        return not self._permitted & {headers.get(b"origin"), b"%s://%s" % (scheme, rest.partition(b"/")[0])}

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


class AccessLog:
    """Logs each request once its answer has ended: client, method, path, status, milliseconds.

    An address in a path becomes a hash of eight characters, the same for the same inbox as long as the process lives,
    so that one inbox can be followed without being known. ``key`` is random: without it the addresses that a hash may
    stand for could be tried.
    """

    def __init__(self, app: ASGIApp, *, key: bytes) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it."""
        begun = time.monotonic()
        status = 0

        async def note(event: AsgiEvent) -> None:
            nonlocal status
            status = event.get("status", status)
            await send(event)

        try:
            await self._app(scope, receive, note)
        finally:
            milliseconds = (time.monotonic() - begun) * 1000
            client, method, path = client_of(scope), scope["method"], self.masked(scope["path"])
            extra = {
                "event": "http_request",
                "client": client,
                "method": method,
                "path": path,
                "status": status,
                "milliseconds": round(milliseconds, 1),
            }
            access_log.info("%s %s %s %d %.1f ms", client, method, path, status, milliseconds, extra=extra)

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
