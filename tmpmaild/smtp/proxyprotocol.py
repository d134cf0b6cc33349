"""Reads the header by which a proxy tells whose connection it passes on; HAProxy's PROXY protocol, versions 1 and 2.

No I/O: octets go in. Nothing is guessed: a header is read only where one must be.
"""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from msgspec import Struct

MAX_V1_BYTES: Final = 107
_MAX_V2_REST_BYTES = 4096  # what follows the 16 octets; addresses and the longest TLVs that proxies send are within it

_V1_START = b"PROXY "
_IP = rb"([0-9A-Fa-f.:]+)"
_PORT = rb"(0|[1-9][0-9]{0,4})"
_v1_line = re.compile(
    rb"PROXY (?:UNKNOWN(?: [^\r\n]*)?|TCP([46]) %s %s %s %s)\r\n" % (_IP, _IP, _PORT, _PORT)
).fullmatch
_MAX_PORT = 65_535

_V2_START = b"\r\n\r\n\0\r\nQUIT\n"
_V2_FIXED_BYTES = 16
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_MAX_FAMILY, _V2_MAX_TRANSPORT = 3, 2
_V2_TCP4, _V2_TCP6 = 0x11, 0x21
_V2_ADDRESS_BYTES = {_V2_TCP4: 12, _V2_TCP6: 36}

Peer = tuple[str, int]


class BadHeader(Exception):
    """The octets are not, and cannot become, a header; ``str()`` says why and repeats none of them."""


class ProxyHeader(Struct, frozen=True):
    """A header of ``size_bytes``. ``client`` is None where the proxy speaks for itself, as in a health check."""

    client: Peer | None
    size_bytes: int


def parse(octets: bytes) -> ProxyHeader | None:
    """Read the header at the start of what has come; None: more is needed. Raises BadHeader as early as it can."""
    if _begins(octets, _V1_START):
        return _parse_v1(octets)
    if _begins(octets, _V2_START):
        return _parse_v2(octets)
    raise BadHeader("there is none")


def _begins(octets: bytes, start: bytes) -> bool:
    return octets[: len(start)] == start[: len(octets)]


def _parse_v1(octets: bytes) -> ProxyHeader | None:
    size_bytes = octets.find(b"\n", 0, MAX_V1_BYTES) + 1
    if not size_bytes:
        if len(octets) >= MAX_V1_BYTES:
            raise BadHeader("its line does not end")
        return None
    match = _v1_line(octets[:size_bytes])
    if match is None:
        raise BadHeader("its line is malformed")
    version, *values = match.groups()
    return ProxyHeader(_v1_client(version, *values) if version else None, size_bytes)


def _v1_client(version: bytes, *values: bytes) -> Peer:
    source, destination, source_port, destination_port = (value.decode() for value in values)
    kind = IPv4Address if version == b"4" else IPv6Address
    try:
        client, _ = kind(source), kind(destination)
    except ValueError as error:
        raise BadHeader("an address is malformed") from error
    if max(int(source_port), int(destination_port)) > _MAX_PORT:
        raise BadHeader("there is no such port")
    return _name(client), int(source_port)


def _parse_v2(octets: bytes) -> ProxyHeader | None:
    if len(octets) < _V2_FIXED_BYTES:
        return None
    command, family = octets[12:14]
    rest_bytes = int.from_bytes(octets[14:16])
    if command not in (_V2_LOCAL, _V2_PROXY):
        raise BadHeader("neither LOCAL nor PROXY of version 2")
    if rest_bytes > _MAX_V2_REST_BYTES:
        raise BadHeader("it is too long")
    if command == _V2_PROXY:
        _check_family(family, rest_bytes)
    size_bytes = _V2_FIXED_BYTES + rest_bytes
    if len(octets) < size_bytes:
        return None
    return ProxyHeader(_v2_client(family, octets) if command == _V2_PROXY else None, size_bytes)


def _check_family(family: int, rest_bytes: int) -> None:
    if family >> 4 > _V2_MAX_FAMILY or family & 0xF > _V2_MAX_TRANSPORT:
        raise BadHeader("its family of addresses is unknown")
    if rest_bytes < _V2_ADDRESS_BYTES.get(family, 0):
        raise BadHeader("it is shorter than its addresses")


def _v2_client(family: int, octets: bytes) -> Peer | None:
    """Return the client of a TCP connection; who comes by anything else has no address here that limits know."""
    if family == _V2_TCP4:
        return _name(IPv4Address(octets[16:20])), int.from_bytes(octets[24:26])
    if family == _V2_TCP6:
        return _name(IPv6Address(octets[16:32])), int.from_bytes(octets[48:50])
    return None


def _name(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
