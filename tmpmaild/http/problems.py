"""A table of all HTTP API error responses (RFC 9457); the errors are raised elsewhere."""

import logging
import secrets
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from tmpmaild import errors
from tmpmaild.clients import LOCAL
from tmpmaild.http import pages
from tmpmaild.model import rfc3339

log = logging.getLogger(__name__)


class BadRequest(errors.RequestError):
    """Raised to refuse a request with the problem ``code``, which must be one of ``PROBLEMS``."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Problem(Struct, frozen=True):
    """The constant part of an error response: its status, its title and an explanation."""

    status: int
    title: str
    explanation: str


PROBLEMS: dict[str, Problem] = {
    "malformed-request": Problem(400, "Malformed request", "The body does not match its media type."),
    "bad-host": Problem(
        400,
        "Bad Host header",
        "The Host header is missing or malformed, or contains a host that is not served here. The operator can allow "
        "hosts with http.allowed_hosts, or with tmpmaild catch --host.",
    ),
    "unauthorized": Problem(
        401, "Token needed", "Send the token that was returned when the address was created: Authorization: Bearer …"
    ),
    "cross-site": Problem(
        403,
        "Cross-site request",
        "A web page of a different origin sent this request. http.cors_origins lists the allowed origins; behind a "
        "proxy that changes the Host header, http.public_url must contain the server's own origin.",
    ),
    "webhooks-off": Problem(403, "Webhooks off", "The operator does not allow webhooks (webhooks.allow)."),
    "blocked": Problem(403, "Blocked", "The operator does not allow this client to create addresses."),
    "address-not-found": Problem(404, "Address not found", "There is no such address, or you may not read it."),
    "message-not-found": Problem(404, "Message not found", "This inbox has no message with that id."),
    "catch-all-off": Problem(
        404,
        "Catch-all off",
        "This service lists the messages of each address, not all messages: see tmpmaild catch and serve --catch-all.",
    ),
    "not-found": Problem(404, "Not found", "There is nothing at this path."),
    "method-not-allowed": Problem(
        405, "Method not allowed", "The Allow header lists the methods that this path supports."
    ),
    "request-timeout": Problem(408, "Request timeout", "The request body did not arrive in time."),
    "address-taken": Problem(409, "Address taken", "The name is in use, or was in use in the last 24 hours."),
    "address-expired": Problem(410, "Address expired", "The address has expired, or was deleted by its user."),
    "body-too-large": Problem(413, "Body too large", "A request body may have at most 64 KiB."),
    "unsupported-media-type": Problem(
        415, "Unsupported media type", "A request body must be JSON, with the Content-Type application/json."
    ),
    "invalid-request": Problem(422, "Invalid request", "The errors list the parts that are invalid."),
    "rate-limited": Problem(
        429,
        "Too many requests",
        "Each client may send a limited number of requests per minute; wait and retry. tmpmaild serve --for-tests does "
        "not limit tests on your own machine.",
    ),
    "too-many-streams": Problem(
        429,
        "Too many streams",
        "Each client may have only a limited number of event streams and waits; close a stream first.",
    ),
    "headers-too-large": Problem(
        431, "Headers too large", "A request may have at most 100 header fields, with 16 KiB in total."
    ),
    "internal-error": Problem(
        500, "Internal error", "The server failed; the operator can find the error in the log by its id."
    ),
    "busy": Problem(
        503, "Busy", "Too many large responses are being sent; try again, or reduce the number of messages per request."
    ),
    "storage-full": Problem(
        503, "Storage full", "There is no space at the moment; space becomes free as messages expire."
    ),
    "storage-unavailable": Problem(503, "Storage unavailable", "The database did not respond; try again."),
    "stopping": Problem(503, "Stopping", "The server is shutting down; try again shortly."),
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
# These problems are logged, because a client or the service has reached a limit.
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
    """An invalid part of a request."""

    pointer: str
    detail: str


class Document(Struct, frozen=True):
    """The problem document (RFC 9457 §3); ``code`` is stable, whereas ``title`` and ``detail`` are for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] | UnsetType = UNSET


class Problems:
    """Builds the error responses. ``type`` starts with ``base_path``, the path of ``http.public_url``."""

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
        """Return the response for a code; the default for ``detail`` is the explanation of the code."""
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

    def response_to(self, request: Request, error: Exception, *, has_begun: bool = False) -> Response:
        """Return the response to an exception: a problem from the table or, for any other exception, a logged fault.

        If the response has already started, any exception counts as a fault, because only the log can report it.
        """
        if isinstance(error, errors.InvalidRequest) and not has_begun:
            return self.response("invalid-request", field_errors=error.errors)
        code = "internal-error" if has_begun else _code(error)
        if code == "internal-error":
            return self._fault(request, error)
        _report(request, code)
        headers = error.headers if isinstance(error, HTTPException) else None
        return self._page_or_document(request, code, _detail(request, error), headers)

    def _fault(self, request: Request, error: Exception) -> Response:
        """Return the response to an unexpected exception. It contains only an id, which is also in the log."""
        fault_id = secrets.token_hex(4)
        extra = {"event": "http_fault", "client": client_of(request.scope), "code": "internal-error", "id": fault_id}
        log.error("HTTP request failed, id %s", fault_id, exc_info=error, extra=extra)
        return self._page_or_document(
            request, "internal-error", f"The operator can find the error in the log by the id {fault_id}."
        )

    async def page(self, request: Request) -> Response:
        """Serve the page that explains a problem code to people (``/problems/{code}``)."""
        code = request.path_params["code"]
        problem = PROBLEMS.get(code)
        if problem is None:
            raise HTTPException(404)
        text = pages.problem("..", code, problem.status, problem.title, problem.explanation)
        return pages.response(text, 200)

    def _page_or_document(
        self, request: Request, code: str, detail: str = "", headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the response, which is a page if a person will read it, otherwise the problem document."""
        headers = {**(headers or {}), **pages.vary(request)}
        if not pages.is_problem_wanted(request):
            return self.response(code, detail, headers=headers)
        problem = PROBLEMS[code]
        text = pages.problem(self._base_path, code, problem.status, problem.title, detail or problem.explanation)
        return pages.response(text, problem.status, {**_EXTRA_HEADERS.get(code, {}), **headers})


def _code(error: Exception) -> str:
    if isinstance(error, BadRequest):
        return error.code
    if isinstance(error, HTTPException):
        return _FRAMEWORK_CODES.get(error.status_code, "internal-error")
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), "internal-error")


def _detail(request: Request, error: Exception) -> str:
    if isinstance(error, BadRequest):
        return error.detail
    if not isinstance(error, errors.AddressExpired):
        return ""
    local_part, _, domain = str(request.path_params.get("address", "")).rpartition("@")
    return f"{local_part[:4]}…@{domain[:255]} expired or was deleted at {rfc3339(error.expired_at_ms)}."


def client_of(scope: Scope) -> str:
    """Return the client name to log for a request."""
    client = scope.get("tmpmaild.client")  # missing if the request was refused before its client was determined
    if client is not None:
        return str(client.name)
    return scope["client"][0] if scope.get("client") else LOCAL


def _report(request: Request, code: str) -> None:
    if code in _REPORTED:
        client = client_of(request.scope)
        extra = {"event": "http_refused", "client": client, "code": code}
        log.info("HTTP from %s refused: %s", client, code, extra=extra)
