"""What a mail is given out with: trace fields as RFC 5321 §4.4 wants them, the first line of a part of an mbox."""

import email
import mailbox
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growth import assert_within
from tables import rows_of, table
from tmpmaild.mail import extracts
from tmpmaild.model import Envelope, FullMessage, Message, SmtpSession

ROWS = rows_of(__file__)

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
    return extracts.trace_fields(full(*args, **kwargs), "mx.mail.example.com")


def test_the_fields_are_these_and_the_null_sender_an_empty_path():
    assert fields() == (
        b"Return-Path: <bob@example.com>\r\n"
        b"Received: from mx.example.com ([192.0.2.7])\r\n"
        b"\tby mx.mail.example.com with ESMTP id msg_01m7y0sgyf0000000000000000\r\n"
        b"\tfor <ada+x@mail.example.com>; Mon, 21 Sep 2026 14:13:20 +0000\r\n"
    )
    assert fields(sender="").startswith(b"Return-Path: <>\r\n")


@pytest.mark.parametrize(("more", "keyword"), ROWS["the protocol says whether there was tls and an address in utf 8"])
def test_the_protocol_says_whether_there_was_tls_and_an_address_in_utf_8(more, keyword):
    assert f" with {keyword} id ".encode() in fields(**more)


@table(("helo", "ip", "says"), ROWS["from says who the client claimed to be and where it was"])
def test_from_says_who_the_client_claimed_to_be_and_where_it_was(helo, ip, says):
    assert fields(helo=helo, ip=ip).split(b"\r\n")[1] == f"Received: from {says}".encode()


@pytest.mark.parametrize("path", ROWS["a path is written as it was"])
def test_a_path_is_written_as_it_was(path):
    octets = fields(sender=path, recipient=path)
    assert f"Return-Path: <{path}>\r\n".encode() in octets
    assert f"\tfor <{path}>; ".encode() in octets


@table("path", [EVIL, f"ada@mail.example.com{EVIL}", *ROWS["what is no path is left out"]])
def test_what_is_no_path_is_left_out(path):
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
def test_whatever_the_envelope_says_there_are_two_fields_and_the_mail_below_is_untouched(paths, client, tls, time):
    above = fields(*paths, *client, tls=tls, time_ms=time)
    whole = email.message_from_bytes(above + RAW)
    assert whole.keys() == ["Return-Path", "Received", "Subject"]
    assert (whole.defects, whole.get_payload()) == ([], "body\r\n")
    lines = above.split(b"\r\n")
    assert [line[:1] for line in lines] == [b"R", b"R", b"\t", b"\t", b""]
    assert max(map(len, lines)) < 998
    assert not re.search(rb"[\r\n\0]", b"".join(lines))
    above.decode()


# Parts of an mbox: held against Python's ``mailbox``, which reads them back

mails = st.lists(st.sampled_from(ROWS["PIECES"]), max_size=12).map(b"".join) | st.binary(max_size=50)


def read_back(path, octets):
    """Return the mails of an mbox, unquoted: that mboxrd is meant is known to readers, not to this module of Python."""
    path.write_bytes(octets)
    box = mailbox.mbox(path, create=False)
    try:
        return [re.sub(rb"^>(>*From )", rb"\1", box.get_bytes(key), flags=re.MULTILINE) for key in box.keys()]  # noqa: SIM118
    finally:
        box.close()


def expected(mail):
    """Return a mail as an mbox can hold it: with LF, and a line end at its end."""
    lines = mail.replace(b"\r\n", b"\n")
    return lines if not lines or lines.endswith(b"\n") else lines + b"\n"


@given(st.lists(mails, max_size=5))
@example([b"", b"\n", b"\n\n", b"From \n\nFrom x", b">From ", b"a\r\n\r\n", b"no line end"])
def test_all_mails_are_read_back_as_they_are(tmp_path_factory, some):
    path = tmp_path_factory.getbasetemp() / "test_mbox"
    octets = b"".join(extracts.mbox_entry(full(), mail) for mail in some)
    assert read_back(path, octets) == list(map(expected, some))


@given(st.lists(mails, max_size=30), st.sampled_from([1, 2, 3, 7]))
def test_where_a_mail_is_sliced_makes_no_difference(some, size_bytes):
    mail = b"".join(some)
    whole = extracts.mbox_entry(full(), b"Received: x\r\n", mail)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extracts, "_SLICE_BYTES", size_bytes)
        assert extracts.mbox_entry(full(), b"Received: x\r\n", mail) == whole


def test_no_mail_is_quoted_in_one_go():
    """No other thread runs during a substitution; in all of this one it takes a second."""
    parts = list(extracts._quoted(b"From x\r\n" * 1_000_000))
    assert max(map(len, parts)) < 2 * extracts._SLICE_BYTES


def test_the_first_line_names_the_sender_and_the_time_in_utc():
    part = extracts.mbox_entry(full(), b"Subject: x\r\n\r\nFrom here\r\n>From there\r\n")
    assert part == (b"From bob@example.com Mon Sep 21 14:13:20 2026\nSubject: x\n\n>From here\n>>From there\n\n")


@table("sender", ROWS["a sender that is not one word of ascii is not in it"])
def test_a_sender_that_is_not_one_word_of_ascii_is_not_in_it(sender):
    assert extracts.mbox_entry(full(sender), b"x").startswith(b"From MAILER-DAEMON Mon Sep 21 14:13:20 2026\nx\n\n")


@pytest.mark.parametrize("piece", [b">", b"\n>", b"From ", b"\nFrom ", b"\r", b"\r\n", b">From "])
def test_a_mail_of_the_worst_lines_takes_no_longer_than_its_size(piece):
    mail = piece * (4_000_000 // len(piece))
    assert_within(5, extracts.mbox_entry, full(), mail)
