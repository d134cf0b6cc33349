"""The background task that deletes expired mail. Correctness does not depend on it: every read checks the clock."""

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
    """Sweeps the storage every ``interval_seconds``, which may be changed; ``chores`` are small tasks run each time."""

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
        self._sweep_seconds = Histogram("sweep_seconds", "How long a sweep took.", _SWEEP_BOUNDS_SECONDS)

    async def run(self) -> None:
        """Sweep immediately, then at each interval, forever. A failure is logged, and the next tick tries again."""
        while True:
            await self._sweep_or_log()
            for chore in self._chores:
                _do_or_log(chore)
            await self._pause()

    async def _pause(self) -> None:
        """Wait for the next tick: a second while the storage accepts no writes, as a sweep notices when it does again.

        There may be no other writes meanwhile: a load balancer sends no requests to a service that is not ready.
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
            log.warning("sweeping failed (%s); it is tried again", error)
        except Exception:
            log.exception("sweeping failed; it is tried again")

    async def sweep(self) -> bool:
        """Delete all expired inboxes and erase their content from the files; deliveries run between the steps.

        Returns False if everything is deleted, but some of it cannot be erased yet.
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
        """Return the metrics about sweeps."""
        return (
            self._sweep_seconds,
            Gauge("sweep_age_seconds", "Time since the end of the last sweep.", self._age),
            Gauge("sweep_unerased_seconds", "For how long deleted mail could not be erased.", self._unerased_age),
            Gauge(
                "postmaster_used_ratio",
                "The part of the inbox of postmaster and abuse that is used, as of the last sweep.",
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
                "sweeping has taken %d s and goes on: expired mail is not readable, but stays in the file until then",
                seconds,
                extra={"about": "slow"},
            )

    async def _erase(self) -> bool:
        # Our own readers finish within milliseconds; only transactions of other processes last.
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
                " but its octets stay in the files until that ends",
                now - self._unerased_since,
                extra={"about": "unerased"},
            )


def _do_or_log(chore: Callable[[], None]) -> None:
    try:
        chore()
    except Exception:
        log.exception("a chore of the cleaner failed; the others and the sweep go on")
