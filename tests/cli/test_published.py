"""``tmpmaild doctor --dns``: the records to publish against those that a DNS server on this machine has."""

import socket
import threading
from ipaddress import ip_address

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from tmpmaild.cli.doctor.published import Dns, Unknown, compare
from tmpmaild.cli.doctor.records import wanted
from tmpmaild.config.settings import Config

MX = "mx.example.org"
RIGHT = {
    ("mx.example.org.", "A"): ["9.9.9.9"],
    ("example.org.", "MX"): ["10 mx.example.org."],
    ("example.org.", "TXT"): ['"other things"', '"v=spf1 " "-all"'],
    ("_dmarc.example.org.", "TXT"): ['"v=DMARC1;p=reject; adkim=s"'],
}


class Server:
    """A DNS server for UDP that knows some records; a name without any does not exist."""

    def __init__(self):
        self.records = dict(RIGHT)
        self.is_silent = False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while len(octets_and_peer := self._socket.recvfrom(4096)) and octets_and_peer[0]:
            if not self.is_silent:
                answer = self._answer(dns.message.from_wire(octets_and_peer[0]))
                self._socket.sendto(answer.to_wire(), octets_and_peer[1])

    def _answer(self, query):
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        (question,) = query.question
        name, kind = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        if values := self.records.get((name, kind)):
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", kind, *values))
        elif name not in {known for known, _ in self.records}:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()


@pytest.fixture
def server():
    one = Server()
    yield one
    one.close()


@pytest.fixture
def found(server):
    """Return a function that compares the records of example.org with those of the server, some of them changed."""

    def found(changes=None, addresses=("9.9.9.9",), *, has_nodes=False):
        server.records |= changes or {}
        records = wanted(Config(domains=("example.org",)), MX, map(ip_address, addresses))
        compared = compare(records, MX, Dns(server.address).ask, has_nodes=has_nodes)
        return {one.check: one for one in compared}

    return found


def test_what_is_published_as_it_should_be_is_fine(found):
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
        ("A mx.example.org", [], "problem", "none"),
        ("A mx.example.org", ["198.51.100.7"], "warning", "this machine has 9.9.9.9"),
        ("A mx.example.org", ["198.51.100.7", "9.9.9.9"], "ok", ""),
        ("AAAA mx.example.org", ["2001:db8::1"], "warning", "on no IPv6 address"),
        ("MX example.org", [], "problem", "none"),
        ("MX example.org", ["10 mail.example.com."], "problem", "mail goes elsewhere"),
        ("MX example.org", ["0 ."], "problem", "null MX"),
        ("TXT example.org", ['"v=spf1 a mx ~all"'], "warning", "lets others send"),
        ("TXT example.org", ['"v=spf1 -all"', '"v=spf1 mx -all"'], "warning", "none counts"),
        ("TXT example.org", [], "warning", "none, so others"),
        ("TXT _dmarc.example.org", ['"v=DMARC1; p=none"'], "warning", "lets others send"),
        ("TXT *._domainkey.example.org", ['"v=DKIM1; p="'], "ok", "published"),
    ],
)
def test_what_differs_is_told(found, record, values, level, said):
    kind, name = record.split()
    one = found({(f"{name}.", kind): values})[f"DNS {record}"]
    assert one.level == level
    assert said in one.text


NODES = ("10 mx.example.org.", "10 MX2.example.org.", "10 mx3.example.org.")


def test_other_names_of_the_domain_are_other_nodes_where_the_database_is_shared(found):
    changes = {
        ("example.org.", "MX"): NODES,
        ("mx2.example.org.", "A"): ["9.9.9.10"],
        ("mx3.example.org.", "AAAA"): ["2620:fe::fe"],
    }
    several = found(changes, has_nodes=True)
    assert {one.level for one in several.values()} == {"ok"}
    assert several["DNS MX example.org"].text == "10 mx.example.org, 10 mx2.example.org, 10 mx3.example.org"
    assert several["DNS A/AAAA mx2.example.org"].text == "9.9.9.10: another node"
    assert several["DNS A/AAAA mx3.example.org"].text == "2620:fe::fe: another node"
    alone = found(changes)["DNS A/AAAA mx2.example.org"]
    assert (alone.level, "another machine" in alone.text) == ("warning", True)


@pytest.mark.parametrize("has_nodes", [True, False])
def test_a_second_name_of_this_machine_is_fine_wherever_mail_is_stored(found, has_nodes):
    changes = {("example.org.", "MX"): NODES[:2], ("mx2.example.org.", "A"): ["9.9.9.9", "9.9.9.10"]}
    one = found(changes, has_nodes=has_nodes)["DNS A/AAAA mx2.example.org"]
    assert (one.level, one.text) == ("ok", "9.9.9.10, 9.9.9.9: this machine")


def test_a_node_without_an_address_and_one_that_is_an_alias_are_problems(found):
    changes = {("example.org.", "MX"): NODES, ("mx3.example.org.", "CNAME"): ["mx.example.com."]}
    checks = found(changes, has_nodes=True)
    assert [checks[f"DNS A/AAAA {name}.example.org"].level for name in ("mx2", "mx3")] == ["problem", "problem"]
    assert (checks["DNS CNAME mx3.example.org"].level, "DNS CNAME mx2.example.org" in checks) == ("problem", False)
    assert "mx.example.com: " in checks["DNS CNAME mx3.example.org"].text


def test_a_node_that_the_domain_does_not_name_gets_no_mail(found):
    checks = found({("example.org.", "MX"): NODES[1:]}, has_nodes=True)
    assert checks["DNS MX example.org"].level == "problem"


def test_a_domain_that_nobody_has_registered(found, server):
    server.records.clear()
    assert found()["DNS MX example.org"].text == "there is no such domain"


def test_an_address_behind_nat_is_not_held_against_the_record(found):
    assert found(addresses=["10.0.0.1"])["DNS A mx.example.org"].level == "ok"


def test_a_server_that_does_not_answer_is_asked_for_a_limited_time(server):
    server.is_silent = True
    asked = Dns(server.address, all_seconds=0.1)
    with pytest.raises(Unknown, match="no answer within"):
        asked.ask("example.org", "MX")
    with pytest.raises(Unknown, match="the time is up"):
        Dns(server.address, all_seconds=0).ask("example.org", "MX")
    records = wanted(Config(domains=("example.org",)), MX, [])
    asked = Dns(server.address, query_seconds=0.05)
    found = [one.text for one in compare(records, MX, asked.ask)]
    assert found.count("cannot be told: not asked, since the resolver does not answer") == len(found) - 2
    found = list(compare(records, MX, Dns(server.address, all_seconds=0).ask))
    assert {one.level for one in found} == {"warning"}
