"""Mail over TLS: nothing said in the clear counts, and a handshake that fails leaves nothing behind."""

import asyncio

import aiosmtplib
import pytest

from tmpmaild.model import Page
from tmpmaild.smtp import replies

MAIL = ("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")


async def start_tls(client, context):
    """Shake hands; StreamWriter.start_tls is not to be had with uvloop on Python 3.11."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    async with asyncio.timeout(10):
        transport = await loop.start_tls(client.writer.transport, protocol, context, server_hostname="localhost")
    reader.set_transport(transport)
    client.plain = client.writer  # it would close the transport if it were collected
    client.reader, client.writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def test_a_mail_comes_over_tls(serve, certificate):
    ours, theirs = certificate
    async with serve(tls=ours) as house:
        client = await house.connect()
        await client.reply()
        await client.say("EHLO client.example", MAIL[0])
        assert await client.say("STARTTLS") == [replies.READY_FOR_TLS]
        await start_tls(client, theirs)
        assert await client.say(*MAIL) == [replies.BAD_SEQUENCE, replies.BAD_SEQUENCE, replies.BAD_SEQUENCE]
        said = await client.say("EHLO client.example", *MAIL)
        assert said[-1].startswith("354")
        assert (await client.say("Subject: sealed\r\n."))[0].startswith("250 2.0.0 Ok: stored as")
        assert await client.say("STARTTLS") == [replies.BAD_SEQUENCE]
        assert (await house.service.list_messages("abc@ours.test", Page())).messages[0].subject == "sealed"
        await client.say("QUIT")
        await house.until(lambda: not house.server._sessions)


async def test_what_comes_in_the_clear_with_starttls_is_thrown_away(serve, certificate):
    ours, theirs = certificate
    async with serve(tls=ours) as house:
        client = await house.connect()
        await client.reply()
        client.send("STARTTLS", "EHLO mallory.example", *MAIL)
        assert await client.reply() == replies.READY_FOR_TLS
        await start_tls(client, theirs)
        assert await client.say("NOOP", MAIL[1]) == [replies.OK, replies.BAD_SEQUENCE]


async def test_aiosmtplib_upgrades_and_sends(serve, certificate):
    ours, theirs = certificate
    async with serve(tls=ours) as house:
        host, port = house.address
        client = aiosmtplib.SMTP(hostname=host, port=port, timeout=10, start_tls=False)
        await client.connect()
        await client.starttls(tls_context=theirs, server_hostname="localhost")
        await client.sendmail("a@example.com", ["abc@ours.test"], b"Subject: " + b"x" * 300_000 + b"\r\n")
        await client.quit()
        assert len(house.sources()) == 1


@pytest.mark.parametrize("how", ["garbage", "reset", "half-close"])
async def test_a_handshake_that_fails_leaves_nothing_behind(serve, certificate, how, caplog):
    async with serve(tls=certificate[0]) as house:
        client = await house.connect()
        await client.reply()
        assert await client.say("STARTTLS") == [replies.READY_FOR_TLS]
        if how == "garbage":
            client.send("EHLO this is no handshake", "x" * 1000)
        elif how == "reset":
            client.reset()
        else:
            client.writer.write_eof()
        await house.until(lambda: not house.server._sessions)
        assert not house.server._per_client
        assert "Traceback" not in caplog.text


async def test_a_stop_within_a_handshake_leaves_nothing_behind(serve, certificate):
    async with serve(tls=certificate[0]) as house:
        client = await house.connect()
        await client.reply()
        assert await client.say("STARTTLS") == [replies.READY_FOR_TLS]
        await house.server.stop(0.05)
        await house.until(lambda: not house.server._sessions and not house.server.tasks)
