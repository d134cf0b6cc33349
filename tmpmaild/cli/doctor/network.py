"""Checks whether the service can be reached from the internet: names, published DNS records, port 25 and the proxy."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from tmpmaild import webhooktargets
from tmpmaild.cli.doctor import Record, Result, ok, problem, warning
from tmpmaild.clients import Network
from tmpmaild.config.settings import Config
from tmpmaild.config.validators import Endpoint, parse_endpoint
from tmpmaild.hostnames import WILDCARD
from tmpmaild.webhooktargets import Rule, Target

if TYPE_CHECKING:
    from tmpmaild.senders.resolver import Answer, Resolver

Address = IPv4Address | IPv6Address

# Connecting a datagram socket only makes the kernel look up the route; no packet is sent.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
SPF = "v=spf1 -all"  # RFC 7208
DMARC = "v=DMARC1; p=reject"  # RFC 7489
NULL_DKIM = "v=DKIM1; p="  # RFC 6376 §3.6.1: the keys of all selectors are revoked
_MAIL_PORT = 25
_LOCAL_NAMES = ("localhost", "localdomain", "local", "internal", "lan", "home", "arpa")
_RESERVED = ("example", "test", "invalid", "localhost", "local", "internal")
_WIDEST_PREFIX = {4: 8, 6: 16}
_PROVIDERS = "many providers block port 25 by default; test from a different network: nc -vz {} 25"

_TARGETS, _AUTHORITIES = "webhooks.allow", "authorities"
_THIS_MACHINE = tuple(map(ip_address, ("127.0.0.1", "::1")))
_METADATA = tuple(map(ip_address, ("169.254.169.254", "fd00:ec2::254")))

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host; raises OSError."""
_QUERY_SECONDS = 5.0
_ALL_SECONDS = 10.0
_NULL_MX = "."
_RESOLVERS = "correct /etc/resolv.conf, which webhooks need too, or specify a working resolver with --resolver"


def _public(texts: Iterable[str]) -> dict[str, Endpoint]:
    """Parse a setting's addresses; return the addresses that other machines can connect to, keyed by their text."""
    endpoints = {text: parse_endpoint(text) for text in texts}
    return {text: endpoint for text, endpoint in endpoints.items() if not is_loopback(endpoint)}


def is_loopback(endpoint: Endpoint) -> bool:
    """Return whether only this machine can connect to an address."""
    if endpoint.path or endpoint.host == "localhost":
        return True
    try:
        return ip_address(endpoint.host).is_loopback
    except ValueError:
        return False


def check_reach(config: Config, hostname: str) -> Iterator[Result]:
    """Check the settings that determine whether senders and readers can reach the service."""
    yield domains(config)
    yield name_of_server(hostname)
    yield port_25(config, hostname)
    yield from proxy(config)


def domains(config: Config) -> Result:
    """Report domains with reserved names, which cannot have a public MX record."""
    reserved = [name for name in config.domains if _is_reserved(name.removeprefix(WILDCARD))]
    if reserved:
        text = f"{', '.join(reserved)}: reserved, so no mail can arrive from the internet"
        return warning("domains", text, "set domains to your own")
    return ok("domains", ", ".join(config.domains))


def _is_reserved(name: str) -> bool:
    """Return whether a name, such as our default, is reserved and has no mail server (RFC 2606, RFC 6761)."""
    return "." not in name or name.rpartition(".")[2] in _RESERVED or f".{name}".endswith(".example.com")


def name_of_server(name: str) -> Result:
    """Check whether the name in the greeting can be used in an MX record."""
    if is_public_name(name):
        return ok("hostname", name)
    text = f"{name!r} is not a fully qualified public DNS name"
    return warning("hostname", text, 'set smtp.hostname to the name in the MX record, such as "mx.example.org"')


def is_public_name(name: str) -> bool:
    """Return whether a name is not an IP address and can be a public DNS name."""
    first, _, rest = name.rstrip(".").partition(".")
    return bool(first and rest) and name.rpartition(".")[2] not in _LOCAL_NAMES and not _is_ip(name)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def port_25(config: Config, name: str) -> Result:
    """Check whether senders, which always use port 25, can reach SMTP."""
    public = _public(config.smtp.listen)
    advice = 'set smtp.listen = ["0.0.0.0:25", "[::]:25"], or forward port 25 to it with a relay or a firewall rule'
    if not public:
        return warning("port 25", "SMTP listens only on this machine, so no mail arrives from the internet", advice)
    if all(endpoint.port != _MAIL_PORT for endpoint in public.values()):
        return warning("port 25", f"SMTP listens on {', '.join(public)}, but senders connect to port 25", advice)
    return ok("port 25", f"SMTP listens on {', '.join(public)}; {_PROVIDERS.format(name)}")


def proxy(config: Config) -> Iterator[Result]:
    """Check whether HTTP is encrypted in transit, and whether limits apply to the clients behind a proxy."""
    public = _public(config.http.listen)
    has_tcp = any(not parse_endpoint(text).path for text in config.http.listen)
    url = config.http.public_url
    if public:
        text = f"HTTP listens on {', '.join(public)} without TLS, so mail and tokens can be read in transit"
        yield warning("http.listen", text, "listen on 127.0.0.1, behind a reverse proxy with TLS")
    if url.startswith("http://"):
        yield warning("http.public_url", f"{url}: without TLS, mail and tokens can be read in transit", "use https")
    elif url:
        yield ok("http.public_url", url)
    if url and has_tcp and not public and not config.http.trusted_proxies:
        text = "empty, but the service must be behind a proxy, whose clients all share one rate limit"
        yield warning("http.trusted_proxies", text, '["127.0.0.1/32", "::1/128"] for a proxy on this machine')
    yield from _trusted("http.trusted_proxies", config.http.trusted_proxies)
    yield from _trusted("smtp.trusted_proxies", config.smtp.trusted_proxies)


def _trusted(key: str, networks: Iterable[Network]) -> Iterator[Result]:
    wide = [network for network in networks if network.prefixlen < _WIDEST_PREFIX[network.version]]
    if wide:
        text = f"{', '.join(map(str, wide))}: every client in these networks can forge its address"
        yield problem(key, text, "list only the addresses of your proxies")


def wanted(config: Config, hostname: str, addresses: Iterable[Address]) -> list[Record]:
    """Return the records for the domains and for the name of their mail server. Names have no trailing dot."""
    public = [address for address in addresses if address.is_global]
    found = [Record(hostname, "A" if one.version == 4 else "AAAA", str(one)) for one in public]  # noqa: PLR2004
    found = found or [Record(hostname, "A", "")]
    for domain in config.domains:
        found += [Record(domain, "MX", f"10 {hostname}"), Record(domain, "TXT", SPF)]
        if domain.startswith(WILDCARD):  # the parent domain's policy applies (RFC 7489 §6.6.3)
            continue
        found += [Record(f"_dmarc.{domain}", "TXT", DMARC), Record(f"*._domainkey.{domain}", "TXT", NULL_DKIM)]
    return found


def own_addresses(config: Config) -> list[Address]:
    """Return the addresses that SMTP listens on; a wildcard is replaced by the machine's own address."""
    found: list[Address] = []
    for endpoint in _public(config.smtp.listen).values():
        with suppress(ValueError):
            address = ip_address(endpoint.host)
            found += _of_machine(address.version) if address.is_unspecified else [address]
    return list(dict.fromkeys(found))


def _of_machine(version: int) -> list[Address]:
    """Return the address that this machine uses for connections to the internet."""
    family, elsewhere = _ELSEWHERE[version == 6]  # noqa: PLR2004
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return [ip_address(probe.getsockname()[0])]
    except OSError:
        return []


def check_targets(config: Config, resolve: Resolve) -> Iterator[Result]:
    """Look up the names that webhooks may call, and report networks that may be too broad, unless webhooks are off."""
    rules = config.webhooks.allow
    if rules:
        yield _authorities()
    for rule in rules:
        if rule.network is not None:
            yield from _network(rule)
        elif not rule.name.startswith(WILDCARD):
            yield _name(rules, rule, resolve)


def _authorities() -> Result:
    paths = ssl.get_default_verify_paths()
    file, folder = paths.cafile, paths.capath
    if file or (folder and any(Path(folder).iterdir())):
        return ok(_AUTHORITIES, f"certificates of webhook servers are verified with {file or folder}")
    return problem(_AUTHORITIES, "certificates of webhook servers cannot be verified", "apt install ca-certificates")


def _network(rule: Rule) -> Iterator[Result]:
    for name, addresses in (("this machine", _THIS_MACHINE), ("a cloud's metadata service", _METADATA)):
        if any(address in rule.network for address in addresses if rule.network):
            text = f"{rule.network} includes {name}: anyone with an inbox can make the service call it"
            yield warning(_TARGETS, text, "list smaller networks, unless this is intended")


def _name(rules: Sequence[Rule], rule: Rule, resolve: Resolve) -> Result:
    target = Target("https", rule.name, rule.port or 443, "/")
    try:
        addresses = resolve(rule.name, target.port)
    except OSError as error:
        return warning(
            _TARGETS, f"{rule.name}: {error.strerror or error}", "correct the name, or this machine's resolver"
        )
    if any(webhooktargets.permits_address(rules, target, one) for one in addresses):
        return ok(_TARGETS, f"{rule.name} can be called")
    text = f"{rule.name} resolves to {', '.join(addresses)}, which webhooks may not connect to"
    return problem(_TARGETS, text, "if this is intended, add these addresses to webhooks.allow, with the port")


def compare(
    records: Iterable[Record], hostname: str, resolver: "Resolver", seconds: float = _ALL_SECONDS
) -> Iterator[Result]:
    """Report whether records are published, grouped by name and type. All queries share a time limit."""
    from tmpmaild.senders.resolver import Unresolved  # noqa: PLC0415 - an optional dependency

    last = time.monotonic() + seconds
    values: dict[tuple[str, str], list[str]] = {}
    for record in records:
        values.setdefault((record.name, record.type), []).append(record.value)
    values.setdefault((hostname, "AAAA"), [])
    for (name, kind), wanted in values.items():
        check = f"DNS {kind} {name}"
        try:
            answer = resolver.query(name, kind, min(time.monotonic() + _QUERY_SECONDS, last))
        except Unresolved as error:
            if resolver.is_silent:
                yield problem("DNS resolver", f"{resolver.name} does not respond, so nothing was compared", _RESOLVERS)
                return
            yield warning(check, f"not checked: {error}", "try again, or specify a resolver with --resolver")
            continue
        if kind == "MX":
            yield _exchanges(check, answer, hostname)
        elif kind == "TXT":
            yield _text_records(check, wanted[0], [value.decode("utf-8", "replace") for value in answer.texts])
        else:
            yield from _addresses(check, kind, [value for value in wanted if value], list(answer.addresses))


def _addresses(check: str, kind: str, wanted: list[str], found: list[str]) -> Iterator[Result]:
    addresses = {str(ip_address(one)) for one in found}
    if not found and (wanted or kind == "A"):
        yield (problem if kind == "A" else warning)(check, "not published", f"publish {', '.join(wanted) or 'it'}")
    elif not wanted and kind == "AAAA" and found:
        text = f"{', '.join(found)}, but SMTP is not known to listen on a public IPv6 address"
        yield warning(check, text, 'add "[::]:25" to smtp.listen, or remove the record')
    elif wanted and not addresses & set(wanted):
        text = f"{', '.join(found)}, but this machine has {', '.join(wanted)}"
        yield warning(check, text, "correct the record, unless that machine forwards port 25")
    elif found:
        yield ok(check, ", ".join(found))


def _exchanges(check: str, found: "Answer", hostname: str) -> Result:
    if not found.exists:
        return problem(check, "the domain does not exist", "register it, or correct domains")
    if not found.values:
        return problem(check, "not published", f"publish 10 {hostname}.")
    pairs = sorted((preference, name.lower()) for preference, name in found.exchanges)
    if hostname.lower() not in [name for _, name in pairs]:
        shown = ", ".join("null MX: no mail is accepted" if name == _NULL_MX else name for _, name in pairs)
        return problem(check, f"{shown}: mail is sent elsewhere", f"publish 10 {hostname}.")
    return ok(check, ", ".join(f"{preference} {name}" for preference, name in pairs))


def _text_records(check: str, wanted: str, found: list[str]) -> Result:
    version = wanted.partition(";")[0].partition(" ")[0]
    ours = [one for one in found if one.lower().startswith(version.lower())]
    if check.startswith("DNS TXT *._domainkey."):
        return ok(check, "published" if ours else "not published, as usual; the other two are enough")
    if len(ours) > 1:
        return warning(check, f"{len(ours)} {version} records, so all are ignored", "publish only one")
    if not ours:
        return warning(check, "not published, so others can spoof this domain", f'publish "{wanted}"')
    if not _is_as_strict(ours[0], wanted):
        return warning(check, f'"{ours[0]}" lets others spoof this domain', f'publish "{wanted}"')
    return ok(check, ours[0])


def _is_as_strict(found: str, wanted: str) -> bool:
    if wanted == SPF:
        return found.lower().split() == SPF.split()
    parts = {part.strip().lower().replace(" ", "") for part in found.split(";")}
    return wanted != DMARC or "p=reject" in parts
