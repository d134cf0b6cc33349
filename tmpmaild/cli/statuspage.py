"""The answer of ``tmpmaild status`` as text for a person."""

from functools import partial
from typing import Any

import msgspec

from tmpmaild.counted import counted
from tmpmaild.host.status import Numbers, Status
from tmpmaild.storage.base import Summary

_MIB = 1 << 20
_GIB = 1 << 30
_count = partial(counted, spec=",")
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def of_service(found: dict[str, Any]) -> str:
    """Return what a running service has told. Raises ``msgspec.ValidationError``."""
    status = msgspec.convert(found, Status)
    served, numbers = status.served, status.numbers
    lines = [
        f"tmpmaild {status.version} has run for {_span(status.uptime_seconds)}, "
        + ("ready" if status.ready else f"NOT READY: {status.reason}"),
        _row("domains", ", ".join(served.domains)),
        _row("HTTP", ", ".join(served.http)),
        _row("SMTP", ", ".join(served.smtp)),
        *([_row("SMTPS", ", ".join(served.smtps))] if served.smtps else []),
        _row("metrics", ", ".join(served.metrics) or "off"),
        _row("holds", f"{_count(numbers.inboxes, 'inbox', 'inboxes')}, {_count(numbers.messages, 'message')}"),
        _row("storage", f"{_size(numbers.used_bytes)} of {_size(numbers.max_bytes)} used{_on_disk(numbers)}"),
        _row("swept", f"{_span(numbers.sweep_age_seconds)} ago"),
        _row(
            "open",
            f"{_count(numbers.sessions, 'SMTP session')}, {_count(numbers.connections, 'HTTP connection')},"
            f" {_count(numbers.streams, 'stream')}",
        ),
        _row(
            "mails",
            f"{numbers.mails_accepted:,} accepted, {numbers.mails_refused:,} refused after their content,"
            f" {_count(numbers.smtp_refusals, 'negative SMTP reply', 'negative SMTP replies')}",
        ),
        _row("requests", f"{numbers.http_requests:,}"),
    ]
    return "\n".join(lines)


def _on_disk(numbers: Numbers) -> str:
    if numbers.wal_bytes is None or numbers.free_disk_bytes is None:
        return " by all daemons together"
    return f", write-ahead log {_size(numbers.wal_bytes)}, {_size(numbers.free_disk_bytes)} of the disk free"


def of_database(name: str, found: Summary, reason: str) -> str:
    """Return what a database holds whose service does not answer."""
    stopped = "cleanly" if found.clean_stop else "no: it was killed, or runs without a control socket"
    is_file = found.clean_stop is not None
    lines = [
        f"tmpmaild: {reason}",
        _row("database", name),
        *([_row("stopped", stopped)] if is_file else []),
        _row("holds", f"{_count(found.inboxes, 'inbox', 'inboxes')}, {_count(found.messages, 'message')}"),
        _row("storage", _size(found.file_bytes) + (" with its write-ahead log" if is_file else " on the server")),
    ]
    return "\n".join(lines)


def _row(name: str, text: str) -> str:
    return f"  {name:<9} {text}"


def _size(octets: int) -> str:
    if octets < 10 * _GIB:
        return f"{octets / _MIB:,.1f} MiB"
    return f"{octets / _GIB:,.1f} GiB"


def _span(seconds: int) -> str:
    """Write a time in its two largest units."""
    parts: list[str] = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
