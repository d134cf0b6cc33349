"""Raw requests and connections for tests of the HTTP server."""

import socket
import struct

import anyio

from patience import PATIENCE_SECONDS

GET = b"GET /problems/not-found HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /problems/not-found HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CREATE = b"POST /api/v1/addresses HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


async def ok(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def large(scope, receive, send):
    """Respond with 16 MiB, which is more than the buffers of a socket can hold."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(1 << 18), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def read_answer(stream):
    """Read one response with a Content-Length, and return its status."""
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
    """Close the connection with a RST, as the kernel does for a process that crashes with unread data."""
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()
