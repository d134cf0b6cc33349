"""Signs calls and generates event ids, as specified by Standard Webhooks."""

import base64
import hashlib
import hmac
from typing import Final

from tmpmaild.model import SECRET_PREFIX

_ID_BYTES: Final = 16


def _key(secret: str) -> bytes:
    """Decode a secret to bytes."""
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))


def event_id(secret: str, *name: str) -> str:
    """Return an event's id, which is the same in all its calls and cannot be predicted without the secret."""
    found = hmac.digest(_key(secret), "\n".join(name).encode(), hashlib.sha256)
    return f"evt_{found[:_ID_BYTES].hex()}"


def signed_fields(secret: str, event: str, timestamp_seconds: int, body: bytes) -> list[tuple[str, str]]:
    """Return the header fields that the receiver needs to verify a call."""
    signed = f"{event}.{timestamp_seconds}.".encode() + body
    signature = base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()
    return [
        ("webhook-id", event),
        ("webhook-timestamp", str(timestamp_seconds)),
        ("webhook-signature", f"v1,{signature}"),
    ]
