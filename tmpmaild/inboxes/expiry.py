"""The background task that deletes expired mail.

Correctness does not depend on this task, because every read checks the clock.
"""

import logging
import time
from collections.abc import Callable, Sequence

import anyio

from tmpmaild.errors import RequestError
from tmpmaild.metrics import Gauge, Histogram, Metric
from tmpmaild.storage.base import Storage

_ERASE_TRIES = 20
_ERASE_PAUSE_SECONDS = 0.05
_LOOK_SECONDS = 1.0
_WARN_AFTER_SECONDS = 60  # half of the time limit for removing expired mail from the files
_SWEEP_BOUNDS_SECONDS = (0.01, 0.1, 1.0, 10.0, 60.0, 120.0)

log = logging.getLogger(__name__)


class Cleaner:
    """Sweeps the storage every ``interval_seconds``, which may be changed, and then runs small tasks (``chores``)."""

    def __init__(
        self,
        storage: Storage,
        *,
        interval_seconds: float,
        chores: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._storage = storage
        self._clock = storage.clock
        self.interval_seconds = interval_seconds
        self._chores = chores
        self._unerased_since: float | None = None
        self._swept_at = time.monotonic()
        self._operator_share = 0.0
        self._sweep_seconds = Histogram("sweep_seconds", "Duration of a sweep.", _SWEEP_BOUNDS_SECONDS)

    async def run(self) -> None:
        """Sweep immediately and then once per interval, forever. A failure is logged, and the next tick retries."""
        while True:
            await self._sweep_or_log()
            for chore in self._chores:
                _do_or_log(chore)
            await self._pause()

    async def _pause(self) -> None:
        """Wait for the next tick; wait only one second if the storage rejects writes, because a sweep detects recovery.

        There might be no other writes during this time, because load balancers send no requests to a service that is
        not ready.
        """
        waited_seconds = 0.0
        while (left_seconds := self.interval_seconds - waited_seconds) > 0:
            await anyio.sleep(min(left_seconds, _LOOK_SECONDS))
            waited_seconds += _LOOK_SECONDS
            if self._storage.reason_not_ready():
                return

    async def _sweep_or_log(self) -> None:
        try:
            await self.sweep()
        except RequestError as error:
            log.warning("sweep failed (%s); will retry", error)
        except Exception:
            log.exception("sweep failed; will retry")

    async def sweep(self) -> bool:
        """Delete all expired inboxes and erase their content from the files. Deliveries can run between the steps.

        Returns False if some deleted content cannot be erased yet.
        """
        begun = time.monotonic()
        while await self._storage.sweep(self._clock()):
            self._watch_duration(begun)
        erased = await self._erase()
        self._operator_share = (await self._storage.operator_box()).used_share
        self._watch(erased=erased)
        self._swept_at = time.monotonic()
        self._sweep_seconds.observe(self._swept_at - begun)
        return erased

    def metrics(self) -> tuple[Metric, ...]:
        """Return the sweep metrics."""
        return (
            self._sweep_seconds,
            Gauge("sweep_age_seconds", "Time since the last successful sweep.", self._age),
            Gauge("sweep_unerased_seconds", "How long deleted mail has been waiting to be erased.", self._unerased_age),
            Gauge(
                "postmaster_used_ratio",
                "The used share of the inbox of postmaster and abuse, as of the last sweep.",
                lambda: self._operator_share,
            ),
        )

    def _age(self) -> float:
        return time.monotonic() - self._swept_at

    def _unerased_age(self) -> float:
        return 0 if self._unerased_since is None else time.monotonic() - self._unerased_since

    def _watch_duration(self, begun: float) -> None:
        seconds = time.monotonic() - begun
        if seconds >= _WARN_AFTER_SECONDS:
            log.warning(
                "a sweep has been running for %d s: expired mail cannot be read, but remains in the file until it ends",
                seconds,
                extra={"about": "slow"},
            )

    async def _erase(self) -> bool:
        # Our own readers finish within milliseconds; only transactions of other processes take longer.
        for _ in range(_ERASE_TRIES):
            if await self._storage.erase():
                return True
            await anyio.sleep(_ERASE_PAUSE_SECONDS)
        return False

    def _watch(self, *, erased: bool) -> None:
        now = time.monotonic()
        if erased:
            self._unerased_since = None
        elif self._unerased_since is None:
            self._unerased_since = now
        elif now - self._unerased_since >= _WARN_AFTER_SECONDS:
            log.warning(
                "another process has kept a read transaction on the database open for %d s: expired mail is deleted,"
                " but its bytes remain in the files until the transaction ends",
                now - self._unerased_since,
                extra={"about": "unerased"},
            )


def _do_or_log(chore: Callable[[], None]) -> None:
    try:
        chore()
    except Exception:
        log.exception("a cleaner chore failed; the other chores and the sweep continue")
