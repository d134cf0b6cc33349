"""How much work the reading of one message may cost: the same on every machine, unlike time."""

LEAST_STEPS, MAX_STEPS = 8192, 80_000
"""A step is about 2.4 µs of CPU: 20 ms for any small message, 60 ms for 64 KB of HTML, 200 ms for the largest."""

_CHARACTERS_FOR_A_STEP = 4


class Budget:
    """The steps of work that are left for one message.

    Take the steps before the work; if too few are left, do something simpler or stop.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps
        self.is_spent = False
        """Whether anything was left out."""

    @classmethod
    def of(cls, characters: int) -> "Budget":
        """Return the budget for HTML of this length."""
        return cls(min(LEAST_STEPS + characters // _CHARACTERS_FOR_A_STEP, MAX_STEPS))

    def take(self, steps: int = 1, *, leave: int = 0) -> bool:
        """Take steps for the work that follows; take none and return False if fewer than ``leave`` would be left."""
        if self.left - steps < leave:
            self.is_spent = True
            return False
        self.left -= steps
        return True
