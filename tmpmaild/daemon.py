"""Builds all parts of the daemon, runs them, and stops them in order; read it from top to bottom."""

import logging
import os
import secrets
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

from tmpmaild import __version__
from tmpmaild.config.settings import Config
from tmpmaild.errors import DatabaseError, StartError
from tmpmaild.host import allocator, controlsocket, listen, notify, passed, watchdog
from tmpmaild.host.control import ControlServer
from tmpmaild.host.looplag import LoopLag
from tmpmaild.host.metrics import Exposition
from tmpmaild.host.status import Served, StatusReport
from tmpmaild.http.app import HttpApp, HttpSettings
from tmpmaild.http.health import operator_app
from tmpmaild.http.server import HttpServer
from tmpmaild.inboxes.commands import InboxCommands
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
_MAX_METRICS_CONNECTIONS = 100
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
        raise _first(reasons) from None


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


async def _run(config: Config, announce: Announce) -> None:
    sys.setswitchinterval(_SWITCH_SECONDS)
    allocator.return_large_blocks()
    tls = _tls(config)
    async with _opened_storage(config) as storage:
        with controlsocket.bound(config, os.environ) as control:
            await _serve(config, storage, tls, control, announce)
        if storage.is_lost():
            raise DatabaseError(f"{config.storage.path}: gone while it was in use")


async def _serve(
    config: Config, storage: Storage, tls: ssl.SSLContext | None, control: socket.socket | None, announce: Announce
) -> None:
    sockets = _bind(config)
    parts = _Parts(config, storage, tls, sockets)
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as running:
            await tasks.start(_watch_signals, running, parts.smtp, config)
            await parts.start(sockets)
            await parts.control.start(control)
            for forever in (parts.smtp.watch, parts.cleaner.run, parts.lag.run):
                tasks.start_soon(forever)
            tasks.start_soon(watchdog.keep_alive, os.environ)
            tasks.start_soon(_stop_when_lost, running, storage)
            log.info("started: %s", _served(config, sockets, has_tls=tls is not None))
            announce(*map(_names, (sockets.http, sockets.smtp)))
            notify.notify("READY=1")
            await anyio.sleep_forever()
        notify.notify("STOPPING=1")
        log.info("stopping")
        await parts.stop()
        tasks.cancel_scope.cancel()
    log.info("stopped")


class _Parts:
    """The parts of the daemon over one storage, connected with each other."""

    def __init__(self, config: Config, storage: Storage, tls: ssl.SSLContext | None, sockets: "_Sockets") -> None:
        self._storage = storage
        self._service = _service(storage, config)
        limits = _rate_limits(config)
        self.smtp = SmtpServer(self._service, _smtp_settings(config), tls)
        self.cleaner = Cleaner(
            storage,
            clock=clock_ms,
            interval_seconds=config.expiry.interval_seconds,
            chores=[self._service.forget_expired, lambda: limits.forget_idle(time.monotonic())],
        )
        self.lag = LoopLag()
        web = HttpApp(self._service, _http_settings(config), limits, self.obstacle)
        self._http = HttpServer(web, max_connections=config.http.max_connections)
        measured = (self.smtp, web, self._http, storage, self.cleaner, self.lag)
        measures = tuple(chain.from_iterable(part.measures() for part in measured))
        metrics = Exposition(measures)
        self._metrics = HttpServer(operator_app(self.obstacle, metrics.page), max_connections=_MAX_METRICS_CONNECTIONS)
        status = StatusReport(measures, self.obstacle, Served(config.domains, *map(_names, sockets)))
        inboxes = InboxCommands(storage, self.cleaner, clock=clock_ms)
        self.control = ControlServer({**status.commands(), **inboxes.commands()})

    async def start(self, sockets: "_Sockets") -> None:
        """Accept connections."""
        await self.smtp.start(sockets.smtp)
        await self._http.start(sockets.http)
        await self._metrics.start(sockets.metrics)

    def obstacle(self) -> str:
        """Return why mail and requests cannot be served, "" if they can; from memory."""
        if not (self.smtp.listening and self._http.listening):
            return "not listening"
        if self._storage.is_lost():
            return "the database is gone"
        return self._storage.trouble() or ("" if self._storage.has_room() else "storage full")

    async def stop(self) -> None:
        """Accept no more connections, and give those that are open the grace time to end."""
        self._service.stop_waiting()
        async with anyio.create_task_group() as stopping:
            for server in (self.smtp, self._http, self._metrics):
                stopping.start_soon(server.stop, _GRACE_SECONDS)
            stopping.start_soon(self.control.stop)


class _Sockets(NamedTuple):
    """What is listened on."""

    http: list[socket.socket]
    smtp: list[socket.socket]
    metrics: list[socket.socket]


def _bind(config: Config) -> _Sockets:
    taken_over = passed.take(os.environ)
    sockets = _Sockets(*(taken_over.get(name, []) for name in _Sockets._fields))
    metrics = [config.metrics.listen] if config.metrics.listen else []
    try:
        for bound, places in zip(sockets, (config.http.listen, config.smtp.listen, metrics), strict=True):
            if not bound:
                bound.extend(listen.bind_all(places))
    except StartError:
        for listener in chain.from_iterable(sockets):
            listener.close()
        raise
    return sockets


def _names(sockets: Iterable[socket.socket]) -> list[str]:
    return [listen.name(one) for one in sockets]


def _served(config: Config, sockets: _Sockets, *, has_tls: bool) -> str:
    domains = ", ".join(config.domains)
    http, smtp, metrics = (", ".join(_names(some)) for some in sockets)
    tls = " with STARTTLS" if has_tls else ""
    more = f"; metrics on {metrics}" if metrics else ""
    return f"tmpmaild {__version__}, {domains}; HTTP on {http}; SMTP on {smtp}{tls}{more}"


@asynccontextmanager
async def _opened_storage(config: Config) -> AsyncIterator[Storage]:
    async with AsyncExitStack() as stack:
        with notify.more_time_to_start():  # migrating or checking a large database may take minutes
            storage = await stack.enter_async_context(open_storage(storage_settings(config), clock_ms))
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


def storage_settings(config: Config) -> StorageSettings:
    """Return the settings of the database."""
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


def _http_settings(config: Config) -> HttpSettings:
    return HttpSettings(
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
        trusted_proxies=smtp.trusted_proxies,
        exempt=config.limits.exempt,
    )
