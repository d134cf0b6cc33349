"""Header fields that every answer carries."""

from starlette.types import Message, Scope, Send

CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

EVERYWHERE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
# A cached 404 would outlive the creation of the name.
UNCACHED = (b"cache-control", b"no-store")
UNCACHED_PATHS = ("/api/", "/view/")


def with_headers(scope: Scope, send: Send) -> Send:
    """Return a ``send`` that adds these fields to the answer to a request."""
    extra = [*EVERYWHERE, UNCACHED] if scope["path"].startswith(UNCACHED_PATHS) else list(EVERYWHERE)

    async def add_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *extra]
        await send(message)

    return add_headers
