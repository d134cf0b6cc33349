"""What an operator can set: one Struct per section, with types and defaults; nothing is read here.

``file.py`` reads the values. What a key is for, and why one would change it, is only in ``config.example.toml`` and
``docs/configuration.md``.

In every count and rate 0 means no limit; a size is never 0, except ``storage.max_bytes``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Final, TypeVar, get_type_hints

from msgspec import Struct
from msgspec.structs import force_setattr

from tmpmaild import hostnames, webhooktargets
from tmpmaild.checks import Kind
from tmpmaild.config import kinds
from tmpmaild.config.kinds import MIB, one_of, whole

Network = IPv4Network | IPv6Network
Item = TypeVar("Item")

DEFAULT_PATH: Final = "tmpmaild.db"
_TEN_YEARS_SECONDS: Final = 315_360_000

Count = Annotated[int, whole(0)]
AtLeastOne = Annotated[int, whole(1)]
Lifetime = Annotated[int, whole(1, _TEN_YEARS_SECONDS)]
Switch = Annotated[bool, kinds.SWITCH]
OptionalPath = Annotated[str, kinds.OPTIONAL_PATH]
Networks = Annotated[tuple[Network, ...], kinds.NETWORKS]


class Http(Struct, frozen=True, kw_only=True):
    """The section ``[http]``; ``public_url`` has no slash at its end."""

    listen: Annotated[tuple[str, ...], kinds.LISTENS] = ("127.0.0.1:8025",)
    public_url: Annotated[str, kinds.PUBLIC_URL] = ""
    trusted_proxies: Networks = ()
    require_token: Switch = False
    cors_origins: Annotated[tuple[str, ...], kinds.ORIGINS] = ()
    allowed_hosts: Annotated[tuple[str, ...], kinds.HOSTS] = ()
    max_connections: Count = 4096
    max_streams_per_client: Count = 20


class Smtp(Struct, frozen=True, kw_only=True):
    """The section ``[smtp]``; an empty ``hostname`` stands for the machine's name."""

    listen: Annotated[tuple[str, ...], kinds.TCP_LISTENS] = ("127.0.0.1:1025",)
    tls_listen: Annotated[tuple[str, ...], kinds.OPTIONAL_TCP_LISTENS] = ()
    hostname: Annotated[str, kinds.OPTIONAL_HOST_NAME] = ""
    max_message_bytes: Annotated[int, whole(1024, 100 * MIB)] = 10 * MIB
    max_connections: Count = 1000
    max_connections_per_client: Count = 50
    trusted_proxies: Networks = ()
    accept_unknown: Annotated[str, one_of("reject", "create")] = "reject"
    max_inflight_bytes: AtLeastOne = 64 * MIB
    auth: Annotated[str, one_of("none", "any")] = "none"
    faults: Switch = False
    keep_refusals: Switch = False
    tls_certificate: OptionalPath = ""
    tls_key: OptionalPath = ""


class Storage(Struct, frozen=True, kw_only=True):
    """The section ``[storage]``; ``max_bytes`` 0 is left for the engine to work out, which a ``url`` chooses."""

    path: Annotated[str, kinds.PATH] = DEFAULT_PATH
    url: Annotated[str, kinds.DATABASE_URL] = ""
    password_file: OptionalPath = ""
    max_bytes: Annotated[int, kinds.STORAGE_BYTES] = 0


class Senders(Struct, frozen=True, kw_only=True):
    """The section ``[senders]``; an empty ``resolver`` stands for no checks."""

    resolver: Annotated[str, kinds.RESOLVER] = ""
    timeout_seconds: Annotated[int, whole(1, 60)] = 5


class Webhooks(Struct, frozen=True, kw_only=True):
    """The section ``[webhooks]``; without anything in ``allow`` there are none."""

    allow: Annotated[tuple[webhooktargets.Rule, ...], kinds.WEBHOOK_TARGETS] = ()


class Addresses(Struct, frozen=True, kw_only=True):
    """The section ``[addresses]``; ``max_lifetime_seconds`` is never below ``lifetime_seconds``."""

    lifetime_seconds: Lifetime = 3600
    max_lifetime_seconds: Lifetime = 3600
    max_messages: Count = 100
    max_bytes: AtLeastOne = 50 * MIB
    max_share_per_client: Annotated[float, kinds.SHARE] = 0.05

    def __post_init__(self) -> None:
        force_setattr(self, "max_lifetime_seconds", max(self.lifetime_seconds, self.max_lifetime_seconds))


class RateLimit(Struct, frozen=True, kw_only=True):
    """The section ``[rate_limit]``."""

    requests_per_minute: Count = 10
    burst: AtLeastOne = 10


class Limits(Struct, frozen=True, kw_only=True):
    """The section ``[limits]``."""

    exempt: Networks = ()


class Expiry(Struct, frozen=True, kw_only=True):
    """The section ``[expiry]``."""

    interval_seconds: Annotated[int, whole(1, 86_400)] = 30


class Log(Struct, frozen=True, kw_only=True):
    """The section ``[log]``."""

    level: Annotated[str, one_of("debug", "info", "warning", "error")] = "info"
    format: Annotated[str, one_of("text", "json")] = "text"
    access: Switch = False


class Metrics(Struct, frozen=True, kw_only=True):
    """The section ``[metrics]``; an empty ``listen`` stands for none."""

    listen: Annotated[str, kinds.OPTIONAL_LISTEN] = ""


class Control(Struct, frozen=True, kw_only=True):
    """The section ``[control]``; an empty ``listen`` is left for the daemon to choose, ``off`` stands for none."""

    listen: Annotated[str, kinds.CONTROL_LISTEN] = ""


class Config(Struct, frozen=True, kw_only=True):
    """All of it; ``domains`` are in lower case with A-labels, the first is for new addresses."""

    domains: Annotated[tuple[str, ...], kinds.DOMAINS] = ("mail.example.com",)
    http: Http = Http()
    smtp: Smtp = Smtp()
    storage: Storage = Storage()
    addresses: Addresses = Addresses()
    senders: Senders = Senders()
    webhooks: Webhooks = Webhooks()
    rate_limit: RateLimit = RateLimit()
    limits: Limits = Limits()
    expiry: Expiry = Expiry()
    log: Log = Log()
    metrics: Metrics = Metrics()
    control: Control = Control()


SECTIONS: Final[dict[str, type[Struct]]] = {
    name: hint for name, hint in get_type_hints(Config).items() if name != "domains"
}


def kinds_by_key() -> dict[str, Kind]:
    """Return what every key takes, by its dotted name."""
    found = _kinds_of(Config)
    for section, struct in SECTIONS.items():
        found |= {f"{section}.{name}": kind for name, kind in _kinds_of(struct).items()}
    return found


def conflicts(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield settings that contradict each other: the keys, and the text of the mistake."""
    for domain in _repeated(config.domains):
        yield ("domains",), f"expected each domain once, found {domain!r} again"
    if config.domains[0].startswith(hostnames.WILDCARD):
        text = "expected the first to be a name that new addresses can have, found {!r}; put {!r} before it"
        yield ("domains",), text.format(config.domains[0], config.domains[0].removeprefix(hostnames.WILDCARD))
    listens = {"smtp.listen": config.smtp.listen, "http.listen": config.http.listen}
    listens |= {"smtp.tls_listen": config.smtp.tls_listen} if config.smtp.tls_listen else {}
    listens |= {"metrics.listen": (config.metrics.listen,)} if config.metrics.listen else {}
    listens |= {"control.listen": (config.control.listen,)} if config.control.listen not in ("", "off") else {}
    places = {key: [kinds.parse_endpoint(text) for text in texts] for key, texts in listens.items()}
    for place in _repeated(place for found in places.values() for place in found if place.port or place.path):
        shown = place.path or f"{place.host} port {place.port}"
        keys = tuple(key for key, found in places.items() if place in found)
        yield keys, f"expected each place to listen once, found {shown} again"
    if bool(config.smtp.tls_certificate) != bool(config.smtp.tls_key):
        yield ("smtp.tls_certificate", "smtp.tls_key"), "expected both or none, found only one"
    if config.smtp.tls_listen and not config.smtp.tls_certificate:
        yield ("smtp.tls_listen", "smtp.tls_certificate"), "listening with TLS needs a certificate and its key"
    if config.storage.url and config.storage.path != DEFAULT_PATH:
        yield ("storage.url", "storage.path"), "expected a database or a file, found both"
    if config.storage.password_file and not config.storage.url:
        yield ("storage.password_file", "storage.url"), "a password is of no use without a URL"
    if config.smtp.accept_unknown == "create" and config.http.require_token:
        yield (
            ("smtp.accept_unknown", "http.require_token"),
            '"create" cannot be combined with a required token: addresses that mail creates have no token',
        )


def _kinds_of(struct: type[Struct]) -> dict[str, Kind]:
    hints = get_type_hints(struct, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def _repeated(items: Iterable[Item]) -> list[Item]:
    return [item for item, count in Counter(items).items() if count > 1]
