"""Server side of the TLS handshake, on a connection that may have started in clear text."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

_HANDSHAKE_SECONDS = 15.0
_TLS_HANDSHAKE = b"\x16\x03"  # start of a record that contains a ClientHello (RFC 8446 §5.1)
_HELLO_VERSION = slice(9, 11)
_RECORD_BYTES = 5
_TLS_1_2 = b"\x03\x03"  # TLS 1.3 uses the same value in this field


async def perform(
    transport: asyncio.Transport, protocol: asyncio.Protocol, context: ssl.SSLContext, early: bytes
) -> asyncio.Transport | None:
    """Perform the handshake; return the encrypted transport for ``protocol``. Raises ``OSError`` and ``ssl.SSLError``.

    ``early`` is the part of the ClientHello that has already been received.
    """
    transport.pause_reading()  # uvloop resumes reading after connection_made, even if connection_made paused it
    early = await _hello(transport, protocol, early)
    loop = asyncio.get_running_loop()
    loop.call_soon(_feed, transport, early)  # runs after start_tls has set the protocol but before it resumes reading
    return await loop.start_tls(
        transport, protocol, context, server_side=True, ssl_handshake_timeout=_HANDSHAKE_SECONDS
    )


async def _hello(transport: asyncio.Transport, protocol: asyncio.Protocol, early: bytes) -> bytes:
    """Return the received part of the ClientHello. If its TLS version is too old, send an alert and raise OSError.

    asyncio would close the connection before sending its own alert, so the client would not learn the reason.
    """
    hello = _Hello(early, protocol.connection_lost)
    transport.set_protocol(hello)
    transport.resume_reading()
    try:
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            await hello.has_arrived.wait()
    finally:
        transport.pause_reading()
        transport.set_protocol(protocol)
    if hello.has_ended:
        raise ConnectionResetError
    if hello.is_too_old:
        version = hello.received[_HELLO_VERSION]
        transport.write(b"\x15%b\0\2\2\x46" % version)
        transport.close()
        raise OSError("UNSUPPORTED_PROTOCOL")
    return hello.received


def reason(error: OSError) -> str:
    """Return a readable reason for a failed handshake, which is shown to testers."""
    name = (
        getattr(error, "reason", None)
        or str(error)
        or "the client closed the connection; does it trust the certificate?"
    )
    # The alerts (RFC 8446 §6.2) that a client sends to refuse a certificate.
    distrust = any(alert in name for alert in ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN"))
    return f"{name}: the client does not trust the certificate" if distrust else name


class _Hello(asyncio.Protocol):
    """Receives the start of the ClientHello until it includes the client's TLS version, or the connection closes."""

    def __init__(self, early: bytes, lose: Callable[[Exception | None], None]) -> None:
        self.has_arrived = asyncio.Event()
        self.received = b""
        self.has_ended = self.is_too_old = False
        self._lose = lose
        self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """Buffer the bytes; stop waiting once they suffice for a decision, or turn out not to be a ClientHello."""
        self.received += data
        is_begun = len(self.received) >= _HELLO_VERSION.stop
        self.is_too_old = is_begun and self.received[:2] == _TLS_HANDSHAKE and self.received[_HELLO_VERSION] < _TLS_1_2
        # Read the whole record before sending the alert, because closing with unread bytes would reset the connection.
        is_whole = len(self.received) >= _RECORD_BYTES + int.from_bytes(self.received[3:_RECORD_BYTES])
        if (is_begun and (is_whole or not self.is_too_old)) or not _TLS_HANDSHAKE.startswith(self.received[:2]):
            self.has_arrived.set()

    def eof_received(self) -> bool:
        """Stop waiting, because the client has closed its side of the connection."""
        self.has_ended = True
        self.has_arrived.set()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting, and notify the session."""
        self._lose(error)
        self.eof_received()


def _feed(transport: asyncio.Transport, data: bytes) -> None:
    tls = cast("asyncio.BufferedProtocol", transport.get_protocol())
    while data:
        buffer = memoryview(tls.get_buffer(len(data)))
        size_bytes = min(len(buffer), len(data))
        buffer[:size_bytes] = data[:size_bytes]
        tls.buffer_updated(size_bytes)
        data = data[size_bytes:]
