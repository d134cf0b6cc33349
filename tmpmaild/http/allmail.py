"""Endpoints of the catcher: one list of all messages, whatever their recipients.

They apply the endpoints of an address to the inbox for all mail. Without a catcher each returns ``404 catch-all-off``.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tmpmaild.http.inputs import AllMailQuery, DeleteQuery, StreamQuery, ViewRequest
from tmpmaild.http.messages import MessageEndpoints, ViewEndpoints, wanted_deletion
from tmpmaild.http.openapi import OCTETS, TEXT, Operation, Returns
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.responses import JsonResponse
from tmpmaild.http.routing import Endpoint
from tmpmaild.http.schemas import DeletedMessages, FullMessageItem, MessageList, ViewItem
from tmpmaild.http.streams import StreamEndpoints
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.inboxes.catching import Catcher
from tmpmaild.inboxes.service import InboxService

_ALL = "/api/v1/messages"
_ONE = f"{_ALL}/{{id}}"
_OFF = ("catch-all-off", "storage-unavailable")


class AllMailEndpoints:
    """Endpoints for all mail; ``messages``, ``views`` and ``streams`` are the endpoints of an address."""

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
        """List all messages, or wait for one.

        Of a service that catches all mail. A message is here once, whatever its number of recipients, with its
        `recipients`. The parameters are those of the messages of one address.
        """
        return await self._messages.list(self._for_all(request))

    @Operation(
        f"DELETE {_ALL}",
        "deleteAllMessages",
        Returns(200, "They are deleted.", DeletedMessages),
        security="none",
        query=DeleteQuery,
        problems=_OFF,
    )
    async def delete_several(self, request: Request) -> Response:
        """Delete all messages, or some, for all of their recipients.

        Those that are named by `id`, or all up to one by `up_to`; without either all. An unknown parameter is refused.
        """
        catcher = self._required()
        query = wanted_deletion(request)
        return JsonResponse(DeletedMessages(await catcher.delete_messages(query.id or None, up_to=query.up_to)))

    @Operation(
        f"GET {_ALL}.mbox",
        "exportAllMessages",
        Returns(200, "The file; its length is not known.", media_types=("application/mbox",), schema=OCTETS),
        security="none",
        problems=(*_OFF, "busy"),
    )
    async def mbox(self, request: Request) -> ASGIApp:
        """Save all messages of all recipients as one file.

        As the mbox file of one address.
        """
        return await self._messages.mbox(self._for_all(request))

    @Operation(
        f"GET {_ONE}",
        "getAnyMessage",
        Returns(200, "The message.", FullMessageItem),
        security="none",
        problems=(*_OFF, "busy"),
    )
    async def show(self, request: Request) -> ASGIApp:
        """Read one message of all.

        The same as for one address, with all `recipients` of the envelope.
        """
        return await self._messages.show(self._for_all(request))

    @Operation(f"DELETE {_ONE}", "deleteAnyMessage", Returns(204, "It is deleted."), security="none", problems=_OFF)
    async def delete(self, request: Request) -> Response:
        """Delete one message for all of its recipients.

        Its copies in their inboxes are deleted too.
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
        """Read one message of all as it came.

        As for one address.
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
        """Fetch an attachment of one message of all.

        As for one address.
        """
        return await self._messages.attachment(self._for_all(request))

    @Operation(
        f"POST {_ONE}/view",
        "createAnyView",
        Returns(201, "Where to look.", ViewItem, headers=("Location",)),
        security="none",
        body=ViewRequest,
        problems=_OFF,
    )
    async def view(self, request: Request) -> Response:
        """Get a path to look at one message of all as HTML.

        As for one address.
        """
        return await self._views.create(self._for_all(request))

    @Operation(
        "GET /api/v1/events",
        "followAll",
        Returns(200, "Events, for as long as the service runs.", media_types=("text/event-stream",), schema=TEXT),
        tag="Events",
        security="none",
        query=StreamQuery,
        headers=("Last-Event-ID",),
        problems=(*_OFF, "too-many-streams"),
    )
    async def events(self, request: Request) -> ASGIApp:
        """Follow all messages.

        The events of one address, for all messages that come to a service that catches all mail.
        """
        return await self._streams.events(self._for_all(request))

    def _required(self) -> Catcher:
        if self._catcher is None:
            raise BadRequest("catch-all-off")
        return self._catcher

    def _for_all(self, request: Request) -> Request:
        """Return the same request for the inbox for all mail."""
        self._required()
        request.scope["path_params"] = {**request.path_params, "address": ALL_MAIL}
        return request


def opening(catcher: Catcher, endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint of an address to create the inbox first, so that a client can wait for its first message."""

    async def opened(request: Request) -> ASGIApp:
        await catcher.open(request.path_params["address"])
        return await endpoint(request)

    return opened
