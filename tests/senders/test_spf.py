"""SPF: the openspf suite, the address that is checked, and the cost of hostile records."""

import openspf
import pytest

from tmpmaild.model import Envelope
from tmpmaild.senders import spf
from zones import text_record

from .conftest import envelope, lookup_at

SHOP = text_record("shop.example", "v=spf1 ip4:192.0.2.1 ip6:2001:db8::/32 -all")


@pytest.mark.parametrize(
    ("sent", "result", "domain"),
    [
        (("bounce@shop.example", "mx.shop.example", "192.0.2.1"), "pass", "shop.example"),
        (("bounce@shop.example", "mx.shop.example", "192.0.2.2"), "fail", "shop.example"),
        (("bounce@shop.example", "mx.shop.example", "2001:db8::9"), "pass", "shop.example"),
        (("", "SHOP.example", "192.0.2.1"), "pass", "shop.example"),
        (("", "[192.0.2.1]", "192.0.2.1"), "none", ""),
        (("a@other.example", "mx.shop.example", "192.0.2.1"), "none", "other.example"),
        (("zoë@shop.example", "mx.shop.example", "192.0.2.1"), "pass", "shop.example"),
        (("a@bücher.example", "mx.shop.example", "192.0.2.1"), "none", "xn--bcher-kva.example"),
        (("bounce@shop.example", "mx.shop.example", ""), "none", "shop.example"),
        (("bounce@shop.example", "mx.shop.example", "local"), "none", "shop.example"),
        (("bounce@shop.example", "mx.shop.example", "::ffff:192.0.2.1"), "pass", "shop.example"),
        (("bounce@shop.example", "mx.shop.example", "::ffff:192.0.2.2"), "fail", "shop.example"),
        (("bounce@shop.example", "mx.shop.example", "fe80::1%eth0"), "fail", "shop.example"),
        (('"a@evil.example"@shop.example', "mx.shop.example", "192.0.2.2"), "fail", "shop.example"),
        (("a@shop.example\x00", "mx.shop.example", "192.0.2.1"), "none", ""),
        (("", "[IPv6:2001:db8::9]", "192.0.2.1"), "none", ""),
        (("a@[192.0.2.1]", "mx.shop.example", "192.0.2.1"), "none", ""),
    ],
)
def test_mail_from_or_helo_is_checked(zones, lookup, sent, result, domain):
    zones.set(SHOP)
    sender, helo, ip = sent
    found = spf.check(envelope(sender, helo=helo, ip=ip), lookup())
    assert (found.result, found.domain) == (result, domain)


@pytest.fixture(scope="module")
def scenarios():
    with openspf.Zones(None) as served:
        yield served


@pytest.mark.parametrize("name", openspf.SCENARIOS)
def test_openspf(scenarios, subtests, name):
    """Every case of the openspf suite, with a resolver that is queried over a socket."""
    scenario = openspf.SCENARIOS[name]
    scenarios.set(scenario)
    for title, case in scenario["tests"].items():
        with subtests.test(title):
            sent = Envelope(case.get("mailfrom") or "", ("a@x.example",), case["helo"], case["host"], tls=False)
            assert spf.check(sent, lookup_at(scenarios.place)).result in openspf.expected(case)


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
def test_a_hostile_record_is_an_error_after_few_queries(zones, lookup, name):
    zones.set(BOMBS[name])
    assert spf.check(envelope(), lookup()).result == "permerror"
    assert len(zones.asked) <= 12


def test_macros_cause_no_long_queries(zones, lookup):
    zones.set(text_record("shop.example", "v=spf1 exists:" + "%{l}." * 60 + "shop.example -all"))
    found = spf.check(envelope("a" * 60 + "@shop.example"), lookup())
    assert found.result == "fail"
    assert all(len(name) < 256 for name, _ in zones.asked)


def test_a_record_is_read_from_many_strings_but_never_in_a_loop(zones, lookup):
    text = "v=spf1 " + "ip4:192.0.2.9 " * 60 + "ip4:192.0.2.1 -all"
    strings = " ".join(f'"{text[at : at + 4]}"' for at in range(0, len(text), 4))
    zones.set(f"shop.example. 60 IN TXT {strings}\n")
    assert spf.check(envelope(), lookup()).result == "pass"
    circle = "1.2.0.192.in-addr.arpa. 60 IN CNAME b.example.\nb.example. 60 IN CNAME 1.2.0.192.in-addr.arpa.\n"
    zones.set(text_record("shop.example", "v=spf1 ptr -all") + circle)
    assert spf.check(envelope(), lookup()).result == "fail"
