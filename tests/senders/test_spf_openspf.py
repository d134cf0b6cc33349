"""The suite of openspf through what checks SPF and a resolver that is asked by a socket; whole daemons have it in the proofs."""

import openspf
import pytest

from tables import table
from tmpmaild.model import Envelope
from tmpmaild.senders import spf

CASES = {name: (scenario, case) for scenario in openspf.SCENARIOS.values() for name, case in scenario["tests"].items()}


@pytest.fixture(scope="module")
def zones():
    with openspf.Zones(None) as served:
        yield served


@table("name", CASES)
def test_openspf(zones, lookup, name):
    scenario, case = CASES[name]
    zones.set(scenario)
    by = Envelope(case.get("mailfrom") or "", ("a@x.example",), case["helo"], case["host"], tls=False)
    assert spf.check(by, lookup()).result in openspf.expected(case)
