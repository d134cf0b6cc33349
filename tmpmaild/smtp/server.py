"""The SMTP server of the process: accepts, watches and stops connections.

A single connection is in ``session.py``; the state that all connections share is in ``connections.py``.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

import anyio

from tmpmaild.clients import is_public
from tmpmaild.inboxes.service import InboxService
from tmpmaild.listening import BACKLOG, listeners
from tmpmaild.metrics import Metric
from tmpmaild.smtp.connections import Connections
from tmpmaild.smtp.handler import Handler, UnknownRecipients
from tmpmaild.smtp.proxy import ProxyHeaderReader
from tmpmaild.smtp.session import SmtpConnection
from tmpmaild.smtp.settings import SmtpSettings

_WATCH_INTERVAL_SECONDS = 5
_PUBLIC_AUTH = 'smtp.auth is "any" on %s: clients that have a password configured for this server send it here'
_PUBLIC_FAULTS = "smtp.faults is on at %s: who creates an address here can keep SMTP connections waiting"
_PUBLIC_REFUSALS = "smtp.keep_refusals is on at %s: who reaches the API can read who sends mail to whom"

log = logging.getLogger(__name__)


class SmtpServer:
    """The SMTP server of the process."""

    def __init__(
        self,
        service: InboxService,
        settings: SmtpSettings,
        tls: ssl.SSLContext | None,
        clock: Callable[[], int],
    ) -> None:
        self.connections = Connections(settings, tls, service.blocks, service.refusals)
        self._unknown = UnknownRecipients()
        self._unknown.limit(settings.unknown_recipients_per_minute, settings.unknown_recipients_burst)
        self.handler = Handler(service, self._unknown, self.connections.metrics.count_mail, clock)
        self._faults = service.faults
        self._listeners: list[asyncio.Server] = []
        self._tls = tls  # the most recent one: sockets with implicit TLS keep it until the next start

    def change_settings(self, settings: SmtpSettings, tls: ssl.SSLContext | None) -> None:
        """Apply new settings and a new certificate; open sessions keep the settings that they announced."""
        self.connections.change_settings(settings)
        self._unknown.limit(settings.unknown_recipients_per_minute, settings.unknown_recipients_burst)
        self.connections.tls = tls
        self._tls = tls or self._tls
        self._warn_if_public()

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics of connections and messages."""
        return self.connections.metrics

    @property
    def listening(self) -> bool:
        """Whether it accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    async def start(self, sockets: Sequence[socket.socket], tls_sockets: Sequence[socket.socket] = ()) -> None:
        """Accept connections on bound sockets; connections on ``tls_sockets`` start with TLS."""
        for bound, tls_first in ((sockets, False), (tls_sockets, True)):
            new_protocol = partial(self._new_protocol, tls_first=tls_first)
            for listener in chain.from_iterable(map(listeners, bound)):
                server = await self.connections.loop.create_server(new_protocol, sock=listener, backlog=BACKLOG)
                self._listeners.append(server)
        self._warn_if_public()

    def _warn_if_public(self) -> None:
        ips = {listening.getsockname()[0] for listener in self._listeners for listening in listener.sockets}
        public = sorted(filter(is_public, ips))
        for is_on, text in (
            (self.connections.settings.auth == "any", _PUBLIC_AUTH),
            (self._faults.allowed, _PUBLIC_FAULTS),
            (self.connections.refused.wanted, _PUBLIC_REFUSALS),
        ):
            if public and is_on:
                log.warning(text, ", ".join(public))

    def _new_protocol(self, *, tls_first: bool) -> asyncio.Protocol:
        shared, tls = self.connections, self._tls if tls_first else None
        if shared.settings.trusted_proxies:
            return ProxyHeaderReader(shared, partial(SmtpConnection, shared, self.handler, tls_first=tls))
        return SmtpConnection(shared, self.handler, None, tls)

    async def watch(self) -> None:
        """Close connections that are idle, too slow or do not read, until cancelled. One timer serves all of them."""
        while True:
            await anyio.sleep(_WATCH_INTERVAL_SECONDS)
            self.close_idle(self.connections.loop.time())

    def close_idle(self, now: float) -> None:
        """Close the connections that are idle, too slow or do not read, at loop time ``now``."""
        for connection in list(self.connections.open):
            connection.watch(now)

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting connections and close idle ones; incoming messages have ``grace_seconds`` to complete."""
        self.connections.stopping = True
        for listener in self._listeners:
            listener.close()
        for connection in list(self.connections.open):
            connection.stop()
        with anyio.move_on_after(grace_seconds):
            while self.connections.open or self.connections.tasks:
                await anyio.sleep(0.01)
        for connection in list(self.connections.open):
            connection.abort()
