"""The OpenAPI 3.1 document, made from the table of operations and the types that requests and answers have."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from tmpmaild import __version__
from tmpmaild.http.problems import MAX_BODY_BYTES, PROBLEMS, Document
from tmpmaild.http.requests import (
    EXAMPLE_DOMAIN,
    CreateRequest,
    DeleteQuery,
    ExtendRequest,
    FollowRequest,
    MessageId,
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


_REF = "#/components/schemas/{name}"
_DESCRIPTION = f"""\
Disposable mail addresses: create one, receive mail for it, read the mail until the address expires.

Reading an inbox needs its address; a private one needs its token as well, and every change needs it
(`Authorization: Bearer …`). The address in a path is folded as SMTP folds it: any case, `+tag` ignored. Each client has
a bucket of requests that refills evenly, and every answer says what is left. Errors are problem documents (RFC 9457)
with a stable `code`. HEAD works where GET does; OPTIONS answers `Allow`. Bodies: {MAX_BODY_BYTES // 1024} KiB at most.
Version 1 only grows: ignore members you do not know."""

_PATH_PARAMETERS: dict[str, tuple[str, dict[str, Any]]] = {
    "address": (
        "The address, in any form that mail reaches it by.",
        _TEXT | {"examples": [f"k7m3wq9xt2ab@{EXAMPLE_DOMAIN}"]},
    ),
    "id": ("The id of a message.", msgspec.json.schema(MessageId)),
    "index": ("The attachment's `index`.", {"type": "integer", "minimum": 0}),
    "secret": ("From the `url` of a view or a feed.", _TEXT),
}
_REQUEST_HEADERS = {
    "If-None-Match": "The `ETag` of what the client holds: the answer is `304` if nothing has changed since.",
    "Last-Event-ID": "The id of the last event that was received; an invalid one is ignored.",
}
_RESPONSE_HEADERS = {
    "Location": "The path of what was created.",
    "ETag": "Another one as soon as anything of the answer has changed.",
    "Link": 'The next page, with `rel="next"`, where there is one (RFC 8288).',
    "RateLimit-Policy": "How many requests a client has (IETF draft *RateLimit header fields*).",
    "RateLimit": "How many are left (`r`), and in how many seconds there is one more (`t`).",
    "Retry-After": "Seconds to wait.",
    "WWW-Authenticate": "`Bearer`",
}
_EXTRA_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
_WEBHOOK_HEADERS = {
    "webhook-id": "The same for each call about this event.",
    "webhook-timestamp": "When this call was made, in Unix seconds.",
    "webhook-signature": "Standard Webhooks, version 1: made with the `secret` of the webhook.",
}
_WEBHOOK_ANSWERS = {
    "2XX": "The event is taken.",
    "410": "The webhook is taken away.",
    "default": "The call is made again later; after `429` and `503` when `Retry-After` says.",
}
_parameter = re.compile(r"{(\w+)}").findall


def document(domain: str = EXAMPLE_DOMAIN, public_url: str = "") -> bytes:
    """Return the document as JSON, with examples that a server of this domain accepts."""
    information = {
        "title": "tmpmaild",
        "version": __version__,
        "description": _DESCRIPTION,
        "contact": {"name": "Who runs this server", "email": f"postmaster@{domain}"},
        "license": {"name": "MIT", "identifier": "MIT"},
    }
    described = {
        "openapi": "3.1.0",
        "info": information,
        # Else relative to the document, so it is right behind any proxy; but some generators know no document.
        "servers": [{"url": public_url or "../.."}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": _with_domain(domain, _paths()),
        "webhooks": {event.name: {"post": _webhook(event)} for event in WEBHOOK_EVENTS},
        "components": {
            "schemas": _with_domain(domain, _schemas()),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "headers": {name: {"description": text, "schema": _TEXT} for name, text in _RESPONSE_HEADERS.items()},
        },
    }
    return msgspec.json.encode(described)


def _schemas() -> dict[str, Any]:
    structs = {kind for operation in OPERATIONS for kind in _kinds(operation)} | {Document}
    structs |= {event.kind for event in WEBHOOK_EVENTS}
    ordered = sorted(structs, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_REF)
    return schemas


def _with_domain(domain: str, value: Any, *, in_example: bool = False) -> Any:
    """Return part of the document with examples at the domain; what is not an example stays as it is."""
    if isinstance(value, dict):
        return {
            name: _with_domain(domain, inner, in_example=in_example or name == "examples")
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_domain(domain, inner, in_example=in_example) for inner in value]
    return value.replace(EXAMPLE_DOMAIN, domain) if in_example and isinstance(value, str) else value


def _kinds(operation: Operation) -> list[type[Struct]]:
    return [kind for kind in (operation.body, operation.answer.kind) if kind is not None]


def _paths() -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return paths


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "security": {"none": [], "optional": [{}, {"token": []}], "required": [{"token": []}]}[operation.security],
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": _has_required(operation.body) or operation.method == "PATCH",  # to change nothing is a mistake
            "content": {"application/json": {"schema": _ref(operation.body)}},
        }
    return {name: value for name, value in described.items() if value or name == "security"}


def _webhook(event: WebhookEvent) -> dict[str, Any]:
    return {
        "operationId": event.id,
        "tags": ["Events"],
        "summary": event.summary,
        "description": "A call of this server to the `url` of a webhook whose `events` have it.",
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": text, "schema": _TEXT}
            for name, text in _WEBHOOK_HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(event.kind)}}},
        "responses": {status: {"description": text} for status, text in _WEBHOOK_ANSWERS.items()},
    }


def _has_required(kind: type[Struct]) -> bool:
    return any(one.required for one in msgspec.structs.fields(kind))


def _ref(kind: type[Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
        for name in _parameter(operation.path)
        for text, schema in [_PATH_PARAMETERS[name]]
    ]
    in_header = [
        {"name": name, "in": "header", "description": _REQUEST_HEADERS[name], "schema": _TEXT}
        for name in operation.headers
    ]
    return in_path + (_query(operation.query) if operation.query else []) + in_header


def _query(kind: type[Struct]) -> list[dict[str, Any]]:
    """Describe parameters. An optional one can be left out, but is never null."""
    (_, schemas) = msgspec.json.schema_components([kind], ref_template=_REF)
    described = []
    for name, schema in schemas[kind.__name__]["properties"].items():
        given, *_ = schema.get("anyOf", [schema])
        given = {key: value for key, value in given.items() if value not in (None, "", [])}
        described.append({"name": name, "in": "query", "description": given.pop("description", ""), "schema": given})
    return described


def _responses(operation: Operation) -> dict[str, Any]:
    responses = {str(operation.answer.status): _answer(operation.answer)}
    if "ETag" in operation.answer.headers:
        responses["304"] = {"description": "Nothing has changed.", "headers": _headers(("ETag",))}
    by_status: dict[int, list[str]] = {}
    for code in operation.problems:
        by_status.setdefault(PROBLEMS[code].status, []).append(code)
    for status, codes in sorted(by_status.items()):
        responses[str(status)] = {
            "description": " ".join(f"`{code}`: {PROBLEMS[code].explanation}" for code in codes),
            "headers": _headers(_EXTRA_HEADERS.get(status, ())),
            "content": {"application/problem+json": {"schema": _ref(Document)}},
        }
    return responses


def _answer(answer: Answer) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description, "headers": _headers(answer.headers)}
    schema = answer.schema if answer.kind is None else _ref(answer.kind)
    if schema is not None:
        described["content"] = {media_type: {"schema": schema} for media_type in answer.media_types}
    return described


def _headers(names: tuple[str, ...]) -> dict[str, Any]:
    every = (*names, "RateLimit-Policy", "RateLimit")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in every}
