"""Listens for SMTP connections; their limits, and what all of them share; the PROXY protocol before some of them.

``session.py`` has what happens on one connection.
"""

import asyncio
import logging
import re
import socket
import ssl
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import chain, count
from typing import Any, Final, cast

import anyio
from msgspec import Struct

from tmpmaild.clients import LOCAL, Networks, belongs, client_name, is_public
from tmpmaild.config.settings import Smtp
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.faults import Refusals
from tmpmaild.inboxes.service import InboxService
from tmpmaild.listening import BACKLOG, listeners
from tmpmaild.metrics import Count, Gauge, Histogram, Metric
from tmpmaild.ratelimit import TokenBuckets, changed_buckets
from tmpmaild.smtp import replies
from tmpmaild.smtp.handler import Handler, UnknownRecipients
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.session import ClientAddress, MailMemory, SmtpConnection

_WATCH_INTERVAL_SECONDS = 5
_DRAIN_SECONDS = 0.002
# When places run out, a connection is asked to give way at most once in this time; so asking costs a constant.
_ASK_SECONDS = 2
# What the server closes by itself, and what ``admit`` has reported with the name of the limit.
_NOT_REPORTED = frozenset({replies.STOPPING, replies.TIMEOUT, replies.TOO_MANY_CONNECTIONS, replies.BLOCKED_CLIENT})
_PROXY_HEADER_SECONDS = 5
_PUBLIC_AUTH = 'smtp.auth is "any" on %s: clients that have a password configured for this server send it here'
_PUBLIC_FAULTS = "smtp.faults is on at %s: who creates an address here can keep SMTP connections waiting"
_PUBLIC_REFUSALS = "smtp.keep_refusals is on at %s: who reaches the API can read who sends mail to whom"

MAX_V1_BYTES: Final = 107
_MAX_V2_REST_BYTES = 4096  # what follows the 16 octets; addresses and the longest TLVs that proxies send are within it

_V1_START = b"PROXY "
_IP = rb"([0-9A-Fa-f.:]+)"
_PORT = rb"(0|[1-9][0-9]{0,4})"
_v1_line = re.compile(
    rb"PROXY (?:UNKNOWN(?: [^\r\n]*)?|TCP([46]) %s %s %s %s)\r\n" % (_IP, _IP, _PORT, _PORT)
).fullmatch
_MAX_PORT = 65_535
_SHOWN_BYTES = 32  # of a header that cannot be read, in the log

_V2_START = b"\r\n\r\n\0\r\nQUIT\n"
_V2_FIXED_BYTES = 16
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_MAX_FAMILY, _V2_MAX_TRANSPORT = 3, 2
_V2_TCP4, _V2_TCP6 = 0x11, 0x21
_V2_ADDRESS_BYTES = {_V2_TCP4: 12, _V2_TCP6: 36}

log = logging.getLogger(__name__)
refusal_log = logging.getLogger("tmpmaild.smtp.connections")
"""Its name is in operators' filters for fail2ban."""


class SmtpSettings(Smtp, frozen=True, kw_only=True):
    """The section ``[smtp]``, ``hostname`` never empty; ``limits.exempt``; and limits that are fixed."""

    exempt: Networks = ()
    new_connections_per_minute: int = 600
    max_unknown_recipients: int = 100
    unknown_recipients_per_minute: int = 60
    unknown_recipients_burst: int = 600


class SmtpServer:
    """The SMTP listeners of the process."""

    def __init__(
        self,
        service: InboxService,
        settings: SmtpSettings,
        tls: ssl.SSLContext | None,
        clock: Callable[[], int],
    ) -> None:
        self.connections = Connections(settings, tls, service.blocks, service.refusals)
        shared = self.connections
        self.handler = Handler(service, shared.unknown, shared.metrics.count_mail, clock)
        self._faults = service.faults
        self._listeners: list[asyncio.Server] = []
        self._tls = tls  # the last there was: what listens with TLS does so until the next start

    def change_settings(self, settings: SmtpSettings, tls: ssl.SSLContext | None) -> None:
        """Go by other settings and another certificate; open sessions keep what they were told."""
        self.connections.change_settings(settings)
        self.connections.tls = tls
        self._tls = tls or self._tls
        self._warn_if_public()

    def metrics(self) -> Iterable[Metric]:
        """Return what is counted of connections and mails."""
        return self.connections.metrics

    @property
    def listening(self) -> bool:
        """Whether it accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    async def start(self, sockets: Sequence[socket.socket], tls_sockets: Sequence[socket.socket] = ()) -> None:
        """Accept connections on sockets that are bound already; on ``tls_sockets`` they begin with TLS."""
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
            return Arrival(shared, partial(SmtpConnection, shared, self.handler, tls_first=tls))
        return SmtpConnection(shared, self.handler, None, tls)

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


class Connections:
    """All open SMTP connections of the process, and what they share. ``tls`` may be replaced at any time.

    ``settings`` are changed by ``change_settings``; ``blocks`` says which IP addresses are refused.
    ``open`` has them in the order of their activity, each with the loop time of it, or of being asked to give way.
    ``tasks`` are the answers that are being worked on; some may outlive their connection. ``numbers`` are for sessions.
    """

    def __init__(
        self,
        settings: SmtpSettings,
        tls: ssl.SSLContext | None,
        blocks: Blocks,
        refused: Refusals,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tls = tls
        self._blocks = blocks
        self.refused = refused
        self.stopping = False
        self.open: OrderedDict[_AnyConnection, float] = OrderedDict()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.per_client: defaultdict[str, int] = defaultdict(int)
        self.memory = MailMemory()
        self.unknown = UnknownRecipients(self.loop.time)
        self.metrics = SmtpMetrics(lambda: len(self.open), lambda: self.memory.held_bytes)
        self._next_drain_at = 0.0
        self.numbers = count(1)
        self._buckets: TokenBuckets | None = None
        self.change_settings(settings)

    def change_settings(self, settings: SmtpSettings) -> None:
        """Go by other settings. What an open session was told, such as the SIZE, stays as it is."""
        self.settings = settings
        max_bytes = settings.max_inflight_bytes
        self.memory.limit(max_bytes, max(max_bytes // 2, settings.max_message_bytes))
        self._buckets = changed_buckets(self._buckets, TokenBuckets, settings.new_connections_per_minute)
        self.unknown.limit(settings.unknown_recipients_per_minute, settings.unknown_recipients_burst)
        self._is_exempt = lru_cache(maxsize=4096)(lambda ip: belongs(ip, settings.exempt))

    def admit(self, connection: "_AnyConnection") -> Reply | None:
        """Count a new connection; return the reply that refuses it if it is over a limit."""
        client = client_name(connection.remote_ip)
        self.touch(connection)
        self.per_client[client] += 1
        if self.stopping:  # accepted before the listeners closed
            return replies.STOPPING
        if self._blocks.has_any and self._blocks.has_client(connection.remote_ip):
            self.metrics.refused_connections.add("blocked")
            text, reply = "SMTP connection from %s refused: blocked", replies.BLOCKED_CLIENT
            extra = {"event": "smtp_connection_refused", "client": client, "code": reply.status}
            refusal_log.info(text, client, extra=extra)
            return reply
        limit = self._exceeded_limit(connection.remote_ip, client)
        return self._refusal(client, limit) if limit else None

    def admit_proxy(self, connection: "_AnyConnection") -> Reply | None:
        """Count a trusted proxy's connection, whose client is not known yet; return the reply that refuses it.

        Only the limit in all can: the others are for the client.
        """
        self.touch(connection)
        if self.stopping:
            return replies.STOPPING
        return None if self._has_place() else self._refusal(connection.remote_ip, "max_connections")

    def _refusal(self, client: str, limit: str) -> Reply:
        """Report that a limit, named by its key, refuses a client; return the reply."""
        self.metrics.refused_connections.add(limit)
        text, reply = "SMTP connection from %s refused: smtp.%s is reached", replies.TOO_MANY_CONNECTIONS
        key = f"smtp.{limit}"
        extra = {"event": "smtp_connection_refused", "client": client, "code": reply.status, "limit": key}
        refusal_log.info(text, client, limit, extra=extra)
        return reply

    def _has_place(self) -> bool:
        return not 0 < self.settings.max_connections < len(self.open) or self._free_a_place()

    def _free_a_place(self) -> bool:
        """Ask those that have been silent longest to give way, until one does."""
        now = self.loop.time()
        while now - self.open[longest := next(iter(self.open))] >= _ASK_SECONDS:
            if longest.give_way(now):
                return True
            self.touch(longest)
        return False

    def _exceeded_limit(self, remote_ip: str, client: str) -> str:
        """Return the key of the limit that the newest connection exceeds, or ""."""
        if not self._is_exempt(remote_ip):
            if 0 < self.settings.max_connections_per_client < self.per_client[client]:
                return "max_connections_per_client"
            if self._buckets is not None and not self._buckets.take(client, self.loop.time()).allowed:
                return "new_connections_per_minute"
        # The limit in all comes last: a client above a limit of its own must not cost another client its place.
        return "" if self._has_place() else "max_connections"

    def touch(self, connection: "_AnyConnection") -> float:
        """Note that a connection is active: it is the last to give way when places run out. Return the loop time."""
        self.open[connection] = now = self.loop.time()
        self.open.move_to_end(connection)
        return now

    def report(self, remote_ip: str, session: int, refusals: Iterable[tuple[str, Reply]]) -> None:
        """Count, log and keep what a client was refused, by its IP address: commands and replies."""
        for command, reply in refusals:
            self.metrics.count_refusal(reply)
            text = str(reply)
            if reply not in _NOT_REPORTED:
                limit = "smtp.max_inflight_bytes" if reply is replies.MEMORY_FULL else ""
                why = f"{text} ({limit} is reached)" if limit else text
                extra = {
                    "event": "smtp_refused",
                    "client": remote_ip,
                    "session": session,
                    "code": reply.status,
                    "limit": limit,
                }
                refusal_log.info("SMTP from %s refused: %s", remote_ip, why, extra=extra)
            self.refused.add(remote_ip, command, text)

    def forget(self, connection: "_AnyConnection") -> None:
        """Stop counting a connection that was closed."""
        client = client_name(connection.remote_ip)
        self.open.pop(connection, None)
        self.per_client[client] -= 1
        if not self.per_client[client]:
            del self.per_client[client]

    def client(self, remote_ip: str) -> str | None:
        """Return the client that limits are kept for, None for one that is exempt."""
        return None if self._is_exempt(remote_ip) else client_name(remote_ip)

    def seconds_to_drain(self) -> float:
        """Return the delay before a session may read more of a discarded mail.

        All sessions read such mail in turns, so that it cannot starve the others.
        """
        now = self.loop.time()
        self._next_drain_at = max(self._next_drain_at, now) + _DRAIN_SECONDS
        return self._next_drain_at - now


class SmtpMetrics:
    """The numbers of all SMTP connections; ``sessions`` returns how many are open."""

    def __init__(self, sessions: Callable[[], int], held_bytes: Callable[[], int]) -> None:
        self._mails = Count(
            "smtp_mails_total",
            "Mails that came to their final dot, by result (accepted, refused) and the reply's status code.",
            ("result", "status"),
        )
        self._accepted_bytes = Count("smtp_accepted_bytes_total", "Octets of the accepted mails.")
        self._refusals = Count(
            "smtp_refusals_total", "Negative replies, by code and enhanced status code.", ("code", "status")
        )
        self.refused_connections = Count(
            "smtp_refused_connections_total", "Connections refused, by the limit they met, or blocked.", ("limit",)
        )
        self._memory = Count(
            "smtp_memory_refusals_total",
            "Mails refused because too much mail was coming in at once, for all or one client.",
        )
        self._store_seconds = Histogram("smtp_store_seconds", "From the final dot of a mail to its reply.")
        self._gauges = (
            Gauge("smtp_sessions", "Open SMTP connections.", sessions),
            Gauge("smtp_held_bytes", "Octets of unfinished and unstored mail in memory.", held_bytes),
        )

    def __iter__(self) -> Iterator[Metric]:
        """Yield every metric."""
        counted = (
            self._mails,
            self._accepted_bytes,
            self._refusals,
            self.refused_connections,
            self._memory,
            self._store_seconds,
        )
        return iter((*counted, *self._gauges))

    def count_mail(self, reply: Reply, octets: int = 0, seconds: float = 0.0) -> None:
        """Count a message with the reply to its final dot."""
        self._mails.add("accepted" if reply.is_positive else "refused", reply.enhanced_status)
        if reply.is_positive:
            self._accepted_bytes.add(by=octets)
            self._store_seconds.observe(seconds)

    def count_refusal(self, reply: Reply) -> None:
        """Count a negative reply."""
        self._refusals.add(str(reply.code), reply.enhanced_status)
        if reply is replies.MEMORY_FULL:
            self._memory.add()


class Arrival(asyncio.Protocol):
    """The protocol object of a connection until ``new_connection`` makes the next, for the client that was named."""

    def __init__(
        self, connections: Connections, new_connection: Callable[[ClientAddress | None], SmtpConnection]
    ) -> None:
        self.remote_ip = LOCAL
        self._connections = connections
        self._new_connection = new_connection
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
            header = parse_proxy_header(self._octets)
        except BadProxyHeader as error:
            self._drop(f"is wrong: {error}; it begins with {self._octets[:_SHOWN_BYTES]!r}")
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
        if now - self._began_at > _PROXY_HEADER_SECONDS:
            self._drop("does not come")

    def give_way(self, now: float) -> bool:
        """Stay: the time for the header is short enough."""
        del now
        return False

    def stop(self) -> None:
        """Close the connection; the client is told to come again."""
        self._refuse(replies.STOPPING)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _hand_over(self, client: ClientAddress | None, rest: bytes = b"") -> None:
        connection = self._new_connection(client)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        if rest and not self._transport.is_closing():
            connection.data_received(rest)

    def _refuse(self, reply: Reply) -> None:
        self._transport.write(reply.octets)
        self._transport.close()

    def _drop(self, why: str) -> None:
        self._connections.metrics.refused_connections.add("proxy_header")
        extra = {"about": self.remote_ip, "event": "smtp_proxy_header", "client": self.remote_ip}
        log.warning("SMTP: the PROXY header from %s %s", self.remote_ip, why, extra=extra)
        self._transport.abort()


_AnyConnection = Arrival | SmtpConnection


class BadProxyHeader(Exception):
    """The octets are not, and cannot become, a header; ``str()`` says why and repeats none of them."""


class ProxyHeader(Struct, frozen=True):
    """A header of ``size_bytes``. ``client`` is None where the proxy speaks for itself, as in a health check."""

    client: ClientAddress | None
    size_bytes: int


def parse_proxy_header(octets: bytes) -> ProxyHeader | None:
    """Read the header at the start of what has come; None: more is needed. Raises BadProxyHeader as early as it can."""
    if _begins(octets, _V1_START):
        return _parse_v1(octets)
    if _begins(octets, _V2_START):
        return _parse_v2(octets)
    raise BadProxyHeader("there is none")


def _begins(octets: bytes, start: bytes) -> bool:
    return octets[: len(start)] == start[: len(octets)]


def _parse_v1(octets: bytes) -> ProxyHeader | None:
    size_bytes = octets.find(b"\n", 0, MAX_V1_BYTES) + 1
    if not size_bytes:
        if len(octets) >= MAX_V1_BYTES:
            raise BadProxyHeader("its line does not end")
        return None
    match = _v1_line(octets[:size_bytes])
    if match is None:
        raise BadProxyHeader("its line is malformed")
    version, *values = match.groups()
    return ProxyHeader(_v1_client(version, *values) if version else None, size_bytes)


def _v1_client(version: bytes, *values: bytes) -> ClientAddress:
    # nginx writes the family of the client, whatever the destination is; that is not used here.
    source, destination, source_port, destination_port = (value.decode() for value in values)
    kind = IPv4Address if version == b"4" else IPv6Address
    try:
        client, _ = kind(source), ip_address(destination)
    except ValueError as error:
        raise BadProxyHeader("an address is malformed") from error
    if max(int(source_port), int(destination_port)) > _MAX_PORT:
        raise BadProxyHeader("there is no such port")
    return _ip_text(client), int(source_port)


def _parse_v2(octets: bytes) -> ProxyHeader | None:
    if len(octets) < _V2_FIXED_BYTES:
        return None
    command, family = octets[12:14]
    rest_bytes = int.from_bytes(octets[14:16])
    if command not in (_V2_LOCAL, _V2_PROXY):
        raise BadProxyHeader("neither LOCAL nor PROXY of version 2")
    if rest_bytes > _MAX_V2_REST_BYTES:
        raise BadProxyHeader("it is too long")
    if command == _V2_PROXY:
        _check_family(family, rest_bytes)
    size_bytes = _V2_FIXED_BYTES + rest_bytes
    if len(octets) < size_bytes:
        return None
    return ProxyHeader(_v2_client(family, octets) if command == _V2_PROXY else None, size_bytes)


def _check_family(family: int, rest_bytes: int) -> None:
    if family >> 4 > _V2_MAX_FAMILY or family & 0xF > _V2_MAX_TRANSPORT:
        raise BadProxyHeader("its family of addresses is unknown")
    if rest_bytes < _V2_ADDRESS_BYTES.get(family, 0):
        raise BadProxyHeader("it is shorter than its addresses")


def _v2_client(family: int, octets: bytes) -> ClientAddress | None:
    """Return the client of a TCP connection; who comes by anything else has no address here that limits know."""
    if family == _V2_TCP4:
        return _ip_text(IPv4Address(octets[16:20])), int.from_bytes(octets[24:26])
    if family == _V2_TCP6:
        return _ip_text(IPv6Address(octets[16:32])), int.from_bytes(octets[48:50])
    return None


def _ip_text(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
