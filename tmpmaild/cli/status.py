"""The command ``status``: shows a running service, or the database of a service that is not running."""

import json
import sys
from functools import partial
from pathlib import Path

import click
import msgspec
from msgspec.structs import asdict

from tmpmaild.cli import control
from tmpmaild.cli.configured import (
    EXIT_NOT_RUNNING,
    say,
    with_service,
)
from tmpmaild.config.settings import Config
from tmpmaild.host.process import drop_to_owner
from tmpmaild.host.status import Numbers, Status
from tmpmaild.model import counted
from tmpmaild.storage import engines
from tmpmaild.storage.base import Summary

EXIT_NOT_READY = 3
_MIB = 1 << 20
_GIB = 1 << 30
_count = partial(counted, spec=",")
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@with_service
def status(config: Config, *, as_json: bool) -> None:
    """Show the state of the service: its addresses, its stored mail, and its activity so far.

    If the service does not run, show the content of its database. Exit codes: 0 running and ready, 1 the service or the
    database cannot be queried, 3 running but not ready, 4 not running.
    """
    try:
        (found,) = control.call(config, "status")
    except control.NotRunning as error:
        _show_database(config, str(error), as_json=as_json)
        sys.exit(EXIT_NOT_RUNNING)
    say(json.dumps(found) if as_json else of_service(msgspec.convert(found, Status)))
    sys.exit(0 if found["ready"] else EXIT_NOT_READY)


def _show_database(config: Config, reason: str, *, as_json: bool) -> None:
    drop_to_owner(Path(config.storage.path))
    settings = engines.settings_of(config)
    stored = engines.summary(settings)
    name = settings.name
    say(json.dumps({"running": False} | asdict(stored)) if as_json else of_database(name, stored, reason))


def of_service(status: Status) -> str:
    """Return the status text for a running service."""
    served, numbers, changed = status.served, status.numbers, ", ".join(status.needs_restart)
    lines = [
        f"tmpmaild {status.version} has been running for {_span(status.uptime_seconds)}, "
        + ("ready" if status.ready else f"NOT READY: {status.reason}"),
        *([_row("restart", f"needed for changed keys: {changed}")] if changed else []),
        _row("domains", ", ".join(served.domains)),
        _row("HTTP", ", ".join(served.http)),
        _row("SMTP", ", ".join(served.smtp)),
        *([_row("SMTPS", ", ".join(served.smtps))] if served.smtps else []),
        _row("metrics", ", ".join(served.metrics) or "off"),
        _row("stored", f"{_count(numbers.inboxes, 'inbox', 'inboxes')}, {_count(numbers.messages, 'message')}"),
        _row("storage", f"{_size(numbers.used_bytes)} of {_size(numbers.max_bytes)} used{_on_disk(numbers)}"),
        _row("swept", f"{_span(numbers.sweep_age_seconds)} ago"),
        _row(
            "open",
            f"{_count(numbers.sessions, 'SMTP session')}, {_count(numbers.connections, 'HTTP connection')},"
            f" {_count(numbers.streams, 'stream')}",
        ),
        _row(
            "messages",
            f"{numbers.mails_accepted:,} accepted, {numbers.mails_refused:,} refused after their content was received,"
            f" {_count(numbers.smtp_refusals, 'negative SMTP reply', 'negative SMTP replies')}",
        ),
        _row("requests", f"{numbers.http_requests:,}"),
    ]
    return "\n".join(lines)


def _on_disk(numbers: Numbers) -> str:
    if numbers.wal_bytes is None:
        return " by all daemons together"
    free = "free disk space unknown"
    if numbers.free_disk_bytes is not None:
        free = f"{_size(numbers.free_disk_bytes)} of the disk free"
    return f", write-ahead log {_size(numbers.wal_bytes)}, {free}"


def of_database(name: str, found: Summary, reason: str) -> str:
    """Return the status text for a database whose service does not respond."""
    stopped = "cleanly" if found.clean_stop else "no: it was killed, or runs without a control socket"
    is_file = found.clean_stop is not None
    lines = [
        f"tmpmaild: {reason}",
        _row("database", name),
        *([_row("stopped", stopped)] if is_file else []),
        _row("stored", f"{_count(found.inboxes, 'inbox', 'inboxes')}, {_count(found.messages, 'message')}"),
        _row("storage", _size(found.file_bytes) + (" with its write-ahead log" if is_file else " on the server")),
    ]
    return "\n".join(lines)


def _row(name: str, text: str) -> str:
    return f"  {name:<9} {text}"


def _size(size_bytes: int) -> str:
    if size_bytes < 10 * _GIB:
        return f"{size_bytes / _MIB:,.1f} MiB"
    return f"{size_bytes / _GIB:,.1f} GiB"


def _span(seconds: int) -> str:
    """Format a duration in its two largest units."""
    parts: list[str] = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
