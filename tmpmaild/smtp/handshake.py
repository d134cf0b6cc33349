"""The TLS handshake of an SMTP connection, at its beginning or after STARTTLS."""

import asyncio
import logging
import ssl
from typing import Any, cast

_HANDSHAKE_SECONDS = 15.0

log = logging.getLogger(__name__)


async def shake_hands(
    transport: asyncio.Transport, protocol: asyncio.Protocol, context: ssl.SSLContext, begun: bytes
) -> asyncio.Transport | None:
    """Return the encrypted transport; None if there was no handshake in time: then the connection is cut off.

    ``begun`` is what the client has sent of the handshake already.
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
        encrypted = None
    if encrypted is None:
        transport.abort()
    return encrypted


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
