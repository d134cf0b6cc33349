"""Asks the operator's resolver. Answers are kept for a while; what one check may ask is bounded in number and time."""

import logging
import math
import socket
import struct
import time
from collections import OrderedDict
from threading import Lock
from typing import Any, Final, NamedTuple

import dns.exception
import dns.inet
import dns.message
import dns.name
import dns.nameserver
import dns.query
import dns.rdatatype
import dns.resolver

from tmpmaild.metrics import Count, Metric
from tmpmaild.model import DnsAnswer

MOST_BYTES: Final = 16 * 1024
"""Of an answer by TCP."""
_MOST_UDP_BYTES: Final = 4096  # more than is asked for; anybody can send a datagram in the name of the server

_LENGTH: Final = struct.Struct("!H")
SYSTEM: Final = "system"
_TRY_SECONDS: Final = 1.5
_LEAST_KEPT_SECONDS: Final = 10
_UNANSWERED_SECONDS: Final = 10  # RFC 9520 §3.2
_SILENT_SECONDS: Final = 10
_LISTEN_SECONDS: Final = 1.5
_MOST_KEPT_SECONDS: Final = 3600
_MOST_NAMES: Final = 4096
_MOST_KEPT_BYTES: Final = 4096  # of one answer, in memory
_RECORD_BYTES: Final = 64  # what a record takes in memory besides its octets
_MOST_QUESTIONS: Final = 100  # RFC 7208 allows ten terms with up to ten names each
_MOST_SHOWN: Final = 24
_SHOWN_CHARACTERS: Final = 300
_UDP_BYTES: Final = 1232
_NO_NAME: Final = (
    *(dns.name.LabelTooLong, dns.name.NameTooLong, dns.name.EmptyLabel),
    *(dns.name.BadEscape, dns.name.IDNAException, UnicodeError),
)

log = logging.getLogger(__name__)


class _Datagrams(socket.socket):
    """A UDP socket that reads only the beginning of a long datagram, which is then malformed."""

    def recvfrom(self, most_bytes: int, flags: int = 0) -> tuple[bytes, Any]:
        return super().recvfrom(min(most_bytes, _MOST_UDP_BYTES), flags)


class TooLong(dns.exception.FormError):
    """The answer is longer than ``MOST_BYTES``."""

    msg = f"the answer has more than {MOST_BYTES} octets"


class Nameserver(dns.nameserver.Do53Nameserver):
    """The server at an address and port; ``parsing`` is held by the one thread that parses an answer by TCP."""

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
        """Ask a question, by TCP with ``max_size``. Raises ``TooLong``, ``OSError`` and what dnspython does."""
        if not max_size:
            return self._by_udp(request, timeout)
        octets = self._by_tcp(request.to_wire(), time.monotonic() + timeout)
        with self._parsing:
            response = dns.message.from_wire(octets)
        if not request.is_response(response):
            raise dns.query.BadResponse
        return response

    def _by_udp(self, request: dns.message.QueryMessage, timeout: float) -> dns.message.Message:
        family = dns.inet.af_for_address(self.address)
        with _Datagrams(family, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(0)  # dnspython waits
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

    def _by_tcp(self, question: bytes, deadline: float) -> bytes:
        try:
            with socket.create_connection((self.address, self.port), _left_seconds(deadline)) as connection:
                connection.sendall(_LENGTH.pack(len(question)) + question)
                (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, deadline))
                if length > MOST_BYTES:
                    raise TooLong
                return _read(connection, length, deadline)
        except TimeoutError as error:
            raise dns.exception.Timeout from error


def _read(connection: socket.socket, count: int, deadline: float) -> bytes:
    octets = b""
    while len(octets) < count:
        connection.settimeout(_left_seconds(deadline))
        piece = connection.recv(count - len(octets))
        if not piece:
            raise EOFError
        octets += piece
    return octets


def _left_seconds(deadline: float) -> float:
    left_seconds = deadline - time.monotonic()
    if left_seconds <= 0:
        raise TimeoutError
    return left_seconds


class Unresolved(Exception):
    """There was no answer, for a reason that may pass."""


class Answer(NamedTuple):
    """The values of the records of a type; ``exists`` says whether the name has records of any type."""

    values: tuple[Any, ...]
    exists: bool


class Resolver:
    """The resolver at ``host:port``, or that of the machine with ``SYSTEM``; used in any thread until ``close``.

    Raises ``Unresolved`` if the machine has none.
    """

    def __init__(self, place: str) -> None:
        try:
            self._stub = dns.resolver.Resolver(configure=place == SYSTEM)
        except dns.resolver.NoResolverConfiguration as error:
            raise Unresolved(f"this machine has no resolver ({error})") from error
        if place != SYSTEM:
            host, _, port = place.rpartition(":")
            self._stub.nameservers, self._stub.port = [host.strip("[]")], int(port)
        self._stub.timeout = self._stub.lifetime = _TRY_SECONDS
        self._stub.use_edns(0, 0, _UDP_BYTES)
        parsing = Lock()
        self._stub.nameservers = [Nameserver(str(one), self._stub.port, parsing) for one in self._stub.nameservers]
        self._known: OrderedDict[tuple[str, str], tuple[float, Answer]] = OrderedDict()
        self._unanswered: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._lock = Lock()
        self._closed = False
        self._place = place
        self._heard_at = self._asked_at = -math.inf
        self._is_silent = False
        self._questions = Count("senders_dns_questions_total", "Questions to the resolver of senders.resolver.")
        self._errors = Count("senders_dns_errors_total", "Questions that the resolver did not answer.")
        help_text = "Times that the resolver answered nothing at all for ten seconds, nor who the root servers are."
        self._silences = Count("senders_resolver_silent_total", help_text)

    @property
    def is_silent(self) -> bool:
        """Whether it has not answered for a while, not even who the root servers are."""
        return self._is_silent

    @property
    def name(self) -> str:
        """Its address and port, or a name for that of the machine."""
        return self._place if self._place != SYSTEM else "the resolver of this machine"

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        return (self._questions, self._errors, self._silences)

    def close(self) -> None:
        """Give up all questions within a second or two."""
        self._closed = True

    def ask(self, name: str, kind: str, deadline: float) -> Answer:
        """Return the records of a name, until ``deadline`` of the monotonic clock. Raises ``Unresolved``.

        A name that is not ASCII does not exist: dnspython 2.7 and 2.8 map it by IDNA 2003, for which ``straße`` is
        ``strasse``, a name of somebody else. Names are mapped by ``hostnames`` before.
        """
        if not name.isascii():
            return Answer((), exists=False)
        key = (name.lower().removesuffix("."), kind)  # one dot: a name with two is not valid
        with self._lock:
            until, answer = self._known.get(key, (0.0, Answer((), exists=False)))
            unanswered_until = self._unanswered.get(key, 0.0)
        if time.monotonic() < until:
            return answer
        if time.monotonic() < unanswered_until:
            raise Unresolved(f"{kind} of {name[:100]}: no answer a moment ago")
        answer, kept_seconds = self._asked(name, kind, deadline)
        if _memory_bytes(answer) <= _MOST_KEPT_BYTES:
            with self._lock:
                self._known[key] = (time.monotonic() + kept_seconds, answer)
                self._known.move_to_end(key)
                if len(self._known) > _MOST_NAMES:
                    self._known.popitem(last=False)
        return answer

    def _asked(self, name: str, kind: str, deadline: float) -> tuple[Answer, float]:
        self._questions.add()
        begun = time.monotonic()
        while not self._closed and (left_seconds := deadline - time.monotonic()) > 0:
            try:
                lifetime = min(left_seconds, _TRY_SECONDS)
                found = self._stub.resolve(name, kind, raise_on_no_answer=False, lifetime=lifetime, search=False)
            except dns.resolver.LifetimeTimeout:
                continue
            except dns.resolver.NXDOMAIN as error:
                self._hear()
                (response,) = error.kwargs["responses"].values()
                return Answer((), exists=False), _kept_seconds(response)
            except _NO_NAME:
                return Answer((), exists=False), _LEAST_KEPT_SECONDS  # no such name can be
            except dns.exception.DNSException as error:
                if _is_answered(error):
                    self._hear()
                self._errors.add()
                raise Unresolved(f"{kind} of {name[:100]}: {_reason(error)}") from error
            self._hear()
            return Answer(tuple(map(_value, found)), exists=True), _kept_seconds(found.response)
        self._errors.add()
        if time.monotonic() - begun >= _TRY_SECONDS:
            self._note_unanswered((name.lower().removesuffix("."), kind))
        if not self._closed:
            self._listen()
        raise Unresolved(f"{kind} of {name[:100]}: no answer in time")

    def _note_unanswered(self, key: tuple[str, str]) -> None:
        """Do not ask this question again for a while."""
        with self._lock:
            self._unanswered[key] = time.monotonic() + _UNANSWERED_SECONDS
            self._unanswered.move_to_end(key)
            if len(self._unanswered) > _MOST_NAMES:
                self._unanswered.popitem(last=False)

    def _listen(self) -> None:
        """Find out whether the resolver answers at all, after a question of a stranger's choice that it did not."""
        with self._lock:
            now = time.monotonic()
            if now - max(self._heard_at, self._asked_at) < _SILENT_SECONDS:
                return
            self._asked_at = now
        try:
            self._stub.resolve(".", "NS", raise_on_no_answer=False, lifetime=_LISTEN_SECONDS, search=False)
        except dns.exception.DNSException as error:
            if not _is_answered(error):
                self._silences.add()
                self._is_silent = True
                log.warning("senders.resolver %s does not answer: senders cannot be checked", self._place)
                return
        self._hear()

    def _hear(self) -> None:
        self._heard_at = time.monotonic()
        if self._is_silent:
            self._is_silent = False
            log.warning("senders.resolver %s answers again", self._place)


def _value(record: Any) -> Any:
    match record.rdtype:
        case dns.rdatatype.TXT:
            return b"".join(record.strings)
        case dns.rdatatype.MX:
            return (record.preference, record.exchange.to_text(omit_final_dot=True))
        case dns.rdatatype.PTR:
            return record.target.to_text(omit_final_dot=True)
    return record.address


def _memory_bytes(answer: Answer) -> int:
    return sum([_RECORD_BYTES + len(value[1] if isinstance(value, tuple) else value) for value in answer.values])


def _kept_seconds(response: Any) -> float:
    ttl: int = response.resolve_chaining().minimum_ttl
    return min(max(ttl, _LEAST_KEPT_SECONDS), _MOST_KEPT_SECONDS)


def _is_answered(error: dns.exception.DNSException) -> bool:
    """Return whether a server has sent a response, such as SERVFAIL."""
    if isinstance(error, dns.resolver.NoNameservers):
        return any(one[4] is not None for one in error.kwargs["errors"])
    return not isinstance(error, dns.resolver.LifetimeTimeout)


def _reason(error: dns.exception.DNSException) -> str:
    """Return what the resolver said, such as SERVFAIL, or what was wrong with its answer."""
    errors = error.kwargs.get("errors") if isinstance(error, dns.resolver.NoNameservers) else None
    return str(errors[-1][3] if errors else error or type(error).__name__)[:100]


class Lookup:
    """The questions of one check. ``checking`` is held by the thread that checks, and released while it waits."""

    def __init__(self, resolver: Resolver, seconds: float, checking: Lock) -> None:
        self._resolver = resolver
        self._deadline = time.monotonic() + seconds
        self._checking = checking
        self._questions = 0
        self.shown: list[DnsAnswer] = []

    def ask(self, name: str, kind: str) -> Answer:
        """Return the records of a name. Raises ``Unresolved``."""
        self._questions += 1
        if self._questions > _MOST_QUESTIONS:
            raise Unresolved(f"more than {_MOST_QUESTIONS} questions to the DNS")
        self._checking.release()
        try:
            answer = self._resolver.ask(name, kind, self._deadline)
        except Unresolved as error:
            self._show(name, kind, str(error))
            raise
        finally:
            self._checking.acquire()
        nothing = "no records of this type" if answer.exists else "no such name"
        self._show(name, kind, "\n".join(map(_as_text, answer.values)) or nothing)
        return answer

    def _show(self, name: str, kind: str, text: str) -> None:
        if len(self.shown) < _MOST_SHOWN:
            self.shown.append(DnsAnswer(printable(name), kind, printable(text, _SHOWN_CHARACTERS)))


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def printable(text: str, most: int = 200) -> str:
    """Return what a stranger wrote without control characters and lone surrogates, cut."""
    return "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text[:most])
