"""Messages from real signing programs, checked by the whole daemon: they pass, and changes are reported."""

from pathlib import Path

import pytest
import signers

from daemons import NO_LIMITS, wait_until
from zones import Zones, text_record

PLAIN = b"From: Shop <a@%s>\r\nTo: b@x.example\r\nSubject: hello\r\n\r\nThe body.\r\n"
UTF_8 = "From: Zoë <zoë@%s>\r\nTo: b@x.example\r\nSubject: hello, Grüße\r\n\r\nThe body: Ärger\r\n".encode()
RIGHT, WRONG, GONE = DOMAINS = ("right.example", "wrong.example", "gone.example")
# RFC 6376 A.2, whose text has two spaces after "game." although the signed text had one, and RFC 8463 A.3.
HERE = Path(__file__).parent
PARTS = (HERE / "signers-parts.eml").read_bytes()
MAILS = {"parts": PARTS, "parts to one": PARTS.replace(b"To:  ", b"To: "), "utf 8": UTF_8}
EXAMPLES = [(HERE / f"signers-rfc{number}.eml").read_bytes() for number in (6376, 8463)]
EXAMPLE_KEYS = (HERE / "signers-keys.zone").read_text()
SHOWN = "from:to:subject:date:message-id:mime-version:content-type:content-transfer-encoding"
OTHER_BODY = "the body was changed after it was signed (its hash does not match bh=)"
OTHER_HEADER = "the signature does not match this header and key"
CHANGES = {
    "as it was signed": (RIGHT, (b"", b""), ("pass", "")),
    "one octet of the body": (RIGHT, (b"The body", b"The bodY"), ("fail", OTHER_BODY)),
    "one octet of the subject": (RIGHT, (b"Subject: hello", b"Subject: hellO"), ("fail", OTHER_HEADER)),
    "another key": (WRONG, (b"", b""), ("fail", OTHER_HEADER)),
    "a key that was removed": (GONE, (b"", b""), ("permerror", "no key")),
}


def of(mail, domain):
    return mail.replace(b"%s", domain.encode())


def dkimpy(keys):
    """Yield the name of each signature format that dkimpy supports, with a message from each domain."""
    for algorithm, header, body, mail in [
        (b"rsa-sha256", b"relaxed", b"relaxed", "parts"),
        (b"rsa-sha256", b"simple", b"simple", "parts"),
        (b"rsa-sha256", b"relaxed", b"simple", "utf 8"),
        (b"rsa-sha256", b"simple", b"relaxed", "utf 8"),
        (b"ed25519-sha256", b"relaxed", b"relaxed", "utf 8"),
        (b"ed25519-sha256", b"simple", b"simple", "parts"),
    ]:
        way = {"signature_algorithm": algorithm, "canonicalize": (header, body)}
        mails = [signers.by_dkimpy(keys, domain, of(MAILS[mail], domain), **way) for domain in DOMAINS]
        yield f"{algorithm.decode()} {header.decode()}/{body.decode()}", mails


def opendkim(keys):
    for key, way, mail in [  # OpenDKIM itself cannot verify simple/… with Ed25519
        ("rsa", {"Canonicalization": "relaxed/relaxed"}, "utf 8"),
        ("rsa", {"Canonicalization": "simple/simple"}, "parts to one"),
        ("rsa", {"Canonicalization": "relaxed/simple", "OversignHeaders": "From,Subject,To,Reply-To"}, "parts"),
        ("rsa", {"Canonicalization": "simple/relaxed", "SignatureTTL": "3600"}, "parts to one"),
        ("ed", {"Canonicalization": "relaxed/relaxed", "OversignHeaders": "From"}, "parts"),
        ("ed", {"Canonicalization": "relaxed/simple"}, "utf 8"),
    ]:
        # By default, as RFC 6376 §5.4.1 recommends, the header fields that describe the body are not signed.
        given = {"SignHeaders": "*,+MIME-Version,+Content-Type"} | way
        mails = [signers.by_opendkim(keys, domain, of(MAILS[mail], domain), key, **given) for domain in DOMAINS]
        yield f"{key} {way}", mails


def nodemailer(keys):
    given = {"to": "b@x.example", "subject": "hello", "text": "The body."}
    formats = {
        "text": given,
        "folded": given | {"subject": "hello, " * 20, "text": "The body: Ärger"},
        "an attachment": given
        | {"html": "<p>The body <b>ä", "attachments": [{"filename": "ä.txt", "content": "ä" * 200}]},
        "some fields": given | {"dkim": {"headerFieldNames": SHOWN}},
    }
    mails = [{**one, "from": f"Zoë <a@{domain}>"} for one in formats.values() for domain in DOMAINS]
    signed = signers.by_nodemailer(keys, mails)
    for number, name in enumerate(formats):
        yield name, signed[3 * number : 3 * number + 3]


@pytest.fixture
def keys(tmp_path):
    return signers.Keys(tmp_path)


@pytest.fixture
def checked(start, keys, tmp_path):
    """Return a function that delivers messages and returns the results for each, in order."""
    (tmp_path / "other").mkdir()
    zone = keys.zone(RIGHT) + signers.Keys(tmp_path / "other").zone(WRONG)
    zone += "".join(text_record(f"_dmarc.{domain}", "v=DMARC1; p=reject") for domain in DOMAINS)
    with Zones(zone + EXAMPLE_KEYS) as served:
        daemon = start(TMPMAILD_SENDERS__RESOLVER=served.place, **NO_LIMITS)

        def check(mails):
            address = daemon.create()
            daemon.deliver_raw(address, *mails)
            ids = [one["id"] for one in daemon.messages(address, "?order=asc&limit=100")]
            return [wait_until(lambda path=f"/api/v1/addresses/{address}/messages/{one}": found(path)) for one in ids]

        def found(path):
            return daemon.request(path).json["authentication"]

        yield check


def told(found):
    """Return the result and reason that a message's signatures share, without the key's name, and the DMARC result."""
    (same,) = {(one["result"], one["reason"].partition(" at ")[0]) for one in found["dkim"]}
    return same, found["dmarc"]["result"]


@pytest.mark.parametrize(
    "signer",
    [
        dkimpy,
        pytest.param(opendkim, marks=pytest.mark.needs("opendkim")),
        pytest.param(nodemailer, marks=pytest.mark.needs("node")),
    ],
)
def test_signed_messages_pass_and_changes_are_reported(checked, keys, signer):
    mails, expected = {}, {}
    for name, signed in signer(keys):
        for change, (domain, octets, verdict) in CHANGES.items():
            mails[name, change] = signed[DOMAINS.index(domain)].replace(*octets, 1)
            expected[name, change] = verdict, "pass" if verdict[0] == "pass" else "fail"
    assert dict(zip(mails, map(told, checked(mails.values())), strict=True)) == expected
    assert len(expected) >= 3 * len(CHANGES)


def test_the_examples_of_the_rfcs_pass(checked):
    mails = [raw for one in EXAMPLES for raw in (one, one.replace(b"Suzie", b"Susie"), one.replace(b"Joe.", b"Jo."))]
    results = [[one["result"] for one in found["dkim"]] for found in checked(mails)]
    assert results == [["pass"], ["fail"], ["fail"], ["pass"] * 2, ["fail"] * 2, ["fail"] * 2]


@pytest.mark.needs("node")
def test_fields_left_out_by_nodemailer_are_reported(checked, keys):
    some = {"headerFieldNames": "from:subject", "skipFields": "message-id:date"}
    mail = {"from": f"a@{RIGHT}", "to": "b@x.example", "subject": "hello", "text": "The body.", "dkim": some}
    (found,) = checked(signers.by_nodemailer(keys, [mail]))
    (result, reason), dmarc = told(found)
    assert (result, dmarc) == ("policy", "fail")
    assert reason.startswith("h= covers only 0 of 1 to, 0 of 1 "), reason


@pytest.mark.needs("opendkim")
def test_expired_and_partial_signatures_of_opendkim_are_reported(checked, keys, tmp_path):
    (tmp_path / "everybody").write_text("*")
    some = signers.by_opendkim(keys, RIGHT, of(PARTS, RIGHT), Canonicalization="relaxed/relaxed")
    part = {"BodyLengthDB": f"refile:{tmp_path}/everybody", "Canonicalization": "relaxed/relaxed"}
    expired = signers.by_opendkim(keys, RIGHT, of(PARTS, RIGHT), SignatureTTL="-40000")
    covered = signers.by_opendkim(keys, RIGHT, of(PLAIN, RIGHT), **part)
    found = checked([expired, covered, covered + b"An advertisement.\r\n", some])
    assert [told(one) for one in found] == [
        (("fail", "the signature has expired (x=)"), "fail"),
        (("pass", ""), "pass"),
        (("policy", "l=11 leaves 19 bytes of the body unsigned"), "fail"),
        (("policy", "h= covers only 0 of 1 mime-version, 0 of 1 content-type"), "fail"),
    ]
