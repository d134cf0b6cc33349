"""The parser of Server-Sent Events, against the standard's rules and every way to cut a stream."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import rows_of
from tmpmaild.client.reconnecting import EventStreamParser, ServerSentEvent

ROWS = rows_of(__file__)

STREAM = (
    '\ufeffretry: 10000\r\n\r\n: hello\r\n\r\nid: 1\r\nevent: message\r\ndata: {"a": "ä\u2028"}\n\n'
    "data: one\rdata:two\rdata\r\rid: 2\n\nevent: empty\n\ndata: no end"
).encode()
EVENTS = [ServerSentEvent("message", '{"a": "ä\u2028"}', "1"), ServerSentEvent("message", "one\ntwo\n", None)]


def events(*pieces):
    parser = EventStreamParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_events_come_as_the_standard_has_them():
    assert events(STREAM) == EVENTS


@given(st.lists(st.integers(0, len(STREAM))))
def test_it_does_not_matter_where_a_stream_is_cut(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    assert events(*[STREAM[start:end] for start, end in pairwise(edges)]) == EVENTS


@pytest.mark.parametrize(("lines", "event"), ROWS["fields mean what the standard says"])
def test_fields_mean_what_the_standard_says(lines, event):
    assert events(f"{lines}\n\n".encode()) == [ServerSentEvent(*event)]


def test_octets_that_are_no_utf_8_are_replaced():
    assert events(b"data: \xff\n\n") == [ServerSentEvent("message", "\ufffd", None)]


@pytest.mark.parametrize(("value", "retry_ms"), [("10000", 10000), ("x", None), ("-1", None), ("9" * 5000, None)])
def test_a_retry_is_a_number_or_nothing(value, retry_ms):
    parser = EventStreamParser()
    parser.feed(f"retry: {value}\n\n".encode())
    assert parser.retry_ms == retry_ms


def test_an_endless_line_costs_no_more_the_longer_it_gets():
    parser = EventStreamParser()
    for _ in range(20_000):
        assert parser.feed(b"data: " + b"x" * 100) == []
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) > 2_000_000
