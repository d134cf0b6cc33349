"""What API version 1 can be asked, as one table: ``app.py`` routes by it, ``openapi.py`` describes it."""

from msgspec import Struct

from tmpmaild.http.requests import CreateRequest, ExtendRequest, PageQuery, StreamQuery, ViewRequest
from tmpmaild.http.wire import AddressResource, DomainList, FullMessageItem, MessageList, ViewItem

_ADDRESS = "/api/v1/addresses/{address}"
_MESSAGE = f"{_ADDRESS}/messages/{{id}}"
_ALWAYS = ("bad-host", "headers-too-large", "internal-error", "stopping")
_LIMITED = ("rate-limited", *_ALWAYS)
_OF_API = ("cross-site", *_LIMITED)
_OF_ADDRESS = ("unauthorized", "address-not-found", "address-expired", "storage-unavailable", *_OF_API)
_OF_MESSAGE = ("message-not-found", *_OF_ADDRESS)
_OF_BODY = (
    "malformed-request",
    "request-timeout",
    "body-too-large",
    "unsupported-media-type",
    "invalid-request",
)


class Answer(Struct, frozen=True):
    """What comes back when all is well: JSON of ``kind``, or octets of ``media_type``, or nothing."""

    status: int
    description: str
    kind: type[Struct] | None = None
    media_type: str = "application/json"
    headers: tuple[str, ...] = ()


class Operation(Struct, frozen=True):
    """One thing that can be asked. ``access`` is "open", "reading" (a token may be needed) or "changing" (it is)."""

    id: str
    method: str
    path: str
    tag: str
    summary: str
    answer: Answer
    problems: tuple[str, ...]
    access: str = "reading"
    description: str = ""
    query: type[Struct] | None = None
    headers: tuple[str, ...] = ()
    body: type[Struct] | None = None


OPERATIONS = (
    Operation(
        id="createAddress",
        method="POST",
        path="/api/v1/addresses",
        tag="Addresses",
        summary="Create an address",
        description="Without a body the address is random. The token commands the address and is shown only here.",
        access="open",
        body=CreateRequest,
        answer=Answer(201, "The address, with its token.", AddressResource, headers=("Location",)),
        problems=("address-taken", "storage-full", "storage-unavailable", *_OF_BODY, *_OF_API),
    ),
    Operation(
        id="getAddress",
        method="GET",
        path=_ADDRESS,
        tag="Addresses",
        summary="Look at an address",
        answer=Answer(200, "The address.", AddressResource),
        problems=_OF_ADDRESS,
    ),
    Operation(
        id="extendAddress",
        method="PATCH",
        path=_ADDRESS,
        tag="Addresses",
        summary="Extend or shorten an address",
        description="How long an address may live at most is the operator's decision; by default 60 minutes.",
        access="changing",
        body=ExtendRequest,
        answer=Answer(200, "The address.", AddressResource),
        problems=("storage-full", *_OF_BODY, *_OF_ADDRESS),
    ),
    Operation(
        id="deleteAddress",
        method="DELETE",
        path=_ADDRESS,
        tag="Addresses",
        summary="Delete an address and its mail",
        access="changing",
        answer=Answer(204, "It is gone."),
        problems=("storage-full", *_OF_ADDRESS),
    ),
    Operation(
        id="listDomains",
        method="GET",
        path="/api/v1/domains",
        tag="Addresses",
        summary="List the domains",
        access="open",
        answer=Answer(200, "The domains that addresses can be created at.", DomainList),
        problems=_OF_API,
    ),
    Operation(
        id="listMessages",
        method="GET",
        path=f"{_ADDRESS}/messages",
        tag="Messages",
        summary="List messages, or wait for one",
        description="Bodies are whole up to 4 MiB an answer, newest first; beyond that they are cut to 1 KiB. "
        "With `wait` the answer comes as soon as there is a match; give `after` to wait for what is new.",
        query=PageQuery,
        answer=Answer(200, "The messages.", MessageList, headers=("Link",)),
        problems=("invalid-request", "too-many-streams", "busy", *_OF_ADDRESS),
    ),
    Operation(
        id="getMessage",
        method="GET",
        path=_MESSAGE,
        tag="Messages",
        summary="Read one message",
        answer=Answer(200, "The message.", FullMessageItem),
        problems=("busy", *_OF_MESSAGE),
    ),
    Operation(
        id="deleteMessage",
        method="DELETE",
        path=_MESSAGE,
        tag="Messages",
        summary="Delete one message",
        access="changing",
        answer=Answer(204, "It is gone."),
        problems=("storage-full", *_OF_MESSAGE),
    ),
    Operation(
        id="getSource",
        method="GET",
        path=f"{_MESSAGE}/raw",
        tag="Messages",
        summary="Read a message as it came",
        description="Below `Return-Path` and `Received` fields of this server.",
        answer=Answer(200, "The mail.", media_type="message/rfc822"),
        problems=("busy", *_OF_MESSAGE),
    ),
    Operation(
        id="getAttachment",
        method="GET",
        path=f"{_MESSAGE}/attachments/{{index}}",
        tag="Messages",
        summary="Fetch an attachment",
        answer=Answer(200, "Its content, decoded, under its own media type.", media_type="*/*"),
        problems=("busy", *_OF_MESSAGE),
    ),
    Operation(
        id="createView",
        method="POST",
        path=f"{_MESSAGE}/view",
        tag="Messages",
        summary="Get a path to look at a message as HTML",
        description="For a frame, which cannot send a token. The path works for a minute, for whoever knows it.",
        body=ViewRequest,
        answer=Answer(201, "Where to look.", ViewItem, headers=("Location",)),
        problems=(*_OF_BODY, *_OF_MESSAGE),
    ),
    Operation(
        id="followAddress",
        method="GET",
        path=f"{_ADDRESS}/events",
        tag="Events",
        summary="Follow an address",
        description="Server-Sent Events. `message` has an id and the list form of the message; `deleted` names a "
        "message, or nothing when the address was deleted; `extended` has the new `expires_at`; `expired` is the end. "
        "Whoever comes back with `Last-Event-ID` gets every message once. A body over 64 KiB is cut to 1 KiB.",
        query=StreamQuery,
        headers=("Last-Event-ID",),
        answer=Answer(200, "Events, for as long as the address lives.", media_type="text/event-stream"),
        problems=("invalid-request", "too-many-streams", *_OF_ADDRESS),
    ),
    Operation(
        id="lookAtView",
        method="GET",
        path="/view/{secret}",
        tag="Messages",
        summary="Look at a message as HTML",
        description="Sanitised, under a policy that allows neither scripts nor, unless asked for, anything remote.",
        access="open",
        answer=Answer(200, "A page for a sandboxed frame.", media_type="text/html"),
        problems=("not-found", "busy", "storage-unavailable", *_LIMITED),
    ),
    Operation(
        id="describe",
        method="GET",
        path="/api/v1/openapi.json",
        tag="Description",
        summary="This description",
        access="open",
        answer=Answer(200, "An OpenAPI 3.1 document.", media_type="application/json"),
        problems=_OF_API,
    ),
)
