"""The TLS handshake of an SMTP connection, at its beginning or after STARTTLS."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, cast

_HANDSHAKE_SECONDS = 15.0

log = logging.getLogger(__name__)


async def shake_hands(
    transport: asyncio.Transport,
    protocol: asyncio.Protocol,
    context: ssl.SSLContext,
    begun: bytes,
    failed: Callable[[str], None],
) -> asyncio.Transport | None:
    """Return the encrypted transport; None if there was no handshake in time: then the connection is cut off.

    ``begun`` is what the client has sent of the handshake already; ``failed`` is called with what went wrong.
    """
    loop = asyncio.get_running_loop()
    transport.pause_reading()  # once more: uvloop begins to read after connection_made, whatever that has done
    if begun:
        loop.call_soon(_feed, transport, begun)  # after start_tls has set the protocol, before it reads on
    try:
        encrypted = await loop.start_tls(
            transport, protocol, context, server_side=True, ssl_handshake_timeout=_HANDSHAKE_SECONDS
        )
    except (OSError, ssl.SSLError) as error:
        log.debug("TLS handshake failed: %s", error)
        failed(_reason(error))
        encrypted = None
    if encrypted is None:
        transport.abort()
    return encrypted


def _reason(error: OSError) -> str:
    name = (
        getattr(error, "reason", None)
        or str(error)
        or "the client closed the connection; does it trust the certificate?"
    )
    # The alerts of RFC 8446 §6.2 with which a client refuses a certificate.
    distrust = any(alert in name for alert in ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN"))
    return f"{name}: the client does not trust the certificate" if distrust else name


def _feed(transport: asyncio.Transport, octets: bytes) -> None:
    tls = cast("asyncio.BufferedProtocol", transport.get_protocol())
    while octets:
        room = memoryview(tls.get_buffer(len(octets)))
        size_bytes = min(len(room), len(octets))
        room[:size_bytes] = octets[:size_bytes]
        tls.buffer_updated(size_bytes)
        octets = octets[size_bytes:]


def terms(encrypted: asyncio.Transport) -> dict[str, Any]:
    """Return what the handshake has agreed on: the version of TLS and the cipher."""
    cipher, version, _ = encrypted.get_extra_info("cipher")
    return {"version": version, "cipher": cipher}
