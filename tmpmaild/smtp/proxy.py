"""The PROXY header (versions 1 and 2), with which a trusted proxy identifies the client."""

import asyncio
import logging
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, cast

from msgspec import Struct

from tmpmaild.clients import LOCAL, belongs
from tmpmaild.smtp import replies
from tmpmaild.smtp.connections import ClientAddress, Connections
from tmpmaild.smtp.replies import Reply

_HEADER_SECONDS = 5

MAX_V1_BYTES: Final = 107
# The limit on the bytes after the first 16; sufficient for addresses and the longest TLVs that proxies send.
_MAX_V2_REST_BYTES = 4096

_V1_START = b"PROXY "
_IP = rb"([0-9A-Fa-f.:]+)"
_PORT = rb"(0|[1-9][0-9]{0,4})"
_v1_line = re.compile(
    rb"PROXY (?:UNKNOWN(?: [^\r\n]*)?|TCP([46]) %s %s %s %s)\r\n" % (_IP, _IP, _PORT, _PORT)
).fullmatch
_MAX_PORT = 65_535
_SHOWN_BYTES = 32  # the part of an invalid header that is logged

_V2_START = b"\r\n\r\n\0\r\nQUIT\n"
_V2_FIXED_BYTES = 16
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_MAX_FAMILY, _V2_MAX_TRANSPORT = 3, 2
_V2_TCP4, _V2_TCP6 = 0x11, 0x21
_V2_ADDRESS_BYTES = {_V2_TCP4: 12, _V2_TCP6: 36}

log = logging.getLogger(__name__)


class ProxyHeaderReader(asyncio.Protocol):
    """A connection's first protocol object; ``new_connection`` creates the protocol object for the actual client."""

    def __init__(
        self, connections: Connections, new_connection: Callable[[ClientAddress | None], asyncio.Protocol]
    ) -> None:
        self.remote_ip = LOCAL
        self._connections = connections
        self._new_connection = new_connection
        self.received = b""
        self._began_at = connections.loop.time()

    # Methods that the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the header if the peer is a trusted proxy; otherwise, hand over the connection immediately."""
        self._transport = cast("asyncio.Transport", transport)
        self.remote_ip = (transport.get_extra_info("peername") or (LOCAL,))[0]
        if not belongs(self.remote_ip, self._connections.settings.trusted_proxies):
            self._hand_over(None)
            return
        refusal = self._connections.admit_proxy(self)
        if refusal:
            self._refuse(refusal)

    def data_received(self, data: bytes) -> None:
        """Add bytes; once the header is complete, hand over the connection with the remaining bytes."""
        self.received += data
        try:
            header = parse_proxy_header(self.received)
        except BadProxyHeader as error:
            self._drop(f"is invalid: {error}; it starts with {self.received[:_SHOWN_BYTES]!r}")
            return
        if header is not None:
            rest, self.received = self.received[header.size_bytes :], b""
            self._connections.open.pop(self, None)
            self._hand_over(header.client, rest)

    def connection_lost(self, error: Exception | None) -> None:
        """Stop tracking the connection; a health check may close it without sending anything."""
        del error
        self._connections.open.pop(self, None)

    # Methods that the server calls.

    def watch(self, now: float) -> None:
        """Close the connection of a proxy that sends no header."""
        if now - self._began_at > _HEADER_SECONDS:
            self._drop("did not arrive in time")

    def close_if_idle(self, now: float) -> bool:
        """Do nothing, because the time limit for the header is short enough."""
        del now
        return False

    def stop(self) -> None:
        """Close the connection with a reply that tells the client to try again."""
        self._refuse(replies.STOPPING)

    def abort(self) -> None:
        """Close the connection immediately."""
        self._transport.abort()

    def _hand_over(self, client: ClientAddress | None, rest: bytes = b"") -> None:
        connection = self._new_connection(client)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        if rest and not self._transport.is_closing():
            connection.data_received(rest)

    def _refuse(self, reply: Reply) -> None:
        self._transport.write(reply.encoded)
        self._transport.close()

    def _drop(self, why: str) -> None:
        self._connections.metrics.refused_connections.add("proxy_header")
        extra = {"about": self.remote_ip, "event": "smtp_proxy_header", "client": self.remote_ip}
        log.warning("SMTP: the PROXY header from %s %s", self.remote_ip, why, extra=extra)
        self._transport.abort()


class BadProxyHeader(Exception):
    """The bytes are not the start of a valid header. ``str()`` is the reason, and does not repeat the bytes."""


class ProxyHeader(Struct, frozen=True):
    """A header of ``size_bytes``.

    ``client`` is None if the proxy connects on its own behalf, for example for a health check.
    """

    client: ClientAddress | None
    size_bytes: int


def parse_proxy_header(data: bytes) -> ProxyHeader | None:
    """Parse the header at the start of the bytes; return None if more bytes are needed. Raises BadProxyHeader."""
    if _begins(data, _V1_START):
        return _parse_v1(data)
    if _begins(data, _V2_START):
        return _parse_v2(data)
    raise BadProxyHeader("it is missing")


def _begins(data: bytes, start: bytes) -> bool:
    return data[: len(start)] == start[: len(data)]


def _parse_v1(data: bytes) -> ProxyHeader | None:
    size_bytes = data.find(b"\n", 0, MAX_V1_BYTES) + 1
    if not size_bytes:
        if len(data) >= MAX_V1_BYTES:
            raise BadProxyHeader("its line is too long")
        return None
    match = _v1_line(data[:size_bytes])
    if match is None:
        raise BadProxyHeader("its line is malformed")
    version, *values = match.groups()
    return ProxyHeader(_v1_client(version, *values) if version else None, size_bytes)


def _v1_client(version: bytes, *values: bytes) -> ClientAddress:
    # nginx uses the client's address family, regardless of the destination's address family. The destination is not
    # used here.
    source, destination, source_port, destination_port = (value.decode() for value in values)
    kind = IPv4Address if version == b"4" else IPv6Address
    try:
        client, _ = kind(source), ip_address(destination)
    except ValueError as error:
        raise BadProxyHeader("an address is malformed") from error
    if max(int(source_port), int(destination_port)) > _MAX_PORT:
        raise BadProxyHeader("a port is out of range")
    return _ip_text(client), int(source_port)


def _parse_v2(data: bytes) -> ProxyHeader | None:
    if len(data) < _V2_FIXED_BYTES:
        return None
    command, family = data[12:14]
    rest_bytes = int.from_bytes(data[14:16])
    if command not in (_V2_LOCAL, _V2_PROXY):
        raise BadProxyHeader("neither LOCAL nor PROXY of version 2")
    if rest_bytes > _MAX_V2_REST_BYTES:
        raise BadProxyHeader("it is too long")
    if command == _V2_PROXY:
        _check_family(family, rest_bytes)
    size_bytes = _V2_FIXED_BYTES + rest_bytes
    if len(data) < size_bytes:
        return None
    return ProxyHeader(_v2_client(family, data) if command == _V2_PROXY else None, size_bytes)


def _check_family(family: int, rest_bytes: int) -> None:
    if family >> 4 > _V2_MAX_FAMILY or family & 0xF > _V2_MAX_TRANSPORT:
        raise BadProxyHeader("its address family is unknown")
    if rest_bytes < _V2_ADDRESS_BYTES.get(family, 0):
        raise BadProxyHeader("it is too short for its addresses")


def _v2_client(family: int, data: bytes) -> ClientAddress | None:
    """Return the client of a TCP connection; other transports have no address to which limits could apply."""
    if family == _V2_TCP4:
        return _ip_text(IPv4Address(data[16:20])), int.from_bytes(data[24:26])
    if family == _V2_TCP6:
        return _ip_text(IPv6Address(data[16:32])), int.from_bytes(data[48:50])
    return None


def _ip_text(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
