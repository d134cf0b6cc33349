"""The information that a client can gain by trying recipients, in any number of sessions and at any rate."""

import asyncio
from ipaddress import ip_network

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tmpmaild.mail.addresses import parse_recipient
from tmpmaild.scheduling.clients import current_client
from tmpmaild.smtp import replies
from tmpmaild.smtp.handler import Handler, SmtpEnvelope, UnknownRecipients
from tmpmaild.smtp.replies import MailFrom, Recipient

BURST, PER_MINUTE = 5, 10
NAMES = ["abc", "def", "postmaster", "gone", "never", "ABC+tag", "other"]
# Each step has recipients that are tried simultaneously, each in its own session, and a number of seconds to wait.
STEPS = st.lists(st.tuples(st.lists(st.sampled_from(NAMES), min_size=1, max_size=9), st.integers(0, 20)), max_size=12)


class Guesser:
    """Tries recipients in any number of sessions of one client, with its own clock."""

    def __init__(self, house):
        self.now = 1000.0
        self._unknown = UnknownRecipients(self)
        self._unknown.limit(PER_MINUTE, BURST)
        self._handler = Handler(house.service, self._unknown, lambda *_: None, house.server.handler.clock)

    def monotonic(self):
        return self.now

    async def _name(self, name):
        path = f"{name}@ours.test"
        recipient = Recipient(parse_recipient(path.encode(), utf8=False), path)
        envelope = SmtpEnvelope(MailFrom("a@example.com"), "192.0.2.1", "192.0.2.1")
        reply = self._handler.reply_to_recipient_now(envelope, recipient)
        return reply or await self._handler.reply_to_recipient(envelope, recipient)

    async def name(self, *names):
        return await asyncio.gather(*map(self._name, names))


@pytest.fixture
async def house(serve):
    async with serve(names=("abc", "def")) as house:
        yield house


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
async def test_a_client_learns_a_limited_number_of_names_a_minute_in_any_number_of_sessions(house, steps):
    guesser, told_at = Guesser(house), []
    for names, seconds in steps:
        told_at += [guesser.now] * (await guesser.name(*names)).count(replies.UNKNOWN_RECIPIENT)
        guesser.now += seconds
    for first, at in enumerate(told_at):
        within = sum(1 for other in told_at[first:] if other < at + 60)
        assert within <= BURST + PER_MINUTE


async def test_a_client_without_a_token_cannot_tell_names_apart(house):
    guesser = Guesser(house)
    assert set(await guesser.name(*["gone"] * BURST)) == {replies.UNKNOWN_RECIPIENT}
    assert set(await guesser.name(*NAMES, *NAMES)) == {replies.UNKNOWN_TOO_OFTEN}
    assert [set(await guesser.name(name)) for name in NAMES] == [{replies.UNKNOWN_TOO_OFTEN}] * len(NAMES)


async def test_only_one_session_gets_the_last_token_even_with_simultaneous_requests(house):
    guesser = Guesser(house)
    await guesser.name(*["gone"] * (BURST - 1))
    # "abc" is looked up first, and its session has the token during the lookup.
    said = await guesser.name("abc", "gone", "never")
    assert said == [replies.RECIPIENT_OK, replies.UNKNOWN_TOO_OFTEN, replies.UNKNOWN_TOO_OFTEN]
    assert await guesser.name("gone") == [replies.UNKNOWN_RECIPIENT]


async def test_known_recipients_use_no_tokens_and_tokens_return_one_at_a_time(house):
    guesser = Guesser(house)
    for _ in range(10):
        assert set(await guesser.name("abc", "def", "postmaster", "ABC+tag")) == {replies.RECIPIENT_OK}
    assert await guesser.name(*["gone"] * BURST) == [replies.UNKNOWN_RECIPIENT] * BURST
    guesser = Guesser(house)
    await guesser.name(*["gone"] * BURST)
    guesser.now += 60 / PER_MINUTE
    assert await guesser.name("abc") == [replies.RECIPIENT_OK]
    assert await guesser.name("gone") == [replies.UNKNOWN_RECIPIENT]
    assert await guesser.name("abc") == [replies.UNKNOWN_TOO_OFTEN]


class Noting:
    """A deliverer that records the client for which each recipient is looked up."""

    def __init__(self, deliverer):
        self._deliverer = deliverer
        self.clients = []

    def __getattr__(self, name):
        return getattr(self._deliverer, name)

    async def recipient(self, *named):
        self.clients.append(current_client())
        return await self._deliverer.recipient(*named)


@pytest.mark.parametrize("exempt", [[], [ip_network("127.0.0.0/8")]], ids=["limited", "exempt"])
async def test_a_recipient_is_looked_up_in_turns_of_the_client_that_names_it(serve, exempt):
    """Without turns, a client that tries many recipients would make all other clients wait for the database."""
    async with serve(wrap=Noting, names=(), exempt=exempt) as house:
        for number in (2, 3):
            client = await house.connect(local_addr=(f"127.0.0.{number}", 0))
            await client.reply()
            await client.say("EHLO client.example", "MAIL FROM:<a@example.com>", "RCPT TO:<gone@ours.test>")
        assert house.service.deliverer.clients == ["127.0.0.2", "127.0.0.3"]
