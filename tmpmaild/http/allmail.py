"""Endpoints of the catcher: one list of all messages, regardless of their recipients.

They apply the per-address endpoints to the inbox that collects all mail. Without a catcher, each endpoint returns ``404
catch-all-off``.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tmpmaild.http.inputs import AllMailDeleteQuery, AllMailFileQuery, AllMailQuery, StreamQuery, ViewRequest
from tmpmaild.http.messages import MessageEndpoints, ViewEndpoints, wanted_deletion
from tmpmaild.http.openapi import OCTETS, TEXT, Operation, Returns
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.responses import JsonResponse
from tmpmaild.http.routing import Endpoint
from tmpmaild.http.schemas import (
    DeletedMessages,
    FullMessageItem,
    MessageList,
    RecipientItem,
    RecipientList,
    ViewItem,
)
from tmpmaild.http.streams import StreamEndpoints
from tmpmaild.http.validation import parse_query
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.inboxes.catching import Catcher
from tmpmaild.inboxes.service import InboxService
from tmpmaild.validation import ValidationErrors

_ALL = "/api/v1/messages"
_ONE = f"{_ALL}/{{id}}"
_OFF = ("catch-all-off", "storage-unavailable")


class AllMailEndpoints:
    """Endpoints for all mail; ``messages``, ``views`` and ``streams`` are the per-address endpoints."""

    def __init__(
        self, service: InboxService, messages: MessageEndpoints, views: ViewEndpoints, streams: StreamEndpoints
    ) -> None:
        self._catcher = service.catcher
        self._messages = messages
        self._views = views
        self._streams = streams

    @Operation(
        f"GET {_ALL}",
        "listAllMessages",
        Returns(200, "The messages.", MessageList, headers=("Link",)),
        security="none",
        query=AllMailQuery,
        problems=(*_OFF, "too-many-streams", "busy"),
    )
    async def list(self, request: Request) -> ASGIApp:
        """List all messages, or wait for a message.

        Available only on a service that catches all mail. Each message is listed once, with all its `recipients`. The
        parameters are the same as for the messages of one address.
        """
        return await self._messages.list(self._for_all(request))

    @Operation(
        f"DELETE {_ALL}",
        "deleteAllMessages",
        Returns(200, "The messages are deleted.", DeletedMessages),
        security="none",
        query=AllMailDeleteQuery,
        problems=_OFF,
    )
    async def delete_several(self, request: Request) -> Response:
        """Delete all or some messages, for all of their recipients.

        Deletes the messages with these `id`s, the messages to one recipient (`to`), or all messages. Without `id`,
        `up_to` limits the deletion to this message and all earlier messages. Unknown parameters are refused.
        """
        catcher = self._required()
        query = wanted_deletion(request, AllMailDeleteQuery)
        if query.to is None:
            deleted = await catcher.delete_messages(query.id or None, up_to=query.up_to)
        else:
            deleted = await catcher.delete_messages_to(query.to, up_to=query.up_to)
        return JsonResponse(DeletedMessages(deleted))

    @Operation(
        f"GET {_ALL}.mbox",
        "exportAllMessages",
        Returns(200, "The file; its length is not known in advance.", media_types=("application/mbox",), schema=OCTETS),
        security="none",
        query=AllMailFileQuery,
        problems=(*_OFF, "busy"),
    )
    async def mbox(self, request: Request) -> ASGIApp:
        """Save the messages of all recipients as one file, or with `to` the messages to one recipient.

        The format is the same as for one address.
        """
        errors = ValidationErrors()
        query = parse_query(request.scope["query_string"], AllMailFileQuery, errors)
        errors.raise_if_any()
        only = self._required().ids_to(query.to) if query.to else None
        return await self._messages.saved(self._for_all(request), only)

    @Operation(
        f"GET {_ONE}",
        "getAnyMessage",
        Returns(200, "The message.", FullMessageItem),
        security="none",
        problems=(*_OFF, "busy"),
    )
    async def show(self, request: Request) -> ASGIApp:
        """Read a message, regardless of its recipients.

        The response is the same as for one address, plus all `recipients` in the envelope.
        """
        return await self._messages.show(self._for_all(request))

    @Operation(
        f"DELETE {_ONE}", "deleteAnyMessage", Returns(204, "The message is deleted."), security="none", problems=_OFF
    )
    async def delete(self, request: Request) -> Response:
        """Delete one message for all of its recipients.

        Its copies in the recipients' inboxes are deleted too.
        """
        await self._required().delete_message(request.path_params["id"])
        return Response(status_code=204)

    @Operation(
        f"GET {_ONE}/raw",
        "getAnySource",
        Returns(200, "The message.", media_types=("message/rfc822",), schema=OCTETS),
        security="none",
        problems=(*_OFF, "busy"),
    )
    async def source(self, request: Request) -> ASGIApp:
        """Read a message as received, regardless of its recipients.

        The response is the same as for one address.
        """
        return await self._messages.source(self._for_all(request))

    @Operation(
        f"GET {_ONE}/attachments/{{index}}",
        "getAnyAttachment",
        Returns(200, "Its content, decoded.", media_types=("application/octet-stream", "*/*"), schema=OCTETS),
        security="none",
        problems=(*_OFF, "busy"),
    )
    async def attachment(self, request: Request) -> ASGIApp:
        """Fetch an attachment of a message, regardless of its recipients.

        The response is the same as for one address.
        """
        return await self._messages.attachment(self._for_all(request))

    @Operation(
        f"POST {_ONE}/view",
        "createAnyView",
        Returns(201, "The path of the view.", ViewItem, headers=("Location",)),
        security="none",
        body=ViewRequest,
        problems=_OFF,
    )
    async def view(self, request: Request) -> Response:
        """Get a path to view a message as HTML, regardless of its recipients.

        The response is the same as for one address.
        """
        return await self._views.create(self._for_all(request))

    @Operation(
        "GET /api/v1/recipients",
        "listRecipients",
        Returns(200, "The recipients.", RecipientList),
        security="none",
        problems=_OFF,
    )
    async def recipients(self, _request: Request) -> Response:
        """List the recipients of all messages.

        Returns the number of messages for each recipient, as listed by `GET /api/v1/messages?to=`, and the total number
        of messages.
        """
        counted = await self._required().count_by_recipient()
        items = [RecipientItem(address, count) for address, count in counted.by_address.items()]
        return JsonResponse(RecipientList(counted.message_count, items))

    @Operation(
        "GET /api/v1/events",
        "followAll",
        Returns(200, "Events, until the service stops.", media_types=("text/event-stream",), schema=TEXT),
        tag="Events",
        security="none",
        query=StreamQuery,
        headers=("Last-Event-ID",),
        problems=(*_OFF, "too-many-streams"),
    )
    async def events(self, request: Request) -> ASGIApp:
        """Follow all messages.

        Sends the same events as for one address, but for all messages that a catch-all service receives.
        """
        return await self._streams.events(self._for_all(request))

    def _required(self) -> Catcher:
        if self._catcher is None:
            raise BadRequest("catch-all-off")
        return self._catcher

    def _for_all(self, request: Request) -> Request:
        """Return the same request, addressed to the inbox that collects all mail."""
        self._required()
        request.scope["path_params"] = {**request.path_params, "address": ALL_MAIL}
        return request


def opening(catcher: Catcher, endpoint: Endpoint) -> Endpoint:
    """Wrap a per-address endpoint so that it creates the inbox first. A client can then wait for the first message."""

    async def opened(request: Request) -> ASGIApp:
        await catcher.open(request.path_params["address"])
        return await endpoint(request)

    return opened
