"""DMARC: which record applies, and what is aligned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import rows_of, table
from tmpmaild.mail import mime
from tmpmaild.model import DkimVerdict, SpfVerdict
from tmpmaild.senders import dmarc
from zones import text_record

ROWS = rows_of(__file__)

SPF = SpfVerdict("pass", "shop.example")


def record(domain, text):
    return text_record(f"_dmarc.{domain}", text)


def mail(*authors):
    return b"".join(b"From: %s\r\n" % one.encode() for one in authors) + b"\r\nbody\r\n"


SHOP = record("shop.example", "v=DMARC1; p=reject")
LONG = b"From: " + b"c" * 307 + b"@bank.example.shop.example"


@table(("field", "result"), [*ROWS["AUTHORS"], (LONG, "none")])
def test_an_author_is_who_is_shown_as_one(zones, lookup, field, result):
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
        # Others may take the mark for a part of the first field's name, and read another From.
        (b"\xef\xbb\xbfFrom: a@shop.example\r\n\r\nbody\r\n", "none"),
    ],
)
def test_an_author_is_found_where_the_message_shows_one(zones, lookup, raw, result):
    zones.set(SHOP)
    found = dmarc.check(raw, SPF, (), lookup())
    assert found.result == result
    assert (found.domain == mime.parse(raw).from_address.rpartition("@")[2]) or result == "none"


@given(st.lists(st.sampled_from(ROWS["PIECES"]), max_size=8))
def test_no_field_is_proven_that_is_shown_with_an_address_elsewhere(pieces):
    raw = f"From: {''.join(pieces)}\r\n\r\n".encode()
    domains, _ = dmarc._authors(raw)
    if len(set(domains)) == 1 and domains[0]:
        shown = mime.parse(raw).from_address.rpartition("@")[2]
        assert dmarc._ascii(shown) == domains[0]


@table(("one", "other", "is_same"), ROWS["domains are aligned that one owner has registered"])
def test_domains_are_aligned_that_one_owner_has_registered(one, other, is_same):
    assert dmarc._is_aligned(one, other, "r") is is_same


@pytest.mark.parametrize(("text", "policy"), ROWS["a record says one of three policies"])
def test_a_record_says_one_of_three_policies(zones, lookup, text, policy):
    zones.set(f'_dmarc.shop.example. 60 IN TXT "{text.replace(";", chr(92) + ";")}"\n')
    found = dmarc.check(mail("a@shop.example"), SPF, (), lookup())
    assert (found.result, found.policy) == (("none", "") if policy is None else ("pass", policy))


@table("row", ROWS["a mail is held against what is proven"])
def test_what_a_mail_claims_is_held_against_what_is_proven(zones, lookup, row):
    name, records, authors, spf, dkim, expected = row
    zone = "".join(record(domain, text) for domain, text in records)
    zones.set(zone + "eu.shop.example. 60 IN A 192.0.2.1\n" * (name != "np"))
    found = dmarc.check(
        mail(*authors), SpfVerdict(*spf.split()), tuple(DkimVerdict(*one.split()) for one in dkim), lookup()
    )
    assert (found.result, found.policy) == expected


def test_a_fail_names_what_was_proven_in_its_place(zones, lookup):
    zones.set(record("bank.example", "v=DMARC1; p=reject"))
    found = dmarc.check(mail("a@bank.example"), SPF, (DkimVerdict("pass", "mailer.example"),), lookup())
    assert found.reason == "neither SPF nor DKIM is a pass for bank.example (SPF: shop.example, DKIM: mailer.example)"
