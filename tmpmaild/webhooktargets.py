"""The URLs and addresses that webhooks may call under the operator's rules. This module performs no DNS lookups.

A rule is a host name, ``*.`` followed by a host name (any subdomain at any depth, but not the name itself), or a
network. Each rule may have a port; without a port, it allows 80 and 443. The host of a URL must match a rule. A host
name must also resolve to a public address, or to an address in a rule's network for that port.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from msgspec import Struct

from tmpmaild import hostnames
from tmpmaild.clients import Network, parse_network

MAX_URL_CHARACTERS: Final = 2048
_WEB_PORTS: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65_535

_RULE = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?").fullmatch
# RFC 3986 §3, but without user information or a fragment, which webhooks do not need.
_URL = re.compile(
    r"(?i:(https?)://)(?:\[([0-9A-Fa-f:.]+)\]|([^\x00-\x20/?#@:\[\]\\]+))(?::([0-9]{1,5}))?"
    r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
).fullmatch
# Browsers and inet_aton(3) parse these as IPv4 addresses in other notations: decimal, octal, hexadecimal, short.
_ENDS_IN_A_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)").fullmatch

# The special-purpose address registries (RFC 6890). Python's is_global is not used: it depends on the Python version.
_NOT_PUBLIC: Final = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's metadata service, whose address looks public
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, reserved, broadcast
            "2001::/23",  # Teredo, ORCHID, benchmarking
            "2001:db8::/32",
            "2002::/16",  # 6to4, which contains an IPv4 address
            "3fff::/20",
        ),
    )
)
# All other IPv6 addresses are loopback, link-local, private or multicast, or contain an IPv4 address.
_GLOBAL_UNICAST: Final = ip_network("2000::/3")


class Rule(Struct, frozen=True):
    """A rule that allows either ``name``, which may be a wildcard, or ``network``; ``port`` 0 means 80 and 443."""

    name: str = ""
    network: Network | None = None
    port: int = 0

    def has_port(self, port: int) -> bool:
        """Return whether the rule allows a port."""
        return port == self.port if self.port else port in _WEB_PORTS.values()

    def has_name(self, name: str) -> bool:
        """Return whether the rule allows a host name."""
        if self.name.startswith(hostnames.WILDCARD):
            return name.endswith(self.name[1:])
        return bool(name) and name == self.name


class Target(Struct, frozen=True):
    """A parsed URL; ``host`` is a name in lower case with A-labels, or an address. ``path`` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address rather than a name."""
        return ":" in self.host or _ENDS_IN_A_NUMBER(self.host) is not None

    @property
    def authority(self) -> str:
        """The host and port in the form of the Host field (RFC 9110 §7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _WEB_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in its normal form."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_rule(text: str) -> Rule:
    """Parse ``name``, ``*.name`` or a network, each with or without ``:port``; raises ValueError.

    An IPv6 network with a port is written in brackets: ``[2001:db8::/32]:8443``.
    """
    match = (text, None, None) if text.count(":") > 1 and not text.startswith("[") else _rule_parts(text)
    v6, other, digits = match
    port = int(digits or 0)
    if port > _MAX_PORT or (digits and not port):
        raise ValueError("no such port")
    host = v6 or other or ""
    if v6 or "/" in host or _ENDS_IN_A_NUMBER(host):
        return Rule(network=parse_network(host), port=port)
    return Rule(name=hostnames.to_ascii_or_wildcard(host), port=port)


def _rule_parts(text: str) -> tuple[str | None, str | None, str | None]:
    match = _RULE(text)
    if match is None:
        raise ValueError("not a name or a network")
    v6, other, digits = match.groups()
    return v6, other, digits


def parse_url(text: str) -> Target:
    """Parse a webhook URL; raises ValueError with a sentence that describes the mistake."""
    if len(text) > MAX_URL_CHARACTERS:
        raise ValueError(f"it has more than {MAX_URL_CHARACTERS} characters")
    match = _URL(text)
    if match is None:
        raise ValueError(_mistake(text))
    scheme, v6, host, digits, path, query = match.groups()
    scheme = scheme.lower()
    port = int(digits or _WEB_PORTS[scheme])
    if not 0 < port <= _MAX_PORT:
        raise ValueError("its port is out of range")
    target = Target(scheme, _host(v6, host), port, (path or "/") + (query or ""))
    if len(target.url) > MAX_URL_CHARACTERS:  # the normal form is stored, and must be valid when it is parsed again
        raise ValueError(f"its normal form has more than {MAX_URL_CHARACTERS} characters")
    return target


def _mistake(text: str) -> str:
    scheme, _, rest = text.partition("://")
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if scheme.lower() not in _WEB_PORTS or not authority:
        return "it does not start with http:// or https:// and a host"
    if "@" in authority:
        return "it has user information"
    return "it has a fragment" if "#" in rest else "it is not a valid URL (RFC 3986)"


def _host(v6: str | None, host: str) -> str:
    try:
        if v6:
            return str(IPv6Address(v6))
        if _ENDS_IN_A_NUMBER(host):
            return str(IPv4Address(host))  # refuses 127.1, 2130706433, 0x7f.0.0.1 and 0177.0.0.1
    except ValueError:
        raise ValueError("its host looks like an IP address, but is not in the usual notation") from None
    try:
        return hostnames.to_ascii(host)
    except ValueError:
        raise ValueError("its host is not a host name") from None


def refusal(rules: Iterable[Rule], target: Target) -> str:
    """Return the reason why no rule allows a URL, as a clause without a subject, or "" if a rule allows it."""
    if target.is_address:
        found = [rule for rule in rules if _has_address(rule, target.host)]
    else:
        found = [rule for rule in rules if rule.has_name(target.host)]
    if not found:
        return "leads to a host that the operator does not allow"
    if not any(rule.has_port(target.port) for rule in found):
        return "leads to a port that the operator does not allow"
    return ""


def permits_address(rules: Iterable[Rule], target: Target, address: str) -> bool:
    """Return whether a call to a permitted URL may connect to this address, to which its host currently resolves."""
    if any(rule.has_port(target.port) and _has_address(rule, address) for rule in rules):
        return True
    return not target.is_address and is_public(address)


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet and does not embed an IPv4 address."""
    ip = ip_address(address)
    if "%" in address or (isinstance(ip, IPv6Address) and ip not in _GLOBAL_UNICAST):
        return False
    return not any(ip in network for network in _NOT_PUBLIC if network.version == ip.version)


def _has_address(rule: Rule, address: str) -> bool:
    if rule.network is None or "%" in address:
        return False
    ip = ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return ip in rule.network or (mapped is not None and mapped in rule.network)
