"""Faults requested for an address, as SMTP clients see them."""

import asyncio
import logging

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.inboxes.faults import Fault
from tmpmaild.smtp import replies

GREYLISTED = "451 4.7.1 Greylisted"
START = ("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>")
LONG = 60


@pytest.fixture
async def house(serve):
    async with serve(names=("abc", "def"), faults=True) as opened:
        yield opened


async def tried(client):
    """Try to send a message; return the reply to each step until one is refused."""
    said = []
    for line in (*START, "DATA", "Subject: x\r\n\r\nhello\r\n."):
        said += await client.say(line)
        if said[-1][0] in "45":
            await client.say("RSET")
            break
    return said


@pytest.mark.parametrize(("at", "step"), [("rcpt", 1), ("data", 2), ("end", 3)])
async def test_a_step_is_refused_as_often_as_requested(house, at, step):
    await house.order("abc", Fault(at, GREYLISTED, times=2))
    client = await house.greeted()
    for _ in range(2):
        said = await tried(client)
        assert (len(said) - 1, said[-1]) == (step, GREYLISTED)
        assert await house.messages("abc") == ()
    assert (await tried(client))[-1].startswith("250 ")
    assert len(await house.messages("abc")) == 1


@pytest.mark.parametrize("at", ["rcpt", "data", "end"])
async def test_421_closes_the_connection(house, at):
    await house.order("abc", Fault(at, "421 4.3.0 Going down"))
    client = await house.greeted()
    client.send(*START, "DATA", "Subject: x\r\n\r\nhello\r\n.", "NOOP")
    assert (await client.rest()).splitlines()[-1] == "421 4.3.0 Going down"
    assert await house.messages("abc") == ()


async def test_other_recipients_are_accepted_although_one_recipient_is_refused(house):
    await house.order("abc", Fault("rcpt", GREYLISTED))
    client = await house.greeted()
    said = await client.say(*START, "RCPT TO:<def@ours.test>", "DATA", "Subject: x\r\n\r\nhello\r\n.")
    assert [reply[:3] for reply in said] == ["250", "451", "250", "354", "250"]
    assert (len(await house.messages("abc")), len(await house.messages("def"))) == (0, 1)


async def test_forty_transactions_at_once_use_up_exactly_the_requested_faults(house):
    await house.order("abc", Fault("rcpt", GREYLISTED, times=17), Fault("end", "452 4.2.2 Full", times=9))
    clients = await asyncio.gather(*(house.greeted() for _ in range(40)))
    said = await asyncio.gather(*map(tried, clients))
    last = [one[-1][:3] for one in said]
    assert (last.count("451"), last.count("452"), last.count("250")) == (17, 9, 14)
    assert len(await house.messages("abc")) == 14


@pytest.mark.parametrize("at", ["rcpt", "data", "end"])
async def test_a_delay_alone_delays_the_usual_reply(house, at):
    await house.order("abc", Fault(at, delay_seconds=0.05))
    client = await house.greeted()
    begun = asyncio.get_running_loop().time()
    assert (await tried(client))[-1].startswith("250 ")
    assert asyncio.get_running_loop().time() - begun >= 0.05
    assert len(await house.messages("abc")) == 1


async def delayed(house, at, **more):
    """Return a client whose delivery has reached a step that is delayed by a minute."""
    await house.order("abc", Fault(at, delay_seconds=LONG, **more))
    client = await house.greeted()
    client.send(*START, *(["DATA"] if at != "rcpt" else []), *(["Subject: x\r\n\r\nhello\r\n."] if at == "end" else []))
    await house.until(lambda: not len(house.service.faults))
    return client


async def test_a_delay_does_not_delay_other_clients(house):
    for at in ("rcpt", "data", "end"):
        await delayed(house, at)
    other = await house.greeted()
    assert (await other.deliver("abc")).startswith("250 ")


@pytest.mark.parametrize("at", ["rcpt", "data", "end"])
@pytest.mark.parametrize("leave", ["close", "reset", "write_eof"])
async def test_a_client_that_leaves_ends_its_delay_and_nothing_is_stored(house, at, leave):
    client = await delayed(house, at)
    client.writer.write_eof() if leave == "write_eof" else getattr(client, leave)()
    await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)
    assert house.server.connections.memory.held_bytes == 0
    assert await house.messages("abc") == ()


@pytest.mark.parametrize("at", ["rcpt", "data", "end"])
async def test_a_stop_ends_a_delay(house, at):
    client = await delayed(house, at, reply=GREYLISTED)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await house.server.stop(LONG)
    assert (await client.rest()).splitlines()[-1] == str(replies.STOPPING)
    assert await house.messages("abc") == ()


async def test_faults_are_neither_counted_nor_logged_as_refusals(house, caplog):
    """The reply's text was written by a tester, and the client did not make a mistake."""
    caplog.set_level(logging.INFO)
    await house.order("abc", Fault("rcpt", "550 5.1.1 secret text"))
    client = await house.greeted()
    assert (await tried(client))[-1] == "550 5.1.1 secret text"
    assert "secret" not in caplog.text
    refusals = next(one for one in house.server.metrics() if one.name == "smtp_refusals_total")
    assert "550" not in str(vars(refusals))
