"""Connection limits, and the server's shutdown."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack
from ipaddress import ip_network

import anyio
import anyio.lowlevel
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.http import connection, server
from tmpmaild.ratelimit import TokenBuckets

from .conftest import read_all
from .rawhttp import CREATE, GET, LAST, ok, read_answer

pytestmark = [pytest.mark.both_loops, pytest.mark.usefixtures("nothing_is_logged")]


def assert_busy(received):
    head, _, body = received.partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    assert status.startswith(b"HTTP/1.1 503 ")
    assert {b"Retry-After: 5", b"Connection: close", b"Content-Length: %d" % len(body)} <= set(fields)
    assert json.loads(body)["code"] == "busy"


@pytest.mark.parametrize(
    "octets", [GET * 3, GET + bytes(100_000), b"x" * 100_000, CREATE + b"Content-Length: 9\r\n\r\nnine"]
)
async def test_a_client_beyond_the_limit_can_read_the_reason_whatever_it_sends(serve, caplog, octets):
    async with serve(ok, max_connections=1) as served, await served.connect() as first:
        await first.send(GET)
        await read_answer(first)
        for _ in range(3):
            assert_busy(await served.ask(octets))
    caplog.clear()


async def test_only_a_few_refused_clients_are_connected_at_once_and_briefly(serve, caplog, monkeypatch):
    monkeypatch.setattr(server, "REFUSED_AT_ONCE", 2)
    async with serve(ok, max_connections=1) as served, AsyncExitStack() as opened:
        first = await opened.enter_async_context(await served.connect())
        await first.send(GET)
        await read_answer(first)
        monkeypatch.setattr(server, "REFUSAL_SECONDS", 10 * PATIENCE_SECONDS)
        silent = [await opened.enter_async_context(await served.connect()) for _ in range(2)]
        assert await served.ask(GET) == b""
        for one in silent:
            await one.send(LAST)
            assert_busy(await read_all(one))
            await one.aclose()
        with anyio.fail_after(PATIENCE_SECONDS):
            while await served.ask(GET) == b"":
                await anyio.sleep(0.005)
        monkeypatch.setattr(server, "REFUSAL_SECONDS", 0.01)
        late = await opened.enter_async_context(await served.connect())
        assert await read_all(late) == b""
    caplog.clear()


async def test_beyond_the_limit_connections_are_refused(serve, caplog):
    async with serve(ok, max_connections=2) as served:
        first, second = await served.connect(), await served.connect()
        async with first, second:
            for stream in (first, second):
                await stream.send(GET)
                await read_answer(stream)
            assert_busy(await served.ask(GET))
        await served.drained()
        assert b"200" in await served.ask(LAST)
    assert [record.getMessage() for record in caplog.records] == [
        "HTTP connection refused: http.max_connections is reached"
    ]
    caplog.clear()


def connect_from(served, host):
    return anyio.connect_tcp(*served.address, local_host=host)


async def test_a_client_loses_its_longest_idle_connection_beyond_its_share(serve):
    async with serve(ok, max_connections=8, unshared=()) as served, AsyncExitStack() as opened:
        streams = []
        for _ in range(6):
            streams.append(await opened.enter_async_context(await served.connect()))
            await streams[-1].send(GET)
            assert await read_answer(streams[-1]) == 200
        assert [await read_all(stream) for stream in streams[:2]] == [b"", b""]
        for stream in streams[2:]:
            await stream.send(GET)
            assert await read_answer(stream) == 200


async def test_a_client_that_has_used_its_share_is_refused_and_leaves_connections_for_others(serve, caplog):
    may_answer, asked = anyio.Event(), []

    async def slow(scope, receive, send):
        asked.append(scope["client"][0])
        await may_answer.wait()
        await ok(scope, receive, send)

    async def opened(host):
        stream = await stack.enter_async_context(await connect_from(served, host))
        before = len(asked)
        await stream.send(GET)
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(asked) == before:
                await anyio.sleep(0.001)
        return stream

    trusted = [ip_network("127.0.0.9/32")]
    async with serve(slow, max_connections=20, unshared=trusted) as served, AsyncExitStack() as stack:
        streams = [await opened("127.0.0.2") for _ in range(10)]
        for _ in range(2):
            async with await connect_from(served, "127.0.0.2") as refused:
                await refused.send(GET)
                assert_busy(await read_all(refused))
        streams += [await opened(host) for host in ("127.0.0.3", *["127.0.0.9"] * 9)]
        may_answer.set()
        assert [await read_answer(stream) for stream in streams] == [200] * 20
    said = "HTTP connection from 127.0.0.2 refused: its share of http.max_connections is used up"
    assert [record.getMessage() for record in caplog.records] == [said] * 2
    caplog.clear()


@pytest.mark.parametrize("request_", [GET, LAST], ids=["kept", "closed"])
async def test_data_that_a_slow_client_has_not_read_counts_for_its_share(serve, caplog, monkeypatch, request_):
    """After a connection is closed, the kernel keeps its unsent data, so closing connections might free no memory."""
    monkeypatch.setattr(connection, "POLL_SECONDS", 0.01)

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(200_000)})

    slow = [socket.socket() for _ in range(4)]
    async with serve(answer, max_connections=8, unshared=()) as served:
        for one in slow:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(served.address)
            one.sendall(request_)
        with anyio.fail_after(PATIENCE_SECONDS):
            while sum(one.has_unsent(100_000) for one in served.server.connections) < 4:
                await anyio.sleep(0.005)
        assert_busy(await served.ask(LAST))
        assert len(served.server.connections) == 4
        slow[0].settimeout(0)
        received = b""
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(received) < 200_000:
                received += await asyncio.get_running_loop().sock_recv(slow[0], 65_536)
            while (answered := await served.ask(LAST)).startswith(b"HTTP/1.1 503"):
                await anyio.sleep(0.01)
        assert len(answered) > 200_000
    for one in slow:
        one.close()
    reasons = {record.getMessage().partition(" refused: ")[2] for record in caplog.records}
    assert reasons == {"its share of http.max_connections is used up"}
    caplog.clear()


@pytest.mark.parametrize(
    ("most", "of_client", "of_network"),
    [(0, 0, 0), (1, 1, 1), (2, 1, 2), (4, 2, 3), (100, 50, 75), (128, 64, 96), (2048, 64, 256), (4096, 128, 512)],
)
def test_the_shares_of_a_client_and_of_its_network_leave_room_for_others(most, of_client, of_network):
    assert server.shares(most) == (of_client, of_network)


async def test_a_request_on_a_connection_that_is_closed_to_make_room_causes_no_log_line(serve):
    may_answer, asked = anyio.Event(), anyio.Event()

    async def slow(scope, receive, send):
        asked.set()
        await may_answer.wait()
        await ok(scope, receive, send)

    async with serve(slow) as served, await served.connect() as stream:
        await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        await asked.wait()
        (closed,) = served.server.connections
        closed.close_idle()
        assert await read_all(stream) == b""
        may_answer.set()


async def test_all_addresses_of_a_network_leave_room_for_others(serve, caplog):
    """Without a limit per network, a client with a whole network of addresses could use all connections."""
    may_answer, asked = anyio.Event(), []

    async def slow(scope, receive, send):
        asked.append(scope["client"][0])
        await may_answer.wait()
        await ok(scope, receive, send)

    async with serve(slow, max_connections=16, unshared=()) as served, AsyncExitStack() as stack:

        async def opened(host):
            stream = await stack.enter_async_context(await connect_from(served, host))
            before = len(asked)
            await stream.send(GET)
            with anyio.fail_after(PATIENCE_SECONDS):
                while len(asked) == before:
                    await anyio.sleep(0.001)
            return stream

        streams = [await opened(f"127.0.0.{number}") for number in range(1, 13)]
        async with await connect_from(served, "127.0.0.13") as refused:
            await refused.send(GET)
            assert_busy(await read_all(refused))
        streams.append(await opened("127.0.1.1"))
        may_answer.set()
        assert [await read_answer(stream) for stream in streams] == [200] * 13
        # Now all connections are idle, and the longest idle connection in the network is closed, regardless of its
        # address.
        streams.append(await opened("127.0.0.13"))
        assert await read_all(streams[0]) == b""
        assert await read_answer(streams[-1]) == 200
    said = "HTTP connection from 127.0.0.0/24 refused: its share of http.max_connections is used up"
    assert [record.getMessage() for record in caplog.records] == [said]
    caplog.clear()


async def test_a_stop_responds_to_a_client_that_has_just_connected(serve, monkeypatch):
    monkeypatch.setattr(connection, "FIRST_REQUEST_SECONDS", 20)
    async with serve(ok) as served, await served.connect() as stream, anyio.create_task_group() as tasks:
        while not served.server.connections:
            await anyio.sleep(0.001)
        tasks.start_soon(served.server.stop, 5)
        await anyio.sleep(0.02)
        await stream.send(GET)
        assert (await read_all(stream)).startswith(b"HTTP/1.1 200")


async def test_a_stop_closes_idle_connections_at_once(serve, monkeypatch):
    monkeypatch.setattr(connection, "FIRST_REQUEST_SECONDS", 0)
    async with serve(ok, grace_seconds=5) as served:
        idle, silent = await served.connect(), await served.connect()
        await idle.send(GET)
        await read_answer(idle)
        await silent.send(GET[:10])
        with anyio.fail_after(PATIENCE_SECONDS):
            await served.server.stop(60)
        for stream in (idle, silent):
            assert await read_all(stream) == b""
            await stream.aclose()


async def test_a_stop_lets_a_running_request_finish(serve):
    release, entered = asyncio.Event(), asyncio.Event()

    async def slow(scope, receive, send):
        entered.set()
        await release.wait()
        await ok(scope, receive, send)

    async with serve(slow) as served, await served.connect() as stream, anyio.create_task_group() as tasks:
        await stream.send(GET)
        await entered.wait()
        tasks.start_soon(served.server.stop, 5)
        await anyio.sleep(0.02)
        release.set()
        assert b"200" in await read_all(stream)


@pytest.mark.parametrize("pipelined", [0, 1])
async def test_a_stop_cuts_off_connections_that_do_not_end(serve, pipelined):
    entered, ended = asyncio.Event(), []

    async def endless(scope, receive, send):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async with serve(endless) as served, await served.connect() as stream:
        await stream.send(GET + GET * pipelined)
        await entered.wait()
        with anyio.fail_after(PATIENCE_SECONDS):
            await served.server.stop(0.05)
        assert not served.server.connections
        assert ended == [True]


async def test_idle_connections_of_a_proxy_are_kept_when_others_are_closed(serve, monkeypatch):
    """If the server closes a connection while a proxy sends a POST on it, the proxy does not retry it (nginx: 502)."""
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.05)
    proxies = [ip_network("127.0.0.1/32")]
    async with (
        serve(ok, unshared=proxies) as behind_proxy,
        serve(ok, unshared=[]) as direct,
        await behind_proxy.connect() as of_proxy,
    ):
        await of_proxy.send(GET)
        assert await read_answer(of_proxy) == 200
        async with await direct.connect() as of_client:
            await of_client.send(GET)
            assert await read_answer(of_client) == 200
            assert await read_all(of_client) == b""
        await of_proxy.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert await read_answer(of_proxy) == 200


async def test_no_connection_is_accepted_during_a_stop(serve):
    async with serve(ok) as served:
        await served.server.stop(0)
        with pytest.raises(OSError, match=r"refused|failed"):
            await served.connect()


async def test_a_unix_socket_is_served_too(world, tmp_path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "http.sock"))
    one = server.HttpServer(world.app(TokenBuckets(10, 10)), max_connections=0)
    await one.start([listener])
    async with await anyio.connect_unix(tmp_path / "http.sock") as stream:
        await stream.send(CREATE + b"X-Forwarded-For: 198.51.100.1\r\n\r\n")
        assert (await read_all(stream)).startswith(b"HTTP/1.1 201")
    await one.stop(1)
