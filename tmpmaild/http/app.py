"""Puts the HTTP application together: routes, error answers, middleware. ``server.py`` serves it."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
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
from tmpmaild.http.files import StaticFile, docs_files, web_files
from tmpmaild.http.health import Ready
from tmpmaild.http.messages import MessageEndpoints, ViewEndpoints
from tmpmaild.http.middleware import AccessLog, Cors, Counting, CrossSite, Guard, RateLimit
from tmpmaild.http.openapi import OPERATIONS
from tmpmaild.http.problems import Endpoint, Problems, Resource
from tmpmaild.http.schemas import Wire
from tmpmaild.http.streams import StreamEndpoint
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
        self.prepare(settings, service.domains[0])()

    def prepare(self, settings: HttpSettings, domain: str) -> Callable[[], None]:
        """Build the application for these settings; return a function that begins to use it.

        Building takes long for the event loop. ``domain`` is for examples. Requests that are being answered end as they
        began.
        """
        public = urlsplit(settings.public_url)
        wire = Wire(public.path.rstrip("/"), f"{public.scheme}://{public.netloc}" if public.netloc else "")
        counting = Counting(self._build(settings, domain, wire), self._requests)
        app: ASGIApp = AccessLog(counting, key=self._access_key) if settings.access_log else counting

        def use() -> None:
            self._app, self._wire = app, wire
            self._streams.max_per_client = settings.max_streams_per_client

        return use

    def measures(self) -> Iterable[Measure]:
        """Return what is counted of requests."""
        return (self._requests, Gauge("http_streams", "Open event streams and waits.", lambda: self._streams.taken))

    def webhook_body(self, kind: str, at_ms: int, address: str, message: Message | None) -> bytes:
        """See ``Wire``."""
        return self._wire.webhook_body(kind, at_ms, address, message)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    def _build(self, settings: HttpSettings, domain: str, wire: Wire) -> ASGIApp:
        problems = Problems(wire.base_path)
        description, docs = _described(domain, settings.public_url, settings.local_url)
        endpoints = _endpoints(self._service, wire, self._slots, self._streams, description)
        app = Starlette(
            routes=[
                *_api_routes(endpoints),
                _Route("/problems/{code}", Resource(get=problems.page)),
                *_web_routes(),
                *self._health,
                *_file_routes(docs),
            ],
            exception_handlers={
                RequestError: problems.on_request_error,
                HTTPException: problems.on_http_exception,
                Exception: problems.on_fault,
            },
        )
        # The default redirects to where the client's Host header points.
        app.router.redirect_slashes = False
        return self._guarded(app, settings, problems)

    def _guarded(self, app: ASGIApp, settings: HttpSettings, problems: Problems) -> ASGIApp:
        guarded = Guard(app, problems=problems, allowed_hosts=settings.allowed_hosts)
        limited = RateLimit(
            guarded,
            limits=self._limits,
            problems=problems,
            trusted_proxies=settings.trusted_proxies,
            exempt=settings.exempt,
        )
        origins = settings.cors_origins
        checked = CrossSite(limited, problems=problems, public_url=settings.public_url, cors_origins=origins)
        return Cors(checked, origins=origins) if origins else checked


@lru_cache(maxsize=4)  # a reload seldom changes it
def _described(domain: str, public_url: str, local_url: str) -> tuple[bytes, Mapping[str, Endpoint]]:
    """Return the OpenAPI document, and what ``/docs`` makes of it for people."""
    description = openapi.document(domain, public_url)
    return description, docs_files(pages.docs(description, public_url or local_url), _docs_style())


@cache
def _web_routes() -> list[Route]:
    """Read once a process: after an upgrade the files on disk are those of another version."""
    return _file_routes(web_files())


def _file_routes(files: Mapping[str, Endpoint]) -> list[Route]:
    return [_Route(path, Resource(get=file)) for path, file in files.items()]


@cache
def _docs_style() -> StaticFile:
    return StaticFile("docs.css")


def _endpoints(
    service: InboxService, wire: Wire, slots: AnswerSlots, stream_slots: StreamSlots, description: bytes
) -> dict[str, Endpoint]:
    """Return the endpoint of each operation, by its id."""
    addresses = AddressEndpoints(service, wire)
    messages = MessageEndpoints(service, wire, slots, stream_slots)
    views = ViewEndpoints(service.viewer, wire, slots)
    feeds = FeedEndpoints(service, wire, slots)
    streams = StreamEndpoint(service, wire, stream_slots)

    async def describe(_request: Request) -> Response:
        return JsonResponse(description)

    return {
        "createAddress": addresses.create,
        "getAddress": addresses.show,
        "extendAddress": addresses.extend,
        "deleteAddress": addresses.delete,
        "listDomains": addresses.domains,
        "listRefusals": addresses.refusals,
        "listMessages": messages.list,
        "getMessage": messages.show,
        "deleteMessage": messages.delete,
        "deleteMessages": messages.delete_several,
        "exportMessages": messages.mbox,
        "getSource": messages.source,
        "getAttachment": messages.attachment,
        "createView": views.create,
        "lookAtView": views.show,
        "createFeed": feeds.create,
        "readFeed": feeds.show,
        "readSecretFeed": feeds.show_by_secret,
        "followAddress": streams.events,
        "followAddresses": streams.events_of_several,
        "describe": describe,
    }


def _api_routes(endpoints: dict[str, Endpoint]) -> list[Route]:
    at_path: dict[str, dict[str, Endpoint]] = {}
    names: dict[str, dict[str, str]] = {}
    for operation in OPERATIONS:
        at_path.setdefault(operation.path, {})[operation.method.lower()] = endpoints[operation.id]
        names.setdefault(operation.path, {})[operation.method] = operation.id
    # Most requests are for messages; routes are tried in order.
    ordered = sorted(at_path, key=lambda path: not path.endswith("/messages"))
    return [_Route(path, Resource(names[path], **at_path[path])) for path in ordered]


class _Route(Route):
    """A route that does not match a path with a line end after it, which ``$`` would allow."""

    def __init__(self, path: str, endpoint: Resource) -> None:
        super().__init__(path, endpoint)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")
