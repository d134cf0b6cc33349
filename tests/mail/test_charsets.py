"""Charsets by the names used in mail, and bytes that are not valid in the declared charset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings.labels import LABELS

from growth import assert_linear
from tmpmaild.mail import charsets


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("utf8", "utf_8"),
        ("UTF-8 (comment)", "utf_8"),
        ("us-ascii", "utf_8"),
        ("ansi_x3.4-1968", "utf_8"),
        ("iso-8859-1", "cp1252"),
        ("iso-8859-8-i", "iso8859_8"),
        ("cp-850", "cp850"),
        ("gb2312", "gb18030"),
        ("ks_c_5601-1987", "cp949"),
        ("unicode-1-1-utf-7", "utf_7"),
        ("x-unknown", None),
        ("zlib", None),
        ("zip", None),
        ("base64_codec", None),
        ("rot13", None),
        ("idna", None),
        ("unicode_escape", None),
        ("\0", None),
        ("../x", None),
    ],
)
def test_a_charset_is_known_by_its_names_in_mail(name, codec):
    assert charsets.codec_of(name) == codec


def test_every_label_of_the_encoding_standard_is_known():
    warnings = {}
    octets = {label: "plain".encode(charsets.codec_of(label)) for label in LABELS}
    read = {label: charsets.to_text(octets[label], label, warnings) for label in LABELS}
    assert read == dict.fromkeys(LABELS, "plain")
    assert not warnings


@pytest.mark.parametrize(
    ("names", "text", "octets"),
    [
        ("8859_2 8859-2 iso8859-2 ISO_8859-2:1987 x-iso-8859-2 latin2", "Příliš", b"P\xf8\xedli\xb9"),
        (
            "win-1251 win1251 windows_1251 cp1251 x-cp1251 ansi-1251 cswindows1251",
            "Привет",
            b"\xcf\xf0\xe8\xe2\xe5\xf2",
        ),
        ("koi8-ru koi8-u KOI8-RU", "Привіт", b"\xf0\xd2\xc9\xd7\xa6\xd4"),
        ("windows-874 x-windows-874 cp874 dos-874 tis-620 iso-8859-11", "สวัสดี", b"\xca\xc7\xd1\xca\xb4\xd5"),
        ("gb2312 csgb2312 gbk x-gbk cp936 ms936 windows-936 gb18030 gb18030-2022", "您好", b"\xc4\xfa\xba\xc3"),
        ("gb18030-2022 GB18030 gb2312", "您㐀", b"\xc4\xfa\x81\x39\xee\x39"),
        ("windows-31j ms932 x-sjis cswindows31j ibm-943 shift_jis", "①ご", b"\x87\x40\x82\xb2"),
        ("iso-2022-jp x-iso-2022-jp iso-2022-jp-ms cp50220 cp50221 cp50222 csISO2022JP", "ご①", b"\x1b$B$4-!\x1b(B"),
        ("euc-jp x-euc-jp eucjp-ms eucjp-win cp51932", "ご①", b"\xa4\xb4\xad\xa1"),
        ("euc-kr ks_c_5601-1987 cp949 ms949 x-windows-949", "똠", b"\x8c\x63"),
        ("hz-gb-2312 hz", "您", b"~{Dz~}"),
        ("iso-2022-kr csISO2022KR", "안", b"\x1b$)C\x0e>H\x0f"),
        ("iso-8859-1 latin1 us-ascii windows-1252 'ISO-8859-1' x-ansi", "“é”", b"\x93\xe9\x94"),
        ("utf-8 utf8 x-unicode-2-0-utf-8 utf-8-sig", "é", b"\xc3\xa9"),
        ("utf-16 unicode ucs-2", "é", b"\xff\xfe\xe9\x00"),
    ],
)
def test_a_charset_is_read_by_all_names_that_mail_has_for_it(names, text, octets):
    assert {name: charsets.to_text(octets, name) for name in names.split()} == dict.fromkeys(names.split(), text)


@pytest.mark.parametrize(
    "declared", ["", "us-ascii", "utf-8", "iso-8859-1", "x-unknown", "gb2312", "euc-kr", "shift_jis"]
)
@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\x1b$BG'>Z%3!<%I\x1b(B 4815", "認証コード 4815"),
        (b"a\r\n\x1b(I:0D^\x1b(B", "a\r\nｺｰﾄﾞ"),
        (b"\x1b$)C\r\n\x0e>H3g\x0f 4815", "\r\n안녕 4815"),
        ("您的验证码是".encode("hz") + b" 4815", "您的验证码是 4815"),
    ],
)
def test_escape_sequences_show_the_encoding_despite_the_declared_one(declared, octets, text):
    assert charsets.to_text(octets, declared) == text


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[1mbold\x1b(B\x1b[m in a terminal",
        '(format t "~{~a~^, ~}" items) and ~{name~} and ~{ab~}',
        "cp ~/a ~{b,c}/d ~} ~~",
        "no ~{closed",
    ],
)
def test_source_code_is_not_mistaken_for_chinese_or_japanese(text):
    assert charsets.to_text(text.encode(), "") == text


@pytest.mark.parametrize(
    ("octets", "declared", "others", "text"),
    [
        (b"\xf0\xd2\xc9", "us-ascii", ["koi8-r"], "При"),
        (b"\xf0\xd2\xc9", "x-unknown", ["nonsense", "koi8-r", "cp1251"], "При"),
        (b"\xf0\xd2\xc9", "utf-8", ["utf-8", "euc-jp"], "ðÒÉ"),
        # The bytes are valid in the declared charset or in UTF-8.
        (b"\xf0\xd2\xc9", "windows-1251", ["koi8-r"], "рТЙ"),
        ("При".encode(), "us-ascii", ["koi8-r"], "При"),
        (b"\xc4\xfa", "", ["gb2312"], "您"),
    ],
)
def test_invalid_bytes_are_decoded_in_another_charset_of_the_message(octets, declared, others, text):
    assert charsets.to_text(octets, declared, {}, others) == text


@pytest.mark.parametrize("declared", ["iso-8859-1", "iso-8859-15", "windows-1252", "us-ascii", "latin1"])
@pytest.mark.parametrize("text", ["Sævör grét því úlpan", "é", "5\u00a0€", "Zażółć", "你好", "it\u2019s"])
def test_utf_8_that_is_declared_as_western_is_read_as_utf_8(declared, text):
    assert charsets.to_text(text.encode(), declared) == text


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("windows-1252", "«\u00a0CAFÉ\u00a0»"),
        ("iso-8859-1", "CAFÉ®"),  # in UTF-8, the bytes of É® are a single letter of the phonetic alphabet
        ("iso-8859-1", "Ärger Ã© \u00fc"),
        ("iso-8859-15", "5 €"),
        ("koi8-r", "её"),
        ("windows-1251", "Рё"),
    ],
)
def test_bytes_that_the_sender_may_have_meant_are_decoded_as_declared(declared, text):
    assert charsets.to_text(text.encode(declared), declared) == text


def test_looking_for_utf_8_in_western_text_takes_linear_time():
    for octets in (b"a" * 200_000 + "ł".encode(), "ł".encode() * 100_000, b"a\xc9\xae" * 60_000 + b"\xe9"):
        assert_linear(lambda octets: charsets.to_text(octets, "iso-8859-1"), octets)


@pytest.mark.parametrize("piece", [b"~{Dz~}", b"~{", b"~{D", b"\x1b", b"\x1b$", b"\x1b$B", b"~~{Dz", b"\x1b$)C\x0e"])
@pytest.mark.parametrize("charset", ["", "iso-2022-jp", "euc-jp", "hz"])
def test_looking_for_escape_sequences_takes_linear_time(piece, charset):
    assert_linear(lambda octets: charsets.to_text(octets, charset), piece * (200_000 // len(piece)))


@pytest.mark.parametrize(
    ("octets", "charset", "text"),
    [
        (b"Gr\xc3\xbc\xc3\x9fe", "iso-2022-jp", "Gr\u00fc\u00dfe"),
        (b"Gr\xfc\xdfe", "utf-7", "Gr\u00fc\u00dfe"),
        (b"Gr\xfc\xdfe", "utf-8", "Gr\u00fc\u00dfe"),
    ],
)
def test_bytes_invalid_in_their_charset_are_decoded_in_the_real_charset(octets, charset, text):
    assert charsets.to_text(octets, charset, {}) == text


@given(st.binary(max_size=100), st.sampled_from([*sorted(set(charsets._CODECS.values())), "nonsense", ""]))
def test_any_bytes_in_any_charset_give_clean_text(octets, charset):
    text = charsets.to_text(octets, charset, {})
    text.encode()
    assert "\0" not in text


def test_bytes_that_make_a_codec_fail_internally_are_still_decoded():
    octets = b"\x1b.A\x1bN" + bytes(range(128, 256)) * 20 + b"\x1b\x4e\xd6" * 10
    charsets.to_text(octets, "iso-2022-jp-2", {}).encode()


@given(
    st.lists(st.sampled_from([b"a", "é".encode(), "€".encode(), "\U0001f600".encode(), b"\xc3", b"\x80"])),
    st.integers(1, 5),
)
def test_whether_a_text_is_utf_8_does_not_depend_on_the_steps(pieces, step_bytes):
    octets = b"".join(pieces)
    whole = charsets.is_utf8(octets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charsets, "_STRICT_STEP_BYTES", step_bytes)
        assert charsets.is_utf8(octets) == whole
