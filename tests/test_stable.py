"""What users and operators rely on is still there: compared with the recorded list, line by line."""

import functools
import json

import pytest

import monitoring
import stable

TAKEN_AWAY = """\
These are promised until version 2 (docs/stability.md) and are gone, or different. Bring them back. If one was never released,
or only takes or gives more than before, delete its line from tests/stable.json, run `python tools/stable.py`, and say it in CHANGELOG.md."""
NEW = """\
These are new. Look at their names once more, since they stay until version 2; then record them with `python tools/stable.py`."""
RECORDED = json.loads(stable.RECORDED.read_text())
lines = functools.cache(stable.lines)


@pytest.fixture
def document():
    return json.loads(stable.describe_api())


@pytest.mark.parametrize("subject", RECORDED)
def test_nothing_that_is_promised_is_gone_and_nothing_new_is_unrecorded(subject):
    now, then = set(lines()[subject]), set(RECORDED[subject])
    assert sorted(then - now) == [], TAKEN_AWAY
    assert sorted(now - then) == [], NEW


def test_no_subject_was_forgotten():
    assert lines().keys() == RECORDED.keys()
    assert all(len(some) > 10 for some in lines().values())


def test_the_metrics_are_those_that_are_served():
    names = {line.partition("{")[0] for line in lines()["metrics"]}
    assert names == set.union(*map(monitoring.described, monitoring.ENGINES))


@pytest.mark.parametrize(
    "change",
    [
        lambda api: api["paths"]["/api/v1/domains"].clear(),
        lambda api: api["paths"].pop("/api/v1/addresses"),
        lambda api: api["components"]["schemas"]["MessageItem"]["properties"].pop("subject"),
        lambda api: api["components"]["schemas"]["AddressResource"]["required"].remove("expires_at"),
        lambda api: api["components"]["schemas"]["MessageItem"]["properties"]["size"].update(type="string"),
        lambda api: api["components"]["schemas"]["WebhookRequest"]["required"].append("has"),
        lambda api: api["paths"]["/api/v1/addresses"]["post"]["responses"].pop("201"),
        lambda api: api["paths"]["/api/v1/addresses"]["post"]["requestBody"].update(required=True),
        lambda api: api["paths"]["/api/v1/addresses/{address}/messages"]["get"]["parameters"].pop(),
        lambda api: api["paths"]["/api/v1/addresses/{address}/messages"]["get"]["parameters"][-1].update(required=True),
    ],
)
def test_a_loss_of_the_api_is_noticed(document, change):
    change(document)
    assert set(lines()["api"]) - set(stable.api(document))


def test_a_lost_or_newly_required_parameter_of_a_method_is_noticed():
    class Inbox:
        def wait(self, kind, *, timeout=60):
            """Wait."""

    class Changed:
        def wait(self, kind, other, *, timeout=60):
            """Wait."""

    Inbox.__module__ = Changed.__module__ = "tmpmaild.client"
    then, now = (set(stable.members("Inbox", one)) for one in (Inbox, Changed))
    assert then - now == {"Inbox.wait needs: kind"}
    assert then >= {"Inbox.wait takes 1, kind", "Inbox.wait takes timeout"}
