"""If all connections are in use, the longest idle client without an open or recent transaction is disconnected."""

import pytest

from tmpmaild.smtp import connections, replies, session

MAIL = ("EHLO client.example", "MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>")
GREETING = "220 mx.ours.test ESMTP"
IDLE = f"{replies.IDLE}\r\n"
REFUSED = f"{replies.TOO_MANY_CONNECTIONS}\r\n"
SLOWER = 50


@pytest.fixture(autouse=True)
def limits_in_which_a_test_takes_no_time(monkeypatch):
    for module, name in (
        (session, "_IDLE_AMONG_MANY_SECONDS"),
        (session, "_IDLE_IN_TRANSACTION_SECONDS"),
        (connections, "_CLOSE_IDLE_INTERVAL_SECONDS"),
    ):
        monkeypatch.setattr(module, name, SLOWER * getattr(module, name))


async def client_of(house, number):
    """Connect from a separate IP address; return the client and the greeting."""
    client = await house.connect(local_addr=(f"127.0.0.{number}", 0))
    return client, await client.reply()


def silent(house, seconds):
    """Move every client's last activity back by this many seconds, scaled by the same factor as the limits."""
    last = house.server.connections.open
    for one, active_at in last.items():
        last[one] = active_at - SLOWER * seconds
        one._active_at -= SLOWER * seconds


async def test_the_client_that_was_silent_longest_gives_way(serve, caplog):
    caplog.set_level("INFO")
    async with serve(max_connections=3) as house:
        first, second, third = [(await client_of(house, number))[0] for number in (2, 3, 4)]
        silent(house, 1)  # The last activity is recorded only once a second.
        await first.say("EHLO client.example")  # Now the second client has been silent for the longest time.
        silent(house, 2)
        assert (await client_of(house, 5))[1].startswith(GREETING)
        assert await second.rest() == IDLE
        assert "SMTP from 127.0.0.3 refused: 421 4.4.2 Idle" in caplog.text
        assert (await client_of(house, 6))[1].startswith(GREETING)
        assert await third.rest() == IDLE
        await house.until(lambda: len(house.server.connections.open) == 3)
        assert await first.say("NOOP") == [str(replies.OK)]


async def test_many_new_clients_at_once_do_not_displace_active_clients(serve):
    async with serve(max_connections=10) as house:
        clients = [(await client_of(house, 10 + number))[0] for number in range(10)]
        silent(house, 2)
        active = clients[4]
        await active.say("EHLO client.example")
        said = [(await client_of(house, 30 + number))[1][:3] for number in range(20)]
        assert said == ["220"] * 9 + ["421"] * 11
        assert await active.say("NOOP") == [str(replies.OK)]
        await house.until(lambda: len(house.server.connections.open) == 10)


async def test_a_transaction_may_pause_longer(serve):
    async with serve(max_connections=1) as house:
        client, _ = await client_of(house, 2)
        await client.say(*MAIL)
        silent(house, 19)
        assert await (await house.connect()).rest() == REFUSED
        silent(house, 2)
        assert (await client_of(house, 3))[1].startswith(GREETING)
        assert await client.rest() == IDLE


async def test_a_message_that_is_being_received_or_stored_does_not_give_way(serve):
    async with serve(max_connections=2) as house:
        incoming, _ = await client_of(house, 2)
        await incoming.say(*MAIL, "DATA")
        stored, _ = await client_of(house, 3)
        await stored.say(*MAIL, "DATA")
        storing = list(house.server.connections.open)[-1]
        silent(house, 200)
        storing._waiting = True  # set while a message is being stored
        assert await (await house.connect()).rest() == REFUSED
        storing._waiting = False
        for client in (incoming, stored):
            assert (await client.say("Subject: x\r\n."))[0].startswith("250 2.0.0 Ok: stored as")


async def test_a_client_over_its_limit_takes_no_slot_from_others(serve):
    async with serve(max_connections=2, max_connections_per_client=1) as house:
        first, _ = await client_of(house, 2)
        second, _ = await client_of(house, 3)
        silent(house, 100)
        assert (await client_of(house, 3))[1] == REFUSED.removesuffix("\r\n")
        assert await first.say("NOOP") == await second.say("NOOP") == [str(replies.OK)]


async def test_a_session_that_does_not_give_way_is_not_tried_again_at_once(serve):
    async with serve(max_connections=5) as house:
        for number in range(5):
            client, _ = await client_of(house, 2 + number)
            await client.say(*MAIL)
        silent(house, 3)
        asked = []
        for one in house.server.connections.open:
            one.close_if_idle = lambda now: asked.append(now) or False
        for _ in range(3):
            assert await (await house.connect()).rest() == REFUSED
        assert len(asked) == 5


@pytest.mark.parametrize("secure", [False, True])
async def test_a_client_that_does_not_read_is_also_disconnected(serve, certificate, secure):
    async with serve(max_connections=1, tls=certificate[0]) as house:
        client, _ = await client_of(house, 2)
        if secure:
            await client.say("EHLO client.example", "STARTTLS")
            await client.start_tls(certificate[1])
            await client.say("EHLO client.example")
        client.writer.transport.pause_reading()
        silent(house, 2)
        assert (await client_of(house, 3))[1].startswith(GREETING)
        await house.until(lambda: len(house.server.connections.open) == 1)
