"""The services whose signatures alone authenticate a message, as listed in docs/security.md."""

import re
import time
from pathlib import Path

import pytest

from signing import Signer
from tmpmaild.mail import mime
from tmpmaild.model import SpfVerdict
from tmpmaild.senders import dkim, dmarc, shown
from zones import Zones, text_record

from .conftest import lookup_at

DOCUMENT = Path(__file__).parents[2] / "docs/security.md"
MESSAGE = (
    b"From: Shop <a@shop.example>\r\nTo: b@x.example\r\nSubject: Your code\r\nDate: Tue, 24 Nov 2026 10:00:00 +0000\r\n"
    b"Message-ID: <1@shop.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=x\r\n\r\n"
    b"--x\r\nContent-Type: text/plain\r\n\r\nYour code is 482915.\r\n--x\r\nContent-Type: text/html\r\n\r\n"
    b"<p>Your code is <b>482915</b>.</p>\r\n--x--\r\n"
)
RELAXED, SIMPLE_BODY, SIMPLE = "relaxed/relaxed", "relaxed/simple", "simple/simple"
# c= and h= of each signer's messages in mailing list archives from 2019 to 2026; for opendkim, the default values.
SIGNERS = {
    "Amazon SES": (
        SIMPLE_BODY,
        "MIME-Version:Content-Type:Content-Transfer-Encoding:Subject:From:To:Date:Message-ID:Feedback-ID",
        ("pass", "", ()),
    ),
    "Gmail": (
        RELAXED,
        "cc:to:subject:message-id:date:from:in-reply-to:references:mime-version:from:to:cc:subject:date:message-id:reply-to",
        ("policy", "h= covers only 0 of 1 content-type", ()),
    ),
    "GitHub": (
        RELAXED,
        "Date:From:To:Subject:From",
        ("policy", "h= covers only 0 of 1 mime-version, 0 of 1 content-type", ()),
    ),
    "Mailgun": (
        RELAXED,
        "Content-Type:Content-Transfer-Encoding:Message-Id:To:To:From:From:Subject:Subject:Mime-Version:Date:Sender:Sender",
        ("pass", "", ()),
    ),
    "Microsoft 365": (
        RELAXED,
        "From:Date:Subject:Message-ID:Content-Type:MIME-Version:X-MS-Exchange-SenderADCheck",
        ("policy", "h= covers only 0 of 1 to", ()),
    ),
    "opendkim": (
        SIMPLE,
        "From:To:Subject:Date",
        ("policy", "h= covers only 0 of 1 mime-version, 0 of 1 content-type", ()),
    ),
    "Postmark": (
        RELAXED,
        "From:Date:Subject:Message-Id:To:MIME-Version:Content-Type:Date:From:Message-ID:Reply-To:Sender:Subject:To:CC",
        ("pass", "", ()),
    ),
    "SendGrid": (
        RELAXED,
        "content-type:from:mime-version:subject:reply-to:to:cc:content-type:from:subject:to",
        ("pass", "", ("date", "message-id")),
    ),
}


@pytest.fixture(scope="module")
def served():
    signer = Signer()
    with Zones(signer.zone + text_record("_dmarc.shop.example", "v=DMARC1; p=reject")) as zones:
        yield signer, zones.place


@pytest.mark.parametrize("name", SIGNERS)
def test_the_signature_of_each_service_gets_the_expected_verdict(served, name):
    signer, place = served
    form, covered, expected = SIGNERS[name]
    names = covered.lower().encode().split(b":")
    raw = signer.sign(MESSAGE, canonicalize=form.encode().split(b"/"), include_headers=names)
    found, _ = dkim.check(raw, lookup_at(place), time.time())
    verdicts = shown.verdicts(raw, found, mime.parse(raw, is_checked=True).warnings)
    assert [(one.result, one.reason, one.unsigned) for one in verdicts] == [expected]
    proof = dmarc.check(raw, SpfVerdict("none"), verdicts, lookup_at(place))
    assert (proof.result, proof.unsigned) == ("pass" if expected[0] == "pass" else "fail", expected[2])
    by_server = dmarc.check(raw, SpfVerdict("pass", "shop.example"), verdicts, lookup_at(place))
    assert (by_server.result, by_server.unsigned) == ("pass", ())


def test_the_document_states_which_fields_each_signer_leaves_out_and_its_result():
    rows = re.findall(r"^\| ([^|]+) \| `(\w+/\w+)` \| ([^|]+) \| (yes|no) \|$", DOCUMENT.read_text(), re.MULTILINE)
    stated = {name: (form, left_out.lower(), alone) for name, form, left_out, alone in rows}
    for name, (form, _, (result, reason, unsigned)) in SIGNERS.items():
        missing = re.findall(r"0 of 1 ([\w-]+)", reason) or list(unsigned)
        assert stated[name][::2] == (form, "yes" if result == "pass" else "no"), name
        assert [one for one in missing if one.replace("content-type", "content-") not in stated[name][1]] == [], name
