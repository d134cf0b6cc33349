"""What ``tmpmaild status`` tells of a running service: what it serves, and the numbers that matter most."""

import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild import __version__
from tmpmaild.host.control import Answer, Command, NoArguments
from tmpmaild.measures import Histogram, Measure


class Served(Struct, frozen=True):
    """What the service serves, and where."""

    domains: Sequence[str]
    http: Sequence[str]
    smtp: Sequence[str]
    smtps: Sequence[str]
    metrics: Sequence[str]


class Numbers(Struct, frozen=True):
    """What is counted; totals are since the start. None: the storage is not on this machine."""

    inboxes: int
    messages: int
    used_bytes: int
    max_bytes: int
    free_disk_bytes: int | None
    wal_bytes: int | None
    sessions: int
    connections: int
    streams: int
    mails_accepted: int
    mails_refused: int
    smtp_refusals: int
    http_requests: int
    sweep_age_seconds: int


class Status(Struct, frozen=True, kw_only=True):
    """The answer. ``reason`` says why it is not ready."""

    running: bool = True
    version: str
    uptime_seconds: int
    ready: bool
    reason: str
    served: Served
    numbers: Numbers


class StatusReport:
    """How the service is. ``obstacle`` returns why the service is not ready, "" if it is."""

    def __init__(self, measures: Iterable[Measure], obstacle: Callable[[], str], served: Served) -> None:
        self._measures = {measure.name: measure for measure in measures}
        self._obstacle = obstacle
        self._served = served
        self._started_at = time.monotonic()

    def change_domains(self, domains: Sequence[str]) -> None:
        """Show other domains from now on."""
        self._served = replace(self._served, domains=domains)

    def commands(self) -> dict[str, Command]:
        """Return what the control socket answers by this."""
        return {"status": Command(NoArguments, self._answer)}

    async def _answer(self, _: NoArguments) -> Answer:
        reason = self._obstacle()
        yield Status(
            version=__version__,
            uptime_seconds=int(time.monotonic() - self._started_at),
            ready=not reason,
            reason=reason,
            served=self._served,
            numbers=self._numbers(),
        )

    def _numbers(self) -> Numbers:
        return Numbers(
            inboxes=self._total("storage_inboxes"),
            messages=self._total("storage_messages"),
            used_bytes=self._total("storage_used_bytes"),
            max_bytes=self._total("storage_max_bytes"),
            free_disk_bytes=self._total_if_any("storage_free_disk_bytes"),
            wal_bytes=self._total_if_any("storage_wal_bytes"),
            sessions=self._total("smtp_sessions"),
            connections=self._total("http_connections"),
            streams=self._total("http_streams"),
            mails_accepted=self._total("smtp_mails_total", "accepted"),
            mails_refused=self._total("smtp_mails_total", "refused"),
            smtp_refusals=self._total("smtp_refusals_total"),
            http_requests=self._total("http_requests_total"),
            sweep_age_seconds=self._total("sweep_age_seconds"),
        )

    def _total_if_any(self, name: str) -> int | None:
        return self._total(name) if name in self._measures else None

    def _total(self, name: str, first_label: str | None = None) -> int:
        """Add up the values of a measure, or of those with this first label."""
        measure = self._measures[name]
        assert not isinstance(measure, Histogram)
        return int(
            sum(value for labels, value in measure.values().items() if first_label is None or labels[0] == first_label)
        )
