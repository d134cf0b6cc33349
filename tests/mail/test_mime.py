"""Whole messages: each ``mails/*.eml`` has its expected result next to it, and large messages are generated here."""

import base64
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing import read

from growth import assert_within, cpu_seconds
from tmpmaild.mail import extracts, filenames, mime, multipart
from tmpmaild.model import Verbatim

MAILS = sorted((Path(__file__).parents[1] / "mails").glob("*.eml"))
MIXED = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n"
HTML = b"Content-Type: text/html\r\n\r\n"
QUOTED_PRINTABLE = b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
BASE64 = b"Content-Transfer-Encoding: base64\r\n\r\n"
TIMES_ORDINARY = 120  # the limit for a hostile message, as a multiple of the cost of ordinary text; measured: 77


def texts_of(mail):
    yield from (mail.from_address, mail.from_name, mail.subject, mail.body, mail.html or "")
    yield from (text for field in mail.headers for text in field)
    for attachment in mail.attachments:
        yield from (attachment.filename, attachment.content_type, attachment.content_id or "")


def assert_clean(mail):
    assert mime.UNREADABLE not in mail.warnings
    for text in texts_of(mail):
        text.encode()
        assert "\0" not in text
    assert "\r" not in mail.body
    assert not any(character in text for field in mail.headers for text in field for character in "\r\n")


@pytest.mark.parametrize("path", MAILS, ids=[path.stem for path in MAILS])
def test_a_message_is_parsed_as_expected_with_any_line_ends(path):
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    raw = path.read_bytes()
    mail, other = read(raw), read(raw.replace(b"\r\n", b"\n"))
    assert json.loads(msgspec.json.encode(mail)) == expected
    assert_clean(mail)
    assert (other.subject, other.from_address) == (mail.subject, mail.from_address)
    parts = mime.parts_of(raw)
    assert [parts[one.part].content_type for one in mail.attachments] == [one.content_type for one in mail.attachments]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ("Content-Type: a/b; x-mode=0600;\r\nname=a.zip", "a.zip"),
        ("Content-Disposition: attachment;\r\nsize=5;\r\nfilename*=utf-8''%C3%A9.zip", "é.zip"),
        # Encoded-words in place of RFC 2231 encoding, or around a whole field.
        ('Content-Disposition: attachment; filename*="=?UTF-8?B?0JzQtdC2?= =?UTF-8?B?0LTRgy5kb2M=?="', "Между.doc"),
        ("Content-Disposition: attachment; filename*0*==?utf-8?q?a=C3; filename*1*==A9?=", "aé"),
        ("Content-Disposition: =?utf-8?q?attachment;_filename=3D_=22a_b.htm=22?=", "a b.htm"),
        ("Content-Disposition: =?utf-8?b?YXR0YWNobWVudDsgZmlsZW5hbWU9ICJhLmh0bSI=?=", "a.htm"),
        # In other places, the same lines are not parameters.
        ("Content-Type: a/b; x-mode=0600\r\nname=a.zip", ""),
        ("Content-Type: a/b;\r\nX-A: b;\r\nname=a.zip", ""),
        ("Content-Type: a/b;\r\nnothing\r\nname=a.zip", ""),
    ],
)
def test_a_file_has_the_name_that_its_sender_meant(fields, name):
    (file,) = read(MIXED + f"--x\r\n{fields}\r\nContent-ID: <1>\r\n\r\nhello\r\n--x--\r\n".encode()).attachments
    assert (file.filename, file.size_bytes) == (name, 5)


@pytest.mark.parametrize("charset", ["charset=utf-8", 'charset="utf-8"', "charset = utf-8;"])
def test_a_transfer_encoding_behind_the_content_type_in_one_line_is_read(charset):
    raw = f"Content-Type: text/html; {charset} Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>caf=C3=A9".encode()
    assert read(raw).html == "<p>café"
    assert read(b"Content-Transfer-Encoding: 7bit\r\n" + raw).html == "<p>caf=C3=A9"


def test_many_texts_of_one_message_share_a_limit():
    line = b"A line of ordinary text, with words in it, as long as they are in mail.\n"
    text = b"--x\n\n" + line * 10_000
    mail = read(MIXED + text * 5 + b"--x--\n")
    assert len(mail.body) <= mime.MAX_TEXT_BYTES + 100
    assert mail.warnings == (mime.TEXT_CUT,)


@pytest.mark.parametrize("path", MAILS, ids=[path.stem for path in MAILS])
def test_a_message_that_is_cut_off_anywhere_is_still_parsed(path):
    raw = path.read_bytes()
    for length in range(0, len(raw), max(1, len(raw) // 40)):
        assert_clean(read(raw[:length]))


def test_only_the_images_shown_in_a_view_are_inline():
    part = b"--x\r\nContent-Type: %s\r\nContent-Disposition: %s\r\nContent-ID: <%s>\r\n\r\n%s\r\n"
    ids = [b"shown", b"drawing", b"paper", b"file", b"large", b"too%20much", b"small"]
    html = b"--x\r\n" + HTML + b"".join(b'<img src="cid:%s">' % one for one in ids)
    mail = mime.parse(
        MIXED
        + html
        + b"\r\n"
        + b"".join(
            part % file
            for file in [
                (b"image/png", b"inline", b"shown", b""),
                (b"image/png", b"inline", b"shown", b"of one id the first counts"),
                (b"image/png", b"inline", b"unnamed", b""),
                (b"image/svg+xml", b"inline", b"drawing", b""),
                (b"application/pdf", b"inline", b"paper", b""),
                (b"image/png", b"attachment", b"file", b""),
                (b"image/png", b"inline", b"large", b"x" * 3_145_728),
                (b"image/png", b"inline", b"too much", b"x" * 3_145_728),
                (b"image/png", b"inline", b"small", b""),
            ]
        )
        + b"--x--\r\n"
    )
    assert [one.content_id for one in mail.attachments if one.inline] == ["shown", "large", "small"]
    assert [one.inline for one in mail.attachments[:2]] == [True, False]


TOKENS = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\n\n",
        b"\r",
        b" ",
        b"\x00",
        b"\xff",
        b"\xe9",
        b'"',
        b";",
        b"=",
        b"<",
        b"text ",
        b"\n--x\n",
        b"\n--x--\n",
        b"\n--y\n",
        b"\n--y--\n",
        b"--x",
        b"--",
        b"Content-Type: multipart/mixed; boundary=y\n",
        b'Content-Type: multipart/digest; boundary="x"\n',
        b"Content-Type: text/html; charset=utf-7\n",
        b"Content-Type: message/rfc822\n",
        b"<p hidden>",
        b"+2AA-",
        b"Content-Transfer-Encoding: base64\n",
        b"Content-Transfer-Encoding: quoted-printable\n",
        b"QUJD",
        b"=3D",
        b"Content-Disposition: inline; filename*0*=utf-8''%e4\n",
        b"Content-ID: <x>\n",
        b"=?utf-8?q?=00?=",
        b"Subject: ",
        b"From: ",
        b"charset=iso-2022-jp-2\n",
    ]
)


@given(st.sampled_from([b"", MIXED, HTML]), st.binary(max_size=500) | st.lists(TOKENS, max_size=60).map(b"".join))
def test_any_bytes_are_parsed_as_a_message(start, rest):
    assert_clean(read(start + rest))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.just("\n")))
def test_a_plain_text_is_never_changed(body):
    raw = f"Subject: x\n\n{body}".encode()
    assert read(raw).body == body
    encoded = b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(body.encode())
    assert read(encoded).body == body


def nested(levels):
    level = "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n"
    return "".join(level % (depth, depth) for depth in range(levels)).encode()


# Messages that are generated one at a time; the system tests use more of them. Each row contains a start, a piece with
# its number of repetitions, and the warning.
BOMBS = {
    name: (start, piece, times, warning)
    for name, start, piece, times, warning in [
        (
            "100,000 parts",
            b"Content-Type: multipart/mixed; boundary=x\r\n\r\n",
            b"--x\n\na\n",
            100000,
            "The message has too many parts; the rest was not read.",
        ),
        ("200,000 header lines", b"", b"X-Line: value\r\n", 200000, "The header is too large and was cut."),
        ("50 KB of quotes in To", b"To: ", b'"', 50000, "A header field is too long and was cut."),
        (
            "base64 full of padding and junk",
            b"Content-Transfer-Encoding: base64\r\n\r\n",
            b"A=$",
            1398101,
            "Some base64 is malformed and was repaired.",
        ),
        (
            "an unknown charset",
            b"Content-Type: text/plain; charset=x-none\n\n",
            b"\xe9",
            4194304,
            "A charset is unknown; the text was decoded with a charset that fits.",
        ),
        (
            "a charset of other octets",
            b"Content-Type: text/plain; charset=gb18030\n\n",
            b"\xff",
            4194304,
            "Some text does not fit its charset and was repaired.",
        ),
        ("4 MiB of < in HTML", b"Content-Type: text/html\r\n\r\n", b"<", 4194304, None),
        (
            "4 MiB of = in quoted-printable",
            b"Content-Transfer-Encoding: quoted-printable\r\n\r\n",
            b"=",
            4194304,
            "Some quoted-printable is malformed and was repaired.",
        ),
        ("4 MiB of NUL", b"", b"\x00", 4194304, "The message has no header."),
    ]
}
BOMBS["nesting of 3,000"] = (nested(3_000), b"", 0, multipart.TOO_DEEP)


@pytest.fixture(scope="module")
def ordinary_seconds():
    """Return the processor time for 4 MiB of ordinary text."""
    text = b"Subject: x\n\n" + b"A line of ordinary text, with words in it, as long as they are in mail.\n" * 58_000
    return min(cpu_seconds(read, text) for _ in range(3))


@pytest.mark.parametrize("name", BOMBS)
def test_the_cost_of_a_bomb_has_a_bound(name, ordinary_seconds):
    start, piece, times, warning = BOMBS[name]
    raw = start + piece * times
    mails = []
    assert_within(TIMES_ORDINARY * ordinary_seconds, lambda: mails.append(read(raw)))
    mail = mails[-1]
    assert mime.UNREADABLE not in mail.warnings
    assert warning is None or warning in mail.warnings


@pytest.mark.parametrize(
    ("charset", "piece"), [("euc-jp", b"\xad\xa1\xff"), ("iso-2022-jp", b"\x1b$B-!\x1b(B\xff"), ("euc-jp", b"\xa4\xff")]
)
def test_the_cost_of_many_broken_texts_in_japanese_has_a_bound(charset, piece, ordinary_seconds):
    """Each text is short enough to be decoded in detail, but together the texts are too long."""
    part = b"--x\nContent-Type: text/plain; charset=%b\n\n%b\n" % (charset.encode(), piece * (2500 // len(piece)))
    assert_within(TIMES_ORDINARY * ordinary_seconds, mime.parse, MIXED + part * 900 + b"--x--\n")


def test_an_internal_error_never_refuses_a_message(monkeypatch):
    def fail(raw):
        raise RuntimeError

    monkeypatch.setattr(mime, "_parsed", fail)
    assert read(b"Subject: x\n\ny").warnings == (mime.UNREADABLE,)


def test_text_in_lists_is_bounded_and_the_longest_address_is_whole():
    long = "ä" * 500
    attached = (
        f"Content-Type: {'x' * 300}/{'y' * 300}\r\nContent-ID: <{long}@example.org>\r\n"
        f'Content-Disposition: attachment; filename="{long}"\r\n\r\n'
    )
    mail = mime.parse(f"From: {long}@example.org\r\n".encode() + MIXED + f"--x\r\n{attached}--x--".encode())
    (attachment,) = mail.attachments
    assert mail.from_address == "ä" * 160
    assert (attachment.filename, attachment.content_id) == ("ä" * 127, "ä" * 127)
    assert len(attachment.content_type) <= 255
    address = "a" * 64 + "@" + ".".join(["b" * 63] * 3) + "." + "c" * 63
    mail = mime.parse(f"From: <{address}>\r\n\r\n".encode())
    assert (len(address), mail.from_address) == (320, address)
    assert filenames.last_component("dir/" + "a" * 300 + ".txt") == "a" * 300 + ".txt"
    assert filenames.clean("dir/" + "a" * 300 + ".txt") == "a" * 251 + ".txt"


def test_an_image_is_found_by_its_whole_id_of_which_a_list_shows_the_beginning():
    content_id = "x" * 400
    raw = MIXED + f"--x\r\nContent-Type: image/gif\r\nContent-ID: <{content_id}>\r\n\r\nGIF89a\r\n--x--".encode()
    assert mime.parse(raw).attachments[0].content_id == "x" * 255
    assert extracts.images(raw, {content_id}, 1000).keys() == {content_id}


def test_a_line_of_text_before_a_large_attachment_is_kept_separate():
    def mixed(attached):
        return MIXED + b"--x\r\n\r\nhello\r\n--x\r\nContent-Type: a/b\r\n\r\n" + bytes(attached) + b"\r\n--x--\r\n"

    assert mime.parse(mixed(100_000)).body == "hello"
    assert mime.parse(mixed(1000)).body != "hello"  # a small source is not searched for more text
    assert read(mixed(1000)).body == "hello"


def test_a_decoded_text_of_many_megabytes_is_truncated_but_a_text_in_the_source_is_complete():
    text = "Grüße und mehr\n" * 400_000
    mail = read(b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(text.encode()))
    assert mime.MAX_TEXT_BYTES - 100 < len(mail.body.encode()) <= mime.MAX_TEXT_BYTES
    assert text.startswith(mail.body)
    assert mail.body.endswith("\n")
    assert mail.warnings == (mime.TEXT_CUT,)
    text = "Lorem ipsum\n" * 800_000
    mail = read(b"Subject: x\n\n" + text.encode())
    assert (mail.body, mail.warnings) == (text, ())


@pytest.mark.parametrize("step_bytes", [1, 2, 3, 100])
def test_a_lone_cr_is_found_at_any_step_boundary(monkeypatch, step_bytes):
    monkeypatch.setattr(mime, "_SCAN_STEP_BYTES", step_bytes)
    lines = b"Subject: x\r\n\r\none\r\n\r\ntwo\r\n"
    assert isinstance(mime.parse(lines).body, Verbatim)
    for at in range(len(b"Subject: x\r\n\r\n"), len(lines) + 1):
        if lines[at : at + 1] != b"\n" and lines[at - 1 : at] != b"\r":
            assert mime.parse(lines[:at] + b"\r" + lines[at:]).body.count("\n") == 4


@pytest.mark.parametrize("less", [b"<html> ", b"<head>", b"</title> ", b"<meta ", b"; "])
def test_white_space_that_anyone_may_add_to_a_signed_body_changes_no_charset(less):
    raw = (Path(__file__).parents[1] / "senders/dkim-tampering-koi8.eml").read_bytes()
    more = raw.replace(less, less + b" " * 5_000)
    assert more != raw
    assert mime.parse(more).html.split() == mime.parse(raw).html.split()
