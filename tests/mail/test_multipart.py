"""Splitting a message into its parts at their boundaries, within limits."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing import read

from tmpmaild.mail import mime, multipart

MIXED = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n"


BASE64 = b"Content-Transfer-Encoding: base64\r\n\r\n"


@pytest.mark.parametrize(
    ("header", "content_type"),
    [
        (b"Content-Type: text", "text/plain"),
        (b"Content-Type: text; name=a.txt", "text/plain"),
        (b"Content-Type: PDF", "text/plain"),
        (b"Content-Type: PDF; name=a.pdf", "application/octet-stream"),
        (b"Content-Type: PDF\r\nContent-Disposition: attachment; filename=a.pdf", "application/octet-stream"),
        (b"Content-Type: charset=binary", "application/octet-stream"),
        (b"Content-Type: PDF\r\nContent-Transfer-Encoding: binary", "application/octet-stream"),
        (b"Content-Type: =?utf-8?q?image/png=3B_name=3Da.png?=", "image/png"),
        (b"Content-Type: ;", "text/plain"),
        (b"Content-Type: image/png\r\nContent-Type: text/plain", "image/png"),
    ],
)
def test_a_malformed_content_type_is_plain_text_without_other_hints(header, content_type):
    (part,) = mime.parts_of(header + b"\r\n\r\nbody")
    assert part.content_type == content_type


@pytest.mark.parametrize(
    "stated",
    [
        "multipart; boundary=x",
        "multipart/*; boundary=x",
        "multipart/ ; boundary=x",
        "mixed; boundary=x",
        "multipart/mixed boundary=x",
        "multipart/mixed;\r\n boundary=x (made by a program)",
        "multipart/mixed; boundary=never\r\nContent-Type: multipart/mixed; boundary=x",
        "PDF\r\nContent-Type: multipart/mixed; boundary=x",
        "text/plain\r\nContent-Type: multipart/mixed; boundary=x",
        "multipart/mixed; boundary=x\r\nContent-Type: text/plain",
        "multipart/mixed\r\nContent-Type: multipart/mixed; boundary=x",
        # Continuation lines that a program forgot to indent.
        "multipart/mixed;\r\nboundary=x",
        "multipart/mixed; charset=utf-8;\r\ntype=a;\r\n\tstart=b;\r\nboundary =\r\n x\r\nX-Mailer: a",
        "multipart/mixed; boundary='x'",
        "multipart/mixed; boundary=\"'x'\"",
    ],
)
def test_a_message_with_a_boundary_is_read_part_by_part(stated):
    raw = f"Content-Type: {stated}\r\n\r\n--x\r\n\r\nhello\r\n--x\r\nContent-Type: a/b\r\n\r\n.\r\n--x--".encode()
    mail = read(raw)
    assert (mail.body, [one.content_type for one in mail.attachments]) == ("hello", ["a/b"])


def test_apostrophes_that_are_part_of_a_boundary_are_kept():
    """RFC 2046 §5.1.1 allows apostrophes in a boundary."""
    raw = b"Content-Type: multipart/mixed; boundary='x'\r\n\r\nbefore\r\n--'x'\r\n\r\n--x\r\n--'x'--\r\n"
    assert read(raw).body == "--x"


def test_no_more_than_1000_parts_are_read():
    mail = read(MIXED + b"--x\nContent-Type: a/b\n\na\n" * 5_000)
    assert len(mail.attachments) == multipart.MAX_PARTS
    assert read(MIXED + b"--x\n\na\n" * 5_000).body.count("a") == multipart.MAX_PARTS
    parts = [f"--x\nContent-Type: application/x-{n}\n\n{n}\n".encode() for n in range(20)]
    mail = read(MIXED + b"".join(parts) + b"--x--\n")
    assert [(a.index, a.content_type) for a in mail.attachments] == [(n, f"application/x-{n}") for n in range(20)]
    content = bytes(range(256)) * 10_000
    mail = read(b"Content-Type: application/octet-stream; name=a.bin\n" + BASE64 + base64.encodebytes(content))
    assert [(a.filename, a.size_bytes) for a in mail.attachments] == [("a.bin", len(content))]
    assert mail.warnings == ()


@given(
    st.lists(
        st.sampled_from([b"\r\n", b"\n", b"--x", b"--x--", b"--", b"-", b"text", b"Content-Type: a/b\n\n"]), max_size=30
    ),
    st.integers(3, 12),
)
def test_a_boundary_is_found_at_any_step_boundary(pieces, step_bytes):
    raw = MIXED + b"".join(pieces)
    whole = mime.parse(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multipart, "_STEP_BYTES", step_bytes)
        assert mime.parse(raw) == whole
