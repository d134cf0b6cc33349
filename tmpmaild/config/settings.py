"""What an operator can set: one Struct per section, with types, defaults and texts; nothing is read here.

``file.py`` reads the values. The text below a key says why one would change it. ``tools/stable.py`` makes
``config.example.toml`` and the list of keys in ``docs/configuration.md`` of these texts, so they are Markdown; the
manual page is made of that list.

In every count and rate 0 means no limit; a size is never 0, except ``storage.max_bytes``. A key is read again with each
reload unless it is marked with ``AT_START``.
"""

import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar, get_type_hints

from msgspec import Struct
from msgspec.structs import force_setattr

from tmpmaild import hostnames, webhooktargets
from tmpmaild.clients import Network
from tmpmaild.config import validators
from tmpmaild.config.validators import MIB, one_of, whole
from tmpmaild.validation import Validator

Item = TypeVar("Item")

AT_START: Final = "read at the start only"
DEFAULT_PATH: Final = "tmpmaild.db"
_TEN_YEARS_SECONDS: Final = 315_360_000


class Group(Enum):
    """Where the documentation lists a key; one without a group is for operators."""

    OPERATOR = "What an operator sets"
    TEST_SERVER = "For a test server"
    LIMITS = "Limits"


Count = Annotated[int, whole(0), Group.LIMITS]
AtLeastOne = Annotated[int, whole(1), Group.LIMITS]
Lifetime = Annotated[int, whole(1, _TEN_YEARS_SECONDS)]
Switch = Annotated[bool, validators.SWITCH]
OptionalPath = Annotated[str, validators.OPTIONAL_PATH]
Networks = Annotated[tuple[Network, ...], validators.NETWORKS]


class Http(Struct, frozen=True, kw_only=True):
    """The section ``[http]``; ``public_url`` has no slash at its end."""

    listen: Annotated[tuple[str, ...], validators.LISTENS, AT_START] = ("127.0.0.1:8025",)
    """Where the API and the web page are served: ``host:port``, ``[IPv6]:port`` or ``unix:PATH``. A name is bound
    at each of its addresses on this machine; port 0 takes any free port. Behind a proxy, keep a loopback address.
    """

    public_url: Annotated[str, validators.PUBLIC_URL] = ""
    """The URL that clients see, such as ``https://mail.example.org/tmp``. Set it if a proxy serves tmpmaild below a
    path, or cannot pass on the ``Host`` header. Links in answers begin with its path.
    """

    trusted_proxies: Networks = ()
    """Networks (CIDR) of your proxies, such as ``["127.0.0.1/32"]``: only their ``X-Forwarded-For`` is believed.
    Without it, all visitors behind a proxy share one rate limit.
    """

    require_token: Switch = False
    """``true`` makes every inbox private: reading it needs the token that came with the address."""

    cors_origins: Annotated[tuple[str, ...], validators.ORIGINS] = ()
    """Origins (``scheme://host[:port]``) of other web pages that may call the API and frame views; all others get
    [``403 cross-site``](api.md#requests-of-other-websites).
    """

    allowed_hosts: Annotated[tuple[str, ...], validators.HOSTS] = ()
    """Names and IP addresses, without port, that requests may be addressed to; empty: any. Set it on a private
    network to stop DNS rebinding.
    """

    max_connections: Count = 4096
    """HTTP connections open at once. Raise ``LimitNOFILE`` of the systemd unit with it. One client has a share: 128 of
    4096 (a thirty-second, at least 64, or half of fewer than 128), and its network (an IPv4 /24, an IPv6 /48) has 512
    (an eighth, at least 96, or three quarters of fewer than 128). Then the longest idle connection of these is closed
    for a new one; if none is idle, the new one is refused with a 503. ``http.trusted_proxies`` and ``limits.exempt``
    have no such share.
    """

    max_streams_per_client: Count = 20
    """Event streams and waiting requests of one client at once; more get ``429 too-many-streams``. Raise it for a
    test farm behind one IP address.
    """


class Smtp(Struct, frozen=True, kw_only=True):
    """The section ``[smtp]``; an empty ``hostname`` stands for the machine's name."""

    listen: Annotated[tuple[str, ...], validators.TCP_LISTENS, AT_START] = ("127.0.0.1:1025",)
    """Where mail comes in: ``host:port`` or ``[IPv6]:port``. To receive from the internet: ``["0.0.0.0:25",
    "[::]:25"]``.
    """

    tls_listen: Annotated[tuple[str, ...], validators.OPTIONAL_TCP_LISTENS, AT_START] = ()
    """Where connections begin with TLS (SMTPS), such as ``["0.0.0.0:465"]``: for applications that are set to
    "SSL/TLS"; mail servers never use it. Needs a certificate and its key.
    """

    hostname: Annotated[str, validators.OPTIONAL_HOST_NAME] = ""
    """The name in the greeting and in ``Received`` lines; empty: this machine's name. Set it to the name in the MX
    record.
    """

    tls_certificate: OptionalPath = ""
    """PEM file with the certificate chain. With ``smtp.tls_key`` STARTTLS is offered; set both or neither."""

    tls_key: OptionalPath = ""
    """PEM file with the key of ``smtp.tls_certificate``."""

    trusted_proxies: Networks = ()
    """Networks (CIDR) of your load balancers. Every connection from there must begin with a PROXY header (version 1
    or 2), which names the real client: see [operations.md](operations.md#smtp-behind-a-balancer).
    """

    auth: Annotated[str, one_of("none", "any"), Group.TEST_SERVER] = "none"
    """``"any"`` offers AUTH PLAIN and LOGIN, also without TLS, and accepts any credentials, which are neither
    stored nor logged.
    """

    faults: Annotated[Switch, Group.TEST_SERVER] = False
    """``true``: holders of addresses can order [faults](api.md#faults), so that mail to them is refused, delayed or
    cut off.
    """

    keep_refusals: Annotated[Switch, Group.TEST_SERVER] = False
    """``true``: everybody who reaches the API can read the last 100 [refusals of mail](api.md#refusals). A failed
    test then shows why its mail did not arrive.
    """

    accept_unknown: Annotated[str, one_of("reject", "create"), Group.TEST_SERVER] = "reject"
    """``"create"``: mail to an unknown address at your domains creates it, if its name is allowed.
    Everybody who knows it can read it: see [its price](testing.md#every-address-at-once). Not together with
    ``http.require_token``.
    """

    max_message_bytes: Annotated[int, whole(1024, 100 * MIB), Group.LIMITS] = 10 * MIB
    """The largest message accepted, in bytes; announced to senders."""

    max_connections: Count = 1000
    """SMTP sessions open at once; above it, a new one replaces the one idle longest. Raise ``LimitNOFILE`` of the
    systemd unit with it.
    """

    max_connections_per_client: Count = 50
    """SMTP sessions of one client at once. Raise it if all mail comes through one relay. Fixed limits: 600 new
    sessions a minute; 100 unknown recipients in a session, 600 of one client and 60 more a minute (then ``450
    4.7.1``).
    """

    max_inflight_bytes: AtLeastOne = 64 * MIB
    """Bytes of mail being received, in memory, all sessions together. One client may use half, or as much as the
    largest mail; the first 64 KiB of each mail do not count. Keep it above ``smtp.max_message_bytes``.
    """


class Addresses(Struct, frozen=True, kw_only=True):
    """The section ``[addresses]``; ``max_lifetime_seconds`` is never below ``lifetime_seconds``."""

    lifetime_seconds: Lifetime = 3600
    """How long a new address lives. Its mail is deleted with it."""

    max_lifetime_seconds: Lifetime = 3600
    """How long after its creation an address may live at most, if its creator chooses or extends the lifetime;
    never less than ``addresses.lifetime_seconds``.
    """

    max_messages: Count = 100
    """Messages in one inbox. A full inbox refuses new mail for now; it keeps the old."""

    max_bytes: AtLeastOne = 50 * MIB
    """Bytes of the database that one inbox may use. Each mail takes at least 5637, a large one up to 2.5 times its
    size. Raise it with ``smtp.max_message_bytes``.
    """

    max_share_per_client: Annotated[float, validators.SHARE, Group.LIMITS] = 0.05
    """The share of ``storage.max_bytes`` that all inboxes of one client may use together, above 0, at most 1. Set
    it to 1 if one machine creates all addresses.
    """

    def __post_init__(self) -> None:
        force_setattr(self, "max_lifetime_seconds", max(self.lifetime_seconds, self.max_lifetime_seconds))


class Storage(Struct, frozen=True, kw_only=True):
    """The section ``[storage]``; ``max_bytes`` 0 is left for the engine to work out, which a ``url`` chooses."""

    path: Annotated[str, validators.PATH, AT_START] = DEFAULT_PATH
    """The database file; a relative path begins in the folder where the service starts."""

    url: Annotated[str, validators.DATABASE_URL, AT_START] = ""
    """A PostgreSQL database in place of the file, for [several daemons](scaling.md):
    ``postgresql://user@host[:port][,host…]/database``. Options of libpq after ``?``: ``host`` (also the folder of a
    Unix socket), ``port``, ``user``, ``dbname``, ``sslmode``, ``sslrootcert``, ``sslcert``, ``sslkey``, ``sslcrl``,
    ``target_session_attrs=read-write``.
    """

    password_file: Annotated[str, validators.OPTIONAL_PATH, AT_START] = ""
    """The file with the password for ``storage.url``; it is read for each new connection."""

    max_bytes: Annotated[int, validators.STORAGE_BYTES, Group.LIMITS] = 0
    """Bytes that the database may use, at least 1048576 (1 MiB). ``0``: 10 GiB or half of the free disk, whichever
    is less; with ``storage.url`` 10 GiB for all daemons together. At the limit, senders are asked to try again
    later.
    """


class Log(Struct, frozen=True, kw_only=True):
    """The section ``[log]``."""

    level: Annotated[str, one_of("debug", "info", "warning", "error")] = "info"
    """``debug``, ``info``, ``warning`` or ``error``. No level logs the text of a mail."""

    format: Annotated[str, one_of("text", "json")] = "text"
    """``text`` for people and the journal, ``json`` for programs."""

    access: Switch = False
    """``true``: a line for each HTTP request, whatever the level; addresses in paths are hashed."""

    audit: Switch = False
    """``true``: a line for each address that is created and each message that is accepted, whatever the level: time,
    client, and a hash of the address, by which you [find the lines of an address](privacy.md#the-audit). It is personal
    data: say so to your users, and delete it in time.
    """


class Metrics(Struct, frozen=True, kw_only=True):
    """The section ``[metrics]``; an empty ``listen`` stands for none."""

    listen: Annotated[str, validators.OPTIONAL_LISTEN, AT_START] = ""
    """Where ``/metrics``, ``/healthz`` and ``/readyz`` are served to operators, such as ``127.0.0.1:9025``; empty:
    nowhere.
    """


class Senders(Struct, frozen=True, kw_only=True):
    """The section ``[senders]``; an empty ``resolver`` stands for no checks."""

    resolver: Annotated[str, validators.RESOLVER, AT_START] = ""
    """The DNS resolver for [checking senders](api.md#who-sent-it) (SPF, DKIM, DMARC) after mail is stored:
    ``IP:port``, or ``system`` for the machine's; empty: no checks. The resolver learns which domains write to you.
    Outside the Debian package it needs the extra ``senders``.
    """

    timeout_seconds: Annotated[int, whole(1, 60), Group.LIMITS, AT_START] = 5
    """How long one check may wait for the resolver in all; then its result is ``temperror``."""


class Webhooks(Struct, frozen=True, kw_only=True):
    """The section ``[webhooks]``; without anything in ``allow`` there are none."""

    allow: Annotated[tuple[webhooktargets.Rule, ...], validators.WEBHOOK_TARGETS] = ()
    """Hosts that [webhooks](webhooks.md) may call: names, ``*.NAME`` for every name below ``NAME``, networks; each
    for ports 80 and 443, or with ``:port``. A name may lead to public addresses only, unless a network here has
    that address. Empty: no webhooks.
    """


class Control(Struct, frozen=True, kw_only=True):
    """The section ``[control]``; an empty ``listen`` is left for the daemon to choose, ``off`` stands for none."""

    listen: Annotated[str, validators.CONTROL_LISTEN, AT_START] = ""
    """Where commands such as ``tmpmaild status`` reach the service: ``unix:PATH`` (at most 107 bytes) or ``off``.
    Empty: ``control.sock`` in the ``RuntimeDirectory`` of the systemd unit, else ``tmpmaild.db.control`` next to
    the database. With ``storage.url`` set it, such as to ``unix:/run/tmpmaild/control.sock``.
    """


class RateLimit(Struct, frozen=True, kw_only=True):
    """The section ``[rate_limit]``."""

    requests_per_minute: Count = 10
    """API requests of one client per minute, on average."""

    burst: AtLeastOne = 10
    """Requests that a client may send at once after a pause."""


class Limits(Struct, frozen=True, kw_only=True):
    """The section ``[limits]``."""

    exempt: Annotated[Networks, Group.LIMITS] = ()
    """Networks (CIDR) without limits per client, such as ``["10.0.0.0/8"]`` for your test machines."""


class Expiry(Struct, frozen=True, kw_only=True):
    """The section ``[expiry]``."""

    interval_seconds: Annotated[int, whole(1, 86_400), Group.LIMITS] = 30
    """How often expired mail is erased. It can never be read after its expiry; above 60 it may stay in the file for
    more than two minutes.
    """


class Config(Struct, frozen=True, kw_only=True):
    """All of it; ``domains`` are in lower case with A-labels, the first is for new addresses."""

    domains: Annotated[tuple[str, ...], validators.DOMAINS] = ("mail.example.com",)
    """The domains to receive mail for; point their MX records at this machine. The first is used when a new address
    asks for no other. ``*.NAME``, anywhere but first, takes every name below ``NAME``: see [several
    domains](operations.md#several-domains). Many applications refuse addresses at ``.test``, ``.local`` and
    ``.localhost``: see [testing.md](testing.md#when-your-application-validates-addresses).
    """

    http: Http = Http()
    smtp: Smtp = Smtp()
    addresses: Addresses = Addresses()
    storage: Storage = Storage()
    log: Log = Log()
    metrics: Metrics = Metrics()
    senders: Senders = Senders()
    webhooks: Webhooks = Webhooks()
    control: Control = Control()
    rate_limit: RateLimit = RateLimit()
    limits: Limits = Limits()
    expiry: Expiry = Expiry()

    @property
    def host_name(self) -> str:
        """Our name in the greeting and in ``Received`` lines."""
        return self.smtp.hostname or socket.gethostname()

    @property
    def own_networks(self) -> tuple[Network, ...]:
        """The networks that the operator trusts."""
        return (*self.http.trusted_proxies, *self.smtp.trusted_proxies, *self.limits.exempt)


SECTIONS: Final[dict[str, type[Struct]]] = {
    name: hint for name, hint in get_type_hints(Config).items() if name != "domains"
}


def validators_by_key() -> dict[str, Validator]:
    """Return what every key takes, by its dotted name."""
    return {key: metadata[0] for key, metadata in _metadata_by_key().items()}


def groups_by_key() -> dict[str, Group]:
    """Return where the documentation lists every key, by its dotted name."""
    return {
        key: next((one for one in metadata if isinstance(one, Group)), Group.OPERATOR)
        for key, metadata in _metadata_by_key().items()
    }


def keys_at_start() -> list[str]:
    """Return the keys whose new values take effect at the next start only."""
    return [key for key, metadata in _metadata_by_key().items() if AT_START in metadata]


def needing_restart(running: Config, wanted: Config) -> list[str]:
    """Return the keys that have changed and take effect at the next start only."""
    return [key for key in keys_at_start() if attrgetter(key)(running) != attrgetter(key)(wanted)]


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
    places = {key: [validators.parse_endpoint(text) for text in texts] for key, texts in listens.items()}
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


def _metadata_by_key() -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for prefix, struct in {"": Config, **{f"{section}.": struct for section, struct in SECTIONS.items()}}.items():
        hints = get_type_hints(struct, include_extras=True)
        found |= {prefix + name: hint.__metadata__ for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    return found


def _repeated(items: Iterable[Item]) -> list[Item]:
    return [item for item, count in Counter(items).items() if count > 1]
