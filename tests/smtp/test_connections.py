"""Connection limits, in total and per minute; a refused client gets 421 instead of the greeting."""

import socket
from ipaddress import ip_network

import pytest
from msgspec.structs import replace

from tmpmaild.smtp import replies

pytestmark = pytest.mark.both_loops

REFUSED = "421 4.7.0 Too many connections, try again later\r\n"
GREETING = "220 mx.ours.test ESMTP"


async def greeting(house, ip="127.0.0.1"):
    client = await house.connect(local_addr=(ip, 0))
    return client, await client.reply()


async def is_refused(house, ip="127.0.0.1"):
    return await (await house.connect(local_addr=(ip, 0))).rest() == REFUSED


@pytest.mark.parametrize("how", ["quit", "close", "reset", "half-close"])
async def test_a_slot_is_free_again_after_any_end_of_a_connection(serve, how):
    async with serve(max_connections_per_client=1, max_connections=1) as house:
        client, _ = await greeting(house)
        assert await is_refused(house)
        if how == "quit":
            assert await client.say("QUIT") == ["221 2.0.0 Bye"]
        elif how == "half-close":
            client.writer.write_eof()
        else:
            getattr(client, how)()
        await house.until(lambda: not house.server.connections.open)
        _, said = await greeting(house)
        assert said.startswith(GREETING)
        assert house.server.connections.per_client == {"127.0.0.1": 1}


async def test_new_settings_apply_to_the_next_connection_and_an_unchanged_rate_limit_is_not_reset(serve):
    async with serve(max_connections_per_client=1, new_connections_per_minute=3) as house:
        server = house.server
        client, _ = await greeting(house)
        assert await is_refused(house)
        server.change_settings(replace(server.connections.settings, max_connections_per_client=9), None)
        await greeting(house)
        await greeting(house)
        assert await is_refused(house)  # this is the fourth connection within a minute
        server.change_settings(replace(server.connections.settings, exempt=(ip_network("127.0.0.0/8"),)), None)
        await greeting(house)
        server.change_settings(replace(server.connections.settings, exempt=(), new_connections_per_minute=1), None)
        await greeting(house)
        assert await is_refused(house)
        assert await client.say("NOOP") == ["250 2.0.0 Ok"]


async def test_an_open_session_keeps_its_announced_size_limit(talk):
    async with talk(max_message_bytes=4000) as (house, client):
        house.server.change_settings(replace(house.server.connections.settings, max_message_bytes=2000), None)
        mail = "x" * 3000
        assert (await client.deliver("abc", mail=mail)).startswith("250")
        other = await house.greeted()
        assert await other.deliver("abc", mail=mail) == str(replies.MESSAGE_TOO_BIG)


async def test_a_refused_client_is_not_read(serve):
    async with serve(max_connections=1) as house:
        await greeting(house)
        client = await house.connect()
        client.send("EHLO client.example", "MAIL FROM:<>", "RCPT TO:<abc@ours.test>", "DATA", "x", ".")
        assert await client.rest() in (REFUSED, "")  # the reply may be lost, because the client has already sent data
        assert house.sources() == []


async def test_only_exempt_networks_are_exempt(serve):
    limits = {"max_connections_per_client": 1, "new_connections_per_minute": 1}
    async with serve(**limits, exempt=[ip_network("127.0.0.2/32"), ip_network("2001:db8::/32")]) as house:
        for _ in range(3):
            _, said = await greeting(house, "127.0.0.2")
            assert said.startswith(GREETING)
        _, said = await greeting(house)
        assert said.startswith(GREETING)
        assert await is_refused(house)


async def test_connections_of_a_client_are_limited_per_minute_even_after_they_end(serve):
    async with serve(new_connections_per_minute=2) as house:
        for _ in range(2):
            client, said = await greeting(house)
            assert said.startswith(GREETING)
            client.close()
        await house.until(lambda: not house.server.connections.open)
        assert await is_refused(house)
        _, said = await greeting(house, "127.0.0.2")
        assert said.startswith(GREETING)


async def test_an_ipv4_client_of_a_dual_stack_listener_has_its_ipv4_address(serve):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    async with serve(max_connections_per_client=1, listener=listener) as house:
        house.address = ("127.0.0.1", house.address[1])
        assert (await (await house.connect()).reply()).startswith(GREETING)
        assert await (await house.connect()).rest() == REFUSED
        assert house.server.connections.per_client.keys() == {"127.0.0.1"}
