"""Parsing in the event loop is cheap for every message; the cost is measured in function calls rather than time."""

import sys

import pytest

from tmpmaild.mail import cost, mime

MOST_CALLS = 4500  # less than two milliseconds: a call takes 0.1 to 0.45 µs
HEADER = b"From: a@shop.example\r\nSubject: hi\r\n"
CHARSETS = [b"utf-8", b"cp949", b"iso-2022-jp", b"gb18030", b"utf-7", b"hz", b"euc-jp", b"big5", b"koi8-r"]
FIELDS = [b"From", b"To", b"Date", b"Subject", b"Content-Type", b"Content-Disposition", b"Received", b"X-A"]
# Pieces that are repeated to fill a header field, a text or an HTML page.
PIECES = [
    *(b"\x1b$B-!", b"\x1b$Ba ", b"~{Dz~}", b"\x0e1\x0f\x1b(I", b"(a)", b" boundary="),
    *(b"a@b.c, ", b"a b c, ", b"(((", b'"\\"', b";a=b", b";a*0*=utf-8''%ff", b"<", b",", b":;", b"=?", b"=?a?b?"),
    *(b"\r\n ", b"@", b"=?hz?Q?=ff?= <a@b.c>, ", b"=?cp949?Q?" + b"=ff" * 20 + b"?=\r\n ", b"=?big5?B?////?= "),
    *(b"<b>", b"<b>x</b>", b"<p style='color:red'>x", b"&amp;", b"> a\r\n", b"a \r\n", b"=\r\n", b"=FF=\r\n"),
    *(b"=1B$B-!", b"=1b$B-!", b"=7E{Dz~}", b"~=7BDz~}", b"~=\r\n{Dz~}", b"=C3=A4", b"=FF"),
    *(b"=3Cb=3E", b"=3Cb=3Ex=3C/b=3E", b"=26amp;", b"<b =\r\n>", b"=20=\r\n"),
    *(b"\xff\xfe\x80", b"\xc3\xa4", b"--b\r\n\r\nx\r\n", b"--b\r\nContent-Disposition: attachment\r\n\r\nx\r\n", b"x"),
]
CONTENTS = [
    b"",
    b"Content-Type: text/html\r\n",
    b"Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n",
    b"Content-Type: text/plain; format=flowed; delsp=yes\r\n",
    b"Content-Transfer-Encoding: quoted-printable\r\n",
    b"Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n",
    b"Content-Type: multipart/mixed; boundary=b\r\n",
    *(b"Content-Type: text/plain; charset=%b\r\n" % charset for charset in CHARSETS),
]


def filled(piece, size_bytes):
    return piece * (size_bytes // len(piece))


def mails(size_bytes):
    """Yield messages of this size that repeat a single piece, in the header or the body."""
    for piece in PIECES:
        for field in FIELDS:
            yield b"%b: %b\r\n\r\nx\r\n" % (field, filled(piece, size_bytes))
        for content in CONTENTS:
            yield HEADER + content + b"\r\n" + filled(piece, size_bytes)
    for charset in CHARSETS:
        for word in (b"=?%b?Q?" % charset + filled(b"=ff", size_bytes) + b"?=", b"=?%b?Q?a?= " % charset):
            yield b"Subject: " + filled(word, max(size_bytes, len(word))) + b"\r\n\r\nx\r\n"
    yield filled(b"a: b\r\n", size_bytes) + b"\r\nx\r\n"
    yield b"\xef\xbb\xbfFrom: " + filled(b",", size_bytes) + b"\r\n\r\nx\r\n"
    yield b"Fromage: x\r\nFrom: " + filled(b",", size_bytes) + b"\r\n\r\nx\r\n"
    yield HEADER + CONTENTS[1] + b"\r\n<style>" + filled(b".a .b{opacity:1}", size_bytes // 2) + b"</style>"
    sheet, elements = filled(b".a .b{opacity:1}", size_bytes // 2), filled(b"<p class='a b'>x", size_bytes // 2)
    yield HEADER + CONTENTS[1] + b"\r\n<style>" + sheet + b"</style><div class=a>" + elements


def calls(raw):
    """Return the number of Python and C functions called."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        mime.parse(raw)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("size_bytes", [300, 500, 1000, 2000, 4000, 8000, 16_000, 32_000])
def test_no_message_rated_as_cheap_calls_many_functions(size_bytes):
    dear = {raw[:80]: count for raw in mails(size_bytes) if cost.is_cheap(raw) and (count := calls(raw)) > MOST_CALLS}
    assert dear == {}


@pytest.mark.parametrize("size_bytes", [0, 500, 2000, 20_000])
@pytest.mark.parametrize(
    "content", [b"", b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n"]
)
def test_plain_mail_is_cheap(size_bytes, content):
    received = b"Received: from a.example (a.example [192.0.2.1]) by mx.example.com with ESMTPS id 1;\r\n\tMon\r\n"
    assert cost.is_cheap(received * 3 + HEADER + content + b"\r\n" + filled(b"It is 481 516.\r\n", size_bytes))
    assert cost.is_cheap(b"")
    assert not cost.is_cheap(HEADER + content + b"\r\n" + filled(b"It is 481 516.\r\n", 33_000))


def test_quoted_printable_text_is_cheap_unless_it_may_contain_escape_sequences():
    mail = HEADER + CONTENTS[4] + b"\r\n" + b"Gr=C3=BC=C3=9Fe, =\r\n481 516\r\n" * 80
    assert cost.is_cheap(mail)
    for escaped in (b"=1B$B-!", b"=7e{Dz~}", b"~=7BDz~}", b"~= \r\n{Dz~}"):
        assert not cost.is_cheap(mail + escaped)
