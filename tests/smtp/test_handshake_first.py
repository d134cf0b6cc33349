"""Implicit TLS: the conversation and the limits are the same as with STARTTLS."""

import asyncio
import socket
from ipaddress import ip_network

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.smtp import handshake, replies

GREETING = "220 mx.ours.test ESMTP"
MAIL = ("EHLO client.example", "MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")
PROXY = [ip_network("127.0.0.1/32")]


async def connect(house, context):
    return await house.connect(ssl=context, server_hostname="localhost")


async def test_a_message_is_received_over_tls_and_starttls_is_not_offered(serve, certificate):
    ours, theirs = certificate
    async with serve(tls=ours, tls_first=True) as house:
        client = await connect(house, theirs)
        assert (await client.reply()).startswith(GREETING)
        client.send(MAIL[0])
        offered = [await client.line() for _ in range(6)]
        assert offered[-1].startswith("250 ")
        assert "250-STARTTLS" not in offered
        assert await client.say("STARTTLS") == [str(replies.BAD_SEQUENCE)]
        assert (await client.say(*MAIL[1:]))[-1].startswith("354")
        assert (await client.say("Subject: sealed\r\n."))[0].startswith("250 2.0.0 Ok: stored as")
        assert house.read("SELECT tls FROM content") == [(1,)]
        assert await client.say("QUIT") == [str(replies.BYE)]
        await house.until(lambda: not house.server.connections.open)


@pytest.mark.parametrize("octets", [b"EHLO client.example\r\nQUIT\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01junk"])
async def test_a_client_without_tls_learns_nothing_about_the_server(serve, certificate, octets):
    async with serve(tls=certificate[0], tls_first=True) as house:
        client = await house.connect()
        client.write(octets)
        client.writer.write_eof()
        assert "mx.ours.test" not in (await client.rest())
        await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)
        assert not house.server.connections.per_client


async def test_a_handshake_that_does_not_start_is_abandoned(serve, certificate, monkeypatch):
    monkeypatch.setattr(handshake, "_HANDSHAKE_SECONDS", 0.05)
    async with serve(tls=certificate[0], tls_first=True) as house:
        assert await (await house.connect()).rest() == ""
        await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)


async def test_a_client_without_a_completed_handshake_does_not_delay_a_stop(serve, certificate):
    async with serve(tls=certificate[0], tls_first=True) as house:
        client = await house.connect()
        await house.until(lambda: house.server.connections.open)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await house.server.stop(60)
        assert await client.rest() == ""
        await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)


async def test_a_client_without_a_completed_handshake_counts_and_gives_way(serve, certificate):
    ours, theirs = certificate
    async with serve(tls=ours, tls_first=True, max_connections=2, max_connections_per_client=3) as house:
        silent = [await house.connect() for _ in range(2)]
        connections = house.server.connections
        await house.until(lambda: len(connections.open) == 2)
        assert await (await house.connect()).rest() == ""  # both silent clients may still be in their handshake
        connections.open.update(dict.fromkeys(connections.open, -10.0))
        for session in connections.open:
            session._active_at = -10.0
        assert (await (await connect(house, theirs)).reply()).startswith(GREETING)
        assert await silent[0].rest() == ""


async def test_a_client_has_a_limited_number_of_connections_and_is_refused_without_a_reply(serve, certificate):
    ours, theirs = certificate
    async with serve(tls=ours, tls_first=True, max_connections_per_client=1) as house:
        assert (await (await connect(house, theirs)).reply()).startswith(GREETING)
        assert await (await house.connect()).rest() == ""


@pytest.mark.parametrize(
    ("header", "client"),
    [
        pytest.param(b"PROXY TCP4 192.0.2.1 127.0.0.1 40000 465\r\n", "192.0.2.1", id="version 1"),
        pytest.param(
            b"\r\n\r\n\x00\r\nQUIT\n!\x11\x00\x13\xc0\x00\x02\x01\x7f\x00\x00\x01\x9c@\x01\xd1 \x00\x04rest",
            "192.0.2.1",
            id="version 2",
        ),
        pytest.param(b"PROXY UNKNOWN\r\n", "127.0.0.1", id="no client"),
    ],
)
async def test_the_header_of_a_proxy_comes_before_tls(serve, certificate, header, client):
    ours, theirs = certificate
    async with serve(tls=ours, tls_first=True, trusted_proxies=PROXY) as house:
        proxy = await house.connect()
        # The hello follows within 200 ms, so it is sent in the same packet as the header.
        proxy.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        proxy.write(header)
        await proxy.start_tls(theirs)
        await proxy.begin()
        assert (await proxy.say("Subject: x\r\n."))[0].startswith("250 2.0.0 Ok: stored as")
        assert house.read("SELECT remote_ip, tls FROM content") == [(client, 1)]


@pytest.mark.parametrize(
    ("program", "arguments", "octets"),
    [
        pytest.param(
            "swaks",
            ["--tlsc", "--server", "localhost:{port}", "--to", "abc@ours.test", "--from", "a@example.com"],
            b"",
            id="swaks",
        ),
        pytest.param(
            "curl",
            [
                "-sSk",
                "smtps://localhost:{port}",
                "--mail-from",
                "a@example.com",
                "--mail-rcpt",
                "abc@ours.test",
                "--upload-file",
                "-",
            ],
            b"Subject: x\r\n\r\nhello\r\n",
            id="curl",
        ),
        pytest.param(
            "openssl",
            ["s_client", "-connect", "localhost:{port}", "-quiet", "-verify_quiet"],
            b"EHLO client.example\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<abc@ours.test>\r\nDATA\r\nSubject: x\r\n.\r\nQUIT\r\n",
            id="openssl",
        ),
    ],
)
async def test_real_clients_send_their_mail(serve, certificate, program, arguments, octets):
    async with serve(tls=certificate[0], tls_first=True) as house:
        await house.run(program, arguments, octets)
        await house.until(house.sources)
