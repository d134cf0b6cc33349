"""The requests, replies and errors of the core, and their conversion to and from httpx2, used by both drivers."""

import asyncio
import logging
import os
import re
import socket
import ssl
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any, TypeAlias, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx2
from msgspec import Struct

from tmpmaild.client.errors import ConnectionLost, NotTmpmaild, ServiceUnreachable, TmpmaildError, printable

T = TypeVar("T")
C = TypeVar("C", httpx2.Client, httpx2.AsyncClient)

log = logging.getLogger("tmpmaild.client")

READ_SECONDS = 30
"""Read timeout of a request that does not wait for messages."""


class Request(Struct, frozen=True):
    """One request; ``path`` is appended to ``service_url``."""

    service_url: str
    method: str
    path: str
    token: str | None = None
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    read_seconds: float = READ_SECONDS

    def __repr__(self) -> str:  # a failed test may print this object, which must not reveal the token
        return f"Request({self.method} {self.service_url}{self.path})"


class Reply(Struct, frozen=True):
    """The response to a request; header names are lowercase, and any content encoding of ``body`` has been removed."""

    request: Request
    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:  # the body of the response to ``create`` contains the token
        return f"Reply({self.status} to {self.request})"


class SendRequest(Struct, frozen=True):
    """Send a request; the result is a ``Reply``."""

    request: Request


class OpenStream(Struct, frozen=True):
    """Send a request after closing any open stream; the result is a ``Reply``, without a body if the status is 200."""

    request: Request


class ReadStream(Struct, frozen=True):
    """Read from the stream that ``request`` opened; the result is bytes, which are empty at the end."""

    request: Request


class Sleep(Struct, frozen=True):
    """Wait."""

    seconds: float


class CheckLoop(Struct, frozen=True):
    """Check whether the caller blocks an event loop; the result is a bool."""


Action = SendRequest | OpenStream | ReadStream | Sleep | CheckLoop
Steps: TypeAlias = Generator[Action, Any, T]


DEFAULT_URL = "http://127.0.0.1:8025"
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)  # a hundred concurrent waits are legitimate
HTTP_ERRORS = (httpx2.TransportError, httpx2.DecodingError)

_CONNECT_SECONDS = 10
_WRITE_SECONDS = 30
_MAX_PORT = 65535


def service_url(given: str | None, environ: Mapping[str, str]) -> str:
    """Return the URL of the service: the argument, else ``$TMPMAILD_URL``, else the default.

    The API's path is removed from the end of the URL, because requests add it. Raises ValueError.
    """
    variable = "" if given else environ.get("TMPMAILD_URL", "")
    text = (given or variable or DEFAULT_URL).strip()
    shown = ("$TMPMAILD_URL: " if variable else "") + repr(re.sub("//[^/@]*@", "//", text))  # hides the password
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeEncodeError) as error:
        raise ValueError(f"{shown} is not a URL: {error}") from error
    if url.userinfo:
        raise ValueError("the URL of the service must not contain a user name or a password")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ValueError(f"{shown} is not the URL of a service, such as {DEFAULT_URL}")
    if url.port is not None and not 0 < url.port <= _MAX_PORT:
        raise ValueError(f"{shown} is not a URL: a port must be between 1 and {_MAX_PORT}")
    return str(url).rstrip("/").removesuffix("/api/v1")


def opened(kind: type[C], service_url: str, *, limits: httpx2.Limits = LIMITS, **options: Any) -> C:
    """Return an HTTP client for a service, which uses the environment's proxy except for the local machine.

    Raises ``ServiceUnreachable`` if the proxy cannot be used, or if the certificates cannot be read.
    """
    url = httpx2.URL(service_url)
    try:
        if is_local(url.host) or _is_without_proxy(url.host):
            transport = httpx2.HTTPTransport if issubclass(kind, httpx2.Client) else httpx2.AsyncHTTPTransport
            # Without TLS, no certificates are verified, so the trusted certificates need not be loaded.
            direct = transport(limits=limits, verify=url.scheme == "https")
            return kind(transport=direct, **options)
        return kind(limits=limits, **options)
    except ImportError as error:
        hint = f"pip install socksio, or add {url.host} to $NO_PROXY"
        raise ServiceUnreachable(f"{service_url}: $ALL_PROXY names a SOCKS proxy: {hint}") from error
    except ValueError as error:
        raise ServiceUnreachable(f"{service_url}: a proxy in the environment cannot be used: {error}") from error
    except OSError as error:
        file = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        reason = "no certificate is there" if isinstance(error, ssl.SSLError) else error.strerror
        raise ServiceUnreachable(f"{service_url}: the certificates in {file} cannot be read: {reason}") from error


def is_local(host: str) -> bool:
    """Return whether a host name (RFC 6761 §6.3) or an IP address refers to the local machine."""
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _is_without_proxy(host: str) -> bool:
    """Return whether $NO_PROXY contains a host, its domain, or a network that contains its address."""
    if proxy_bypass(host):
        return True
    with suppress(ValueError):
        address = ip_address(host)
        for entry in getproxies().get("no", "").split(","):
            with suppress(ValueError):
                if "/" in entry and address in ip_network(entry.strip(), strict=False):
                    return True
    return False


@cache
def _warn_of_clear_text(service_url: str) -> None:
    """Warn, once for each service, that a token is sent unencrypted."""
    url = httpx2.URL(service_url)
    if url.scheme == "http" and not is_local(url.host):
        log.warning("%s: tokens are sent without TLS and can be read in transit; use https", service_url)


def blocks_loop(http: httpx2.Client | httpx2.AsyncClient) -> bool:
    """Return whether a client without ``await`` was called in a task of an event loop, which would block the loop.

    Playwright's synchronous API also leaves a running loop in the thread, but calls the test outside any task.
    """
    if not isinstance(http, httpx2.Client):
        return False
    if trio := sys.modules.get("trio"):
        with suppress(RuntimeError):
            return trio.lowlevel.current_task() is not None
    with suppress(RuntimeError):
        return asyncio.current_task() is not None
    return False


def arguments(request: Request) -> dict[str, Any]:
    """Return the arguments for ``build_request`` of either client."""
    headers = dict(request.headers)
    if request.token is not None:
        _warn_of_clear_text(request.service_url)
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
    """Convert a response from httpx2 to a reply for the core."""
    return Reply(request, response.status_code, {name.lower(): value for name, value in response.headers.items()}, body)


def translated(request: Request, error: httpx2.RequestError) -> TmpmaildError:
    """Return the client error that corresponds to an exception from httpx2."""
    service = request.service_url
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError() | httpx2.UnsupportedProtocol():
            return ServiceUnreachable(f"{service}: {_refusal(request, error)}")
        case httpx2.TimeoutException():
            return ConnectionLost(f"{service}: no response within {request.read_seconds:.3g} s")
        case httpx2.RemoteProtocolError() if not _is_cut(error):
            return NotTmpmaild(f"{service} does not speak HTTP; is the URL right?")
        case httpx2.DecodingError():
            return NotTmpmaild(f"{service} sent a body that cannot be decoded; is the URL right?")
    return ConnectionLost(f"{service}: the connection broke: {_reason(request, error)}; is tmpmaild running there?")


def _is_cut(error: httpx2.RemoteProtocolError) -> bool:
    return any(word in str(error) for word in ("disconnected", "peer closed"))


def _connect_seconds(request: Request) -> float:
    """Return the connection timeout, which is never longer than the read timeout."""
    return min(_CONNECT_SECONDS, request.read_seconds)


def _refusal(request: Request, error: httpx2.RequestError) -> str:
    """Return the reason why connecting failed, with a hint about the URL."""
    tls_error = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    match tls_error:
        case ssl.SSLCertVerificationError():
            return f"the certificate is not trusted: {printable(tls_error.verify_message.rstrip('.'))}"
        case ssl.SSLError():
            return f"no TLS connection ({printable(tls_error.reason or str(tls_error))}); does the server use http://?"
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
    """Yield the chain of causes down to the operating system error.

    If several addresses failed, the last error is followed.
    """
    while error is not None:
        yield error
        error = _last(error) if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__


def _said_by_the_system(error: OSError) -> str:
    """Return the system's error text, which asyncio replaces; gaierror and SSLError have their own error numbers."""
    if isinstance(error, socket.gaierror | ssl.SSLError):
        return error.strerror or str(error)
    return os.strerror(error.errno or 0)


def _last(group: BaseExceptionGroup[BaseException]) -> BaseException:
    return group.exceptions[-1]
