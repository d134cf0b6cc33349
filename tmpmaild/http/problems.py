"""Every error answer of the HTTP edge, as one table (RFC 9457); the errors are raised elsewhere."""

import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import anyio
import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tmpmaild import errors
from tmpmaild.errors import Unauthorized
from tmpmaild.http import pages
from tmpmaild.model import rfc3339

log = logging.getLogger(__name__)


class BadRequest(errors.RequestError):
    """A request that is refused with the problem ``code``, one of ``PROBLEMS``."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Problem(Struct, frozen=True):
    """The constant part of an error answer: its status, its title and an explanation."""

    status: int
    title: str
    explanation: str


PROBLEMS: dict[str, Problem] = {
    "malformed-request": Problem(400, "Malformed request", "The body is not what its media type says."),
    "bad-host": Problem(400, "Bad Host header", "The Host header is missing, malformed, or not one served here."),
    "unauthorized": Problem(401, "Token needed", "Send the token from the answer to create: Authorization: Bearer …"),
    "cross-site": Problem(
        403,
        "Cross-site request",
        "A web page of another origin sent this. http.cors_origins names the origins that may; behind a proxy that "
        "changes the Host header http.public_url names the server's own.",
    ),
    "webhooks-off": Problem(403, "Webhooks off", "The operator allows no webhooks (webhooks.allow)."),
    "blocked": Problem(403, "Blocked", "The operator gives no addresses to this client."),
    "address-not-found": Problem(404, "Address not found", "There is no such address, or not for you."),
    "message-not-found": Problem(404, "Message not found", "This inbox holds no message with that id."),
    "not-found": Problem(404, "Not found", "There is nothing at this path."),
    "method-not-allowed": Problem(405, "Method not allowed", "The Allow header lists what this path answers to."),
    "request-timeout": Problem(408, "Request timeout", "The body did not come in time."),
    "address-taken": Problem(409, "Address taken", "The name is in use, or was in the last 24 hours."),
    "address-expired": Problem(410, "Address expired", "The address has lived its time, or its holder deleted it."),
    "body-too-large": Problem(413, "Body too large", "A request body has at most 64 KiB."),
    "unsupported-media-type": Problem(
        415, "Unsupported media type", "A request body is JSON, and its Content-Type application/json."
    ),
    "invalid-request": Problem(422, "Invalid request", "The errors say which part was not as expected."),
    "rate-limited": Problem(429, "Too many requests", "Each client has a number of requests a minute; wait and retry."),
    "too-many-streams": Problem(
        429, "Too many streams", "Each client has a number of event streams and waits; close one first."
    ),
    "headers-too-large": Problem(431, "Headers too large", "At most 100 header fields, of 16 KiB together."),
    "internal-error": Problem(500, "Internal error", "A fault of this server; the id finds it in the operator's log."),
    "busy": Problem(503, "Busy", "Too many large answers are on their way; ask again, or for fewer messages at once."),
    "storage-full": Problem(503, "Storage full", "There is no room at the moment; it comes back as mail expires."),
    "storage-unavailable": Problem(503, "Storage unavailable", "The database did not answer; trying again may help."),
    "stopping": Problem(503, "Stopping", "The server is on its way down; try again shortly."),
}

_CODES: dict[type[errors.RequestError], str] = {
    errors.RequestError: "internal-error",
    errors.InvalidRequest: "invalid-request",
    errors.Unauthorized: "unauthorized",
    errors.AddressNotFound: "address-not-found",
    errors.AddressExpired: "address-expired",
    errors.MessageNotFound: "message-not-found",
    errors.AddressTaken: "address-taken",
    errors.MailboxFull: "storage-full",
    errors.StorageFull: "storage-full",
    errors.StorageUnavailable: "storage-unavailable",
    errors.StorageLost: "storage-unavailable",
    errors.Stopping: "stopping",
}
_FRAMEWORK_CODES = {404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}
# Limits that a client has reached, or the service: the log tells of them.
_REPORTED = frozenset({"blocked", "too-many-streams", "busy", "storage-full"})
_EXTRA_HEADERS = {
    "unauthorized": {"WWW-Authenticate": "Bearer"},
    "request-timeout": {"Connection": "close"},
    "too-many-streams": {"Retry-After": "5"},
    "busy": {"Retry-After": "10"},
    "storage-full": {"Retry-After": "60"},
    "storage-unavailable": {"Retry-After": "5"},
    "stopping": {"Retry-After": "5"},
}


class FieldError(Struct, frozen=True):
    """One part of a request that was not as expected."""

    pointer: str
    detail: str


class Document(Struct, frozen=True):
    """The problem document (RFC 9457 §3); ``code`` is stable, ``title`` and ``detail`` are for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] | UnsetType = UNSET


class Problems:
    """Makes the answers. ``base_path`` is the path of ``http.public_url``, below which ``type`` points."""

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def response(
        self,
        code: str,
        detail: str = "",
        *,
        field_errors: tuple[tuple[str, str], ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the answer for a code; without a detail it has the explanation of the code."""
        problem = PROBLEMS[code]
        document = Document(
            type=f"{self._base_path}/problems/{code}",
            title=problem.title,
            status=problem.status,
            detail=detail or problem.explanation,
            code=code,
            errors=[FieldError(pointer, text) for pointer, text in field_errors] or UNSET,
        )
        return Response(
            msgspec.json.encode(document),
            problem.status,
            {**_EXTRA_HEADERS.get(code, {}), **(headers or {})},
            media_type="application/problem+json",
        )

    async def on_request_error(self, request: Request, error: Exception) -> Response:
        """Answer an error of the service or of this room."""
        if isinstance(error, BadRequest):
            _report(request, error.code)
            return self._answer(request, error.code, error.detail)
        if isinstance(error, errors.InvalidRequest):
            return self.response("invalid-request", field_errors=error.errors)
        code = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), "internal-error")
        if code == "internal-error":
            return await self.on_fault(request, error)
        _report(request, code)
        return self._answer(request, code, _detail(request, error))

    async def on_http_exception(self, request: Request, error: Exception) -> Response:
        """Answer what the framework refuses."""
        assert isinstance(error, HTTPException)
        code = _FRAMEWORK_CODES.get(error.status_code)
        if code is None:
            return await self.on_fault(request, error)
        return self._answer(request, code, headers=error.headers)

    async def on_fault(self, request: Request, error: Exception) -> Response:
        """Answer an unexpected exception with an id that is in the log too, and nothing else."""
        fault_id = secrets.token_hex(4)
        log.error("HTTP request failed, id %s", fault_id, exc_info=error)
        return self._answer(request, "internal-error", f"The operator's log tells more under the id {fault_id}.")

    async def page(self, request: Request) -> Response:
        """Explain one code to a person (``/problems/{code}``)."""
        code = request.path_params["code"]
        problem = PROBLEMS.get(code)
        if problem is None:
            raise HTTPException(404)
        text = pages.problem("..", code, problem.status, problem.title, problem.explanation)
        return pages.response(text, 200)

    def _answer(
        self, request: Request, code: str, detail: str = "", headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return what ``response`` does, as a page if a person is going to read it."""
        headers = {**(headers or {}), **pages.vary(request)}
        if not pages.is_problem_wanted(request):
            return self.response(code, detail, headers=headers)
        problem = PROBLEMS[code]
        text = pages.problem(self._base_path, code, problem.status, problem.title, detail or problem.explanation)
        return pages.response(text, problem.status, {**_EXTRA_HEADERS.get(code, {}), **headers})


def _detail(request: Request, error: Exception) -> str:
    if not isinstance(error, errors.AddressExpired):
        return ""
    local_part, _, domain = str(request.path_params.get("address", "")).rpartition("@")
    return f"{local_part[:4]}…@{domain[:255]} expired at {rfc3339(error.expired_at_ms)}."


def _report(request: Request, code: str) -> None:
    if code in _REPORTED:
        log.info("HTTP from %s refused: %s", request.scope["tmpmaild.client"].name, code)


T = TypeVar("T")

is_number = re.compile(r"[0-9]{1,9}").fullmatch

MAX_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 10

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


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


class Client(Struct, frozen=True):
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


async def body(request: Request) -> bytes:
    """Read a body of at most 64 KiB, within ten seconds. Raises ``BadRequest``."""
    octets = bytearray()
    try:
        with anyio.fail_after(_BODY_SECONDS):
            async for chunk in request.stream():
                octets += chunk
                if len(octets) > MAX_BODY_BYTES:
                    raise BadRequest("body-too-large", "")
    except TimeoutError:
        raise BadRequest("request-timeout", "") from None
    except ClientDisconnect:
        raise BadRequest("malformed-request", "The body ended early.") from None
    return bytes(octets)


async def unless_gone(receive: Receive, ask: Callable[[], Awaitable[T]]) -> T | None:
    """Return what ``ask`` returns, but None as soon as the client disconnects, of which ASGI only sends an event."""
    outcome: list[T] = []
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
