"""Requests as raw bytes, well-formed and malformed."""

from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import read_all
from .rawhttp import CREATE, GET, LAST, ok, read_answer

pytestmark = [pytest.mark.both_loops, pytest.mark.usefixtures("nothing_is_logged")]


MALFORMED = [
    b"\r\n\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nBroken header\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\nX: \x00\r\n\r\n",
    b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /api/v1/addresses HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/addresses HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /api/v1/addresses HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"EHLO client.example\r\nMAIL FROM:<a@b>\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
]


async def test_input_that_is_not_http_gets_a_minimal_refusal(served, subtests):
    for octets in MALFORMED:
        with subtests.test(octets=octets):
            received = await served.ask(octets)
            head, _, body = received.partition(b"\r\n\r\n")
            assert head.split()[1] in {b"400", b"501"}
            assert body == b""
            assert b"server:" not in head.lower()
            await served.drained()


async def test_a_chunked_body_is_read_and_100_continue_is_sent_to_a_waiting_client(served):
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


async def test_an_unusual_target_is_not_found(served, subtests):
    for target in [
        b"*",
        b"x",
        b"//problems/not-found",
        b"/#fragment",
        b"/%",
        b"/%ff%00",
        b"ftp://x/",
        b"http://x/web",
        b"/web?" + b"&=%" * 900,
    ]:
        with subtests.test(target=target):
            for method in (b"GET", b"OPTIONS", b"CONNECT"):
                received = await served.ask(
                    method + b" " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                )
                assert received.startswith(b"HTTP/1.1 404"), received


async def test_every_form_of_the_shortest_path_leads_to_the_inbox(served, subtests):
    for target in [b"/", b"/?" + b"&=%" * 900, b"http://x", b"http://x/?y"]:
        with subtests.test(target=target):
            received = await served.ask(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert received.startswith(b"HTTP/1.1 200"), received


async def test_an_unexpected_body_does_not_block_the_connection(served):
    """A body with more parts than the application's queue can hold once blocked the connection forever."""
    async with await served.connect() as stream:
        await stream.send(GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200)
        assert await read_answer(stream) == 200
        await stream.send(b"1\r\nx\r\n" * 200)
    await served.drained()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    octets=st.lists(
        st.sampled_from(
            [GET, CREATE, b"Host: x\r\n", b"\r\n", b"\r\n\r\n", b"Content-Length: 3\r\n", b"5\r\n", b"0\r\n\r\n"]
        )
        | st.sampled_from(
            [
                b"Transfer-Encoding: chunked\r\n",
                b"Upgrade: h2c\r\n",
                b"Connection: close\r\n",
                b"Expect: 100-continue\r\n",
            ]
        )
        | st.binary(max_size=12),
        max_size=8,
    ).map(b"".join)
)
async def test_any_input_ends_the_connection_without_a_log_entry(served, caplog, octets):
    async with await served.connect() as stream:
        with suppress(anyio.BrokenResourceError):
            await stream.send(octets)
            await stream.send_eof()
        received = await read_all(stream)
    await served.drained()
    assert b"HTTP/1.1 500" not in received
    assert caplog.text == ""


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
async def test_an_offer_to_switch_protocols_is_ignored(served, upgrade):
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


async def test_an_invalid_host_length_method_or_version_is_refused_with_its_status(served, subtests):
    for octets, status in [
        (LAST.replace(b"GET /", b"GET http://user@x/"), b"400"),
        (LAST.replace(b"GET /", b"GET http:///"), b"400"),
        (GET[:-2] + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (GET.replace(b"GET", b"get"), b"501"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), b"505"),
        (GET.replace(b"1.1", b"2.0"), b"505"),
    ]:
        with subtests.test(octets=octets, status=status):
            assert (await served.ask(octets)).startswith(b"HTTP/1.1 " + status)
            await served.drained()


async def test_a_response_is_one_write_and_a_header_without_a_length_does_not_wait_for_the_body(serve):
    may_go_on = anyio.Event()

    async def waiting(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await may_go_on.wait()
        await send({"type": "http.response.body", "body": b"ok"})

    async with serve(ok) as served, await served.connect() as stream:
        for _ in range(20):
            await stream.send(GET)
            received = await stream.receive()
            assert received.endswith(b"\r\n\r\nok")
    async with serve(waiting) as served, await served.connect() as stream:
        await stream.send(LAST)
        assert (await stream.receive()).endswith(b"\r\n\r\n")
        may_go_on.set()
        assert b"ok" in await read_all(stream)


@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
@pytest.mark.parametrize("status", [200, 204, 304])
async def test_a_response_that_states_a_length_and_has_no_body_is_sent(serve, method, status):
    async def bare(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with serve(bare) as served:
        received = await served.ask(LAST.replace(b"GET", method))
    assert received.startswith(b"HTTP/1.1 %d" % status)
    assert received.endswith(b"\r\n\r\nok" if (method, status) == (b"GET", 200) else b"\r\n\r\n")
