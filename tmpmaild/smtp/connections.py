"""Limits on SMTP connections, and what all of them share: counts, memory and the TLS context. No I/O."""

import asyncio
import logging
import re
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, Protocol

from msgspec import Struct

from tmpmaild.clients import Networks, belongs, client_name
from tmpmaild.config.settings import Smtp
from tmpmaild.inboxes.faults import Refusals
from tmpmaild.measures import Count, Gauge, Histogram, Measure
from tmpmaild.ratelimit import TokenBuckets, changed_buckets
from tmpmaild.smtp import replies
from tmpmaild.smtp.bounds import Account, Memory, UnknownRecipients
from tmpmaild.smtp.conversation import Conversation
from tmpmaild.smtp.replies import MEMORY_FULL, Reply

MAX_V1_BYTES: Final = 107
_MAX_V2_REST_BYTES = 4096  # what follows the 16 octets; addresses and the longest TLVs that proxies send are within it

_V1_START = b"PROXY "
_IP = rb"([0-9A-Fa-f.:]+)"
_PORT = rb"(0|[1-9][0-9]{0,4})"
_v1_line = re.compile(
    rb"PROXY (?:UNKNOWN(?: [^\r\n]*)?|TCP([46]) %s %s %s %s)\r\n" % (_IP, _IP, _PORT, _PORT)
).fullmatch
_MAX_PORT = 65_535

_V2_START = b"\r\n\r\n\0\r\nQUIT\n"
_V2_FIXED_BYTES = 16
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_MAX_FAMILY, _V2_MAX_TRANSPORT = 3, 2
_V2_TCP4, _V2_TCP6 = 0x11, 0x21
_V2_ADDRESS_BYTES = {_V2_TCP4: 12, _V2_TCP6: 36}

Peer = tuple[str, int]


class BadHeader(Exception):
    """The octets are not, and cannot become, a header; ``str()`` says why and repeats none of them."""


class ProxyHeader(Struct, frozen=True):
    """A header of ``size_bytes``. ``client`` is None where the proxy speaks for itself, as in a health check."""

    client: Peer | None
    size_bytes: int


def parse(octets: bytes) -> ProxyHeader | None:
    """Read the header at the start of what has come; None: more is needed. Raises BadHeader as early as it can."""
    if _begins(octets, _V1_START):
        return _parse_v1(octets)
    if _begins(octets, _V2_START):
        return _parse_v2(octets)
    raise BadHeader("there is none")


def _begins(octets: bytes, start: bytes) -> bool:
    return octets[: len(start)] == start[: len(octets)]


def _parse_v1(octets: bytes) -> ProxyHeader | None:
    size_bytes = octets.find(b"\n", 0, MAX_V1_BYTES) + 1
    if not size_bytes:
        if len(octets) >= MAX_V1_BYTES:
            raise BadHeader("its line does not end")
        return None
    match = _v1_line(octets[:size_bytes])
    if match is None:
        raise BadHeader("its line is malformed")
    version, *values = match.groups()
    return ProxyHeader(_v1_client(version, *values) if version else None, size_bytes)


def _v1_client(version: bytes, *values: bytes) -> Peer:
    source, destination, source_port, destination_port = (value.decode() for value in values)
    kind = IPv4Address if version == b"4" else IPv6Address
    try:
        client, _ = kind(source), kind(destination)
    except ValueError as error:
        raise BadHeader("an address is malformed") from error
    if max(int(source_port), int(destination_port)) > _MAX_PORT:
        raise BadHeader("there is no such port")
    return _name(client), int(source_port)


def _parse_v2(octets: bytes) -> ProxyHeader | None:
    if len(octets) < _V2_FIXED_BYTES:
        return None
    command, family = octets[12:14]
    rest_bytes = int.from_bytes(octets[14:16])
    if command not in (_V2_LOCAL, _V2_PROXY):
        raise BadHeader("neither LOCAL nor PROXY of version 2")
    if rest_bytes > _MAX_V2_REST_BYTES:
        raise BadHeader("it is too long")
    if command == _V2_PROXY:
        _check_family(family, rest_bytes)
    size_bytes = _V2_FIXED_BYTES + rest_bytes
    if len(octets) < size_bytes:
        return None
    return ProxyHeader(_v2_client(family, octets) if command == _V2_PROXY else None, size_bytes)


def _check_family(family: int, rest_bytes: int) -> None:
    if family >> 4 > _V2_MAX_FAMILY or family & 0xF > _V2_MAX_TRANSPORT:
        raise BadHeader("its family of addresses is unknown")
    if rest_bytes < _V2_ADDRESS_BYTES.get(family, 0):
        raise BadHeader("it is shorter than its addresses")


def _v2_client(family: int, octets: bytes) -> Peer | None:
    """Return the client of a TCP connection; who comes by anything else has no address here that limits know."""
    if family == _V2_TCP4:
        return _name(IPv4Address(octets[16:20])), int.from_bytes(octets[24:26])
    if family == _V2_TCP6:
        return _name(IPv6Address(octets[16:32])), int.from_bytes(octets[48:50])
    return None


def _name(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class SmtpMeasures:
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
        self._limits = Count(
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

    def __iter__(self) -> Iterator[Measure]:
        """Yield every measure."""
        counted = (self._mails, self._accepted_bytes, self._refusals, self._limits, self._memory, self._store_seconds)
        return iter((*counted, *self._gauges))

    def count_mail(self, reply: Reply, octets: int, seconds: float) -> None:
        """Count a mail with the reply to its final dot."""
        self._mails.add("accepted" if reply.is_positive else "refused", reply.enhanced_status)
        if reply.is_positive:
            self._accepted_bytes.add(by=octets)
            self._store_seconds.observe(seconds)

    def count_refusal(self, reply: Reply) -> None:
        """Count a negative reply."""
        self._refusals.add(str(reply.code), reply.enhanced_status)
        if reply is MEMORY_FULL:
            self._memory.add()

    def count_refused_connection(self, limit: str) -> None:
        """Count a connection that was refused because of a limit, named by its key."""
        self._limits.add(limit)


_DRAIN_SECONDS = 0.002
# When places run out, a connection is asked to give way at most once in this time; so asking costs a constant.
_ASK_SECONDS = 2
# What the server closes by itself, and what ``admit`` has reported with the name of the limit.
_NOT_REPORTED = frozenset({replies.STOPPING, replies.TIMEOUT, replies.TOO_MANY_CONNECTIONS, replies.BLOCKED_CLIENT})

log = logging.getLogger(__name__)


class SmtpSettings(Smtp, frozen=True, kw_only=True):
    """The section ``[smtp]``, ``hostname`` never empty; ``limits.exempt``; and limits that are fixed."""

    exempt: Networks = ()
    new_connections_per_minute: int = 600
    max_unknown_recipients: int = 100
    unknown_recipients_per_minute: int = 60
    unknown_recipients_burst: int = 600


class Connection(Protocol):
    """What the server needs of an open connection; ``session.py`` has the class."""

    remote_ip: str

    def watch(self, now: float) -> None:
        """Close the connection if the client is idle, too slow or does not read, at loop time ``now``."""

    def give_way(self, now: float) -> bool:
        """Close the connection if it has been idle for a while at loop time ``now``; return whether it does so."""

    def stop(self) -> None:
        """Close the connection once the answer to a mail is sent."""

    def abort(self) -> None:
        """Close the connection at once."""


class Connections:
    """All open SMTP connections of the process, and what they share. ``tls`` may be replaced at any time.

    ``settings`` are changed by ``change_settings``; ``is_blocked`` tells which IP addresses are refused.
    ``open`` has them in the order of their activity, each with the loop time of it, or of being asked to give way.
    ``tasks`` are the answers that are being worked on; some may outlive their connection.
    """

    def __init__(
        self,
        settings: SmtpSettings,
        tls: ssl.SSLContext | None = None,
        is_blocked: Callable[[str], bool] = lambda _: False,
        refused: Refusals | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.tls = tls
        self._is_blocked = is_blocked
        self.refused = refused or Refusals(lambda: 0, wanted=False)
        self.stopping = False
        self.open: OrderedDict[Connection, float] = OrderedDict()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.per_client: Counter[str] = Counter()
        self.memory = Memory()
        self.unknown = UnknownRecipients(self.loop.time)
        self.measures = SmtpMeasures(lambda: len(self.open), lambda: self.memory.held_bytes)
        self._next_drain_at = 0.0
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

    def admit(self, connection: Connection) -> Reply | None:
        """Count a new connection; return the reply that refuses it if it is over a limit."""
        client = client_name(connection.remote_ip)
        self.touch(connection)
        self.per_client[client] += 1
        if self.stopping:  # accepted before the listeners closed
            return replies.STOPPING
        if self._is_blocked(connection.remote_ip):
            self.measures.count_refused_connection("blocked")
            log.info("SMTP connection from %s refused: blocked", client)
            return replies.BLOCKED_CLIENT
        limit = self._exceeded_limit(connection.remote_ip, client)
        return self._refusal(client, limit) if limit else None

    def admit_proxy(self, connection: Connection) -> Reply | None:
        """Count a trusted proxy's connection, whose client is not known yet; return the reply that refuses it.

        Only the limit in all can: the others are for the client.
        """
        self.touch(connection)
        if self.stopping:
            return replies.STOPPING
        return None if self._has_place() else self._refusal(connection.remote_ip, "max_connections")

    def _refusal(self, client: str, limit: str) -> Reply:
        """Report that a limit, named by its key, refuses a client; return the reply."""
        self.measures.count_refused_connection(limit)
        log.info("SMTP connection from %s refused: smtp.%s is reached", client, limit)
        return replies.TOO_MANY_CONNECTIONS

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
        # The limit in all comes last: a client above a limit of its own must not cost another client its place.
        return self._exceeded_own_limit(remote_ip, client) or ("" if self._has_place() else "max_connections")

    def _exceeded_own_limit(self, remote_ip: str, client: str) -> str:
        if self._is_exempt(remote_ip):
            return ""
        if 0 < self.settings.max_connections_per_client < self.per_client[client]:
            return "max_connections_per_client"
        if self._buckets is not None and not self._buckets.take(client, self.loop.time()).allowed:
            return "new_connections_per_minute"
        return ""

    def touch(self, connection: Connection) -> float:
        """Note that a connection is active: it is the last to give way when places run out. Return the loop time."""
        self.open[connection] = now = self.loop.time()
        self.open.move_to_end(connection)
        return now

    def report(self, remote_ip: str, refusals: Iterable[tuple[str, Reply]]) -> None:
        """Count, log and keep what a client was refused, by its IP address: commands and replies."""
        for command, reply in refusals:
            self.measures.count_refusal(reply)
            text = str(reply)
            if reply is replies.MEMORY_FULL:
                log.info("SMTP from %s refused: %s (smtp.max_inflight_bytes is reached)", remote_ip, text)
            elif reply not in _NOT_REPORTED:
                log.info("SMTP from %s refused: %s", remote_ip, text)
            self.refused.add(remote_ip, command, text)

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection that was closed."""
        client = client_name(connection.remote_ip)
        self.open.pop(connection, None)
        self.per_client[client] -= 1
        if not self.per_client[client]:
            del self.per_client[client]

    def client(self, remote_ip: str) -> str | None:
        """Return the client that limits are kept for, None for one that is exempt."""
        return None if self._is_exempt(remote_ip) else client_name(remote_ip)

    def new_account(self, remote_ip: str) -> Account:
        """Open the account of what a connection holds in memory."""
        return Account(self.memory, self.client(remote_ip))

    def new_conversation(self) -> Conversation:
        """Begin the conversation of a new connection."""
        return Conversation(
            self.settings.hostname,
            max_message_bytes=self.settings.max_message_bytes,
            max_unknown_recipients=self.settings.max_unknown_recipients,
            offers_tls=self.tls is not None,
            offers_auth=self.settings.auth == "any",
        )

    def seconds_to_drain(self) -> float:
        """Return the delay before a session may read more of a discarded mail.

        All sessions read such mail in turns, so that it cannot starve the others.
        """
        now = self.loop.time()
        self._next_drain_at = max(self._next_drain_at, now) + _DRAIN_SECONDS
        return self._next_drain_at - now
