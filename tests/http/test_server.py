"""The real server on a real socket: what clients do to connections, well-behaved and not."""

import asyncio
import json
import logging
import socket
import struct
from contextlib import AsyncExitStack, suppress
from ipaddress import ip_network

import anyio
import anyio.lowlevel
import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import PATIENCE_SECONDS
from tables import rows_of, table
from tmpmaild.http import answers, requests, server
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.ratelimit import TokenBuckets

from .conftest import read_all

ROWS = rows_of(__file__)

pytestmark = pytest.mark.both_loops

GET = b"GET /problems/not-found HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /problems/not-found HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CREATE = b"POST /api/v1/addresses HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


async def ok(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def large(scope, receive, send):
    """Answer with 16 MiB, more than any socket's buffers hold."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(1 << 18), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog):
    """No client brings a line into the log, and no task dies unheard."""
    caplog.set_level(logging.INFO)
    yield
    records = [record for phase in ("setup", "call", "teardown") for record in caplog.get_records(phase)]
    assert [record.getMessage() for record in records] == []


async def read_answer(stream):
    """Read one answer with a Content-Length, and return its status."""
    received = b""
    with anyio.fail_after(PATIENCE_SECONDS):
        while b"\r\n\r\n" not in received:
            received += await stream.receive()
        head, _, body = received.partition(b"\r\n\r\n")
        (length,) = [int(line[16:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")]
        while len(body) < length:
            body += await stream.receive()
    assert len(body) == length
    return int(head[9:12])


async def reset(stream):
    """Leave as a process that crashed does: with a RST."""
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


MALFORMED = [*ROWS["MALFORMED"], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)]


@table("octets", MALFORMED)
async def test_what_is_no_http_gets_a_bare_refusal(served, octets):
    received = await served.ask(octets)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.split()[1] in {b"400", b"501"}
    assert body == b""
    assert b"server:" not in head.lower()
    await served.drained()


async def test_a_chunked_body_is_read_and_a_client_that_waits_for_100_continue_asked_on(served):
    received = await served.ask(
        CREATE + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"pri\r\n9\r\nvate":tru\r\n2\r\ne}\r\n0\r\n\r\n'
    )
    assert received.startswith(b"HTTP/1.1 201")
    assert b'"private":true' in received
    async with await served.connect() as stream:
        await stream.send(CREATE + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert b"100" in await stream.receive()
        await stream.send(b"{}")
        assert await read_answer(stream) == 201


@table("target", [*ROWS["a strange target is not found"], b"/web?" + b"&=%" * 900])
async def test_a_strange_target_is_not_found(served, target):
    for method in (b"GET", b"OPTIONS", b"CONNECT"):
        received = await served.ask(method + b" " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert received.startswith(b"HTTP/1.1 404"), received


@table("target", [b"/", b"/?" + b"&=%" * 900, b"http://x", b"http://x/?y"])
async def test_every_form_of_the_shortest_path_leads_to_the_inbox(served, target):
    received = await served.ask(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 200"), received


async def test_headers_that_come_slowly_are_not_waited_for(world, serve, monkeypatch):
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.05)
    async with serve(world.app()) as served:
        assert await served.ask(b"GET / HTTP/1.1\r\nHost: ") == b""
        await served.drained()


@pytest.mark.parametrize("requests_before", [1, 3])
async def test_a_connection_without_another_request_is_closed_but_none_that_is_being_answered(
    serve, monkeypatch, requests_before
):
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.2)

    async def slow(scope, receive, send):
        await anyio.sleep(0.3)  # longer than an idle connection has
        await ok(scope, receive, send)

    async with serve(slow) as served, await served.connect() as stream:
        for _ in range(requests_before):
            await stream.send(GET)
            assert await read_answer(stream) == 200
        assert await read_all(stream) == b""
        await served.drained()


async def test_a_body_that_never_comes_is_a_request_timeout(served, monkeypatch):
    monkeypatch.setattr(requests, "_BODY_SECONDS", 0.05)
    monkeypatch.setattr(server, "_LINGER_SECONDS", 0.05)
    received = await served.ask(b"POST /api/v1/addresses HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
    assert received.startswith(b"HTTP/1.1 408")
    assert b'"request-timeout"' in received
    assert b"connection: close" in received
    await served.drained()


async def test_a_client_that_sends_too_much_can_read_that_it_was_too_much(served):
    async with await served.connect() as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, CREATE + b"Content-Length: 4000000\r\n\r\n" + bytes(4_000_000))
        assert b"413" in await read_all(stream)
    await served.drained()


async def test_a_body_nobody_asked_for_holds_nothing(served):
    """More parts than the queue to the application takes: once this held the connection for ever."""
    async with await served.connect() as stream:
        await stream.send(GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200)
        assert await read_answer(stream) == 200
        await stream.send(b"1\r\nx\r\n" * 200)
    await served.drained()


@pytest.mark.parametrize("turns", range(5))
async def test_a_client_that_crashes_before_its_refusal_leaves_no_trace(serve, turns):
    """The response is sent so many turns of the event loop after the request: to a connection that is closed already."""

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


async def test_a_client_that_has_said_all_gets_a_large_answer_whole(serve):
    async with serve(large) as served:
        async with await served.connect() as stream:
            await stream.send(GET)
            await stream.send_eof()
            answer = await read_all(stream)
        assert len(answer) > 1 << 24
        assert answer.endswith(b"0\r\n\r\n")
        await served.drained()


@pytest.mark.parametrize("requests", [1, 3])
async def test_a_client_that_leaves_amid_its_answer_leaves_no_trace(serve, requests):
    async with serve(large) as served:
        stream = await served.connect()
        await stream.send(GET * requests)
        await stream.receive()
        await reset(stream)
        await served.drained()


async def test_a_client_that_does_not_read_is_cut(serve, monkeypatch):
    monkeypatch.setattr(server, "_SEND_SECONDS", 0.1)
    async with serve(large) as served, await served.connect() as stream:
        await stream.send(GET * 2)
        await served.drained()


async def test_unread_answers_fill_no_memory(serve):
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
        while not sent or seen != sent:  # until it stands still
            seen = sent
            await anyio.sleep(0.05)
        assert 0 < sent < 8 << 20


async def test_a_large_page_that_nobody_takes_gives_its_place_back(world, serve, monkeypatch):
    for module in (answers, server):
        monkeypatch.setattr(module, "_SEND_SECONDS", 0.3)
    monkeypatch.setattr(answers, "_SLOTS_PER_CLIENT", 1)
    app = world.app()
    (inbox, _) = await world.service.inboxes.create(NewAddress(local_part="chosen"), None)
    await world.deliver(inbox.address, b"\r\n" + b"x" * 4_000_000)
    ask = b"GET /api/v1/addresses/chosen@mail.example.com/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with serve(app) as served, await served.connect() as stream:
        await stream.send(ask)
        places = app._slots._places._held
        while not places:
            await anyio.sleep(0.001)
        while places:
            await anyio.sleep(0.001)
        for module in (answers, server):
            monkeypatch.setattr(module, "_SEND_SECONDS", 60)  # for who reads, however busy the machine is
        assert len(await served.ask(ask)) > 4_000_000
        await served.drained()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    octets=st.lists(
        st.sampled_from(
            [GET, CREATE, b"Host: x\r\n", b"\r\n", b"\r\n\r\n", b"Content-Length: 3\r\n", b"5\r\n", b"0\r\n\r\n"]
        )
        | st.sampled_from(ROWS["whatever comes the connection ends and the log stays empty"])
        | st.binary(max_size=12),
        max_size=8,
    ).map(b"".join)
)
async def test_whatever_comes_the_connection_ends_and_the_log_stays_empty(served, caplog, octets):
    async with await served.connect() as stream:
        with suppress(anyio.BrokenResourceError):
            await stream.send(octets)
            await stream.send_eof()
        received = await read_all(stream)
    await served.drained()
    assert b"HTTP/1.1 500" not in received
    assert caplog.text == ""


def assert_busy(received):
    head, _, body = received.partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    assert status.startswith(b"HTTP/1.1 503 ")
    assert {b"Retry-After: 5", b"Connection: close", b"Content-Length: %d" % len(body)} <= set(fields)
    assert json.loads(body)["code"] == "busy"


@pytest.mark.parametrize(
    "octets", [GET * 3, GET + bytes(100_000), b"x" * 100_000, CREATE + b"Content-Length: 9\r\n\r\nnine"]
)
async def test_a_client_beyond_the_limit_can_read_why_whatever_it_sends(serve, caplog, octets):
    async with serve(ok, max_connections=1) as served, await served.connect() as first:
        await first.send(GET)
        await read_answer(first)
        for _ in range(3):
            assert_busy(await served.ask(octets))
    caplog.clear()


async def test_those_that_are_told_so_are_few_at_once_and_held_for_a_moment(serve, caplog, monkeypatch):
    monkeypatch.setattr(server, "_REFUSED_AT_ONCE", 2)
    async with serve(ok, max_connections=1) as served, AsyncExitStack() as opened:
        first = await opened.enter_async_context(await served.connect())
        await first.send(GET)
        await read_answer(first)
        monkeypatch.setattr(server, "_REFUSAL_SECONDS", 10 * PATIENCE_SECONDS)
        silent = [await opened.enter_async_context(await served.connect()) for _ in range(2)]
        with anyio.fail_after(PATIENCE_SECONDS):
            while served.server._refusing < 2:
                await anyio.sleep(0.005)
        assert await served.ask(GET) == b""
        for one in silent:
            await one.send(LAST)
            assert_busy(await read_all(one))
            await one.aclose()
        with anyio.fail_after(PATIENCE_SECONDS):
            while served.server._refusing:
                await anyio.sleep(0.005)
        monkeypatch.setattr(server, "_REFUSAL_SECONDS", 0.01)
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


async def test_a_client_that_uses_its_share_is_refused_more_and_leaves_room_for_others(serve, caplog):
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
    said = "HTTP connection from 127.0.0.2 refused: it has its share of http.max_connections"
    assert [record.getMessage() for record in caplog.records] == [said] * 2
    caplog.clear()


@pytest.mark.parametrize("request_", [GET, LAST], ids=["kept", "closed"])
async def test_what_a_slow_client_has_not_read_counts_for_its_share_until_it_has(serve, caplog, monkeypatch, request_):
    """The kernel keeps it: closing such connections to make room would take as much memory as all of them at once."""
    monkeypatch.setattr(server, "_LOOK_SECONDS", 0.01)

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
            while sum(one.has_unsent(100_000) for one in served.server._connections.values()) < 4:
                await anyio.sleep(0.005)
        assert_busy(await served.ask(LAST))
        assert len(served.server._connections) == 4
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
    assert {record.getMessage()[-47:] for record in caplog.records} == {
        "refused: it has its share of http.max_connections"[-47:]
    }
    caplog.clear()


@pytest.mark.parametrize(("most", "share"), [(0, 0), (1, 1), (2, 1), (100, 50), (128, 64), (2048, 64), (4096, 128)])
def test_the_share_of_a_client_leaves_room_for_others(most, share):
    assert server._share_of(most) == share


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
async def test_an_offer_to_switch_protocols_is_not_heard(served, upgrade):
    offer = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: "
        + upgrade
        + b"\r\nHTTP2-Settings: AAMAAABk\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    async with await served.connect() as stream:
        await stream.send(GET[:-2] + offer)
        assert await read_answer(stream) == 200
        await stream.send(GET)
        assert await read_answer(stream) == 200
    await served.drained()


@table(
    ("octets", "status"),
    [
        (LAST.replace(b"GET /", b"GET http://user@x/"), b"400"),
        (LAST.replace(b"GET /", b"GET http:///"), b"400"),
        (GET[:-2] + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (GET.replace(b"GET", b"get"), b"501"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), b"505"),
        (GET.replace(b"1.1", b"2.0"), b"505"),
    ],
)
async def test_a_refusal_says_whether_it_is_the_host_the_length_the_method_or_the_version(served, octets, status):
    assert (await served.ask(octets)).startswith(b"HTTP/1.1 " + status)
    await served.drained()


async def test_a_stop_answers_who_has_just_connected(serve, monkeypatch):
    monkeypatch.setattr(server, "_FIRST_REQUEST_SECONDS", 20)
    async with serve(ok) as served, await served.connect() as stream, anyio.create_task_group() as tasks:
        while not served.server._connections:
            await anyio.sleep(0.001)
        tasks.start_soon(served.server.stop, 5)
        await anyio.sleep(0.02)
        await stream.send(GET)
        assert (await read_all(stream)).startswith(b"HTTP/1.1 200")


async def test_a_stop_closes_idle_connections_at_once(serve, monkeypatch):
    monkeypatch.setattr(server, "_FIRST_REQUEST_SECONDS", 0)
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


async def test_a_stop_lets_a_running_request_end(serve):
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
async def test_a_stop_cuts_what_does_not_end(serve, pipelined):
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
        assert not served.server._connections
        assert ended == [True]


async def test_a_proxy_keeps_its_idle_connections_when_those_of_others_are_closed(serve, monkeypatch):
    """A request that a proxy sends while the server closes is lost, and it sends no POST again (nginx: 502)."""
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.05)
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


async def test_nobody_is_accepted_during_a_stop(serve):
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


@given(
    name=st.sampled_from([b"Location", b"content-length", b"transfer-encoding", b"a b", b""]),
    value=st.binary(max_size=6) | st.sampled_from([b"chunked", b"1,1", b"/\r\nset-cookie: a"]),
)
def test_a_field_of_an_answer_is_checked_as_by_h11(name, value):
    def checked(check):
        try:
            return check().raw_items()
        except h11.LocalProtocolError:
            return None

    by_h11 = checked(lambda: h11.Response(headers=[(name, value)], status_code=200).headers)
    assert checked(lambda: server.Headers([server._valid(name, value)])) == by_h11


@table("name", [b"location", b"link", b"content-disposition", b"content-type"])
def test_no_field_that_may_name_an_address_or_a_file_is_remembered(name):
    assert name not in server._KNOWN
