"""Computes the hash that represents an address in the audit log, keyed with the database's secret."""

import hashlib
import hmac
from typing import Final

_HASH_BYTES: Final = 16


def audit_hash(secret: bytes, address: str, *, day: str) -> str:
    """Return the hash of an inbox address on a day in UTC, such as ``2026-11-28``.

    The hash depends on the database and the day. Its key is derived from ``secret``, which neither the key nor the hash
    reveals. For the same address, the database stores a different hash (``keyed_hash`` in ``rows.py``).
    """
    key = hmac.digest(secret, f"audit {day}".encode(), hashlib.sha256)
    return hmac.digest(key, address.encode("utf-8", "surrogatepass"), hashlib.sha256)[:_HASH_BYTES].hex()
