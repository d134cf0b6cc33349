"""``tmpmaild doctor --dns``: compares the records to publish with those of a DNS server on this machine."""

from ipaddress import ip_address

import dns.resolver
import pytest

from tmpmaild.cli.doctor.network import compare, wanted
from tmpmaild.config.settings import Config
from tmpmaild.senders.resolver import SYSTEM, Resolver, Unresolved
from zones import Zones

MX = "mx.example.org"
RIGHT = {
    ("mx.example.org.", "A"): ["9.9.9.9"],
    ("example.org.", "MX"): ["10 mx.example.org."],
    ("example.org.", "TXT"): ['"other things"', '"v=spf1 " "-all"'],
    ("_dmarc.example.org.", "TXT"): ['"v=DMARC1;p=reject; adkim=s"'],
}


@pytest.fixture
def server():
    with Zones() as zones:
        yield zones


@pytest.fixture
def found(server):
    """Return a function that sets the server's records for example.org and compares them with the expected records."""

    def found(changes=None, addresses=("9.9.9.9",)):
        records = RIGHT | (changes or {})
        server.set("".join(f"{name} 60 IN {kind} {one}\n" for (name, kind), every in records.items() for one in every))
        records = wanted(Config(domains=("example.org",)), MX, map(ip_address, addresses))
        return {one.check: one for one in compare(records, MX, Resolver(server.place))}

    return found


def test_correctly_published_records_are_fine(found):
    assert {check: one.level for check, one in found().items()} == {
        "DNS A mx.example.org": "ok",
        "DNS MX example.org": "ok",
        "DNS TXT example.org": "ok",
        "DNS TXT _dmarc.example.org": "ok",
        "DNS TXT *._domainkey.example.org": "ok",
    }


@pytest.mark.parametrize(
    ("record", "values", "level", "said"),
    [
        ("A mx.example.org", [], "problem", "not published"),
        ("A mx.example.org", ["198.51.100.7"], "warning", "this machine has 9.9.9.9"),
        ("A mx.example.org", ["198.51.100.7", "9.9.9.9"], "ok", ""),
        ("AAAA mx.example.org", ["2001:db8::1"], "warning", "not known to listen on a public IPv6 address"),
        ("MX example.org", [], "problem", "not published"),
        ("MX example.org", ["10 mail.example.com."], "problem", "mail is sent elsewhere"),
        ("MX example.org", ["0 ."], "problem", "null MX"),
        ("TXT example.org", ['"v=spf1 a mx ~all"'], "warning", "lets others spoof"),
        ("TXT example.org", ['"v=spf1 -all"', '"v=spf1 mx -all"'], "warning", "so all are ignored"),
        ("TXT example.org", [], "warning", "not published, so others"),
        ("TXT _dmarc.example.org", ['"v=DMARC1; p=none"'], "warning", "lets others spoof"),
        ("TXT *._domainkey.example.org", ['"v=DKIM1; p="'], "ok", "published"),
    ],
)
def test_differences_are_reported(found, record, values, level, said):
    kind, name = record.split()
    one = found({(f"{name}.", kind): values})[f"DNS {record}"]
    assert one.level == level
    assert said in one.text


def test_other_mail_servers_and_unknown_domains_are_reported_and_an_address_behind_nat_is_accepted(
    found,
):
    changes = {("example.org.", "MX"): ["20 MX2.example.org.", "10 mx.example.org."]}
    assert found(changes)["DNS MX example.org"].text == "10 mx.example.org, 20 mx2.example.org"
    nothing = dict.fromkeys(RIGHT, ())
    assert found(nothing)["DNS MX example.org"].text == "the domain does not exist"
    assert found(addresses=["10.0.0.1"])["DNS A mx.example.org"].level == "ok"


def test_a_machine_without_a_resolver(monkeypatch, tmp_path):
    read = dns.resolver.Resolver.read_resolv_conf
    nothing = tmp_path / "resolv.conf"
    monkeypatch.setattr(dns.resolver.Resolver, "read_resolv_conf", lambda self, _: read(self, str(nothing)))
    with pytest.raises(Unresolved, match="this machine has no resolver"):
        Resolver(SYSTEM)


def test_a_resolver_that_never_responds_is_one_problem_and_is_not_queried_for_long(server):
    server.spoil = lambda _: None
    records = wanted(Config(domains=("example.org",)), MX, [])
    (found,) = compare(records, MX, Resolver(server.place), seconds=0.1)
    assert (found.check, found.level) == ("DNS resolver", "problem")
    assert f"{server.place} does not respond" in found.text
    assert len({name for name, _ in server.asked}) <= 2  # only the first record's name and the root are queried


def test_a_record_without_a_response_is_a_warning_and_the_remaining_records_are_compared(server):
    server.set("example.org. 60 IN MX 10 mx.example.org.\n")
    server.spoil = lambda wire: None if b"_dmarc" in wire else wire
    records = wanted(Config(domains=("example.org",)), MX, [])
    found = {one.check: one for one in compare(records, MX, Resolver(server.place), seconds=1)}
    assert found["DNS MX example.org"].level == "ok"
    assert "no response in time" in found["DNS TXT _dmarc.example.org"].text
    assert "DNS resolver" not in found
