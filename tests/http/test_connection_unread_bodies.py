"""Responses sent before the request's body has arrived: the next request on the connection still gets a response.

Alternatively, the response announces that the connection will be closed (RFC 9112 §9.6).
"""

import http.client
import re

import anyio
import anyio.to_thread
import pytest

from tmpmaild.http import connection, server
from tmpmaild.ratelimit import TokenBuckets

pytestmark = pytest.mark.both_loops

LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
REFUSALS = {
    "400": (b"POST", b"/api/v1/addresses", b"Host: a/b"),
    "401": (b"DELETE", b"/api/v1/addresses/nobody@mail.example.com", b"Host: x"),
    "403": (b"POST", b"/api/v1/addresses", b"Host: x\r\nSec-Fetch-Site: cross-site"),
    "404": (b"PUT", b"/nowhere", b"Host: x"),
    "404 of the API": (b"GET", b"/api/v1/addresses/nobody@mail.example.com", b"Host: x"),
    "405": (b"PATCH", b"/api/v1/domains", b"Host: x"),
    "429": (b"POST", b"/api/v1/addresses", b"Host: x"),
    "a page": (b"GET", b"/healthz", b"Host: x"),
    "OPTIONS": (b"OPTIONS", b"/api/v1/addresses", b"Host: x"),
    "HEAD": (b"HEAD", b"/healthz", b"Host: x"),
}
SIZES = [0, 1, 5_000, 64 * 1024, 64 * 1024 + 1, 100_000]


class NoTokens(TokenBuckets):
    """Token buckets that are always empty."""

    def take(self, client, now_seconds):
        return super().take(client, now_seconds)._replace(allowed=False)


@pytest.fixture
async def at(world, serve, request):
    buckets = NoTokens(60, 10) if request.node.callspec.params.get("case") == "429" else None
    async with serve(world.app(buckets)) as served:
        yield served


class Reader:
    """Reads responses from a raw connection."""

    def __init__(self, stream):
        self.stream = stream
        self.received = b""

    async def head(self):
        with anyio.fail_after(10):
            while b"\r\n\r\n" not in self.received:
                self.received += await self.stream.receive()
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        return head.lower()

    async def final(self, method):
        """Read the next final response; return its header."""
        while (head := await self.head()).startswith(b"http/1.1 1"):
            pass
        length = re.search(rb"content-length: (\d+)", head)
        size = 0 if length is None or method == b"HEAD" else int(length[1])
        with anyio.fail_after(10):
            while len(self.received) < size:
                self.received += await self.stream.receive()
        self.received = self.received[size:]
        return head


@pytest.mark.parametrize("framing", ["length", "chunked", "expected"])
@pytest.mark.parametrize("case", REFUSALS)
async def test_a_body_that_arrives_after_its_response_does_not_break_the_next_request(at, subtests, case, framing):
    method, target, fields = REFUSALS[case]
    for size in SIZES:
        body, length = bytes(size), b"Content-Length: %d\r\n" % size
        if framing == "chunked":
            body, length = (
                b"%x\r\n%s\r\n0\r\n\r\n" % (size, body) if size else b"0\r\n\r\n",
                b"Transfer-Encoding: chunked\r\n",
            )
        elif framing == "expected":
            length += b"Expect: 100-continue\r\n"
        with subtests.test(size=size):
            async with await at.connect() as stream:
                reader = Reader(stream)
                await stream.send(b"%s %s HTTP/1.1\r\n%s\r\n%s\r\n" % (method, target, fields, length))
                head = await reader.final(method)
                if b"connection: close" in head:
                    assert size > 64 * 1024 or framing == "chunked"
                    continue
                await stream.send(body[: size // 2])
                await stream.send(body[size // 2 :] + LAST)
                assert (await reader.final(b"GET")).startswith(b"http/1.1 200")
    await at.drained()


@pytest.mark.parametrize("case", REFUSALS)
async def test_no_request_of_a_library_is_lost_after_a_refusal(at, case):
    """``http.client`` sends a body after its header, and the next request as soon as it has read a response."""
    method, target, fields = REFUSALS[case]
    pairs = [line.split(": ") for line in fields.decode().split("\r\n")][1:]

    def ask_often():
        connection = http.client.HTTPConnection(*at.address, timeout=10)
        for size in SIZES * 5:
            connection.request(
                method.decode(),
                target.decode(),
                bytes(size),
                {"Host": fields.decode().split("\r\n")[0][6:], **dict(pairs)},
            )
            connection.getresponse().read()
        connection.close()

    await anyio.to_thread.run_sync(ask_often)


async def test_the_server_waits_for_the_rest_of_a_body_as_long_as_for_an_idle_connection(world, serve, monkeypatch):
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.05)
    async with serve(world.app()) as served, await served.connect() as stream:
        await stream.send(b"PUT /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        assert (await Reader(stream).final(b"PUT")).startswith(b"http/1.1 404")
        await served.drained()


async def test_a_stop_does_not_wait_for_the_rest_of_a_body(world, serve, monkeypatch):
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.05)
    monkeypatch.setattr(connection, "FIRST_REQUEST_SECONDS", 0.05)
    async with serve(world.app(), grace_seconds=5) as served, await served.connect() as stream:
        await stream.send(b"PUT /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        await Reader(stream).final(b"PUT")
        with anyio.fail_after(4):
            await served.server.stop(5)
        assert not served.server.connections
