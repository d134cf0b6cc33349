"""Puts the HTTP application together: routes, error answers, middleware. ``server.py`` serves it."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.clients import Networks
from tmpmaild.config.settings import Http
from tmpmaild.errors import RequestError
from tmpmaild.http import health, openapi, pages
from tmpmaild.http.addresses import AddressEndpoints
from tmpmaild.http.answers import AnswerSlots, JsonResponse, StreamSlots
from tmpmaild.http.feed import FeedEndpoints
from tmpmaild.http.files import docs_files, web_files
from tmpmaild.http.health import Ready
from tmpmaild.http.messages import MessageEndpoints, ViewEndpoints
from tmpmaild.http.middleware import AccessLog, CrossSite, Middleware
from tmpmaild.http.openapi import Answer, Operation, declared
from tmpmaild.http.problems import Problems
from tmpmaild.http.requests import EXAMPLE_DOMAIN, Endpoint, Resource
from tmpmaild.http.schemas import Serializer
from tmpmaild.http.streams import StreamEndpoints
from tmpmaild.inboxes.service import InboxService
from tmpmaild.measures import Count, Gauge, Measure
from tmpmaild.model import Message
from tmpmaild.ratelimit import RateLimits


class HttpSettings(Http, frozen=True, kw_only=True):
    """The section ``[http]``, and what else the application needs: ``limits.exempt`` and ``log.access``."""

    local_url: str = ""  # where this machine finds it, "" if nowhere
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
        self._slots = AnswerSlots()
        self._health = [_Route(path, resource) for path, resource in health.public_paths(ready).items()]
        help_text = "Requests, by operation of the API and status of the answer."
        self._requests = Count("http_requests_total", help_text, ("operation", "status"))
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

    def measures(self) -> Iterable[Measure]:
        """Return what is counted of requests."""
        return (self._requests, Gauge("http_streams", "Open event streams and waits.", lambda: self._streams.taken))

    def webhook_body(self, kind: str, at_ms: int, address: str, message: Message | None) -> bytes:
        """See ``Serializer``."""
        return self._serializer.webhook_body(kind, at_ms, address, message)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    def _build(self, settings: HttpSettings, domain: str, serializer: Serializer) -> ASGIApp:
        problems = Problems(serializer.base_path)
        description, docs = _described(domain, settings.public_url, settings.local_url)
        routes = [
            *self._api_routes(serializer, description),
            _Route("/problems/{code}", Resource(get=problems.page)),
            *_web_routes(),
            *self._health,
            *_file_routes(docs),
        ]
        checked = Middleware(
            _starlette(routes, problems),
            problems=problems,
            limits=self._limits,
            requests=self._requests,
            cross_site=CrossSite(settings.public_url, settings.cors_origins),
            trusted_proxies=settings.trusted_proxies,
            exempt=settings.exempt,
            allowed_hosts=settings.allowed_hosts,
        )
        return AccessLog(checked, key=self._access_key) if settings.access_log else checked

    def _api_routes(self, serializer: Serializer, description: bytes) -> list[Route]:
        service, slots, streams = self._service, self._slots, self._streams
        return _routes(
            AddressEndpoints(service, serializer),
            MessageEndpoints(service, serializer, slots, streams),
            ViewEndpoints(service.viewer, serializer, slots),
            FeedEndpoints(service, serializer, slots),
            StreamEndpoints(service, serializer, streams),
            _DescriptionEndpoint(description),
        )


class _DescriptionEndpoint:
    """The endpoint of the API about itself."""

    def __init__(self, description: bytes) -> None:
        self._description = description

    @Operation(
        "GET",
        "/api/v1/openapi.json",
        "describe",
        "Description",
        security="none",
        answer=Answer(200, "An OpenAPI 3.1 document.", schema={"type": "object"}),
    )
    async def show(self, _request: Request) -> Response:
        """This description.

        Made from the table that the server routes by; its examples use a domain of this server.
        """  # noqa: D401, D404 - as the document has it
        return JsonResponse(self._description)


def _operations() -> Iterable[Operation]:
    kinds = (AddressEndpoints, MessageEndpoints, ViewEndpoints, FeedEndpoints, StreamEndpoints)
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
def _web_routes() -> list[Route]:
    """Read once a process: after an upgrade the files on disk are those of another version."""
    return _file_routes(web_files())


def _file_routes(files: Mapping[str, Endpoint]) -> list[Route]:
    return [_Route(path, Resource(get=file)) for path, file in files.items()]


def _routes(*endpoints: object) -> list[Route]:
    """Return the routes of what the methods of these objects declare."""
    at_path: dict[str, dict[str, Endpoint]] = {}
    names: dict[str, dict[str, str]] = {}
    for one in endpoints:
        for method, operation in declared(type(one)).items():
            at_path.setdefault(operation.path, {})[operation.method.lower()] = getattr(one, method)
            names.setdefault(operation.path, {})[operation.method] = operation.id
    # Most requests are for messages; routes are tried in order.
    ordered = sorted(at_path, key=lambda path: not path.endswith("/messages"))
    return [_Route(path, Resource(names[path], **at_path[path])) for path in ordered]


def _starlette(routes: list[Route], problems: Problems) -> Starlette:
    app = Starlette(
        routes=routes,
        exception_handlers={
            RequestError: problems.on_request_error,
            HTTPException: problems.on_http_exception,
            Exception: problems.on_fault,
        },
    )
    # The default redirects to where the client's Host header points.
    app.router.redirect_slashes = False
    return app


class _Route(Route):
    """A route that does not match a path with a line end after it, which ``$`` would allow."""

    def __init__(self, path: str, endpoint: Resource) -> None:
        super().__init__(path, endpoint)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")
