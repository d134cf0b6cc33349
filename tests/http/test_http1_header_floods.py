"""Many simultaneous clients whose requests are expensive to parse: each is refused, and no other client waits long.

The wait is measured as processor time between two iterations of the event loop, which other processes do not affect.
"""

import asyncio
import time
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.http import requests
from tmpmaild.ratelimit import TokenBuckets

from .conftest import read_all

pytestmark = pytest.mark.both_loops

START = b"POST /api/v1/addresses HTTP/1.1\r\nHost: x\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
HONEST = b"GET /problems/not-found HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LARGEST = START + b"".join(b"a%02d: %s\r\n" % (number, b"b," * 75) for number in range(98)) + b"\r\n"
FLOODS = {
    "many fields": (START + b"a:\n" * 20_000 + b"\n", b"431"),
    "a long field without end": (START + b"a: " + b"x" * 60_000, b"431"),
    "spaces": (START + b"a:" + b" " * 16_000 + b"\0\r\n\r\n", b"400"),
    "pipelined": (HONEST.replace(b"close", b"keep-alive") + START + b"a:\n" * 20_000 + b"\n", b"200"),
    "trailers": (CHUNKED + b"0\r\n" + b"a:\n" * 20_000 + b"\n", b"431"),
    "extensions": (CHUNKED + b"1;" + b" " * 60_000 + b"\nx\r\n", b"400"),
    "chunks": (CHUNKED + b"1\r\nx\r\n" * 10_000, b"400"),
}
CLIENTS = 60
MOST_SECONDS = 0.5
"""The limit for one turn of the event loop, including the data that all clients sent in it."""


@asynccontextmanager
async def longest_turn():
    """Yield a list with one item: the longest time so far between two iterations, in seconds of processor time."""
    found = [0.0]

    async def probe():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            found[0] = max(found[0], time.thread_time() - began)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(probe)
        yield found
        tasks.cancel_scope.cancel()


async def ask(served, octets, answers):
    """Send bytes, and record the status of the last response."""
    async with await served.connect() as stream:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await stream.send(octets)
        answers.append((await read_all(stream)).partition(b" ")[2][:3])


async def crowd(served, octets):
    """Send bytes from many clients, interspersed with requests from honest clients.

    Return the responses to each group.
    """
    answers, honest = [], []
    async with anyio.create_task_group() as tasks:
        for number in range(CLIENTS):
            tasks.start_soon(ask, served, octets, answers)
            if number % 20 == 0:
                tasks.start_soon(ask, served, HONEST, honest)
    return answers, honest


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_is_refused_and_delays_no_other_client(world, serve, flood, monkeypatch):
    monkeypatch.setattr(requests, "BODY_SECONDS", PATIENCE_SECONDS)  # otherwise, a slow machine refuses bodies with 408
    octets, status = FLOODS[flood]
    async with serve(world.app(), max_connections=2 * CLIENTS) as served:
        async with longest_turn() as turn:
            answers, honest = await crowd(served, octets)
        await served.drained()
    assert set(answers) == {status}
    assert set(honest) == {b"200"}
    assert turn[0] < MOST_SECONDS


async def test_the_largest_headers_that_get_429_delay_no_other_client(world, serve):
    octets = LARGEST.replace(b"Host: x", b"Host: x\r\nConnection: close")
    async with serve(world.app(TokenBuckets(1, 1)), max_connections=2 * CLIENTS) as served, longest_turn() as turn:
        answers, honest = await crowd(served, octets)
    assert answers.count(b"429") == CLIENTS - 1
    assert set(honest) == {b"200"}
    assert turn[0] < MOST_SECONDS


async def test_a_refusal_can_be_read_by_a_client_that_is_still_sending(served):
    for _ in range(20):
        answers = []
        await ask(served, START + b"a:\n" * 200_000, answers)
        assert answers == [b"431"]
    await served.drained()
