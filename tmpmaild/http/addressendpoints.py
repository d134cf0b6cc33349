"""The endpoints of addresses: each takes a request apart, asks the service, and puts the answer together."""

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from tmpmaild.http.answers import JsonResponse
from tmpmaild.http.requests import CreateRequest, ExtendRequest, read_body
from tmpmaild.http.resource import body, client, holder_token, token
from tmpmaild.http.wire import DomainList, Wire
from tmpmaild.inboxes.service import InboxService, Wish
from tmpmaild.model import Inbox


class AddressEndpoints:
    """The endpoints over one service."""

    def __init__(self, service: InboxService, wire: Wire) -> None:
        self._service = service
        self._wire = wire

    async def create(self, request: Request) -> Response:
        """Give out an address."""
        wanted = read_body(await body(request), request.headers.get("content-type"), CreateRequest)
        wish = Wish(
            local_part=None if wanted.local_part is UNSET else wanted.local_part,
            domain=None if wanted.domain is UNSET else wanted.domain,
            private=wanted.private,
        )
        who = client(request)
        inbox, new_token = await self._service.create(wish, None if who.exempt else who.name)
        return JsonResponse(self._encoded(inbox, new_token), 201, {"Location": self._wire.address_path(inbox.address)})

    async def show(self, request: Request) -> Response:
        """Tell how an address stands."""
        return JsonResponse(self._encoded(await self._service.find(request.path_params["address"], token(request))))

    async def extend(self, request: Request) -> Response:
        """Have an address end at another time."""
        address, key = request.path_params["address"], holder_token(request)
        wanted = read_body(await body(request), request.headers.get("content-type"), ExtendRequest)
        return JsonResponse(self._encoded(await self._service.extend(address, key, wanted.expires_in_seconds)))

    async def delete(self, request: Request) -> Response:
        """End an address now."""
        await self._service.delete(request.path_params["address"], holder_token(request))
        return Response(status_code=204)

    async def domains(self, _request: Request) -> Response:
        """Tell at which domains addresses can be created."""
        return JsonResponse(msgspec.json.encode(DomainList(list(self._service.domains))))

    def _encoded(self, inbox: Inbox, new_token: str | UnsetType = UNSET) -> bytes:
        return msgspec.json.encode(self._wire.address(inbox, self._service.extendable_until_ms(inbox), new_token))
