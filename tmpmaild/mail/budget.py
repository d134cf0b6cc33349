"""A limit on the work done to read one message. Unlike a time limit, it is the same on every machine."""

MIN_STEPS, MAX_STEPS = 8192, 80_000
"""A step takes about 2.4 µs of CPU time.

A small message may take 20 ms, 64 KB of HTML 60 ms, the largest message 200 ms.
"""

_CHARACTERS_PER_STEP = 4


class Budget:
    """The number of work steps that remain for one message.

    Take the steps before doing the work. If too few remain, do less work, or stop.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.remaining = steps
        self.is_spent = False
        """Whether any work was skipped."""

    @classmethod
    def of(cls, characters: int) -> "Budget":
        """Return the budget for HTML of this length."""
        return cls(min(MIN_STEPS + characters // _CHARACTERS_PER_STEP, MAX_STEPS))

    def take(self, steps: int = 1, *, reserved: int = 0) -> bool:
        """Take steps for the work that follows. If fewer than ``reserved`` would remain, take none and return False."""
        if self.remaining - steps < reserved:
            self.is_spent = True
            return False
        self.remaining -= steps
        return True
