"""Downloads have a clean, single-line name and a harmless type, regardless of the sender's file name."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.http import downloads, pages
from tmpmaild.mail import extracts, mime

PNG = b"\x89PNG\r\n\x1a\n"
KINDS = ("png", "gif", "jpeg", "jpg", "webp", "bmp", "avif", "svg+xml", "tiff", "heic")

# An independent parser: the grammar of RFC 6266 §4.1 and RFC 8187 §3.2.1, without any leniency.
VALUE = re.compile(
    r"attachment; filename=\"(?P<plain>[ !#-\[\]-~]*)\""
    r"(?:; filename\*=UTF-8''(?P<extended>(?:[A-Za-z0-9!#$&+.^_`|~-]|%[0-9A-F]{2})*))?"
)
NAMES = st.text(max_size=60) | st.text(st.sampled_from([*"a.\"\\/:%;=\r\n\0 '*", "ä", "😀", "\u202e", "\ud800"])).map(
    lambda text: f"{text}.txt"
)


def names_in(value):
    match = VALUE.fullmatch(value)
    assert match, value
    plain = match["plain"]
    return plain, plain if match["extended"] is None else unquote(match["extended"], errors="strict")


@pytest.mark.parametrize(
    ("filename", "plain", "name"),
    [
        ("report.pdf", "report.pdf", "report.pdf"),
        ("annual report (1); final.pdf", "annual report (1); final.pdf", "annual report (1); final.pdf"),
        ("Übersicht.pdf", "_bersicht.pdf", "Übersicht.pdf"),
        ("日本語.txt", "___.txt", "日本語.txt"),
        ("😀.png", "_.png", "😀.png"),
        ("../../x", "x", "x"),
        ("C:\\Users\\ann\\a.txt", "a.txt", "a.txt"),
        ("a.txt:hidden.exe", "a.txt_hidden.exe", "a.txt_hidden.exe"),
        ('say "hi".txt', "say _hi_.txt", "say _hi_.txt"),
        ("a\r\nSet-Cookie: x=y", "a Set-Cookie_ x=y", "a Set-Cookie_ x=y"),
        ("a\0b\x7f.txt", "a b .txt", "a b .txt"),
        ("a%0d%0aX.txt", "a_0d_0aX.txt", "a%0d%0aX.txt"),
        ("utf-8''%e4.txt", "utf-8''_e4.txt", "utf-8''%e4.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe", "invoicefdp.exe"),
        ("\ud800a\udfff.txt", "a .txt", "a .txt"),
        ("CON", "_CON", "_CON"),
        ("nul.txt", "_nul.txt", "_nul.txt"),
        ("com1", "_com1", "_com1"),
        ("console.log", "console.log", "console.log"),
        ("evil.exe. . .", "evil.exe", "evil.exe"),
        (".profile", ".profile", ".profile"),
        ("", "attachment-3", "attachment-3"),
        ("...", "attachment-3", "attachment-3"),
        ("dir/", "attachment-3", "attachment-3"),
        ("\u202e\u200f", "attachment-3", "attachment-3"),
        ("invoice.pdf" + " " * 100 + ".exe", "invoice.pdf .exe", "invoice.pdf .exe"),
    ],
)
def test_a_name_is_made_safe_to_send_and_to_save(filename, plain, name):
    assert names_in(downloads.attachment_disposition(filename, "attachment-3")) == (plain, name)


def test_an_attachment_without_a_name_is_called_attachment():
    assert downloads.attachment_disposition("..", "\r\n") == 'attachment; filename="attachment"'
    assert (
        downloads.attachment_disposition("." * 300 + "x" * 300, "attachment-3") == 'attachment; filename="attachment-3"'
    )


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("a" * 4000 + ".pdf", "a" * 236 + ".pdf"),
        ("😀" * 1000 + ".tar.gz", "😀" * 59 + ".gz"),
        ("a" + "ä" * 1000, "a" + "ä" * 119),
        ("a." + "x" * 4000, "a." + "x" * 238),
        ("a" * 200 + "." * 100 + ".txt", "a" * 200 + ".txt"),
        ("%" * 4000 + ".pdf", "%" * 236 + ".pdf"),
    ],
)
def test_a_long_name_is_cut_on_a_character_and_keeps_its_extension(filename, expected):
    value = downloads.attachment_disposition(filename, "x")
    assert names_in(value)[1] == expected
    assert len(value) < 1024


@given(NAMES | NAMES.map(lambda text: text * 50), NAMES)
@example("..." + "a" * 300, "")
@example("%" * 500, "")
def test_any_name_gives_one_clean_line_that_reads_back_as_one_safe_name(filename, fallback):
    value = downloads.attachment_disposition(filename, fallback)
    assert value.startswith("attachment; ")
    assert all(0x20 <= octet < 0x7F for octet in value.encode("latin-1"))
    assert len(value) < 1024
    for name in names_in(value):
        assert name.strip(". ")
        assert name == name.strip() == name.rstrip(".")
        assert not set(name) & set('/\\:*?"<>|')
        assert name.isprintable()


# Types


@pytest.mark.parametrize(
    "stated",
    [
        "",
        "text",
        "/",
        "a/b/c",
        "text/",
        "/plain",
        "text /plain",
        "text/pl\nain",
        "téxt/plain",
        "*/*",
        "text/\u017f",
        ".a/b",
        "text/html",
        "TEXT/HTML; charset=utf-7",
        "application/xhtml+xml",
        "image/svg+xml",
        "text/xml",
        "application/xml",
        "application/rss+xml",
        "application/xml-dtd",
        "text/xsl",
        "application/xslt+xml",
        "text/javascript",
        "application/javascript",
        "application/x-javascript",
        "text/javascript1.5",
        "text/jscript",
        "text/ecmascript",
        "text/livescript",
        "text/vbscript",
        "text/css",
        "application/wasm",
        "multipart/x-mixed-replace; boundary=x",
        "multipart/related",
        "a" * 200 + "/b",
    ],
)
def test_content_that_a_browser_would_run_is_sent_as_plain_bytes(stated):
    assert downloads.attachment_type(stated, PNG) == "application/octet-stream"


AVIF_OF_ANOTHER_BRAND = b"\0\0\0\x20ftypmif1\0\0\0\0mif1avifmiaf" + bytes(20)


HARMLESS = [
    (stated, PNG, sent)
    for stated, sent in [
        ("application/pdf", "application/pdf"),
        ("Image/PNG", "image/png"),
        ("text/plain; charset=ISO-8859-1", "text/plain; charset=ISO-8859-1"),
        ('text/csv; header=present; charset="utf-8"', "text/csv; charset=utf-8"),
        ("text/plain; charset=x\r\ny", "text/plain"),
        ("text/plain; charset=utf-8''x", "text/plain"),
        ("image/png; charset=utf-8; name=a", "image/png"),
        ("message/rfc822", "message/rfc822"),
        (
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
        ("application/postscript", "application/postscript"),
        ("application/json", "application/json"),
        ("video/mp4\r\n", "video/mp4"),
    ]
]


@pytest.mark.parametrize(
    ("stated", "content", "sent"),
    [
        *HARMLESS,
        (
            "image/avif",
            b"\x00\x00\x00 ftypmif1\x00\x00\x00\x00mif1avifmiaf\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            "image/avif",
        ),
        (
            "application/octet-stream",
            b"\x00\x00\x00 ftypmif1\x00\x00\x00\x00mif1avifmiaf\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            "image/avif",
        ),
        ("image/x-png", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/jpeg", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/png", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "application/octet-stream"),
        ("image/png", b"", "application/octet-stream"),
        ("image/tiff", b"\x89PNG\r\n\x1a\n", "image/tiff"),
        ("text/html", b"\x89PNG\r\n\x1a\n", "application/octet-stream"),
        ("text/plain", b"\x89PNG\r\n\x1a\n", "text/plain"),
    ],
)
def test_an_image_is_sent_with_the_type_of_its_view_and_a_harmless_type_unchanged(stated, content, sent):
    assert downloads.attachment_type(stated, content) == sent


def test_the_page_previews_the_images_that_a_view_shows():
    """The page checks the listed type before it fetches an attachment, and the response's type before it renders it."""
    web = Path(pages.__file__).parents[1] / "web"
    script = (web / "attachments.js").read_text() + (web / "preview.js").read_text()
    typed, sent = (
        re.compile(re.search(rf"^const {name} = /(.+)/;", script, re.MULTILINE)[1].replace(r"\/", "/"))
        for name in ("TYPED_IMAGE", "SENT_IMAGE")
    )
    tried = {f"image/{prefix}{kind}" for prefix in ("", "x-", "x-ms-", "p") for kind in KINDS}
    assert {one for one in tried | mime.IMAGE_TYPES if typed.fullmatch(one)} == mime.IMAGE_TYPES
    assert {one for one in tried if sent.fullmatch(one)} == set(extracts._IMAGE_BEGINNINGS)


def test_writing_takes_linear_time(subtests):
    for piece in ["a", ".", "/", " ", "%", '"', "+xml", "a/", ";charset=", "😀", "\\"]:
        for write in [
            lambda text: downloads.attachment_disposition(text, text),
            lambda text: downloads.attachment_type(text, b""),
        ]:
            with subtests.test(piece=piece):
                assert_linear(lambda text, write=write: write("text/" + text), piece * (200_000 // len(piece)))
