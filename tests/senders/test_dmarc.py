"""DMARC: the record that applies, and alignment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild import hostnames
from tmpmaild.mail import mime
from tmpmaild.model import DkimVerdict, SpfVerdict
from tmpmaild.senders import dmarc
from zones import text_record

from .conftest import lookup_at

SPF = SpfVerdict("pass", "shop.example")
EXISTING = "eu.shop.example. 60 IN A 192.0.2.1\n"


def record(domain, text):
    return text_record(f"_dmarc.{domain}", text)


def mail(*authors):
    return b"".join(b"From: %s\r\n" % one.encode() for one in authors) + b"\r\nbody\r\n"


SHOP = record("shop.example", "v=DMARC1; p=reject")
LONG = b"From: " + b"c" * 307 + b"@bank.example.shop.example"


@pytest.mark.parametrize(
    ("field", "result"),
    [
        (b"From: a@shop.example", "pass"),
        (b"FROM : Shop\r\n <a@Shop.EXAMPLE>", "pass"),
        (b"From:\r\n\ta@shop.example (the shop, or ceo@bank.example)", "pass"),
        (b'From: "ceo@bank.example" <a@shop.example>', "pass"),
        (b"From: =?utf-8?q?ceo=40bank.example?= <a@shop.example>", "pass"),
        (b"From: Shops: a@shop.example, b@shop.example;", "pass"),
        (b"From: <@evil.example:a@shop.example>", "pass"),
        (b"From: a@shop.example\r\nFrom : a@shop.example", "fail"),
        (b"From: a@shop.example, ceo@bank.example", "fail"),
        (b"From: Shops: a@shop.example;, Banks: ceo@bank.example;", "fail"),
        (b"From: ceo@bank..example, a@shop.example", "fail"),
        (b"From: ceo@-bank.example, a@shop.example", "fail"),
        (b"From: ceo@[192.0.2.1], a@shop.example", "fail"),
        (b"From: ceo@b\xe4nk.example, a@shop.example", "fail"),
        (b"From: a@shop.example\x00.bank.example", "none"),
        (b"From: a@shop.example.", "none"),
        (b"From: a@\xef\xbd\x93hop.example", "none"),
        (b"From: <mailto:>;a@shop.example", "pass"),
        (b"From: <mailto:>, Shop <mailto:a@shop.example>", "pass"),
        (b"From: <@shop.example:>", "none"),
        (b"no field\r\nFrom: a@shop.example", "none"),
        (b"From: a@shop.example\r\nno field", "none"),
        (b"From: <shop.example>", "none"),
        (b"From: Shops:;", "none"),
        (b"Reply-To: a@shop.example", "none"),
        (LONG, "none"),
    ],
)
def test_the_checked_author_is_the_shown_author(zones, lookup, field, result):
    zones.set(SHOP)
    raw = field + b"\r\n\r\nbody\r\n"
    found = dmarc.check(raw, SPF, (), lookup())
    assert found.result == result
    if found.result == "pass":
        assert mime.parse(raw).from_address.lower() == "a@shop.example"


@pytest.mark.parametrize(
    ("raw", "result"),
    [
        (b"From: =?utf-8?q?Ann_=3Ca=40shop.example=3E?=\r\n\r\nbody\r\n", "pass"),
        (b"From: Ann [mailto:a@shop.example]\r\n\r\nbody\r\n", "pass"),
        (b'From: \x1b$B"<(>\x1b(B <a@shop.example>\r\n\r\nbody\r\n', "pass"),
        (
            "From: Иван <a@shop.example>\r\nContent-Type: text/plain; charset=koi8-r\r\n\r\nжизнь\r\n".encode("koi8-r"),
            "pass",
        ),
        (b"From: =?utf-8?q?a=40shop.example=2C_b=40other.example?=\r\n\r\nbody\r\n", "fail"),
        (b"From: =?utf-8?q?a=40shop.example?= <b@other.example>\r\n\r\nbody\r\n", "none"),
        # Other programs may read the byte order mark as part of the first field's name, and find a different From.
        (b"\xef\xbb\xbfFrom: a@shop.example\r\n\r\nbody\r\n", "none"),
    ],
)
def test_an_author_is_found_if_the_message_shows_an_author(zones, lookup, raw, result):
    zones.set(SHOP)
    found = dmarc.check(raw, SPF, (), lookup())
    assert found.result == result
    assert (found.domain == mime.parse(raw).from_address.rpartition("@")[2]) or result == "none"


PIECES = [
    " ",
    ",",
    ";",
    ":",
    "<",
    ">",
    "(",
    ")",
    "\\",
    '"',
    "[",
    "]",
    "<>",
    "=?utf-8?q?ceo=40bank.example?=",
    "<=?utf-8?q?ceo=40bank.example?=>",
    "mailto:",
    "\r\n ",
    "a@shop.example",
    "<a@shop.example>",
    "ceo@bank.example",
    "<ceo@bank.example>",
    '"ceo@bank.example"',
    "@",
    "zoë@x",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_a_field_shown_with_a_different_address_is_not_authentic(pieces):
    raw = f"From: {''.join(pieces)}\r\n\r\n".encode()
    domains, _ = dmarc.authors(raw)
    if len(set(domains)) == 1 and domains[0]:
        shown = mime.parse(raw).from_address.rpartition("@")[2]
        assert hostnames.to_ascii(shown) == domains[0]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("mail.shop.co.uk", "shop.co.uk", True),
        ("shop.co.uk", "evil.co.uk", False),
        ("co.uk", "evil.co.uk", False),
        ("a.github.io", "b.github.io", False),
        ("a.shop.github.io", "shop.github.io", True),
        ("a.host.unknowntld", "host.unknowntld", True),
        ("host.unknowntld", "evil.unknowntld", False),
        ("a.shop.xn--55qx5d.cn", "shop.公司.cn", True),
        ("shop.xn--55qx5d.cn", "evil.xn--55qx5d.cn", False),
        ("a.b.kawasaki.jp", "c.b.kawasaki.jp", False),
        ("a.city.kawasaki.jp", "city.kawasaki.jp", True),
        ("localhost", "a.localhost", False),
        ("shop.example", "SHOP.Example", True),
        ("shop.example", "shop.example.", False),
        ("shop.example", "", False),
    ],
)
def test_domains_of_the_same_owner_are_aligned(one, other, is_same):
    assert dmarc.is_aligned(one, other, "r") is is_same


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("v=DMARC1", "none"),
        ("v = DMARC1 ; P = Reject ;; nonsense", "reject"),
        ("v=DMARC1; p=bogus\\010", "none"),
        ("v=DMARC1; sp=reject", "none"),
        ("v=dmarc1; p=reject", None),
        ("v=DMARC10; p=reject", None),
        ("v=DMARC1; p=reject; p=none", None),
    ],
)
def test_a_record_has_one_of_three_policies(zones, lookup, text, policy):
    zones.set(f'_dmarc.shop.example. 60 IN TXT "{text.replace(";", chr(92) + ";")}"\n')
    found = dmarc.check(mail("a@shop.example"), SPF, (), lookup())
    assert (found.result, found.policy) == (("none", "") if policy is None else ("pass", policy))


@pytest.mark.parametrize(
    ("records", "authors", "proven", "expected"),
    [
        pytest.param([], ["a@shop.example"], ("pass shop.example", []), ("none", ""), id="no record"),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject; pct=0")],
            ["a@shop.example"],
            ("pass shop.example", []),
            ("pass", "reject"),
            id="by spf",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject")],
            ["A <a@SHOP.example>"],
            ("fail shop.example", ["fail shop.example", "pass mail.shop.example"]),
            ("pass", "reject"),
            id="by dkim",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1; p=quarantine; adkim=s")],
            ["a@shop.example"],
            ("fail shop.example", ["pass mail.shop.example"]),
            ("fail", "quarantine"),
            id="strict dkim",
        ),
        pytest.param(
            [("eu.shop.example", "v=DMARC1; p=none; aspf=s")],
            ["a@eu.shop.example"],
            ("pass shop.example", []),
            ("fail", "none"),
            id="strict spf",
        ),
        pytest.param(
            [("bank.example", "v=DMARC1; p=reject")],
            ["a@bank.example"],
            ("pass shop.example", []),
            ("fail", "reject"),
            id="another's",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject")],
            ["a@shop.example"],
            ("fail shop.example", ["policy shop.example"]),
            ("fail", "reject"),
            id="a policy of l=",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject; sp=quarantine; np=none")],
            ["a@eu.shop.example"],
            ("fail shop.example", []),
            ("fail", "quarantine"),
            id="sp",
        ),
        pytest.param(
            [("co.uk", "v=DMARC1; p=reject")],
            ["a@shop.co.uk"],
            ("pass evil.co.uk", []),
            ("none", ""),
            id="a public suffix is nobody's",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject"), ("shop.example", "v=DMARC1; p=none")],
            ["a@shop.example"],
            ("pass shop.example", []),
            ("none", ""),
            id="two records",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1 nonsense")],
            ["a@shop.example"],
            ("pass shop.example", []),
            ("none", ""),
            id="no tags",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject")],
            ["a@shop.example", "b@shop.example"],
            ("pass shop.example", []),
            ("fail", ""),
            id="two fields",
        ),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject")],
            ["a@shop.example, b@x.example"],
            ("pass shop.example", []),
            ("fail", ""),
            id="two domains",
        ),
        pytest.param([], ["nobody"], ("pass shop.example", []), ("none", ""), id="no author"),
        pytest.param([], [], ("pass shop.example", []), ("none", ""), id="no field"),
        pytest.param(
            [("shop.example", "v=DMARC1; p=reject")],
            ["a@shop.example"],
            ("temperror shop.example", []),
            ("temperror", "reject"),
            id="not known",
        ),
        pytest.param(
            [("xn--bcher-kva.example", "v=DMARC1; p=reject")],
            ["a@bücher.example"],
            ("pass shop.example", ["pass bücher.example"]),
            ("pass", "reject"),
            id="u-label",
        ),
    ],
)
def test_the_domain_that_a_message_claims_is_compared_with_the_authenticated_domains(
    zones, records, authors, proven, expected
):
    spf, dkim = proven
    zones.set(EXISTING + "".join(record(domain, text) for domain, text in records))
    by_spf, by_dkim = SpfVerdict(*spf.split()), tuple(DkimVerdict(*one.split()) for one in dkim)
    found = dmarc.check(mail(*authors), by_spf, by_dkim, lookup_at(zones.place))
    assert (found.result, found.policy) == expected


def test_a_subdomain_that_does_not_exist_has_the_policy_np(zones, lookup):
    for existing, policy in (("", "none"), (EXISTING, "reject")):
        zones.set(existing + record("shop.example", "v=DMARC1; p=reject; np=none"))
        found = dmarc.check(mail("a@eu.shop.example"), SpfVerdict("fail", "shop.example"), (), lookup())
        assert (found.result, found.policy) == ("fail", policy)


def test_a_fail_names_the_authenticated_domains(zones, lookup):
    zones.set(record("bank.example", "v=DMARC1; p=reject"))
    found = dmarc.check(mail("a@bank.example"), SPF, (DkimVerdict("pass", "mailer.example"),), lookup())
    assert found.reason == "neither SPF nor DKIM passes for bank.example (SPF: shop.example, DKIM: mailer.example)"
