"""The end of a message and its content: each row is a special case, split in every way that a network might."""

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
    """Return the outcome of reading a message, and the data after the message."""
    reader = DataReader(max_bytes)
    chunks = iter(chunks)
    for chunk in chunks:
        rest = reader.feed(chunk)
        if rest is not None:
            return outcome(reader), rest + b"".join(chunks)
    return PENDING, b""


def model(wire, max_bytes=MAX_BYTES):
    """Return the same results as ``read``, from all data at once and without regard to cost."""
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
    """Split the data into two and three pieces at all positions, and into single bytes."""
    yield [wire]
    yield [wire[i : i + 1] for i in range(len(wire))]
    for i in range(len(wire) + 1):
        yield [wire[:i], wire[i:]]
    for i, j in itertools.combinations(range(len(wire) + 1), 2):
        yield [wire[:i], wire[i:j], wire[j:]]


@pytest.mark.parametrize(
    ("wire", "expected", "rest"),
    [
        # The data after DATA, the resulting message, and the remaining data.
        (b".\r\n", b"", b""),  # an empty message: the line end before the dot belongs to the DATA command
        (b"\r\n.\r\n", b"\r\n", b""),  # a message that consists of one empty line
        (b"hello\r\n.\r\n", b"hello\r\n", b""),
        (b"a\r\n.\r\nNOOP\r\n", b"a\r\n", b"NOOP\r\n"),  # data after the end is not part of the message
        (b".\r\n.\r\n", b"", b".\r\n"),  # the message ends at the first end sequence
        (b"..\r\n.\r\n", b".\r\n", b""),  # a stuffed dot in the first line
        (b".a\r\n.\r\n", b"a\r\n", b""),  # RFC 5321 §4.5.2: every leading dot is removed
        (b"...\r\n.\r\n", b"..\r\n", b""),
        (b"a\r\n..\r\nb\r\n.\r\n", b"a\r\n.\r\nb\r\n", b""),
        (b"a.\r\n.\r\n", b"a.\r\n", b""),  # a dot at the end of a line is an ordinary character
        (b"a\r\n..b\r\n.\r\n", b"a\r\n.b\r\n", b""),
        (b"a\nb\r\n.\r\n", b"a\r\nb\r\n", b""),  # bare LF becomes CRLF
        (b"\na\r\n.\r\n", b"\r\na\r\n", b""),  # a bare LF as the first byte becomes CRLF, too
        (b"a\n..b\r\n.\r\n", b"a\r\n.b\r\n", b""),  # a line after a bare LF is unstuffed
        (b"a\n.b\r\n.\r\n", b"a\r\nb\r\n", b""),
        (b"a\n\r\n.\r\n", b"a\r\n\r\n", b""),
        (b"a\r\r\n.\r\n", b"a\r\r\n", b""),  # a lone CR is kept
        (b"a\rb\r\n.\r\n", b"a\rb\r\n", b""),
        (b"a\r.b\r\n.\r\n", b"a\r.b\r\n", b""),  # a lone CR does not start a new line
        (b"\r\r\n.\r\n", b"\r\r\n", b""),
        (b"a\x00b\r\n.\r\n", b"a\x00b\r\n", b""),  # NUL is kept
        (b"\x00\r\n.\r\n", b"\x00\r\n", b""),
        (b"\r\n\x00.a\r\n.\r\n", b"\r\n\x00.a\r\n", b""),  # a dot after a NUL is not at the start of its line
        (b"\xff\xfe\r\n.\r\n", b"\xff\xfe\r\n", b""),  # 8-bit data
        # Ten sequences that servers have mistaken for the end of a message. Together with the smuggled data, such a
        # message is refused as a whole.
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
        # More sequences that smuggle data.
        (b".\nX\r\n.\r\n", SMUGGLED, b""),  # the sequence is in the first line
        (b".\rX\r\n.\r\n", SMUGGLED, b""),
        (b"\x00.\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\n\x00\x00.\x00\x00\rX\r\n.\r\n", SMUGGLED, b""),  # NULs on both sides of the dot
        (b"a\r\n.\r\r\nX\r\n.\r\n", SMUGGLED, b""),
        (b"a\n.\r\n.\r\n", SMUGGLED, b""),  # the sequence shares its CRLF with the real end
        (b"a\r.\r\n.\r\n", SMUGGLED, b""),
        (b"a\r\n.\n.\r\n.\r\n", SMUGGLED, b""),
        # Sequences that do not end a message.
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
def test_a_special_case_has_one_outcome_however_it_is_split(wire, expected, rest):
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
def test_any_bytes_in_any_chunks_give_the_same_result_as_the_model(piece_bytes, chunks, max_bytes):
    with pytest.MonkeyPatch.context() as patch:
        # The size of the pieces in which a message is stored.
        patch.setattr("tmpmaild.smtp.data._PIECE_BYTES", piece_bytes)
        assert read(chunks, max_bytes) == model(b"".join(chunks), max_bytes)


# The size limit of a message


@pytest.mark.parametrize(
    ("wire", "size_bytes"),
    [
        (b"x" * 98 + b"\r\n", 100),
        (b"..\r\n" * 20 + b"x" * 38 + b"\r\n", 100),  # stuffed dots do not count (RFC 1870 §4)
        # The stored size counts: each LF is stored as CRLF, and the last line end is included.
        (b"x\n" * 33 + b"\r", 100 + 2),
        (b"\r\n" * 50, 100),
    ],
)
def test_the_limit_is_exact_however_the_message_is_split(wire, size_bytes):
    whole = wire + (b"" if wire.endswith(b"\n") else b"\r\n") + b".\r\n"
    for i, j in itertools.combinations(range(len(whole) - 8, len(whole) + 1), 2):
        chunks = [whole[:i], whole[i:j], whole[j:]]
        assert len(read(chunks, size_bytes)[0]) == size_bytes
        assert read(chunks, size_bytes - 1) == (TOO_BIG, b"")


@pytest.mark.parametrize("octet", [b"x", b"\r", b"\0", b".", b"\n", b"\r\n..", b"\n\0"])
def test_nothing_is_kept_beyond_the_limit(octet):
    reader = DataReader(MAX_BYTES)
    for _ in range(MAX_BYTES * 3):
        reader.feed(octet)
        assert reader.held_bytes <= MAX_BYTES + 2 * 10
    assert octet != b"x" or reader.held_bytes < 10


def test_a_message_of_several_times_the_limit_counts_as_endless():
    reader = DataReader(MAX_BYTES)
    reader.feed(b"x" * (4 * MAX_BYTES))
    assert not reader.endless
    reader.feed(b"x")
    assert reader.endless


def test_the_end_of_a_dropped_message_is_found():
    reader = DataReader(MAX_BYTES)
    reader.feed(b"hello\r\n.")
    reader.drop()
    assert reader.feed(b"\r\nNOOP") == b"NOOP"
    assert outcome(reader) == TOO_BIG


# The cost of reading a message


@pytest.mark.parametrize(
    ("unit", "most"),
    [
        pytest.param(b"\n", BIG // 4, id="LF"),
        pytest.param(b"\n.x", BIG // 4, id="stuffed dots"),
        # No data can be converted before the end; at the end, seven methods process all data once.
        pytest.param(b"\r\0..", 8 * BIG, id="CR, NUL and dots"),
    ],
)
def test_ten_mebibytes_of_any_data_do_not_block_the_loop(unit, most):
    """The cost of each packet, counted in bytes that methods of bytes objects process, is bounded."""
    wire = unit * (BIG // len(unit)) + END
    reader = DataReader(2 * BIG + 10)
    packets = [wire[start : start + 64 * 1024] for start in range(0, len(wire), 64 * 1024)]
    assert max(octets_worked_on(reader.feed, packet) for packet in packets) <= most
    assert octets_worked_on(outcome, reader) <= most


def test_small_packets_at_the_limit_cost_as_little_as_others():
    """Such packets once cost a thousand times as much as other packets: 35 s for 2,000 packets."""

    def feed(reader):
        for _ in range(2000):
            reader.feed(b"x")

    full = DataReader(BIG)
    full.feed(b"\r\n.." * (BIG // 3))  # this data is accepted, because stuffed dots do not count
    assert_within(20 * cpu_seconds(feed, DataReader(BIG)) + SLACK_SECONDS, feed, full)
