"""The endpoints of addresses: each reads a request, calls the service and makes the answer."""

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from tmpmaild.errors import InvalidRequest
from tmpmaild.http.answers import JsonResponse
from tmpmaild.http.parsing import read_body
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import CreateRequest, ExtendRequest, fault_items, faults
from tmpmaild.http.resource import body, client, holder_token, token
from tmpmaild.http.schemas import AddressResource, DomainList, RefusalItem, RefusalList
from tmpmaild.http.wire import Wire
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.inboxes.service import InboxService
from tmpmaild.model import Inbox
from tmpmaild.times import rfc3339


class AddressEndpoints:
    """The endpoints over one service."""

    def __init__(self, service: InboxService, wire: Wire) -> None:
        self._service = service
        self._wire = wire

    async def create(self, request: Request) -> Response:
        """Create an address; the answer has its token."""
        who = client(request)
        if self._service.blocks.has_client(who.ip):
            raise BadRequest("blocked", "")
        asked = read_body(await body(request), request.headers.get("content-type"), CreateRequest)
        wanted = NewAddress(
            local_part=None if asked.local_part is UNSET else asked.local_part,
            domain=None if asked.domain is UNSET else asked.domain,
            private=asked.private,
            lifetime_seconds=None if asked.expires_in_seconds is UNSET else asked.expires_in_seconds,
            faults=faults(asked.faults),
        )
        inbox, key = await self._service.create(wanted, None if who.exempt else who.name)
        resource = replace(self._resource(inbox, key), token=key)
        return JsonResponse(msgspec.json.encode(resource), 201, {"Location": self._wire.address_path(inbox.address)})

    async def show(self, request: Request) -> Response:
        """Return an address: when it expires, how many messages it has."""
        key = token(request)
        inbox = await self._service.find(request.path_params["address"], key)
        return JsonResponse(msgspec.json.encode(self._resource(inbox, key)))

    async def extend(self, request: Request) -> Response:
        """Set the expiry of an address, or its faults."""
        address, key = request.path_params["address"], holder_token(request)
        wanted = read_body(await body(request), request.headers.get("content-type"), ExtendRequest)
        seconds = None if wanted.expires_in_seconds is UNSET else wanted.expires_in_seconds
        wanted_faults = None if wanted.faults is UNSET else faults(wanted.faults)
        if seconds is None and wanted_faults is None:
            raise InvalidRequest(("/expires_in_seconds", "expected a number of 1 or more, found nothing"))
        inbox = await self._service.change(address, key, seconds, wanted_faults)
        return JsonResponse(msgspec.json.encode(self._resource(inbox, key)))

    async def delete(self, request: Request) -> Response:
        """Delete an address and its mail."""
        await self._service.delete(request.path_params["address"], holder_token(request))
        return Response(status_code=204)

    async def domains(self, _request: Request) -> Response:
        """Return the domains that addresses can be created at, and how long addresses live."""
        service = self._service
        offered = DomainList(list(service.domains), service.lifetime_ms // 1000, service.max_lifetime_ms // 1000)
        return JsonResponse(msgspec.json.encode(offered))

    async def refusals(self, _request: Request) -> Response:
        """Return what SMTP clients were refused lately, if the operator wants that to be known."""
        refusals = self._service.refusals
        if not refusals.wanted:
            raise BadRequest("not-found", "")
        items = [RefusalItem(rfc3339(one.at_ms), one.client, one.command, one.reason) for one in refusals.newest()]
        return JsonResponse(msgspec.json.encode(RefusalList(items)))

    def _resource(self, inbox: Inbox, key: str | None) -> AddressResource:
        """Return an address as the holder of a token sees it."""
        resource = self._wire.address(inbox, self._service.extendable_until_ms(inbox))
        left = self._service.faults_left(inbox, key)
        return resource if left is None else replace(resource, faults=fault_items(left))
