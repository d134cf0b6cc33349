"""The HTTP application: its routes and their endpoints. ``server.py`` serves it on sockets."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.clients import Networks
from tmpmaild.config.settings import Addresses, Http
from tmpmaild.hostnames import WILDCARD
from tmpmaild.http import allmail, health, openapi, pages
from tmpmaild.http.accesslog import AccessLog
from tmpmaild.http.addresses import AddressEndpoints
from tmpmaild.http.allmail import AllMailEndpoints
from tmpmaild.http.crosssite import CrossSite
from tmpmaild.http.feed import FeedEndpoints
from tmpmaild.http.files import CatcherPage, WebFiles, catcher_files, docs_files, web_files
from tmpmaild.http.health import Ready
from tmpmaild.http.inputs import EXAMPLE_DOMAIN
from tmpmaild.http.messages import MessageEndpoints, ViewEndpoints
from tmpmaild.http.middleware import Middleware
from tmpmaild.http.openapi import Operation, Returns, declared
from tmpmaild.http.problems import Problems
from tmpmaild.http.responses import JsonResponse, ResponseSlots, StreamSlots
from tmpmaild.http.routing import Endpoint, Paths, Resource
from tmpmaild.http.schemas import Serializer
from tmpmaild.http.streams import StreamEndpoints
from tmpmaild.inboxes.catching import Catcher
from tmpmaild.inboxes.service import InboxService
from tmpmaild.metrics import Count, Gauge, Metric
from tmpmaild.model import Message
from tmpmaild.ratelimit import RateLimits


class HttpSettings(Http, frozen=True, kw_only=True):
    """The application's settings: the ``[http]`` section, and keys of ``[addresses]``, ``[limits]`` and ``[log]``."""

    local_url: str = ""  # a URL reachable from this machine; "" if there is none
    smtp: tuple[str, ...] = ()  # addresses that accept mail; shown only by a catcher or with smtp.keep_refusals
    is_public: bool = False  # whether other machines may reach the application; used only by a catcher
    lifetime_seconds: int = Addresses().lifetime_seconds
    exempt: Networks = ()
    access_log: bool = False


class HttpApp:
    """The complete application and its metrics. Loads the files that it serves. ``/readyz`` calls ``ready``."""

    def __init__(
        self, service: InboxService, settings: HttpSettings, limits: RateLimits, ready: Ready = lambda: ""
    ) -> None:
        self._service = service
        self._limits = limits
        self._streams = StreamSlots(0)
        self._slots = ResponseSlots(service.scheduler)
        self._health = health.public_paths(ready)
        help_text = "Requests, by API operation and status of the response."
        self._requests = Count("http_requests_total", help_text, ("operation", "status"))
        self._unreadable = Count(
            "http_unreadable_forwarded_for_total", "Requests with an unparsable X-Forwarded-For from a trusted proxy."
        )
        self._untrusted = Count(
            "http_untrusted_forwarded_for_total",
            "Requests with X-Forwarded-For from an internal address that is not a trusted proxy.",
        )
        self._access_key = secrets.token_bytes()
        self.prepare(settings, service.rules.domains[0])()

    def prepare(self, settings: HttpSettings, domain: str) -> Callable[[], None]:
        """Build the application for these settings; return a function that starts using it.

        Building takes too long for the event loop. ``domain`` is used in examples. Requests in progress are completed
        with the previous settings.
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
        """Return the metrics of requests."""
        return (
            self._requests,
            self._unreadable,
            self._untrusted,
            Gauge("http_streams", "Open event streams and waits.", lambda: self._streams.taken),
        )

    def webhook_body(self, kind: str, at_ms: int, address: str, message: Message | None) -> bytes:
        """See ``Serializer.webhook_body``."""
        return self._serializer.webhook_body(kind, at_ms, address, message)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    def _build(self, settings: HttpSettings, domain: str, serializer: Serializer) -> ASGIApp:
        problems = Problems(serializer.base_path)
        description, docs = _described(domain, settings.public_url, settings.local_url)
        host = urlsplit(settings.public_url).netloc or domain.removeprefix(WILDCARD)
        resources = {
            **self._api_resources(settings, serializer, description, host),
            "/problems/{code}": Resource(get=problems.page),
            "/": _inbox_page(settings.lifetime_seconds),
            **_file_resources(_web_files().loaded),
            **self._health,
            **_file_resources(docs),
            **self._catcher_resources(settings),
        }
        checked = Middleware(
            Paths(resources),
            problems=problems,
            limits=self._limits,
            requests=self._requests,
            unreadable=self._unreadable,
            untrusted=self._untrusted,
            cross_site=CrossSite(settings.public_url, settings.cors_origins),
            trusted_proxies=settings.trusted_proxies,
            exempt=settings.exempt,
            allowed_hosts=settings.allowed_hosts,
        )
        return AccessLog(checked, key=self._access_key) if settings.access_log else checked

    def _catcher_resources(self, settings: HttpSettings) -> dict[str, Resource]:
        if self._service.catcher is None:
            return {}
        catcher = CatcherPage(", ".join(settings.smtp), settings.is_public)
        return _file_resources(catcher_files(settings.lifetime_seconds, catcher))

    def _api_resources(
        self, settings: HttpSettings, serializer: Serializer, description: bytes, host: str
    ) -> dict[str, Resource]:
        service, slots, stream_slots = self._service, self._slots, self._streams
        messages = MessageEndpoints(service, serializer, slots, stream_slots, settings.smtp)
        views = ViewEndpoints(service, serializer, slots, host, settings.cors_origins)
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
    """The endpoint that serves the API description."""

    def __init__(self, description: bytes) -> None:
        self._description = description

    @Operation(
        "GET /api/v1/openapi.json",
        "describe",
        Returns(200, "An OpenAPI 3.1 document.", schema={"type": "object"}),
        tag="Description",
        security="none",
    )
    async def show(self, _request: Request) -> Response:
        """This description.

        Generated from the server's routing table; its examples use a domain of this server.
        """  # noqa: D401, D404 - the text is published in the OpenAPI document
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
    # The operations for programs are listed first.
    yield from sorted(operations, key=lambda one: not one.path.startswith("/api/"))
    yield from declared(_DescriptionEndpoint).values()


OPERATIONS: Final = tuple(_operations())
"""All operations of the API, in the order of the OpenAPI document."""


def describe_api(domain: str = EXAMPLE_DOMAIN, public_url: str = "") -> bytes:
    """Return the OpenAPI document, with examples that are valid on a server for this domain."""
    return openapi.document(OPERATIONS, domain, public_url)


@lru_cache(maxsize=4)  # reloading the configuration rarely changes the arguments
def _described(domain: str, public_url: str, local_url: str) -> tuple[bytes, Mapping[str, Endpoint]]:
    """Return the OpenAPI document, and the endpoints for ``/docs`` that are generated from it."""
    description = describe_api(domain, public_url)
    return description, docs_files(pages.docs(description, public_url or local_url))


@cache
def _web_files() -> WebFiles:
    """Read the files once per process: after an upgrade, the files on disk belong to a different version."""
    return web_files()


@lru_cache(maxsize=4)  # a reload rarely changes the argument
def _inbox_page(lifetime_seconds: int) -> Resource:
    return Resource(get=_web_files().page(lifetime_seconds))


def _file_resources(files: Mapping[str, Endpoint]) -> dict[str, Resource]:
    return {path: Resource(get=file) for path, file in files.items()}


def _resources(*endpoints: object, catcher: Catcher | None) -> dict[str, Resource]:
    """Return the resources that these objects' methods declare, by path.

    With a catcher, any address can be read.
    """
    at_path: dict[str, dict[str, Endpoint]] = {}
    names: dict[str, dict[str, str]] = {}
    for one in endpoints:
        for method, operation in declared(type(one)).items():
            endpoint = getattr(one, method)
            if catcher is not None and operation.method == "GET" and "{address}" in operation.path:
                endpoint = allmail.opening(catcher, endpoint)
            at_path.setdefault(operation.path, {})[operation.method.lower()] = endpoint
            names.setdefault(operation.path, {})[operation.method] = operation.id
    # Paths are tried in order, and most requests are for messages.
    ordered = sorted(at_path, key=lambda path: not path.endswith("/messages"))
    return {path: Resource(names[path], **at_path[path]) for path in ordered}
