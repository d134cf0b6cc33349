"""Charsets by the names that mail gives them, and octets that do not fit theirs."""

from hypothesis import given
from hypothesis import strategies as st

from tables import rows_of, table
from tmpmaild.mail import charsets

ROWS = rows_of(__file__)


@table(("name", "codec"), ROWS["a charset is known by its names in mail"])
def test_a_charset_is_known_by_its_names_in_mail(name, codec):
    assert charsets.codec_of(name) == codec


@table(("octets", "charset", "text"), ROWS["octets that do not fit their charset are read as what they are"])
def test_octets_that_do_not_fit_their_charset_are_read_as_what_they_are(octets, charset, text):
    assert charsets.to_text(octets, charset, {}) == text


@given(st.binary(max_size=100), st.sampled_from([*sorted(set(charsets._CODECS.values())), "nonsense", ""]))
def test_any_octets_in_any_charset_give_clean_text(octets, charset):
    text = charsets.to_text(octets, charset, {})
    text.encode()
    assert "\0" not in text


def test_octets_that_make_a_codec_fail_internally_are_still_text():
    octets = b"\x1b.A\x1bN" + bytes(range(128, 256)) * 20 + b"\x1b\x4e\xd6" * 10
    charsets.to_text(octets, "iso-2022-jp-2", {}).encode()
