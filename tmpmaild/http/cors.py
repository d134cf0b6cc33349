"""Allows pages of the configured origins to read the answers (the CORS protocol of the Fetch standard)."""

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_VARY = (b"vary", b"Origin")
_EXPOSED = (b"access-control-expose-headers", b"Link, Location, RateLimit, RateLimit-Policy, Retry-After")
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID"),
    (b"access-control-max-age", b"600"),
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
