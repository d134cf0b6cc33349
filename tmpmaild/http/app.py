"""Puts the HTTP application together: routes, error answers, middleware. ``server.py`` serves it."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp

from tmpmaild.clients import Networks
from tmpmaild.errors import RequestError
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
            Route("/api/v1/addresses", Resource(post=api.create)),
            Route("/api/v1/addresses/{address}", Resource(get=api.address)),
            Route("/api/v1/addresses/{address}/messages", Resource(get=api.messages)),
            Route("/problems/{code}", Resource(get=problems.page)),
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
    return _with_cors(limited, settings.cors_origins) if settings.cors_origins else limited


def _with_cors(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    # Outermost of all: a page must be able to read that it was refused by the rate limit.
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
        expose_headers=["Link", "Location", "RateLimit", "RateLimit-Policy", "Retry-After"],
    )
