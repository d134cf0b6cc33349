"""Requests of pages of other sites: what a browser was made to send is refused, before it counts for the rate limit.

Over HTTPS and to localhost browsers tell the origin of a request in ``Sec-Fetch-*`` (W3C Fetch Metadata), elsewhere
only in ``Origin``. Where the operator allows origins (CORS), their pages may use the API.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.http.middleware import with_headers
from tmpmaild.http.problems import Problems

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
