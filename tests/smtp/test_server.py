"""The listeners: how they monitor their connections, and how they stop."""

import asyncio
from ipaddress import ip_network

import pytest

from tmpmaild.smtp import replies, server, session

MAIL = ("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")
LOCALHOST = ip_network("127.0.0.0/8")


async def test_a_stop_acknowledges_mail_in_transfer_and_disconnects_other_clients(serve):
    async with serve() as house:
        others, busy = [await house.greeted() for _ in range(3)], await house.at_data()
        for count, client in enumerate(others):
            await client.say(*MAIL[:count], "NOOP")
        stopping = asyncio.ensure_future(house.server.stop(5))
        assert [await client.rest() for client in others] == [f"{replies.STOPPING}\r\n"] * 3
        assert not house.server.listening
        with pytest.raises(ConnectionRefusedError):
            await house.connect()
        busy.send("Subject: last", ".", *MAIL)
        assert (await busy.reply()).startswith("250 2.0.0 Ok: stored as")
        assert await busy.rest() == f"{replies.STOPPING}\r\n"
        await stopping
        assert len(house.sources()) == 1


@pytest.mark.parametrize("mail", ["\n.\n\r\n.", "x" * 3000 + "\r\n."])
async def test_after_a_stop_no_message_follows_a_refused_message(serve, mail):
    async with serve(max_message_bytes=2000) as house:
        client = await house.at_data()
        stopping = asyncio.ensure_future(house.server.stop(5))
        await asyncio.sleep(0)
        client.send(mail)
        assert (await client.reply())[:3] in ("550", "552")
        assert await client.rest() == str(replies.STOPPING) + "\r\n"
        await stopping


async def test_a_stop_waits_no_longer_than_its_grace_time(serve):
    async with serve() as house:
        client = await house.at_data()
        client.send("never ends")
        await house.server.stop(0.05)
        assert await client.rest() in (str(replies.STOPPING) + "\r\n", "")
        assert not house.sources()
        await house.until(lambda: not house.server.connections.open)
        assert house.server.connections.memory.held_bytes == 0


@pytest.mark.parametrize("trusted_proxies", [[], [LOCALHOST]])
async def test_a_client_that_connects_during_a_stop_is_refused(serve, trusted_proxies):
    async with serve(trusted_proxies=trusted_proxies) as house:
        house.server.connections.stopping = True
        assert await (await house.connect()).rest() == str(replies.STOPPING) + "\r\n"


async def test_idle_connections_are_watched_until_the_server_stops(serve, monkeypatch):
    monkeypatch.setattr(server, "_WATCH_INTERVAL_SECONDS", 0.001)
    async with serve() as house:
        client = await house.greeted()
        watching = asyncio.ensure_future(house.server.watch())
        assert await client.say("NOOP") == [str(replies.OK)]
        monkeypatch.setattr(session, "_IDLE_SECONDS", 0)
        assert await client.rest() == f"{replies.TIMEOUT}\r\n"
        watching.cancel()
