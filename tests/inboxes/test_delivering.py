"""Recipients and their inboxes; parsing messages, and releasing memory afterwards."""

import asyncio
import time

import pytest

from growth import cpu_seconds
from tmpmaild.errors import AddressNotFound, MailboxFull
from tmpmaild.mail import mime
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Page
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import LIFETIME_MS, MAIL, mailbox_of


async def test_a_large_message_is_stored_completely(world):
    inbox, _ = await world.create()
    await world.deliver(inbox.address, raw=MAIL + b"more\r\n" * 20_000)
    (message,) = (await world.service.mail.list(inbox.address, Page())).messages
    assert message.body.count("more\n") == 20_000


async def test_html_of_more_than_some_kilobytes_is_not_parsed_in_the_event_loop(world):
    inbox, _ = await world.create()
    raw = b"Content-Type: Text/HTML\r\n\r\n" + b"<p>x\r\n" * 5000
    parsing_seconds = cpu_seconds(mime.parse, raw)
    began = time.thread_time()
    await world.deliver(inbox.address, raw=raw)
    assert time.thread_time() - began < parsing_seconds / 2


async def test_large_expensive_messages_do_not_delay_a_small_message(world):
    large, second, small = [(await world.create())[0].address for _ in range(3)]
    stored = []

    async def deliver(address, html):
        await world.deliver(address, raw=b"Content-Type: text/html\r\n\r\n" + html)
        stored.append(address)

    costly = b"".join(b"<p style='display:none%d'>x" % n for n in range(12_000))
    async with asyncio.TaskGroup() as tasks:
        for address in (large, second):
            tasks.create_task(deliver(address, costly))
        tasks.create_task(deliver(small, b"<p>x" * 2000))
    assert stored[0] == small


async def test_memory_is_released_after_large_messages_and_at_most_once_a_second(world):
    inbox, _ = await world.create()
    large = MAIL + b"x" * 1_100_000  # exceeds the limit of the inbox in this test, but is parsed first
    for advance_ms, times in ((0, 1), (999, 1), (1, 2)):
        world.clock.advance(ms=advance_ms)
        with pytest.raises(MailboxFull):
            await world.deliver(inbox.address, raw=large)
        assert len(world.gave_back) == times
    await world.deliver(inbox.address)
    assert len(world.gave_back) == 2


async def test_a_full_inbox_is_full_at_rcpt_and_at_the_commit(world):
    inbox, _ = await world.create()
    mailbox = mailbox_of(inbox.address)
    inbox_id = await world.service.deliverer.recipient(mailbox)
    assert world.service.deliverer.recipient_now(mailbox) == inbox_id
    envelope = Envelope("", (inbox.address,), "", "", tls=False)
    outcomes = await asyncio.gather(
        *(world.service.deliverer.deliver(envelope, [inbox_id], MAIL) for _ in range(3)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [str, str, MailboxFull]
    assert world.service.deliverer.recipient_now(mailbox) is None
    with pytest.raises(MailboxFull):
        await world.service.deliverer.recipient(mailbox)


async def test_a_recipient_is_known_without_waiting_from_its_first_message_until_its_inbox_ends(world):
    inbox, _ = await world.create()
    mailbox = mailbox_of(inbox.address)
    # Must be looked up, because its creator may have used up a quota.
    assert world.service.deliverer.recipient_now(mailbox) is None
    assert await world.service.deliverer.recipient(mailbox) == inbox.id
    assert world.service.deliverer.recipient_now(mailbox) == inbox.id
    world.clock.advance(ms=LIFETIME_MS)
    assert world.service.deliverer.recipient_now(mailbox) is None
    with pytest.raises(AddressNotFound):
        await world.service.deliverer.recipient(mailbox)


@pytest.mark.parametrize("address", ["postmaster@mail.example.com", "ABUSE@second.test", "Postmaster@"])
async def test_mail_to_our_postmaster_and_abuse_only_reaches_the_operator(world, address):
    with pytest.raises(AddressNotFound):
        await world.service.deliverer.recipient(Mailbox("postmaster", "elsewhere.test"))
    assert await world.service.deliverer.recipient(mailbox_of(address)) == OPERATOR_INBOX_ID
    await world.deliver(address)
    with pytest.raises(AddressNotFound):
        await world.service.access.find(address)
