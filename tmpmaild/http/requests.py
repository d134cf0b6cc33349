"""Requests: which endpoint answers one, the client that sends it, and its body and parameters.

Bodies and parameters are types, which describe and check them; here they become the types of the service.
"""

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import anyio
import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild.checks import Kind, Mistake, Mistakes, check
from tmpmaild.errors import InvalidRequest, Unauthorized
from tmpmaild.http.problems import BadRequest
from tmpmaild.inboxes.faults import MOST_FAULTS, Fault, Step
from tmpmaild.model import Feature, Page, WebhookEvent
from tmpmaild.webhooktargets import MOST_URL_CHARACTERS

EXAMPLE_DOMAIN = "mail.example.com"
"""Is in the examples of all types here and in ``schemas.py``; ``openapi.py`` replaces it by a domain of the server."""
MAX_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 10
_FREE_BODY_BYTES = 4 * 1024
_MAX_BODIES_BYTES = 16 * 1024 * 1024
_MAX_BODIES_BYTES_OF_CLIENT = 2 * 1024 * 1024
_MAX_PARAMETERS = 200  # of a query, counted before it is taken apart
_TRUTH = {"true": True, "false": False}  # as a query writes it
_BASES: dict[type, type] = {msgspec.inspect.IntType: int, msgspec.inspect.BoolType: bool}
_is_number = re.compile(r"[0-9]{1,9}").fullmatch

Endpoint = Callable[[Request], Awaitable[ASGIApp]]
R = TypeVar("R")
T = TypeVar("T", bound=Struct)


class Resource:
    """The endpoints of one path, one for each method. HEAD is served as GET; OPTIONS and 405 list what is allowed.

    ``operations`` has the name under which requests of a method are counted.
    """

    def __init__(self, operations: Mapping[str, str] = MappingProxyType({}), **endpoints: Endpoint) -> None:
        self.operations = operations
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


class Paths:
    """The resources of an application by their paths, in which ``{name}`` is one segment; the first that fits is it."""

    def __init__(self, resources: Mapping[str, Resource]) -> None:
        self._fixed = {path: resource for path, resource in resources.items() if "{" not in path}
        self._patterns = [(_pattern(path), resource) for path, resource in resources.items() if "{" in path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises ``HTTPException`` (404)."""
        resource, scope["path_params"] = self._find(scope["path"])
        scope["endpoint"] = resource
        await resource(scope, receive, send)

    def _find(self, path: str) -> tuple[Resource, dict[str, str]]:
        for pattern, resource in self._patterns:
            if match := pattern.fullmatch(path):
                return resource, match.groupdict()
        if path not in self._fixed:
            raise HTTPException(404)
        return self._fixed[path], {}


def _pattern(path: str) -> re.Pattern[str]:
    """Return what the paths match that are as this one says."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path)))


class Client(NamedTuple):
    """The client of a request: the name that its limits are kept under, and whether it is exempt from them."""

    name: str
    exempt: bool
    ip: str = ""


def client(request: Request) -> Client:
    """Return the client of a request, which the middleware has found out."""
    found: Client = request.scope["tmpmaild.client"]
    return found


async def take_token(request: Request) -> bool:
    """Take one more token from the client's bucket than its request has cost; return whether there was one."""
    take: Callable[[], Awaitable[bool]] = request.scope["tmpmaild.take_token"]
    return await take()


def token(request: Request) -> str | None:
    """Return the bearer token (RFC 6750 §2.1), None without one."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" and text.strip() else None


def holder_token(request: Request) -> str:
    """Return the bearer token of a request that changes something. Raises ``Unauthorized``."""
    found = token(request)
    if found is None:
        raise Unauthorized("whatever changes something needs the token")
    return found


class BodyMemory:
    """What is in memory of bodies that are still coming in, beyond a few octets of each that always have room."""

    def __init__(self) -> None:
        self._of_client: Counter[str] = Counter()
        self._all_bytes = 0

    def take(self, client: Client, more_bytes: int) -> None:
        """Add octets. Raises ``BadRequest`` ("busy") if too many are held for this client, or in all."""
        held_bytes = self._of_client[client.name] + more_bytes
        if self._all_bytes + more_bytes > _MAX_BODIES_BYTES or (
            held_bytes > _MAX_BODIES_BYTES_OF_CLIENT and not client.exempt
        ):
            raise BadRequest("busy", "Too many large request bodies are coming in; send this one again.")
        self._of_client[client.name] = held_bytes
        self._all_bytes += more_bytes

    def release(self, client: Client, octets: int) -> None:
        """Subtract octets that were added."""
        self._all_bytes -= octets
        self._of_client[client.name] -= octets
        if not self._of_client[client.name]:
            del self._of_client[client.name]


async def _body(request: Request) -> bytes:
    """Read a body of at most 64 KiB, within ten seconds. Raises ``BadRequest``."""
    octets = bytearray()
    memory: BodyMemory = request.scope["tmpmaild.bodies"]
    sender, taken_bytes = client(request), 0
    try:
        with anyio.fail_after(_BODY_SECONDS):
            async for chunk in request.stream():
                if len(octets) + len(chunk) > MAX_BODY_BYTES:
                    raise BadRequest("body-too-large")
                if len(octets) + len(chunk) > _FREE_BODY_BYTES:
                    memory.take(sender, len(chunk))
                    taken_bytes += len(chunk)
                octets += chunk
    except TimeoutError:
        raise BadRequest("request-timeout") from None
    except ClientDisconnect:
        raise BadRequest("malformed-request", "The body ended early.") from None
    finally:
        memory.release(sender, taken_bytes)
    return bytes(octets)


async def unless_gone(receive: Receive, ask: Callable[[], Awaitable[R]]) -> R | None:
    """Return what ``ask`` returns, but None as soon as the client disconnects, of which ASGI only sends an event."""
    outcome: list[R] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
        try:
            outcome.append(await ask())
        except Exception as error:  # noqa: BLE001 - a task group would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return outcome[0] if outcome else None


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # a body, which is not needed
    scope.cancel()


class _Kind(Kind, frozen=True):
    """What a member takes; a list says how many, an object or a list of them what each of these is."""

    item: type[Struct] | None = None
    most: int = 0


async def read_json(request: Request, struct: type[T], mistakes: Mistakes | None = None) -> T:
    """Read the body of a request as ``read_body`` does."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise BadRequest("unsupported-media-type", "A request body is read as it is, without a Content-Encoding.")
    return read_body(await _body(request), request.headers.get("content-type"), struct, mistakes)


def read_body(octets: bytes, content_type: str | None, struct: type[T], mistakes: Mistakes | None = None) -> T:
    """Read a JSON object; an empty body counts as an empty object. Raises ``BadRequest``, ``InvalidRequest``.

    With ``mistakes`` they are added to those, and what is right is returned, so that the caller can check it further.
    """
    octets = octets.removeprefix(BOM_UTF8)  # which RFC 8259 §8.1 lets a reader ignore
    if not octets:
        return _checked({}, struct, mistakes)
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("unsupported-media-type")
    try:
        octets.decode()
        # Raw, since unknown members are ignored whatever they hold, a number of 5,000 digits for one.
        msgspec.json.decode(octets, type=msgspec.Raw)
        given = _members(octets, struct)
    except msgspec.ValidationError as error:
        raise InvalidRequest(("", "expected an object")) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest("malformed-request", "The body is not JSON.") from error
    return _checked(given, struct, mistakes)


def _members(octets: bytes | msgspec.Raw, struct: type[Struct]) -> dict[str, Any]:
    """Decode the members of an object that are known. Raises ``msgspec.ValidationError`` if it is not an object."""
    members, kinds = msgspec.json.decode(octets, type=dict[str, msgspec.Raw]), _kinds(struct)
    return {name: _decoded(members[name], kinds[name]) for name in kinds if name in members}


def _decoded(raw: msgspec.Raw, kind: _Kind) -> Any:
    """Decode a member; for JSON that is not a value in Python, such as 1e999, return one that fits no kind."""
    try:
        if kind.item is not None and not kind.most:
            return None if bytes(raw).strip() == b"null" else _item(raw, kind.item)
        if kind.item is not None:
            items = msgspec.json.decode(raw, type=list[msgspec.Raw])
            return [_item(one, kind.item) for one in items[: kind.most + 1]]  # one too many is refused like thousands
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return object()
    # To JSON Schema, which describes our bodies, a number without a fractional part is an integer: 100.0, 1e2.
    return int(value) if kind.base is int and isinstance(value, float) and value.is_integer() else value


def _item(raw: msgspec.Raw, struct: type[Struct]) -> Any:
    try:
        return _members(raw, struct)
    except msgspec.ValidationError:
        return object()


def read_query(octets: bytes, struct: type[T], mistakes: Mistakes, *, only_known: bool = False) -> T:
    """Read parameters; unknown ones are ignored, or with ``only_known`` a mistake; ``mistakes`` as for ``read_body``.

    Raises ``BadRequest``.
    """
    if not octets:
        plain: T = _without_any(struct)
        return plain
    if octets.count(b"&") >= _MAX_PARAMETERS:
        raise BadRequest("malformed-request", f"The query has more than {_MAX_PARAMETERS} parameters.")
    parameters = QueryParams(octets)
    kinds = _kinds(struct)
    if only_known:
        mistakes.errors += [
            (name, f"expected only {' and '.join(kinds)}") for name in sorted(parameters.keys() - kinds)
        ]
    given: dict[str, Any] = {name: parameters[name] for name in kinds if name in parameters}
    for name, text in given.items():
        if kinds[name].most:
            given[name] = parameters.getlist(name)
        elif kinds[name].base is int and _is_number(text):
            given[name] = int(text)
        elif kinds[name].base is bool:
            given[name] = _TRUTH.get(text, text)
    return _checked(given, struct, mistakes, prefix="")


@lru_cache
def _without_any(struct: type[T]) -> T:
    """Return what most requests ask for."""
    return _checked({}, struct, prefix="")


def _checked(given: dict[str, Any], struct: type[T], mistakes: Mistakes | None = None, prefix: str = "/") -> T:
    right, wrong = check(given, _kinds(struct))
    if wrong:
        found = Mistakes() if mistakes is None else mistakes
        found.errors += _errors(wrong, struct, prefix)
        if mistakes is None or any(one.found is UNSET for one in wrong):
            found.end()
    return msgspec.convert({name: given[name] for name in right}, struct)


def _errors(mistakes: Iterable[Mistake], struct: type[Struct], prefix: str) -> Iterator[tuple[str, str]]:
    kinds = _kinds(struct)
    for mistake in mistakes:
        place, kind = f"{prefix}{mistake.place}", kinds[mistake.name]
        yield from list(_errors_of_items(mistake.found, kind, place)) or [(place, _worded(mistake))]


def _errors_of_items(found: object, kind: _Kind, place: str) -> Iterator[tuple[str, str]]:
    """Return what is wrong with an object, or with the items of a list if its length is not."""
    if kind.item is not None and not kind.most and isinstance(found, dict):
        yield from _errors(_mistakes(found, kind.item), kind.item, f"{place}/")
    if kind.item is None or not isinstance(found, list) or len(found) > kind.most:
        return
    for index, members in enumerate(found):
        if isinstance(members, dict):
            yield from _errors(_mistakes(members, kind.item), kind.item, f"{place}/{index}/")
        else:
            yield f"{place}/{index}", "expected an object"


def _mistakes(members: dict[str, Any], struct: type[Struct]) -> list[Mistake]:
    return check(members, _kinds(struct))[1]


def _worded(mistake: Mistake) -> str:
    return f"expected {mistake.expected}" + (", found nothing" if mistake.found is UNSET else "")


@lru_cache
def _kinds(struct: type[Struct]) -> dict[str, _Kind]:
    """Return what each field accepts, by its name in the API."""
    hints = get_type_hints(struct, include_extras=True)
    return {one.encode_name: _kind(hints[one.name], required=one.required) for one in msgspec.structs.fields(struct)}


def _kind(hint: Any, *, required: bool) -> _Kind:
    info = msgspec.inspect.type_info(hint)
    (described, *_) = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    assert isinstance(described, msgspec.inspect.Metadata)
    assert described.extra is not None
    base = _BASES.get(type(described.type), object)
    kind = _Kind(described.extra["expected"], base, partial(msgspec.convert, type=hint), required=required)
    if isinstance(described.type, msgspec.inspect.UnionType):  # an object or null
        structs = [one.cls for one in described.type.types if isinstance(one, msgspec.inspect.StructType)]
        return replace(kind, item=structs[0])
    if not isinstance(described.type, msgspec.inspect.ListType):
        return kind
    of = described.type.item_type
    item = of.cls if isinstance(of, msgspec.inspect.StructType) else None
    return replace(kind, item=item, most=described.type.max_length or 0)


def _takes(expected: str, description: str, *examples: object, **bounds: Any) -> Meta:
    """Describe a value: what is expected, as a client that sends another one is told; what it is for; its bounds."""
    return Meta(description=description, examples=list(examples) or None, extra={"expected": expected}, **bounds)


def _text(description: str, example: str) -> Meta:
    return _takes("a string", description, example)


def _switch(description: str) -> Meta:
    return _takes("true or false", description)


def _number(lowest: int, highest: int | None, description: str, example: int) -> Meta:
    expected = f"a number from {lowest} to {highest}" if highest is not None else f"a number of {lowest} or more"
    return _takes(expected, description, example, ge=lowest, le=highest)


MessageId = Annotated[
    str,
    Meta(
        pattern=r"^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$",
        min_length=30,  # the end of a pattern matches before a line end too
        max_length=30,
        examples=["msg_01m7y0sgyf0000000000000000"],
        extra={"expected": "a message id"},
    ),
]

Has = Annotated[
    list[Feature],
    _takes(
        "up to four of code, link, attachment and verdict",
        "What a message must have: a code, a link, an attachment that is not inline, a verdict.",
        ["code"],
        max_length=4,
    ),
]


class FaultItem(Struct, frozen=True):
    """A fault for the next mails; with a delay only, the usual answer comes late."""

    at: Annotated[
        Step,
        _takes(
            "rcpt, data or end", "What fails: RCPT, DATA, or the end of the mail, which is then not stored.", "rcpt"
        ),
    ]
    reply: (
        Annotated[
            str,
            _takes(
                "a code from 400 to 599, a space, and 1 to 400 printable characters of ASCII",
                "What the server says; `421` also closes the connection.",
                "451 4.7.1 Greylisted",
                pattern=r"^[45][0-9]{2} [ -~]{1,400}(?![\s\S])$",
            ),
        ]
        | UnsetType
    ) = UNSET
    times: Annotated[int, _number(1, 100, "How many times; then the usual answer.", 2)] = 1
    delay_seconds: Annotated[float, _number(0, 60, "How long the answer is held back.", 3)] = 0


Faults = Annotated[
    list[FaultItem],
    _takes(
        f"a list of up to {MOST_FAULTS} objects",
        "For the next mails, in place of those before; where the operator has set `smtp.faults`.",
        [],
        max_length=MOST_FAULTS,
    ),
]


class WebhookRequest(Struct, frozen=True):
    """Who is called when something happens to an address."""

    url: Annotated[
        str,
        _takes(
            f"a string of up to {MOST_URL_CHARACTERS} characters",
            "Where the operator allows it; without user information and fragment.",
            "https://hooks.example.org/mail",
            max_length=MOST_URL_CHARACTERS,
        ),
    ]
    events: Annotated[
        list[WebhookEvent],
        _takes(
            "one to three of message, verdict and expired",
            "A message has come, it is known who sent one, the address has ended; default `message`.",
            ["message", "expired"],
            min_length=1,
            max_length=3,
        ),
    ] = field(default_factory=lambda: ["message"])
    has: Annotated[
        list[Literal["code", "link", "attachment"]],
        _takes(
            "up to three of code, link and attachment", "Only messages that have all of these.", ["code"], max_length=3
        ),
    ] = []


NewWebhook = Annotated[
    WebhookRequest | None,
    _takes(
        "an object or null",
        "In place of the one before; null ends it. Where the operator has set `webhooks.allow`.",
    ),
]


class CreateRequest(Struct, frozen=True):
    """Wishes for a new address; all are optional."""

    local_part: (
        Annotated[
            str,
            _text(
                "3 to 64 of `a-z 0-9 . _ -`, a letter or digit at both ends, no two dots together; in any case.",
                "signup-test",
            ),
        ]
        | UnsetType
    ) = UNSET
    domain: Annotated[str, _text("One of the server's; default the first.", EXAMPLE_DOMAIN)] | UnsetType = UNSET
    private: Annotated[bool, _switch("Reading needs the token too.")] = False
    expires_in_seconds: (
        Annotated[
            int, _number(1, None, "How long it lives, up to `max_lifetime_seconds`; default `lifetime_seconds`.", 600)
        ]
        | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ExtendRequest(Struct, frozen=True):
    """When an address is to end, which faults it is to have, and who is called; at least one of them."""

    expires_in_seconds: (
        Annotated[int, _number(1, None, "Counted from now; shortening is allowed.", 1800)] | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ViewRequest(Struct, frozen=True):
    """How a message is shown."""

    remote_images: Annotated[bool, _switch("Load remote images, which tells their servers that the mail is read.")] = (
        False
    )


class FollowedInbox(Struct, frozen=True):
    """An inbox to follow."""

    address: Annotated[
        str, _text("In any form that mail reaches it by; its events name it so.", f"k7m3wq9xt2ab@{EXAMPLE_DOMAIN}")
    ]
    token: Annotated[str, _text("Needed for a private address.", "…")] | UnsetType = UNSET
    after: Annotated[MessageId, Meta(description="Resume after this message.")] | UnsetType = UNSET
    has: Has | UnsetType = UNSET


class FollowRequest(Struct, frozen=True):
    """Inboxes to follow with one stream, the most important first."""

    inboxes: Annotated[
        list[FollowedInbox], Meta(min_length=1, max_length=20, extra={"expected": "a list of 1 to 20 objects"})
    ]


class PageQuery(Struct, frozen=True):
    """Which messages of an inbox are returned."""

    limit: Annotated[int, _number(1, 100, "How many messages at most.", 20)] = 100
    order: Annotated[
        Literal["asc", "desc"], Meta(description="Oldest or newest first.", extra={"expected": "asc or desc"})
    ] = "desc"
    after: Annotated[MessageId, Meta(description="Only what came after this message; it need not exist.")] | None = None
    before: Annotated[MessageId, Meta(description="Only what came before this message; it need not exist.")] | None = (
        None
    )
    sender: Annotated[str, _text("A part of the sender's address or name, in any case.", "no-reply@")] = field(
        name="from", default=""
    )
    subject: Annotated[str, _text("A part of the subject, in any case.", "confirm")] = ""
    q: Annotated[
        str, _text("A part of sender, subject or the first 64 Ki characters of the text, in any case.", "code")
    ] = ""
    has: Has = []
    wait: Annotated[int, _number(0, 50, "Seconds to wait for the first match; then the list is empty.", 30)] = 0
    explain: Annotated[bool, _switch("An empty list after a wait gets a `reason`, for people.")] = False


class AllMailQuery(PageQuery, frozen=True):
    """Which messages of all are returned."""

    to: Annotated[str, _text("A recipient of the envelope, whole, in any case.", f"anna+shop@{EXAMPLE_DOMAIN}")] = ""


class DeleteQuery(Struct, frozen=True):
    """Which messages of an inbox are deleted; all without parameters."""

    id: Annotated[
        list[MessageId],
        _takes(
            "up to 100 message ids",
            "These messages; those that are not there, or no longer, are not counted. Not together with `up_to`.",
            ["msg_01m7y0sgyf0000000000000000"],
            max_length=100,
        ),
    ] = []
    up_to: (
        Annotated[MessageId, Meta(description="This message and all that came before it; it need not exist.")] | None
    ) = None


class StreamQuery(Struct, frozen=True):
    """Where a stream begins, and which messages it has."""

    after: (
        Annotated[MessageId, Meta(description="Resume after this message; `Last-Event-ID` takes precedence.")] | None
    ) = None
    has: Has = []


def page(query: PageQuery) -> Page:
    """Return the parameters of a list as the service takes them."""
    return Page(
        after=query.after,
        before=query.before,
        ascending=query.order == "asc",
        limit=query.limit,
        sender=query.sender or None,
        subject=query.subject or None,
        text=query.q or None,
        recipient=(query.to or None) if isinstance(query, AllMailQuery) else None,
        has=frozenset(query.has),
    )


def faults(items: Sequence[FaultItem] | UnsetType) -> tuple[Fault, ...]:
    """Return the faults as the service takes them."""
    return tuple(Fault(one.at, one.reply or None, one.times, one.delay_seconds) for one in items or ())


def fault_items(faults: Sequence[Fault]) -> list[FaultItem]:
    """Return faults in the form in which they are ordered."""
    return [FaultItem(one.at, one.reply or UNSET, one.times, one.delay_seconds) for one in faults]


def last_event_id(text: str | None) -> str | None:
    """Return the id where a stream is to be resumed; a malformed one is ignored."""
    try:
        return msgspec.convert(text, MessageId)
    except msgspec.ValidationError:
        return None
