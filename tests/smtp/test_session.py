"""Mail over real sockets, on both event loops: no mail is lost, and no client delays the others or stays forever."""

import asyncio
import socket
import tracemalloc

import pytest

from tmpmaild.smtp import replies
from tmpmaild.smtp import session as session_module

pytestmark = pytest.mark.both_loops

MAIL = ("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")


# Clients that disconnect


async def test_a_client_that_half_closes_after_the_dot_gets_the_reply(serve):
    async with serve() as house:
        client = await house.connect()
        client.send("EHLO client.example", *MAIL, "Subject: one", ".", *MAIL, "Subject: two", ".")
        client.writer.write_eof()
        said = await client.rest()
        assert said.count("250 2.0.0 Ok: stored as") == 2
        assert [message.subject for message in await house.messages("abc")] == ["two", "one"]


async def test_a_client_that_half_closes_before_the_dot_leaves_nothing(serve):
    async with serve() as house:
        client = await house.at_data()
        client.send("half a mail")
        client.writer.write_eof()
        assert await client.rest() == ""
        assert house.sources() == []
        await house.until(lambda: not house.server.connections.open)
        assert house.server.connections.memory.held_bytes == 0


async def test_clients_that_disconnect_after_the_dot_do_not_disturb_others(serve):
    async with serve() as house:
        clients = [await house.at_data() for _ in range(20)]
        for number, client in enumerate(clients):
            client.send(f"Subject: {number}", "", "whole", ".")
            if number % 2:
                client.reset()
        for client in clients[::2]:
            assert (await client.reply()).startswith("250 2.0.0 Ok: stored as")
        await house.until(lambda: len(house.server.connections.open) == 10 and not house.server.connections.tasks)
        stored = await house.messages("abc")
        assert {str(number) for number in range(0, 20, 2)} <= {message.subject for message in stored}
        assert all(message.body.strip() == "whole" for message in stored)
        assert house.server.connections.memory.held_bytes == 0


# Clients that do not read


async def test_a_client_that_never_reads_is_disconnected_and_uses_little_memory(serve):
    async with serve() as house:
        client = await house.connect(limit=4096)
        tracemalloc.start()
        try:
            await client.reply()
            (session,) = house.server.connections.open
            sender = asyncio.ensure_future(flood(client, 1_000_000))
            await house.until(lambda: session.unread_since is not None)
            await house.until(lambda: client.writer.transport.get_write_buffer_size() > 0)
            sender.cancel()
            assert session.transport.get_write_buffer_size() < 2 * 64 * 1024
            assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
        finally:
            tracemalloc.stop()
        house.server.close_idle(house.server.connections.loop.time() + 15)
        assert house.server.connections.open
        house.server.close_idle(house.server.connections.loop.time() + 31)
        await house.until(lambda: not house.server.connections.open)


async def test_a_client_that_reads_late_gets_every_reply(serve):
    async with serve() as house:
        client = await house.connect(limit=4096)
        await client.reply()
        (session,) = house.server.connections.open
        for end in (session.transport, client.writer.transport):  # small kernel buffers, so that they fill up soon
            for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, buffer, 16 * 1024)
        packets = 0
        while session.unread_since is None:  # the number of packets that fit depends on the kernel
            client.write(b"EHLO client.example\r\n" * 100)
            packets += 1
            await asyncio.sleep(0)
        for _ in range(packets * 100):
            assert await client.reply() == "250 ENHANCEDSTATUSCODES"
        assert await client.say("NOOP") == [str(replies.OK)]


async def test_no_further_input_is_read_from_a_waiting_client(serve):
    async with serve() as house:
        client = await house.connect()
        await client.reply()
        await client.say(*["FROB"] * 9)
        (session,) = house.server.connections.open
        client.write(b"FROB\r\n" + b"NOOP\r\n" * 200_000)
        await house.until(lambda: session.conversation.input.waiting_bytes > 64 * 1024)
        for _ in range(50):
            await asyncio.sleep(0)
            assert session.conversation.input.waiting_bytes < 512 * 1024


async def flood(client, packets):
    for _ in range(packets):
        client.write(b"EHLO client.example\r\n" * 100)
        await client.writer.drain()


async def test_a_client_that_never_reads_the_last_reply_is_dropped(serve):
    async with serve() as house:
        client = await house.connect(limit=4096)
        await client.reply()
        (session,) = house.server.connections.open
        client.write(b"EHLO client.example\r\n" * 3000)
        await house.until(lambda: session.conversation.input.waiting_bytes == 0)
        session.transport.write(b"x" * 40_000_000)  # more data than the kernel accepts, so that closing cannot complete
        session.resume_writing()
        session.stop()
        house.server.close_idle(house.server.connections.loop.time() + 31)
        await house.until(lambda: not house.server.connections.open)


# Clients that waste time


async def test_an_idle_client_is_disconnected(talk):
    async with talk() as (house, client):
        house.server.close_idle(house.server.connections.loop.time() + 250)
        assert await client.say("NOOP") == [str(replies.OK)]
        house.server.close_idle(house.server.connections.loop.time() + 301)
        assert await client.rest() == str(replies.TIMEOUT) + "\r\n"


async def test_bytes_of_an_endless_command_do_not_count_as_activity(serve, monkeypatch):
    monkeypatch.setattr(session_module, "_ACTIVITY_INTERVAL_SECONDS", 0)
    async with serve() as house:
        client = await house.connect()
        await client.reply()
        (session,), loop = house.server.connections.open, house.server.connections.loop
        last_active = loop.time()
        await house.until(lambda: loop.time() > last_active + 0.1)
        client.write(b"NOO")
        await house.until(lambda: session.conversation.input.waiting_bytes == 3)
        house.server.close_idle(last_active + 300.05)
        assert await client.rest() == str(replies.TIMEOUT) + "\r\n"


async def test_a_slow_message_is_aborted_but_a_fast_message_is_not(serve, monkeypatch):
    monkeypatch.setattr(session_module, "_IDLE_SECONDS", 1000)
    async with serve() as house:
        trickling, flowing = await house.at_data(), await house.at_data()
        trickling.write(b"x" * 100_000)
        flowing.write(b"x" * 200_000)
        await house.until(lambda: house.received_bytes() == 300_000)
        house.server.close_idle(house.server.connections.loop.time() + 301)  # pretend that five minutes have passed
        assert await trickling.rest() == str(replies.TIMEOUT) + "\r\n"
        assert (await flowing.say("\r\n."))[0].startswith("250")


async def test_a_message_that_is_slow_only_at_its_end_is_also_aborted(serve, monkeypatch):
    monkeypatch.setattr(session_module, "_IDLE_SECONDS", 1000)
    async with serve() as house:
        client = await house.at_data()
        client.write(b"x" * 1_000_000)
        (session,) = house.server.connections.open
        await house.until(lambda: house.received_bytes() == 1_000_000)
        now = house.server.connections.loop.time()
        for still_there in (True, False):
            now += 301
            house.server.close_idle(now)
            assert session.conversation.closed != still_there
        assert await client.rest() == str(replies.TIMEOUT) + "\r\n"
