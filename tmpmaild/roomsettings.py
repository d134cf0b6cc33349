"""What each room is given of the configuration, and which keys are read at the start only."""

import socket
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from tmpmaild import databaseurl
from tmpmaild.clients import Networks
from tmpmaild.config.settings import Config
from tmpmaild.hostnames import reachable
from tmpmaild.http.app import HttpSettings
from tmpmaild.inboxes.creating import Rules
from tmpmaild.ratelimit import Buckets, RateLimits
from tmpmaild.smtp.server import SmtpSettings
from tmpmaild.storage.base import StorageLimits
from tmpmaild.storage.engines import PostgresqlSettings, SqliteSettings
from tmpmaild.storage.engines import Settings as StorageSettings

NEED_RESTART: Final = (
    "http.listen",
    "smtp.listen",
    "smtp.tls_listen",
    "metrics.listen",
    "control.listen",
    "storage.path",
    "storage.url",
    "storage.password_file",
    "senders.resolver",
    "senders.timeout_seconds",
)
_PAGE_REQUESTS_PER_MINUTE = 120


def needing_restart(running: Config, wanted: Config) -> list[str]:
    """Return the keys whose new values take effect at the next start only."""
    return [key for key in NEED_RESTART if attrgetter(key)(running) != attrgetter(key)(wanted)]


def hostname(config: Config) -> str:
    """Return our name in the greeting and in ``Received`` lines."""
    return config.smtp.hostname or socket.gethostname()


def set_rates(limits: RateLimits, config: Config, make: Callable[..., Buckets]) -> None:
    """Set the rate limits; a client keeps what it has left where they are the same as before."""
    rate = config.rate_limit
    per_page = _PAGE_REQUESTS_PER_MINUTE if rate.requests_per_minute else 0
    limits.change(make, default=(rate.requests_per_minute, rate.burst), page_per_minute=per_page)


def own_networks(config: Config) -> Networks:
    """Return the networks that the operator trusts."""
    return (*config.http.trusted_proxies, *config.smtp.trusted_proxies, *config.limits.exempt)


def storage(config: Config) -> StorageSettings:
    """Return where mail is stored, and how much of it."""
    limits = StorageLimits(
        max_bytes=config.storage.max_bytes,
        reserve_bytes=4 * config.smtp.max_message_bytes,
        max_messages_per_inbox=config.addresses.max_messages,
        max_bytes_per_inbox=config.addresses.max_bytes,
        max_share_per_creator=config.addresses.max_share_per_client,
    )
    if not config.storage.url:
        return SqliteSettings(path=Path(config.storage.path), **asdict(limits))
    password_file = Path(config.storage.password_file) if config.storage.password_file else None
    url = databaseurl.parse(config.storage.url)
    return PostgresqlSettings(url=url, password_file=password_file, **asdict(limits))


def rules(config: Config, retired: Mapping[str, int]) -> Rules:
    """Return the rules for addresses; ``retired`` domains are in ``Rules``."""
    return Rules(
        domains=config.domains,
        lifetime_ms=config.addresses.lifetime_seconds * 1000,
        require_token=config.http.require_token,
        hostname=hostname(config),
        max_lifetime_ms=config.addresses.max_lifetime_seconds * 1000,
        accept_unknown=config.smtp.accept_unknown == "create",
        retired=retired,
        faults=config.smtp.faults,
        keep_refusals=config.smtp.keep_refusals,
        webhooks=config.webhooks.allow,
    )


def http(config: Config, listening: Sequence[str] = ()) -> HttpSettings:
    """Return the settings of the HTTP application, whose sockets have the addresses ``listening``."""
    here = next((f"http://{reachable(one)}" for one in listening if not one.startswith("unix:")), "")
    return HttpSettings(
        public_url=config.http.public_url,
        local_url=here,
        trusted_proxies=config.http.trusted_proxies,
        exempt=config.limits.exempt,
        allowed_hosts=config.http.allowed_hosts,
        cors_origins=config.http.cors_origins,
        max_streams_per_client=config.http.max_streams_per_client,
        access_log=config.log.access,
    )


def smtp(config: Config) -> SmtpSettings:
    """Return the name and the limits of the SMTP server."""
    smtp = config.smtp
    return SmtpSettings(
        hostname=hostname(config),
        max_message_bytes=smtp.max_message_bytes,
        max_connections=smtp.max_connections,
        max_connections_per_client=smtp.max_connections_per_client,
        max_inflight_bytes=smtp.max_inflight_bytes,
        offers_auth=smtp.auth == "any",
        trusted_proxies=smtp.trusted_proxies,
        exempt=config.limits.exempt,
    )
