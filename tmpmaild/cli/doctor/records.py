"""The DNS records to publish for the configured domains, made without a question to anybody."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from tmpmaild.cli.doctor.places import configured, is_loopback
from tmpmaild.config.settings import Config
from tmpmaild.hostnames import WILDCARD

Address = IPv4Address | IPv6Address

# Nothing is sent there: connecting a datagram socket only asks the kernel for the route.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
SPF = "v=spf1 -all"  # RFC 7208
DMARC = "v=DMARC1; p=reject"  # RFC 7489
NULL_DKIM = "v=DKIM1; p="  # RFC 6376 §3.6.1: the keys of all selectors are revoked
NO_ADDRESS = "the public IP address of this machine"


class Record(Struct, frozen=True):
    """A record to publish. An empty ``value`` of an A record cannot be known here."""

    name: str
    type: str
    value: str


def wanted(config: Config, hostname: str, addresses: Iterable[Address]) -> list[Record]:
    """Return the records for the domains and for the name of their mail server. Names end with no dot."""
    public = [address for address in addresses if address.is_global]
    found = [Record(hostname, "A" if one.version == 4 else "AAAA", str(one)) for one in public]  # noqa: PLR2004
    found = found or [Record(hostname, "A", "")]
    for domain in config.domains:
        found += [
            Record(domain, "MX", f"10 {hostname}"),
            Record(domain, "TXT", SPF),
        ]
        if domain.startswith(WILDCARD):  # what holds for its names is the policy of the domain above (RFC 7489 §6.6.3)
            continue
        found += [
            Record(f"_dmarc.{domain}", "TXT", DMARC),
            Record(f"*._domainkey.{domain}", "TXT", NULL_DKIM),
        ]
    return found


def zone(records: Iterable[Record]) -> Iterator[str]:
    """Yield records as lines of a zone file (RFC 1035 §5.1)."""
    for record in records:
        value = f'"{record.value}"' if record.type == "TXT" else record.value
        value = f"{value}." if record.type == "MX" else value
        comment = f"; {NO_ADDRESS}" if not value else ""
        yield f"{record.name}. {record.type} {value or comment}"


def own_addresses(config: Config) -> list[Address]:
    """Return the addresses under which SMTP listens: those that are named, and for a wildcard the machine's own."""
    found: list[Address] = []
    for place in configured(config):
        if place.key == "smtp.listen" and not is_loopback(place.endpoint):
            with suppress(ValueError):
                address = ip_address(place.endpoint.host)
                found += _of_machine(address.version) if address.is_unspecified else [address]
    return list(dict.fromkeys(found))


def _of_machine(version: int) -> list[Address]:
    """Return the address that this machine would use towards the internet."""
    family, elsewhere = _ELSEWHERE[version == 6]  # noqa: PLR2004
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return [ip_address(probe.getsockname()[0])]
    except OSError:
        return []
