"""The suite of openspf for RFC 7208, as pyspf brings it, through our side of pyspf: whatever the zones say, no more."""

from pathlib import Path

import pytest
import yaml

from tmpmaild.model import Envelope
from tmpmaild.senders import sendinghosts
from tmpmaild.senders.resolver import Answer, Unresolved

SUITE = Path(__file__).parent / "openspf/rfc7208-tests.yml"
CASES = {
    name: (scenario["zonedata"], case)
    for scenario in yaml.safe_load_all(SUITE.read_text())
    for name, case in scenario["tests"].items()
}
LONGEST_CHAIN = 20


class Zones:
    """Answers as the resolver does, from the data of a scenario: records, and the word TIMEOUT for all that follow."""

    def __init__(self, zones) -> None:
        self._zones = {name.lower(): records for name, records in zones.items()}

    def ask(self, name, kind):
        name = name.lower().rstrip(".")
        for _ in range(LONGEST_CHAIN):
            if name not in self._zones:
                return Answer((), exists=False)
            values, alias = self._values(self._zones[name], kind)
            if values or alias is None:
                return Answer(tuple(values), exists=True)
            name = alias.lower().rstrip(".")
        raise Unresolved("a chain without end")

    def _values(self, records, kind):
        values, alias = [], None
        # A scenario writes the record once, as of the type that has been given up, if it means TXT too.
        kinds = {"SPF", "TXT"} if not any("TXT" in record for record in records if record != "TIMEOUT") else {"TXT"}
        for record in records:
            if record == "TIMEOUT":
                if values:
                    break
                raise Unresolved("timeout")
            ((of, value),) = record.items()
            if of == "CNAME":
                alias = value
            elif value != "NONE" and (of == kind or (kind == "TXT" and of in kinds)):
                values.append(_value(kind, value))
        return values, alias


def _value(kind, value):
    if kind == "MX":
        return tuple(value)
    if kind == "TXT":
        return "".join(value if isinstance(value, list) else [value]).encode()
    return value


@pytest.mark.parametrize("name", CASES)
def test_openspf(name):
    zones, case = CASES[name]
    by = Envelope(case.get("mailfrom") or "", ("a@x.example",), case["helo"], case["host"], tls=False)
    expected = case["result"] if isinstance(case["result"], list) else [case["result"]]
    assert sendinghosts.check(by, Zones(zones)).result in expected
