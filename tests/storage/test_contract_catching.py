"""What every storage engine promises a catcher: names without a hold, recipients of several lines, and ids by time."""

import asyncio

import pytest
from msgspec.structs import replace

from tmpmaild.errors import AddressTaken
from tmpmaild.model import AcceptedRecipient, NewInbox, Page, SmtpSession

from .conftest import LIFETIME_MS, new_mail


def wanted(engine, *, name_held_ms):
    return NewInbox(
        address="ada@mail.example.com",
        created_at_ms=engine.clock(),
        expires_at_ms=engine.clock() + LIFETIME_MS,
        private=False,
        token_hash=b"",
        creator=None,
        name_held_ms=name_held_ms,
    )


async def test_a_name_that_is_not_held_is_free_as_soon_as_its_inbox_has_ended(engine):
    first = await engine.storage.create_inbox(wanted(engine, name_held_ms=0))
    await engine.add(first)
    with pytest.raises(AddressTaken):
        await engine.storage.create_inbox(wanted(engine, name_held_ms=0))
    await engine.storage.move_expiry(first.id, expires_at_ms=engine.clock(), now_ms=engine.clock())
    with pytest.raises(AddressTaken):
        await engine.storage.create_inbox(wanted(engine, name_held_ms=1000))
    second = await engine.storage.create_inbox(wanted(engine, name_held_ms=0))
    assert second.id != first.id
    assert await engine.messages("ada", Page()) == ()


async def test_inboxes_with_and_without_a_hold_are_created_at_once(engine):
    first = await engine.storage.create_inbox(wanted(engine, name_held_ms=0))
    await engine.storage.move_expiry(first.id, expires_at_ms=engine.clock(), now_ms=engine.clock())
    other = replace(wanted(engine, name_held_ms=1000), address="bob@mail.example.com")
    news = [other, wanted(engine, name_held_ms=0)]
    created = await asyncio.gather(*map(engine.storage.create_inbox, news))
    assert [inbox.address for inbox in created] == ["bob@mail.example.com", "ada@mail.example.com"]


async def test_a_recipient_of_several_lines_stands_for_the_addresses_in_them(engine):
    everything, bob = await engine.inbox("everything"), await engine.inbox("bob")
    accepted = (AcceptedRecipient("bob@x.test", 1000), AcceptedRecipient("gone@x.test", 1001))
    recipients = ("bob@x.test\ngone@x.test", "bob@x.test")
    mail = new_mail(everything, bob, recipients=recipients, session=SmtpSession("EHLO", recipients=accepted))
    await engine.storage.add_message(mail)
    for name, recipient, its in (("everything", recipients[0], accepted), ("bob", "bob@x.test", accepted[:1])):
        (message,) = await engine.messages(name, Page())
        _, full = await engine.storage.read_message(f"{name}@mail.example.com", engine.clock(), message_id=message.id)
        assert (message.recipient, full.envelope.session.recipients) == (recipient, its)


async def test_messages_of_a_time_and_later_come_after_the_last_id_before_it(engine):
    inbox = await engine.inbox("ada")
    before = await engine.add(inbox)
    engine.clock.advance(ms=5)
    now_ms = engine.clock()
    after = [await engine.add(inbox) for _ in range(3)]
    last_id = engine.storage.last_id_before(now_ms)
    found = await engine.messages("ada", Page(after=last_id, ascending=True))
    assert [message.id for message in found] == after
    assert before not in after
