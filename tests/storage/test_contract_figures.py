"""The metrics of each engine match the documentation, the alert rules and the dashboard panels for that engine."""

import monitoring


async def test_each_engine_has_exactly_its_described_metrics(engine, engine_kind):
    storage = {name for name in monitoring.described(engine_kind) if name.startswith("tmpmaild_storage_")}
    metrics = engine.storage.metrics()
    assert {f"tmpmaild_{one.name}" for one in metrics if one.name.startswith("storage_")} == storage
    assert all(one.values() is not None for one in metrics if hasattr(one, "values"))


def test_a_rule_or_panel_uses_only_metrics_of_its_engines(subtests):
    watched = list(monitoring.watched())
    assert watched
    for name, engines, metrics in watched:
        with subtests.test(name):
            if name != "TmpmaildDown":  # this alert uses "up", a metric of Prometheus itself
                assert metrics
            for engine in engines:
                assert metrics <= monitoring.described(engine)


def test_a_rule_for_one_engine_could_not_exist_for_the_other_engine():
    for name, engines, metrics in monitoring.watched():
        for other in set(monitoring.ENGINES) - set(engines):
            assert not metrics <= monitoring.described(other), name
