"""Requests that arrive before the previous response is complete, and clients that disconnect after sending them."""

from contextlib import suppress

import anyio
import pytest

from .streams import PATIENCE_SECONDS, until


def request(target, method="GET", body=b""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + body


@pytest.mark.parametrize("tail", ["events", "messages?wait=50"])
@pytest.mark.parametrize("early", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["piece", "whole"])
async def test_a_client_that_pipelines_and_disconnects_frees_its_slot_immediately(world, serve, held, tail, early):
    async with serve(world.app(max_streams_per_client=1), max_connections=2) as served:
        for _ in range(3):
            async with await served.connect() as connection:
                await connection.send(request(f"/api/v1/addresses/{held['address']}/{tail}") + early)
                await until(lambda: len(world.service.bus))
            await until(lambda: not len(world.service.bus))
            await served.drained()


async def test_pipelined_requests_get_responses_in_order(world, served, held):
    path = f"/api/v1/addresses/{held['address']}"
    asked = b"".join(request(f"{path}{tail}") for tail in ("/messages?wait=1", "", "/messages", "/none"))
    async with await served.connect() as connection:
        await connection.send(asked)
        await until(lambda: len(world.service.bus))
        message_id = await world.deliver(held["address"])
        answers = b""
        with anyio.fail_after(PATIENCE_SECONDS):
            while answers.count(b"HTTP/1.1 ") < 4 or not answers.endswith(b"}"):
                answers += await connection.receive()
    statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 200, 200, 404]
    assert answers.count(message_id.encode()) >= 2


async def test_a_flood_of_pipelined_requests_is_cut_off(world, served, held):
    async with await served.connect() as connection:
        await connection.send(request(f"/api/v1/addresses/{held['address']}/events"))
        await until(lambda: len(world.service.bus))
        with anyio.fail_after(PATIENCE_SECONDS), suppress(anyio.BrokenResourceError):
            while True:
                await connection.send(request("/") * 1000)
    await until(lambda: not len(world.service.bus))
