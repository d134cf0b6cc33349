"""The identity of a client for limits: its IPv4 address, or the /64 network of its IPv6 address."""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
Networks = Sequence[Network]
LOCAL = "local"
"""The client of a Unix socket whose peer does not name one."""
_MAPPED_BITS = 96  # ::ffff:0:0/96, before an IPv4 address
_with_port = re.compile(r"(?:\[([^\[\]]*)\]|([0-9.]+)):[0-9]{1,5}|\[([^\[\]]*)\]").fullmatch


@lru_cache(maxsize=4096)
def client_name(ip: str) -> str:
    """Return the name under which an IP address is limited; a text that is not an IP address is its own name.

    An IPv4-mapped IPv6 address is that IPv4 address; IPv6 hosts own a /64 and can change address at will.
    """
    address = parse_ip(ip)
    if address is None:
        return ip
    if isinstance(address, IPv4Address):
        return str(address)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"


@lru_cache(maxsize=4096)
def client_network(client: str) -> str:
    """Return the network of a client: an IPv4 /24 or an IPv6 /48, as providers give them out; "" for a name.

    A host may have many addresses of its network at once, such as the 65,536 clients of a /48.
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
    """Read a network, of one address without a length; an IPv4-mapped one is that IPv4 network. Raises ValueError.

    Without the second rule it would hold no address, for ``parse_ip`` returns mapped addresses as IPv4 addresses.
    """
    found = ip_network(text.strip())
    mapped = parse_ip(str(found.network_address))
    if mapped is not None and mapped.version < found.version and found.prefixlen >= _MAPPED_BITS:
        return ip_network(f"{mapped}/{found.prefixlen - _MAPPED_BITS}")
    return found


def is_public(ip: str) -> bool:
    """Return whether a listening address may be reachable from the internet; 0.0.0.0 and [::] mean all addresses."""
    address = parse_ip(ip)
    return address is not None and (address.is_unspecified or address.is_global)


def client_ip(peer: str, forwarded_for: Sequence[str], trusted: Networks) -> tuple[str, bool]:
    """Find the client of a request: the right-most address not added by a trusted proxy.

    ``forwarded_for`` is X-Forwarded-For from left to right. Proxies append on the right, so everything left
    of the first untrusted address may be forged. A peer named ``LOCAL`` is a proxy by its file permissions. The second
    value is whether a proxy has named the one before it in a form that is not read: then that proxy is the client.
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
    """Return the address of a hop as proxies write it: also quoted, in brackets, and with a port."""
    bare = text.strip(" \t").removeprefix('"').removesuffix('"')
    match = _with_port(bare)
    return parse_ip(next(filter(None, match.groups()), "") if match else bare)


@lru_cache(maxsize=4096)
def parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, an IPv4-mapped one as that IPv4 address; None for a text that is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address
