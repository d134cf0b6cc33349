"""What HTTP counts for the operator."""

from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmpmaild.http.answers import StreamSlots
from tmpmaild.http.resource import Resource
from tmpmaild.measures import Count, Gauge, Measure

OTHER = "other"
"""The operation of a request that is refused before its path is looked at, or whose path leads to none."""


class HttpMeasures:
    """The numbers of all requests. ``streams`` has the event streams and waits."""

    def __init__(self, streams: StreamSlots) -> None:
        self._requests = Count(
            "http_requests_total",
            "Requests, by operation of the API and status of the answer.",
            ("operation", "status"),
        )
        self._streams = Gauge("http_streams", "Open event streams and waits.", lambda: streams.taken)

    def __iter__(self) -> Iterator[Measure]:
        """Yield every measure."""
        return iter((self._requests, self._streams))

    def count(self, operation: str, status: int) -> None:
        """Count a request when its answer begins."""
        self._requests.add(operation, str(status))


class Counting:
    """ASGI middleware that counts every request, also those that other middleware refuses."""

    def __init__(self, app: ASGIApp, measures: HttpMeasures) -> None:
        self._app = app
        self._measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._measures.count(_operation(scope), message["status"])
            await send(message)

        await self._app(scope, receive, note)


def _operation(scope: Scope) -> str:
    resource = scope.get("endpoint")  # the router puts it there
    return resource.operations.get(scope["method"], OTHER) if isinstance(resource, Resource) else OTHER
