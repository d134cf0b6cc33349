"""Metrics in the Prometheus format."""

from prometheus_client.parser import text_string_to_metric_families

from tmpmaild.host.metrics import Exposition
from tmpmaild.metrics import Count, Gauge, Histogram


def samples(*metrics):
    text, media_type = Exposition(metrics, "1.2.3").page("text/plain")
    assert media_type.startswith("text/plain")
    families = text_string_to_metric_families(text.decode())
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def test_each_kind_of_metric_is_exposed_with_our_prefix_and_its_labels():
    mails = Count("mails_total", "Messages.", ("result",))
    mails.add("accepted", by=2)
    waits = Histogram("wait_seconds", "Waits.", bounds=(0.1, 1))
    waits.observe(0.5)
    waits.observe(5)
    found = samples(mails, waits, Gauge("open", "Connections.", lambda: 7))
    assert found["tmpmaild_mails_total", "accepted"] == 2
    assert found["tmpmaild_open",] == 7
    buckets = {name[1]: value for name, value in found.items() if name[0] == "tmpmaild_wait_seconds_bucket"}
    assert buckets == {"0.1": 0, "1": 1, "+Inf": 2}
    assert (found["tmpmaild_wait_seconds_count",], found["tmpmaild_wait_seconds_sum",]) == (2, 5.5)


def test_the_version_and_the_start_of_the_process_are_exposed():
    found = samples()
    assert found["tmpmaild_build_info", "1.2.3"] == 1
    assert found["process_start_time_seconds",] > 1_600_000_000
