"""How much work the reading of one mail may cost; what a step is, is decided where it is counted."""

MAX_STEPS = 150_000
"""Of about 10 µs: some seconds of the largest mail that people send, and less than anybody notices of others."""


class Budget:
    """The steps that are left for one mail. Who counts them stops with what there is once they are used up."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    @property
    def is_spent(self) -> bool:
        """Whether anything was left out."""
        return self._left < 0

    def take(self, steps: int = 1) -> bool:
        """Count steps before they are done; False once there are none left."""
        self._left -= steps
        return self._left >= 0
