"""The trace fields that precede a message (RFC 5321 §4.4)."""

import email
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tmpmaild.mail import tracefields
from tmpmaild.model import Envelope, FullMessage, Message, SmtpSession

ID = "msg_01m7y0sgyf0000000000000000"
RAW = b"Subject: x\r\n\r\nbody\r\n"
EVIL = "\r\nX-Evil: yes\r\n\r\n"


def full(
    sender="bob@example.com",
    recipient="ada+x@mail.example.com",
    helo="mx.example.com",
    ip="192.0.2.7",
    *,
    tls=False,
    greeting="EHLO",
    time_ms=1_790_000_000_999,
):
    envelope = Envelope(sender, (recipient,), helo, ip, tls, SmtpSession(greeting))
    message = Message(
        ID, time_ms, recipient, sender, "", "", "", truncated=False, size_bytes=len(RAW), has_html=False, attachments=()
    )
    return FullMessage(message, envelope, (), (), b"", None, complete=False, source=RAW)


def fields(*args, **kwargs):
    return tracefields.trace_fields(full(*args, **kwargs), "mx.mail.example.com")


def test_the_trace_fields_are_written_and_the_null_sender_is_an_empty_path():
    assert fields() == (
        b"Return-Path: <bob@example.com>\r\n"
        b"Received: from mx.example.com ([192.0.2.7])\r\n"
        b"\tby mx.mail.example.com with ESMTP id msg_01m7y0sgyf0000000000000000\r\n"
        b"\tfor <ada+x@mail.example.com>; Mon, 21 Sep 2026 14:13:20 +0000\r\n"
    )
    assert fields(sender="").startswith(b"Return-Path: <>\r\n")


@pytest.mark.parametrize(
    ("more", "keyword"),
    [
        ({}, "ESMTP"),
        ({"greeting": "HELO"}, "SMTP"),
        ({"tls": True}, "ESMTPS"),
        ({"sender": "bøb@example.com"}, "UTF8SMTP"),
        ({"recipient": "ada+ä@mail.example.com", "tls": True}, "UTF8SMTPS"),
    ],
)
def test_the_protocol_shows_tls_and_an_address_in_utf_8(more, keyword):
    assert f" with {keyword} id ".encode() in fields(**more)


@pytest.mark.parametrize(
    ("helo", "ip", "says"),
    [
        ("MX.Example.com", "192.0.2.7", "mx.example.com ([192.0.2.7])"),
        ("bücher.example", "192.0.2.7", "xn--bcher-kva.example ([192.0.2.7])"),
        ("[192.0.2.8]", "192.0.2.7", "[192.0.2.8] ([192.0.2.7])"),
        ("[IPv6:2001:DB8::1]", "2001:db8::1", "[ipv6:2001:db8::1] ([IPv6:2001:db8::1])"),
        ("mx", "::ffff:192.0.2.7", "mx ([192.0.2.7])"),
        ("mx", "fe80::1%eth0", "mx ([IPv6:fe80::1])"),
        # Names that do not match the grammar are omitted, because they could close the comment or be comments
        # themselves.
        ("my computer", "192.0.2.7", "[192.0.2.7] ([192.0.2.7])"),
        ("a) by evil (", "192.0.2.7", "[192.0.2.7] ([192.0.2.7])"),
        ("under_score", "192.0.2.7", "[192.0.2.7] ([192.0.2.7])"),
        ("[evil]", "192.0.2.7", "[192.0.2.7] ([192.0.2.7])"),
        ("x192.0.2.1]", "192.0.2.7", "[192.0.2.7] ([192.0.2.7])"),
        ("", "192.0.2.7", "[192.0.2.7] ([192.0.2.7])"),
        # A message that arrived over a Unix socket.
        ("mx.example.com", "local", "mx.example.com"),
        ("[192.0.2.8]", "local", "unknown"),
        ("no name", "", "unknown"),
        pytest.param("x" * 2000, "192.0.2.7", "[192.0.2.7] ([192.0.2.7])", id="x * 2000"),
    ],
)
def test_from_has_the_claimed_name_and_the_address_of_the_client(helo, ip, says):
    assert fields(helo=helo, ip=ip).split(b"\r\n")[1] == f"Received: from {says}".encode()


@pytest.mark.parametrize(
    "path",
    [
        "postmaster",
        "Postmaster@mail.example.com",
        '"a b\\"<(>"@mail.example.com',
        "@hop.example:ada@mail.example.com",
        "ada@[192.0.2.1]",
        "ädä@bücher.example",
    ],
)
def test_a_path_is_written_as_it_was(path):
    octets = fields(sender=path, recipient=path)
    assert f"Return-Path: <{path}>\r\n".encode() in octets
    assert f"\tfor <{path}>; ".encode() in octets


@pytest.mark.parametrize(
    "path",
    [
        EVIL,
        f"ada@mail.example.com{EVIL}",
        *[
            "a\0@b",
            "a>b",
            "a b@c",
            "x" * 300 + "@b",
            "\ud800@b",
        ],
    ],
)
def test_text_that_is_not_a_path_is_omitted(path):
    octets = fields(sender=path, recipient=path)
    assert octets.startswith(b"Return-Path: <>\r\n")
    assert octets.split(b"\r\n")[3] == b"\t; Mon, 21 Sep 2026 14:13:20 +0000"


anything = st.one_of(
    st.text(max_size=300),
    st.text(st.sampled_from('ab.@<>()[]"\\:;, \r\n\t\0ä\u2028\x85\ud800'), max_size=40),
    st.from_regex(r"\A[ab\"(]{1,3}@[ab.\[\]]{1,5}\Z"),
)


@given(
    paths=st.tuples(anything, anything),
    client=st.tuples(anything, anything),
    tls=st.booleans(),
    time=st.integers(0, 1 << 45),
)
@example(paths=(EVIL, EVIL), client=(EVIL, EVIL), tls=False, time=0)
@example(paths=('"\\\n"@b', "a@b\n"), client=("[::1]\n", "::1%\r\nX: y"), tls=True, time=1 << 45)
def test_any_envelope_gives_two_fields_and_leaves_the_message_unchanged(paths, client, tls, time):
    above = fields(*paths, *client, tls=tls, time_ms=time)
    whole = email.message_from_bytes(above + RAW)
    assert whole.keys() == ["Return-Path", "Received", "Subject"]
    assert (whole.defects, whole.get_payload()) == ([], "body\r\n")
    lines = above.split(b"\r\n")
    assert [line[:1] for line in lines] == [b"R", b"R", b"\t", b"\t", b""]
    assert max(map(len, lines)) < 998
    assert not re.search(rb"[\r\n\0]", b"".join(lines))
    above.decode()
