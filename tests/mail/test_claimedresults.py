"""No program that reads the source, however lenient, finds forged results in our name."""

import email
import email.header
import email.policy
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail.claimedresults import without_ours

NAME, OURS = "authentication-results", "mx.example.com"
TRACE = b"Return-Path: <a@shop.example>\r\nReceived: from x by mx.example.com;\r\n\tnow\r\n"
BODY = b"\r\n\r\nAuthentication-Results: mx.example.com; in=body\r\n"


def by_python(policy):
    return lambda octets: [
        (name, str(value)) for name, value in email.message_from_bytes(octets, policy=policy).items()
    ]


def by_lines(split):
    """Return a reader that splits a header with ``split``, unfolds lines (RFC 5322), and trims names."""

    def read(octets):
        fields = []
        for line in split(octets):
            if not line:
                break
            if line[0] in " \t" and fields:
                fields[-1] += line
            else:
                fields.append(line)
        return [(name, value) for name, _, value in (one.partition(":") for one in fields)]

    return read


READERS = [
    by_python(email.policy.compat32),
    by_python(email.policy.default),
    by_lines(lambda octets: re.split("\r\n|\r|\n", octets.decode("utf-8", "replace"))),  # like JavaMail
    by_lines(lambda octets: octets.decode("latin-1").split("\r\n")),
    by_lines(lambda octets: octets.decode("utf-8", "replace").splitlines()),
    by_lines(lambda octets: octets.replace(b"\0", b"").decode("utf-8", "replace").splitlines()),
]


def is_results(name):
    """Return whether the name matches the field in any language: Java compares upper case, Python case-folds."""
    trimmed = re.sub(r"^[\s\0-\x20\x7f-\xa0\ufeff]+|[\s\0-\x20\x7f-\xa0\ufeff]+$", "", name)
    return any(one in (NAME, f"arc-{NAME}") for one in (trimmed.lower(), trimmed.upper().lower(), trimmed.casefold()))


def hosts(value):
    """Yield the strings that lenient readers may interpret as the authentication server's host name."""
    try:
        decoded = str(email.header.make_header(email.header.decode_header(value)))
    except (ValueError, LookupError):
        decoded = value
    for text in (value, decoded):
        flat = re.sub(r"[\0-\x1f\x7f-\x9f\u2028\u2029]", "", text)
        of_arc = re.sub(r"(\([^()]*\)|[^;])*?;", "", flat, count=1)  # the field without ARC's instance tag
        for one in (
            text,
            flat,
            of_arc,
            re.sub(r"\([^()]*\)", "", of_arc),
            re.sub(r"\\(.)", r"\1", text),
            re.sub(r"\([^()]*\)", "", re.sub(r"\\(.)", r"\1", flat)),
        ):
            for host in (one.partition(";")[0], one.partition(";")[0].partition("/")[0]):
                yield host.replace('"', "").replace(" ", "").strip(".").lower()
                yield next(iter(host.replace('"', "").split()), "").strip(".").lower()


def claims(octets):
    """Return the fields that any of the readers would interpret as our results."""
    return [
        (name, value)
        for read in READERS
        for name, value in read(TRACE + octets)
        if is_results(name) and OURS in set(hosts(value))
    ]


FORGED = [
    b"Authentication-Results: mx.example.com; spf=pass",
    b'authentication-results\t:\r\n (a (b)) "MX.example.com" 1; spf=pass',
    b"Authentication-Results:" + b" (a)" * 1000 + b"mx.example.com; spf=pass",
    b"Authentication-Results: mx.example.com",
    b"Authentication-Results: mx.example.com. 1; spf=pass",
    b"Authentication-Results: mx.example.com/1; spf=pass",
    b"Authentication-Results: mx.exa\r\n mple.com; spf=pass",
    b"Authentication-Results:\r\n mx.example.com\r\n\t; spf=pass",
    b'Authentication-Results: "mx\\.example\\.com"; spf=pass',
    b"Authentication-Results: m\\x.example.com; spf=pass",
    b"Authentication-Results: mx.(no)example.com; spf=pass",
    b"Authentication-Results: =?utf-8?q?mx.example.com?=; spf=pass",
    b"Authentication-Results: =?utf-8?b?bXguZXhhbXBsZS5jb20=?= ; spf=pass",
    b"Authentication-Results: mx.example.com\0.evil.example; spf=pass",
    b"Authentication-Results: mx.example.com\r other.example; spf=pass",
    b"X: y\rAuthentication-Results: mx.example.com; spf=pass",
    b"X: y\r Z\rauthentication-results : mx.example.com; spf=pass",
    b"X: y\r\r\nAuthentication-Results: mx.example.com; spf=pass",
    b"X: y\x0bAuthentication-Results: mx.example.com; spf=pass",
    b"X: y\xe2\x80\xa8Authentication-Results: mx.example.com; spf=pass",
    b"X: y\x85Authentication-Results: mx.example.com; spf=pass",
    b"X: y\r\n \x0cAuthentication-Results: mx.example.com; spf=pass",
    b"\x01Authentication-Results\x02: mx.example.com; spf=pass",
    b"Authentication\0-Results: mx.example.com; spf=pass",
    b"Authentication-Results\r\n : mx.example.com; spf=pass",
    "Authent\u0131cation-Re\u017fults: mx.example.com; spf=pass".encode(),
    b"\xef\xbb\xbfAuthentication-Results: mx.example.com; spf=pass",
    b"Authentication-Results: (mx.example.com) mx.example.org; spf=pass",
    b"ARC-Authentication-Results: i=1; mx.example.com; spf=pass",
    b"arc-authentication-results\t:\r\n i = 2 ;\r\n (a) MX.example.com 1; spf=pass",
    b"ARC-Authentication-Results: mx.example.com; spf=pass",
    b"ARC-Authentication-Results: i=1 (one); mx.example.com; spf=pass",
    b"ARC\0-Authentication-Results: i=1; mx.exa\r\n mple.com; spf=pass",
    b"X: y\rARC-Authentication-Results: i=1; mx.example.com; spf=pass",
]
OTHERS = [
    b"Authentication-Results: mx.example.org; x=mx.example.com",
    b"authentication-results:\r\n\tmx.example.org 1;\r\n\tspf=pass smtp.helo=mx.example.com",
    b"Authentication-Results: gateway.mx.example.com; spf=pass",
    b"X-Authentication-Results: mx.example.com; spf=pass",
    b"ARC-Authentication-Results: i=1; mx.example.org; x=mx.example.com",
    b"arc-authentication-results:\r\n\tI = 12 ;\r\n\tmx.example.org 1; spf=pass smtp.helo=mx.example.com",
    b"X-ARC-Authentication-Results: i=1; mx.example.com; spf=pass",
    b"Subject: about ARC-Authentication-Results: i=1; mx.example.com; spf=pass",
    b"Subject: about Authentication-Results: mx.example.com; spf=pass",
    b"Subject: about\r\n Authentication-Results: mx.example.com; spf=pass",
    b"Authentication-Resultsx: mx.example.com; spf=pass",
]


@pytest.mark.parametrize("field", FORGED)
@pytest.mark.parametrize("before", [b"", b"Subject: one\r\n"])
def test_a_field_that_may_be_mistaken_for_ours_is_renamed_and_the_rest_is_unchanged(before, field):
    raw = before + field + BODY
    found = without_ours(raw, OURS)
    assert found.replace(b"X-Claimed-", b"", 1) == raw
    assert found != raw
    assert not claims(found)


@pytest.mark.parametrize("field", OTHERS)
def test_a_field_of_another_host_or_name_stays_unchanged(field):
    raw = b"Subject: one\r\n" + field + BODY
    assert without_ours(raw, OURS) == raw


@pytest.mark.parametrize("raw", [b"\r\n" + FORGED[0] + BODY, b" " + FORGED[0] + BODY, b"", b"\r\n\r\n"])
def test_a_body_and_the_rest_of_our_line_are_not_fields(raw):
    assert without_ours(raw, OURS) == raw
    assert not claims(raw)


PIECES = st.sampled_from(
    [
        *(b"ARC-", b"arc-", b"i=1;", b"i = 2 ; "),
        *(b"Authentication-Results", b"authentication-results", b"AUTHENTICATION-RESULTS", b":", b": ", b";", b"; x=y"),
        *(
            b"mx.example.com",
            b"MX.example.com",
            b"mx.example.org",
            b"mx.",
            b"example.com",
            b'"',
            b"\\",
            b"(",
            b")",
            b".",
        ),
        *(b"\r", b"\n", b"\r\n", b"\r\n ", b" ", b"\t", b"\0", b"\x0b", b"\x0c", b"\x1e", b"\x85", b"\xe2\x80\xa8"),
        *(b"\xc2\xa0", b"\xef\xbb\xbf", b"=?utf-8?q?", b"?=", b"X: y", b"Subject: x\r\n", b"1", b"\r\n\r\n"),
    ]
)


@given(st.lists(PIECES, max_size=14).map(b"".join))
@example(b"Authentication-Results\r\n\r\n: mx.example.com;")
@example(b"\n\nAuthentication-Results: mx.example.com;")
def test_no_reader_finds_our_results_in_served_mail(raw):
    raw = raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")  # received mail has only CRLF line ends
    found = without_ours(raw, OURS)
    assert not claims(found)
    assert found.replace(b"X-Claimed-", b"") == raw
    assert without_ours(found, OURS) == found


JOINED = st.tuples(*[st.lists(PIECES, max_size=3).map(b"".join)] * 5).map(
    lambda one: one[0] + b"Authentication-Results" + one[1] + b":" + one[2] + b"mx.example.com" + one[3] + b";" + one[4]
)


@given(JOINED)
def test_no_reader_finds_our_results_in_any_surroundings(raw):
    raw = raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert not claims(without_ours(raw, OURS))


@pytest.mark.parametrize(
    "piece",
    [
        *(b"(", b"a", b"a\0", b"\r", b"\r\n (", b"Authentication-Results", b"Authentication-Results: " + b"a" * 200),
        *(b"\r\nAuthentication-Results: mx.example.com;", b"\rAuthentication-Results:" + b" " * 900),
    ],
)
def test_a_deliberately_slow_header_takes_linear_time(piece):
    data = b"Authentication-Results:" + piece * (400_000 // len(piece))
    assert_linear(lambda raw: without_ours(raw, OURS), data)
