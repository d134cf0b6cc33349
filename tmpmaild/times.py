"""Unix milliseconds, and how they are written."""

import time
from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC by definition; aware ones write +00:00 for Z


def clock_ms() -> int:
    """Return the Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def rfc3339(time_ms: int) -> str:
    """Write a Unix time in milliseconds as RFC 3339 in UTC: ``2026-11-20T12:00:00.000Z``."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds") + "Z"
