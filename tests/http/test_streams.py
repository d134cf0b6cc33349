"""``GET …/events``: the events that a follower receives over a real connection."""

import socket
from contextlib import asynccontextmanager

import anyio
import pytest

from tmpmaild.http import streams

from .conftest import read_all, scope_of
from .streams import PATIENCE_SECONDS, Event, Stream, until


def request(held, query="", headers=()):
    lines = "".join(f"{name}: {value}\r\n" for name, value in dict(headers).items())
    return f"GET /api/v1/addresses/{held['address']}/events{query} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode()


@pytest.fixture
def follow(served, held):
    @asynccontextmanager
    async def opened(query="", *, headers=()):
        async with await served.connect() as connection:
            await connection.send(request(held, query, headers))
            with anyio.fail_after(PATIENCE_SECONDS):
                yield await Stream(connection).open()

    return opened


async def test_a_stream_has_the_headers_that_browsers_and_proxies_expect(follow):
    async with follow() as stream:
        head = stream.head.lower()
        assert stream.status == 200
        for line in (
            "content-type: text/event-stream",
            "x-accel-buffering: no",
            "cache-control: no-store",
            "transfer-encoding: chunked",
        ):
            assert line in head
        assert await stream.chunk() == b"retry: 10000\n\n"


@pytest.mark.both_engines
async def test_messages_are_sent_as_in_a_list_with_their_ids(world, client, held, follow):
    first = await world.deliver(held["address"], b"Subject: Your code\r\n\r\nYour verification code is 481516\r\n")
    async with follow() as stream:
        event = await stream.next()
        assert (event.id, event.name) == (first, "message")
        (listed,) = (await client.get(f"/api/v1/addresses/{held['address']}/messages")).json()["messages"]
        assert event.data == listed
        assert event.data["codes"][0]["value"] == "481516"
        second = await world.deliver(held["address"])
        assert (await stream.next()).id == second


@pytest.mark.both_engines
async def test_a_stream_of_messages_with_codes_has_no_other_messages(world, held, follow):
    await world.deliver(held["address"])
    async with follow("?has=code") as stream:
        message_id = await world.deliver(held["address"], b"Subject: Your code is 481516\r\n\r\n")
        assert (await stream.next()).id == message_id
    async with follow("?has=x") as stream:
        assert stream.status == 422


@pytest.mark.both_engines
async def test_a_stream_continues_after_the_last_seen_event(world, held, follow):
    sent = [await world.deliver(held["address"]) for _ in range(4)]
    async with follow(headers={"Last-Event-ID": sent[1]}) as stream:
        assert await stream.ids(2) == sent[2:]
    async with follow(f"?after={sent[2]}") as stream:
        assert await stream.ids(1) == sent[3:]
    async with follow(f"?after={sent[0]}", headers={"Last-Event-ID": sent[2]}) as stream:
        assert await stream.ids(1) == sent[3:]


@pytest.mark.parametrize("value", ["x", "msg_", "msg_" + "!" * 26, "-1", "msg_8" + "0" * 25, "\x7f", "x" * 4000])
async def test_a_malformed_last_event_id_is_ignored(world, held, follow, value):
    sent = [await world.deliver(held["address"]) for _ in range(2)]
    async with follow(headers={"Last-Event-ID": value}) as stream:
        assert await stream.ids(2) == sent
    async with follow(f"?after={sent[0]}", headers={"Last-Event-ID": value}) as stream:
        assert await stream.ids(1) == sent[1:]


@pytest.mark.both_engines
async def test_deletions_and_changed_expiries_are_sent_without_an_id(world, held, follow):
    message_id = await world.deliver(held["address"])
    async with follow(f"?after={message_id}") as stream:
        await until(lambda: len(world.service.bus))
        await world.service.inboxes.delete_message(held["address"], message_id, held["token"])
        event = await stream.next()
        assert (event.id, event.name, event.data) == (None, "deleted", {"id": message_id})
        await world.service.inboxes.change(held["address"], held["token"], 60)
        event = await stream.next()
        assert (event.id, event.name, event.data) == (None, "extended", {"expires_at": "2026-09-21T14:14:20.000Z"})
        await world.service.inboxes.delete(held["address"], held["token"])
        event = await stream.next()
        assert (event.id, event.name, event.data) == (None, "deleted", {})
        assert await stream.next() is None


async def test_a_stop_ends_the_stream_without_an_event(world, follow):
    async with follow() as stream:
        await until(lambda: len(world.service.bus))
        world.service.bus.stop()
        assert await stream.next() is None


async def test_a_quiet_stream_sends_heartbeats(follow, monkeypatch):
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.01)
    async with follow() as stream:
        chunks = [await stream.chunk() for _ in range(4)]
        assert chunks == [b"retry: 10000\n\n", b":\n\n", b":\n\n", b":\n\n"]


async def test_comments_soon_follow_an_event_for_browsers_that_hold_back_its_end(world, held, follow, monkeypatch):
    monkeypatch.setattr(streams, "_NEXT_SECONDS", 0.001)
    async with follow() as stream:
        await until(lambda: len(world.service.bus))
        await world.deliver(held["address"])
        with anyio.fail_after(PATIENCE_SECONDS):
            while b"event: message" not in await stream.chunk():
                pass
            assert [await stream.chunk() for _ in range(4)] == [b":\n\n"] * 4


async def test_a_slow_reader_is_disconnected_and_loses_no_events(world, serve, held, monkeypatch):
    monkeypatch.setattr(streams, "_SLICE_SECONDS", 0.1)
    sent = [await world.deliver(held["address"], b"\r\n" + b"x" * 6000) for _ in range(200)]
    async with serve(world.app()) as served:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await anyio.to_thread.run_sync(deaf.connect, served.address)
            deaf.send(request(held))
            await until(lambda: len(world.service.bus))
            await until(lambda: not len(world.service.bus))
        # Long enough for a client that reads, even on a busy machine.
        monkeypatch.setattr(streams, "_SLICE_SECONDS", 10)
        async with await served.connect() as connection:
            await connection.send(request(held))
            seen = await (await Stream(connection).open()).ids(200)
        assert seen == sent


async def test_a_head_request_gets_only_the_header(client, held, world):
    with anyio.fail_after(PATIENCE_SECONDS):
        answer = await client.ask("HEAD", f"/api/v1/addresses/{held['address']}/events", stays=True)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("content-type") == "text/event-stream"
    assert len(world.service.bus) == 0


class SlowClient:
    """An ASGI client that receives the first message only when the test allows it."""

    def __init__(self, app, address):
        self._app = app
        self._address = address
        self.events = []
        self.has_one = anyio.Event()
        self.may_go_on = anyio.Event()

    async def follow(self):
        scope = scope_of(f"/api/v1/addresses/{self._address}/events")
        await self._app(scope, anyio.sleep_forever, self._take)

    async def _take(self, sent):
        text = sent.get("body", b"").decode()
        if "event: " in text:
            self.events.append(Event(text.strip()))
            self.has_one.set()
            await self.may_go_on.wait()


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("message", [("message", 0), ("message", 2), ("deleted", 1), ("deleted", None)]),
        ("inbox", [("message", 0), ("deleted", None)]),
        ("clock", [("message", 0), ("expired", None)]),
    ],
)
async def test_content_that_ends_while_a_slow_client_takes_the_previous_event_is_not_sent(world, held, end, expected):
    message_ids = [await world.deliver(held["address"]) for _ in range(3)]
    slow = SlowClient(world.app(), held["address"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slow.follow)
        with anyio.fail_after(PATIENCE_SECONDS):
            await slow.has_one.wait()
            await world.end(end, held, message_ids[1])
            slow.may_go_on.set()
            await until(lambda: len(slow.events) == len(expected) - (end == "message"))
        if end == "message":
            await world.end("inbox", held, None)
    seen = [(event.name, (event.data or {}).get("id")) for event in slow.events]
    assert seen == [(name, None if number is None else message_ids[number]) for name, number in expected]


async def test_a_stream_to_a_half_closed_connection_ends_properly(served, held):
    """The server cannot distinguish it from a disconnected client, but it writes the end of the body anyway."""
    async with await served.connect() as connection:
        await connection.send(request(held))
        await connection.send_eof()
        answer = await read_all(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"0\r\n\r\n")
    await served.drained()
