"""The endpoints of API version 1: each takes a request apart, asks the service, and puts the answer together."""

from collections.abc import Awaitable, Callable

import anyio
import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.http import wire
from tmpmaild.http.answers import (
    IN_LOOP_BYTES,
    JsonResponse,
    LargeAnswer,
    MailResponse,
    Places,
    encode_in_thread,
    is_large,
)
from tmpmaild.http.problems import BadRequest
from tmpmaild.model import Listing, Page
from tmpmaild.service import InboxService

MAX_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 10

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


class Resource:
    """What lives at one path: an endpoint a method. HEAD is GET, OPTIONS and 405 say what is allowed."""

    def __init__(self, **endpoints: Endpoint) -> None:
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


class Client(Struct, frozen=True):
    """Who asks: the name that limits are kept under, and whether any apply."""

    name: str
    exempt: bool


class Api:
    """The endpoints over one service. ``base_path`` is the path of ``http.public_url``."""

    def __init__(self, service: InboxService, base_path: str) -> None:
        self._service = service
        self._base_path = base_path
        self._places = Places()

    async def create(self, request: Request) -> Response:
        """``POST /api/v1/addresses``: give out an address."""
        wish = wire.read_wish(await _body(request), request.headers.get("content-type"))
        client: Client = request.scope["tmpmaild.client"]
        inbox, token = await self._service.create(wish, None if client.exempt else client.name)
        body = msgspec.json.encode(wire.address_resource(inbox, token))
        return JsonResponse(body, 201, {"Location": wire.address_path(self._base_path, inbox.address)})

    async def address(self, request: Request) -> Response:
        """``GET /api/v1/addresses/{address}``: how an address stands."""
        inbox = await self._service.find(request.path_params["address"], _token(request))
        return JsonResponse(msgspec.json.encode(wire.address_resource(inbox)))

    async def messages(self, request: Request) -> ASGIApp:
        """``GET /api/v1/addresses/{address}/messages``: a page of its mail."""
        page = wire.read_page(request.query_params)
        address, token = request.path_params["address"], _token(request)
        listing = await self._service.list_messages(address, page, token)
        if not is_large(listing):
            return self._page(listing, page, msgspec.json.encode(wire.message_list(listing)))

        async def again() -> Response:
            large = await self._service.list_messages(address, page, token)
            return self._page(large, page, await encode_in_thread(wire.message_list(large)))

        return LargeAnswer(self._places, request.scope["tmpmaild.client"].name, again)

    async def source(self, request: Request) -> ASGIApp:
        """``GET /api/v1/addresses/{address}/messages/{id}/raw``: a mail as it came, below our trace fields."""
        address, message_id, token = request.path_params["address"], request.path_params["id"], _token(request)
        fields, raw = await self._service.read_source(address, message_id, token, up_to_bytes=IN_LOOP_BYTES)
        if raw is not None:
            return MailResponse(message_id, fields + raw)

        async def again() -> Response:
            fields, raw = await self._service.read_source(address, message_id, token)
            assert raw is not None
            return MailResponse(message_id, fields, raw)

        return LargeAnswer(self._places, request.scope["tmpmaild.client"].name, again)

    def _page(self, listing: Listing, page: Page, body: bytes) -> Response:
        response = JsonResponse(body)
        if listing.has_more:
            response.headers["Link"] = wire.next_page_link(self._base_path, listing, page)
        return response


async def _body(request: Request) -> bytes:
    """Read a small body that comes soon."""
    octets = bytearray()
    try:
        with anyio.fail_after(_BODY_SECONDS):
            async for chunk in request.stream():
                octets += chunk
                if len(octets) > MAX_BODY_BYTES:
                    raise BadRequest("body-too-large", "")
    except TimeoutError:
        raise BadRequest("request-timeout", "") from None
    except ClientDisconnect:
        raise BadRequest("malformed-request", "The body ended early.") from None
    return bytes(octets)


def _token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None
