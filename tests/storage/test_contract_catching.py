"""Contract tests for a catcher: names without quarantine, recipients that span several lines, and copies."""

import asyncio

import pytest
from msgspec.structs import replace

from tmpmaild.errors import AddressTaken
from tmpmaild.model import AcceptedRecipient, MessageDeleted, NewInbox, Page, SmtpSession
from tmpmaild.storage import deleting
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import LIFETIME_MS, NO_INBOX_IDS, new_mail


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


async def test_a_name_without_quarantine_is_free_when_its_inbox_ends(engine):
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


async def test_inboxes_with_and_without_a_quarantine_are_created_at_once(engine):
    first = await engine.storage.create_inbox(wanted(engine, name_held_ms=0))
    await engine.storage.move_expiry(first.id, expires_at_ms=engine.clock(), now_ms=engine.clock())
    other = replace(wanted(engine, name_held_ms=1000), address="bob@mail.example.com")
    news = [other, wanted(engine, name_held_ms=0)]
    created = await asyncio.gather(*map(engine.storage.create_inbox, news))
    assert [inbox.address for inbox in created] == ["bob@mail.example.com", "ada@mail.example.com"]


async def test_a_recipient_of_several_lines_represents_the_addresses_in_them(engine):
    everything, bob = await engine.inbox("everything"), await engine.inbox("bob")
    accepted = (AcceptedRecipient("bob@x.test", 1000), AcceptedRecipient("gone@x.test", 1001))
    recipients = ("bob@x.test\ngone@x.test", "bob@x.test")
    mail = new_mail(everything, bob, recipients=recipients, session=SmtpSession("EHLO", recipients=accepted))
    await engine.storage.add_message(mail)
    for name, recipient, its in (("everything", recipients[0], accepted), ("bob", "bob@x.test", accepted[:1])):
        (message,) = await engine.messages(name, Page())
        _, full = await engine.storage.read_message(f"{name}@mail.example.com", engine.clock(), message_id=message.id)
        assert (message.recipient, full.envelope.session.recipients) == (recipient, its)


async def test_recipients_are_listed_in_either_order_between_two_ids(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    recipients = [f"é{number}@x.test\nb@x.test" for number in range(5)]
    stored = [await engine.storage.add_message(new_mail(inbox, recipients=(one,))) for one in recipients]
    await engine.add(other)
    all_of_them = list(zip(stored, recipients, strict=True))

    async def listed(inbox_id=inbox.id, **page):
        return list(await engine.storage.list_recipients(inbox_id, Page(**page)))

    assert await listed() == all_of_them[::-1]
    assert await listed(ascending=True) == all_of_them
    assert await listed(before=stored[3], limit=2) == [all_of_them[2], all_of_them[1]]
    assert await listed(after=stored[0], ascending=True, limit=2) == all_of_them[1:3]
    assert await listed(after=stored[4]) == []
    for inbox_id in (OPERATOR_INBOX_ID, *NO_INBOX_IDS):
        assert await listed(inbox_id) == []


def to_all(everything, *inboxes, **more):
    """Return a message for an inbox for all mail and these inboxes, as ``Catcher.with_all_mail`` makes it."""
    recipients = tuple(f"to-{inbox.id}@x.test" for inbox in inboxes)
    session = SmtpSession("EHLO", recipients=tuple(AcceptedRecipient(one, 1000) for one in recipients))
    return new_mail(everything, *inboxes, recipients=("\n".join(recipients), *recipients), session=session, **more)


async def names_left(engine, *names):
    return {name: await engine.subjects(name, Page(ascending=True)) for name in names}


@pytest.mark.parametrize("by_id", [True, False])
async def test_messages_are_deleted_with_their_copies_and_other_messages_are_kept(engine, by_id):
    everything, short, bob = [await engine.inbox(name) for name in ("everything", "short", "bob")]
    long = await engine.inbox("long", lifetime_ms=7 * 24 * 3600 * 1000)  # PostgreSQL stores its messages elsewhere
    await engine.storage.add_message(to_all(everything, short, long, bob, subject="first"))
    await engine.storage.add_message(to_all(everything, short, subject="second"))
    await engine.storage.add_message(to_all(everything, long, short, subject="third"))
    listed = [message.id for message in await engine.messages("everything", Page(ascending=True))]
    (copy,) = await engine.messages("bob", Page())
    await engine.delete(bob, copy.id)
    told = engine.told()
    which = {"message_ids": [*listed[:2], copy.id]} if by_id else {"up_to": listed[1]}
    assert await engine.storage.delete_messages(everything.id, **which, copies=True) == 2
    assert await names_left(engine, "everything", "short", "long", "bob") == {
        "everything": ["third"],
        "short": ["third"],
        "long": ["third"],
        "bob": [],
    }
    assert sorted(change.inbox_id for change in told) == sorted(
        [everything.id, short.id, long.id, everything.id, short.id]
    )
    assert {type(change.notice) for change in told} == {MessageDeleted}
    assert await engine.storage.delete_messages(everything.id, copies=True) == 1
    assert not any((await names_left(engine, "everything", "short", "long")).values())
    assert await engine.storage.delete_messages(everything.id, copies=True) == 0


async def test_a_message_and_its_copies_are_deleted_in_one_transaction_and_many_in_several(engine, monkeypatch):
    monkeypatch.setattr(deleting, "DELETED_COPIES_AT_ONCE", 5)
    everything = await engine.inbox("everything")
    inboxes = [await engine.inbox(f"box{number}") for number in range(8)]
    for count in (8, 2, 3, 1):
        await engine.storage.add_message(to_all(everything, *inboxes[:count]))
    commits = []
    engine.storage.on_committed(lambda changes: commits.append(len(changes)))
    assert await engine.storage.delete_messages(everything.id, copies=True) == 4
    assert commits == [1 + 8, 2 + 2 + 3, 1 + 1]


async def test_a_copy_is_found_although_the_clock_was_set_back(engine):
    everything, bob = await engine.inbox("everything"), await engine.inbox("bob")
    await engine.storage.add_message(to_all(everything, bob, subject="before"))
    engine.clock.advance(ms=-500)
    await engine.storage.add_message(to_all(everything, bob, subject="after"))
    newest, _ = await engine.messages("everything", Page())
    assert await engine.storage.delete_messages(everything.id, [newest.id], copies=True) == 1
    assert await names_left(engine, "everything", "bob") == {"everything": ["before"], "bob": ["before"]}
