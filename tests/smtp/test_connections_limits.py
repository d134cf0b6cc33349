"""Refusals and disconnections by the server: connection counts, blocks, memory and internal errors."""

import asyncio
import re
from ipaddress import ip_network

import pytest

from tmpmaild.model import Block
from tmpmaild.smtp import connections, replies
from tmpmaild.smtp.memory import ALLOWANCE_BYTES

MAIL = ("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")
OTHER = ("127.0.0.2", 0)
LOCALHOST = ip_network("127.0.0.0/8")


# Limits on the number of connections


async def test_a_limit_of_zero_means_unlimited(serve):
    limits = {"max_connections": 0, "max_connections_per_client": 0, "new_connections_per_minute": 0}
    async with serve(**limits) as house:
        assert [(await (await house.connect()).reply())[:3] for _ in range(60)] == ["220"] * 60


async def test_the_limit_on_tried_names_covers_all_sessions_of_a_client(serve):
    async with serve(unknown_recipients_burst=3, unknown_recipients_per_minute=1) as house:
        said = []
        for name in ("one", "two", "three", "four", "abc", "postmaster"):
            client = await house.greeted()
            said += (await client.say("MAIL FROM:<a@example.com>", f"RCPT TO:<{name}@ours.test>", "QUIT"))[1:2]
        assert said == [str(replies.UNKNOWN_RECIPIENT)] * 3 + [str(replies.UNKNOWN_TOO_OFTEN)] * 3
        await house.at_data(local_addr=OTHER)


async def test_a_session_that_keeps_naming_unknown_recipients_is_closed(talk):
    async with talk(unknown_recipients_burst=1, max_unknown_recipients=3) as (_, client):
        said = await client.say("MAIL FROM:<a@example.com>", *["RCPT TO:<no@ours.test>"] * 4)
        assert [reply[:9] for reply in said[1:]] == ["550 5.1.1", "450 4.7.1", "450 4.7.1", "421 4.7.0"]


async def test_an_exempt_network_may_name_any_number_of_unknown_recipients(talk):
    limits = {"unknown_recipients_burst": 1, "max_unknown_recipients": 0}
    async with talk(**limits, exempt=[LOCALHOST]) as (_, client):
        said = await client.say("MAIL FROM:<a@example.com>", *["RCPT TO:<no@ours.test>"] * 20)
        assert {reply[:9] for reply in said[1:]} == {"550 5.1.1"}


async def test_a_client_and_a_sender_that_are_blocked_are_refused(serve):
    async with serve() as house:
        client = await house.greeted()
        house.service.blocks.add([Block("client", "127.0.0.0/8", 0), Block("sender", "spam.example", 0)])
        assert await client.say("MAIL FROM:<a@spam.example>") == [str(replies.BLOCKED_SENDER)]
        assert await (await house.connect()).rest() == f"{replies.BLOCKED_CLIENT}\r\n"


# The limit on the memory of all sessions


async def test_memory_for_a_declared_size_is_reserved_at_the_start(serve):
    async with serve(max_inflight_bytes=100_000) as house:
        first, second = await house.connect(), await house.connect(local_addr=OTHER)
        size = ALLOWANCE_BYTES + 60_000
        for client, answer in ((first, "354"), (second, "452")):
            await client.reply()
            said = await client.say("EHLO client.example", f"MAIL FROM:<> SIZE={size}", MAIL[1], "DATA")
            assert said[-1][:3] == answer
        assert (await first.say("x" * 60_000 + "\r\n."))[0].startswith("250")
        assert (await second.say("DATA"))[0].startswith("354")


async def test_memory_for_a_declared_size_is_released_if_the_message_does_not_arrive(serve):
    async with serve(max_inflight_bytes=100_000) as house:
        client = await house.connect()
        await client.reply()
        await client.say("EHLO client.example", f"MAIL FROM:<> SIZE={ALLOWANCE_BYTES + 60_000}", MAIL[1], "DATA")
        house.server.close_idle(house.server.connections.loop.time() + 15)
        assert house.server.connections.memory.held_bytes == 60_000
        house.server.close_idle(house.server.connections.loop.time() + 31)
        assert house.server.connections.memory.held_bytes == 0
        assert (await client.say("late\r\n."))[0].startswith("250")


async def test_small_mail_is_accepted_while_large_mail_takes_all_the_memory(serve):
    async with serve(max_inflight_bytes=100_000) as house:
        large, small = await house.at_data(), await house.connect()
        large.write(b"x" * (ALLOWANCE_BYTES + 99_000))
        await house.until(lambda: house.server.connections.memory.held_bytes > 98_000)
        await small.begin()
        assert (await small.say("x" * (ALLOWANCE_BYTES - 10) + "\r\n."))[0].startswith("250")


async def test_one_client_may_use_half_of_the_memory_and_a_second_client_the_rest(serve):
    async with serve(max_inflight_bytes=300_000, max_message_bytes=150_000) as house:
        first, second, other = [await house.at_data(local_addr=(f"127.0.0.{host}", 0)) for host in (1, 1, 2)]
        first.write(b"x" * (ALLOWANCE_BYTES + 80_000))
        await house.until(lambda: house.server.connections.memory.held_bytes > 79_000)
        for client, answer in ((second, "452"), (other, "250")):
            client.write(b"x" * (ALLOWANCE_BYTES + 80_000))
            assert (await client.say("\r\n."))[0][:3] == answer


async def test_full_memory_has_its_own_reply_log_line_and_metric(serve, caplog):
    caplog.set_level("INFO", "tmpmaild.smtp.connections")
    async with serve(max_inflight_bytes=100_000) as house:
        client = await house.at_data()
        client.write(b"x" * (ALLOWANCE_BYTES + 110_000))
        (session,) = house.server.connections.open
        await house.until(lambda: house.received_bytes() > 110_000 and session.conversation.data.held_bytes < 10)
        assert await client.say("\r\n.") == ["452 4.3.2 Too much mail is arriving at once, try again later"]
        (counted,) = [one for one in house.server.metrics() if one.name == "smtp_memory_refusals_total"]
        assert counted.values() == {(): 1}
    (line,) = caplog.messages
    assert line.endswith(
        "refused: 452 4.3.2 Too much mail is arriving at once, try again later (smtp.max_inflight_bytes is reached)"
    )


class Slow:
    """A deliverer with slow storage."""

    def __init__(self, deliverer):
        self._deliverer = deliverer
        self.may_go_on = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._deliverer, name)

    async def deliver(self, *mail):
        await self.may_go_on.wait()
        return await self._deliverer.deliver(*mail)


async def test_a_message_counts_until_it_is_stored_even_if_its_client_has_disconnected(serve):
    async with serve(wrap=Slow) as house:
        client = await house.at_data()
        client.write(b"x" * (ALLOWANCE_BYTES + 50_000) + b"\r\n.\r\n")
        await house.until(lambda: house.server.connections.tasks)
        assert house.server.connections.memory.held_bytes == 50_002
        client.reset()
        await house.until(lambda: not house.server.connections.open)
        assert house.server.connections.memory.held_bytes == 50_002
        house.service.deliverer.may_go_on.set()
        await house.until(lambda: house.server.connections.memory.held_bytes == 0)
        assert len(house.sources()) == 1


# Internal errors


class Broken:
    """A deliverer in which the methods listed in ``fails`` raise an error."""

    def __init__(self, deliverer):
        self._deliverer = deliverer
        self.fails = set()

    def __getattr__(self, name):
        if name in self.fails:
            raise RuntimeError(f"secret/path.py at {name}")
        return getattr(self._deliverer, name)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        pytest.param("has_room", ["451", "503", "554"], id="at MAIL"),
        pytest.param("recipient_now", ["250", "451", "554"], id="at RCPT, from memory"),
        pytest.param("recipient", ["250", "451", "554"], id="at RCPT, from the database"),
        pytest.param("deliver", ["250", "250", "354", "451"], id="at the final dot"),
    ],
)
async def test_an_internal_error_is_temporary_and_the_session_continues(serve, caplog, where, expected):
    async with serve(wrap=Broken) as house:
        house.service.caches.recipients.forget("2")  # no longer cached, so the database is queried
        house.service.deliverer.fails = {where}
        client = await house.greeted()
        said = await client.say(*MAIL)
        if said[-1].startswith("354"):
            said += await client.say("Subject: secret-subject\r\n.")
        assert [reply[:3] for reply in said] == expected
        assert str(replies.OUR_FAULT) in said
        assert not any("secret" in reply for reply in said)
        house.service.deliverer.fails = set()
        assert (await client.say("RSET", *MAIL, "."))[-1].startswith("250 2.0.0 Ok: stored as")
        (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert re.fullmatch(r"SMTP request failed, id [0-9a-f]{8}", record.getMessage())
        assert "secret-subject" not in caplog.text
        assert "abc@ours.test" not in caplog.text


async def test_an_internal_error_outside_of_any_request_ends_the_session_with_a_reply(serve):
    async with serve() as house:
        client = await house.connect()
        await client.reply()
        (session,) = house.server.connections.open
        session.conversation.next_request = None
        client.send("NOOP")
        assert await client.rest() == str(replies.OUR_FAULT) + "\r\n"
        await house.until(lambda: not house.server.connections.open)


# Messages that cannot be stored


async def test_sessions_take_turns_reading_discarded_mail(serve, monkeypatch):
    async with serve(max_message_bytes=1000) as house:
        with monkeypatch.context() as slower:
            slower.setattr(connections, "_DRAIN_SECONDS", 20)
            assert house.server.connections.seconds_to_drain() <= 21
            assert 30 < house.server.connections.seconds_to_drain() <= 41
        house.server.connections._next_drain_at = 0.0
        clients = [await house.at_data() for _ in range(3)]
        for client in clients:
            client.write(b"x" * 3000)
        for client in clients:
            assert (await client.say("\r\n."))[0] == str(replies.MESSAGE_TOO_BIG)
            assert (await client.say(*MAIL, "small\r\n."))[-1].startswith("250")
