"""The operator's settings: one Struct per section, with types, defaults and descriptions.

``file.py`` reads the values. The text below each key describes it and gives reasons to change it. The texts are
Markdown: ``tools/stable.py`` generates ``config.example.toml`` and the list of keys in ``docs/configuration.md`` from
them. The man page is generated from that list.

For every count and rate, 0 means no limit; a size is never 0, except ``storage.max_bytes``. A reload reads all keys
again, except those marked with ``AT_START``.
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

AT_START: Final = "read only at startup"
DEFAULT_PATH: Final = "tmpmaild.db"
_TEN_YEARS_SECONDS: Final = 315_360_000


class Group(Enum):
    """The section of the documentation that lists a key; the default is ``OPERATOR``."""

    OPERATOR = "Settings for operators"
    TEST_SERVER = "For a test server"
    LIMITS = "Limits"


Count = Annotated[int, whole(0), Group.LIMITS]
AtLeastOne = Annotated[int, whole(1), Group.LIMITS]
Lifetime = Annotated[int, whole(1, _TEN_YEARS_SECONDS)]
Switch = Annotated[bool, validators.SWITCH]
OptionalPath = Annotated[str, validators.OPTIONAL_PATH]
Networks = Annotated[tuple[Network, ...], validators.NETWORKS]


class Http(Struct, frozen=True, kw_only=True):
    """The section ``[http]``; ``public_url`` has no trailing slash."""

    listen: Annotated[tuple[str, ...], validators.LISTENS, AT_START] = ("127.0.0.1:8025",)
    """Addresses that serve the API and the web page: ``host:port``, ``[IPv6]:port`` or ``unix:PATH``. For a host name,
    the service listens on each address of this machine that the name resolves to. Port 0 selects any free port. Behind
    a proxy, use a loopback address.
    """

    public_url: Annotated[str, validators.PUBLIC_URL] = ""
    """The public URL, such as ``https://mail.example.org/tmp``. Set it if a proxy serves tmpmaild under a path, or does
    not forward the ``Host`` header. Links in responses start with its path, and ``tmpmaild doctor --dns`` checks it.
    """

    trusted_proxies: Networks = ()
    """Networks (CIDR) of your proxies, such as ``["127.0.0.1/32"]``: only their ``X-Forwarded-For`` header is trusted.
    If it is not set, all visitors behind a proxy share one rate limit.
    """

    require_token: Switch = False
    """``true`` makes every inbox private: reading it requires the token that was returned with the address."""

    cors_origins: Annotated[tuple[str, ...], validators.ORIGINS] = ()
    """Origins (``scheme://host[:port]``) of other web pages that may call the API and frame views; requests from all
    other origins receive [``403 cross-site``](api.md#requests-from-other-websites).
    """

    allowed_hosts: Annotated[tuple[str, ...], validators.HOSTS] = ()
    """Host names and IP addresses, without ports, that are accepted in the ``Host`` header; if empty, all are accepted.
    Set it on a private network to prevent DNS rebinding.
    """

    max_connections: Count = 4096
    """The maximum number of open HTTP connections. If you raise it, also raise ``LimitNOFILE`` of the systemd unit.
    With the default, one client may have 128 connections, and its network (an IPv4 /24 or IPv6 /48) may have 512. In
    general, a client may have a thirty-second of the maximum, but at least 64, or half of a maximum below 128. A
    network may have an eighth, but at least 96, or three quarters of a maximum below 128. Beyond that, a new connection
    replaces the longest-idle connection of the same client or network; if no connection is idle, the new connection is
    refused with a 503. ``http.trusted_proxies`` and ``limits.exempt`` are not restricted in this way.
    """

    max_streams_per_client: Count = 20
    """The maximum number of open event streams and waiting requests per client; beyond that, requests fail with ``429
    too-many-streams``. Raise it for a test farm behind one IP address.
    """


class Smtp(Struct, frozen=True, kw_only=True):
    """The section ``[smtp]``; an empty ``hostname`` means the machine's name."""

    listen: Annotated[tuple[str, ...], validators.TCP_LISTENS, AT_START] = ("127.0.0.1:1025",)
    """Addresses that accept mail: ``host:port`` or ``[IPv6]:port``. To receive mail from the internet, use
    ``["0.0.0.0:25", "[::]:25"]``.
    """

    tls_listen: Annotated[tuple[str, ...], validators.OPTIONAL_TCP_LISTENS, AT_START] = ()
    """Addresses to listen on with implicit TLS (SMTPS), such as ``["0.0.0.0:465"]``, for applications that are
    configured to use "SSL/TLS". Mail servers never use it. Requires a certificate and its key.
    """

    hostname: Annotated[str, validators.OPTIONAL_HOST_NAME] = ""
    """The name in the greeting and in ``Received`` lines; if empty, this machine's host name. Set it to the name in the
    MX record.
    """

    tls_certificate: OptionalPath = ""
    """PEM file with the certificate chain. Together with ``smtp.tls_key``, it enables STARTTLS; set both or neither."""

    tls_key: OptionalPath = ""
    """PEM file with the private key for ``smtp.tls_certificate``."""

    trusted_proxies: Networks = ()
    """Networks (CIDR) of your load balancers. Every connection from there must start with a PROXY header (version 1 or
    2), which contains the address of the real client: see [operations.md](operations.md#smtp-behind-a-balancer).
    """

    auth: Annotated[str, one_of("none", "any"), Group.TEST_SERVER] = "none"
    """``"any"`` offers AUTH PLAIN and LOGIN, even without TLS, and accepts any credentials. Credentials are neither
    stored nor logged.
    """

    faults: Annotated[Switch, Group.TEST_SERVER] = False
    """``true``: users can request [faults](api.md#faults) for their addresses, so that mail to them is refused, delayed
    or cut off.
    """

    keep_refusals: Annotated[Switch, Group.TEST_SERVER] = False
    """``true``: anyone who can reach the API can read the last 100 [refusals of mail](api.md#refusals). Failed tests
    can then show why their mail did not arrive.
    """

    accept_unknown: Annotated[str, one_of("reject", "create"), Group.TEST_SERVER] = "reject"
    """``"create"``: mail to an unknown address at your domains creates it, if its name is allowed. Anyone who knows the
    address can read it: see [the consequences](testing.md#every-address-at-once). Cannot be combined with
    ``http.require_token``.
    """

    max_message_bytes: Annotated[int, whole(1024, 100 * MIB), Group.LIMITS] = 10 * MIB
    """The maximum size of a message in bytes, which is announced to senders."""

    max_connections: Count = 1000
    """The maximum number of open SMTP sessions; beyond that, a new session replaces the longest idle session. If you
    raise it, also raise ``LimitNOFILE`` of the systemd unit.
    """

    max_connections_per_client: Count = 50
    """The maximum number of open SMTP sessions per client. Raise it if all mail arrives through one relay. Other limits
    per client are fixed: 600 new sessions per minute, 100 unknown recipients per session, and 600 unknown recipients in
    total, plus 60 more per minute. Above the total, the reply is ``450 4.7.1``.
    """

    max_inflight_bytes: AtLeastOne = 64 * MIB
    """The maximum number of bytes that messages being received may use in memory, for all sessions together. One client
    may use half of it, or enough for one message of the maximum size; the first 64 KiB of each message do not count.
    Keep it above ``smtp.max_message_bytes``.
    """


class Addresses(Struct, frozen=True, kw_only=True):
    """The section ``[addresses]``; ``max_lifetime_seconds`` is never less than ``lifetime_seconds``."""

    lifetime_seconds: Lifetime = 3600
    """The lifetime of a new address. Its messages are deleted when it expires."""

    max_lifetime_seconds: Lifetime = 3600
    """The maximum lifetime that a user can choose for an address, or extend it to, counted from its creation. It is
    never less than ``addresses.lifetime_seconds``.
    """

    max_messages: Count = 100
    """The maximum number of messages in one inbox. A full inbox keeps its messages and temporarily refuses new mail."""

    max_bytes: AtLeastOne = 50 * MIB
    """The maximum number of bytes that one inbox may use in the database. Each message uses at least 5637 bytes, and a
    large message up to 2.5 times its size. If you raise ``smtp.max_message_bytes``, also raise this limit.
    """

    max_share_per_client: Annotated[float, validators.SHARE, Group.LIMITS] = 0.05
    """The share of ``storage.max_bytes`` that all inboxes of one client may use together, above 0 and at most 1. Set it
    to 1 if one machine creates all addresses.
    """

    def __post_init__(self) -> None:
        force_setattr(self, "max_lifetime_seconds", max(self.lifetime_seconds, self.max_lifetime_seconds))


class Storage(Struct, frozen=True, kw_only=True):
    """The section ``[storage]``. ``url`` selects PostgreSQL; if ``max_bytes`` is 0, the engine sets the limit."""

    path: Annotated[str, validators.PATH, AT_START] = DEFAULT_PATH
    """The database file; a relative path is relative to the service's working directory."""

    url: Annotated[str, validators.DATABASE_URL, AT_START] = ""
    """A PostgreSQL database instead of the file, for [several daemons](scaling.md):
    ``postgresql://user@host[:port][,host…]/database``. libpq options after ``?``: ``host`` (also the folder of a Unix
    socket), ``port``, ``user``, ``dbname``, ``sslmode``, ``sslrootcert``, ``sslcert``, ``sslkey``, ``sslcrl``,
    ``target_session_attrs=read-write``.
    """

    password_file: Annotated[str, validators.OPTIONAL_PATH, AT_START] = ""
    """A file with the password for ``storage.url``; it is read for each new connection."""

    max_bytes: Annotated[int, validators.STORAGE_BYTES, Group.LIMITS] = 0
    """The maximum size of the database in bytes, at least 1048576 (1 MiB). ``0`` means 10 GiB or half of the free disk
    space, whichever is less; if the file system does not report its free space, it means 10 GiB. With ``storage.url``,
    it means 10 GiB for all daemons together. At the limit, senders are told to try again later.
    """


class Log(Struct, frozen=True, kw_only=True):
    """The section ``[log]``."""

    level: Annotated[str, one_of("debug", "info", "warning", "error")] = "info"
    """``debug``, ``info``, ``warning`` or ``error``. Message text is not logged at any level."""

    format: Annotated[str, one_of("text", "json")] = "text"
    """``text`` for people and the journal, ``json`` for programs."""

    access: Switch = False
    """``true``: log a line for each HTTP request, at any level; addresses in paths are hashed."""

    audit: Switch = False
    """``true``: log a line for each created address and each accepted message, at any level. It contains the time, the
    client and a hash of the address, which you can use to [find the lines about an address](privacy.md#the-audit). This
    is personal data: inform your users, and delete the log when you no longer need it.
    """


class Metrics(Struct, frozen=True, kw_only=True):
    """The section ``[metrics]``; an empty ``listen`` disables it."""

    listen: Annotated[str, validators.OPTIONAL_LISTEN, AT_START] = ""
    """An address that serves ``/metrics``, ``/healthz`` and ``/readyz`` to operators, such as ``127.0.0.1:9025``; if
    empty, they are not served.
    """


class Senders(Struct, frozen=True, kw_only=True):
    """The section ``[senders]``; an empty ``resolver`` disables the checks."""

    resolver: Annotated[str, validators.RESOLVER, AT_START] = ""
    """The DNS resolver for [checking senders](api.md#sender-authentication) with SPF, DKIM and DMARC after mail is
    stored: ``IP:port``, or ``system`` for the machine's resolver; if empty, senders are not checked. The resolver
    learns which domains send to you. Unless you use the Debian package, install the ``senders`` extra.
    """

    timeout_seconds: Annotated[int, whole(1, 60), Group.LIMITS, AT_START] = 5
    """The total time that one check may wait for the resolver; after that, its result is ``temperror``."""


class Webhooks(Struct, frozen=True, kw_only=True):
    """The section ``[webhooks]``; an empty ``allow`` disables webhooks."""

    allow: Annotated[tuple[webhooktargets.Rule, ...], validators.WEBHOOK_TARGETS] = ()
    """Hosts that [webhooks](webhooks.md) may call: names, ``*.NAME`` for every name under ``NAME``, or networks. Add
    ``:port`` to allow only that port instead of ports 80 and 443. A name may resolve only to public addresses, unless a
    network listed here contains the address. If empty, webhooks are disabled.
    """


class Control(Struct, frozen=True, kw_only=True):
    """The section ``[control]``. If ``listen`` is empty, the daemon chooses the path; ``off`` disables the socket."""

    listen: Annotated[str, validators.CONTROL_LISTEN, AT_START] = ""
    """The socket for commands such as ``tmpmaild status``: ``unix:PATH`` (at most 107 bytes) or ``off``. By default, it
    is ``control.sock`` in the ``RuntimeDirectory`` of the systemd unit, or else ``tmpmaild.db.control`` next to the
    database. If ``storage.url`` is set, also set this key, for example to ``unix:/run/tmpmaild/control.sock``.
    """


class RateLimit(Struct, frozen=True, kw_only=True):
    """The section ``[rate_limit]``."""

    requests_per_minute: Count = 10
    """The average number of API requests per minute that one client may send."""

    burst: AtLeastOne = 10
    """The number of requests that a client may send in a burst after a pause."""


class Limits(Struct, frozen=True, kw_only=True):
    """The section ``[limits]``."""

    exempt: Annotated[Networks, Group.LIMITS] = ()
    """Networks (CIDR) that are exempt from per-client limits, such as ``["10.0.0.0/8"]`` for your test machines."""


class Expiry(Struct, frozen=True, kw_only=True):
    """The section ``[expiry]``."""

    interval_seconds: Annotated[int, whole(1, 86_400), Group.LIMITS] = 30
    """The interval at which expired mail is erased. Expired mail can never be read, but with a value above 60 it may
    remain in the file for more than two minutes.
    """


class Config(Struct, frozen=True, kw_only=True):
    """The whole configuration; ``domains`` are in lower case with A-labels."""

    domains: Annotated[tuple[str, ...], validators.DOMAINS] = ("mail.example.com",)
    """The domains to receive mail for; point their MX records at this machine. A new address uses the first domain
    unless a different domain is requested. ``*.NAME``, in any position except the first, covers every name under
    ``NAME``: see [several domains](operations.md#several-domains). Many applications reject addresses at ``.test``,
    ``.local`` and ``.localhost``: see [testing.md](testing.md#when-your-application-validates-addresses).
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
        """The server's name in the greeting and in ``Received`` fields."""
        return self.smtp.hostname or socket.gethostname()

    @property
    def own_networks(self) -> tuple[Network, ...]:
        """The networks that the operator trusts."""
        return (*self.http.trusted_proxies, *self.smtp.trusted_proxies, *self.limits.exempt)


SECTIONS: Final[dict[str, type[Struct]]] = {
    name: hint for name, hint in get_type_hints(Config).items() if name != "domains"
}


def validators_by_key() -> dict[str, Validator]:
    """Return the validators of all keys, keyed by dotted name."""
    return {key: metadata[0] for key, metadata in _metadata_by_key().items()}


def groups_by_key() -> dict[str, Group]:
    """Return the groups of all keys, keyed by dotted name."""
    return {
        key: next((one for one in metadata if isinstance(one, Group)), Group.OPERATOR)
        for key, metadata in _metadata_by_key().items()
    }


def keys_at_start() -> list[str]:
    """Return the keys whose new values take effect only after a restart."""
    return [key for key, metadata in _metadata_by_key().items() if AT_START in metadata]


def needing_restart(running: Config, wanted: Config) -> list[str]:
    """Return the keys that have changed and take effect only after a restart."""
    return [key for key in keys_at_start() if attrgetter(key)(running) != attrgetter(key)(wanted)]


def conflicts(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys of settings that contradict each other, with an error text."""
    for domain in _repeated(config.domains):
        yield ("domains",), f"expected each domain once, found {domain!r} again"
    if config.domains[0].startswith(hostnames.WILDCARD):
        text = "expected the first domain to be a name, not a wildcard, found {!r}; put {!r} before it"
        yield ("domains",), text.format(config.domains[0], config.domains[0].removeprefix(hostnames.WILDCARD))
    listens = {"smtp.listen": config.smtp.listen, "http.listen": config.http.listen}
    listens |= {"smtp.tls_listen": config.smtp.tls_listen} if config.smtp.tls_listen else {}
    listens |= {"metrics.listen": (config.metrics.listen,)} if config.metrics.listen else {}
    listens |= {"control.listen": (config.control.listen,)} if config.control.listen not in ("", "off") else {}
    places = {key: [validators.parse_endpoint(text) for text in texts] for key, texts in listens.items()}
    for place in _repeated(place for found in places.values() for place in found if place.port or place.path):
        shown = place.path or f"{place.host} port {place.port}"
        keys = tuple(key for key, found in places.items() if place in found)
        yield keys, f"expected each listening address once, found {shown} again"
    if bool(config.smtp.tls_certificate) != bool(config.smtp.tls_key):
        yield ("smtp.tls_certificate", "smtp.tls_key"), "expected both or neither, found only one"
    if config.smtp.tls_listen and not config.smtp.tls_certificate:
        yield ("smtp.tls_listen", "smtp.tls_certificate"), "listening with TLS requires a certificate and its key"
    if config.storage.url and config.storage.path != DEFAULT_PATH:
        yield ("storage.url", "storage.path"), "expected a database or a file, found both"
    if config.storage.password_file and not config.storage.url:
        yield ("storage.password_file", "storage.url"), "a password has no effect without a URL"
    if config.smtp.accept_unknown == "create" and config.http.require_token:
        yield (
            ("smtp.accept_unknown", "http.require_token"),
            '"create" cannot be combined with a required token: addresses created by mail have no token',
        )


def _metadata_by_key() -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for prefix, struct in {"": Config, **{f"{section}.": struct for section, struct in SECTIONS.items()}}.items():
        hints = get_type_hints(struct, include_extras=True)
        found |= {prefix + name: hint.__metadata__ for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    return found


def _repeated(items: Iterable[Item]) -> list[Item]:
    return [item for item, count in Counter(items).items() if count > 1]
