"""One message for several inboxes: it is stored in all of them or in none, and on disk once it is acknowledged."""

import asyncio
import random

import pytest

from tmpmaild.model import Envelope
from tmpmaild.smtp import replies
from tmpmaild.storage.base import OPERATOR_INBOX_ID

pytestmark = pytest.mark.both_engines

SENDER, RECIPIENT = "MAIL FROM:<a@example.com>", "RCPT TO:<{}@ours.test>"
FULL, UNKNOWN, STORED = "452 4.2.2 ", "550 5.1.1 ", "250 2.0.0 Ok: stored as "
ONE = {"max_messages_per_inbox": 1}


def rcpt(*names):
    return [RECIPIENT.format(name) for name in names]


async def at_the_dot(client, mail="Subject: x\r\n\r\nhello"):
    return (await client.say(f"{mail}\r\n."))[0]


async def subjects(house, name):
    return [message.subject for message in await house.messages(name)]


# Inboxes that are full at RCPT


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"max_messages_per_inbox": 2}, id="messages"),
        pytest.param({"max_bytes_per_inbox": 2 * 6000}, id="octets"),
    ],
)
async def test_a_full_inbox_is_refused_at_rcpt_and_other_recipients_get_their_mail(talk, limits):
    async with talk(names=("full", "free", "last"), limits=limits) as (house, client):
        for _ in range(2):
            assert (await client.deliver("full", mail="x" * 998)).startswith(STORED)
        said = await client.say(SENDER, *rcpt("free", "full", "FULL+tag", "last"), "DATA")
        assert [reply[:10] for reply in said] == ["250 2.1.0 ", "250 2.1.5 ", FULL, FULL, "250 2.1.5 ", "354 End da"]
        assert (await at_the_dot(client, "Subject: for two")).startswith(STORED)
        assert [await subjects(house, name) for name in ("free", "last")] == [["for two"], ["for two"]]
        assert len(await house.messages("full")) == 2


async def test_a_used_up_share_of_the_operators_inbox_is_refused_at_rcpt_and_other_recipients_get_their_mail(talk):
    async with talk(names=("abc",)) as (house, client):
        envelope = Envelope("a@example.com", ("postmaster@ours.test",), "client.example", "127.0.0.1", tls=False)
        mails = [house.service.deliverer.deliver(envelope, [OPERATOR_INBOX_ID], b"full now\r\n") for _ in range(50)]
        await asyncio.gather(*mails)
        said = await client.say(SENDER, "RCPT TO:<postmaster>", "RCPT TO:<abuse@second.test>", *rcpt("abc"), "DATA")
        assert [reply[:10] for reply in said] == ["250 2.1.0 ", FULL, FULL, "250 2.1.5 ", "354 End da"]
        assert (await at_the_dot(client, "Subject: small")).startswith(STORED)
        assert await subjects(house, "abc") == ["small"]


# Inboxes that become full after RCPT


async def test_one_recipient_that_became_full_after_rcpt_refuses_the_message_for_all_three(serve):
    async with serve(names=("abc", "filled", "def"), limits=ONE) as house:
        client = await house.at_data("abc", "filled", "def")
        assert (await (await house.greeted()).deliver("filled", mail="Subject: first")).startswith(STORED)
        assert (await at_the_dot(client)).startswith(FULL)
        assert [await subjects(house, name) for name in ("abc", "filled", "def")] == [[], ["first"], []]
        assert len(house.sources()) == 1
        # The session continues, and RCPT is now refused.
        said = await client.say(SENDER, *rcpt("filled", "abc"), "DATA", "Subject: again\r\n.")
        assert [reply[:9] for reply in said] == ["250 2.1.0", "452 4.2.2", "250 2.1.5", "354 End d", "250 2.0.0"]
        assert await subjects(house, "abc") == ["again"]


# Inboxes that expire after RCPT


async def test_expired_recipients_are_omitted_at_the_dot(serve, clock):
    async with serve(names=("old", "older")) as house:
        clock.advance(seconds=1800)
        await house.create("young", "younger")
        client = await house.at_data("old", "young", "older", "younger")
        clock.advance(seconds=1800)
        said = await at_the_dot(client, "Subject: late")
        (young,), (younger,) = await house.messages("young"), await house.messages("younger")
        # The reply contains the message id of the first remaining recipient.
        assert said == f"250 2.0.0 Ok: stored as {young.id}"
        assert (young.subject, younger.subject) == ("late", "late")
        assert house.read("SELECT count(*) FROM message") == [(2,)]


async def test_a_message_without_remaining_recipients_is_refused_like_a_message_to_unknown_recipients(serve, clock):
    async with serve(names=("abc", "def")) as house:
        client = await house.at_data("abc", "def")
        clock.advance(seconds=3600)
        assert await at_the_dot(client) == str(replies.UNKNOWN_RECIPIENT)
        assert house.sources() == []
        await house.create("new")
        assert (await client.deliver("new")).startswith(STORED)


async def test_the_next_owner_of_a_name_gets_no_mail_for_the_previous_one(serve, clock):
    async with serve() as house:
        client = await house.at_data("abc")
        clock.advance(seconds=25 * 3600)
        await house.create("abc")
        assert (await at_the_dot(client)).startswith(UNKNOWN)
        assert await subjects(house, "abc") == []


# Unknown, expired and swept addresses get identical replies


async def test_an_expired_address_looks_like_one_that_never_existed(talk, clock):
    async with talk(names=("was", "deleted")) as (house, client):
        said = await client.say(SENDER, *rcpt("was", "deleted"))
        assert said == [str(replies.SENDER_OK), *[str(replies.RECIPIENT_OK)] * 2]
        inbox = await house.service.access.find("deleted@ours.test")
        await house.storage.move_expiry(inbox.id, expires_at_ms=clock(), now_ms=clock())
        assert await client.say(*rcpt("deleted")) == ["550 5.1.1 No such address here"]
        clock.advance(seconds=3600)
        assert await client.say(*rcpt("was", "never")) == ["550 5.1.1 No such address here"] * 2
        while await house.storage.sweep(clock()):
            pass
        assert await client.say(*rcpt("was")) == ["550 5.1.1 No such address here"]
        clock.advance(seconds=25 * 3600)
        assert await client.say(*rcpt("was")) == ["550 5.1.1 No such address here"]


async def test_an_address_accepts_mail_until_its_last_millisecond(talk, clock):
    async with talk() as (_, client):
        clock.advance(ms=3_600_000 - 1)
        assert (await client.deliver("abc")).startswith(STORED)
        clock.advance(ms=1)
        said = await client.say(SENDER, *rcpt("abc"), "DATA")
        assert [reply[:9] for reply in said] == ["250 2.1.0", "550 5.1.1", "554 5.5.1"]


# Acknowledged messages are on disk


class Sender:
    """Sends numbered messages to inboxes of all kinds, and records the replies."""

    def __init__(self, house, chance):
        self.house = house
        self.chance = chance
        self.acknowledged = {}  # message ids, by the number of the message
        self.promised = set()  # pairs of an inbox and the number of a message
        self.refusals = []

    async def send(self, numbers, names):
        client = await self.house.greeted()
        for number in numbers:
            chosen = self.chance.sample(names, self.chance.randint(1, 4))
            _, *said = await client.say(SENDER, *rcpt(*chosen))
            taken = [name for name, reply in zip(chosen, said, strict=True) if reply == str(replies.RECIPIENT_OK)]
            self.refusals += [reply for reply in said if reply != str(replies.RECIPIENT_OK)]
            if taken:
                await client.say("DATA")
                mail = f"Subject: {number}\r\n\r\n{'x' * self.chance.randint(0, 3000)}"
                self.note(number, taken, await at_the_dot(client, mail))
            else:
                await client.say("RSET")
        client.close()

    def note(self, number, taken, reply):
        if reply.startswith(STORED):
            self.acknowledged[number] = reply.removeprefix(STORED)
            self.promised |= {(name, number) for name in taken}
        else:
            self.refusals.append(f"{reply[:9]} at the dot")


async def test_every_acknowledged_message_of_forty_senders_is_on_disk_exactly_once(serve, clock):
    old, others = [f"old{n}" for n in range(8)], [f"inbox{n}" for n in range(16)]
    async with serve(names=old, limits={"max_messages_per_inbox": 10}) as house:
        clock.advance(seconds=1800)
        await house.create(*others)
        sender = Sender(house, random.Random(20))
        parts = [range(start, start + 5) for start in range(0, 200, 5)]
        sending = [asyncio.ensure_future(sender.send(part, [*others, *old, "nobody"])) for part in parts]
        await house.until(lambda: len(sender.acknowledged) > 40)
        clock.advance(seconds=1800)  # a third of the inboxes expire while messages are being sent
        await asyncio.gather(*sending)

        on_disk = house.store.mails()
        assert sorted(int(subject) for subject, _ in on_disk) == sorted(sender.acknowledged)
        assert [subject for subject, stored in on_disk if sender.acknowledged[int(subject)] not in stored] == []
        assert len(sender.acknowledged) == len(set(sender.acknowledged.values()))
        shown = [(name, int(message.subject)) for name in others for message in await house.messages(name)]
        assert len(shown) == len(set(shown))
        assert set(shown) == {(name, number) for name, number in sender.promised if name in others}
        assert {"452 4.2.2 Mailbox full, try again later", "550 5.1.1 No such address here"} <= set(sender.refusals)
