"""DMARC: which record applies, and what is aligned."""

import pytest

from tmpmaild.senders import dmarc
from tmpmaild.verdicts import DkimVerdict, SpfVerdict
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
