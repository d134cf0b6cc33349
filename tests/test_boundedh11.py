"""The input that h11 receives: everything within the limits and nothing beyond. ``tests/webhooks`` covers responses."""

import itertools

import h11
import pytest
from h11 import _readers as readers
from h11._receivebuffer import ReceiveBuffer
from hypothesis import assume, given
from hypothesis import strategies as st

from tmpmaild.boundedh11 import MAX_FIELDS, MAX_HEADER_BYTES, BoundedConnection

START = b"POST / HTTP/1.1\r\nHost: x\r\n"
PLAIN = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
SIZED = START + b"Content-Length: 70000\r\n\r\n" + b"\n" * 70_000
MANY = b"a:\n" * 15_000
LONG = b"a: " + b"x" * MAX_HEADER_BYTES + b"\r\n"
TOO_LARGE = {"many": MANY, "one": LONG, "folded": b"a:\r\n" + b" b\r\n" * 200}
BAD = [b"\0", b"\v", b"\f", b"\rx"]
BEFORE = {
    "nothing": b"",
    "a request": PLAIN,
    "a body": SIZED,
    "chunks": CHUNKED + b"5;x=y\r\n\n\n\n\n\n\r\n0\r\na: b\r\n\r\n",
}


def receive(connection, octets, cuts=()):
    """Return the events for input in pieces, responding to each complete request; the last event may be an error."""
    events = []
    places = [0, *sorted(cuts), len(octets)]
    for start, end in itertools.pairwise(places):
        if start == end:
            continue
        connection.receive_data(octets[start:end])
        while (event := connection.next_event()) is not h11.NEED_DATA:
            if event is h11.PAUSED or (type(event) is h11.EndOfMessage and not connection.trailing_data[0]):
                connection.send(h11.Response(status_code=204, headers=[]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
            if event is not h11.PAUSED:
                events.append(event)
            if type(event) is h11.EndOfMessage and not connection.trailing_data[0]:
                break
    return events


def refusal(octets, cuts=()):
    with pytest.raises(h11.RemoteProtocolError) as caught:
        receive(BoundedConnection(h11.SERVER), octets, cuts)
    return caught.value.error_status_hint


@pytest.fixture
def handed(monkeypatch):
    """Return the lines of each header and trailer that h11's parsers receive."""
    lines_of = []
    original = ReceiveBuffer.maybe_extract_lines

    def extract(buffer):
        lines = original(buffer)
        if lines is not None:
            lines_of.append(lines)
        return lines

    monkeypatch.setattr(ReceiveBuffer, "maybe_extract_lines", extract)
    return lines_of


@pytest.mark.parametrize("end", [b"\r\n", b""], ids=["ended", "endless"])
@pytest.mark.parametrize("too_large", TOO_LARGE)
@pytest.mark.parametrize("before", BEFORE)
def test_h11_receives_no_part_of_a_header_that_is_too_large(handed, before, too_large, end):
    assert refusal(BEFORE[before] + START + TOO_LARGE[too_large] + end) == 431
    assert [lines for lines in handed if len(lines) > 3] == []


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("too_large", TOO_LARGE)
def test_h11_receives_no_part_of_it_whatever_the_chunk_sizes(handed, too_large, step):
    octets = PLAIN + START + TOO_LARGE[too_large]
    assert refusal(octets + b"\r\n", range(step, len(octets), step)) == 431
    assert sum(map(len, handed)) == 2


@pytest.mark.parametrize("too_large", TOO_LARGE)
def test_trailers_have_the_same_limits_as_headers(handed, too_large):
    assert refusal(CHUNKED + b"1\r\nx\r\n0\r\n" + TOO_LARGE[too_large] + b"\r\n") == 431
    assert len(handed) == 1


@pytest.mark.parametrize(
    ("header", "fits"),
    [
        (START + b"a:\n" * (MAX_FIELDS - 1) + b"\n", True),
        (START + b"a:\n" * MAX_FIELDS + b"\n", False),
        (START + b"a: " + b"x" * (MAX_HEADER_BYTES - len(START) - 7) + b"\r\n\r\n", True),
        (START + b"a: " + b"x" * (MAX_HEADER_BYTES - len(START) - 6) + b"\r\n\r\n", False),
    ],
)
def test_a_header_may_have_100_fields_and_16_kib_excluding_later_data(header, fits):
    if fits:
        assert len(receive(BoundedConnection(h11.SERVER), header + PLAIN * 1000)) == 2002
    else:
        assert refusal(header + PLAIN) == 431


class Noting:
    """A pattern that records the length of its longest input."""

    def __init__(self, pattern):
        self._pattern = pattern
        self.most_bytes = 0

    def fullmatch(self, line):
        self.most_bytes = max(self.most_bytes, len(line))
        return self._pattern.fullmatch(line)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("start", [START, CHUNKED + b"0\r\n", START + b"a: b\r\n"], ids=["header", "trailer", "later"])
def test_a_line_on_which_h11_takes_quadratic_time_never_reaches_its_pattern(monkeypatch, start, bad):
    pattern = Noting(readers.header_field_re)
    monkeypatch.setattr(readers, "header_field_re", pattern)
    assert refusal(start + b"a:" + b" " * 16_000 + bad + b"\r\n\r\n") == 400
    assert pattern.most_bytes < 300


@pytest.mark.parametrize("step", [1, 100, 100_000])
@pytest.mark.parametrize("line", [b"1;" + b" " * 9000 + b"\nx\r\n", b"1;" + b"x" * 300, b"1" * 300 + b"\r\n"], ids=len)
def test_the_length_of_a_chunk_size_line_is_limited(line, step):
    octets = CHUNKED + b"1;extension\r\nx\r\n" + line
    assert refusal(octets, range(step, len(octets), step)) == 400


def test_the_number_of_chunks_is_limited_for_each_body():
    body = b"1\r\nx\r\n" * 250 + b"0\r\n\r\n"
    events = receive(BoundedConnection(h11.SERVER), (CHUNKED + body) * 3)
    assert sum(type(event) is h11.Data for event in events) == 750
    assert refusal(CHUNKED + b"1\r\nx\r\n" * 300) == 400


class Watched(bytearray):
    """Counts the bytes that are scanned."""

    looked_through = 0

    def count(self, wanted, start=0, end=None):
        end = len(self) if end is None else min(end, len(self))
        self.looked_through += max(end - start, 0)
        return super().count(wanted, start, end)


@pytest.mark.parametrize("octets", [START + b"a:\n" * 90, START + b"a: " + b"x" * 16_000])
def test_a_header_that_arrives_slowly_is_scanned_only_once(octets):
    connection = BoundedConnection(h11.SERVER)
    watched = connection._receive_buffer._data = Watched()
    receive(connection, octets, range(1, len(octets)))
    assert watched.looked_through == len(octets)


def test_a_flood_of_small_requests_is_not_scanned_repeatedly():
    connection = BoundedConnection(h11.SERVER)
    watched = connection._receive_buffer._data = Watched()
    receive(connection, PLAIN * 1000)
    assert watched.looked_through <= 1000 * MAX_HEADER_BYTES


LINES = st.sampled_from(
    [
        *(b"a: b", b"a:", b"Host: x", b" folded", b"", b"\r", b"a\0: b", b"a: \0", b": b", b"a: " + b" " * 300 + b"\v"),
        *(b"Content-Length: 3", b"Transfer-Encoding: chunked", *b"abc 3;x abc 0 0 g -1 ffff".split()),
        *(b"GET / HTTP/1.1", b"POST / HTTP/1.1", b"GET / HTTP/1.0", b"get /", b"x" * 300, b"a:" + b"\t" * 300 + b"b"),
    ]
)
STREAM = st.lists(st.tuples(LINES, st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\r\n\r\n"])).map(b"".join), max_size=12)


def outcome(connection, octets, cuts):
    try:
        events = receive(connection, octets, cuts)
    except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
        return getattr(error, "error_status_hint", None)
    return [(type(event), vars(event) if hasattr(event, "__dict__") else str(event)) for event in events]


@given(
    start=st.sampled_from([b"", PLAIN, START, CHUNKED]), lines=STREAM, cuts=st.lists(st.integers(0, 400), max_size=4)
)
def test_input_within_the_limits_is_parsed_exactly_as_by_h11(start, lines, cuts):
    octets = start + b"".join(lines)
    # The maximum length of a chunk-size line, in bytes.
    assume(b"chunked" not in octets or max(map(len, octets.split(b"\r\n"))) < 256)
    cuts = [cut for cut in cuts if cut < len(octets)]
    found = outcome(BoundedConnection(h11.SERVER), octets, cuts)
    assert found == outcome(h11.Connection(h11.SERVER), octets, cuts)
