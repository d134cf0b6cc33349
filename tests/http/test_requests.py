"""Reading a request's token, and receiving its body; ``test_validation.py`` covers the content of bodies."""

import gzip
from ipaddress import ip_network

import anyio
import pytest
from starlette.requests import Request

from patience import PATIENCE_SECONDS
from tmpmaild.http import requests

from .conftest import scope_of


@pytest.mark.parametrize(
    ("field", "token"),
    [
        ("Bearer x", "x"),
        ("bearer  x ", "x"),
        ("Basic x", None),
        ("Bearer ", None),
        ("x", None),
        ("", None),
    ],
)
def test_the_token_is_the_text_after_bearer(field, token):
    assert requests.token(Request(scope_of("/", "GET", {"Authorization": field}))) == token


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "deflate, gzip", "x-gzip", "zstd"])
@pytest.mark.parametrize(
    "body", [b"", gzip.compress(b'{"private":true}', mtime=0), b'{"private":true}'], ids=["none", "packed", "plain"]
)
async def test_an_encoded_body_is_not_read(client, coding, body):
    answer = await client.post(body=body, headers={"Content-Encoding": coding})
    assert (answer.status, answer.json()["code"]) == (415, "unsupported-media-type")
    assert "Content-Encoding" in answer.json()["detail"]


class SlowBodies:
    """Requests whose bodies stop arriving after 48 KiB."""

    def __init__(self, client, tasks):
        self._client = client
        self._tasks = tasks

    async def open(self, peer):
        parts, has_stopped = [bytes(16_384)] * 3, anyio.Event()

        async def receive():
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": True}
            has_stopped.set()
            return await anyio.sleep_forever()

        async def ask():
            await self._client.app(scope_of("/api/v1/addresses", "POST", peer=peer), receive, anyio.sleep_forever)

        self._tasks.start_soon(ask)
        with anyio.fail_after(PATIENCE_SECONDS):
            await has_stopped.wait()


async def test_bodies_that_arrive_slowly_use_bounded_memory_and_leave_room_for_others(world, monkeypatch):
    monkeypatch.setattr(requests, "_MAX_BODIES_BYTES_OF_CLIENT", 100_000)
    monkeypatch.setattr(requests, "_MAX_BODIES_BYTES", 260_000)
    client = world.client(exempt=[ip_network("192.0.2.9/32")])
    large, small = b"{}" + b" " * 10_000, b"{}" + b" " * 4_000

    async def created(peer, body):
        answer = await client.post(body=body, peer=peer)
        return answer.json().get("code", answer.status)

    async with anyio.create_task_group() as tasks:
        slow = SlowBodies(client, tasks)
        for peer in ("192.0.2.1", "192.0.2.1", "192.0.2.2"):
            await slow.open(peer)
        assert await created("192.0.2.1", large) == "busy"
        assert await created("192.0.2.1", small) == 201
        assert await created("192.0.2.2", large) == 201
        for _ in range(2):
            await slow.open("192.0.2.9")
        assert [await created(peer, large) for peer in ("192.0.2.3", "192.0.2.9")] == [201] * 2
        monkeypatch.setattr(requests, "_MAX_BODIES_BYTES", 5 * 49_152)
        assert [await created(peer, large) for peer in ("192.0.2.3", "192.0.2.9")] == ["busy"] * 2
        assert await created("192.0.2.3", small) == 201
        tasks.cancel_scope.cancel()
    assert await created("192.0.2.1", b"{}" + b" " * 60_000) == 201
