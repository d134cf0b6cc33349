"""Responses are cached for a while, and a slow, silent or lying resolver never delays a check beyond its deadline."""

import time
from contextlib import closing

import dns.message
import dns.name
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.senders import resolver
from tmpmaild.senders.resolver import Answer, Resolver, Unresolved
from zones import silent, text_record


def _silences(asking):
    (found,) = [one for one in asking.metrics() if one.name == "senders_resolver_silent_total"]
    return found.values()


def soon(seconds=20):
    return time.monotonic() + seconds


def test_each_kind_of_record_is_read(zones, lookup):
    zones.set(
        "x.example. 60 IN A 192.0.2.1\nx.example. 60 IN AAAA 2001:db8::1\nx.example. 60 IN MX 5 mx.example.\n"
        "1.2.0.192.in-addr.arpa. 60 IN PTR x.example.\nalias.example. 60 IN CNAME x.example.\n"
        + text_record("x.example", "a" * 300)
    )
    asked = [
        ("x.example", "A"),
        ("x.example", "AAAA"),
        ("x.example.", "MX"),
        ("1.2.0.192.in-addr.arpa", "PTR"),
        ("alias.example", "TXT"),
    ]
    questions = lookup()
    found = [questions.query(*one).values for one in asked]
    assert found == [("192.0.2.1",), ("2001:db8::1",), ((5, "mx.example"),), ("x.example",), (b"a" * 300,)]
    assert questions.query("x.example", "PTR") == Answer((), exists=True)
    for name in ("none.example", "x" * 64 + ".example", "a..example", "x." * 200):
        assert questions.query(name, "A") == Answer((), exists=False)
    assert [one.answer for one in questions.shown[-5:-2]] == ["no records of this type", "no such name", "no such name"]


def test_a_name_that_is_not_ascii_is_not_queried(zones):
    asking = Resolver(zones.place)
    zones.set(text_record("strasse.de", "a") + text_record("xn--strae-oqa.de", "b"))
    assert asking.query("straße.de", "TXT", soon()) == Answer((), exists=False)
    assert zones.asked == []


def test_responses_are_cached_for_their_time_to_live_within_bounds(zones, monkeypatch):
    now = [1000.0]
    asking = Resolver(zones.place)
    zones.set(text_record("short.example", "a", ttl=1) + text_record("long.example", "a", ttl=99_999))
    asking.query("warm.example", "TXT", soon())
    monkeypatch.setattr(resolver.time, "monotonic", lambda: now[0])

    def questions(name):
        before = len(zones.asked)
        asking.query(name, "TXT", now[0] + 20)
        return len(zones.asked) - before

    for name, kept in (("short.example", 10), ("long.example", 3600)):
        assert questions(name) == 1
        now[0] += kept - 0.5
        assert questions(name.upper() + ".") == 0
        now[0] += 1
        assert questions(name) == 1


def test_the_number_of_cached_names_is_limited(zones, monkeypatch):
    monkeypatch.setattr(resolver, "_MAX_NAMES", 3)
    asking = Resolver(zones.place)
    for number in (*range(10), 9, 8, 7):
        asking.query(f"n{number}.example", "A", soon())
    assert len(zones.asked) == 10
    asking.query("n6.example", "A", soon())
    assert len(zones.asked) == 11
    zones.set(text_record("big.example", "x" * 5000))
    before = len(zones.asked)
    assert asking.query("big.example", "TXT", soon()).values == (b"x" * 5000,)
    queries = len(zones.asked) - before
    asking.query("big.example", "TXT", soon())
    assert len(zones.asked) == before + 2 * queries


def test_a_response_with_many_short_records_is_not_cached(zones):
    zones.set("".join(f"x.example. 60 IN MX {number} x.\n" for number in range(100)))
    asking = Resolver(zones.place)
    assert len(asking.query("x.example", "MX", soon()).values) == 100
    before = len(zones.asked)
    asking.query("x.example", "MX", soon())
    assert len(zones.asked) == 2 * before


def test_a_name_with_two_final_dots_does_not_affect_the_name_without_dots(zones):
    zones.set(text_record("x.example", "a"))
    asking = Resolver(zones.place)
    assert asking.query("x.example..", "TXT", soon()) == Answer((), exists=False)
    assert asking.query("x.example", "TXT", soon()).values == (b"a",)


def _with_id(wire):
    return bytes([wire[0] ^ 1]) + wire[1:]


@pytest.mark.parametrize("spoil", [lambda _: None, _with_id], ids=["never", "wrong id"])
def test_a_query_without_a_response_takes_no_longer_than_the_deadline(zones, spoil):
    zones.spoil = spoil
    begun = time.monotonic()
    with pytest.raises(Unresolved, match="no response in time"):
        Resolver(zones.place).query("x.example", "TXT", soon(0.3))
    assert 0.25 < time.monotonic() - begun < PATIENCE_SECONDS


def test_a_query_without_a_response_is_not_repeated_for_a_while(zones, monkeypatch):
    monkeypatch.setattr(resolver, "_TRY_SECONDS", 0.05)
    zones.spoil = lambda _: None
    asking = Resolver(zones.place)
    for reason in ("no response in time", "no response a moment ago"):
        with pytest.raises(Unresolved, match=reason):
            asking.query("x.example", "TXT", soon(0.2))
    asked = len(zones.asked)
    with pytest.raises(Unresolved, match="a moment ago"):
        asking.query("X.example.", "TXT", soon())
    assert len(zones.asked) == asked
    zones.spoil = lambda wire: wire
    now = time.monotonic
    monkeypatch.setattr(resolver.time, "monotonic", lambda: now() + 11)
    assert asking.query("x.example", "TXT", soon()) == Answer((), exists=False)


def test_a_silent_resolver_is_logged_and_counted_but_a_silent_name_server_is_not(zones, monkeypatch, caplog):
    monkeypatch.setattr(resolver, "_TRY_SECONDS", 0.05)
    asking = Resolver(zones.place)

    def ask(name):
        with pytest.raises(Unresolved):
            asking.query(name, "TXT", soon(0.1))

    def only_the_root(wire):
        return wire if dns.message.from_wire(wire).question[0].name == dns.name.root else None

    monkeypatch.setattr(resolver, "_PROBE_SECONDS", PATIENCE_SECONDS)
    zones.spoil = only_the_root
    ask("x.example")
    assert (_silences(asking), caplog.text) == ({(): 0}, "")
    monkeypatch.setattr(resolver, "_PROBE_SECONDS", 0.05)
    zones.spoil = lambda _: None
    ask("y.example")  # this resolver has just responded
    monkeypatch.setattr(resolver, "_SILENT_SECONDS", 0)
    ask("z.example")
    assert _silences(asking) == {(): 1}
    assert f"senders.resolver {zones.place} does not respond" in caplog.text
    zones.spoil = lambda wire: wire
    asking.query("a.example", "TXT", soon())
    assert f"senders.resolver {zones.place} responds again" in caplog.text


def test_a_query_to_a_dead_resolver_is_abandoned_when_the_daemon_stops():
    with closing(silent()) as dead:
        asking = Resolver(f"127.0.0.1:{dead.getsockname()[1]}")
        asking.close()
        with pytest.raises(Unresolved):
            asking.query("x.example", "TXT", soon())


def _of_tcp(spoil):
    """Return a function that corrupts responses over TCP only; UDP responses are marked as truncated."""
    return lambda wire: wire if wire[2] & 2 else spoil(wire)


@pytest.mark.parametrize(
    ("octets", "spoil"),
    [
        (1, lambda wire: wire[:20]),
        (1, lambda wire: wire[:3] + bytes([wire[3] | 2]) + wire[4:]),  # SERVFAIL
        *((2000, _of_tcp(spoil)) for spoil in (lambda _: None, lambda wire: wire[:100], _with_id)),
    ],
)
def test_an_invalid_response_is_a_temporary_error(zones, octets, spoil):
    zones.set(text_record("x.example", "a" * octets))
    zones.spoil = spoil
    with pytest.raises(Unresolved):
        Resolver(zones.place).query("x.example", "TXT", soon(1))


def test_a_resolver_that_cannot_be_contacted_is_reported_without_the_number_of_the_error():
    with pytest.raises(Unresolved, match=r"A of x\.example: [A-Z][a-z ]+$"):  # no packet may be sent to this address
        Resolver("255.255.255.255:53").query("x.example", "A", soon())


def test_a_long_response_over_tcp_is_refused_before_it_is_parsed(zones):
    zones.set("".join(text_record("x.example", f"{number:05}" * 400) for number in range(32)))
    with pytest.raises(Unresolved, match="the answer has more than 16384 bytes"):
        Resolver(zones.place).query("x.example", "TXT", soon())
    zones.set(text_record("x.example", "a" * 2000))
    zones.spoil = _of_tcp(lambda wire: wire + bytes(16 * 1024))
    with pytest.raises(Unresolved, match="the answer has more than 16384 bytes"):
        Resolver(zones.place).query("x.example", "TXT", soon())


def test_only_the_beginning_of_a_long_datagram_is_parsed(zones, monkeypatch):
    parsed = []
    original = dns.message.from_wire
    monkeypatch.setattr(dns.message, "from_wire", lambda wire, **more: parsed.append(wire) or original(wire, **more))
    zones.set(text_record("x.example", "a"))
    for filling in (bytes(60_000), b"\xc0\x0c\0\x10\0\1\0\0\0\x3c\0\2\1x" * 4000):
        zones.spoil = lambda wire, filling=filling: wire[:6] + b"\x0f\xff" + wire[8:] + filling
        with pytest.raises(Unresolved):
            Resolver(zones.place).query("x.example", "TXT", soon(1))
    assert len(parsed) >= 2
    assert max(map(len, parsed)) <= 4096


def test_one_check_makes_at_most_a_hundred_queries(zones, lookup):
    questions = lookup()
    for number in range(100):
        questions.query(f"n{number}.example", "A")
    with pytest.raises(Unresolved, match="more than 100 DNS queries"):
        questions.query("one-more.example", "A")
    assert len(questions.shown) == 24
