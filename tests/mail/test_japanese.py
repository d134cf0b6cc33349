"""ISO-2022-JP and EUC-JP as written by mail programs, decoded with the Encoding Standard's index jis0208."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail import japanese

ROWS = [(row, cell) for row in range(1, 95) for cell in range(1, 95)]


def windows(row, cell):
    """Return the character at a position in JIS X 0208 according to Windows' Shift_JIS, or ""."""
    lead, trail = (row - 1) // 2, (cell - 1 + 94 * ((row - 1) % 2))
    octets = bytes((lead + (0x81 if lead < 31 else 0xC1), trail + (0x40 if trail < 63 else 0x41)))
    try:
        return octets.decode("cp932")
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize("row", range(1, 95))
def test_every_character_of_the_index_is_read_in_both_encodings(row):
    for cell in range(1, 95):
        if character := windows(row, cell):
            pair = bytes((row + 0x20, cell + 0x20))
            assert japanese.iso_2022_jp(b"\x1b$B" + pair + b"\x1b(B") == (character, True)
            assert japanese.euc_jp(bytes((row + 0xA0, cell + 0xA0))) == (character, True)


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"a \x1b$B$4\x1b(B b", "a ご b"),
        (b"\x1b$@$4\x1b(J\\~\x1b(B\\~", "ご¥‾\\~"),
        (b"\x1b$B-!-5-j-b\x1b(B", "①Ⅰ㈱№"),
        # A line end before the return to ASCII, which programs should not write.
        (b"\x1b$B$4\r\n$4\x1b(B", "ご\r\nご"),
        # Half-width katakana, as written in cp50221, in cp50222 and by 8-bit programs.
        (b"\x1b(I:0D^\x1b(B", "ｺｰﾄﾞ"),
        (b"\x0e:0D^\x0f.", "ｺｰﾄﾞ."),
        (b"\xba\xb0\xc4\xde.", "ｺｰﾄﾞ."),
        # Other character sets: JIS X 0212, GB 2312, KS C 5601, JIS X 0213.
        (b"\x1b$(D0!\x1b(B", "丂"),
        (b"\x1b$ADz\x1b(B", "您"),
        (b"\x1b$(C>H\x1b(B", "안"),
        (b"\x1b$(Q.!\x1b(B", "俱"),
    ],
)
def test_iso_2022_jp_is_read_with_all_its_sets(octets, text):
    assert japanese.iso_2022_jp(octets) == (text, True)


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\x1b$B$4$", "ご\ufffd"),
        (b"\x1b$B$4\xff\x1b(B.", "ご\ufffd."),
        (b"\x1b$B-!\xa1 \x1b(B.", "①\ufffd ."),
        (b"a\xff\xfeb \x1b$B-!", "a\ufffdb ①"),
    ],
)
def test_broken_iso_2022_jp_loses_only_the_broken_part(octets, text):
    assert japanese.iso_2022_jp(octets) == (text, False)


@pytest.mark.parametrize(
    ("octets", "text", "is_sound"),
    [
        (b"\xad\xa1\xa4\xb4\xb0\xc6\xc6\xe2 \xad\xea", "①ご案内 ㈱", True),
        (b"\xad\xa1\x8e\xba\x8e\xb0\x8f\xb0\xa1.", "①ｺｰ丂.", True),
        (b"\xa4\xb4\xff\xa4\xb4", "ご\ufffdご", False),
        (b"\xa4\xb4\xa4 ok", "ご\ufffd ok", False),
    ],
)
def test_euc_jp_is_read_with_all_its_sets(octets, text, is_sound):
    assert japanese.euc_jp(octets) == (text, is_sound)


PIECES = st.sampled_from(
    [b"\x1b$B", b"\x1b(B", b"\x1b(I", b"\x1b", b"\x0e", b"\x0f", b"$4", b"a", b"\n", b"\xa4\xb4", b"\xff"]
)


@pytest.mark.parametrize("decode", [japanese.iso_2022_jp, japanese.euc_jp])
@given(st.lists(PIECES, max_size=20).map(b"".join) | st.binary(max_size=60))
def test_any_bytes_are_decoded(decode, octets):
    text, is_sound = decode(octets)
    text.encode()
    assert is_sound == ("\ufffd" not in text)


@pytest.mark.parametrize("decode", [japanese.iso_2022_jp, japanese.euc_jp])
@pytest.mark.parametrize(
    "piece", [b"\x1b$B-!", b"\x1b$Ba \xff", b"\x0e\x0f", b"a\xff", b"\xa1\xff", b"\x8e\xa1a", b"\x8f\xa1", b"\xad\xa1"]
)
def test_decoding_takes_linear_time(decode, piece):
    assert_linear(decode, piece * (200_000 // len(piece)))
