"""A connection while it is not known whose it is: a trusted proxy says so in a header, before anything else.

Used only where proxies are trusted. What comes after the header, and everybody else's connection, is ``session.py``'s.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from tmpmaild.peers import LOCAL, belongs
from tmpmaild.smtp.connections import Connections
from tmpmaild.smtp.proxyprotocol import BadHeader, Peer, parse
from tmpmaild.smtp.replies import STOPPING, Reply

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
