"""Signatures of calls, and ids of events, by the rules of Standard Webhooks."""

import base64
import hashlib
import hmac
from typing import Final

from tmpmaild.model import SECRET_PREFIX

_ID_BYTES: Final = 16


def _key(secret: str) -> bytes:
    """Return the bytes of a secret."""
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))


def event_id(secret: str, *name: str) -> str:
    """Return the id of an event: equal in each call for it, and unpredictable without the secret."""
    found = hmac.digest(_key(secret), "\n".join(name).encode(), hashlib.sha256)
    return f"evt_{found[:_ID_BYTES].hex()}"


def signed_fields(secret: str, event: str, timestamp_seconds: int, body: bytes) -> list[tuple[str, str]]:
    """Return the header fields by which the receiver verifies a call."""
    signed = f"{event}.{timestamp_seconds}.".encode() + body
    signature = base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()
    return [
        ("webhook-id", event),
        ("webhook-timestamp", str(timestamp_seconds)),
        ("webhook-signature", f"v1,{signature}"),
    ]
