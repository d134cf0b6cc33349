"""Requests, answers and errors as the core has them, and how both drivers convert them to and from those of httpx2."""

import os
import re
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import httpx2
from msgspec import Struct

from tmpmaild.client.errors import ConnectionLost, NotTmpmaild, ServiceUnreachable, TmpmaildError, printable

T = TypeVar("T")

READ_SECONDS = 30
"""Read timeout of a request that does not ask the service to wait."""


class Request(Struct, frozen=True):
    """One request: ``service_url`` is the URL of the service, ``path`` what follows it."""

    service_url: str
    method: str
    path: str
    token: str | None = None
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    read_seconds: float = READ_SECONDS

    def __repr__(self) -> str:  # a failed test may print it, which must not reveal the token
        return f"Request({self.method} {self.service_url}{self.path})"


class Reply(Struct, frozen=True):
    """The answer to a request; the names of ``headers`` are in lower case, ``body`` is decoded."""

    request: Request
    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:  # the body of the answer to create holds the token
        return f"Reply({self.status} to {self.request})"


class Ask(Struct, frozen=True):
    """Send a request; results in a ``Reply``."""

    request: Request


class OpenStream(Struct, frozen=True):
    """Send a request, in place of the stream that is open; results in a ``Reply``, without its body if it is a 200."""

    request: Request


class ReadStream(Struct, frozen=True):
    """Read from the stream that ``request`` opened; results in octets, none at its end."""

    request: Request


class Sleep(Struct, frozen=True):
    """Wait."""

    seconds: float


Action = Ask | OpenStream | ReadStream | Sleep
Steps: TypeAlias = Generator[Action, Any, T]


DEFAULT_URL = "http://127.0.0.1:8025"
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)  # a hundred waits at once are legitimate
HTTP_ERRORS = (httpx2.TransportError, httpx2.DecodingError)

_CONNECT_SECONDS = 10
_WRITE_SECONDS = 30
_MAX_PORT = 65535


def service_url(given: str | None, environ: Mapping[str, str]) -> str:
    """Return the URL of the service: as given, else ``$TMPMAILD_URL``, else the default. Raises ValueError."""
    variable = "" if given else environ.get("TMPMAILD_URL", "")
    text = (given or variable or DEFAULT_URL).strip()
    shown = ("$TMPMAILD_URL: " if variable else "") + repr(re.sub("//[^/@]*@", "//", text))  # without a password
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeEncodeError) as error:
        raise ValueError(f"{shown} is not a URL: {error}") from error
    if url.userinfo:
        raise ValueError("the URL of the service holds no user and no password")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ValueError(f"{shown} is not a URL of a service; one looks like {DEFAULT_URL}")
    if url.port is not None and not 0 < url.port <= _MAX_PORT:
        raise ValueError(f"{shown} is not a URL: a port is between 1 and {_MAX_PORT}")
    return str(url).rstrip("/")


def arguments(request: Request) -> dict[str, Any]:
    """Return what ``build_request`` of either client takes."""
    headers = dict(request.headers)
    if request.token is not None:
        headers["Authorization"] = f"Bearer {request.token}"
    if request.body is not None:
        headers["Content-Type"] = "application/json"
    return {
        "method": request.method,
        "url": request.service_url + request.path,
        "headers": headers,
        "content": request.body,
        "timeout": httpx2.Timeout(
            connect=_connect_seconds(request), read=request.read_seconds, write=_WRITE_SECONDS, pool=None
        ),
    }


def reply(request: Request, response: httpx2.Response, body: bytes) -> Reply:
    """Return an answer as the core knows it."""
    return Reply(request, response.status_code, {name.lower(): value for name, value in response.headers.items()}, body)


def translated(request: Request, error: httpx2.RequestError) -> TmpmaildError:
    """Return what an exception means."""
    service = request.service_url
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError() | httpx2.UnsupportedProtocol():
            return ServiceUnreachable(f"{service}: {_refusal(request, error)}")
        case httpx2.TimeoutException():
            return ConnectionLost(f"{service}: no answer within {request.read_seconds:.3g} s")
        case httpx2.RemoteProtocolError() if not _is_cut(error):
            return NotTmpmaild(f"{service} does not speak HTTP; is the URL right?")
        case httpx2.DecodingError():
            return NotTmpmaild(f"{service} sent a body that cannot be decoded; is the URL right?")
    return ConnectionLost(f"{service}: the connection broke: {_reason(request, error)}; is tmpmaild running there?")


def _is_cut(error: httpx2.RemoteProtocolError) -> bool:
    return any(word in str(error) for word in ("disconnected", "peer closed"))


def _connect_seconds(request: Request) -> float:
    """Return the timeout for connecting, which is never longer than that for the answer."""
    return min(_CONNECT_SECONDS, request.read_seconds)


def _refusal(request: Request, error: httpx2.RequestError) -> str:
    """Return why there is no connection, and what may be wrong with the URL."""
    tls_error = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    match tls_error:
        case ssl.SSLCertVerificationError():
            return f"the certificate is not trusted: {printable(tls_error.verify_message.rstrip('.'))}"
        case ssl.SSLError():
            return f"no TLS connection ({printable(tls_error.reason or str(tls_error))}); is it http:// there?"
    return f"{_reason(request, error)}; is tmpmaild running there?"


def _reason(request: Request, error: httpx2.RequestError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return f"no connection within {_connect_seconds(request):.3g} s"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno:
            text = _said_by_the_system(cause)
            return printable(text[:1].lower() + text[1:])
    return printable(str(error).rstrip(".") or type(error).__name__)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the causes down to the error of the operating system; of several attempts (IPv6, IPv4) the last."""
    while error is not None:
        yield error
        error = _last(error) if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__


def _said_by_the_system(error: OSError) -> str:
    """Return the system's words; asyncio replaces them. These two have numbers of their own."""
    if isinstance(error, socket.gaierror | ssl.SSLError):
        return error.strerror or str(error)
    return os.strerror(error.errno or 0)


def _last(group: BaseExceptionGroup[BaseException]) -> BaseException:
    return group.exceptions[-1]
