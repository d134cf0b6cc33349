"""Mails as parts of an mbox: held against Python's ``mailbox``, which reads them back."""

import mailbox
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tables import rows_of
from tmpmaild.mail import extracts
from tmpmaild.model import Envelope, FullMessage, Message

ROWS = rows_of(__file__)

AT_MS = 1_790_000_000_999
PIECES = ROWS["PIECES"]
mails = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join) | st.binary(max_size=50)


def source(sender="ann@example.org", at_ms=AT_MS):
    envelope = Envelope(sender, ("kate@mail.example.com",), "client.example", "192.0.2.7", tls=False)
    message = Message(
        "msg_01m7y0sgyf0000000000000000",
        at_ms,
        *envelope.recipients,
        sender,
        "",
        "",
        "",
        truncated=False,
        size_bytes=0,
        has_html=False,
        attachments=(),
    )
    return FullMessage(message, envelope, (), (), b"", None, complete=False, source=b"")


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
    octets = b"".join(extracts.mbox_entry(source(), mail) for mail in some)
    assert read_back(path, octets) == list(map(expected, some))


@given(st.lists(mails, max_size=30), st.sampled_from([1, 2, 3, 7]))
def test_where_a_mail_is_sliced_makes_no_difference(some, size_bytes):
    mail = b"".join(some)
    whole = extracts.mbox_entry(source(), b"Received: x\r\n", mail)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extracts, "_SLICE_BYTES", size_bytes)
        assert extracts.mbox_entry(source(), b"Received: x\r\n", mail) == whole


def test_no_mail_is_quoted_in_one_go():
    """No other thread runs during a substitution; in all of this one it takes a second."""
    parts = list(extracts._quoted(b"From x\r\n" * 1_000_000))
    assert max(map(len, parts)) < 2 * extracts._SLICE_BYTES


def test_the_first_line_names_the_sender_and_the_time_in_utc():
    part = extracts.mbox_entry(source(), b"Subject: x\r\n\r\nFrom here\r\n>From there\r\n")
    assert part == (b"From ann@example.org Mon Sep 21 14:13:20 2026\nSubject: x\n\n>From here\n>>From there\n\n")


@pytest.mark.parametrize(
    "sender", ["", '"a b"@x.test', "x\n\nFrom y", "jörg@x.test", "a\0@x.test", "a\u2028b", "\ud800"]
)
def test_a_sender_that_is_not_one_word_of_ascii_is_not_in_it(sender):
    assert extracts.mbox_entry(source(sender), b"x").startswith(b"From MAILER-DAEMON Mon Sep 21 14:13:20 2026\nx\n\n")


@pytest.mark.parametrize("piece", [b">", b"\n>", b"From ", b"\nFrom ", b"\r", b"\r\n", b">From "])
def test_a_mail_of_the_worst_lines_takes_no_longer_than_its_size(piece):
    mail = piece * (4_000_000 // len(piece))
    begun = time.process_time()
    extracts.mbox_entry(source(), mail)
    assert time.process_time() - begun < 5
