"""Writes the measures of all packages in the format of Prometheus, when they are asked for."""

import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tmpmaild.measures import Count, Gauge, Histogram, Measure

PREFIX = "tmpmaild_"
START_TIME = "process_start_time_seconds"
"""Without our prefix: the name that all client libraries of Prometheus have for it."""


class Exposition(Collector):
    """All measures, as one page of text."""

    def __init__(self, measures: Iterable[Measure], version: str) -> None:
        build = Gauge("build_info", "1, with the version that runs.", lambda: {(version,): 1}, ("version",))
        self._measures = (*measures, build)
        self._started_at = time.time()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: reading all gauges only to learn their names is not needed."""
        return ()

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its media type, which a field ``Accept`` chooses."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def collect(self) -> Iterator[Metric]:
        """Yield every measure as the library wants it, and when the process began to count."""
        yield GaugeMetricFamily(START_TIME, "Start of the process, in seconds of Unix time.", value=self._started_at)
        for measure in self._measures:
            yield _family(measure)


def _family(measure: Measure) -> Metric:
    name = PREFIX + measure.name
    if isinstance(measure, Histogram):
        return _histogram(name, measure)
    kind = CounterMetricFamily if isinstance(measure, Count) else GaugeMetricFamily
    family = kind(name.removesuffix("_total"), measure.help_text, labels=measure.labels)
    for labels, value in measure.values().items():
        family.add_metric(labels, value)
    return family


def _histogram(name: str, measure: Histogram) -> Metric:
    counts = measure.cumulative()
    bounds = [*map(str, measure.bounds), "+Inf"]
    return HistogramMetricFamily(
        name, measure.help_text, buckets=list(zip(bounds, counts, strict=True)), sum_value=measure.sum
    )
