"""DMARC: which record applies, and what is aligned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import table
from tmpmaild.mail import headers, mime
from tmpmaild.model import DkimVerdict, SpfVerdict
from tmpmaild.senders import dmarc
from zones import text_record

NO_SPF, SPF = SpfVerdict("fail", "shop.example"), SpfVerdict("pass", "shop.example")


def record(domain, text):
    return text_record(f"_dmarc.{domain}", text)


def mail(*authors):
    return b"".join(b"From: %s\r\n" % one.encode() for one in authors) + b"\r\nbody\r\n"


CASES = {
    "no record": ("", mail("a@shop.example"), SPF, (), ("none", "")),
    "by spf": (
        record("shop.example", "v=DMARC1; p=reject; pct=0"),
        mail("a@shop.example"),
        SPF,
        (),
        ("pass", "reject"),
    ),
    "by dkim": (
        record("shop.example", "v=DMARC1; p=reject"),
        mail("A <a@SHOP.example>"),
        NO_SPF,
        (DkimVerdict("fail", "shop.example"), DkimVerdict("pass", "mail.shop.example")),
        ("pass", "reject"),
    ),
    "strict dkim": (
        record("shop.example", "v=DMARC1; p=quarantine; adkim=s"),
        mail("a@shop.example"),
        NO_SPF,
        (DkimVerdict("pass", "mail.shop.example"),),
        ("fail", "quarantine"),
    ),
    "strict spf": (
        record("eu.shop.example", "v=DMARC1; p=none; aspf=s"),
        mail("a@eu.shop.example"),
        SPF,
        (),
        ("fail", "none"),
    ),
    "another's": (record("bank.example", "v=DMARC1; p=reject"), mail("a@bank.example"), SPF, (), ("fail", "reject")),
    "a policy of l=": (
        record("shop.example", "v=DMARC1; p=reject"),
        mail("a@shop.example"),
        NO_SPF,
        (DkimVerdict("policy", "shop.example"),),
        ("fail", "reject"),
    ),
    "sp": (
        record("shop.example", "v=DMARC1; p=reject; sp=quarantine; np=none") + "eu.shop.example. 60 IN A 192.0.2.1\n",
        mail("a@eu.shop.example"),
        NO_SPF,
        (),
        ("fail", "quarantine"),
    ),
    "np": (
        record("shop.example", "v=DMARC1; p=reject; np=none"),
        mail("a@eu.shop.example"),
        NO_SPF,
        (),
        ("fail", "none"),
    ),
    "a public suffix is nobody's": (
        record("co.uk", "v=DMARC1; p=reject"),
        mail("a@shop.co.uk"),
        SpfVerdict("pass", "evil.co.uk"),
        (),
        ("none", ""),
    ),
    "two records": (
        record("shop.example", "v=DMARC1; p=reject") * 1 + record("shop.example", "v=DMARC1; p=none"),
        mail("a@shop.example"),
        SPF,
        (),
        ("none", ""),
    ),
    "no tags": (record("shop.example", "v=DMARC1 nonsense"), mail("a@shop.example"), SPF, (), ("none", "")),
    "two fields": (
        record("shop.example", "v=DMARC1; p=reject"),
        mail("a@shop.example", "b@shop.example"),
        SPF,
        (),
        ("fail", ""),
    ),
    "two domains": (
        record("shop.example", "v=DMARC1; p=reject"),
        mail("a@shop.example, b@x.example"),
        SPF,
        (),
        ("fail", ""),
    ),
    "no author": ("", mail("nobody"), SPF, (), ("none", "")),
    "no field": ("", b"\r\nbody\r\n", SPF, (), ("none", "")),
    "not known": (
        record("shop.example", "v=DMARC1; p=reject"),
        mail("a@shop.example"),
        SpfVerdict("temperror", "shop.example"),
        (),
        ("temperror", "reject"),
    ),
    "u-label": (
        record("xn--bcher-kva.example", "v=DMARC1; p=reject"),
        mail("a@bücher.example"),
        SPF,
        (DkimVerdict("pass", "bücher.example"),),
        ("pass", "reject"),
    ),
}


SHOP = record("shop.example", "v=DMARC1; p=reject")
AUTHORS = {
    b"From: a@shop.example": "pass",
    b"FROM : Shop\r\n <a@Shop.EXAMPLE>": "pass",
    b"From:\r\n\ta@shop.example (the shop, or ceo@bank.example)": "pass",
    b'From: "ceo@bank.example" <a@shop.example>': "pass",
    b"From: =?utf-8?q?ceo=40bank.example?= <a@shop.example>": "pass",
    b"From: Shops: a@shop.example, b@shop.example;": "pass",
    b"From: <@evil.example:a@shop.example>": "pass",  # a route (RFC 5322 4.4)
    b"From: a@shop.example\r\nFrom : a@shop.example": "fail",
    b"From: a@shop.example, ceo@bank.example": "fail",
    b"From: Shops: a@shop.example;, Banks: ceo@bank.example;": "fail",
    b"From: ceo@bank..example, a@shop.example": "fail",  # the first is what is shown
    b"From: ceo@-bank.example, a@shop.example": "fail",
    b"From: ceo@[192.0.2.1], a@shop.example": "fail",
    b"From: ceo@b\xe4nk.example, a@shop.example": "fail",
    b"From: a@shop.example\0.bank.example": "none",
    b"From: a@shop.example.": "none",
    b"From: a@\xef\xbd\x93hop.example": "none",  # a full-width s
    b"From: " + b"c" * 307 + b"@bank.example.shop.example": "none",  # its end is not shown
    b"From: <mailto:>;a@shop.example": "pass",  # who is shown as the author
    b"From: <mailto:>, Shop <mailto:a@shop.example>": "pass",
    b"From: <@shop.example:>": "none",
    b"no field\r\nFrom: a@shop.example": "none",  # by SPF too: for others the header has ended
    b"From: a@shop.example\r\nno field": "none",
    b"From: <shop.example>": "none",
    b"From: Shops:;": "none",
    b"Reply-To: a@shop.example": "none",
}


@pytest.mark.parametrize("field", AUTHORS)
def test_an_author_is_who_is_shown_as_one(zones, lookup, field):
    zones.set(SHOP)
    raw = field + b"\r\n\r\nbody\r\n"
    found = dmarc.check(raw, SPF, (), lookup())
    assert found.result == AUTHORS[field]
    if found.result == "pass":
        assert mime.parse(raw).from_address.lower() == "a@shop.example"


PIECES = [
    "a@shop.example",
    "<a@shop.example>",
    "ceo@bank.example",
    "<ceo@bank.example>",
    '"ceo@bank.example"',
    "@",
    "zoë@x",
]
PIECES += [
    *' ,;:<>()\\"[]',
    "<>",
    "=?utf-8?q?ceo=40bank.example?=",
    "<=?utf-8?q?ceo=40bank.example?=>",
    "mailto:",
    "\r\n ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_no_field_is_proven_that_is_shown_with_an_address_elsewhere(pieces):
    raw = f"From: {''.join(pieces)}\r\n\r\n".encode()
    domains, _ = dmarc._authors(headers.of_mail(raw)[0])
    if len(set(domains)) == 1 and domains[0]:
        shown = mime.parse(raw).from_address.rpartition("@")[2]
        assert dmarc._ascii(shown) == domains[0]


@table(
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
def test_domains_are_aligned_that_one_owner_has_registered(one, other, is_same):
    assert dmarc._is_aligned(one, other, "r") is is_same


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
def test_a_record_says_one_of_three_policies(zones, lookup, text, policy):
    zones.set(f'_dmarc.shop.example. 60 IN TXT "{text.replace(";", chr(92) + ";")}"\n')
    found = dmarc.check(mail("a@shop.example"), SPF, (), lookup())
    assert (found.result, found.policy) == (("none", "") if policy is None else ("pass", policy))


@pytest.mark.parametrize("name", CASES)
def test_what_a_mail_claims_is_held_against_what_is_proven(zones, lookup, name):
    zone, raw, spf, dkim, expected = CASES[name]
    zones.set(zone)
    found = dmarc.check(raw, spf, dkim, lookup())
    assert (found.result, found.policy) == expected


def test_a_fail_names_what_was_proven_in_its_place(zones, lookup):
    zones.set(record("bank.example", "v=DMARC1; p=reject"))
    found = dmarc.check(mail("a@bank.example"), SPF, (DkimVerdict("pass", "mailer.example"),), lookup())
    assert found.reason == "neither SPF nor DKIM is a pass for bank.example (SPF: shop.example, DKIM: mailer.example)"
