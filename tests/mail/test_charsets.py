"""Charsets by the names that mail gives them, and octets that do not fit theirs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tables import table
from tmpmaild.mail import charsets


@table(
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


@settings(deadline=None)
@given(st.binary(max_size=100), st.sampled_from([*sorted(set(charsets._CODECS.values())), "nonsense", ""]))
def test_any_octets_in_any_charset_give_clean_text(octets, charset):
    text = charsets.to_text(octets, charset, {})
    text.encode()
    assert "\0" not in text


def test_octets_that_make_a_codec_fail_internally_are_still_text():
    octets = b"\x1b.A\x1bN" + bytes(range(128, 256)) * 20 + b"\x1b\x4e\xd6" * 10
    charsets.to_text(octets, "iso-2022-jp-2", {}).encode()
