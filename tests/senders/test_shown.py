"""White space that a relaxed signature does not cover never changes the content that is shown as authentic."""

import re

import dkim.canonicalization
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tmpmaild.findings.detecting import detect
from tmpmaild.mail import extracts, htmlview, mime
from tmpmaild.model import DkimVerdict, Texts, Verbatim
from tmpmaild.senders import canonical, shown
from tmpmaild.senders.canonical import Form
from tmpmaild.senders.dkim import Signature

HEADER = (
    "From: =?utf-8?q?The_?= =?utf-8?q?shop?= <a@shop.example>\n"
    'To: "B  b" <b@x.example>\n'
    "Cc: One\n <one@x.example>, Two <two@x.example>\n"
    "Reply-To: help@shop.example\n"
    "Subject: Your code, =?utf-8?b?R3LDvMOfZQ==?= and more\n"
    "\tthings to read\n"
    "Date: Tue, 24 Nov 2026 10:00:00 +0900 (JST)\n"
    "Message-ID: <1@shop.example>\n"
    "MIME-Version: 1.0\n"
    "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=shop.example; s=s1;\n h=from; bh=; b=\n"
)
MARKUP = (
    "<html><head><style> .old { display : none } p { color : #222 } </style>\n"
    '<style media="screen and (max-width: 600px)"> .wide { width : 100% } </style></head>\n'
    '<body bgcolor=" #ffffff" class="page first">\n'
    '<p class="old first"> Your code is 111111</p><p style="margin : 0; display : none">Your code is 222222</p>\n'
    '<table width="600" bgcolor=" #fafafa"><tr><td>Your code is 482915 .</td></tr></table>\n'
    '<p>Confirm your address: <a href="https://shop.example/confirm/8f3a91">Confirm it</a> or <a\n'
    'href="https://shop.example/help">ask us</a></p><pre>  1 2\n 3</pre></body></html>\n'
)
TEXT = "Your code is 4829 \n15 and not 12 \n500. \n\nConfirm: https://shop.example/confirm?token=8f3 \na91\n-- \nThe shop\n"
PARTS = (
    'Content-Type: multipart/mixed;\n boundary="the  mark"; type*0="text/";\n type*1=plain\n\nA preamble\n'
    "--the mark\nContent-Type: text/plain; charset=utf-8;\n\tformat=flowed; delsp=yes\n\n" + TEXT + "--the mark\n"
    "Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
    + MARKUP.replace("=", "=3D").replace("Confirm it", "Con=\nfirm it")
    + '--the mark\nContent-Type: text/csv; name="a b.csv"\nContent-Disposition: attachment;\n filename="a b.csv"\n\n'
    "a, b \n1, 2\n--the mark\nContent-Type: image/png; name*=utf-8''%c3%a4%20b.png\n"
    "Content-Transfer-Encoding: base64\nContent-ID: <one>\n\niVBORw0K Ggo=\n--the mark--\n \n"
)
MAILS = [
    text.replace("\n", "\r\n").encode()
    for text in (
        f"{HEADER}Content-Type: text/html; charset=utf-8\n\n{MARKUP}",
        f"{HEADER}Content-Type: text/plain; charset=utf-8; format=flowed\n\n{TEXT}",
        f"{HEADER}Content-Type: text/plain; charset=utf-8; format=flowed; delsp=yes\n\n{TEXT}",
        f"{HEADER}Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
        + TEXT.replace("=", "=3D").replace(" \n", "=20\n").replace("address", "addr=\ness"),
        HEADER + PARTS,
    )
]
BOTH = Form(header=True, body=True)


def settled(raw, form=BOTH, *, was_checked=True):
    """Return the verdict that a message with a valid signature receives on delivery."""
    warnings = mime.parse(raw, is_checked=was_checked).warnings
    (verdict,) = shown.verdicts(raw, [Signature(DkimVerdict("pass", "shop.example"), form)], warnings)
    return verdict


def as_shown(raw):
    """Return all parts of a message that a person, a test or an agent can see when senders are checked."""
    mail = mime.parse(raw, is_checked=True)
    body = raw[mail.body.start : mail.body.end].decode() if isinstance(mail.body, Verbatim) else mail.body
    found = detect(mail.subject, Texts("", body, mail.html or ""))
    details = extracts.details(raw)
    files = [(one.filename, one.content_type, one.content_id, one.inline) for one in mail.attachments]
    contents = [b"".join(extracts.attachment(raw, one).split()) for one in mail.attachments]
    view = htmlview.render(mail.html, {}, remote_images=False).html if mail.html is not None else ""
    return (
        *(mail.from_address, mail.from_name, _spaced(mail.subject), details, _spaced(body), files, contents),
        *(found.codes, [(link.href, _spaced(link.text), link.confidence) for link in found.links]),
        "".join(view.split()),
    )


def _spaced(text):
    return " ".join(text.split())


# Changes that preserve the canonical form

SPACES = st.tuples(
    st.sampled_from([b" ", b"\t", b" \t"]), st.sampled_from([1, 1, 2, 80, 200, 300, 1100, 4200, 9000, 132_000])
)
KINDS = st.sampled_from(["within", "within", "at the end", "take", "in the header", "fold", "colon", "blank"])
CHANGES = st.lists(st.tuples(KINDS, st.integers(0, 400), SPACES), min_size=1, max_size=3)


def changed(raw, changes):
    for kind, number, (unit, times) in changes:
        header, _, body = raw.partition(b"\r\n\r\n")
        # A signature does not authenticate a header of more than 64 KiB.
        space, short = unit * times, unit * min(times, 4500)
        match kind:
            case "within":
                body = _at(body, _BETWEEN, number, lambda _, more=space: more + b" ")
            case "in the header":
                header = _at(header, _BETWEEN, number, lambda _, more=short: more + b" ")
            case "fold":
                header = _at(header, _BETWEEN, number, lambda _, more=short: b"\r\n" + more)
            case "colon":
                header = _at(header, rb"(?m)(?<=^Date:) ?|(?<=^Subject:) ?", number, lambda _, more=short: more)
            case "at the end":
                body = _at(body, rb"(?=\r\n)", number, lambda _, more=space: more)
            case "take":
                body = _at(body, rb"[ \t]+(?=\r\n)|[ \t]+(?=[ \t])", number, lambda _: b"")
            case "blank":
                body += b"\r\n" * min(times, 300)
        raw = header + b"\r\n\r\n" + body
    return raw


_BETWEEN = rb"(?<=[^\r\n\t ])[ \t](?=[^\r\n\t ])"


def _at(octets, pattern, number, replacement):
    """Replace one match of a pattern, selected by its number."""
    places = list(re.finditer(pattern, octets))
    if not places:
        return octets
    place = places[number % len(places)]
    return octets[: place.start()] + replacement(place) + octets[place.end() :]


@settings(max_examples=100)
@given(st.integers(0, len(MAILS) - 1), CHANGES)
@example(0, [("within", 60, (b" ", 132_000))])
def test_added_or_removed_white_space_changes_no_authentic_text(number, changes):
    signed = MAILS[number]
    raw = changed(signed, changes)
    assert canonical.message(raw, BOTH) == canonical.message(signed, BOTH)
    assert settled(raw).result == "policy" or as_shown(raw) == as_shown(signed)


@pytest.mark.parametrize("number", range(len(MAILS)))
def test_an_unchanged_signed_message_is_authentic(number):
    for form in (BOTH, Form(header=True, body=False), Form(header=False, body=True), Form(header=False, body=False)):
        assert settled(MAILS[number], form).result == "pass"


@pytest.mark.parametrize(
    ("number", "before", "after", "result"),
    [
        (1, b"4829 \r\n15", b"4829\r\n15", "pass"),
        (2, b"4829 \r\n15", b"4829\r\n15", "pass"),
        (4, b"4829 \r\n15", b"4829\r\n15", "pass"),
        (2, b"not 12 \r\n500", b"not 12\r\n500", "pass"),
        (1, b"The shop\r\n", b"The shop \r\n", "pass"),
        (0, b"margin :", b"margin" + b" " * 4_200 + b":", "pass"),
        (0, b"screen and", b"screen" + b" " * 500 + b"and", "pass"),
        (0, b'bgcolor=" #ffffff', b'bgcolor="' + b" " * 400 + b"#ffffff", "pass"),
        (0, b"+0900", b" " * 200 + b"+0900", "pass"),
        (0, b"address: <a", b"address:" + b" " * 300 + b"<a", "pass"),
        # The spaces reach the limit up to which HTML is searched for links.
        (0, b".old {", b".old " + b" " * 132_000 + b"{", "policy"),
    ],
)
def test_each_known_attack_leaves_the_signed_text_or_is_not_authentic(number, before, after, result):
    signed = MAILS[number]
    assert signed.count(before) == 1
    raw = signed.replace(before, after)
    assert canonical.message(raw, BOTH) == canonical.message(signed, BOTH)
    assert settled(raw).result == result
    assert result == "policy" or as_shown(raw) == as_shown(signed)


def test_a_change_that_a_reader_would_see_is_reported_as_not_authentic():
    # More white space than the limit.
    raw = MAILS[0].replace(b"Your code is 482915", b"Your code is" + b" " * (2 << 20) + b"482915")
    found = settled(raw)
    assert (found.result, found.reason) == (
        "policy",
        "white space that the signature does not cover changes the shown text (c=relaxed/relaxed)",
    )
    assert settled(raw, Form(header=True, body=False)).result == "pass"  # a simple signature covers the body exactly


@pytest.mark.parametrize(
    ("before", "after"), [("12\n500 EUR", "12500 EUR"), ("code 482 915", "code 482915"), ("a b", "ab"), ("1 a", "1a")]
)
def test_a_space_between_letters_and_digits_is_part_of_a_body(before, after):
    one, other = (f"{HEADER}\n{text}\n".replace("\n", "\r\n").encode() for text in (before, after))
    assert shown.Reading(one).texts() != shown.Reading(other).texts()


@pytest.mark.parametrize("form", [BOTH, Form(header=False, body=True)])
def test_flowed_lines_joined_at_delivery_are_not_authentic_if_the_body_is_relaxed(form):
    found = settled(MAILS[1], form, was_checked=False)
    assert (found.result, found.reason) == (
        "policy",
        "flowed lines were joined at spaces that the signature does not cover (c=…/relaxed)",
    )
    assert settled(MAILS[1], Form(header=True, body=False), was_checked=False).result == "pass"
    assert settled(MAILS[0], form, was_checked=False).result == "pass"


@pytest.mark.parametrize("number", range(len(MAILS)))
def test_the_canonical_form_equals_that_of_dkimpy(number):
    raw = MAILS[number]
    header, _, body = raw.partition(b"\r\n\r\n")
    fields = [(name, value) for name, _, value in (one.partition(b":") for one in re.split(rb"\r\n(?![ \t])", header))]
    relaxed = dkim.canonicalization.Relaxed
    expected = b"".join(name + b":" + value for name, value in relaxed.canonicalize_headers(fields))
    assert canonical.message(raw, BOTH) == expected + b"\r\n" + relaxed.canonicalize_body(body)
    assert canonical.message(raw, Form(header=False, body=False)) == raw
