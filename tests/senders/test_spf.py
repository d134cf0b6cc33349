"""SPF: the suite of openspf, whose address is checked, and what records that attack may cost."""

import openspf
import pytest

from tables import rows_of, table
from tmpmaild.model import Envelope
from tmpmaild.senders import spf
from zones import text_record

from .conftest import envelope, lookup_at

ROWS = rows_of(__file__)

SHOP = text_record("shop.example", "v=spf1 ip4:192.0.2.1 ip6:2001:db8::/32 -all")


@table(("by", "result", "domain"), ROWS["mail from or helo is checked"])
def test_mail_from_or_helo_is_checked(zones, lookup, by, result, domain):
    zones.set(SHOP)
    sender, helo, ip = by
    found = spf.check(envelope(sender, helo=helo, ip=ip), lookup())
    assert (found.result, found.domain) == (result, domain)


@pytest.fixture(scope="module")
def scenarios():
    with openspf.Zones(None) as served:
        yield served


@table(("case", "scenario"), [(case, one) for one in openspf.SCENARIOS.values() for case in one["tests"].values()])
def test_openspf(scenarios, case, scenario):
    """By a resolver that is asked over a socket; whole daemons have this suite in the proofs."""
    scenarios.set(scenario)
    by = Envelope(case.get("mailfrom") or "", ("a@x.example",), case["helo"], case["host"], tls=False)
    assert spf.check(by, lookup_at(scenarios.place)).result in openspf.expected(case)


def _nested(count):
    return "".join(
        text_record(f"i{n}.shop.example", f"v=spf1 include:i{n + 1}.shop.example -all") for n in range(count)
    )


def _tree(depth, name="shop.example"):
    if not depth:
        return text_record(name, "v=spf1 ?all")
    names = [f"{letter}.{name}" for letter in "abcdefghij"]
    own = text_record(name, "v=spf1 " + " ".join(f"include:{one}" for one in names))
    return own + "".join(_tree(depth - 1, one) for one in names[: 2 if depth > 1 else 10])


BOMBS = {
    "deep": text_record("shop.example", "v=spf1 include:i0.shop.example -all") + _nested(30),
    "wide": _tree(3),
    "void": text_record("shop.example", "v=spf1 " + " ".join(f"a:v{n}.shop.example" for n in range(9)) + " -all"),
    "loop": text_record("shop.example", "v=spf1 include:shop.example -all"),
    "two records": SHOP + text_record("shop.example", "v=spf1 -all"),
    "a long record": text_record("shop.example", "v=spf1 " + "ip4:192.0.2.9 " * 900),
    "a long term": text_record("shop.example", "v=spf1 a:" + "a" * 3000 + " -all"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_record_that_attacks_is_an_error_after_few_questions(zones, lookup, name):
    zones.set(BOMBS[name])
    assert spf.check(envelope(), lookup()).result == "permerror"
    assert len(zones.asked) <= 12


def test_macros_make_no_long_questions(zones, lookup):
    zones.set(text_record("shop.example", "v=spf1 exists:" + "%{l}." * 60 + "shop.example -all"))
    found = spf.check(envelope("a" * 60 + "@shop.example"), lookup())
    assert found.result == "fail"
    assert all(len(name) < 256 for name, _ in zones.asked)


def test_a_record_is_found_in_many_strings_and_not_in_a_circle(zones, lookup):
    text = "v=spf1 " + "ip4:192.0.2.9 " * 60 + "ip4:192.0.2.1 -all"
    strings = " ".join(f'"{text[at : at + 4]}"' for at in range(0, len(text), 4))
    zones.set(f"shop.example. 60 IN TXT {strings}\n")
    assert spf.check(envelope(), lookup()).result == "pass"
    circle = "1.2.0.192.in-addr.arpa. 60 IN CNAME b.example.\nb.example. 60 IN CNAME 1.2.0.192.in-addr.arpa.\n"
    zones.set(text_record("shop.example", "v=spf1 ptr -all") + circle)
    assert spf.check(envelope(), lookup()).result == "fail"
