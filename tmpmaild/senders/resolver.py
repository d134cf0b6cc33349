"""Queries the operator's resolver, caches its answers, and limits the number and duration of a check's queries."""

import logging
import math
import socket
import struct
import time
from collections import OrderedDict
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

import dns.exception
import dns.inet
import dns.message
import dns.name
import dns.nameserver
import dns.query
import dns.rdata
import dns.resolver
from dns.rdtypes.ANY.MX import MX
from dns.rdtypes.ANY.PTR import PTR
from dns.rdtypes.ANY.TXT import TXT
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA

from tmpmaild.metrics import Count, Metric
from tmpmaild.model import DnsAnswer

MAX_BYTES: Final = 16 * 1024
"""The size limit for an answer over TCP."""
# Larger than the size offered with EDNS, but limited because anyone can forge a datagram from the server.
_MAX_UDP_BYTES: Final = 4096

_LENGTH: Final = struct.Struct("!H")
SYSTEM: Final = "system"
_TRY_SECONDS: Final = 1.5
_MIN_CACHED_SECONDS: Final = 10
_UNANSWERED_SECONDS: Final = 10  # RFC 9520 §3.2
_SILENT_SECONDS: Final = 10
_PROBE_SECONDS: Final = 1.5
_MAX_CACHED_SECONDS: Final = 3600
_MAX_NAMES: Final = 4096
_MAX_CACHED_BYTES: Final = 4096  # memory used by one answer
_RECORD_BYTES: Final = 64  # memory overhead of a record beyond its bytes
_MAX_QUERIES: Final = 100  # RFC 7208 permits ten terms with up to ten names each
_MAX_SHOWN: Final = 24
_SHOWN_CHARACTERS: Final = 300
_UDP_BYTES: Final = 1232
_INVALID_NAME: Final = (
    dns.name.LabelTooLong,
    dns.name.NameTooLong,
    dns.name.EmptyLabel,
    dns.name.BadEscape,
    dns.name.IDNAException,
    UnicodeError,
)

Value: TypeAlias = bytes | str | tuple[int, str]
"""The value of a record: the text of TXT, the address of A or AAAA, the name of PTR, the preference and name of MX."""

log = logging.getLogger(__name__)


class _Datagrams(socket.socket):
    """A UDP socket that truncates a long datagram, which then fails to parse."""

    def recvfrom(self, most_bytes: int, flags: int = 0) -> tuple[bytes, object]:
        return super().recvfrom(min(most_bytes, _MAX_UDP_BYTES), flags)


class TooLong(dns.exception.FormError):
    """The answer is longer than ``MAX_BYTES``."""

    msg = f"the answer has more than {MAX_BYTES} bytes"


class Nameserver(dns.nameserver.Do53Nameserver):
    """A server at an address and port. A thread that parses an answer from TCP holds the lock ``parsing``."""

    def __init__(self, address: str, port: int, parsing: Lock) -> None:
        super().__init__(address, port)
        self._parsing = parsing

    def query(
        self,
        request: dns.message.QueryMessage,
        timeout: float,
        source: str | None,  # noqa: ARG002
        source_port: int,  # noqa: ARG002
        max_size: bool,  # noqa: FBT001
        *more: bool,  # noqa: ARG002
    ) -> dns.message.Message:
        """Send a query, over TCP if ``max_size`` is set. Raises ``TooLong``, ``OSError`` and dnspython's exceptions."""
        if not max_size:
            return self._by_udp(request, timeout)
        wire = self._by_tcp(request.to_wire(), time.monotonic() + timeout)
        with self._parsing:
            response = dns.message.from_wire(wire)
        if not request.is_response(response):
            raise dns.query.BadResponse
        return response

    def _by_udp(self, request: dns.message.QueryMessage, timeout: float) -> dns.message.Message:
        family = dns.inet.af_for_address(self.address)
        with _Datagrams(family, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(0)  # dnspython waits for data before it reads
            return dns.query.udp(
                request,
                self.address,
                timeout,
                self.port,
                raise_on_truncation=True,
                ignore_errors=True,
                ignore_unexpected=True,
                sock=datagrams,
            )

    def _by_tcp(self, query: bytes, deadline: float) -> bytes:
        try:
            with socket.create_connection((self.address, self.port), _left_seconds(deadline)) as connection:
                connection.sendall(_LENGTH.pack(len(query)) + query)
                (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, deadline))
                if length > MAX_BYTES:
                    raise TooLong
                return _read(connection, length, deadline)
        except TimeoutError as error:
            raise dns.exception.Timeout from error


def _read(connection: socket.socket, count: int, deadline: float) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(_left_seconds(deadline))
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _left_seconds(deadline: float) -> float:
    left_seconds = deadline - time.monotonic()
    if left_seconds <= 0:
        raise TimeoutError
    return left_seconds


class Unresolved(Exception):
    """A query received no answer, for a reason that may be temporary."""


class Answer(NamedTuple):
    """The values of a name's records of one type; ``exists`` is true if the name has records of any type."""

    values: tuple[Value, ...]
    exists: bool

    @property
    def texts(self) -> tuple[bytes, ...]:
        """The values of TXT records."""
        return tuple([value for value in self.values if isinstance(value, bytes)])

    @property
    def addresses(self) -> tuple[str, ...]:
        """The values of A and AAAA records."""
        return tuple([value for value in self.values if isinstance(value, str)])

    @property
    def exchanges(self) -> tuple[tuple[int, str], ...]:
        """The values of MX records."""
        return tuple([value for value in self.values if isinstance(value, tuple)])


class Resolver:
    """The resolver at ``host:port`` or, for ``SYSTEM``, the system's resolver; any thread may use it until ``close``.

    Raises ``Unresolved`` if the machine has no resolver.
    """

    def __init__(self, server: str) -> None:
        try:
            self._stub = dns.resolver.Resolver(configure=server == SYSTEM)
        except dns.resolver.NoResolverConfiguration as error:
            raise Unresolved(f"this machine has no resolver ({error})") from error
        if server != SYSTEM:
            host, _, port = server.rpartition(":")
            self._stub.nameservers, self._stub.port = [host.strip("[]")], int(port)
        self._stub.timeout = self._stub.lifetime = _TRY_SECONDS
        self._stub.use_edns(0, 0, _UDP_BYTES)
        parsing = Lock()
        self._stub.nameservers = [Nameserver(str(one), self._stub.port, parsing) for one in self._stub.nameservers]
        self._cache: OrderedDict[tuple[str, str], tuple[float, Answer]] = OrderedDict()
        self._unanswered: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._lock = Lock()
        self._closed = False
        self._server = server
        self._answered_at = self._probed_at = -math.inf
        self._is_silent = False
        self._queries = Count("senders_dns_questions_total", "DNS queries sent to senders.resolver.")
        self._errors = Count("senders_dns_errors_total", "DNS queries without a response, or with an error.")
        help_text = "Times that the resolver did not respond for ten seconds, not even to a query for the root servers."
        self._silences = Count("senders_resolver_silent_total", help_text)

    @property
    def is_silent(self) -> bool:
        """Whether the resolver has not responded to any query for a while, including one for the root servers."""
        return self._is_silent

    @property
    def name(self) -> str:
        """The address and port, or a description of the system's resolver."""
        return self._server if self._server != SYSTEM else "the resolver of this machine"

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        return (self._queries, self._errors, self._silences)

    def close(self) -> None:
        """Make all queries stop within a second or two."""
        self._closed = True

    def query(self, name: str, kind: str, deadline: float) -> Answer:
        """Return the records of a name; ``deadline`` is a time on the monotonic clock. Raises ``Unresolved``.

        A non-ASCII name is treated as non-existent, because names have already been mapped by ``hostnames``. With
        dnspython 2.7 and 2.8, IDNA 2003 would turn ``straße`` into ``strasse``, which may have a different owner.
        """
        if not name.isascii():
            return Answer((), exists=False)
        key = (name.lower().removesuffix("."), kind)  # removes only one dot: a name that ends with two dots is invalid
        with self._lock:
            until, answer = self._cache.get(key, (0.0, Answer((), exists=False)))
            unanswered_until = self._unanswered.get(key, 0.0)
        if time.monotonic() < until:
            return answer
        if time.monotonic() < unanswered_until:
            raise Unresolved(f"{kind} of {name[:100]}: no response a moment ago")
        answer, cached_seconds = self._query_now(name, kind, deadline)
        if _memory_bytes(answer) <= _MAX_CACHED_BYTES:
            with self._lock:
                self._cache[key] = (time.monotonic() + cached_seconds, answer)
                self._cache.move_to_end(key)
                if len(self._cache) > _MAX_NAMES:
                    self._cache.popitem(last=False)
        return answer

    def _query_now(self, name: str, kind: str, deadline: float) -> tuple[Answer, float]:
        self._queries.add()
        begun = time.monotonic()
        while not self._closed and (left_seconds := deadline - time.monotonic()) > 0:
            try:
                lifetime = min(left_seconds, _TRY_SECONDS)
                found = self._stub.resolve(name, kind, raise_on_no_answer=False, lifetime=lifetime, search=False)
            except dns.resolver.LifetimeTimeout:
                continue
            except dns.resolver.NXDOMAIN as error:
                self._note_answered()
                (response,) = error.kwargs["responses"].values()
                return Answer((), exists=False), _cached_seconds(response)
            except _INVALID_NAME:
                return Answer((), exists=False), _MIN_CACHED_SECONDS  # such a name cannot exist
            except dns.exception.DNSException as error:
                if _has_response(error):
                    self._note_answered()
                self._errors.add()
                raise Unresolved(f"{kind} of {name[:100]}: {_reason(error)}") from error
            self._note_answered()
            return Answer(tuple(map(_value, found)), exists=True), _cached_seconds(found.response)
        self._errors.add()
        if time.monotonic() - begun >= _TRY_SECONDS:
            self._note_unanswered((name.lower().removesuffix("."), kind))
        if not self._closed:
            self._probe()
        raise Unresolved(f"{kind} of {name[:100]}: no response in time")

    def _note_unanswered(self, key: tuple[str, str]) -> None:
        """Do not send this query again for a while."""
        with self._lock:
            self._unanswered[key] = time.monotonic() + _UNANSWERED_SECONDS
            self._unanswered.move_to_end(key)
            if len(self._unanswered) > _MAX_NAMES:
                self._unanswered.popitem(last=False)

    def _probe(self) -> None:
        """Check whether the resolver still responds, after it did not answer a query chosen by an untrusted party."""
        with self._lock:
            now = time.monotonic()
            if now - max(self._answered_at, self._probed_at) < _SILENT_SECONDS:
                return
            self._probed_at = now
        try:
            self._stub.resolve(".", "NS", raise_on_no_answer=False, lifetime=_PROBE_SECONDS, search=False)
        except dns.exception.DNSException as error:
            if not _has_response(error):
                self._silences.add()
                self._is_silent = True
                log.warning("senders.resolver %s does not respond: senders cannot be checked", self._server)
                return
        self._note_answered()

    def _note_answered(self) -> None:
        self._answered_at = time.monotonic()
        if self._is_silent:
            self._is_silent = False
            log.warning("senders.resolver %s responds again", self._server)


def _value(record: dns.rdata.Rdata) -> Value:
    match record:
        case TXT():
            return b"".join(record.strings)
        case MX():
            return record.preference, record.exchange.to_text(omit_final_dot=True)
        case PTR():
            return record.target.to_text(omit_final_dot=True)
        case A() | AAAA():
            return str(record.address)
    raise TypeError(f"no value is known for {type(record).__name__}")


def _memory_bytes(answer: Answer) -> int:
    return sum([_RECORD_BYTES + len(value[1] if isinstance(value, tuple) else value) for value in answer.values])


def _cached_seconds(response: dns.message.QueryMessage) -> float:
    ttl = response.resolve_chaining().minimum_ttl
    return min(max(ttl, _MIN_CACHED_SECONDS), _MAX_CACHED_SECONDS)


def _has_response(error: dns.exception.DNSException) -> bool:
    """Return whether a server has sent a response, such as SERVFAIL."""
    if isinstance(error, dns.resolver.NoNameservers):
        return any(one[4] is not None for one in error.kwargs["errors"])
    return not isinstance(error, dns.resolver.LifetimeTimeout)


def _reason(error: dns.exception.DNSException) -> str:
    """Return the resolver's response, such as SERVFAIL, if there was one; otherwise the error."""
    errors = error.kwargs.get("errors") if isinstance(error, dns.resolver.NoNameservers) else None
    what = errors[-1][3] if errors else error or type(error).__name__
    return str(what.strerror or what if isinstance(what, OSError) else what)[:100]


class Lookup:
    """The queries of one check.

    The checking thread holds the lock ``checking``, except while it waits for an answer.
    """

    def __init__(self, resolver: Resolver, seconds: float, checking: Lock) -> None:
        self._resolver = resolver
        self._deadline = time.monotonic() + seconds
        self._checking = checking
        self._count = 0
        self.shown: list[DnsAnswer] = []

    def query(self, name: str, kind: str) -> Answer:
        """Return the records of a name. Raises ``Unresolved``."""
        self._count += 1
        if self._count > _MAX_QUERIES:
            raise Unresolved(f"more than {_MAX_QUERIES} DNS queries")
        self._checking.release()
        try:
            answer = self._resolver.query(name, kind, self._deadline)
        except Unresolved as error:
            self._show(name, kind, str(error))
            raise
        finally:
            self._checking.acquire()
        nothing = "no records of this type" if answer.exists else "no such name"
        self._show(name, kind, "\n".join(map(_as_text, answer.values)) or nothing)
        return answer

    def _show(self, name: str, kind: str, text: str) -> None:
        if len(self.shown) < _MAX_SHOWN:
            self.shown.append(DnsAnswer(printable(name), kind, printable(text, _SHOWN_CHARACTERS)))


def _as_text(value: Value) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def printable(text: str, most: int = 200) -> str:
    """Replace control characters and lone surrogates in untrusted text, and truncate it to ``most`` characters."""
    return "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text[:most])
