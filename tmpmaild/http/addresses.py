"""Endpoints for addresses: each reads a request, calls the service and returns the response."""

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from tmpmaild.errors import InvalidRequest
from tmpmaild.http.inputs import CreateRequest, ExtendRequest, WebhookRequest, fault_items, faults
from tmpmaild.http.openapi import ADDRESS, Operation, Returns
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import client, required_token, token
from tmpmaild.http.responses import JsonResponse
from tmpmaild.http.schemas import AddressResource, DomainList, RefusalItem, RefusalList, Serializer, WebhookItem
from tmpmaild.http.validation import read_json
from tmpmaild.inboxes.access import is_inbox_token
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.inboxes.service import InboxService
from tmpmaild.model import Inbox, Webhook, WebhookState, rfc3339
from tmpmaild.validation import ValidationErrors

_NOT_CALLED = WebhookState("", "")


class AddressEndpoints:
    """Endpoints for addresses."""

    def __init__(self, service: InboxService, serializer: Serializer) -> None:
        self._service = service
        self._serializer = serializer

    @Operation(
        "POST /api/v1/addresses",
        "createAddress",
        Returns(201, "The address, with its token.", AddressResource, headers=("Location",)),
        tag="Addresses",
        security="none",
        body=CreateRequest,
        problems=("blocked", "webhooks-off", "address-taken", "storage-full", "storage-unavailable"),
    )
    async def create(self, request: Request) -> Response:
        """Create an address.

        Without a body, the address is random and has the default lifetime. The token controls the address and is
        returned only here.
        """
        who = client(request)
        if self._service.blocks.has_client(who.ip):
            raise BadRequest("blocked")
        errors = ValidationErrors()
        body = await read_json(request, CreateRequest, errors)
        wanted = NewAddress(
            local_part=None if body.local_part is UNSET else body.local_part,
            domain=None if body.domain is UNSET else body.domain,
            private=body.private,
            lifetime_seconds=None if body.expires_in_seconds is UNSET else body.expires_in_seconds,
            faults=faults(body.faults),
            webhook=errors.collect(self._webhook, body.webhook) or None,
        )
        errors.collect(self._service.inboxes.ensure_creatable, wanted)
        errors.raise_if_any()
        inbox, key = await self._service.inboxes.create(wanted, None if who.exempt else who.name, who.name)
        resource = replace(await self._resource(inbox, key, wanted.webhook), token=key)
        return JsonResponse(resource, 201, {"Location": self._serializer.address_path(inbox.address)})

    @Operation(f"GET {ADDRESS}", "getAddress", Returns(200, "The address.", AddressResource), tag="Addresses")
    async def show(self, request: Request) -> Response:
        """Read an address.

        Returns its expiry time, the latest time to which it can be extended, and its number of messages.
        """
        key = token(request)
        inbox = await self._service.access.find(request.path_params["address"], key)
        return JsonResponse(await self._resource(inbox, key))

    @Operation(
        f"PATCH {ADDRESS}",
        "extendAddress",
        Returns(200, "The address.", AddressResource),
        tag="Addresses",
        security="required",
        body=ExtendRequest,
        problems=("webhooks-off",),
    )
    async def extend(self, request: Request) -> Response:
        """Change the expiry, faults or webhook of an address.

        The operator limits the lifetime of an address; the default lifetime is 60 minutes. If the operator allows them,
        `faults` make the next messages fail, and `webhook` is called on events.
        """
        address, key = request.path_params["address"], required_token(request)
        errors = ValidationErrors()
        wanted = await read_json(request, ExtendRequest, errors)
        seconds = None if wanted.expires_in_seconds is UNSET else wanted.expires_in_seconds
        wanted_faults = None if wanted.faults is UNSET else faults(wanted.faults)
        webhook = errors.collect(self._webhook, wanted.webhook)
        if seconds is None and wanted_faults is None and webhook is UNSET and not errors.errors:
            raise InvalidRequest(("/expires_in_seconds", "expected a number of 1 or more, found nothing"))
        inbox = await self._service.inboxes.change(address, key, seconds, wanted_faults, webhook, errors=errors)
        return JsonResponse(await self._resource(inbox, key, webhook))

    @Operation(
        f"DELETE {ADDRESS}",
        "deleteAddress",
        Returns(204, "The address is deleted."),
        tag="Addresses",
        security="required",
    )
    async def delete(self, request: Request) -> Response:
        """Delete an address and its messages.

        Both are removed immediately. For 24 hours, requests for the address receive `410`, and it cannot be created
        again.
        """
        await self._service.inboxes.delete(request.path_params["address"], required_token(request))
        return Response(status_code=204)

    @Operation(
        "GET /api/v1/domains",
        "listDomains",
        Returns(200, "The domains in which addresses can be created.", DomainList),
        tag="Addresses",
        security="none",
    )
    async def domains(self, _request: Request) -> Response:
        """List the domains and the lifetimes.

        The first domain is the default. The lifetimes are the default and the maximum for a new address.
        """
        config = self._service.rules.config
        lifetimes = config.addresses.lifetime_seconds, config.addresses.max_lifetime_seconds
        catch_all = True if self._service.catcher is not None else UNSET
        offered = DomainList(list(config.domains), *lifetimes, catch_all)
        return JsonResponse(offered)

    @Operation(
        "GET /api/v1/refusals",
        "listRefusals",
        Returns(200, "The last refusals.", RefusalList),
        security="none",
        problems=("not-found",),
    )
    async def refusals(self, _request: Request) -> Response:
        """List the mail server's refusals.

        Intended for tests: shows why a message did not arrive. Available only if the operator has set
        `smtp.keep_refusals`.
        """
        refusals = self._service.refusals
        if not refusals.wanted:
            raise BadRequest("not-found")
        items = [RefusalItem(rfc3339(one.at_ms), one.client, one.command, one.reason) for one in refusals.newest()]
        return JsonResponse(RefusalList(items))

    def _webhook(self, body: WebhookRequest | UnsetType | None) -> Webhook | UnsetType | None:
        """Return the webhook to set, with a new secret."""
        if not isinstance(body, WebhookRequest):
            return body
        if not self._service.webhooks.allowed:
            raise BadRequest("webhooks-off")
        return self._service.webhooks.make(body.url, body.events, body.has)

    async def _resource(
        self, inbox: Inbox, key: str | None, set_now: Webhook | UnsetType | None = UNSET
    ) -> AddressResource:
        """Return an address in the form shown to the owner of its token; a newly set webhook includes its secret."""
        resource = self._serializer.address(inbox, self._service.rules.extendable_until_ms(inbox))
        if not is_inbox_token(inbox, key):
            return resource
        if self._service.faults.allowed:
            resource = replace(resource, faults=fault_items(self._service.faults.remaining(inbox.id)))
        if self._service.webhooks.allowed:
            resource = replace(resource, webhook=await self._shown_webhook(inbox, set_now))
        return resource

    async def _shown_webhook(self, inbox: Inbox, set_now: Webhook | UnsetType | None) -> WebhookItem | None:
        if isinstance(set_now, UnsetType):
            stored = await self._service.webhooks.read(inbox.id)
            return self._serializer.webhook(stored.webhook, stored.state) if stored else None
        return replace(self._serializer.webhook(set_now, _NOT_CALLED), secret=set_now.secret) if set_now else None
