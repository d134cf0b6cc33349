"""The content of ``tmpmaild status``: the domains and addresses of a running service, and its key metrics."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild import __version__
from tmpmaild.host.control import Command, Lines, NoArguments
from tmpmaild.metrics import Gauge, Histogram, Metric


class Served(Struct, frozen=True):
    """The domains of the service, and its listening addresses."""

    domains: Sequence[str]
    http: Sequence[str]
    smtp: Sequence[str]
    smtps: Sequence[str]
    metrics: Sequence[str]


class Numbers(Struct, frozen=True):
    """The service's figures; totals count from its startup.

    None means unknown: the storage is on a different machine, or the file system does not report its free space. Each
    annotation specifies a metric and, optionally, the value of its first label. All matching values are added up.
    """

    inboxes: Annotated[int, "storage_inboxes"]
    messages: Annotated[int, "storage_messages"]
    used_bytes: Annotated[int, "storage_used_bytes"]
    max_bytes: Annotated[int, "storage_max_bytes"]
    free_disk_bytes: Annotated[int | None, "storage_free_disk_bytes"]
    wal_bytes: Annotated[int | None, "storage_wal_bytes"]
    sessions: Annotated[int, "smtp_sessions"]
    connections: Annotated[int, "http_connections"]
    streams: Annotated[int, "http_streams"]
    mails_accepted: Annotated[int, "smtp_mails_total", "accepted"]
    mails_refused: Annotated[int, "smtp_mails_total", "refused"]
    smtp_refusals: Annotated[int, "smtp_refusals_total"]
    http_requests: Annotated[int, "http_requests_total"]
    sweep_age_seconds: Annotated[int, "sweep_age_seconds"]
    unreadable_forwarded_for: Annotated[int, "http_unreadable_forwarded_for_total"] = 0  # not sent by version 1.0
    untrusted_forwarded_for: Annotated[int, "http_untrusted_forwarded_for_total"] = 0  # not sent by version 1.1


class Status(Struct, frozen=True, kw_only=True):
    """The response. ``reason`` is the reason why the service is not ready, or "".

    ``needs_restart`` lists the keys that a reload found changed and that take effect only after a restart.
    """

    running: bool = True
    version: str
    uptime_seconds: int
    ready: bool
    reason: str
    served: Served
    numbers: Numbers
    needs_restart: Sequence[str] = ()  # not sent by version 1.1


class StatusReport:
    """Builds the status. ``reason_not_ready`` returns the reason why the service is not ready, or ""."""

    def __init__(self, metrics: Iterable[Metric], reason_not_ready: Callable[[], str], served: Served) -> None:
        self._metrics = {metric.name: metric for metric in metrics}
        self._reason_not_ready = reason_not_ready
        self._served = served
        self._needs_restart: Sequence[str] = ()
        self._started_at = time.monotonic()

    def reloaded(self, domains: Sequence[str], needs_restart: Sequence[str]) -> None:
        """Set the domains to report, and the changed keys that take effect only after a restart."""
        self._served = replace(self._served, domains=domains)
        self._needs_restart = needs_restart

    def commands(self) -> dict[str, Command]:
        """Return the commands that the control socket accepts."""
        return {"status": Command(NoArguments, self._run)}

    async def _run(self, _: NoArguments) -> Lines:
        reason = self._reason_not_ready()
        yield Status(
            version=__version__,
            uptime_seconds=int(time.monotonic() - self._started_at),
            ready=not reason,
            reason=reason,
            served=self._served,
            numbers=self._numbers(),
            needs_restart=self._needs_restart,
        )

    def _numbers(self) -> Numbers:
        hints = get_type_hints(Numbers, include_extras=True)
        return Numbers(**{name: self._total(*hint.__metadata__) for name, hint in hints.items()})

    def _total(self, name: str, first_label: str | None = None) -> Any:
        """Return the sum of a metric's values, optionally those with this first label.

        Returns None for an unknown metric, and for a gauge without a value.
        """
        metric = self._metrics.get(name)
        if metric is None or (isinstance(metric, Gauge) and not metric.values()):
            return None
        assert not isinstance(metric, Histogram)
        return int(
            sum(value for labels, value in metric.values().items() if first_label is None or labels[0] == first_label)
        )
