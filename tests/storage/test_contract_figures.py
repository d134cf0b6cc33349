"""What an engine counts is what the documentation says of it, and what the rules and panels for its kind look at."""

import monitoring


async def test_each_engine_counts_what_is_described_for_it(engine, engine_kind):
    storage = {name for name in monitoring.described(engine_kind) if name.startswith("tmpmaild_storage_")}
    metrics = engine.storage.metrics()
    assert {f"tmpmaild_{one.name}" for one in metrics if one.name.startswith("storage_")} == storage
    assert all(one.values() is not None for one in metrics if hasattr(one, "values"))


def test_a_rule_or_panel_looks_at_what_there_is_on_the_engines_that_it_is_for(subtests):
    watched = list(monitoring.watched())
    assert watched
    for name, engines, metrics in watched:
        with subtests.test(name):
            if name != "TmpmaildDown":  # that is "up", of Prometheus itself
                assert metrics
            for engine in engines:
                assert metrics <= monitoring.described(engine)


def test_a_rule_for_one_engine_is_one_that_the_other_could_not_have():
    for name, engines, metrics in monitoring.watched():
        for other in set(monitoring.ENGINES) - set(engines):
            assert not metrics <= monitoring.described(other), name
