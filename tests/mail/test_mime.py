"""Whole mails: each ``mails/*.eml`` has its expected result beside it; the large ones are made here."""

import base64
import binascii
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear, assert_within, cpu_seconds
from tables import rows_of, table
from tmpmaild.mail import extracts, mime
from tmpmaild.model import Verbatim

ROWS = rows_of(__file__)

MAILS = sorted((Path(__file__).parents[1] / "mails").glob("*.eml"))
MIXED = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n"
HTML = b"Content-Type: text/html\r\n\r\n"
QUOTED_PRINTABLE = b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
BASE64 = b"Content-Transfer-Encoding: base64\r\n\r\n"
MIB_4 = 4 * 1024 * 1024


def read(raw):
    """Parse a mail and put its body in where it only says where that stands."""
    mail = mime.parse(raw)
    if isinstance(mail.body, str):
        return mail
    body = raw[mail.body.start : mail.body.end].decode().replace("\r\n", "\n")
    return msgspec.structs.replace(mail, body=body)


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


@table("path", MAILS)
def test_a_mail_is_read_as_expected_whatever_its_line_ends_are(path):
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    raw = path.read_bytes()
    mail, other = read(raw), read(raw.replace(b"\r\n", b"\n"))
    assert json.loads(msgspec.json.encode(mail)) == expected
    assert_clean(mail)
    assert (other.subject, other.from_address) == (mail.subject, mail.from_address)
    parts = mime.parts_of(raw)
    assert [parts[one.part].content_type for one in mail.attachments] == [one.content_type for one in mail.attachments]


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
def test_a_malformed_content_type_is_plain_text_unless_something_says_otherwise(header, content_type):
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
        # Lines that a program forgot to indent.
        "multipart/mixed;\r\nboundary=x",
        "multipart/mixed; charset=utf-8;\r\ntype=a;\r\n\tstart=b;\r\nboundary =\r\n x\r\nX-Mailer: a",
        "multipart/mixed; boundary='x'",
        "multipart/mixed; boundary=\"'x'\"",
    ],
)
def test_what_has_a_boundary_is_read_part_by_part(stated):
    raw = f"Content-Type: {stated}\r\n\r\n--x\r\n\r\nhello\r\n--x\r\nContent-Type: a/b\r\n\r\n.\r\n--x--".encode()
    mail = read(raw)
    assert (mail.body, [one.content_type for one in mail.attachments]) == ("hello", ["a/b"])


def test_apostrophes_that_are_part_of_a_boundary_stay():
    """RFC 2046 §5.1.1 allows them."""
    raw = b"Content-Type: multipart/mixed; boundary='x'\r\n\r\nbefore\r\n--'x'\r\n\r\n--x\r\n--'x'--\r\n"
    assert read(raw).body == "--x"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ("Content-Type: a/b; x-mode=0600;\r\nname=a.zip", "a.zip"),
        ("Content-Disposition: attachment;\r\nsize=5;\r\nfilename*=utf-8''%C3%A9.zip", "é.zip"),
        # Encoded-words where RFC 2231 belongs, and around a whole field.
        ('Content-Disposition: attachment; filename*="=?UTF-8?B?0JzQtdC2?= =?UTF-8?B?0LTRgy5kb2M=?="', "Между.doc"),
        ("Content-Disposition: attachment; filename*0*==?utf-8?q?a=C3; filename*1*==A9?=", "aé"),
        ("Content-Disposition: =?utf-8?q?attachment;_filename=3D_=22a_b.htm=22?=", "a b.htm"),
        ("Content-Disposition: =?utf-8?b?YXR0YWNobWVudDsgZmlsZW5hbWU9ICJhLmh0bSI=?=", "a.htm"),
        # The same lines elsewhere are no parameters.
        ("Content-Type: a/b; x-mode=0600\r\nname=a.zip", ""),
        ("Content-Type: a/b;\r\nX-A: b;\r\nname=a.zip", ""),
        ("Content-Type: a/b;\r\nnothing\r\nname=a.zip", ""),
    ],
)
def test_a_file_is_called_as_its_sender_meant(fields, name):
    (file,) = read(MIXED + f"--x\r\n{fields}\r\nContent-ID: <1>\r\n\r\nhello\r\n--x--\r\n".encode()).attachments
    assert (file.filename, file.size_bytes) == (name, 5)


@pytest.mark.parametrize("encoding", ["uuencode", "x-uuencode", "x-uue", "UUE"])
@pytest.mark.parametrize("end", ["`\r\nend", " \r\nend \r\n\r\nbye", ""])
def test_uuencode_is_decoded_where_it_is_the_transfer_encoding(encoding, end):
    octets = bytes(range(256))
    lines = b"".join(binascii.b2a_uu(octets[at : at + 45]) for at in range(0, 256, 45)).decode()
    stated = f"--x\r\nContent-Type: a/b\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    raw = MIXED + f"{stated}Here it is:\r\nbegin 644 a b.bin\r\n{lines}{end}\r\n--x--\r\n".encode()
    mail = read(raw)
    assert extracts.attachment(raw, mail.attachments[0]) == octets
    assert mail.warnings == ()


def test_uuencode_that_version_1_0_listed_without_decoding_it_is_still_found():
    raw = b"Content-Type: a/b\r\nContent-Transfer-Encoding: uuencode\r\n\r\nbegin 644 a\r\n#0V%T\r\nend\r\n"
    content = raw[raw.index(b"begin") :]
    (listed,) = mime.parse(raw.replace(b"uuencode", b"8bit")).attachments
    assert extracts.attachment(raw, msgspec.structs.replace(listed, part=-1)) == content


@pytest.mark.parametrize("lines", ["begin 644 a\n", "#0V%T\n", "begin the day\n#0V%T\n", "begin 644 a\nend\n#0V%T\n"])
def test_what_is_not_uuencode_stays_as_it_is(lines):
    mail = read(b"Content-Transfer-Encoding: uuencode\r\n\r\n" + lines.encode())
    assert (mail.body, mail.warnings) == (lines, (mime.UNKNOWN_ENCODING,))


@pytest.mark.parametrize("piece", [b"begin 644 a\n", b"#0V%T\n", b"\n", b"M\n", b"\xff" * 60 + b"\n", b"M"])
def test_uuencode_is_decoded_in_linear_time(piece):
    head = b"Content-Transfer-Encoding: uuencode\r\n\r\nbegin 644 a\n"
    assert_linear(lambda lines: mime.parse(head + lines), piece * (200_000 // len(piece)))


@pytest.mark.parametrize("charset", ["charset=utf-8", 'charset="utf-8"', "charset = utf-8;"])
def test_a_transfer_encoding_behind_the_content_type_in_one_line_is_read(charset):
    raw = f"Content-Type: text/html; {charset} Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>caf=C3=A9".encode()
    assert read(raw).html == "<p>café"
    assert read(b"Content-Transfer-Encoding: 7bit\r\n" + raw).html == "<p>caf=C3=A9"


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        ("認" * 94 + ".pdf", "認" * 83 + ".pdf"),
        ("invoice.pdf" + " " * 300 + ".exe", "invoice.pdf .exe"),
        ("a" * 300, "a" * 255),
        ("a." + "b" * 300, "a." + "b" * 253),
        (("a" * 100 + ".") * 3 + "tar.gz", (("a" * 100 + ".") * 3)[:252] + ".gz"),
        ("a" * 252 + ".gz", "a" * 252 + ".gz"),
    ],
)
def test_a_long_file_name_keeps_its_last_extension(stated, shown):
    assert mime.clean_filename(stated) == shown


def test_many_texts_of_one_message_are_cut_together():
    line = b"A line of ordinary text, with words in it, as long as they are in mail.\n"
    text = b"--x\n\n" + line * 10_000
    mail = read(MIXED + text * 5 + b"--x--\n")
    assert len(mail.body) <= mime.MAX_TEXT_BYTES + 100
    assert mail.warnings == (mime.TEXT_CUT,)


@table("path", MAILS)
def test_a_mail_cut_off_anywhere_is_still_read(path):
    raw = path.read_bytes()
    for length in range(0, len(raw), max(1, len(raw) // 40)):
        assert_clean(read(raw[:length]))


def test_inline_are_the_images_that_a_view_shows_and_no_others():
    part = b"--x\r\nContent-Type: %s\r\nContent-Disposition: %s\r\nContent-ID: <%s>\r\n\r\n%s\r\n"
    ids = [b"shown", b"drawing", b"paper", b"file", b"large", b"too%20much", b"small"]
    html = b"--x\r\n" + HTML + b"".join(b'<img src="cid:%s">' % one for one in ids)
    mail = mime.parse(
        MIXED
        + html
        + b"\r\n"
        + b"".join(part % file for file in ROWS["inline are the images that a view shows and no others"])
        + b"--x--\r\n"
    )
    assert [one.content_id for one in mail.attachments if one.inline] == ["shown", "large", "small"]
    assert [one.inline for one in mail.attachments[:2]] == [True, False]


TOKENS = st.sampled_from(ROWS["TOKENS"])


@given(st.sampled_from([b"", MIXED, HTML]), st.binary(max_size=500) | st.lists(TOKENS, max_size=60).map(b"".join))
def test_any_octets_are_a_mail(start, rest):
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


# Made one at a time; the proofs have more of them. A row is what is read first, what follows so often, and the warning.
BOMBS = {name: (start, piece, times, warning) for name, start, piece, times, warning in ROWS["BOMBS"]}
BOMBS["nesting of 3,000"] = (nested(3_000), b"", 0, mime.TOO_DEEP)


@pytest.fixture(scope="module")
def ordinary_seconds():
    """Return what 4 MiB of ordinary text cost."""
    text = b"Subject: x\n\n" + b"A line of ordinary text, with words in it, as long as they are in mail.\n" * 58_000
    return min(cpu_seconds(read, text) for _ in range(3))


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_little_more_than_ordinary_mail(name, ordinary_seconds):
    start, piece, times, warning = BOMBS[name]
    raw = start + piece * times
    mails = []
    assert_within(75 * ordinary_seconds, lambda: mails.append(read(raw)))
    mail = mails[-1]
    assert mime.UNREADABLE not in mail.warnings
    assert warning is None or warning in mail.warnings


@pytest.mark.parametrize(
    ("charset", "piece"), [("euc-jp", b"\xad\xa1\xff"), ("iso-2022-jp", b"\x1b$B-!\x1b(B\xff"), ("euc-jp", b"\xa4\xff")]
)
def test_many_broken_texts_in_japanese_cost_little_more_than_ordinary_mail(charset, piece, ordinary_seconds):
    """Each is decoded piece by piece and is short enough for that; only together they are too long."""
    part = b"--x\nContent-Type: text/plain; charset=%b\n\n%b\n" % (charset.encode(), piece * (2500 // len(piece)))
    assert_within(75 * ordinary_seconds, mime.parse, MIXED + part * 900 + b"--x--\n")


def test_no_more_than_1000_parts_are_looked_at():
    mail = read(MIXED + b"--x\nContent-Type: a/b\n\na\n" * 5_000)
    assert len(mail.attachments) == mime.MAX_PARTS
    assert read(MIXED + b"--x\n\na\n" * 5_000).body.count("a") == mime.MAX_PARTS
    parts = [f"--x\nContent-Type: application/x-{n}\n\n{n}\n".encode() for n in range(20)]
    mail = read(MIXED + b"".join(parts) + b"--x--\n")
    assert [(a.index, a.content_type) for a in mail.attachments] == [(n, f"application/x-{n}") for n in range(20)]
    content = bytes(range(256)) * 10_000
    mail = read(b"Content-Type: application/octet-stream; name=a.bin\n" + BASE64 + base64.encodebytes(content))
    assert [(a.filename, a.size_bytes) for a in mail.attachments] == [("a.bin", len(content))]
    assert mail.warnings == ()


def test_a_mistake_of_ours_never_refuses_a_mail(monkeypatch):
    def fail(raw):
        raise RuntimeError

    monkeypatch.setattr(mime, "_parsed", fail)
    assert read(b"Subject: x\n\ny").warnings == (mime.UNREADABLE,)


@table(("stated", "shown"), ROWS["a filename is safe to show and to save under"])
def test_a_filename_is_safe_to_show_and_to_save_under(stated, shown):
    assert mime.clean_filename(stated) == shown


def test_what_stands_in_every_list_is_bounded_and_the_longest_address_whole():
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
    assert mime.last_component("dir/" + "a" * 300 + ".txt") == "a" * 300 + ".txt"
    assert mime.clean_filename("dir/" + "a" * 300 + ".txt") == "a" * 251 + ".txt"


def test_an_image_is_found_by_its_whole_id_of_which_a_list_shows_the_beginning():
    content_id = "x" * 400
    raw = MIXED + f"--x\r\nContent-Type: image/gif\r\nContent-ID: <{content_id}>\r\n\r\nGIF89a\r\n--x--".encode()
    assert mime.parse(raw).attachments[0].content_id == "x" * 255
    assert extracts.images(raw, {content_id}, 1000).keys() == {content_id}


def test_a_line_of_text_before_a_large_attachment_is_kept_apart():
    def mixed(attached):
        return MIXED + b"--x\r\n\r\nhello\r\n--x\r\nContent-Type: a/b\r\n\r\n" + bytes(attached) + b"\r\n--x--\r\n"

    assert mime.parse(mixed(100_000)).body == "hello"
    assert mime.parse(mixed(1000)).body != "hello"  # a small source is read in no time
    assert read(mixed(1000)).body == "hello"


def test_a_decoded_text_of_many_megabytes_is_cut_and_one_that_stands_in_the_source_is_whole():
    text = "Grüße und mehr\n" * 400_000
    mail = read(b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(text.encode()))
    assert mime.MAX_TEXT_BYTES - 100 < len(mail.body.encode()) <= mime.MAX_TEXT_BYTES
    assert text.startswith(mail.body)
    assert mail.body.endswith("\n")
    assert mail.warnings == (mime.TEXT_CUT,)
    text = "Lorem ipsum\n" * 800_000
    mail = read(b"Subject: x\n\n" + text.encode())
    assert (mail.body, mail.warnings) == (text, ())


@pytest.mark.parametrize("body", [*ROWS["quoted printable reads the same in steps"], b"without a line end =3D " * 20])
@pytest.mark.parametrize("step_bytes", [1, 7, 40])
def test_quoted_printable_reads_the_same_in_steps(monkeypatch, body, step_bytes):
    whole = mime.parse(QUOTED_PRINTABLE + body)
    monkeypatch.setattr(mime, "_STEP_BYTES", step_bytes)
    assert mime.parse(QUOTED_PRINTABLE + body) == whole


@pytest.mark.parametrize("step_bytes", [1, 2, 3, 100])
def test_a_lone_cr_is_found_wherever_a_step_ends(monkeypatch, step_bytes):
    monkeypatch.setattr(mime, "_SCAN_STEP_BYTES", step_bytes)
    lines = b"Subject: x\r\n\r\none\r\n\r\ntwo\r\n"
    assert isinstance(mime.parse(lines).body, Verbatim)
    for at in range(len(b"Subject: x\r\n\r\n"), len(lines) + 1):
        if lines[at : at + 1] != b"\n" and lines[at - 1 : at] != b"\r":
            assert mime.parse(lines[:at] + b"\r" + lines[at:]).body.count("\n") == 4


@table("less", [b"<html> ", b"<head>", b"</title> ", b"<meta ", b"; "])
def test_white_space_that_anyone_may_add_to_a_signed_body_changes_no_charset(less):
    raw = (Path(__file__).parents[1] / "senders/dkim-tampering-koi8.eml").read_bytes()
    more = raw.replace(less, less + b" " * 5_000)
    assert more != raw
    assert mime.parse(more).html.split() == mime.parse(raw).html.split()
