"""Unix milliseconds as text."""

from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC by definition; aware ones write +00:00 for Z


def rfc3339(time_ms: int) -> str:
    """Write a Unix time in milliseconds as RFC 3339 in UTC: ``2026-11-20T12:00:00.000Z``."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds") + "Z"
