"""Puts the HTTP application together: routes, error answers, middleware. ``server.py`` serves it."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from tmpmaild.clients import Networks
from tmpmaild.errors import RequestError
from tmpmaild.http.cors import Cors
from tmpmaild.http.middleware import Guard, RateLimit
from tmpmaild.http.problems import Problems
from tmpmaild.http.routes import Api, Resource
from tmpmaild.ratelimit import TokenBuckets
from tmpmaild.service import InboxService


class Settings(Struct, frozen=True):
    """What the HTTP application must know of the configuration."""

    public_url: str = ""
    trusted_proxies: Networks = ()
    exempt: Networks = ()
    allowed_hosts: Sequence[str] = ()
    cors_origins: Sequence[str] = ()


def create_app(service: InboxService, settings: Settings, buckets: TokenBuckets | None) -> ASGIApp:
    """Return the whole application; without ``buckets`` there is no rate limit."""
    base_path = urlsplit(settings.public_url).path.rstrip("/")
    problems = Problems(base_path)
    api = Api(service, base_path)
    app = Starlette(
        routes=[
            _Route("/api/v1/addresses/{address}/messages", Resource(get=api.messages)),
            _Route("/api/v1/addresses/{address}/messages/{id}/raw", Resource(get=api.source)),
            _Route("/api/v1/addresses/{address}", Resource(get=api.address)),
            _Route("/api/v1/addresses", Resource(post=api.create)),
            _Route("/problems/{code}", Resource(get=problems.page)),
        ],
        exception_handlers={
            RequestError: problems.on_request_error,
            HTTPException: problems.on_http_exception,
            Exception: problems.on_fault,
        },
    )
    # The default redirects to where the client's Host header points.
    app.router.redirect_slashes = False
    guarded = Guard(app, problems=problems, allowed_hosts=settings.allowed_hosts)
    limited = RateLimit(
        guarded,
        buckets=buckets,
        problems=problems,
        trusted_proxies=settings.trusted_proxies,
        exempt=settings.exempt,
    )
    return Cors(limited, origins=settings.cors_origins) if settings.cors_origins else limited


class _Route(Route):
    """A route that a line end behind its path does not match: ``$`` allows one."""

    def __init__(self, path: str, endpoint: Resource) -> None:
        super().__init__(path, endpoint)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")
