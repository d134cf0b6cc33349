"""Metrics: the values that a package counts while it runs. ``host/metrics.py`` exposes them to Prometheus.

Each metric has a name and a help text that follow the Prometheus conventions, without the program's prefix. Counting
takes well under a microsecond. A metric may be changed in one thread and read in another.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Histogram bounds for operations that should take milliseconds."""


class Count:
    """The number of events since startup, for each combination of label values."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = tuple(labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, *labels: str, by: float = 1) -> None:
        """Increment the count by ``by``. The number of distinct label values must be small."""
        self._values[labels] = self._values.get(labels, 0) + by

    def values(self) -> Mapping[tuple[str, ...], float]:
        """Return a copy of the counts, keyed by label values."""
        return dict(self._values)


class Gauge:
    """The current value of a metric, as returned by ``read``; with labels, one value per combination."""

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
        """Return the current numbers, keyed by label values."""
        found = self._read()
        return found if isinstance(found, Mapping) else {(): found}


class Histogram:
    """The number of observed values at or below each of the ``bounds``, and their sum."""

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
        """Return the number of values at or below each bound, followed by the total number of values."""
        total = 0
        return [total := total + count for count in self._counts]


Metric = Count | Gauge | Histogram
