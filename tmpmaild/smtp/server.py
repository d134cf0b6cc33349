"""The process's SMTP server: accepts, monitors and closes connections.

Individual connections are handled in ``session.py``; the state that all connections share is in ``connections.py``.
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
_PUBLIC_AUTH = 'smtp.auth is "any" on %s: clients with a configured password send it to this server'
_PUBLIC_FAULTS = "smtp.faults is on at %s: anyone who creates an address can delay SMTP connections"
_PUBLIC_REFUSALS = "smtp.keep_refusals is on at %s: anyone who can reach the API can read senders and recipients"

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
        self._tls = tls  # the newest context; sockets with implicit TLS use the context from startup

    def change_settings(self, settings: SmtpSettings, tls: ssl.SSLContext | None) -> None:
        """Apply new settings and a new certificate; open sessions keep the settings that they have announced."""
        self.connections.change_settings(settings)
        self._unknown.limit(settings.unknown_recipients_per_minute, settings.unknown_recipients_burst)
        self.connections.tls = tls
        self._tls = tls or self._tls
        self._warn_if_public()

    def metrics(self) -> Iterable[Metric]:
        """Return the connection and message metrics."""
        return self.connections.metrics

    @property
    def listening(self) -> bool:
        """Whether the server accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    async def start(self, sockets: Sequence[socket.socket], tls_sockets: Sequence[socket.socket] = ()) -> None:
        """Accept connections on bound sockets; connections to ``tls_sockets`` start with TLS."""
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
        """Until cancelled, close connections whose clients are idle, too slow, or not reading replies.

        A single timer checks all connections.
        """
        while True:
            await anyio.sleep(_WATCH_INTERVAL_SECONDS)
            self.close_idle(self.connections.loop.time())

    def close_idle(self, now: float) -> None:
        """Close connections whose clients are idle, too slow, or not reading replies, at loop time ``now``."""
        for connection in list(self.connections.open):
            connection.watch(now)

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting connections, and close idle connections.

        Messages that are being received may take up to ``grace_seconds`` to complete.
        """
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
