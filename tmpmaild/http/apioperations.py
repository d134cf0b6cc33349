"""The operations of API version 1: ``app.py`` routes by this table, ``openapi.py`` describes it."""

from msgspec import Struct

from tmpmaild.http.requests import (
    CreateRequest,
    DeleteQuery,
    ExtendRequest,
    FollowRequest,
    PageQuery,
    StreamQuery,
    ViewRequest,
)
from tmpmaild.http.schemas import (
    AddressResource,
    DeletedMessages,
    DomainList,
    FeedItem,
    FullMessageItem,
    MessageList,
    RefusalList,
    ViewItem,
    WebhookExpiry,
    WebhookMessage,
)

_ADDRESS = "/api/v1/addresses/{address}"
_MESSAGE = f"{_ADDRESS}/messages/{{id}}"
_FEED = f"{_ADDRESS}/feed"
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


TAGS = {
    "Addresses": "Create, read, extend and delete addresses. They expire by themselves.",
    "Messages": "Mail that was received for an address: read it, wait for it, view it, delete it.",
    "Events": "What happens to an address, as it happens.",
    "Description": "The API about itself.",
}
_TEXT = {"type": "string"}
_OCTETS = {"type": "string", "format": "binary"}


class Answer(Struct, frozen=True):
    """The answer on success: JSON of ``kind``, or ``schema`` in one of ``media_types``, or no body."""

    status: int
    description: str
    kind: type[Struct] | None = None
    media_types: tuple[str, ...] = ("application/json",)
    schema: dict[str, str] | None = None
    headers: tuple[str, ...] = ()


class Operation(Struct, frozen=True):
    """One operation of the API. ``security`` tells of the token: "none", "optional" or "required"."""

    id: str
    method: str
    path: str
    tag: str
    summary: str
    answer: Answer
    problems: tuple[str, ...]
    security: str = "optional"
    description: str = ""
    query: type[Struct] | None = None
    headers: tuple[str, ...] = ()
    body: type[Struct] | None = None


class WebhookEvent(Struct, frozen=True):
    """What the webhook of an address may be told; ``name`` is its ``type``, ``kind`` the body."""

    id: str
    name: str
    summary: str
    kind: type[Struct]


WEBHOOK_EVENTS = (
    WebhookEvent("messageReceived", "message.received", "A message has come", WebhookMessage),
    WebhookEvent("verdictReached", "verdict.reached", "It is known who sent a message", WebhookMessage),
    WebhookEvent("inboxExpired", "inbox.expired", "The address has ended", WebhookExpiry),
)

_ATOM = Answer(200, "The feed.", media_types=("application/atom+xml",), schema=_TEXT, headers=("ETag",))

OPERATIONS = (
    Operation(
        id="createAddress",
        method="POST",
        path="/api/v1/addresses",
        tag="Addresses",
        summary="Create an address",
        description="Without a body the address is random and lives as long as the operator has set. The token is the "
        "key to the address and is shown only here.",
        security="none",
        body=CreateRequest,
        answer=Answer(201, "The address, with its token.", AddressResource, headers=("Location",)),
        problems=(
            "blocked",
            "webhooks-off",
            "address-taken",
            "storage-full",
            "storage-unavailable",
            *_OF_BODY,
            *_OF_API,
        ),
    ),
    Operation(
        id="getAddress",
        method="GET",
        path=_ADDRESS,
        tag="Addresses",
        summary="Look at an address",
        description="When it ends, how far it can be extended, and how many messages it has.",
        answer=Answer(200, "The address.", AddressResource),
        problems=_OF_ADDRESS,
    ),
    Operation(
        id="extendAddress",
        method="PATCH",
        path=_ADDRESS,
        tag="Addresses",
        summary="Extend or shorten an address, set its faults or its webhook",
        description="The operator sets how long an address may live; by default 60 minutes. Where the operator "
        "allows it, `faults` make the next mails fail, and `webhook` is called when something happens.",
        security="required",
        body=ExtendRequest,
        answer=Answer(200, "The address.", AddressResource),
        problems=("webhooks-off", "storage-full", *_OF_BODY, *_OF_ADDRESS),
    ),
    Operation(
        id="deleteAddress",
        method="DELETE",
        path=_ADDRESS,
        tag="Addresses",
        summary="Delete an address and its mail",
        description="It ends at once. For 24 hours it answers `410`, and its name cannot be created again.",
        security="required",
        answer=Answer(204, "It is deleted."),
        problems=("storage-full", *_OF_ADDRESS),
    ),
    Operation(
        id="listDomains",
        method="GET",
        path="/api/v1/domains",
        tag="Addresses",
        summary="List the domains and the lifetimes",
        description="The first domain is the default. The lifetimes are the default and the maximum of a new address.",
        security="none",
        answer=Answer(200, "The domains that addresses can be created at.", DomainList),
        problems=_OF_API,
    ),
    Operation(
        id="listRefusals",
        method="GET",
        path="/api/v1/refusals",
        tag="Messages",
        summary="List what the mail server refused",
        description="For tests: why a mail did not come. Only where the operator has set `smtp.keep_refusals`.",
        security="none",
        answer=Answer(200, "The last refusals.", RefusalList),
        problems=("not-found", *_OF_API),
    ),
    Operation(
        id="listMessages",
        method="GET",
        path=f"{_ADDRESS}/messages",
        tag="Messages",
        summary="List messages, or wait for one",
        description="Bodies are whole up to 4 MiB an answer, newest first; beyond that they are cut to 1 KiB. "
        "With `wait` the answer comes as soon as there is a match; give `after` to wait for what is new. "
        "For codes and links (`has`) up to 200 messages are looked at an answer; it may be short, and `Link` goes on.",
        query=PageQuery,
        answer=Answer(200, "The messages.", MessageList, headers=("Link",)),
        problems=("invalid-request", "too-many-streams", "busy", *_OF_ADDRESS),
    ),
    Operation(
        id="deleteMessages",
        method="DELETE",
        path=f"{_ADDRESS}/messages",
        tag="Messages",
        summary="Delete all messages, or some",
        description="Those that are named by `id`, or all up to one by `up_to`; without either all. It costs one "
        "request, however many there are, and may be repeated: what is not there is not counted. An unknown "
        "parameter is refused.",
        security="required",
        query=DeleteQuery,
        answer=Answer(200, "They are deleted.", DeletedMessages),
        problems=("invalid-request", "storage-full", *_OF_ADDRESS),
    ),
    Operation(
        id="exportMessages",
        method="GET",
        path=f"{_ADDRESS}/messages.mbox",
        tag="Messages",
        summary="Save all messages as one file",
        description="An mbox file (RFC 4155; lines that begin with `From ` are quoted as in mboxrd), which mail "
        "programs read: each message as it came, oldest first, below `Return-Path` and `Received` fields of this "
        "server. Lines end in LF.",
        answer=Answer(200, "The file; its length is not known.", media_types=("application/mbox",), schema=_OCTETS),
        problems=("busy", *_OF_ADDRESS),
    ),
    Operation(
        id="getMessage",
        method="GET",
        path=_MESSAGE,
        tag="Messages",
        summary="Read one message",
        description="With its headers, its HTML as it was received, the SMTP envelope and what the parser forgave.",
        answer=Answer(200, "The message.", FullMessageItem),
        problems=("busy", *_OF_MESSAGE),
    ),
    Operation(
        id="deleteMessage",
        method="DELETE",
        path=_MESSAGE,
        tag="Messages",
        summary="Delete one message",
        description="It is deleted at once, and its space is free for other mail.",
        security="required",
        answer=Answer(204, "It is deleted."),
        problems=("storage-full", *_OF_MESSAGE),
    ),
    Operation(
        id="getSource",
        method="GET",
        path=f"{_MESSAGE}/raw",
        tag="Messages",
        summary="Read a message as it came",
        description="Below `Return-Path` and `Received` fields of this server.",
        answer=Answer(200, "The mail.", media_types=("message/rfc822",), schema=_OCTETS),
        problems=("busy", *_OF_MESSAGE),
    ),
    Operation(
        id="getAttachment",
        method="GET",
        path=f"{_MESSAGE}/attachments/{{index}}",
        tag="Messages",
        summary="Fetch an attachment",
        description="Always as a download, with the media type that the mail states; what a browser would run is "
        "`application/octet-stream`.",
        answer=Answer(200, "Its content, decoded.", media_types=("application/octet-stream", "*/*"), schema=_OCTETS),
        problems=("busy", *_OF_MESSAGE),
    ),
    Operation(
        id="createView",
        method="POST",
        path=f"{_MESSAGE}/view",
        tag="Messages",
        summary="Get a path to look at a message as HTML",
        description="For a frame, which cannot send a token. The path works for a minute, and needs no token. "
        "It counts for the rate limit of pages (`page`), and when it is refused for that of the API too.",
        body=ViewRequest,
        answer=Answer(201, "Where to look.", ViewItem, headers=("Location",)),
        problems=(*_OF_BODY, *_OF_MESSAGE),
    ),
    Operation(
        id="createFeed",
        method="POST",
        path=_FEED,
        tag="Messages",
        summary="Get a path to read an address as a feed",
        description="For feed readers, which cannot send a token. The path of a private address has a secret in it, "
        "which permits to read this feed and nothing else; it ends with the address.",
        answer=Answer(201, "Where the feed is.", FeedItem, headers=("Location",)),
        problems=_OF_ADDRESS,
    ),
    Operation(
        id="readFeed",
        method="GET",
        path=_FEED,
        tag="Messages",
        summary="Read an address as a feed",
        description="Atom (RFC 4287): the newest 50 messages, each as text with its codes and links above it.",
        headers=("If-None-Match",),
        answer=_ATOM,
        problems=("busy", *_OF_ADDRESS),
    ),
    Operation(
        id="readSecretFeed",
        method="GET",
        path=f"{_FEED}/{{secret}}",
        tag="Messages",
        summary="Read an address as a feed by its secret path",
        description="The same for a path that `createFeed` has given; no token is needed.",
        security="none",
        headers=("If-None-Match",),
        answer=_ATOM,
        problems=("busy", "address-not-found", "address-expired", "storage-unavailable", *_OF_API),
    ),
    Operation(
        id="followAddress",
        method="GET",
        path=f"{_ADDRESS}/events",
        tag="Events",
        summary="Follow an address",
        description="Server-Sent Events. `message` has an id and the list form of the message; `deleted` names a "
        "message, or nothing when the address was deleted; `extended` has the new `expires_at`; `verdict` names a "
        "message of which it is known now who sent it; `expired` is the end. A client that reconnects with "
        "`Last-Event-ID` gets every message once. A body over 64 KiB is cut to 1 KiB. "
        "With `has` other messages are left out.",
        query=StreamQuery,
        headers=("Last-Event-ID",),
        answer=Answer(
            200, "Events, for as long as the address lives.", media_types=("text/event-stream",), schema=_TEXT
        ),
        problems=("invalid-request", "too-many-streams", *_OF_ADDRESS),
    ),
    Operation(
        id="followAddresses",
        method="POST",
        path="/api/v1/events",
        tag="Events",
        summary="Follow several addresses",
        description="The events of up to 20 addresses in one stream; each names its `address` in its data. None has an "
        "id: to resume, send the last message id of each address as `after`. `inbox` describes an address, once all "
        "mail it had has been sent. `unavailable`: it cannot be read, which costs a token of the rate limit. "
        "`limited`: it was not opened, because no token was left.",
        security="none",
        body=FollowRequest,
        answer=Answer(
            200, "Events, for as long as one of the addresses lives.", media_types=("text/event-stream",), schema=_TEXT
        ),
        problems=("too-many-streams", "storage-unavailable", *_OF_BODY, *_OF_API),
    ),
    Operation(
        id="lookAtView",
        method="GET",
        path="/view/{secret}",
        tag="Messages",
        summary="Look at a message as HTML",
        description="Sanitised, under a policy that allows neither scripts nor, unless asked for, anything remote.",
        security="none",
        answer=Answer(200, "A page for a sandboxed frame.", media_types=("text/html",), schema=_TEXT),
        problems=("not-found", "busy", "storage-unavailable", *_LIMITED),
    ),
    Operation(
        id="describe",
        method="GET",
        path="/api/v1/openapi.json",
        tag="Description",
        summary="This description",
        description="Made from the table that the server routes by; its examples use a domain of this server.",
        security="none",
        answer=Answer(200, "An OpenAPI 3.1 document.", schema={"type": "object"}),
        problems=_OF_API,
    ),
)
