"""Listens for SMTP connections, and closes those that are idle; ``session.py`` has what is said on one of them."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import anyio

from tmpmaild.clients import LOCAL, belongs, is_public
from tmpmaild.inboxes.service import InboxService
from tmpmaild.measures import Measure
from tmpmaild.smtp.connections import BadHeader, Connections, Peer, SmtpSettings, parse
from tmpmaild.smtp.handler import Handler
from tmpmaild.smtp.replies import STOPPING, Reply
from tmpmaild.smtp.session import SmtpSession

_HEADER_SECONDS = 5

log = logging.getLogger(__name__)


class Arrival(asyncio.Protocol):
    """The protocol object of a connection until ``new_session`` makes the next, for the client that was named."""

    def __init__(self, connections: Connections, new_session: Callable[[Peer | None], asyncio.Protocol]) -> None:
        self.remote_ip = LOCAL
        self._connections = connections
        self._new_session = new_session
        self._octets = b""
        self._began_at = connections.loop.time()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the header of a trusted proxy, for nothing of others."""
        self._transport = cast("asyncio.Transport", transport)
        self.remote_ip = (transport.get_extra_info("peername") or (LOCAL,))[0]
        if not belongs(self.remote_ip, self._connections.settings.trusted_proxies):
            self._hand_over(None)
            return
        refusal = self._connections.admit_proxy(self)
        if refusal:
            self._refuse(refusal)

    def data_received(self, data: bytes) -> None:
        """Take octets; once they hold the header, hand over the connection with what came behind it."""
        self._octets += data
        try:
            header = parse(self._octets)
        except BadHeader as error:
            self._drop(f"is wrong: {error}")
            return
        if header is not None:
            rest, self._octets = self._octets[header.size_bytes :], b""
            self._connections.open.pop(self, None)
            self._hand_over(header.client, rest)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection; a health check may end without a word."""
        del error
        self._connections.open.pop(self, None)

    # What the server calls.

    def watch(self, now: float) -> None:
        """Close the connection of a proxy that sends no header."""
        if now - self._began_at > _HEADER_SECONDS:
            self._drop("does not come")

    def give_way(self, now: float) -> bool:
        """Stay: the time for the header is short enough."""
        del now
        return False

    def stop(self) -> None:
        """Close the connection; the client is told to come again."""
        self._refuse(STOPPING)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _hand_over(self, client: Peer | None, rest: bytes = b"") -> None:
        session = self._new_session(client)
        self._transport.set_protocol(session)
        session.connection_made(self._transport)
        if rest and not self._transport.is_closing():
            session.data_received(rest)

    def _refuse(self, reply: Reply) -> None:
        self._transport.write(reply.octets)
        self._transport.close()

    def _drop(self, why: str) -> None:
        self._connections.measures.count_refused_connection("proxy_header")
        log.warning("SMTP: the PROXY header from %s %s", self.remote_ip, why)
        self._transport.abort()


_WATCH_INTERVAL_SECONDS = 5
# What the kernel may hold of what a client has sent. uvloop reads a full socket up to 32 times in a row before it looks
# at the next one; what fits one read is taken in turns.
_RECEIVE_BUFFER_BYTES = 64 * 1024
# uvloop accepts one connection per iteration from each listener; with one, a client would wait long behind a crowd.
_LISTENERS_PER_SOCKET = 8


class SmtpServer:
    """The SMTP listeners of the process."""

    def __init__(
        self,
        service: InboxService,
        settings: SmtpSettings,
        tls: ssl.SSLContext | None,
        clock: Callable[[], int],
    ) -> None:
        self.connections = Connections(settings, tls, service.blocks.has_client, service.refusals)
        shared = self.connections
        self.handler = Handler(service, shared.client, shared.unknown, shared.measures, clock)
        self._listeners: list[asyncio.Server] = []
        self._tls = tls  # the last there was: what listens with TLS does so until the next start

    def change_settings(self, settings: SmtpSettings, tls: ssl.SSLContext | None) -> None:
        """Go by other settings and another certificate; open sessions keep what they were told."""
        self.connections.change_settings(settings)
        self.connections.tls = tls
        self._tls = tls or self._tls
        self._warn_if_public()

    def measures(self) -> Iterable[Measure]:
        """Return what is counted of connections and mails."""
        return self.connections.measures

    @property
    def listening(self) -> bool:
        """Whether it accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    async def start(self, sockets: Sequence[socket.socket], tls_sockets: Sequence[socket.socket] = ()) -> None:
        """Accept connections on sockets that are bound already; on ``tls_sockets`` they begin with TLS."""
        for listener in sockets:
            await self._listen(listener, self._new_protocol)
        for listener in tls_sockets:
            await self._listen(listener, self._new_tls_protocol)
        self._warn_if_public()

    async def _listen(self, listener: socket.socket, new_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        loop = self.connections.loop
        for sock in (listener, *(listener.dup() for _ in range(_LISTENERS_PER_SOCKET - 1))):
            self._listeners.append(await loop.create_server(new_protocol, sock=sock, backlog=1024))

    def _warn_if_public(self) -> None:
        ips = {listening.getsockname()[0] for listener in self._listeners for listening in listener.sockets}
        public = sorted(filter(is_public, ips))
        if public and self.connections.settings.auth == "any":
            text = 'smtp.auth is "any" on %s: clients that have a password configured for this server send it here'
            log.warning(text, ", ".join(public))
        if public and self.handler.has_faults:
            text = "smtp.faults is on at %s: who creates an address here can keep SMTP connections waiting"
            log.warning(text, ", ".join(public))
        if public and self.connections.refused.wanted:
            text = "smtp.keep_refusals is on at %s: who reaches the API can read who sends mail to whom"
            log.warning(text, ", ".join(public))

    def _new_protocol(self) -> asyncio.Protocol:
        if self.connections.settings.trusted_proxies:
            return Arrival(self.connections, self._new_session)
        return self._new_session()

    def _new_session(self, client: Peer | None = None) -> SmtpSession:
        return SmtpSession(self.connections, self.handler, client, None)

    def _new_tls_protocol(self) -> asyncio.BaseProtocol:
        if self.connections.settings.trusted_proxies:
            return Arrival(self.connections, self._new_tls_session)
        return self._new_tls_session()

    def _new_tls_session(self, client: Peer | None = None) -> SmtpSession:
        assert self._tls is not None
        return SmtpSession(self.connections, self.handler, client, self._tls)

    async def watch(self) -> None:
        """Close, until cancelled, connections that are idle, too slow or do not read. One timer serves all of them."""
        while True:
            await anyio.sleep(_WATCH_INTERVAL_SECONDS)
            self.close_idle(self.connections.loop.time())

    def close_idle(self, now: float) -> None:
        """Close the connections that are idle, too slow or do not read, at loop time ``now``."""
        for connection in list(self.connections.open):
            connection.watch(now)

    async def stop(self, grace_seconds: float) -> None:
        """Accept no connections, close the idle ones; a mail that is coming in is answered within the grace time."""
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
