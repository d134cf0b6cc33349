"""A message that is shown differently from the signed message is never authentic, however it was changed in transit."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from signing import Signer
from tmpmaild.findings import codes, links
from tmpmaild.mail import extracts, htmlview, mime
from tmpmaild.model import Authentication, SpfVerdict, Verbatim
from tmpmaild.senders import dkim, dmarc
from tmpmaild.senders import shown as shown_alike
from zones import Zones, text_record

from .conftest import lookup_at

PLAIN = Path(__file__).with_name("dkim-tampering-plain.eml").read_bytes()
KOI8 = Path(__file__).with_name("dkim-tampering-koi8.eml").read_bytes()  # only the HTML content declares the charset
PARTS = Path(__file__).with_name("dkim-tampering-parts.eml").read_bytes()
SHORT = b"From: a@shop.example\r\nSubject: hello\r\n\r\nhello <b>there</b>\r\n"

WAYS = [(b"relaxed", b"relaxed"), (b"relaxed", b"simple"), (b"simple", b"simple")]
OVERSIGNED = [name for name in b"from to cc subject date message-id reply-to sender mime-version".split() for _ in "12"]
OVERSIGNED += [b"content-type", b"content-type", b"content-transfer-encoding", b"content-transfer-encoding"]


class Checking:
    """Signed messages, with a method that returns the verdict on a message or a changed copy."""

    def __init__(self, zones) -> None:
        self.signer = signer = Signer()
        zones.set(signer.zone + text_record("_dmarc.shop.example", "v=DMARC1; p=reject"))
        self._place = zones.place
        self.signed = [
            signer.sign(raw, canonicalize=way, include_headers=names)
            for raw in (PLAIN, PARTS, SHORT, KOI8)
            for way in WAYS
            for names in (None, OVERSIGNED)
        ]

    def verdict(self, raw, spf=None):
        lookup, spf = lookup_at(self._place), spf or SpfVerdict("none")
        signatures, chain = dkim.check(raw, lookup, time.time())
        found = shown_alike.verdicts(raw, signatures, mime.parse(raw, is_checked=True).warnings)
        return Authentication(spf, found, dmarc.check(raw, spf, found, lookup), chain)


@pytest.fixture(scope="module")
def checking():
    with Zones() as served:
        yield Checking(served)


def shown(raw, unsigned=()):
    """Return the parts of a message that the API shows, without unsigned fields; white space in texts is collapsed."""
    mail = mime.parse(raw)
    body = mail.body
    text = raw[body.start : body.end].decode().replace("\r\n", "\n") if isinstance(body, Verbatim) else body
    html = mail.html or ""
    details = extracts.details(raw)
    files = [(one.filename, one.content_type, extracts.attachment(raw, one).split()) for one in mail.attachments]
    return (
        *(mail.from_address, mail.from_name, _spaced(mail.subject), _spaced(text), _spaced(html), files),
        [code.value for code in codes.find(mail.subject, text)],
        [link.href for link in links.find(text, html)],
        "".join(htmlview.render(html, {}, remote_images=False).html.split()) if html else "",
        replace(details, date_ms=None if "date" in unsigned else details.date_ms, message_id=""),
        None if "message-id" in unsigned else details.message_id,
    )


def _spaced(text):
    return " ".join(text.split())


LINES = [
    b"",
    b" ",
    b"\t\t",
    b" a fold",
    b"no field",
    b"From <h1>your code is 111111</h1><!--",
    b"From a@shop.example Tue Nov 24",
    b">From: x",
    b"X-Any: field",
    b"Received: from x by y",
    b"\xe9: x",
    b"Subject\0: evil",
    b"X: a\0b",
    b"--inner",
    b"----=_ x",
    b"your code is 111111",
    b"<p>your code is 111111",
    b"X: " + b"y" * 9_000,
]
FIELDS = {
    b"From": [b"evil@shop.example", b"Evil", b"<mailto:>;evil@shop.example"],
    b"Sender": [b"evil@shop.example"],
    b"Reply-To": [b"evil@evil.example"],
    b"To": [b"evil@x.example"],
    b"Cc": [b"evil@x.example"],
    b"Subject": [b"your code is 111111"],
    b"Date": [b"Wed, 25 Nov 2026 10:00:00 +0000"],
    b"Message-ID": [b"<evil@shop.example>"],
    b"MIME-Version": [b"1.0"],
    b"Content-Type": [b"text/html", b"multipart/mixed; boundary=inner", b"text/plain; charset=utf-16", b"x"],
    b"Content-Transfer-Encoding": [b"base64", b"quoted-printable", b"8bit"],
    b"Content-Disposition": [b"attachment; filename=x"],
    b"Content-ID": [b"<x>"],
}
ADDED = st.sampled_from(LINES) | st.builds(
    lambda field, colon: field[0] + colon + field[1],
    st.sampled_from([(name, value) for name, values in FIELDS.items() for value in values]),
    st.sampled_from([b": ", b":", b" : ", b"\t:", b":\r\n ", b":" + b" " * 9_000, b":\r", b": \x0b"]),
)
# Most changes break a signature, so changes that may preserve it are generated most often.
PLACE = st.sampled_from(["top", "end of header"]) | st.integers(0, 40)
ADDING = st.tuples(st.just("insert"), PLACE, ADDED)
SPACES = [b"  ", b" \t", b" " * 9_000, b"\r\n ", b"\r\n\t", b"\n ", b"\r\n \r\n ", b"\r ", b"\n", b"\0 ", b"\r\r\n "]
REPLACED = [(b" ", space) for space in SPACES] + [(b":", b" :"), (b"code", b"cope"), (b"a@", b"b@")]
OTHER = st.one_of(
    st.tuples(st.sampled_from(["again", "move", "remove"]), PLACE, PLACE),
    st.tuples(st.just("end"), PLACE, st.sampled_from([b" ", b"\t", b" " * 9_000])),
    st.tuples(st.just("replace"), PLACE, st.sampled_from(REPLACED)),
)
CHANGES = st.lists(ADDING | OTHER, min_size=1, max_size=2)


def changed(raw, changes):
    lines = raw.removesuffix(b"\r\n").split(b"\r\n")
    for kind, place, what in changes:
        at = _number(lines, place)
        match kind:
            case "insert":
                lines.insert(at, what)
            case "again":
                lines.insert(_number(lines, what), lines[at])
            case "move":
                lines.insert(_number(lines, what), lines.pop(at))
            case "remove" if len(lines) > 1:
                del lines[at]
            case "end":
                lines[at] += what
            case "replace":
                lines[at] = lines[at].replace(*what, 1)
    return b"\r\n".join(lines) + b"\r\n"


def _number(lines, place):
    """Return the index of a line; the empty line marks the end of the header."""
    if isinstance(place, int):
        return place % len(lines)
    return lines.index(b"") if place == "end of header" and b"" in lines else 0


@settings(max_examples=500)
@given(number=st.integers(0, 23), changes=CHANGES)
def test_a_message_shown_differently_from_the_signed_message_is_not_authentic(checking, number, changes):
    signed = checking.signed[number]
    raw = changed(signed, changes)
    if shown(raw) != shown(signed):
        verdict = checking.verdict(raw)
        unsigned = verdict.dmarc.unsigned
        assert verdict.authenticated is None or shown(raw, unsigned) == shown(signed, unsigned)


def test_an_unchanged_message_is_authentic(checking):
    assert [checking.verdict(raw).authenticated for raw in checking.signed] == ["shop.example"] * 24


HARMLESS = {
    "trace fields on top": (
        WAYS,
        lambda raw: b"Return-Path: <a@shop.example>\r\nReceived: from x by y;\r\n\tnow\r\n" + raw,
    ),
    "results and lists": (WAYS, lambda raw: b"Authentication-Results: x; none\r\nList-Id: <x>\r\n" + raw),
    "a field of 9 kB": (WAYS, lambda raw: b"X-Spam-Report: " + b"x y " * 2_300 + b"\r\n" + raw),
    "empty lines at the end": (WAYS, lambda raw: raw + b"\r\n\r\n"),
    "another fold": (WAYS[:2], lambda raw: raw.replace(b"\r\nSubject: ", b"\r\nSubject:\r\n\t ")),
    "other letters": (WAYS[:2], lambda raw: raw.replace(b"\r\nSubject: ", b"\r\nSUBJECT:  ")),
    "space in the body": (WAYS[:1], lambda raw: raw[:-2] + b" \t\r\n"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_usual_changes_by_mail_servers_leave_a_message_authentic(checking, name):
    ways, handed_on = HARMLESS[name]
    for number, signed in enumerate(checking.signed):
        if WAYS[number // 2 % 3] in ways:
            assert checking.verdict(handed_on(signed)).authenticated == "shop.example"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"From <h1>your code is 111111</h1><!--\r\n", "the header has a line that is not a field"),
        (b"From <h1>your code is\r\n 111111</h1><!--\r\n", "the header has a line that is not a field"),
        (b" a fold\r\n", "the header has a line that is not a field"),
        (b"\xe9: x\r\n", "the header has a line that is not a field"),
        (b"X\x00: y\r\n", "the header has a line that is not a field"),
        (b"X Y: z\r\n", "the header has a line that is not a field"),
        (b": no name\r\n", "the header has a line that is not a field"),
        (b"X : y\r\n", "a header field has white space before its colon"),
        (b"X: y\rSubject: z\r\n", "a line of the header does not end with CRLF"),
        (b"X: y\r\r\n", "a line of the header does not end with CRLF"),
        (b"X: y\n", "a line of the header does not end with CRLF"),
        (b"Subject: x\r\n", "h= covers only 1 of 2 subject"),
        (b"SUBJECT: x\r\n", "h= covers only 1 of 2 subject"),
        (b"Sender: x\r\n", "h= covers only 0 of 1 sender"),
        (b"Reply-To: x\r\n", "h= covers only 0 of 1 reply-to"),
        (b"Cc: x\r\n", "h= covers only 0 of 1 cc"),
        (b"Content-Disposition: x\r\n", "h= covers only 0 of 1 content-disposition"),
        (b"Content-Anything: x\r\n", "h= covers only 0 of 1 content-anything"),
    ],
)
def test_added_header_lines_are_named_and_make_a_message_not_authentic(checking, lines, reason):
    signed = checking.signed[0]
    for raw in (lines + signed, signed.replace(b"\r\n\r\n", b"\r\n" + lines + b"\r\n", 1)):
        found = checking.verdict(raw)
        # At the end of the header, such a line would continue the last field.
        if raw.startswith(lines) or not lines.startswith(b" "):
            assert (found.authenticated, [one.reason for one in found.dkim]) in (
                (None, [reason]),
                (None, ["the signature does not match this header and key"]),
            )
    assert checking.verdict(lines + signed).dkim[0].reason == reason


@pytest.mark.parametrize(
    ("left_out", "reason"),
    [([b"to", b"subject"], "0 of 1 to, 0 of 1 subject"), ([b"content-type"], "0 of 1 content-type")],
)
def test_an_unsigned_field_that_is_shown_makes_a_message_not_authentic(checking, left_out, reason):
    names = [one for one in dict.fromkeys(OVERSIGNED) if one not in left_out]
    (found,) = checking.verdict(checking.signer.sign(PLAIN, include_headers=names)).dkim
    assert (found.result, found.reason) == ("policy", f"h= covers only {reason}")


@pytest.mark.parametrize("left_out", [(), ("date",), ("message-id",), ("date", "message-id")])
def test_a_signature_may_leave_out_date_and_message_id_which_is_reported(checking, left_out):
    names = [one for one in dict.fromkeys(OVERSIGNED) if one.decode() not in left_out]
    signed = checking.signer.sign(PLAIN, include_headers=names)
    found = checking.verdict(signed)
    assert (found.authenticated, found.dkim[0].unsigned, found.dmarc.unsigned) == ("shop.example", left_out, left_out)
    added = checking.verdict(b"Date: Wed, 25 Nov 2026 10:00:00 +0000\r\n" + checking.signed[0])
    assert (added.authenticated, added.dmarc.unsigned) == ("shop.example", ("date",))


def test_signatures_together_cover_the_fields_that_each_leaves_out(checking):
    names = list(dict.fromkeys(OVERSIGNED))
    ways = ([b"date"], [b"message-id"])
    once, twice = (
        checking.signer.sign(PLAIN, include_headers=[one for one in names if one not in way]) for way in ways
    )
    found = checking.verdict(once.removesuffix(PLAIN) + twice)
    assert ([one.unsigned for one in found.dkim], found.dmarc.unsigned) == ([("date",), ("message-id",)], ())
    by_server = SpfVerdict("pass", "shop.example")
    assert checking.verdict(once, by_server).dmarc.unsigned == ()


def test_white_space_that_hides_shown_text_makes_a_message_not_authentic(checking):
    padded = checking.signed[0].replace(b"Your code is", b"Your code" + b" " * 300_000 + b"is")
    (found,) = checking.verdict(padded).dkim
    assert (found.result, found.reason) == ("policy", "299999 bytes of white space in the body are unsigned")
    parts = checking.signed[6].replace(b"Content-Type: text/csv;", b"Content-Type: text/csv;" + b" " * 262_100)
    (found,) = checking.verdict(parts).dkim
    assert found.reason == "the header of a part is too large to be checked"
