"""Makes one call: resolves the name, connects to a permitted address, sends a POST request, and reads the status.

No proxies are used, and redirects are not followed. All parts of a response are limited in size, and this module
returns only its status and ``Retry-After``.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from threading import Thread
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import h11
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

from tmpmaild import webhooktargets
from tmpmaild.boundedh11 import MAX_HEADER_BYTES, BoundedConnection
from tmpmaild.webhooktargets import Rule, Target

CALL_SECONDS: Final = 10.0
_MAX_ADDRESSES: Final = 4
_MAX_BODY_BYTES: Final = 1024
_BODY_SECONDS: Final = 1.0  # the body is discarded, but reading it avoids resetting the target's connection
_PART_BYTES: Final = 4096
_MAX_THREADS: Final = 64

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host, or raises OSError. Called in a thread."""

Fields = Sequence[tuple[str, str]]
_Found = Sequence[str] | Exception


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, in the order in which to try them (RFC 6724)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Lookups:
    """Calls ``resolve`` in threads.

    Lookups cannot be cancelled, so all calls for the same name wait for the same thread.
    """

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._underway: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises OSError."""
        found = await asyncio.shield(self._underway.get((host, port)) or self._start(host, port))
        if isinstance(found, Exception):
            raise OSError(str(found)) from found
        return found

    def _start(self, host: str, port: int) -> asyncio.Future[_Found]:
        if len(self._underway) >= _MAX_THREADS:
            raise OSError("too many lookups are waiting for a response")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Found] = loop.create_future()
        # Uses a separate thread, because the event loop waits for its pool threads when the daemon stops.
        try:
            Thread(target=self._resolve_in_thread, args=(host, port, loop, future), name="lookup", daemon=True).start()
        except RuntimeError as error:  # no more threads can be started
            raise OSError(str(error)) from error
        self._underway[host, port] = future
        future.add_done_callback(lambda _: self._underway.pop((host, port)))
        return future

    def _resolve_in_thread(
        self, host: str, port: int, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[_Found]"
    ) -> None:
        found: _Found
        try:
            found = self._resolve(host, port)
        except Exception as error:  # noqa: BLE001 - raised in the calls that wait for the lookup
            found = error
        with suppress(RuntimeError):  # the event loop has stopped
            loop.call_soon_threadsafe(future.set_result, found)


class Outcome(NamedTuple):
    """The outcome of a call: a status, or a keyword that states why there is no status."""

    status: int = 0
    reason: str = ""
    retry_after: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the target has accepted the event."""
        return 200 <= self.status < 300  # noqa: PLR2004 - RFC 9110 §15.3

    @property
    def text(self) -> str:
        """The outcome as text."""
        return str(self.status) if self.status else self.reason

    @property
    def group(self) -> str:
        """The metric label under which the outcome is counted."""
        return f"{self.status // 100}xx" if self.status else self.reason


class _Failed(Exception):
    """A call without a status; the error text is the reason."""


class Caller:
    """Calls targets, but never this daemon itself, which listens on ``own_ports``."""

    def __init__(
        self,
        own_ports: Collection[int] = (),
        *,
        resolve: Resolve = resolve,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._own_ports = own_ports
        self._lookups = Lookups(resolve)
        self._context = cache(ssl.create_default_context)
        self._call_seconds = call_seconds

    async def call(self, rules: Sequence[Rule], target: Target, fields: Fields, body: bytes) -> Outcome:
        """Send a POST request with these header fields.

        Target and network failures are returned as outcomes, not raised as exceptions.
        """
        try:
            with anyio.fail_after(self._call_seconds):
                return await self._call(rules, target, fields, body)
        except _Failed as error:
            return Outcome(reason=str(error))
        except TimeoutError:
            return Outcome(reason="timeout")
        except ssl.SSLError:
            return Outcome(reason="tls")
        except h11.ProtocolError:
            return Outcome(reason="protocol")
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            return Outcome(reason="connection")

    async def _call(self, rules: Sequence[Rule], target: Target, fields: Fields, body: bytes) -> Outcome:
        if webhooktargets.refusal(rules, target):
            raise _Failed("not-allowed")
        addresses = [one for one in await self._addresses(target) if webhooktargets.permits_address(rules, target, one)]
        if not addresses:
            raise _Failed("not-allowed")
        stream = await self._connected(target, addresses[:_MAX_ADDRESSES])
        try:
            return await _posted(stream, target, fields, body)
        finally:
            await anyio.aclose_forcefully(stream)

    async def _addresses(self, target: Target) -> Sequence[str]:
        if target.is_address:
            return [target.host]
        try:
            return await self._lookups.addresses(target.host, target.port)
        except (OSError, UnicodeError):
            raise _Failed("dns") from None

    async def _connected(self, target: Target, addresses: Sequence[str]) -> ByteStream:
        """Connect to the first address that accepts; each address except the last is given only a share of the time."""
        for left in range(len(addresses), 0, -1):
            with anyio.move_on_after(self._call_seconds / (left + 1) if left > 1 else None):
                try:
                    return await self._connected_to(target, addresses[-left])
                except (OSError, anyio.BrokenResourceError, anyio.EndOfStream):
                    if left == 1:
                        raise
        raise _Failed("connection")

    async def _connected_to(self, target: Target, address: str) -> ByteStream:
        stream = await anyio.connect_tcp(address, target.port)
        try:
            self._refuse_own(stream)
            if target.scheme == "http":
                return stream
            context = await anyio.to_thread.run_sync(self._context)  # the first call loads hundreds of certificates
            return await TLSStream.wrap(stream, hostname=target.host, ssl_context=context, standard_compatible=False)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise

    def _refuse_own(self, stream: SocketStream) -> None:
        """Raise ``_Failed`` if the connection leads to a port of this daemon, at any address of this machine."""
        here = stream.extra(SocketAttribute.local_address)  # noqa: S610 - not a Django query
        there = stream.extra(SocketAttribute.remote_address)  # noqa: S610 - likewise
        if there[1] in self._own_ports and (there[0] == here[0] or ip_address(there[0]).is_loopback):
            raise _Failed("not-allowed")


async def _posted(stream: ByteStream, target: Target, fields: Fields, body: bytes) -> Outcome:
    connection = BoundedConnection(h11.CLIENT)
    own = [("Host", target.authority), ("Content-Length", str(len(body))), ("Connection", "close")]
    request = h11.Request(method="POST", target=target.path, headers=[*own, *fields])
    for event in (request, h11.Data(body), h11.EndOfMessage()):
        await stream.send(connection.send(event) or b"")
    response = await _response(stream, connection)
    with anyio.move_on_after(_BODY_SECONDS):
        await _read_body(stream, connection)
    retry_after = next((value for name, value in response.headers if name == b"retry-after"), b"")
    return Outcome(response.status_code, retry_after=retry_after[:64].decode("ascii", "replace"))


async def _response(stream: ByteStream, connection: h11.Connection) -> h11.Response:
    """Read the header of the final response; skip interim responses (1xx, RFC 9110 §15.2)."""
    left_bytes = MAX_HEADER_BYTES
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if left_bytes <= 0:
                raise _Failed("protocol")
            part = await stream.receive(_PART_BYTES)
            left_bytes -= len(part)
            connection.receive_data(part)
        elif isinstance(event, h11.Response):
            return event
        elif not isinstance(event, h11.InformationalResponse):
            raise _Failed("protocol")


async def _read_body(stream: ByteStream, connection: h11.Connection) -> None:
    """Read and discard the beginning of the body."""
    left_bytes = _MAX_BODY_BYTES
    try:
        while left_bytes > 0 and not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                part = await stream.receive(left_bytes)
                left_bytes -= len(part)
                connection.receive_data(part)
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, h11.ProtocolError):
        return
