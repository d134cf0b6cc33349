"""Clocks for lifetimes. Each of them follows a source clock, but ignores temporary jumps in it.

A correct source clock is followed with millisecond precision. A jump of more than two minutes is accepted only if it
has lasted for ten minutes. Until then, the time advances with a monotonic clock. If jumps were followed immediately, a
machine whose time is wrong for a few seconds would refuse new mail and delete mail that it has accepted. If the time
was wrong before the jump, expired messages may remain readable for up to ten more minutes.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tmpmaild.metrics import Count, Gauge, Metric

_STEP_SECONDS: Final = 1.0
_DOUBTED_SECONDS: Final = 120.0
_BELIEVED_AFTER_SECONDS: Final = 600.0
_READ_SECONDS: Final = 1.0

log = logging.getLogger(__name__)

# CLOCK_MONOTONIC does not advance while the machine is suspended.
elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class FollowingClock:
    """Returns Unix milliseconds. ``name`` identifies the source clock in the log; ``carry`` is a clock in seconds."""

    def __init__(self, name: str, carry: Callable[[], float] = elapsed) -> None:
        self._name = name
        self._carry = carry
        self._ahead_seconds = time.time() - carry()  # the initial value, used until ``follow`` is called
        self.is_set = False
        self._doubted: tuple[float, float] | None = None  # the offset, and the time of the jump
        self._jumps = Count("clock_jumps_total", "Jumps of more than one second in the clock used for lifetimes.")

    def __call__(self) -> int:
        """Return the time."""
        return int((self._carry() + self._ahead_seconds) * 1000)

    def metrics(self) -> tuple[Metric, ...]:
        """Return all metrics."""
        help_text = "How far the clock is ahead of the time used for lifetimes while a jump is not yet accepted."
        return self._jumps, Gauge("clock_doubted_seconds", help_text, self.doubted_seconds)

    def doubted_seconds(self) -> float:
        """Return how far the source clock is ahead of this clock while a jump is not yet accepted; otherwise 0."""
        return self._doubted[0] - self._ahead_seconds if self._doubted else 0.0

    def follow(self, unix_seconds: float, at_seconds: float) -> None:
        """Process the source clock's time at the moment when ``carry`` returned ``at_seconds``."""
        ahead_seconds = unix_seconds - at_seconds
        jump_seconds = ahead_seconds - self._ahead_seconds
        if not self.is_set or abs(jump_seconds) <= _STEP_SECONDS:
            self._believe(ahead_seconds)
        elif abs(jump_seconds) <= _DOUBTED_SECONDS:
            self._jumped("%s has jumped by %+.0f s", jump_seconds)
            self._believe(ahead_seconds)
        elif self._doubted is None or abs(ahead_seconds - self._doubted[0]) > _STEP_SECONDS:
            self._jumped("%s has jumped by %+.0f s, which is ignored unless it lasts for 10 minutes", jump_seconds)
            self._doubted = ahead_seconds, at_seconds
        elif at_seconds - self._doubted[1] >= _BELIEVED_AFTER_SECONDS:
            log.warning("%s has kept its new time for 10 minutes: lifetimes follow it again", self._name)
            self._believe(ahead_seconds)

    def _believe(self, ahead_seconds: float) -> None:
        if self._doubted and abs(self._doubted[0] - ahead_seconds) > _STEP_SECONDS:
            self._jumped("%s has jumped back by %+.0f s", ahead_seconds - self._doubted[0])
        self._ahead_seconds, self.is_set, self._doubted = ahead_seconds, True, None

    def _jumped(self, text: str, seconds: float) -> None:
        self._jumps.add()
        log.warning(text, self._name, seconds, extra={"about": self._jumps.values()})


class MachineClock(FollowingClock):
    """Follows this machine's clock.

    The machine's clock is read when the time is requested, but at most once a second.
    """

    def __init__(self, wall: Callable[[], float] = time.time, carry: Callable[[], float] = elapsed) -> None:
        super().__init__("the clock of this machine", carry)
        self._wall = wall
        self._read_at_seconds = 0.0
        self._read_wall(carry())

    def __call__(self) -> int:
        """Return the time."""
        now_seconds = self._carry()
        if now_seconds >= self._read_at_seconds:
            self._read_wall(now_seconds)
        return int((now_seconds + self._ahead_seconds) * 1000)

    def _read_wall(self, now_seconds: float) -> None:
        self._read_at_seconds = now_seconds + _READ_SECONDS
        self.follow(self._wall(), now_seconds)
