"""Data read from the source on demand must agree with the data that delivery stored for the same message."""

import base64
import hashlib
import re
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from growth import assert_linear, assert_within, cpu_seconds
from tmpmaild.mail import extracts, mime
from tmpmaild.model import HeaderDetails, Person

MAILS = sorted((Path(__file__).parents[1] / "mails").glob("*.eml"))
MIXED = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n"


def ms(*moment):
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)


# HeaderDetails


def test_the_header_gives_other_people_date_and_message_id():
    head = Path(__file__).with_name("extracts-head.eml").read_bytes()
    assert extracts.details(head) == HeaderDetails(
        cc=(Person("bob@example.org", "B, Bob"), Person("cem@example.org", "Cém"), Person("eve@example.org", "Eve")),
        reply_to=(Person("dan@example.org", ""),),
        date_ms=ms(2026, 11, 21, 2, 0, 57),
        message_id="abc@example.org",
    )


@pytest.mark.parametrize(
    "head", [b"", b"\r\nbody", b"no header at all", b"Subject: x\r\n\r\n", b"Cc:\r\nDate:\r\n\r\n"]
)
def test_missing_details_are_empty(head):
    assert extracts.details(head) == HeaderDetails((), (), None, "")


def test_no_more_than_100_mailboxes_are_read():
    fields = b"".join(b"Cc: a%d@example.org, b%d@example.org\r\n" % (n, n) for n in range(80))
    assert [mailbox.address for mailbox in extracts.details(fields).cc] == [
        f"{who}{n}@example.org" for n in range(50) for who in "ab"
    ]


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("Sat, 21 Nov 2026 03:00:57 +0000", "2026-11-21T03:00:57"),
        ("Sat, 21 Nov 2026 03:00:57 +0530", "2026-11-20T21:30:57"),
        ("Sat, 21 Nov 2026 03:00:57 -0000", "2026-11-21T03:00:57"),
        # the weekday and the seconds are missing
        ("21 Nov 2026 03:00 -0800", "2026-11-21T11:00:00"),
        ("Sat, 21 Nov 26 03:00:57 EST", "2026-11-21T08:00:57"),
        ("Sat, 21 Nov 98 03:00:57 PDT", "1998-11-21T10:00:57"),
        # the year is counted from 1900
        ("Sat, 21 Nov 126 03:00:57 UT", "2026-11-21T03:00:57"),
        # military zones: RFC 5322 §4.3 does not trust them
        ("Sat, 21 Nov 2026 03:00:57 K", "2026-11-21T03:00:57"),
        # other zone names are not trusted either
        ("Sat, 21 Nov 2026 03:00:57 CEST", "2026-11-21T03:00:57"),
        ("Sat, 21 Nov 2026 03:00:57", "2026-11-21T03:00:57"),
        ("Sat (S\\(at), 21 (a (b)) Nov 2026 03:00:57 +0000 (UTC)", "2026-11-21T03:00:57"),
        # a leap second
        ("Thu, 31 Dec 2016 23:59:60 +0000", "2017-01-01T00:00:00"),
        ("sat, 21 NOV 2026 3:00:57 +0000", "2026-11-21T03:00:57"),
        ("Sat,21 Nov 2026\t03:00:57+0000", "2026-11-21T03:00:57"),
        ("Saturday, 21-Nov-26 03:00:57 GMT", "2026-11-21T03:00:57"),
        ("Sat, 1 September 2026 03:00:57 GMT", "2026-09-01T03:00:57"),
        ("Sat, 21 Nov 2026 03:00:57 GMT+0100", "2026-11-21T02:00:57"),
        ("Sat, 21 Nov 2026 03:00:57 UTC-01:30", "2026-11-21T04:30:57"),
        ("Sat, 21 Nov 2026 03:00:57 GMT+1", "2026-11-21T02:00:57"),
        ("Sat, 21 Nov 2026 03:00:57 +100", "2026-11-21T02:00:57"),
        ("Sat, 21 Nov 2026 03:00:57 +0000 GMT", "2026-11-21T03:00:57"),
        ("Sat, 21 Nov 2026 03.00.57 +0100", "2026-11-21T02:00:57"),
        ("Sat, 21 Nov 2026 03:00:57 PM +0000", "2026-11-21T15:00:57"),
        ("Sat, 21 Nov 2026 12:00 am", "2026-11-21T00:00:00"),
        ("Sat Nov 21 03:00:57 2026", "2026-11-21T03:00:57"),
        ("Sat Nov  1 03:00:57 EST 2026", "2026-11-01T08:00:57"),
        ("Sat Nov 21 03:00:57 2026 +0100", "2026-11-21T02:00:57"),
        ("2026-11-21T03:00:57Z", "2026-11-21T03:00:57"),
        ("2026-11-21 03:00:57.25+01:00", "2026-11-21T02:00:57.250"),
        ("2026-11-21T03:00", "2026-11-21T03:00:00"),
        ("Thu, 1 Jan 1970 00:00:00 +0000", "1970-01-01T00:00:00"),
        ("Fri, 31 Dec 9999 23:59:59 +0000", "9999-12-31T23:59:59"),
    ],
)
def test_a_date_is_read(value, moment):
    expected_ms = datetime.fromisoformat(f"{moment}+00:00").timestamp() * 1000
    assert extracts.details(f"Date: {value}\r\n\r\n".encode()).date_ms == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        "Wed Apr 23 2025 09:48:37 GMT+0200 (CEST)",
        "Wed Apr 23 2025 09:48:37 GMT+0200 (Central European Summer Time)",
        "Wed, Apr 23, 2025 09:48:37 +0200",
        "April 23, 2025, 9:48:37 AM +0200",
        "2025-04-23T07:48:37.000Z",
    ],
)
def test_dates_as_javascript_writes_them_are_read(value):
    assert extracts.details(f"Date: {value}\r\n\r\n".encode()).date_ms == ms(2025, 4, 23, 7, 48, 37)


def test_names_of_all_fields_are_read_in_the_charset_of_the_text():
    names = "Cc: Иван <a@b.example>\r\nReply-To: Ольга <c@d.example>\r\n".encode("windows-1251")
    for text in (b"Content-Type: text/plain; charset=windows-1251\r\n\r\nx", b"\r\nx"):
        found = extracts.details(names + text)
        expected = ["Иван", "Ольга"] if b"1251" in text else ["Èâàí", "Îëüãà"]
        assert [found.cc[0].name, found.reply_to[0].name] == expected


@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "0",
        "Sat, 21 Nov",
        "21 Nov 2026",
        "Sat, 21 Foo 2026 03:00:57 +0000",
        "2026-13-21T03:00:57Z",
        "Mon, 31 Feb 2026 03:00:57 +0000",
        "Sat, 0 Nov 2026 03:00:57 +0000",
        "Sat, 21 Nov 2026 24:00:57 +0000",
        "Sat, 21 Nov 2026 03:60:57 +0000",
        "Sat, 21 Nov 2026 03:00:61 +0000",
        "2026-11-21T03:00:99Z",
        "Wed, 31 Dec 1969 23:59:59 +0000",
        "Thu, 1 Jan 1970 00:00:00 +0001",
        "Mon, 1 Jan 0001 00:00:00 +2359",
        "Fri, 31 Dec 9999 23:59:59 -0001",
        "Fri, 31 Dec 9999 23:59:60 +0000",
        "Sat, 21 Nov 99999 03:00:57 +0000",
        "Sat, 2\u0661 Nov 2026 03:00:57 +0000",
        pytest.param("(" * 300, id="( * 300"),
        pytest.param("()" * 4000 + "21 Nov 2026 03:00 +0000", id="() * 4000 + 21 Nov 2026 03:00 +0000"),
        pytest.param(
            "Sat, " + "(a) " * 100 + "21 Nov 2026 03:00:57 +0000", id="Sat,  + (a)  * 100 + 21 Nov 2026 03:00:57 +0000"
        ),
    ],
)
def test_an_impossible_date_gives_none(value):
    assert extracts.details(f"Date: {value}\r\n\r\n".encode()).date_ms is None


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1)),  # noqa: DTZ001 - the zone comes from the next line
    st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_a_written_date_is_read_back(moment, zone):
    moment = moment.replace(tzinfo=zone)
    second_ms = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) * 1000
    assert extracts.details(f"Date: {format_datetime(moment)}\n\n".encode()).date_ms == second_ms
    iso = extracts.details(f"Date: {moment.isoformat(timespec='milliseconds')}\n\n".encode()).date_ms
    assert iso == second_ms + moment.microsecond // 1000


@pytest.mark.parametrize(
    ("value", "message_id"),
    [
        (b"<abc@example.org>", "abc@example.org"),
        (b"abc@example.org", "abc@example.org"),
        (b"<abc\r\n def@example.org>", "abcdef@example.org"),
        (b" < abc@example.org\t> (from Ann)", "abc@example.org"),
        (b"<a\0b\x7f\x1b@example.org>", "ab@example.org"),
        (b"<a@example.org> <b@example.org>", "a@example.org"),
        (b"<abc@example.org", "abc@example.org"),
        (b"<b\xc3\xbccher@example.org>", "bücher@example.org"),
        (b"<a\xe2\x80\xaeb@example.org>", "ab@example.org"),  # a bidirectional override
        (b"<=?utf-8?q?a=3C=0D=0A=00b?=>", "a\ufffdb"),
        (b"<>", ""),
        pytest.param(b"<" + b"x" * 2000 + b">", "x" * 998, id="< + x * 2000 + >"),
    ],
)
def test_a_message_id_is_read(value, message_id):
    assert extracts.details(b"Message-ID: " + value + b"\r\n\r\n").message_id == message_id


FIELDS = st.sampled_from([b"\nDate: ", b"\nCc: ", b"\nReply-To: ", b"\nMessage-ID: "])
PIECES = st.sampled_from(
    [
        *(b"<", b">", b"@", b",", b":", b";", b"(", b")", b'"', b"\\", b" ", b"\t", b"\r", b"\n", b"\x00"),
        *(b"\xff", b"+", b"-", b"1", b"9", b".", b"Sat, ", b"Nov ", b" 2026 ", b" 9999", b"=?utf-8?q?"),
    ]
)


@given(st.binary(max_size=300) | st.lists(FIELDS | PIECES, max_size=60).map(b"".join))
@example(b"Date: 99 Jan 99 99:99:99 +9999\n\n")
@example(b"Date: 1 Jan 9999 00:00:00 -9999\n\n")
def test_any_input_gives_details_of_clean_text(head):
    found = extracts.details(head)
    assert found.date_ms is None or 0 <= found.date_ms < ms(9999, 12, 31, 23, 59, 59) + 1000
    texts = [text for mailbox in found.cc + found.reply_to for text in (mailbox.address, mailbox.name)]
    for text in [*texts, found.message_id]:
        text.encode()
        assert not any(character in text for character in "\r\n\0")
    assert not re.search(r"[\s<>]", found.message_id)


@pytest.mark.parametrize(
    "piece", [b"(", b"()", b"\\(", b"<", b"<a>,", b" ", b"1", b"a", b"a ", b"1 Nov ", b"03:00", b"-", b"\xff"]
)
@pytest.mark.parametrize("name", [b"Date", b"Cc", b"Message-ID"])
def test_details_take_little_time_with_any_header(name, piece):
    def read(text):
        extracts.details((name + b": " + text + b"\n") * 30)

    assert_linear(read, piece * (8000 // len(piece)))


# Attachments


def assert_attachments_agree(raw):
    stored = mime.parse(raw).attachments
    for listed in stored:
        content = extracts.attachment(raw, listed)
        assert (len(content), hashlib.sha256(content).hexdigest()) == (listed.size_bytes, listed.sha256)
        assert extracts.attachment(raw, replace(listed, part=-1)) == content
        assert extracts.attachment(raw, replace(listed, sha256="0" * 64)) is None


@pytest.mark.parametrize("path", MAILS, ids=[path.stem for path in MAILS])
def test_an_attachment_is_the_same_as_listed_at_delivery(path):
    assert_attachments_agree(path.read_bytes())


def test_the_sample_messages_have_enough_attachments_for_the_test():
    assert sum(len(mime.parse(path.read_bytes()).attachments) for path in MAILS) > 20


TYPES = st.sampled_from(
    [
        b"text/plain",
        b"text/html",
        b"image/png",
        b"message/rfc822",
        b"multipart/mixed; boundary=y",
        b"x",
    ]
)
ENCODINGS = st.sampled_from(
    [
        b"base64",
        b"quoted-printable",
        b"8bit",
        b"x-none",
        b"",
    ]
)
DISPOSITIONS = st.sampled_from(
    [
        b"",
        b"inline",
        b"attachment; filename=a",
        b"junk",
    ]
)
CONTENT = st.binary(max_size=60) | st.sampled_from(
    [
        b"QUJD",
        b"QUJD=\r\n=",
        b"=41=4",
        b"--y\r\n\r\ntext\r\n--y--",
        b"--x--",
    ]
)
PART = st.builds(
    lambda kind, encoding, disposition, content, end: (
        b"--x\r\nContent-Type: %b\r\nContent-Transfer-Encoding: %b\r\nContent-Disposition: %b\r\n\r\n%b%b"
        % (kind, encoding, disposition, content, end)
    ),
    *(TYPES, ENCODINGS, DISPOSITIONS, CONTENT, st.sampled_from([b"\r\n", b"\n", b""])),
)


@given(st.lists(PART, max_size=8), st.sampled_from([b"--x--\r\n", b""]))
def test_attachments_agree_with_delivery_in_any_multipart_and_in_a_message_of_one_part(parts, end):
    assert_attachments_agree(MIXED + b"".join(parts) + end)
    for part in parts[:1]:
        assert_attachments_agree(part.removeprefix(b"--x\r\n"))


def test_the_other_attachments_are_not_decoded():
    other = b"--x\r\nContent-Type: a/b\r\nContent-Transfer-Encoding: base64\r\n\r\n" + b"A=$" * 1_000_000 + b"\r\n"
    raw = MIXED + other + b"--x\r\nContent-Type: a/b\r\n\r\nwanted\r\n--x--\r\n"
    listed = mime.parse(raw).attachments[1]
    tracemalloc.start()
    try:
        assert extracts.attachment(raw, listed) == b"wanted"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


# Images

KINDS = {
    "image/png": b"\x89PNG\r\n\x1a\n" + b"\0" * 40,
    "image/gif": b"GIF89a" + b"\0" * 40,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 40,
    "image/webp": b"RIFF\x0a\0\0\0WEBPVP8L" + b"\0" * 40,
    "image/bmp": b"BM\x0a\x0a\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + b"\0" * 40,
    "image/avif": b"\0\0\0\x1cftypavif\0\0\0\0avifmif1" + b"\0" * 40,
}
PNG, GIF = KINDS["image/png"], KINDS["image/gif"]


def test_an_avif_image_is_recognised_by_any_of_its_brands():
    for brands in (b"avifmif1", b"mif1avif", b"msf1avis"):
        octets = b"\0\0\0\x1cftyp" + brands[:4] + b"\0\0\0\0" + brands + bytes(20)
        assert extracts.image_type(octets) == "image/avif"
    assert extracts.image_type(b"\0\0\0\x1cftypheic\0\0\0\0mif1heic" + bytes(20)) == ""


def image(content_id, octets, content_type="image/png"):
    return (
        f"--x\r\nContent-Type: {content_type}\r\nContent-ID: <{content_id}>\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    ).encode() + base64.encodebytes(octets)


def related(*parts):
    html = b"--x\r\nContent-Type: text/html\r\n\r\n<img src=cid:a>\r\n"
    return b"Content-Type: multipart/related; boundary=x\r\n\r\n" + html + b"".join(parts) + b"--x--\r\n"


def url(content_type, octets):
    return f"data:{content_type};base64,{base64.b64encode(octets).decode()}"


@pytest.mark.parametrize("content_type", KINDS)
def test_an_image_of_every_kind_becomes_a_url(content_type):
    raw = related(image("a@b", KINDS[content_type], content_type))
    assert extracts.images(raw, {"a@b"}, 1000) == {"a@b": url(content_type, KINDS[content_type])}


def test_only_the_requested_images_are_given_with_their_real_type():
    raw = related(image("a", PNG), image("b", GIF, "image/gif"))
    assert extracts.images(raw, ["b", "c"], 1000) == {"b": url("image/gif", GIF)}
    assert extracts.images(raw, [], 1000) == {}
    assert extracts.images(related(image("a", GIF, "image/jpg")), ["a"], 1000) == {"a": url("image/gif", GIF)}
    raw = related(image("a", PNG).replace(b"Content-ID", b"Content-Disposition: attachment\r\nContent-ID"))
    assert list(extracts.images(raw, ["a"], 1000)) == ["a"]


@pytest.mark.parametrize(
    ("stated", "octets"),
    [
        ("image/png", b"<html><script>alert(1)</script>"),
        ("image/png", b""),
        ("image/gif", b"GIF88a"),
        ("image/bmp", b"BM, says the text, and more of that which is no image at all"),
        ("image/png", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("image/svg+xml", b"\x89PNG\r\n\x1a\n" + b"\0" * 40),
        ("text/html", b"\x89PNG\r\n\x1a\n" + b"\0" * 40),
        ("application/octet-stream", b"\x89PNG\r\n\x1a\n" + b"\0" * 40),
        ("image/x-unknown", b"\x89PNG\r\n\x1a\n" + b"\0" * 40),
    ],
)
def test_a_part_whose_type_and_content_are_not_those_of_one_image_format_is_left_out(stated, octets):
    assert extracts.images(related(image("a", octets, stated)), ["a"], 1000) == {}


def test_images_that_do_not_fit_are_skipped_in_favour_of_smaller_images():
    large, small = PNG + bytes(1000), PNG
    raw = related(image("1", large), image("2", small), image("3", large), image("4", small), image("5", small))
    assert list(extracts.images(raw, {"5", "4", "3", "2", "1"}, 2 * len(small))) == ["2", "4"]
    assert list(extracts.images(raw, "12345", len(large))) == ["1"]
    assert list(extracts.images(raw, "12345", len(large) - 1)) == ["2", "4", "5"]
    assert list(extracts.images(raw, "12345", len(small) - 1)) == []


def test_the_first_part_with_an_id_counts_and_all_spellings_of_an_id_share_a_url():
    assert extracts.images(related(image("a", PNG), image("a", GIF)), ["a"], 1000) == {"a": url("image/png", PNG)}
    assert extracts.images(related(image("a", b"<html>"), image("a", GIF)), ["a"], 1000) == {}
    found = extracts.images(related(image("a", PNG)), ["a", "%61"], len(PNG))
    assert found == {"a": url("image/png", PNG), "%61": url("image/png", PNG)}


@pytest.mark.parametrize(
    ("content_id", "written", "found"),
    [
        ("a@b", "a@b", True),
        ("a@b", "a%40b", True),
        ("a b+c@d", "a%20b+c@d", True),
        ("a%40b", "a%40b", True),  # some senders do not encode the text
        ("a%40b", "a%2540b", True),
        ("A@b", "a@b", False),
        ("a@b", "<a@b>", False),
        ("é", "%C3%A9", True),
        ("", "", False),
        ("a", "%zz\ud800", False),
    ],
)
def test_a_content_id_counts_as_written_or_with_its_escapes_undone(content_id, written, found):
    raw = related(image(content_id, PNG))
    assert list(extracts.images(raw, [written], 1000)) == [written] * found


def test_many_spellings_of_an_id_need_only_one_decoding():
    octets = PNG + bytes(1_000_000)
    spellings = [
        "".join(f"%{ord(c):02x}" if n >> at & 1 else c for at, c in enumerate("abcdefghijkl")) for n in range(4096)
    ]
    raw = related(image("abcdefghijkl", octets))
    one_seconds = min(cpu_seconds(extracts.images, raw, spellings[:1], len(octets)) for _ in range(3))
    assert_within(100 * one_seconds, extracts.images, raw, spellings, len(octets))
    assert len(extracts.images(raw, spellings, len(octets))) == 4096
    assert extracts.images(raw, spellings, len(octets) - 1) == {}


@given(st.lists(PART, max_size=8).map(b"".join), st.lists(st.text(max_size=3)), st.integers(-1, 100))
def test_any_multipart_gives_images_within_the_bound(parts, written, up_to_bytes):
    raw = MIXED + image("a", PNG) + parts + image("b", GIF)
    found = extracts.images(raw, ["a", "b", *written], up_to_bytes)
    octets = [base64.b64decode(text.partition(",")[2], validate=True) for text in set(found.values())]
    assert sum(map(len, octets)) <= max(up_to_bytes, 0)
    assert found.keys() <= {"a", "b", *written}
