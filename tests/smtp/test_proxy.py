"""SMTP behind a load balancer: no greeting is sent before the PROXY header, which then identifies the client."""

import asyncio
import logging
from ipaddress import ip_network

import pytest

from tmpmaild.smtp import replies

pytestmark = pytest.mark.both_loops

PROXY = [ip_network("127.0.0.1/32")]
HEADER = b"PROXY TCP4 192.0.2.1 127.0.0.1 40000 25\r\n"
OTHER = b"PROXY TCP4 192.0.2.2 127.0.0.1 40000 25\r\n"
GREETING = "220 mx.ours.test ESMTP"
MAIL = ("EHLO client.example", "MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")


async def through_proxy(house, header=HEADER, **options):
    client = await house.connect(**options)
    client.write(header)
    return client


@pytest.mark.parametrize(
    ("header", "ip"),
    [
        pytest.param(b"PROXY TCP4 192.0.2.1 127.0.0.1 40000 25\r\n", "192.0.2.1", id="version 1"),
        pytest.param(
            b"\r\n\r\n\x00\r\nQUIT\n!\x11\x00\x0c\xc0\x00\x02\x01\x7f\x00\x00\x01\x9c@\x00\x19",
            "192.0.2.1",
            id="version 2",
        ),
        pytest.param(b"\r\n\r\n\x00\r\nQUIT\n \x00\x00\x00", "127.0.0.1", id="health check of version 2"),
        pytest.param(b"PROXY UNKNOWN\r\n", "127.0.0.1", id="health check of version 1"),
    ],
)
async def test_mail_is_from_the_client_that_the_header_names(serve, header, ip):
    async with serve(trusted_proxies=PROXY) as house:
        client = await through_proxy(house, header)
        await client.begin()
        assert (await client.say("Subject: x\r\n."))[0].startswith("250 ")
        assert house.read("SELECT remote_ip FROM content") == [(ip,)]
        assert house.server.connections.per_client == {ip: 1}
        client.close()
        await house.until(lambda: not house.server.connections.open)
        assert not house.server.connections.per_client


async def test_the_greeting_waits_for_the_header_however_it_is_split(serve):
    async with serve(trusted_proxies=PROXY) as house:
        client = await house.connect()
        for octet in HEADER[:-1]:
            client.write(bytes([octet]))
        await house.until(lambda: [len(one.received) for one in house.server.connections.open] == [len(HEADER) - 1])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.reader.read(1)
        client.write(HEADER[-1:])
        assert (await client.reply()).startswith(GREETING)


async def test_bytes_sent_with_the_header_are_read_after_it(serve):
    async with serve(trusted_proxies=PROXY) as house:
        client = await through_proxy(house, HEADER + b"NOOP\r\n" + HEADER + b"QUIT\r\n")
        assert (await client.replies(4))[1:] == [str(replies.OK), str(replies.UNKNOWN_COMMAND), str(replies.BYE)]
        tls = await through_proxy(house, HEADER + b"\x16\x03\x01\x02\x00\x01\x00")
        assert (await tls.replies(2))[1] == str(replies.TLS_RECEIVED)


async def test_the_client_stays_the_same_under_tls(serve, certificate):
    ours, theirs = certificate
    async with serve(trusted_proxies=PROXY, tls=ours) as house:
        client = await through_proxy(house)
        await client.reply()
        await client.say("STARTTLS")
        await client.start_tls(theirs)
        assert (await client.say(*MAIL))[-1].startswith("354")
        assert (await client.say("Subject: x\r\n."))[0].startswith("250 ")
        assert house.read("SELECT remote_ip, tls FROM content") == [("192.0.2.1", 1)]


async def test_limits_apply_to_the_client_and_not_to_the_proxy(serve, caplog):
    caplog.set_level(logging.INFO)
    async with serve(trusted_proxies=PROXY, max_connections_per_client=1, new_connections_per_minute=1) as house:
        assert (await (await through_proxy(house)).reply()).startswith(GREETING)
        assert (await (await through_proxy(house, OTHER)).reply()).startswith(GREETING)
        assert await (await through_proxy(house)).rest() == f"{replies.TOO_MANY_CONNECTIONS}\r\n"
        assert "SMTP connection from 192.0.2.1 refused: smtp.max_connections_per_client" in caplog.text


async def test_the_total_limit_includes_clients_that_are_not_identified_yet(serve):
    async with serve(trusted_proxies=PROXY, max_connections=1) as house:
        await house.connect()
        await house.until(lambda: house.server.connections.open)
        assert await (await house.connect()).rest() == f"{replies.TOO_MANY_CONNECTIONS}\r\n"
        assert not house.server.connections.per_client


async def test_an_untrusted_client_is_greeted_and_its_header_is_not_a_command(serve):
    async with serve(trusted_proxies=PROXY) as house:
        client = await house.connect(local_addr=("127.0.0.2", 0))
        assert (await client.reply()).startswith(GREETING)
        client.write(HEADER)
        assert await client.reply() == str(replies.UNKNOWN_COMMAND)
        assert house.server.connections.per_client == {"127.0.0.2": 1}


@pytest.mark.parametrize("octets", [b"EHLO client.example\r\n", b"PROXY TCP4 192.0.2.1\r\n", b"\x16\x03\x01"])
async def test_a_proxy_with_an_invalid_header_is_disconnected_without_a_reply(serve, octets, caplog):
    async with serve(trusted_proxies=PROXY) as house:
        assert await (await through_proxy(house, octets)).rest() == ""
        await house.until(lambda: not house.server.connections.open)
        assert "SMTP: the PROXY header from 127.0.0.1 is invalid: " in caplog.text
        assert f"it starts with {octets[:32]!r}" in caplog.text


async def test_a_proxy_that_sends_no_header_is_disconnected_in_time(serve, caplog):
    async with serve(trusted_proxies=PROXY) as house:
        client = await through_proxy(house, HEADER[:10])
        await house.until(lambda: house.server.connections.open)
        now = house.server.connections.loop.time()
        house.server.close_idle(now + 3)
        assert not caplog.records
        house.server.close_idle(now + 6)
        assert await client.rest() == ""
        await house.until(lambda: not house.server.connections.open)
        assert "SMTP: the PROXY header from 127.0.0.1 did not arrive in time" in caplog.text


async def test_a_silent_health_check_is_not_logged(serve, caplog):
    caplog.set_level(logging.INFO)
    async with serve(trusted_proxies=PROXY) as house:
        (await house.connect()).close()
        (await through_proxy(house, HEADER[:10])).close()
        await house.until(lambda: not house.server.connections.open)
        assert not caplog.records


async def test_a_stop_does_not_wait_for_a_header(serve):
    async with serve(trusted_proxies=PROXY) as house:
        client = await house.connect()
        await house.until(lambda: house.server.connections.open)
        await house.server.stop(10)
        assert await client.rest() == f"{replies.STOPPING}\r\n"
        assert not house.server.connections.open
