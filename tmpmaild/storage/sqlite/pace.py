"""How much one step of sweeping may do, so that no delivery waits long for it."""

import time
from collections.abc import Callable

STEP_SECONDS = 0.005
"""How long a step should take, including its commit."""

_LARGEST_GROWTH = 1.5
_LARGEST_CUT = 0.5


class Pace:
    """An amount of work that takes about ``STEP_SECONDS``, adapted after each step to what the step took.

    The caller chooses the unit; all units should cost about the same. ``timer`` returns seconds.
    """

    def __init__(self, *, first: int, least: int, most: int, timer: Callable[[], float] = time.perf_counter) -> None:
        self.amount = first
        self._least = least
        self._most = most
        self._timer = timer
        self._began = 0.0

    def begin(self) -> None:
        """Begin a step."""
        self._began = self._timer()

    def end(self, done: int) -> None:
        """End a step that did ``done`` units.

        One step changes the amount by half at most, because a step may have been interrupted by other processes. A step
        that had less to do than the amount does not make it larger: how long a full step takes is not known.
        """
        seconds = self._timer() - self._began
        if done < self.amount and seconds <= STEP_SECONDS:
            return
        wanted = done * STEP_SECONDS / max(seconds, 1e-6)
        bounded = min(max(wanted, self.amount * _LARGEST_CUT), self.amount * _LARGEST_GROWTH)
        self.amount = min(max(round(bounded), self._least), self._most)
