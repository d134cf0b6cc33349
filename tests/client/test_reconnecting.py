"""Following an inbox on the real service and over broken streams, and parsing server-sent events."""

import json
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemons import wait_until
from tmpmaild import client as api
from tmpmaild.client.reconnecting import EventStreamParser, ServerSentEvent

FIRST, SECOND, THIRD = (f"msg_01m7y0sgyf00000000000000{number:02}" for number in (1, 2, 3))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nretry: 10000\n\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EXPIRED = b"event: expired\ndata: {}\n\n"


def message(message_id, **members):
    data = {"id": message_id, "received_at": "2026-11-21T03:00:00.000Z", **members}
    return f"id: {message_id}\nevent: message\ndata: {json.dumps(data)}\n\n".encode()


def chunk(octets):
    return b"%x\r\n%s\r\n" % (len(octets), octets)


def ids(events):
    return [event.mail.id for event in events if isinstance(event, api.Arrived)]


@pytest.fixture
def play(scripted, scripted_inbox):
    """Return a function that follows an inbox while the server sends one response after another."""

    def played(*answers, **more):
        scripted.say(*answers)
        return list(scripted_inbox.follow(**more))

    return played


def test_all_events_are_reported_until_the_address_is_deleted(inbox, service, at_once):
    sent = [service.deliver(inbox.address) for _ in range(2)]
    events = inbox.follow()
    assert [next(events).mail.id for _ in range(2)] == sent
    inbox.messages()[0].delete()
    assert next(events) == api.Deleted(sent[1])
    ends_at = inbox.extend(7200)
    assert next(events) == api.Extended(ends_at)
    third = service.deliver(inbox.address)
    assert next(events).mail.id == third
    inbox.delete()
    assert list(events) == [api.Deleted(None)]


def test_expiry_is_the_last_event(client, service):
    inbox = client.create()
    sent = service.deliver(inbox.address)
    service.clock.now_ms += 3_600_000 - 30
    events = inbox.follow()
    assert next(events).mail.id == sent
    service.clock.now_ms += 30
    assert list(events) == [api.Expired()]


def test_an_end_leaves_no_listener_behind(inbox, service):
    before = service.listeners()
    service.deliver(inbox.address)
    with closing(inbox.follow()) as events:
        next(events)
        assert service.listeners() == before + 1
    wait_until(lambda: service.listeners() == before)


def test_an_address_that_has_already_expired_is_an_error(inbox):
    inbox.delete()
    with pytest.raises(api.AddressExpired):
        next(inbox.follow())


def test_a_broken_stream_is_resumed_without_missing_or_repeated_events(play, scripted, fake_time):
    whole = message(SECOND)
    events = play(
        HEAD + message(FIRST) + whole[:-1],
        CHUNKED + chunk(message(FIRST) + whole + b"event: mess"),
        HEAD + message(SECOND) + message(THIRD) + EXPIRED,
    )
    assert ids(events) == [FIRST, SECOND, THIRD]
    assert events[-1] == api.Expired()
    assert [asked.headers.get("last-event-id") for asked in scripted.asked] == [None, FIRST, SECOND]


def test_a_given_position_is_used_until_there_is_a_newer_position(play, scripted):
    events = play(HEAD, HEAD + message(FIRST) + message(SECOND), HEAD + EXPIRED, after=FIRST)
    assert ids(events) == [SECOND]
    assert [asked.query for asked in scripted.asked] == [{"after": FIRST}] * 3
    assert [asked.headers.get("last-event-id") for asked in scripted.asked] == [None, None, SECOND]


def test_a_server_that_keeps_closing_is_contacted_less_and_less_often_until_a_stream_works(play, fake_time):
    assert play(*[HEAD] * 7, HEAD + message(FIRST), HEAD + EXPIRED)[-1] == api.Expired()
    assert fake_time.slept == [0.5, 1, 2, 4, 8, 10, 10, 0.5]


def test_proxies_refusals_and_restarts_are_tolerated(play, scripted, fake_time):
    events = play(
        HEAD + message(FIRST),
        scripted.gateway(),
        b"",
        scripted.problem(503, "stopping", "Retry-After: 5"),
        scripted.problem(429, "rate-limited", "Retry-After: 20"),
        HEAD + message(SECOND) + EXPIRED,
    )
    assert ids(events) == [FIRST, SECOND]
    assert fake_time.slept == [0.5, 1, 2, 5, 20]


def test_following_ends_if_the_server_does_not_come_back(play, scripted, fake_time):
    with pytest.raises(api.ConnectionLost, match="502 from a proxy"):
        play(HEAD + message(FIRST), *[scripted.gateway(502)] * 20)
    assert 60 <= fake_time() - 1000 <= 80


@pytest.mark.parametrize("refusal", ["rate-limited", "too-many-streams"])
def test_a_refusal_of_the_first_request_is_raised(play, scripted, refusal):
    with pytest.raises(api.Problem, match=refusal):
        play(scripted.problem(429, refusal, "Retry-After: 6"))


def test_an_address_that_ended_while_disconnected_is_reported_as_expired(play, scripted):
    assert play(HEAD + message(FIRST), scripted.problem(410, "address-expired"))[1:] == [api.Expired()]


def test_a_forgotten_address_and_a_response_that_is_not_a_stream_are_errors(play, scripted):
    with pytest.raises(api.AddressNotFound):
        play(HEAD, scripted.problem(404, "address-not-found"))
    with pytest.raises(api.NotTmpmaild):
        play(scripted.json(b"{}"))


def test_unknown_events_and_fields_of_newer_servers_are_ignored(play):
    events = play(
        HEAD
        + b'id: x\nevent: opened\ndata: {"a": 1}\n\n:\n\n'
        + message(FIRST, **{"from": "a@b.test", "score": {"spam": 1}})
        + b'event: extended\ndata: {"expires_at": "2026-11-21T04:00:00.000Z", "by": 1}\n\n'
        + EXPIRED
    )
    assert [type(event) for event in events] == [api.Arrived, api.Extended, api.Expired]
    assert events[0].mail.sender == "a@b.test"
    assert events[1].expires_at == datetime(2026, 11, 21, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b'{"id": 1}', b'{"id": "msg_1"}', b"\xff", b'{"x": ' + b"[" * 100_000],
    ids=lambda data: data[:20],
)
def test_a_malformed_event_is_an_error(play, data):
    with pytest.raises(api.NotTmpmaild, match="'message'"):
        play(HEAD + b"event: message\ndata: " + data + b"\n\n")


STREAM = (
    '\ufeffretry: 10000\r\n\r\n: hello\r\n\r\nid: 1\r\nevent: message\r\ndata: {"a": "ä\u2028"}\n\n'
    "data: one\rdata:two\rdata\r\rid: 2\n\nevent: empty\n\ndata: no end"
).encode()
EVENTS = [ServerSentEvent("message", '{"a": "ä\u2028"}', "1"), ServerSentEvent("message", "one\ntwo\n", None)]


def events(*pieces):
    parser = EventStreamParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_events_follow_the_standard_and_invalid_utf_8_is_replaced():
    assert events(STREAM) == EVENTS
    assert events(b"data: \xff\n\n") == [ServerSentEvent("message", "\ufffd", None)]


@given(st.lists(st.integers(0, len(STREAM))))
def test_it_does_not_matter_where_a_stream_is_split(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    assert events(*[STREAM[start:end] for start, end in pairwise(edges)]) == EVENTS


@pytest.mark.parametrize(
    ("lines", "event"),
    [
        ("event: x\ndata: y", ("x", "y", None)),
        # one space after the colon is not part of the value
        ("data:  y", ("message", " y", None)),
        ("data", ("message", "", None)),
        ("id\ndata: y", ("message", "y", "")),
        ("id: a\0b\ndata: y", ("message", "y", None)),
        ("nonsense: z\ndata: y", ("message", "y", None)),
        ("event: a\nevent: b\ndata: y", ("b", "y", None)),
        (":data: z\ndata: y", ("message", "y", None)),
    ],
)
def test_fields_have_the_meaning_that_the_standard_defines(lines, event):
    assert events(f"{lines}\n\n".encode()) == [ServerSentEvent(*event)]


@pytest.mark.parametrize(("value", "retry_ms"), [("10000", 10000), ("x", None), ("-1", None), ("9" * 5000, None)])
def test_a_retry_value_is_a_number_or_is_ignored(value, retry_ms):
    parser = EventStreamParser()
    parser.feed(f"retry: {value}\n\n".encode())
    assert parser.retry_ms == retry_ms


def test_the_cost_of_an_endless_line_grows_linearly():
    parser = EventStreamParser()
    for _ in range(20_000):
        assert parser.feed(b"data: " + b"x" * 100) == []
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) > 2_000_000
