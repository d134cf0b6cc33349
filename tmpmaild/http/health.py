"""Health checks and metrics: what a supervisor, a balancer and Prometheus ask for. Nothing is measured on request."""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tmpmaild.http.resource import Resource

Ready = Callable[[], str]
"""Returns why the service is not ready, "" if it is, from memory."""


async def healthz(_request: Request) -> Response:
    """Answer: the process serves requests."""
    return _text(200, "ok")


def readyz(ready: Ready, *, tells_reason: bool) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that tells whether mail and requests are taken; the reason is for the operator only."""

    async def answer(_request: Request) -> Response:
        reason = ready()
        return _text(503, reason if tells_reason else "not ready") if reason else _text(200, "ok")

    return answer


def public_paths(ready: Ready) -> dict[str, Resource]:
    """Return what the public port serves."""
    return {"/healthz": Resource(get=healthz), "/readyz": Resource(get=readyz(ready, tells_reason=False))}


def operator_app(ready: Ready, page: Callable[[str], tuple[bytes, str]]) -> ASGIApp:
    """Return the application of ``metrics.listen``.

    ``page`` gets the field ``Accept`` of a request and returns the metrics with their media type.
    """

    async def metrics(request: Request) -> Response:
        body, media_type = page(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media_type})

    paths = {
        "/healthz": Resource(get=healthz),
        "/readyz": Resource(get=readyz(ready, tells_reason=True)),
        "/metrics": Resource(get=metrics),
    }
    return Starlette(routes=[Route(path, resource) for path, resource in paths.items()])


def _text(status: int, line: str) -> Response:
    return Response(f"{line}\n", status, {"Cache-Control": "no-store"}, media_type="text/plain")
