"""Makes one call: looks the name up, connects to an address that was checked, posts, and reads a status.

No proxy is asked and no redirect followed. Everything of an answer is bounded, and nothing but its status and
``Retry-After`` leaves this module.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from threading import Thread
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream

from tmpmaild import webhooktargets
from tmpmaild.boundedh11 import MAX_HEADER_BYTES, BoundedConnection
from tmpmaild.webhooktargets import Rule, Target

CALL_SECONDS: Final = 10.0
_MOST_ADDRESSES: Final = 4
_MOST_BODY_BYTES: Final = 1024
_BODY_SECONDS: Final = 1.0  # for what is thrown away: the target shall not find its connection reset
_PART_BYTES: Final = 4096
_MOST_THREADS: Final = 64

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host; raises OSError. Called in a thread."""

Fields = Sequence[tuple[str, str]]
_Found = Sequence[str] | Exception


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, in the order in which they are to be tried (RFC 6724)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Lookups:
    """Calls ``resolve``. A look-up cannot be ended, so all who want the same name meanwhile wait for one thread."""

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._underway: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises OSError."""
        found = await asyncio.shield(self._underway.get((host, port)) or self._begin(host, port))
        if isinstance(found, Exception):
            raise OSError(str(found)) from found
        return found

    def _begin(self, host: str, port: int) -> asyncio.Future[_Found]:
        if len(self._underway) >= _MOST_THREADS:
            raise OSError("too many look-ups wait for an answer")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Found] = loop.create_future()
        # Not a pool of the event loop: that waits for its threads when the daemon stops.
        try:
            Thread(target=self._look, args=(host, port, loop, future), name="lookup", daemon=True).start()
        except RuntimeError as error:  # the machine has no more threads for us
            raise OSError(str(error)) from error
        self._underway[host, port] = future
        future.add_done_callback(lambda _: self._underway.pop((host, port)))
        return future

    def _look(self, host: str, port: int, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[_Found]") -> None:
        found: _Found
        try:
            found = self._resolve(host, port)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            found = error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(future.set_result, found)


class Outcome(NamedTuple):
    """What has become of a call: a status, or in a word why there is none."""

    status: int = 0
    reason: str = ""
    retry_after: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the target has taken the event."""
        return 200 <= self.status < 300  # noqa: PLR2004 - RFC 9110 §15.3

    @property
    def text(self) -> str:
        """What is shown of it."""
        return str(self.status) if self.status else self.reason

    @property
    def group(self) -> str:
        """What it is counted as."""
        return f"{self.status // 100}xx" if self.status else self.reason


class _Failed(Exception):
    """There is no status, for the reason that is its text."""


class Caller:
    """Calls webhooktargets. ``own_ports`` are those at which this daemon listens: it never calls itself."""

    def __init__(
        self,
        own_ports: Collection[int] = (),
        *,
        resolve: Resolve = resolve,
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._own_ports = own_ports
        self._lookups = Lookups(resolve)
        self._trust = cache(trust)
        self._call_seconds = call_seconds

    async def call(self, rules: Sequence[Rule], target: Target, fields: Fields, body: bytes) -> Outcome:
        """Post ``body`` with these header fields; never raises for what the target or the network does."""
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
        stream = await self._connected(target, addresses[:_MOST_ADDRESSES])
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
        """Connect to the first of the addresses that accepts; each of the others gets a share of the time."""
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
            self._refuse_own(*map(stream.extra, (SocketAttribute.local_address, SocketAttribute.remote_address)))
            if target.scheme == "http":
                return stream
            context = await anyio.to_thread.run_sync(self._trust)  # reads hundreds of certificates once
            return await TLSStream.wrap(stream, hostname=target.host, ssl_context=context, standard_compatible=False)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise

    def _refuse_own(self, here: Any, there: Any) -> None:
        """Raise for a connection of the machine to itself, by any of its addresses, at a port of this daemon."""
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
    """Read the header of the answer, perhaps after some of status 1xx (RFC 9110 §15.2)."""
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
    """Read the beginning of the body; whatever it is changes nothing."""
    left_bytes = _MOST_BODY_BYTES
    try:
        while left_bytes > 0 and not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                part = await stream.receive(left_bytes)
                left_bytes -= len(part)
                connection.receive_data(part)
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, h11.ProtocolError):
        return
