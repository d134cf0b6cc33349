"""How the world reaches the service: names, port 25, the proxy in front of HTTP. Nothing is connected to."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.cli.doctor.places import Place, configured, is_loopback
from tmpmaild.config.settings import Config, Network
from tmpmaild.hostnames import WILDCARD

_MAIL_PORT = 25
_LOCAL_NAMES = ("localhost", "localdomain", "local", "internal", "lan", "home", "arpa")
_RESERVED = ("example", "test", "invalid", "localhost", "local", "internal")
_WIDEST_PREFIX = {4: 8, 6: 16}
_PROVIDERS = "many providers block port 25 until asked; try from elsewhere: nc -vz {} 25"


def domains(config: Config) -> Iterator[Finding]:
    """Report the domains whose MX record nobody on the internet can find."""
    reserved = [name for name in config.domains if _is_reserved(name.removeprefix(WILDCARD))]
    if reserved:
        text = f"{', '.join(reserved)}: nobody on the internet can send mail to such a name"
        yield warning("domains", text, "set domains to yours")
    else:
        yield ok("domains", ", ".join(config.domains))


def _is_reserved(name: str) -> bool:
    """Return whether the DNS never has a mail server for a name (RFC 2606, RFC 6761), our default among them."""
    return "." not in name or name.rpartition(".")[2] in _RESERVED or f".{name}".endswith(".example.com")


def hostname(name: str) -> Iterator[Finding]:
    """Check whether the name in the greeting can be that of an MX record."""
    if is_public_name(name):
        yield ok("hostname", name)
    else:
        text = f"{name!r} is not a full name that the DNS can have"
        yield warning("hostname", text, 'set smtp.hostname to what the MX record says, like "mx.example.org"')


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


def port_25(config: Config, name: str) -> Iterator[Finding]:
    """Check whether senders, who always take port 25, can reach SMTP."""
    public = [place for place in configured(config) if place.key == "smtp.listen" and not is_loopback(place.endpoint)]
    advice = 'smtp.listen = ["0.0.0.0:25", "[::]:25"], or a relay or a rule of the firewall that leads here'
    if not public:
        yield warning("port 25", "SMTP listens for this machine only, so no mail comes from the internet", advice)
    elif all(place.endpoint.port != _MAIL_PORT for place in public):
        yield warning("port 25", f"SMTP listens on {_shown(public)}, and senders connect to port 25", advice)
    else:
        yield ok("port 25", f"SMTP listens on {_shown(public)}; {_PROVIDERS.format(name)}")


def _shown(places: Iterable[Place]) -> str:
    return ", ".join(place.text for place in places)


def proxy(config: Config) -> Iterator[Finding]:
    """Check whether HTTP is protected on its way, and whether the limits see the clients behind a proxy."""
    places = [place for place in configured(config) if place.key == "http.listen"]
    public = [place for place in places if not is_loopback(place.endpoint)]
    tcp = [place for place in places if not place.endpoint.path]
    url = config.http.public_url
    if public:
        text = f"HTTP listens on {_shown(public)} without TLS, so mail and tokens can be read on their way"
        yield warning("http.listen", text, "listen on 127.0.0.1, with a proxy in front")
    if url.startswith("http://"):
        yield warning("http.public_url", f"{url}: without TLS, mail and tokens can be read on their way", "https")
    elif url:
        yield ok("http.public_url", url)
    if url and tcp and not public and not config.http.trusted_proxies:
        text = "empty, although a proxy must be in front: all its clients share one rate limit"
        yield warning("http.trusted_proxies", text, '["127.0.0.1/32", "::1/128"] for a proxy on this machine')
    yield from _trusted("http.trusted_proxies", config.http.trusted_proxies)
    yield from _trusted("smtp.trusted_proxies", config.smtp.trusted_proxies)


def _trusted(key: str, networks: Iterable[Network]) -> Iterator[Finding]:
    wide = [network for network in networks if network.prefixlen < _WIDEST_PREFIX[network.version]]
    if wide:
        text = f"{', '.join(map(str, wide))}: every client in these networks can pretend to be another one"
        yield problem(key, text, "name the addresses of your proxies only")


def metrics(config: Config) -> Iterator[Finding]:
    """Report metrics that anybody may read."""
    public = [
        place for place in configured(config) if place.key == "metrics.listen" and not is_loopback(place.endpoint)
    ]
    if any(not _is_private(place) for place in public):
        yield warning("metrics.listen", f"{_shown(public)}: not for this machine only", "127.0.0.1, or a firewall")


def _is_private(place: Place) -> bool:
    host = place.endpoint.host
    return _is_ip(host) and ip_address(host).is_private and not ip_address(host).is_unspecified
