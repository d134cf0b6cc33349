"""Clocks for lifetimes: each follows another clock, but ignores its temporary jumps.

A correct clock is followed to the millisecond. A jump of more than two minutes is accepted only after it has lasted for
ten minutes. Until then, the time advances with a clock that never steps. If such a jump were followed at once, a
machine whose time is wrong for a few seconds would refuse mail and delete mail that it has acknowledged. If the time
before the jump was the wrong one, expired messages can be read for up to ten minutes longer, once.
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
    """Returns Unix milliseconds. ``name`` is the followed clock's name in the log; ``carry`` is a clock in seconds."""

    def __init__(self, name: str, carry: Callable[[], float] = elapsed) -> None:
        self._name = name
        self._carry = carry
        self._ahead_seconds = time.time() - carry()  # until ``follow`` is called
        self.is_set = False
        self._doubted: tuple[float, float] | None = None  # offset, and time of the jump
        self._jumps = Count("clock_jumps_total", "Steps of the clock that lifetimes go by, of over a second.")

    def __call__(self) -> int:
        """Return the time."""
        return int((self._carry() + self._ahead_seconds) * 1000)

    def metrics(self) -> tuple[Metric, ...]:
        """Return every metric."""
        help_text = "How far the clock is ahead of the time that lifetimes go by, while a jump of it is not believed."
        return self._jumps, Gauge("clock_doubted_seconds", help_text, self.doubted_seconds)

    def doubted_seconds(self) -> float:
        """Return how far the followed clock is ahead of this one while its jump is not accepted, else 0."""
        return self._doubted[0] - self._ahead_seconds if self._doubted else 0.0

    def follow(self, unix_seconds: float, at_seconds: float) -> None:
        """Process a reading of the followed clock, taken when ``carry`` returned ``at_seconds``."""
        ahead_seconds = unix_seconds - at_seconds
        jump_seconds = ahead_seconds - self._ahead_seconds
        if not self.is_set or abs(jump_seconds) <= _STEP_SECONDS:
            self._believe(ahead_seconds)
        elif abs(jump_seconds) <= _DOUBTED_SECONDS:
            self._jumped("%s has jumped by %+.0f s", jump_seconds)
            self._believe(ahead_seconds)
        elif self._doubted is None or abs(ahead_seconds - self._doubted[0]) > _STEP_SECONDS:
            self._jumped("%s has jumped by %+.0f s, which counts only if it lasts for 10 minutes", jump_seconds)
            self._doubted = ahead_seconds, at_seconds
        elif at_seconds - self._doubted[1] >= _BELIEVED_AFTER_SECONDS:
            log.warning("%s has stayed so for 10 minutes: lifetimes go by it again", self._name)
            self._believe(ahead_seconds)

    def _believe(self, ahead_seconds: float) -> None:
        if self._doubted and abs(self._doubted[0] - ahead_seconds) > _STEP_SECONDS:
            self._jumped("%s is back, by a jump of %+.0f s", ahead_seconds - self._doubted[0])
        self._ahead_seconds, self.is_set, self._doubted = ahead_seconds, True, None

    def _jumped(self, text: str, seconds: float) -> None:
        self._jumps.add()
        log.warning(text, self._name, seconds, extra={"about": self._jumps.values()})


class MachineClock(FollowingClock):
    """Follows the clock of this machine. Reads it when the time is requested, at most once a second."""

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
