"""DKIM and ARC: real signatures pass, broken ones fail with a reason, and hostile ones are cheap to check."""

import re
import time

import dkim
import pytest

from growth import assert_linear
from signing import RAW, Ed25519Signer, Signer
from tmpmaild.model import ArcVerdict
from tmpmaild.senders import dkim as signatures
from zones import text_record

FOLDED = b"From: a@shop.example\r\nSubject: a  b\r\n\tc \r\nX:y\r\n\r\nOne  two \r\n\r\n three\t\r\n\r\n\r\n"
UTF8 = "From: Zoë <a@shop.example>\r\nSubject: Grüße\r\n\r\nÄrger\r\n".encode()


@pytest.fixture
def checked(zones, signer, lookup):
    """Publish the signer's key, and return a function that checks a message."""
    zones.set(signer.zone)

    def check(raw, zone=None, at_seconds=None):
        if zone is not None:
            zones.set(zone)
        return _verdicts(signatures.check(raw, lookup(), at_seconds or time.time()))

    return check


def _verdicts(checked):
    found, chain = checked
    return tuple(one.verdict for one in found), chain


def only(result):
    (one,), _ = result
    return one


@pytest.mark.parametrize(
    "raw", [RAW, FOLDED, UTF8, b"From: a@shop.example\r\n\r\n", RAW.replace(b"\r\n\r\n", b"\r\n" * 9)]
)
@pytest.mark.parametrize("header", [b"relaxed", b"simple"])
@pytest.mark.parametrize("body", [b"relaxed", b"simple"])
def test_a_signature_passes(checked, signer, raw, header, body):
    found = only(checked(signer.sign(raw, canonicalize=(header, body))))
    assert (found.result, found.domain, found.selector, found.reason) == ("pass", "shop.example", "s1", "")


def test_several_signatures_are_checked_separately(checked, signer):
    found, _ = checked(signer.sign(selector=b"other")[: -len(RAW)] + signer.sign())
    assert [(one.selector, one.result) for one in found] == [("other", "permerror"), ("s1", "pass")]
    assert found[0].reason == "no key at other._domainkey.shop.example."
    other = Ed25519Signer()
    assert only(checked(other.sign(), other.zone)).result == "pass"


def _resigned(pattern, replacement, raw):
    return re.sub(pattern, replacement, raw, count=1, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("pattern", "replacement", "outcome"),
    [
        pytest.param(b"\\Z", b"More.\r\n", ("fail", "the body was changed"), id="body"),
        pytest.param(b"hello", b"goodbye", ("fail", "the signature does not match"), id="header"),
        pytest.param(b"\\A", b"From: evil@shop.example\r\n", ("fail", "the signature does not match"), id="added from"),
        pytest.param(b"bh=[^;]+", b"bh=!!!", ("permerror", ""), id="bh is no base64"),
        pytest.param(b"; s=s1", b"", ("permerror", "missing s="), id="no selector"),
        pytest.param(b"rsa-sha256", b"rsa-md5", ("permerror", "unknown signature"), id="unknown algorithm"),
        pytest.param(b"; s=s1", b"; s=s1; s=s1", ("permerror", ""), id="twice a tag"),
        pytest.param(b"h=[^;]+", b"h=subject", ("permerror", "h= does not list"), id="no From signed"),
        pytest.param(rb"d=shop", b"d=" + b"x" * 10_000, ("permerror", "the signature is too long"), id="d of 10 kB"),
        pytest.param(
            rb"d=shop(.*?)i=@shop", b"d=" + b"x" * 99 + rb"\1i=" + b"x" * 99, ("permerror", ""), id="d of long labels"
        ),
        pytest.param(rb" d=", b" " * 7000 + b" d=", ("permerror", "the signature is too long"), id="long space"),
        pytest.param(rb"h=[^;]+", b"h=from" + b":x" * 999, ("permerror", "h= lists more"), id="many names"),
    ],
)
def test_a_broken_signature_has_a_reason(checked, signer, pattern, replacement, outcome):
    result, reason = outcome
    found = only(checked(_resigned(pattern, replacement, signer.sign())))
    assert found.result == result
    assert found.reason.startswith(reason), found.reason


def test_an_l_beyond_the_body_is_an_error(checked, signer):
    found = only(checked(_resigned(rb"; l=\d+", b"; l=999", signer.sign(length=True))))
    assert found.result == "permerror"
    assert found.reason.startswith("l=999 exceeds")


def test_a_signature_that_leaves_a_part_of_the_body_unsigned_does_not_pass(checked, signer):
    signed = signer.sign(length=True)
    assert only(checked(signed)).result == "pass"
    found = only(checked(signed + b"Advertisement.\r\n"))
    assert (found.result, found.reason) == ("policy", "l=11 leaves 16 bytes of the body unsigned")
    assert only(checked(signed.replace(b"hello", b"goodbye") + b"Advertisement.\r\n")).result == "fail"


def test_an_expired_signature_and_sha1_do_not_pass(checked, signer):
    signed = _resigned(rb"; s=s1", b"; x=1500000000; s=s1", signer.sign())
    assert (only(checked(signed)).result, only(checked(signed)).reason) == ("fail", "the signature has expired (x=)")
    assert only(checked(signer.sign(signature_algorithm=b"rsa-sha1"))).result == "policy"


@pytest.mark.parametrize(
    ("tag", "seconds", "result"),
    [
        (b"x", -240, "pass"),
        (b"x", -360, "fail"),
        (b"t", 240, "pass"),
        (b"t", 360, "permerror"),
    ],
)
def test_a_clock_may_be_wrong_by_minutes(checked, signer, tag, seconds, result):
    signed = _expiring(signer) if tag == b"x" else signer.sign()
    (made_at,) = re.findall(rb"; t=(\d+)", signed)
    found = only(checked(signed, at_seconds=int(made_at) - seconds))
    assert (found.result, bool(found.reason)) == (result, result != "pass")


def _expiring(signer):
    """Return a message whose signature expires immediately; dkimpy has no argument for an expiry."""
    fold = dkim.fold
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dkim, "fold", lambda value, **more: fold(re.sub(rb"; t=(\d+)", rb"; t=\1; x=\1", value), **more))
        return signer.sign()


def test_a_name_is_mapped_by_our_rules_and_never_by_dnspython(signer, zones, lookup):
    strasse, sharp_s = (signer.zone.replace("shop.example", name) for name in ("strasse.de", "xn--strae-oqa.de"))
    signed = signer.sign(RAW, domain="straße.de".encode())
    for zone, result in ((strasse, "permerror"), (sharp_s, "pass")):
        zones.set(zone)
        assert only(_verdicts(signatures.check(signed, lookup(), time.time()))).result == result
    assert {name for name, _ in zones.asked} == {"s1._domainkey.xn--strae-oqa.de"}
    for name in ("\uff53hop.example".encode(), b"sh\xf6p.example", b"shop..example"):
        found = only(_verdicts(signatures.check(signer.sign(RAW, domain=name), lookup(), time.time())))
        assert (found.result, found.reason) == ("permerror", "d= is not a host name")


def _key(record):
    return text_record("s1._domainkey.shop.example", record)


KEYS = [
    pytest.param("v=DKIM1; t=s:y; p={key}", "pass", "the key is in test mode (t=y)", id="test mode"),
    pytest.param("v=DKIM1; s=tlsrpt : email; p={key}", "pass", "", id="for mail"),
    pytest.param("v=DKIM1; s=tlsrpt; p={key}", "permerror", "the key is not for mail (s=", id="not for mail"),
    pytest.param("v=DKIM1; h=sha1 : sha256; p={key}", "pass", "", id="for sha256"),
    pytest.param("v=DKIM1; h=sha1; p={key}", "permerror", "the key is not for SHA-256 (h=", id="for sha1"),
    pytest.param("v=DKIM1; p=", "permerror", "the key was revoked (p= is empty)", id="revoked"),
    pytest.param("v=DKIM1; p=!!", "permerror", "the key cannot be parsed", id="no base64"),
    pytest.param("v=DKIM1; p=MAYCAQECAQM=", "permerror", "", id="of 1 bit"),
    pytest.param("v=DKIM1; p=MAYCAQACAQM=", "permerror", "", id="of modulus 0"),
    pytest.param(
        "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        "permerror",
        "a= does not match",
        id="another kind",
    ),
    pytest.param("v=DKIM2; p={key}", "permerror", "the key cannot be parsed: bad version", id="another version"),
    ("v=DKIM1; p=" + "A" * 16_000, "permerror", "the key record is too long (16011 bytes)"),
]
CIRCLE = "s1._domainkey.shop.example. 60 IN CNAME b.example.\nb.example. 60 IN CNAME s1._domainkey.shop.example.\n"


def _in_strings(text):
    return "s1._domainkey.shop.example. 60 IN TXT " + " ".join(f'"{one}"' for one in re.findall("..?", text)) + "\n"


@pytest.mark.parametrize(("record", "result", "reason"), KEYS)
def test_a_key_record_is_accepted_or_refused_with_a_reason(checked, signer, record, result, reason):
    found = only(checked(signer.sign(), _key(record.replace("{key}", signer.public))))
    assert found.result == result
    assert found.reason.startswith(reason), found.reason


def test_a_key_is_read_from_many_strings_but_never_in_a_loop(checked, signer):
    for zone, result, reason in (
        (_in_strings(f"v=DKIM1; p={signer.public}"), "pass", ""),
        (CIRCLE, "temperror", "TXT of s1._domainkey.shop.example."),
        ("", "permerror", "no key at s1._domainkey.shop.example."),
    ):
        found = only(checked(signer.sign(), zone))
        assert found.result == result
        assert found.reason.startswith(reason), found.reason


@pytest.mark.parametrize(
    ("identity", "result"), [(None, "pass"), (b"a@shop.example", "pass"), (b"a@eu.shop.example", "permerror")]
)
def test_a_key_of_one_domain_is_not_for_its_subdomains(checked, signer, identity, result):
    signed = signer.sign(identity=identity)
    assert only(checked(signed)).result == "pass"
    found = only(checked(signed, _key(f"v=DKIM1; t=s; p={signer.public}")))
    assert (found.result, found.reason[:29]) == (result, "" if result == "pass" else "the key is not for subdomains")


@pytest.mark.parametrize(("bits", "result"), [(1024, "pass"), (4096, "pass"), (4104, "permerror")])
def test_rsa_keys_have_at_most_4096_bits(checked, bits, result):
    signer = Signer(bits)
    assert only(checked(signer.sign(), signer.zone)).result == result


def test_only_the_first_five_of_many_signatures_are_checked(checked, signer, zones):
    signature = signer.sign(RAW)[: -len(RAW)]
    many = b"".join(b"DKIM-Signature: v=1; d=n%d.example\r\n" % number for number in range(900))
    found, _ = checked(signature * 4 + many + RAW)
    assert [one.result for one in found] == ["pass"] * 4 + ["permerror", "none"]
    assert found[-1].reason == "899 more signatures were not checked"
    assert len(zones.asked) == 1


@pytest.mark.parametrize(
    ("begin", "unit", "end"),
    [
        pytest.param(b"", b"DKIM-Signature: v=1\r\n", b"", id="20,000 signatures"),
        pytest.param(b"DKIM-Signature: a", b"\r\n b", b"\r\n", id="one field of 100,000 lines"),
    ],
)
def test_a_hostile_header_is_checked_in_linear_time(checked, begin, unit, end):
    def check(header):
        found, _ = checked(begin + header + end + RAW)
        assert {one.result for one in found} == {"permerror"}

    assert_linear(check, unit * (400_000 // len(unit)))


def test_a_continuation_line_before_the_first_field_is_not_a_signature(checked):
    found, _ = checked(b" x\r\nDKIM-Signature: v=1\r\n" + RAW)
    assert [one.result for one in found] == ["permerror"]


def test_a_chain_is_checked_and_a_message_without_signatures_causes_no_query(checked, zones, signer):
    assert checked(RAW) == ((), ArcVerdict("none"))
    assert zones.asked == []
    results = b"Authentication-Results: list.example; spf=pass; arc=none\r\n"
    sealed = b"".join(dkim.arc_sign(results + RAW, b"s1", b"shop.example", signer.key, b"list.example")) + RAW
    assert checked(sealed) == ((), ArcVerdict("pass"))
    assert checked(sealed + b"More.\r\n")[1].result == "fail"
    assert checked(sealed, "")[1].result == "fail"
    assert checked(b"ARC-Seal: i=1\r\n" * 16 + RAW)[1] == ArcVerdict("fail", "the chain is too long")
