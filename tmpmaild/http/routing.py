"""Routing: finds the endpoint for the path and method of a request."""

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


class Resource:
    """The endpoints of one path, one for each method. HEAD is served as GET; OPTIONS and 405 list the methods.

    ``operations`` maps each method to the operation under which its requests are counted.
    """

    def __init__(self, operations: Mapping[str, str] = MappingProxyType({}), **endpoints: Endpoint) -> None:
        self.operations = operations
        self._endpoints = {name.upper(): endpoint for name, endpoint in endpoints.items()}
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allow = ", ".join(sorted({*self._endpoints, "OPTIONS"}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        endpoint = self._endpoints.get(scope["method"])
        response: ASGIApp
        if endpoint is not None:
            response = await endpoint(Request(scope, receive))
        elif scope["method"] == "OPTIONS":
            response = Response(status_code=204, headers={"Allow": self._allow})
        else:
            raise HTTPException(405, headers={"Allow": self._allow})
        await response(scope, receive, send)


class Paths:
    """Routes a request to the first resource whose path matches; ``{name}`` in a path matches one segment."""

    def __init__(self, resources: Mapping[str, Resource]) -> None:
        self._fixed = {path: resource for path, resource in resources.items() if "{" not in path}
        self._patterns = [(_pattern(path), resource) for path, resource in resources.items() if "{" in path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises ``HTTPException`` (404)."""
        path = scope["path"]
        for pattern, resource in self._patterns:
            if match := pattern.fullmatch(path):
                scope["path_params"], scope["endpoint"] = match.groupdict(), resource
                await resource(scope, receive, send)
                return
        if path not in self._fixed:
            raise HTTPException(404)
        scope["path_params"], scope["endpoint"] = {}, self._fixed[path]
        await self._fixed[path](scope, receive, send)


def _pattern(path: str) -> re.Pattern[str]:
    """Return the regular expression for the paths of a resource."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path)))
