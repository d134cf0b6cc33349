"""Counters and gauges, and how their values are read."""

from tmpmaild.metrics import Count, Gauge, Histogram


def test_a_count_is_kept_for_each_combination_of_labels():
    mails = Count("mails_total", "", ("result",))
    mails.add("accepted")
    mails.add("accepted", by=2)
    mails.add("refused")
    assert mails.values() == {("accepted",): 3, ("refused",): 1}
    assert Count("octets_total", "").values() == {(): 0}


def test_a_gauge_is_read_on_demand_and_a_histogram_counts_values_up_to_each_bound():
    sessions = []
    gauge = Gauge("sessions", "", lambda: len(sessions))
    sessions.append(1)
    assert gauge.values() == {(): 1}
    seconds = Histogram("seconds", "", bounds=(0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 2.0):
        seconds.observe(value)
    assert seconds.cumulative() == [2, 3, 4]
    assert seconds.sum == 2.65
