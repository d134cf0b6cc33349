"""The identity of a client for limits: its IPv4 address, or the /64 network of its IPv6 address."""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
Networks = Sequence[Network]
LOCAL = "local"
"""The client name for connections to a Unix socket that do not specify a client."""
_MAPPED_BITS = 96  # ::ffff:0:0/96, the prefix of an IPv4 address
_with_port = re.compile(r"(?:\[([^\[\]]*)\]|([0-9.]+)):[0-9]{1,5}|\[([^\[\]]*)\]").fullmatch


@lru_cache(maxsize=4096)
def client_name(ip: str) -> str:
    """Return the name of the client with this IP address; text that is not an address is returned unchanged.

    An IPv4-mapped IPv6 address counts as the IPv4 address. An IPv6 host has a whole /64 and can use any address in it.
    """
    address = parse_ip(ip)
    if address is None:
        return ip
    if isinstance(address, IPv4Address):
        return str(address)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"


@lru_cache(maxsize=4096)
def client_network(client: str) -> str:
    """Return the IPv4 /24 or IPv6 /48 network of a client, as assigned by providers, or "" for a name.

    A host may use many addresses of its network at the same time: a /48 contains 65,536 clients.
    """
    address = parse_ip(client.removesuffix("/64"))
    if address is None:
        return ""
    if isinstance(address, IPv4Address):
        return f"{IPv4Address(int(address) >> 8 << 8)}/24"
    return f"{IPv6Address(int(address) >> 80 << 80)}/48"


def belongs(ip: str, networks: Networks) -> bool:
    """Return whether an IP address, IPv4-mapped or not, belongs to one of the networks."""
    if not networks:
        return False
    address = parse_ip(ip)
    return address is not None and any(address in network for network in networks)


def parse_network(text: str) -> Network:
    """Parse a network; without a prefix length it is a single address. Raises ValueError.

    An IPv4-mapped network becomes the IPv4 network. Otherwise it would contain no address, because ``parse_ip``
    converts mapped addresses to IPv4 addresses.
    """
    found = ip_network(text.strip())
    mapped = parse_ip(str(found.network_address))
    if mapped is not None and mapped.version < found.version and found.prefixlen >= _MAPPED_BITS:
        return ip_network(f"{mapped}/{found.prefixlen - _MAPPED_BITS}")
    return found


def is_public(ip: str) -> bool:
    """Return whether a listening address may be reachable from the internet, as 0.0.0.0 and [::] (any address) may."""
    address = parse_ip(ip)
    return address is not None and (address.is_unspecified or address.is_global)


def client_ip(peer: str, forwarded_for: Sequence[str], trusted: Networks) -> tuple[str, bool]:
    """Find the client of a request: the right-most address not added by a trusted proxy.

    ``forwarded_for`` is X-Forwarded-For from left to right. Proxies append on the right, so all entries to the left of
    the first untrusted address may be forged. A peer named ``LOCAL`` is trusted because of its file permissions. The
    second value is true if a proxy has added an entry that cannot be parsed; the client is then that proxy.
    """
    ip = peer
    for hop in reversed(forwarded_for):
        if ip != LOCAL and not belongs(ip, trusted):
            break
        address = _parse_hop(hop)
        if address is None:
            return ip, True
        ip = str(address)
    return ip, False


def _parse_hop(text: str) -> IPv4Address | IPv6Address | None:
    """Parse the address of a hop, which proxies may write in quotes, in brackets, or with a port."""
    bare = text.strip(" \t").removeprefix('"').removesuffix('"')
    match = _with_port(bare)
    return parse_ip(next(filter(None, match.groups()), "") if match else bare)


@lru_cache(maxsize=4096)
def parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address, converting an IPv4-mapped address to IPv4; None if the text is not an address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address
