"""A DNS server, asked here: an answer that is too long is refused before it is parsed.

Strangers choose what is asked, and what is answered. 64 KiB take dnspython half a second, which slows
down all other threads; so answers by TCP are parsed by one thread at a time.
"""

import socket
import struct
import time
from threading import Lock
from typing import Any, Final

import dns.exception
import dns.inet
import dns.message
import dns.nameserver
import dns.query

MOST_BYTES: Final = 16 * 1024
"""Of an answer by TCP."""
_MOST_UDP_BYTES: Final = 4096  # more than is asked for; anybody can send a datagram in the name of the server

_LENGTH: Final = struct.Struct("!H")


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
