"""Signs calls as Standard Webhooks has it (https://www.standardwebhooks.com, version 1: HMAC-SHA256)."""

import base64
import hashlib
import hmac
from typing import Final

_PREFIX: Final = "whsec_"
_ID_BYTES: Final = 16


def key(secret: str) -> bytes:
    """Return the octets that a secret stands for."""
    return base64.b64decode(secret.removeprefix(_PREFIX))


def event_id(secret: str, *about: str) -> str:
    """Return the id of an event: the same for each call about it, and nobody without the secret can tell it."""
    found = hmac.digest(key(secret), "\n".join(about).encode(), hashlib.sha256)
    return f"evt_{found[:_ID_BYTES].hex()}"


def header(secret: str, event: str, timestamp_seconds: int, body: bytes) -> list[tuple[str, str]]:
    """Return the header fields that let the receiver verify a call."""
    signed = f"{event}.{timestamp_seconds}.".encode() + body
    signature = base64.b64encode(hmac.digest(key(secret), signed, hashlib.sha256)).decode()
    return [
        ("webhook-id", event),
        ("webhook-timestamp", str(timestamp_seconds)),
        ("webhook-signature", f"v1,{signature}"),
    ]
