"""The hash that stands for an address in the lines of the audit, by the secret of a database."""

import hashlib
import hmac
from typing import Final

_HASH_BYTES: Final = 16


def audit_hash(secret: bytes, address: str, *, day: str) -> str:
    """Return the hash of an inbox address on a day in UTC, such as ``2026-11-28``.

    Other databases and other days have other hashes. The key is derived: neither it nor the hash tells the ``secret``,
    and no hash equals one that the database holds of the same address (``keyed_hash`` in ``rows.py``).
    """
    key = hmac.digest(secret, f"audit {day}".encode(), hashlib.sha256)
    return hmac.digest(key, address.encode("utf-8", "surrogatepass"), hashlib.sha256)[:_HASH_BYTES].hex()
