"""Clients that come with connections of their own, and what is left of them."""

import gc

import httpx2
import pytest

from daemons import wait_until
from tmpmaild import client as api


def test_a_client_closes_what_is_its_own(url, portal):
    with api.Client(url) as client:
        assert client.domains()
    with pytest.raises(RuntimeError, match="closed"):
        client.domains()

    async def main():
        async with api.AsyncClient(url) as client:
            assert await client.domains()
        with pytest.raises(RuntimeError, match="closed"):
            await client.domains()

    portal.call(main)


def test_a_client_leaves_open_what_it_was_given(url, http):
    with api.Client(url, http=http):
        pass
    assert not http.is_closed


def test_closing_twice_and_without_a_request_is_nothing(url):
    client = api.Client(url)
    client.close()
    client.close()


def test_a_stream_that_nobody_reads_on_is_let_go(connect_async, url, world, portal):
    async def main():
        inbox = await connect_async(url).create()
        await portal_deliver(inbox.address)
        async for event in inbox.follow():
            assert event.mail.subject == "hello"
            break

    async def portal_deliver(address):
        await world._deliver(address, b"Subject: hello\r\n\r\n", "a@b.test")

    before = world.listeners()
    portal.call(main)
    gc.collect()
    wait_until(lambda: world.listeners() == before)


def test_what_only_httpx2_can_be_told_is_told_to_it(scripted):
    scripted.say(scripted.json(b'{"domains": []}'))
    with httpx2.Client(headers={"X-Team": "blue"}) as http:
        api.Client(scripted.url, http=http).domains()
    assert scripted.asked[0].headers["x-team"] == "blue"
