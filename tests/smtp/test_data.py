"""Where a mail ends and what is in it: a row per trick, each cut in every way a network could."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import SLACK_SECONDS, assert_within, cpu_seconds, octets_worked_on
from tmpmaild.smtp.data import DataReader, Smuggled, TooBig

MAX_BYTES = 1000
END = b"\r\n.\r\n"
PENDING = "pending"
SMUGGLED = "smuggled"
TOO_BIG = "too big"
BIG = 10 * 1024 * 1024


def outcome(reader):
    try:
        return reader.content()
    except TooBig:
        return TOO_BIG
    except Smuggled:
        return SMUGGLED


def read(chunks, max_bytes=MAX_BYTES):
    """Return what became of the mail, and what stood behind it."""
    reader = DataReader(max_bytes)
    chunks = iter(chunks)
    for chunk in chunks:
        rest = reader.feed(chunk)
        if rest is not None:
            return outcome(reader), rest + b"".join(chunks)
    return PENDING, b""


def model(wire, max_bytes=MAX_BYTES):
    """Do the same with everything at hand at once, octet by octet, and no thought of cost."""
    before, end = b"\r\n" + wire, (b"\r\n" + wire).find(END)
    if end < 0:
        return PENDING, b""
    mail, rest = before[: end + 2], before[end + 5 :]
    lines = re.split(rb"\r\n|\n", mail)[1:-1]
    content = b"".join((line[1:] if line.startswith(b".") else line) + b"\r\n" for line in lines)
    if len(content) > max_bytes:
        return TOO_BIG, rest
    if re.search(rb"[\r\n]\0*\.\0*[\r\n]", mail):
        return SMUGGLED, rest
    return content, rest


def cuts(wire):
    """Cut in two and in three in every way, and octet by octet."""
    yield [wire]
    yield [wire[i : i + 1] for i in range(len(wire))]
    for i in range(len(wire) + 1):
        yield [wire[:i], wire[i:]]
    for i, j in itertools.combinations(range(len(wire) + 1), 2):
        yield [wire[:i], wire[i:j], wire[j:]]


@pytest.mark.parametrize(
    ("wire", "expected", "rest"),
    [
        # What comes after DATA, what becomes of it, and what follows it.
        (b".\r\n", b"", b""),  # an empty mail: the line end before the dot is that of DATA
        (b"\r\n.\r\n", b"\r\n", b""),  # one empty line
        (b"hello\r\n.\r\n", b"hello\r\n", b""),
        (b"a\r\n.\r\nNOOP\r\n", b"a\r\n", b"NOOP\r\n"),  # what follows the end is not mail
        (b".\r\n.\r\n", b"", b".\r\n"),  # and the first end is the end
        (b"..\r\n.\r\n", b".\r\n", b""),  # a stuffed dot in the first line
        (b".a\r\n.\r\n", b"a\r\n", b""),  # RFC 5321 §4.5.2: a dot at the start goes, whatever follows
        (b"...\r\n.\r\n", b"..\r\n", b""),
        (b"a\r\n..\r\nb\r\n.\r\n", b"a\r\n.\r\nb\r\n", b""),
        (b"a.\r\n.\r\n", b"a.\r\n", b""),  # a dot at the end of a line is only a dot
        (b"a\r\n..b\r\n.\r\n", b"a\r\n.b\r\n", b""),
        (b"a\nb\r\n.\r\n", b"a\r\nb\r\n", b""),  # bare LF becomes CRLF
        (b"\na\r\n.\r\n", b"\r\na\r\n", b""),  # also as the first octet
        (b"a\n..b\r\n.\r\n", b"a\r\n.b\r\n", b""),  # and the line that it begins is unstuffed
        (b"a\n.b\r\n.\r\n", b"a\r\nb\r\n", b""),
        (b"a\n\r\n.\r\n", b"a\r\n\r\n", b""),
        (b"a\r\r\n.\r\n", b"a\r\r\n", b""),  # a lone CR stays
        (b"a\rb\r\n.\r\n", b"a\rb\r\n", b""),
        (b"a\r.b\r\n.\r\n", b"a\r.b\r\n", b""),  # and begins no line
        (b"\r\r\n.\r\n", b"\r\r\n", b""),
        (b"a\x00b\r\n.\r\n", b"a\x00b\r\n", b""),  # NUL stays
        (b"\x00\r\n.\r\n", b"\x00\r\n", b""),
        (b"\r\n\x00.a\r\n.\r\n", b"\r\n\x00.a\r\n", b""),  # a dot behind a NUL does not begin its line
        (b"\xff\xfe\r\n.\r\n", b"\xff\xfe\r\n", b""),  # eight bits
        # The ten that servers have taken for an end. With what they smuggle they are one mail, refused.
        (b"a\n.\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\n.\r\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\r.\rX\r\n.\r\n", SMUGGLED, b""),
        (b"a\r.\r\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\r.\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\r\n.\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\r\n.\rX\r\n.\r\n", SMUGGLED, b""),
        (b"a\n.\rX\r\n.\r\n", SMUGGLED, b""),
        (b"a\r\n\x00.\r\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\r\n.\x00\r\nX\r\n.\r\n", SMUGGLED, b""),
        # More of the kind.
        (b".\nX\r\n.\r\n", SMUGGLED, b""),  # in the first line
        (b".\rX\r\n.\r\n", SMUGGLED, b""),
        (b"\x00.\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\n\x00\x00.\x00\x00\rX\r\n.\r\n", SMUGGLED, b""),  # NULs on both sides
        (b"a\r\n.\r\r\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\n.\r\n.\r\n", SMUGGLED, b""),  # shares its CRLF with the end
        (b"a\r.\r\n.\r\n", SMUGGLED, b""),
        (b"a\r\n.\n.\r\n.\r\n", SMUGGLED, b""),
        # Never an end.
        (b"a\n.\n", PENDING, b""),
        (b"a\r.\r", PENDING, b""),
        (b"a\n.\r\n", PENDING, b""),
        (b"a\r\n.\n", PENDING, b""),
        (b"a\r\n.\r", PENDING, b""),
        (b"a\r\n..\r\n", PENDING, b""),
        (b"a\r\n.\x00\r\n", PENDING, b""),
        (b"a.\r\n", PENDING, b""),
        (b"", PENDING, b""),
    ],
)
def test_a_trick_has_one_outcome_however_it_is_cut(wire, expected, rest):
    assert model(wire) == (expected, rest)
    for chunks in cuts(wire):
        assert read(chunks) == (expected, rest), chunks


ALPHABET = st.lists(st.sampled_from([b"\r", b"\n", b".", b"\0", b"a", b"\r\n", b"\r\n.", END, b"aaaaaaaa"])).map(
    b"".join
)


@st.composite
def cut_anyhow(draw, octets):
    wire = draw(octets)
    places = draw(st.lists(st.integers(0, len(wire)), max_size=12).map(sorted))
    return [wire[i:j] for i, j in itertools.pairwise([0, *places, len(wire)])]


@pytest.mark.parametrize("piece_bytes", [1, 5, 64 * 1024])
@given(chunks=cut_anyhow(ALPHABET | st.binary()), max_bytes=st.integers(0, 40))
def test_any_octets_in_any_chunks_give_what_the_model_gives(piece_bytes, chunks, max_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tmpmaild.smtp.data._PIECE_BYTES", piece_bytes)  # the size at which mails are cut in pieces
        assert read(chunks, max_bytes) == model(b"".join(chunks), max_bytes)


# The limit


@pytest.mark.parametrize(
    ("wire", "size_bytes"),
    [
        (b"x" * 98 + b"\r\n", 100),
        (b"..\r\n" * 20 + b"x" * 38 + b"\r\n", 100),  # dots that are stuffed do not count (RFC 1870 §4)
        (b"x\n" * 33 + b"\r", 100 + 2),  # what counts is the mail that is stored: LF made CRLF, and the last line end
        (b"\r\n" * 50, 100),
    ],
)
def test_the_limit_is_exact_however_the_mail_is_cut(wire, size_bytes):
    whole = wire + (b"" if wire.endswith(b"\n") else b"\r\n") + b".\r\n"
    for i, j in itertools.combinations(range(len(whole) - 8, len(whole) + 1), 2):
        chunks = [whole[:i], whole[i:j], whole[j:]]
        assert len(read(chunks, size_bytes)[0]) == size_bytes
        assert read(chunks, size_bytes - 1) == (TOO_BIG, b"")


@pytest.mark.parametrize("octet", [b"x", b"\r", b"\0", b".", b"\n", b"\r\n..", b"\n\0"])
def test_nothing_is_held_beyond_the_limit(octet):
    reader = DataReader(MAX_BYTES)
    for _ in range(MAX_BYTES * 3):
        reader.feed(octet)
        assert reader.held_bytes <= MAX_BYTES + 2 * 10
    assert octet != b"x" or reader.held_bytes < 10


def test_a_mail_of_several_times_the_limit_is_endless():
    reader = DataReader(MAX_BYTES)
    reader.feed(b"x" * (4 * MAX_BYTES))
    assert not reader.endless
    reader.feed(b"x")
    assert reader.endless


def test_a_mail_that_is_dropped_still_ends():
    reader = DataReader(MAX_BYTES)
    reader.feed(b"hello\r\n.")
    reader.drop()
    assert reader.feed(b"\r\nNOOP") == b"NOOP"
    assert outcome(reader) == TOO_BIG


# The cost


@pytest.mark.parametrize(
    ("unit", "most"),
    [
        pytest.param(b"\n", BIG // 4, id="LF"),
        pytest.param(b"\n.x", BIG // 4, id="stuffed dots"),
        # Nothing of it can be converted before its end: then seven methods see all of it, each once.
        pytest.param(b"\r\0..", 8 * BIG, id="CR, NUL and dots"),
    ],
)
def test_ten_mebibytes_of_anything_do_not_hold_the_loop(unit, most):
    """No packet costs more, counted in the octets that methods of bytes work on."""
    wire = unit * (BIG // len(unit)) + END
    reader = DataReader(2 * BIG + 10)
    packets = [wire[start : start + 64 * 1024] for start in range(0, len(wire), 64 * 1024)]
    assert max(octets_worked_on(reader.feed, packet) for packet in packets) <= most
    assert octets_worked_on(outcome, reader) <= most


def test_small_packets_at_the_limit_cost_as_little_as_others():
    """They used to cost a thousand times as much: 35 s for 2,000 packets."""

    def feed(reader):
        for _ in range(2000):
            reader.feed(b"x")

    full = DataReader(BIG)
    full.feed(b"\r\n.." * (BIG // 3))  # held, because the dots do not count
    assert_within(20 * cpu_seconds(feed, DataReader(BIG)) + SLACK_SECONDS, feed, full)
