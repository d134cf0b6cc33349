"""Metrics: the numbers that a package counts as it works. ``host/metrics.py`` exposes them to Prometheus.

Each has a name and a help text that follow the Prometheus conventions, without the program's prefix. Counting takes
well under a microsecond. A metric may be changed in one thread and read in another.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bounds for what should take milliseconds."""


class Count:
    """How often something has happened since the start, for each combination of labels."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = tuple(labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, *labels: str, by: float = 1) -> None:
        """Count once more, or ``by`` more. The values of the labels must be few."""
        self._values[labels] = self._values.get(labels, 0) + by

    def values(self) -> Mapping[tuple[str, ...], float]:
        """Return a copy of the counts by the values of their labels."""
        return dict(self._values)


class Gauge:
    """A number as it is now, which ``read`` returns; with labels, a number for each of their values."""

    def __init__(
        self,
        name: str,
        help_text: str,
        read: Callable[[], float | Mapping[tuple[str, ...], float]],
        labels: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = tuple(labels)
        self._read = read

    def values(self) -> Mapping[tuple[str, ...], float]:
        """Return the numbers by the values of their labels."""
        found = self._read()
        return found if isinstance(found, Mapping) else {(): found}


class Histogram:
    """How many observed values lie at or below each of ``bounds``, and their sum."""

    labels = ()

    def __init__(self, name: str, help_text: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name = name
        self.help_text = help_text
        self.bounds = tuple(bounds)
        self.sum = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[int]:
        """Return how many values lie at or below each bound, and as the last how many there are."""
        total = 0
        return [total := total + count for count in self._counts]


Metric = Count | Gauge | Histogram
