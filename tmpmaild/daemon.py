"""Creates all parts of the daemon, runs them and stops them in order. Read this module from top to bottom."""

import asyncio
import gc
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from functools import partial
from ipaddress import ip_address
from itertools import chain
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec.structs import asdict

from tmpmaild import __version__, hostnames, senders
from tmpmaild.clients import Networks
from tmpmaild.config.settings import Config, needing_restart
from tmpmaild.config.validators import parse_endpoint
from tmpmaild.errors import DatabaseError, RequestError, StartError
from tmpmaild.host import control, logs, process
from tmpmaild.host.control import Command, ControlServer
from tmpmaild.host.metrics import Exposition
from tmpmaild.host.process import Outcome, Reloading
from tmpmaild.host.sockets import (
    Certificate,
    ShownCertificate,
    Sockets,
    bind,
    certificate,
    name,
    names,
    ports,
    reachable,
)
from tmpmaild.host.status import Served, StatusReport
from tmpmaild.hostnames import LOOPBACK_HOSTS
from tmpmaild.http.app import HttpApp, HttpSettings
from tmpmaild.http.health import operator_app, serving_health
from tmpmaild.http.server import HttpServer
from tmpmaild.inboxes import catching
from tmpmaild.inboxes import service as inbox_service
from tmpmaild.inboxes.catching import Catcher
from tmpmaild.inboxes.commands import BlockCommands, InboxCommands
from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.inboxes.rules import Rules
from tmpmaild.inboxes.service import InboxService
from tmpmaild.model import Block, InboxChange, Purpose, rfc3339
from tmpmaild.ratelimit import Buckets, MakeBuckets, RateLimits
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.smtp.server import SmtpServer
from tmpmaild.smtp.settings import SmtpSettings
from tmpmaild.storage.base import Storage
from tmpmaild.storage.engines import open_storage, settings_of
from tmpmaild.webhooks.calling import Caller
from tmpmaild.webhooks.commands import WebhookCommands
from tmpmaild.webhooks.dispatcher import Dispatcher
from tmpmaild.webhooks.events import Events

if TYPE_CHECKING:
    from tmpmaild.senders.checker import Checker

_GRACE_SECONDS = 3.0
_MAX_METRICS_CONNECTIONS = 100
_PAGE_REQUESTS_PER_MINUTE = 120
_ANY_HOST = ("0.0.0.0", "::")  # noqa: S104 - only compared
# How long a thread may keep the GIL while other threads wait. With Python's default of 5 ms, the event loop would run
# only once every 5 ms while a thread parses 10 MiB.
_SWITCH_SECONDS = 0.0005
# The number of middle-generation collections before a collection of the oldest generation; Python's default is 10. A
# collection of the oldest generation stops all threads (for 0.1 s with 500 streams) and frees almost nothing.
_YOUNGER_COLLECTIONS = 50

log = logging.getLogger(__name__)

Announce = Callable[[list[str], list[str], list[str]], None]
ReadConfig = Callable[[], Config]


async def run(config: Config, announce: Announce, read_again: ReadConfig, *, purpose: Purpose = Purpose.MAIL) -> None:
    """Serve until SIGTERM or SIGINT.

    ``announce`` is called with the addresses of HTTP, SMTP and SMTPS once all of them are listening. If it raises
    ``StartError``, the service stops. ``read_again`` reloads the configuration, and is called in a thread.

    Raises ``StartError`` if the service cannot start, and ``DatabaseError`` if the database disappears.
    """
    try:
        await _run(config, announce, read_again, purpose)
    except BaseExceptionGroup as group:
        reasons, others = group.split(StartError)
        if others is not None or reasons is None:
            raise
        raise _first(reasons) from None


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


async def _run(config: Config, announce: Announce, read_again: ReadConfig, purpose: Purpose) -> None:
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*gc.get_threshold()[:2], _YOUNGER_COLLECTIONS)
    process.unmap_large_blocks()
    config = process.limit_connections(config, process.raise_descriptor_limit())
    loaded = await anyio.to_thread.run_sync(certificate, config)
    # A database server may be unavailable for a long time, whereas a file is available immediately or never.
    early = bind(config) if config.storage.url else None
    async with _opened_storage(config, early) as storage:
        scheduler = FairScheduler()
        rules = await _stored_rules(config, storage, purpose)
        checker = await _checker(config, storage, scheduler)
        check = checker.enqueue if checker else None
        service = inbox_service.build(storage, rules, scheduler, release_memory=process.release_memory, check=check)
        service.blocks.add(await _known_blocks(config, storage))
        if service.catcher is not None:
            await _started_catcher(config, service.catcher)
        with control.bound(config, os.environ) as control_socket:
            sockets = early or bind(config)
            parts = _Parts(config, service, storage, loaded, checker, sockets=sockets, read_again=read_again)
            await _serve(parts, storage, sockets, control_socket, announce)
        if storage.lost.is_set():
            raise DatabaseError(f"{settings_of(config).name}: disappeared while in use")


async def _serve(
    parts: "_Parts", storage: Storage, sockets: Sockets, control_socket: socket.socket | None, announce: Announce
) -> None:
    failed: StartError | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as running:
            reload_wanted = asyncio.Event()
            watch = partial(process.watch, running, reload_wanted, stops_on_hangup=parts.stops_on_hangup)
            await tasks.start(watch)
            await parts.start()
            await parts.control.start(control_socket)
            for forever in (
                parts.smtp.watch,
                parts.cleaner.run,
                parts.lag.run,
                parts.dispatcher.run,
                *(one.run for one in parts.checkers),
            ):
                tasks.start_soon(forever)
            tasks.start_soon(parts.reloading.reload_when, reload_wanted)
            tasks.start_soon(process.keep_alive, os.environ)
            tasks.start_soon(_stop_when_lost, running, storage)
            log.info("started: %s", parts.served, extra={"event": "started"})
            parts.warn_of_public_catcher()
            try:
                announce(*map(names, (sockets.http, sockets.smtp, sockets.smtps)))
            except StartError as error:  # all parts are running and must be stopped in order
                failed = error
                running.cancel()
            else:
                process.notify("READY=1")
            await anyio.sleep_forever()
        process.notify("STOPPING=1")
        log.info("stopping", extra={"event": "stopping"})
        await parts.stop()
        tasks.cancel_scope.cancel()
    log.info("stopped", extra={"event": "stopped"})
    if failed is not None:
        raise failed


class _Parts:
    """The parts of the daemon, all connected to the same storage."""

    def __init__(
        self,
        config: Config,
        service: InboxService,
        storage: Storage,
        loaded: Certificate,
        checker: "Checker | None",
        *,
        sockets: Sockets,
        read_again: ReadConfig,
    ) -> None:
        self._started_with = config
        self._read_again = read_again
        self._storage = storage
        self._sockets = sockets
        self._service = service
        self._limits = RateLimits()
        _set_rates(self._limits, config, storage.buckets)
        self.smtp = SmtpServer(self._service, _smtp_settings(config, service.rules), loaded.tls, storage.clock)
        self.cleaner = Cleaner(
            storage,
            interval_seconds=config.expiry.interval_seconds,
            chores=[
                lambda: self._service.forget_expired(storage.clock()),
                lambda: self._limits.forget_idle(time.monotonic()),
            ],
        )
        self.lag = process.LoopLag()
        web = _http_settings(config, sockets, self._service.rules)
        self._web = HttpApp(self._service, web, self._limits, self.reason_not_ready)
        self._http = HttpServer(self._web, max_connections=config.http.max_connections, unshared=_without_share(config))
        self.dispatcher = self._dispatcher(ports(sockets))
        self._commit_listeners: list[Callable[[Sequence[InboxChange]], None]] = []
        self._register_commit_listeners(config)
        self.checkers = [checker] if checker else []
        self._certificate = ShownCertificate(loaded)
        edges = (self.smtp, self._certificate, self._web, self._http)
        measured = (*edges, service.scheduler, storage, self.cleaner, self.lag, self.dispatcher)
        known = [part.metrics() for part in measured] + [one.metrics() for one in self.checkers]
        metrics = tuple(chain.from_iterable(known))
        exposition = Exposition(metrics, __version__)
        self._metrics = HttpServer(
            operator_app(self.reason_not_ready, exposition.page), max_connections=_MAX_METRICS_CONNECTIONS
        )
        self._status = StatusReport(metrics, self.reason_not_ready, Served(config.domains, *map(names, sockets)))
        self._blocks = BlockCommands(storage, self._service.blocks, config.own_networks)
        self.reloading = Reloading(self._reload)
        self.control = ControlServer(self._commands())

    def _dispatcher(self, own_ports: frozenset[int]) -> Dispatcher:
        return Dispatcher(
            self._storage,
            self._service.webhooks,
            Events(self._service.mail, self._web.webhook_body),
            Caller(own_ports),
            self._service.blocks,
        )

    def _register_commit_listeners(self, config: Config) -> None:
        """Register the commit listeners in the right order: caches must be updated before the dispatcher reads them.

        Listeners are never removed: without webhooks the dispatcher has nothing to do.
        """
        listeners = [self._service.on_commit]
        if config.webhooks.allow:
            listeners.append(self.dispatcher.on_commit)
        for listener in listeners[len(self._commit_listeners) :]:
            self._commit_listeners.append(listener)
            self._storage.on_committed(listener)

    def _commands(self) -> dict[str, Command]:
        inboxes = InboxCommands(self._storage, self.cleaner)
        webhooks = WebhookCommands(self._storage, self._service.webhooks, self._service.blocks)
        parts = (self._status, inboxes, self._blocks, webhooks, self.reloading)
        return dict(chain.from_iterable(part.commands().items() for part in parts))

    @property
    def served(self) -> str:
        """A description of the served domains and the listening addresses, for the log."""
        domains = ", ".join(self._service.rules.domains)
        http, smtp, smtps, metrics = (", ".join(names(some)) for some in self._sockets)
        tls = " with STARTTLS" if self.smtp.connections.tls is not None else ""
        tls += f"; SMTPS on {smtps}" if smtps else ""
        more = f"; metrics on {metrics}" if metrics else ""
        return f"tmpmaild {__version__}, {domains}; HTTP on {http}; SMTP on {smtp}{tls}{more}"

    @property
    def stops_on_hangup(self) -> bool:
        """Whether SIGHUP stops the service, as it does for a test service, which must not outlive its terminal."""
        return self._service.rules.purpose is not Purpose.MAIL

    async def start(self) -> None:
        """Accept connections."""
        await self.smtp.start(self._sockets.smtp, self._sockets.smtps)
        await self._http.start(self._sockets.http)
        await self._metrics.start(self._sockets.metrics)

    def warn_of_public_catcher(self) -> None:
        """Log a warning for each HTTP address through which other machines can read all messages."""
        if self._service.catcher is None:
            return
        for listener in _public(self._sockets.http):
            text = "every recipient is accepted, and anyone who can reach HTTP on %s can read all messages"
            log.warning(text, name(listener))

    def reason_not_ready(self) -> str:
        """Return the reason why the service is not ready, or ""; this involves no I/O."""
        if not (self.smtp.listening and self._http.listening):
            return "not listening"
        if self._storage.lost.is_set():
            return "the database is gone"
        return self._storage.reason_not_ready() or ("" if self._storage.has_room() else "storage full")

    async def _reload(self) -> Outcome:
        """Read the configuration again and apply it. Raises ``StartError`` and ``RequestError``."""
        config = await anyio.to_thread.run_sync(self._read_again)
        config = process.limit_connections(config, process.raise_descriptor_limit())
        loaded = await anyio.to_thread.run_sync(certificate, config)
        smtp = _smtp_settings(config, self._service.rules)
        web = _http_settings(config, self._sockets, self._service.rules)
        use_web = await anyio.to_thread.run_sync(self._web.prepare, web, config.domains[0])
        rules = await _stored_rules(config, self._storage, self._service.rules.purpose)
        await self._storage.change_limits(settings_of(config))
        # None of the following statements can fail or wait, so a configuration is never applied only in part.
        self._service.change_rules(rules)
        self._register_commit_listeners(config)
        self.smtp.change_settings(smtp, loaded.tls)
        certificate_stayed = self._certificate.change(loaded)
        use_web()
        self._http.max_connections, self._http.unshared = config.http.max_connections, _without_share(config)
        _set_rates(self._limits, config, self._storage.buckets)
        self.cleaner.interval_seconds = config.expiry.interval_seconds
        needs_restart = needing_restart(self._started_with, config)
        self._status.reloaded(config.domains, needs_restart)
        self._blocks.own = config.own_networks
        logs.set_up(config.log.level, config.log.format)
        return Outcome(self.served, needs_restart, certificate_stayed)

    async def stop(self) -> None:
        """Stop accepting connections, and wait up to the grace period for open connections to finish."""
        self._service.bus.stop()
        async with anyio.create_task_group() as stopping:
            for server in (self.smtp, self._http, self._metrics):
                stopping.start_soon(server.stop, _GRACE_SECONDS)
            stopping.start_soon(self.control.stop)


@asynccontextmanager
async def _opened_storage(config: Config, early: Sockets | None) -> AsyncIterator[Storage]:
    async with AsyncExitStack() as stack:
        unused = stack.enter_context(ExitStack())
        for listener in chain.from_iterable(early or ()):
            unused.enter_context(listener)
        with process.more_time_to_start():  # migrating or checking a large database may take minutes
            async with serving_health([*early.http, *early.metrics]) if early else nullcontext():
                storage = await stack.enter_async_context(open_storage(settings_of(config)))
        unused.pop_all()
        yield storage


async def _started_catcher(config: Config, catcher: Catcher) -> None:
    try:
        await catcher.start()
    except RequestError as error:
        raise StartError(f"{settings_of(config).name}: the inbox for all mail cannot be created: {error}") from error


async def _stored_rules(config: Config, storage: Storage, purpose: Purpose) -> Rules:
    """Store the served domains, and return the rules for addresses. Raises ``StartError``."""
    now_ms = storage.clock()
    until_ms = now_ms + config.addresses.max_lifetime_seconds * 1000
    try:
        retired = await storage.serve_domains(config.domains, now_ms=now_ms, until_ms=until_ms)
    except RequestError as error:
        raise StartError(f"{settings_of(config).name}: the domains cannot be stored: {error}") from error
    served = hostnames.domains(config.domains)
    for domain, kept_until_ms in retired.items():
        if domain in served:  # a wildcard in the new configuration includes this domain
            continue
        text = "%s accepts no new addresses; it is kept until %s for its existing addresses"
        log.info(text, domain, rfc3339(kept_until_ms))
    return Rules(config, retired, purpose)


async def _known_blocks(config: Config, storage: Storage) -> Sequence[Block]:
    try:
        return await storage.blocks()
    except RequestError as error:
        raise StartError(f"{settings_of(config).name}: the blocks cannot be read: {error}") from error


async def _checker(config: Config, storage: Storage, scheduler: FairScheduler) -> "Checker | None":
    """Return the sender checker, or None if the operator has not set a resolver. Raises ``StartError``."""
    if not config.senders.resolver:
        return None
    try:
        from tmpmaild.senders.checker import Checker  # noqa: PLC0415 - an optional dependency
        from tmpmaild.senders.resolver import Resolver, Unresolved  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        missing = f"senders.resolver needs additional packages ({error.name} is missing)"
        raise StartError(f"{missing}: {sys.executable} -m pip install {senders.PACKAGES}") from error
    try:
        resolver = await anyio.to_thread.run_sync(Resolver, config.senders.resolver)
    except Unresolved as error:
        raise StartError(f"senders.resolver: {error}") from error
    return Checker(storage, resolver, scheduler, config.senders.timeout_seconds)


def _smtp_settings(config: Config, rules: Rules) -> SmtpSettings:
    section = asdict(config.smtp) | {"hostname": config.host_name}
    if rules.purpose is not Purpose.MAIL:  # in tests, guessing addresses is harmless
        section["max_unknown_recipients"] = 0
    if rules.catch_all:
        section |= {"max_recipients": catching.MAX_RECIPIENTS, "lenient": True}
    return SmtpSettings(**section, exempt=config.limits.exempt)


def _without_share(config: Config) -> Networks:
    """Return the networks whose HTTP connections are not limited, including proxies, whose users share an address."""
    return (*config.http.trusted_proxies, *config.limits.exempt)


def _http_settings(config: Config, sockets: Sockets, rules: Rules) -> HttpSettings:
    addresses = [one for one in names(sockets.http) if not one.startswith("unix:")]
    here = f"http://{reachable(addresses[0])}" if addresses else ""
    section = asdict(config.http)
    if rules.catch_all and config.http.allowed_hosts:
        section["allowed_hosts"] = (*config.http.allowed_hosts, *_hosts(config, sockets))
    return HttpSettings(
        **section,
        local_url=here,
        smtp=tuple(names(sockets.smtp)),
        is_public=bool(_public(sockets.http)) or not set(LOOPBACK_HOSTS).issuperset(config.http.allowed_hosts),
        lifetime_seconds=config.addresses.lifetime_seconds,
        exempt=config.limits.exempt,
        access_log=config.log.access,
    )


def _hosts(config: Config, sockets: Sockets) -> set[str]:
    """Return the hosts that ``http.listen`` names, and their IP addresses, but not 0.0.0.0 and [::].

    They are safe as a ``Host``: a website that rebinds its name to this machine sends its own name.
    """
    bound = {one.getsockname()[0] for one in sockets.http if one.family != socket.AF_UNIX}
    named = {endpoint.host for endpoint in map(parse_endpoint, config.http.listen) if not endpoint.path}
    return {host for host in bound | named if host not in _ANY_HOST}


def _public(listeners: Sequence[socket.socket]) -> list[socket.socket]:
    """Return the listeners that other machines can reach."""
    return [
        one for one in listeners if one.family != socket.AF_UNIX and not ip_address(one.getsockname()[0]).is_loopback
    ]


def _set_rates(limits: RateLimits, config: Config, make: MakeBuckets[Buckets]) -> None:
    """Set the rate limits; if a limit is unchanged, clients keep their remaining requests."""
    rate = config.rate_limit
    per_page = _PAGE_REQUESTS_PER_MINUTE if rate.requests_per_minute else 0
    limits.change(make, default=(rate.requests_per_minute, rate.burst), page_per_minute=per_page)


async def _stop_when_lost(running: anyio.CancelScope, storage: Storage) -> None:
    await storage.lost.wait()
    running.cancel()
