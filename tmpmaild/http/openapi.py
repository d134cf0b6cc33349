"""Declarations of the API's operations, and the OpenAPI 3.1 document that is generated from them and their types."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild import __version__
from tmpmaild.docstrings import docstring
from tmpmaild.http.inputs import EXAMPLE_DOMAIN, MessageId
from tmpmaild.http.problems import PROBLEMS, Document
from tmpmaild.http.requests import MAX_BODY_BYTES
from tmpmaild.http.schemas import WebhookExpiry, WebhookMessage

E = TypeVar("E", bound=Callable[..., object])

ADDRESS = "/api/v1/addresses/{address}"
MESSAGE = f"{ADDRESS}/messages/{{id}}"

_PROBLEMS_EVERYWHERE = ("rate-limited", "bad-host", "headers-too-large", "internal-error", "stopping")
_PROBLEMS_OF_BODIES = (
    "malformed-request",
    "request-timeout",
    "body-too-large",
    "unsupported-media-type",
    "invalid-request",
    "busy",
)

TAGS = {
    "Addresses": "Create, read, extend and delete addresses. They expire automatically.",
    "Messages": "Messages that were received for an address: read, wait for, view and delete them.",
    "Events": "Events for an address, as they happen.",
    "Description": "The API about itself.",
}
TEXT: dict[str, object] = {"type": "string"}
OCTETS: dict[str, object] = {"type": "string", "format": "binary"}

_REF = "#/components/schemas/{name}"
_DESCRIPTION = f"""\
Disposable email addresses: create an address, receive messages for it, and read them until the address expires.

To read an inbox you need its address, and its token if it is private; every change needs the token
(`Authorization: Bearer …`). An address in a path matches as in SMTP: ignoring case and with any `+tag`. Each client has
a bucket of requests that refills evenly, and every response states how many are left. Errors are problem documents
(RFC 9457) with a stable `code`. HEAD works wherever GET does; the response to OPTIONS has `Allow`. A request body may
have at most {MAX_BODY_BYTES // 1024} KiB. Version 1 only grows: ignore members that you do not know."""

_PATH_PARAMETERS: dict[str, tuple[str, dict[str, object]]] = {
    "address": (
        "The address, in any form to which mail can be sent.",
        TEXT | {"examples": [f"k7m3wq9xt2ab@{EXAMPLE_DOMAIN}"]},
    ),
    "id": ("The id of a message.", msgspec.json.schema(MessageId)),
    "index": ("The attachment's `index`.", {"type": "integer", "minimum": 0}),
    "secret": ("The last part of the `url` of a view or a feed.", TEXT),
}
_REQUEST_HEADERS = {
    "If-None-Match": "The `ETag` of the client's copy; the response is `304` if the copy is still current.",
    "Last-Event-ID": "The id of the last event that was received; an invalid id is ignored.",
}
_RESPONSE_HEADERS = {
    "Location": "The path of the new resource.",
    "ETag": "Changes whenever the response changes.",
    "Link": 'The next page, if there is one, with `rel="next"` (RFC 8288).',
    "RateLimit-Policy": "The number of requests that a client may send (IETF draft *RateLimit header fields*).",
    "RateLimit": "The number of remaining requests (`r`), and the number of seconds until a request is added (`t`).",
    "Retry-After": "The number of seconds to wait.",
    "WWW-Authenticate": "`Bearer`",
}
_EXTRA_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
_WEBHOOK_HEADERS = {
    "webhook-id": "Identical in all calls about this event.",
    "webhook-timestamp": "The time of this call, in Unix seconds.",
    "webhook-signature": "Standard Webhooks, version 1: signed with the `secret` of the webhook.",
}
_WEBHOOK_RESPONSES = {
    "2XX": "The event was accepted.",
    "410": "The webhook is removed.",
    "default": "The call is retried later; after `429` or `503`, at the time specified by `Retry-After`.",
}
_parameter = re.compile(r"{(\w+)}").findall


class Returns(Struct, frozen=True):
    """The success response: JSON of type ``kind``, or ``schema`` with one of ``media_types``, or no body."""

    status: int
    description: str
    kind: type[Struct] | None = None
    media_types: tuple[str, ...] = ("application/json",)
    schema: Mapping[str, object] | None = None
    headers: tuple[str, ...] = ()


class Operation(Struct, frozen=True):
    """An operation of the API. As a decorator, it declares that a method is the endpoint of this operation.

    ``route`` is the HTTP method and the path. The method's docstring becomes the summary and, after an empty line, the
    description. ``security`` states whether a token is needed: "none", "optional" or "required". ``problems`` need not
    list problems that the other fields imply.
    """

    route: str
    id: str
    returns: Returns
    problems: tuple[str, ...] = ()
    tag: str = "Messages"
    security: str = "optional"
    query: type[Struct] | None = None
    headers: tuple[str, ...] = ()
    body: type[Struct] | None = None
    summary: str = ""
    description: str = ""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path, with its parameters in braces."""
        return self.route.partition(" ")[2]

    def __call__(self, endpoint: E) -> E:
        """Declare that a method is the endpoint of this operation."""
        summary, _, description = docstring(endpoint).partition("\n\n")
        summary, description = summary.removesuffix("."), " ".join(description.split())
        problems = (*self.problems, *self._usual_problems())
        declared = replace(self, summary=summary, description=description, problems=problems)
        vars(endpoint)["operation"] = declared
        return endpoint

    def _usual_problems(self) -> Iterator[str]:
        if self.security == "required":  # the operation modifies data
            yield "storage-full"
        if self.body is not None:
            yield from _PROBLEMS_OF_BODIES
        if self.query is not None:
            yield "invalid-request"
        if "{id}" in self.path:
            yield "message-not-found"
        if "{address}" in self.path:
            yield from ("address-not-found", "address-expired", "storage-unavailable")
            if self.security != "none":
                yield "unauthorized"
        if self.path.startswith("/api/"):
            yield "cross-site"
        yield from _PROBLEMS_EVERYWHERE


def declared(endpoints: type) -> dict[str, Operation]:
    """Return the operations that a class declares, keyed by method name, in the order of the methods."""
    methods = {name: getattr(method, "__dict__", {}) for name, method in vars(endpoints).items()}
    return {name: attributes["operation"] for name, attributes in methods.items() if "operation" in attributes}


class WebhookEvent(Struct, frozen=True):
    """An event that triggers a webhook call. ``name`` is its ``type``; ``kind`` is the type of the body."""

    id: str
    name: str
    summary: str
    kind: type[Struct]


WEBHOOK_EVENTS = (
    WebhookEvent("messageReceived", "message.received", "A message was received", WebhookMessage),
    WebhookEvent("verdictReached", "verdict.reached", "The sender of a message was checked", WebhookMessage),
    WebhookEvent("inboxExpired", "inbox.expired", "The address expired", WebhookExpiry),
)


def document(operations: Sequence[Operation], domain: str, public_url: str) -> bytes:
    """Return the document as JSON, with examples that are valid on a server for this domain."""
    information = {
        "title": "tmpmaild",
        "version": __version__,
        "description": _DESCRIPTION,
        "contact": {"name": "The operator of this server", "email": f"postmaster@{domain}"},
        "license": {"name": "MIT", "identifier": "MIT"},
    }
    described = {
        "openapi": "3.1.0",
        "info": information,
        # A relative URL works behind any proxy, but some generators do not know the URL of the document.
        "servers": [{"url": public_url or "../.."}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": _with_domain(domain, _paths(operations)),
        "webhooks": {event.name: {"post": _webhook(event)} for event in WEBHOOK_EVENTS},
        "components": {
            "schemas": _with_domain(domain, _schemas(operations)),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "headers": {name: {"description": text, "schema": TEXT} for name, text in _RESPONSE_HEADERS.items()},
        },
    }
    return msgspec.json.encode(described)


def _schemas(operations: Sequence[Operation]) -> dict[str, object]:
    structs = {kind for operation in operations for kind in _kinds(operation)} | {Document}
    structs |= {event.kind for event in WEBHOOK_EVENTS}
    ordered = sorted(structs, key=lambda kind: kind.__name__)
    for kind in _subclasses(Struct):
        if kind.__module__.startswith("tmpmaild."):
            kind.__doc__ = docstring(kind)  # msgspec uses the docstring as the description
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_REF)
    return schemas


def _subclasses(kind: type[Struct]) -> Iterator[type[Struct]]:
    one: type[Struct]
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def _with_domain(domain: str, value: object, *, in_example: bool = False) -> object:
    """Return part of the document with the domain inserted in its examples."""
    if isinstance(value, dict):
        return {
            name: _with_domain(domain, inner, in_example=in_example or name == "examples")
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_domain(domain, inner, in_example=in_example) for inner in value]
    return value.replace(EXAMPLE_DOMAIN, domain) if in_example and isinstance(value, str) else value


def _kinds(operation: Operation) -> list[type[Struct]]:
    return [kind for kind in (operation.body, operation.returns.kind) if kind is not None]


def _paths(operations: Sequence[Operation]) -> dict[str, dict[str, object]]:
    paths: dict[str, dict[str, object]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return paths


def _operation(operation: Operation) -> dict[str, object]:
    described: dict[str, object] = {
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
            "required": _has_required(operation.body)
            or operation.method == "PATCH",  # a PATCH request must change at least one property
            "content": {"application/json": {"schema": _ref(operation.body)}},
        }
    return {name: value for name, value in described.items() if value or name == "security"}


def _webhook(event: WebhookEvent) -> dict[str, object]:
    return {
        "operationId": event.id,
        "tags": ["Events"],
        "summary": event.summary,
        "description": "This server's call to the `url` of a webhook whose `events` include this event.",
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": text, "schema": TEXT}
            for name, text in _WEBHOOK_HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(event.kind)}}},
        "responses": {status: {"description": text} for status, text in _WEBHOOK_RESPONSES.items()},
    }


def _has_required(kind: type[Struct]) -> bool:
    return any(one.required for one in msgspec.structs.fields(kind))


def _ref(kind: type[Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _parameters(operation: Operation) -> list[dict[str, object]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
        for name in _parameter(operation.path)
        for text, schema in [_PATH_PARAMETERS[name]]
    ]
    in_header = [
        {"name": name, "in": "header", "description": _REQUEST_HEADERS[name], "schema": TEXT}
        for name in operation.headers
    ]
    return in_path + (_query(operation.query) if operation.query else []) + in_header


def _query(kind: type[Struct]) -> list[dict[str, object]]:
    """Describe parameters. An optional parameter can be omitted, but is never null."""
    (_, schemas) = msgspec.json.schema_components([kind], ref_template=_REF)
    described = []
    for name, schema in schemas[kind.__name__]["properties"].items():
        given, *_ = schema.get("anyOf", [schema])
        given = {key: value for key, value in given.items() if value not in (None, "", [])}
        described.append({"name": name, "in": "query", "description": given.pop("description", ""), "schema": given})
    return described


def _responses(operation: Operation) -> dict[str, object]:
    responses: dict[str, object] = {str(operation.returns.status): _success(operation.returns)}
    if "ETag" in operation.returns.headers:
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


def _success(returns: Returns) -> dict[str, object]:
    described: dict[str, object] = {"description": returns.description, "headers": _headers(returns.headers)}
    schema = returns.schema if returns.kind is None else _ref(returns.kind)
    if schema is not None:
        described["content"] = {media_type: {"schema": schema} for media_type in returns.media_types}
    return described


def _headers(names: tuple[str, ...]) -> dict[str, object]:
    every = (*names, "RateLimit-Policy", "RateLimit")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in every}
