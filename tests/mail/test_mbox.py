"""Messages can be read back unchanged from an mbox file."""

import mailbox
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growth import assert_within
from tmpmaild.mail import mbox
from tmpmaild.model import Envelope, FullMessage, Message, SmtpSession

ID = "msg_01m7y0sgyf0000000000000000"


RAW = b"Subject: x\r\n\r\nbody\r\n"


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


mails = st.lists(
    st.sampled_from(
        [
            *(b"From ", b">From ", b">>From x", b"From: a@b", b">", b" ", b"x", b"\xff\0", b"\r", b"\r\n"),
            *(b"\n", b"\r\n\r\n"),
        ]
    ),
    max_size=12,
).map(b"".join) | st.binary(max_size=50)


@given(st.lists(mails, max_size=5))
@example([b"", b"\n", b"\n\n", b"From \n\nFrom x", b">From ", b"a\r\n\r\n", b"no line end"])
def test_all_messages_are_read_back_unchanged(tmp_path_factory, some):
    path = tmp_path_factory.getbasetemp() / "test_mbox"
    octets = b"".join(mbox.entry(full(), mail) for mail in some)
    assert read_back(path, octets) == list(map(expected, some))


@given(st.lists(mails, max_size=30), st.sampled_from([1, 2, 3, 7]))
def test_the_position_of_slices_makes_no_difference(some, size_bytes):
    mail = b"".join(some)
    whole = mbox.entry(full(), b"Received: x\r\n", mail)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mbox, "_SLICE_BYTES", size_bytes)
        assert mbox.entry(full(), b"Received: x\r\n", mail) == whole


def test_no_message_is_quoted_in_a_single_step():
    """No other thread runs during a substitution, and a single substitution in this message would take a second."""
    parts = list(mbox._quoted(b"From x\r\n" * 1_000_000))
    assert max(map(len, parts)) < 2 * mbox._SLICE_BYTES


def test_the_first_line_names_the_sender_and_the_time_in_utc():
    part = mbox.entry(full(), b"Subject: x\r\n\r\nFrom here\r\n>From there\r\n")
    assert part == (b"From bob@example.com Mon Sep 21 14:13:20 2026\nSubject: x\n\n>From here\n>>From there\n\n")


@pytest.mark.parametrize(
    "sender",
    [
        "",
        '"a b"@x.test',
        "x\n\nFrom y",
        "jörg@x.test",
        "a\0@x.test",
        "a\u2028b",
        "\ud800",
    ],
)
def test_a_sender_that_is_not_a_single_word_of_ascii_is_omitted(sender):
    assert mbox.entry(full(sender), b"x").startswith(b"From MAILER-DAEMON Mon Sep 21 14:13:20 2026\nx\n\n")


@pytest.mark.parametrize("piece", [b">", b"\n>", b"From ", b"\nFrom ", b"\r", b"\r\n", b">From "])
def test_a_message_with_the_worst_lines_takes_linear_time(piece):
    mail = piece * (4_000_000 // len(piece))
    assert_within(5, mbox.entry, full(), mail)


def read_back(path, octets):
    """Return the unquoted messages of an mbox, because Python's ``mailbox`` module does not support mboxrd."""
    path.write_bytes(octets)
    box = mailbox.mbox(path, create=False)
    try:
        return [re.sub(rb"^>(>*From )", rb"\1", box.get_bytes(key), flags=re.MULTILINE) for key in box.keys()]  # noqa: SIM118
    finally:
        box.close()


def expected(mail):
    """Return a message as it is stored in an mbox: with LF line ends, and with a final line end."""
    lines = mail.replace(b"\r\n", b"\n")
    return lines if not lines or lines.endswith(b"\n") else lines + b"\n"
