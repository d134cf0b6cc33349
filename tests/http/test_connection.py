"""Clients that are slow, send too much, do not read, or crash."""

import anyio
import anyio.lowlevel
import pytest

from tmpmaild.http import connection, requests, responses, server
from tmpmaild.inboxes.creating import NewAddress

from .conftest import read_all
from .rawhttp import CREATE, GET, large, ok, read_answer, reset

pytestmark = [pytest.mark.both_loops, pytest.mark.usefixtures("nothing_is_logged")]


async def test_slowly_arriving_headers_time_out(world, serve, monkeypatch):
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.05)
    async with serve(world.app()) as served:
        assert await served.ask(b"GET / HTTP/1.1\r\nHost: ") == b""
        await served.drained()


@pytest.mark.parametrize("requests_before", [1, 3])
async def test_an_idle_connection_is_closed_but_not_during_a_response(serve, monkeypatch, requests_before):
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.2)

    async def slow(scope, receive, send):
        await anyio.sleep(0.3)  # the handler takes longer than a connection may be idle
        await ok(scope, receive, send)

    async with serve(slow) as served, await served.connect() as stream:
        for _ in range(requests_before):
            await stream.send(GET)
            assert await read_answer(stream) == 200
        assert await read_all(stream) == b""
        await served.drained()


async def test_a_body_that_never_arrives_is_a_request_timeout(served, monkeypatch):
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.05)
    received = await served.ask(b"POST /api/v1/addresses HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
    assert received.startswith(b"HTTP/1.1 408")
    assert b'"request-timeout"' in received
    assert b"connection: close" in received
    await served.drained()


async def test_a_client_that_sends_too_much_can_read_the_reason(served):
    async with await served.connect() as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, CREATE + b"Content-Length: 4000000\r\n\r\n" + bytes(4_000_000))
        assert b"413" in await read_all(stream)
    await served.drained()


@pytest.mark.parametrize("turns", range(5))
async def test_a_client_that_crashes_before_its_refusal_leaves_no_trace(serve, turns):
    """The response is sent to a closed connection after this many iterations of the event loop."""

    async def refuse(scope, receive, send):
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body", "body": bytes(300_000)})

    async with serve(refuse) as served:
        for number in range(30):
            stream = await served.connect()
            await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + bytes(20_000))
            for _ in range(number % 3):
                await anyio.lowlevel.checkpoint()
            await reset(stream)
        await served.drained()


@pytest.mark.parametrize("asked", [b"", GET[:9], GET])
async def test_a_client_that_crashes_between_requests_leaves_no_trace(served, asked):
    for _ in range(3):
        stream = await served.connect()
        await stream.send(GET)
        await read_answer(stream)
        if asked:
            await stream.send(asked)
        await reset(stream)
        await served.drained()


async def test_a_client_that_has_finished_sending_gets_a_complete_large_response(serve):
    async with serve(large) as served:
        async with await served.connect() as stream:
            await stream.send(GET)
            await stream.send_eof()
            answer = await read_all(stream)
        assert len(answer) > 1 << 24
        assert answer.endswith(b"0\r\n\r\n")
        await served.drained()


@pytest.mark.parametrize("requests", [1, 3])
async def test_a_client_that_disconnects_during_its_response_leaves_no_trace(serve, requests):
    async with serve(large) as served:
        stream = await served.connect()
        await stream.send(GET * requests)
        await stream.receive()
        await reset(stream)
        await served.drained()


async def test_a_client_that_does_not_read_its_response_is_cut_off(serve, monkeypatch):
    monkeypatch.setattr(connection, "SEND_SECONDS", 0.1)
    async with serve(large) as served, await served.connect() as stream:
        await stream.send(GET * 2)
        await served.drained()


async def test_unread_responses_do_not_fill_the_memory(serve):
    sent = 0

    async def counting(scope, receive, send):
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": bytes(1 << 18), "more_body": True})
            sent += 1 << 18

    async with serve(counting) as served, await served.connect() as stream:
        await stream.send(GET)
        seen = -1
        while not sent or seen != sent:  # wait until the amount of sent data stops growing
            seen = sent
            await anyio.sleep(0.05)
        assert 0 < sent < 8 << 20


async def test_an_unread_large_response_returns_its_slot(world, serve, monkeypatch):
    for module in (responses, connection):
        monkeypatch.setattr(module, "SEND_SECONDS", 0.3)
    monkeypatch.setattr(responses, "SLOTS_PER_CLIENT", 1)
    app = world.app()
    (inbox, _) = await world.service.inboxes.create(NewAddress(local_part="chosen"), None)
    await world.deliver(inbox.address, b"\r\n" + b"x" * 4_000_000)
    ask = b"GET /api/v1/addresses/chosen@mail.example.com/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with serve(app) as served, await served.connect() as stream:
        await stream.send(ask)
        await stream.receive(1)
        for module in (responses, connection):
            # Long enough for a client that reads, even on a busy machine.
            monkeypatch.setattr(module, "SEND_SECONDS", 60)
        assert len(await served.ask(ask)) > 4_000_000
        await served.drained()
