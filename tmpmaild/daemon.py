"""Builds all parts of the daemon, runs them, and stops them in order; read it from top to bottom."""

import logging
import secrets
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from tmpmaild import __version__
from tmpmaild.config.settings import Config
from tmpmaild.errors import DatabaseError, StartError
from tmpmaild.host import allocator, listen, notify
from tmpmaild.http import app, server
from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.inboxes.service import InboxService, Rules
from tmpmaild.ratelimit import RateLimits, TokenBuckets
from tmpmaild.smtp.connections import SmtpSettings
from tmpmaild.smtp.server import SmtpServer
from tmpmaild.storage.base import Storage
from tmpmaild.storage.sqlite.engine import StorageSettings, open_storage
from tmpmaild.times import clock_ms

_GRACE_SECONDS = 3.0
_PAGE_REQUESTS_PER_MINUTE = 120
# How long a thread keeps the GIL from others. A thread that parses 10 MiB would with Python's 5 ms let the event loop
# do one thing every 5 ms.
_SWITCH_SECONDS = 0.0005

log = logging.getLogger(__name__)

Announce = Callable[[list[str], list[str]], None]


def hostname(config: Config) -> str:
    """Return our name in the greeting and in ``Received`` lines."""
    return config.smtp.hostname or socket.gethostname()


async def run(config: Config, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT. ``announce`` is called with the addresses of HTTP and SMTP once both listen.

    Raises ``StartError`` when it cannot begin, ``DatabaseError`` when the database is gone.
    """
    try:
        await _run(config, announce)
    except BaseExceptionGroup as group:
        reasons, others = group.split(StartError)
        if others is not None or reasons is None:
            raise
        raise StartError(str(_first(reasons))) from group


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


async def _run(config: Config, announce: Announce) -> None:
    sys.setswitchinterval(_SWITCH_SECONDS)
    allocator.return_large_blocks()
    tls = _tls(config)
    async with _opened_storage(config) as storage:
        http_sockets, smtp_sockets = _bind(config)
        service = _service(storage, config)
        limits = _rate_limits(config)
        http = server.HttpServer(
            app.create_app(service, _http_settings(config), limits), max_connections=config.http.max_connections
        )
        smtp = SmtpServer(service, _smtp_settings(config), tls)
        cleaner = Cleaner(
            storage,
            clock=clock_ms,
            interval_seconds=config.expiry.interval_seconds,
            chores=[service.forget_expired, lambda: limits.forget_idle(time.monotonic())],
        )
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as running:
                await tasks.start(_watch_signals, running, smtp, config)
                await smtp.start(smtp_sockets)
                await http.start(http_sockets)
                tasks.start_soon(_stop_when_lost, running, storage)
                tasks.start_soon(smtp.watch)
                tasks.start_soon(cleaner.run)
                served = [listen.name(one) for one in http_sockets], [listen.name(one) for one in smtp_sockets]
                log.info("started: %s", _served(config, *served, has_tls=tls is not None))
                announce(*served)
                notify.notify("READY=1")
                await anyio.sleep_forever()
            notify.notify("STOPPING=1")
            log.info("stopping")
            service.stop_waiting()
            async with anyio.create_task_group() as stopping:
                stopping.start_soon(smtp.stop, _GRACE_SECONDS)
                stopping.start_soon(http.stop, _GRACE_SECONDS)
            tasks.cancel_scope.cancel()
        log.info("stopped")
        if storage.is_lost():
            raise DatabaseError(f"{config.storage.path}: gone while it was in use")


def _served(config: Config, http: list[str], smtp: list[str], *, has_tls: bool) -> str:
    tls = " with STARTTLS" if has_tls else ""
    domains = ", ".join(config.domains)
    return f"tmpmaild {__version__}, {domains}; HTTP on {', '.join(http)}; SMTP on {', '.join(smtp)}{tls}"


@asynccontextmanager
async def _opened_storage(config: Config) -> AsyncIterator[Storage]:
    async with AsyncExitStack() as stack:
        with notify.more_time_to_start():  # migrating or checking a large database may take minutes
            storage = await stack.enter_async_context(open_storage(_storage_settings(config), clock_ms))
        yield storage


def _service(storage: Storage, config: Config) -> InboxService:
    return InboxService(
        storage,
        _rules(config),
        clock=clock_ms,
        choice=secrets.choice,
        new_token=secrets.token_urlsafe,
        give_memory_back=allocator.give_back,
    )


async def _stop_when_lost(running: anyio.CancelScope, storage: Storage) -> None:
    await storage.wait_lost()
    running.cancel()


async def _watch_signals(
    running: anyio.CancelScope, smtp: SmtpServer, config: Config, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                await _reload_tls(smtp, config)
            else:
                running.cancel()


async def _reload_tls(smtp: SmtpServer, config: Config) -> None:
    try:
        smtp.connections.tls = await anyio.to_thread.run_sync(_tls, config)
        log.info("certificate reloaded")
    except StartError as error:
        log.error("the certificate stays the old one: %s", error)  # noqa: TRY400 - the operator's mistake


def _bind(config: Config) -> tuple[list[socket.socket], list[socket.socket]]:
    http_sockets = listen.bind_all(config.http.listen)
    try:
        return http_sockets, listen.bind_all(config.smtp.listen)
    except StartError:
        for bound in http_sockets:
            bound.close()
        raise


def _tls(config: Config) -> ssl.SSLContext | None:
    if not config.smtp.tls_certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.smtp.tls_certificate, config.smtp.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise StartError(
            f"smtp.tls_certificate {config.smtp.tls_certificate}, smtp.tls_key {config.smtp.tls_key}: {error}"
        ) from error
    return context


def _rate_limits(config: Config) -> RateLimits:
    rate = config.rate_limit
    if not rate.requests_per_minute:
        return RateLimits()
    return RateLimits(
        TokenBuckets(rate.requests_per_minute, rate.burst),
        TokenBuckets(_PAGE_REQUESTS_PER_MINUTE, _PAGE_REQUESTS_PER_MINUTE, name="page"),
    )


def _storage_settings(config: Config) -> StorageSettings:
    return StorageSettings(
        path=Path(config.storage.path),
        max_bytes=config.storage.max_bytes,
        reserve_bytes=4 * config.smtp.max_message_bytes,
        max_messages_per_inbox=config.addresses.max_messages,
        max_bytes_per_inbox=config.addresses.max_bytes,
        max_share_per_creator=config.addresses.max_share_per_client,
    )


def _rules(config: Config) -> Rules:
    return Rules(
        domains=config.domains,
        lifetime_ms=config.addresses.lifetime_seconds * 1000,
        require_token=config.http.require_token,
        hostname=hostname(config),
        max_lifetime_ms=config.addresses.max_lifetime_seconds * 1000,
        accept_unknown=config.smtp.accept_unknown == "create",
    )


def _http_settings(config: Config) -> app.HttpSettings:
    return app.HttpSettings(
        public_url=config.http.public_url,
        trusted_proxies=config.http.trusted_proxies,
        exempt=config.limits.exempt,
        allowed_hosts=config.http.allowed_hosts,
        cors_origins=config.http.cors_origins,
        max_streams_per_client=config.http.max_streams_per_client,
        access_log=config.log.access,
    )


def _smtp_settings(config: Config) -> SmtpSettings:
    smtp = config.smtp
    return SmtpSettings(
        hostname=hostname(config),
        max_message_bytes=smtp.max_message_bytes,
        max_connections=smtp.max_connections,
        max_connections_per_client=smtp.max_connections_per_client,
        new_connections_per_minute=smtp.new_connections_per_minute,
        max_unknown_recipients=smtp.max_unknown_recipients,
        max_inflight_bytes=smtp.max_inflight_bytes,
        exempt=config.limits.exempt,
    )
