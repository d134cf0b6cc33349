"""How the world reaches the service: names, DNS records and whether they are published, port 25, the proxy."""

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

# Nothing is sent there: connecting a datagram socket only asks the kernel for the route.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
SPF = "v=spf1 -all"  # RFC 7208
DMARC = "v=DMARC1; p=reject"  # RFC 7489
NULL_DKIM = "v=DKIM1; p="  # RFC 6376 §3.6.1: the keys of all selectors are revoked
_MAIL_PORT = 25
_LOCAL_NAMES = ("localhost", "localdomain", "local", "internal", "lan", "home", "arpa")
_RESERVED = ("example", "test", "invalid", "localhost", "local", "internal")
_WIDEST_PREFIX = {4: 8, 6: 16}
_PROVIDERS = "many providers block port 25 until asked; try from elsewhere: nc -vz {} 25"

_TARGETS, _AUTHORITIES = "webhooks.allow", "authorities"
_THIS_MACHINE = tuple(map(ip_address, ("127.0.0.1", "::1")))
_METADATA = tuple(map(ip_address, ("169.254.169.254", "fd00:ec2::254")))

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host; raises OSError."""
_QUESTION_SECONDS = 5.0
_ALL_SECONDS = 10.0
_NULL_MX = "."
_RESOLVERS = "correct /etc/resolv.conf, which webhooks need too, or name a resolver that answers by --resolver"


def _public(texts: Iterable[str]) -> dict[str, Endpoint]:
    """Return the places to listen of a key that another machine can connect to, by how they are written there."""
    endpoints = {text: parse_endpoint(text) for text in texts}
    return {text: endpoint for text, endpoint in endpoints.items() if not is_loopback(endpoint)}


def is_loopback(endpoint: Endpoint) -> bool:
    """Return whether only this machine can connect there."""
    if endpoint.path or endpoint.host == "localhost":
        return True
    try:
        return ip_address(endpoint.host).is_loopback
    except ValueError:
        return False


def check_reach(config: Config, hostname: str) -> Iterator[Result]:
    """Check what senders and readers need to find and reach the service."""
    yield domains(config)
    yield name_of_server(hostname)
    yield port_25(config, hostname)
    yield from proxy(config)


def domains(config: Config) -> Result:
    """Report the domains whose MX record nobody on the internet can find."""
    reserved = [name for name in config.domains if _is_reserved(name.removeprefix(WILDCARD))]
    if reserved:
        text = f"{', '.join(reserved)}: nobody on the internet can send mail to such a name"
        return warning("domains", text, "set domains to yours")
    return ok("domains", ", ".join(config.domains))


def _is_reserved(name: str) -> bool:
    """Return whether the DNS never has a mail server for a name (RFC 2606, RFC 6761), our default among them."""
    return "." not in name or name.rpartition(".")[2] in _RESERVED or f".{name}".endswith(".example.com")


def name_of_server(name: str) -> Result:
    """Check whether the name in the greeting can be that of an MX record."""
    if is_public_name(name):
        return ok("hostname", name)
    text = f"{name!r} is not a full name that the DNS can have"
    return warning("hostname", text, 'set smtp.hostname to what the MX record says, like "mx.example.org"')


def is_public_name(name: str) -> bool:
    """Return whether a name may be one of the DNS, and not an IP address."""
    first, _, rest = name.rstrip(".").partition(".")
    return bool(first and rest) and name.rpartition(".")[2] not in _LOCAL_NAMES and not _is_ip(name)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def port_25(config: Config, name: str) -> Result:
    """Check whether senders, who always take port 25, can reach SMTP."""
    public = _public(config.smtp.listen)
    advice = 'smtp.listen = ["0.0.0.0:25", "[::]:25"], or a relay or a rule of the firewall that leads here'
    if not public:
        return warning("port 25", "SMTP is to listen for this machine only, so no mail comes from the internet", advice)
    if all(endpoint.port != _MAIL_PORT for endpoint in public.values()):
        return warning("port 25", f"SMTP is to listen on {', '.join(public)}, and senders connect to port 25", advice)
    return ok("port 25", f"SMTP is to listen on {', '.join(public)}; {_PROVIDERS.format(name)}")


def proxy(config: Config) -> Iterator[Result]:
    """Check whether HTTP is protected on its way, and whether the limits see the clients behind a proxy."""
    public = _public(config.http.listen)
    has_tcp = any(not parse_endpoint(text).path for text in config.http.listen)
    url = config.http.public_url
    if public:
        text = f"HTTP listens on {', '.join(public)} without TLS, so mail and tokens can be read on their way"
        yield warning("http.listen", text, "listen on 127.0.0.1, with a proxy in front")
    if url.startswith("http://"):
        yield warning("http.public_url", f"{url}: without TLS, mail and tokens can be read on their way", "https")
    elif url:
        yield ok("http.public_url", url)
    if url and has_tcp and not public and not config.http.trusted_proxies:
        text = "empty, although a proxy must be in front: all its clients share one rate limit"
        yield warning("http.trusted_proxies", text, '["127.0.0.1/32", "::1/128"] for a proxy on this machine')
    yield from _trusted("http.trusted_proxies", config.http.trusted_proxies)
    yield from _trusted("smtp.trusted_proxies", config.smtp.trusted_proxies)


def _trusted(key: str, networks: Iterable[Network]) -> Iterator[Result]:
    wide = [network for network in networks if network.prefixlen < _WIDEST_PREFIX[network.version]]
    if wide:
        text = f"{', '.join(map(str, wide))}: every client in these networks can pretend to be another one"
        yield problem(key, text, "name the addresses of your proxies only")


def wanted(config: Config, hostname: str, addresses: Iterable[Address]) -> list[Record]:
    """Return the records for the domains and for the name of their mail server. Names end with no dot."""
    public = [address for address in addresses if address.is_global]
    found = [Record(hostname, "A" if one.version == 4 else "AAAA", str(one)) for one in public]  # noqa: PLR2004
    found = found or [Record(hostname, "A", "")]
    for domain in config.domains:
        found += [Record(domain, "MX", f"10 {hostname}"), Record(domain, "TXT", SPF)]
        if domain.startswith(WILDCARD):  # what holds for its names is the policy of the domain above (RFC 7489 §6.6.3)
            continue
        found += [Record(f"_dmarc.{domain}", "TXT", DMARC), Record(f"*._domainkey.{domain}", "TXT", NULL_DKIM)]
    return found


def own_addresses(config: Config) -> list[Address]:
    """Return the addresses under which SMTP listens: those that are named, and for a wildcard the machine's own."""
    found: list[Address] = []
    for endpoint in _public(config.smtp.listen).values():
        with suppress(ValueError):
            address = ip_address(endpoint.host)
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


def check_targets(config: Config, resolve: Resolve) -> Iterator[Result]:
    """Look the names up, and say which networks need a second thought; nothing where webhooks are off."""
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
        return ok(_AUTHORITIES, f"certificates of webhooks are verified by {file or folder}")
    return problem(_AUTHORITIES, "no certificate of a webhook can be verified", "apt install ca-certificates")


def _network(rule: Rule) -> Iterator[Result]:
    for name, addresses in (("this machine", _THIS_MACHINE), ("the metadata of clouds", _METADATA)):
        if any(address in rule.network for address in addresses if rule.network):
            text = f"{rule.network} has {name}: whoever holds an address can have it called"
            yield warning(_TARGETS, text, "name smaller networks, unless that is meant")


def _name(rules: Sequence[Rule], rule: Rule, resolve: Resolve) -> Result:
    target = Target("https", rule.name, rule.port or 443, "/")
    try:
        addresses = resolve(rule.name, target.port)
    except OSError as error:
        return warning(
            _TARGETS, f"{rule.name}: {error.strerror or error}", "correct the name, or the resolver of this machine"
        )
    if any(webhooktargets.permits_address(rules, target, one) for one in addresses):
        return ok(_TARGETS, f"{rule.name} can be called")
    text = f"{rule.name} leads to {', '.join(addresses)}, where no call goes"
    return problem(_TARGETS, text, "if it is meant, add these addresses to webhooks.allow, with the port")


def compare(
    records: Iterable[Record], hostname: str, resolver: "Resolver", seconds: float = _ALL_SECONDS
) -> Iterator[Result]:
    """Tell whether each record is published; those of one name and type together. After that time nothing is asked."""
    from tmpmaild.senders.resolver import Unresolved  # noqa: PLC0415 - needs the extra

    last = time.monotonic() + seconds
    values: dict[tuple[str, str], list[str]] = {}
    for record in records:
        values.setdefault((record.name, record.type), []).append(record.value)
    values.setdefault((hostname, "AAAA"), [])
    for (name, kind), wanted in values.items():
        check = f"DNS {kind} {name}"
        try:
            answer = resolver.query(name, kind, min(time.monotonic() + _QUESTION_SECONDS, last))
        except Unresolved as error:
            if resolver.is_silent:
                yield problem("DNS resolver", f"{resolver.name} does not answer, so nothing was compared", _RESOLVERS)
                return
            yield warning(check, f"cannot be told: {error}", "try again, or name a resolver by --resolver")
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
        yield (problem if kind == "A" else warning)(check, "none", f"publish {', '.join(wanted) or 'it'}")
    elif not wanted and kind == "AAAA" and found:
        text = f"{', '.join(found)}, and SMTP listens on no IPv6 address of the internet that is known here"
        yield warning(check, text, 'add "[::]:25" to smtp.listen, or remove the record')
    elif wanted and not addresses & set(wanted):
        text = f"{', '.join(found)}, and this machine has {', '.join(wanted)}"
        yield warning(check, text, "correct the record, unless that is a machine that passes port 25 on")
    elif found:
        yield ok(check, ", ".join(found))


def _exchanges(check: str, found: "Answer", hostname: str) -> Result:
    if not found.exists:
        return problem(check, "there is no such domain", "register it, or correct domains")
    if not found.values:
        return problem(check, "none", f"publish 10 {hostname}.")
    pairs = sorted((preference, name.lower()) for preference, name in found.exchanges)
    if hostname.lower() not in [name for _, name in pairs]:
        shown = ", ".join("null MX: no mail is taken" if name == _NULL_MX else name for _, name in pairs)
        return problem(check, f"{shown}: mail goes elsewhere", f"publish 10 {hostname}.")
    return ok(check, ", ".join(f"{preference} {name}" for preference, name in pairs))


def _text_records(check: str, wanted: str, found: list[str]) -> Result:
    version = wanted.partition(";")[0].partition(" ")[0]
    ours = [one for one in found if one.lower().startswith(version.lower())]
    if check.startswith("DNS TXT *._domainkey."):
        return ok(check, "published" if ours else "not published, which is usual; the other two are enough")
    if len(ours) > 1:
        return warning(check, f"{len(ours)} records {version}, so none counts", "publish one only")
    if not ours:
        return warning(check, "none, so others can send mail in this name", f'publish "{wanted}"')
    if not _is_as_strict(ours[0], wanted):
        return warning(check, f'"{ours[0]}" lets others send mail in this name', f'publish "{wanted}"')
    return ok(check, ours[0])


def _is_as_strict(found: str, wanted: str) -> bool:
    if wanted == SPF:
        return found.lower().split() == SPF.split()
    parts = {part.strip().lower().replace(" ", "") for part in found.split(";")}
    return wanted != DMARC or "p=reject" in parts
