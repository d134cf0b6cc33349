"""Writes the metrics of all packages in the Prometheus exposition format."""

import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tmpmaild.metrics import Count, Gauge, Histogram, Metric

PREFIX = "tmpmaild_"
START_TIME = "process_start_time_seconds"
"""Has no prefix, because all Prometheus client libraries use this name."""


class Exposition(Collector):
    """All metrics, as one page of text."""

    def __init__(self, metrics: Iterable[Metric], version: str) -> None:
        build = Gauge("build_info", "Always 1, with the running version.", lambda: {(version,): 1}, ("version",))
        self._metrics = (*metrics, build)
        self._started_at = time.time()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def describe(self) -> Iterable[MetricFamily]:
        """Return nothing: otherwise gauges would be read only to get their names."""
        return ()

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its media type, which is selected by the ``Accept`` field."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the start time of the process and all metrics, in the library's format."""
        yield GaugeMetricFamily(START_TIME, "Start of the process, as Unix time in seconds.", value=self._started_at)
        for metric in self._metrics:
            yield _family(metric)


def _family(metric: Metric) -> MetricFamily:
    name = PREFIX + metric.name
    if isinstance(metric, Histogram):
        return _histogram(name, metric)
    kind = CounterMetricFamily if isinstance(metric, Count) else GaugeMetricFamily
    family = kind(name.removesuffix("_total"), metric.help_text, labels=metric.labels)
    for labels, value in metric.values().items():
        family.add_metric(labels, value)
    return family


def _histogram(name: str, metric: Histogram) -> MetricFamily:
    counts = metric.cumulative()
    bounds = [*map(str, metric.bounds), "+Inf"]
    return HistogramMetricFamily(
        name, metric.help_text, buckets=list(zip(bounds, counts, strict=True)), sum_value=metric.sum
    )
