"""What every storage engine promises of what owners delete: only the ``Storage`` protocol is known here."""

import asyncio

import pytest

from tmpmaild.errors import AddressExpired, AddressNotFound, MailboxFull
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, Page
from tmpmaild.storage import enginestorage
from tmpmaild.storage.base import DELETED_AT_ONCE, OPERATOR_INBOX_ID
from tmpmaild.storage.rows import MAX_KEY, is_message_id, message_id_of

from .conftest import NO_INBOX_IDS, fill_up, until_full


async def test_the_octets_of_an_inbox_and_of_its_creator_are_free_again(open_engine):
    async with open_engine(
        max_share_per_creator=0.01, max_bytes=100_000_000, max_bytes_per_inbox=600_000
    ) as engine:  # 1,000,000 octets
        first, second = [await engine.inbox(name, creator="192.0.2.1") for name in ("first", "second")]
        message_id = await engine.add(first, raw=b"x" * 590_000)
        await engine.add(second, raw=b"x" * 350_000)
        for inbox in (first, second):
            with pytest.raises(MailboxFull):
                await engine.add(inbox, raw=b"x" * 60_000)
        await engine.delete(first, message_id)
        await engine.add(second, raw=b"x" * 200_000)
        await engine.add(first, raw=b"x" * 400_000)
        await fill_up(engine, first)
        assert (await engine.find("first")).full


async def test_a_mail_deleted_by_one_recipient_stays_for_the_others(engine):
    inboxes = [await engine.inbox(f"box{number}") for number in range(3)]
    recipients = ("Box0@x.test", "böx1@x.test", "box2+tag@x.test")
    await engine.add(*inboxes, recipients=recipients, body="x" * 100_000)
    for gone in (1, 0, 2):
        (message,) = await engine.messages(f"box{gone}", Page())
        assert (message.recipient, len(message.body)) == (recipients[gone], 100_000)
        await engine.delete(inboxes[gone], message.id)
        assert await engine.messages(f"box{gone}", Page()) == ()


async def test_ids_ascend_after_the_newest_was_deleted_and_the_engine_reopened(open_engine, clock):
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        await engine.add(inbox)
        newest = await engine.add(inbox)
        await engine.delete(inbox, newest)
        clock.advance(seconds=-1000)
        next_one = await engine.add(inbox)
        assert next_one > newest
        assert is_message_id(next_one)
        await engine.delete(inbox, next_one)
    async with open_engine() as engine:
        assert await engine.add(inbox) > next_one


async def test_deletes_and_deliveries_at_once_leave_exactly_what_was_not_deleted(open_engine):
    async with open_engine(max_messages_per_inbox=20) as engine:
        inbox = await engine.inbox("ada")
        old = [await engine.add(inbox, subject="old") for _ in range(20)]
        # Behind a create they are queued while the writer is busy, and so go together.
        work = [engine.inbox("other")]
        for message_id in old:
            work += [engine.delete(inbox, message_id), engine.add(inbox, subject="new")]
        await asyncio.gather(*work)
        assert await engine.subjects("ada", Page()) == ["new"] * 20
        with pytest.raises(MailboxFull):
            await engine.add(inbox)


async def test_pages_read_while_mail_is_deleted_show_the_rest_once(open_engine):
    async with open_engine(max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        stored = [await engine.add(inbox) for _ in range(60)]
        seen, before = [], None
        for _ in range(12):
            listing = await engine.storage.list_messages(
                "ada@mail.example.com", Page(before=before, limit=7), engine.clock()
            )
            seen += [message.id for message in listing.messages]
            if not listing.has_more:
                break
            before = seen[-1]
            await asyncio.gather(engine.delete(inbox, before), engine.add(inbox))  # also the one that is the position
            await engine.delete(inbox, stored.pop(0))
        assert [message_id for message_id in seen if message_id in stored] == stored[::-1]


async def test_what_holders_change_is_told_before_they_are_answered(open_engine):
    async with open_engine(max_messages_per_inbox=3) as engine:
        inbox = await engine.inbox("ada")
        stored = [await engine.add(inbox) for _ in range(3)]
        told = engine.told()
        await delete(engine, inbox, up_to=stored[1])
        assert told == [InboxChange(inbox.id, full=False, notice=MessageDeleted(one)) for one in stored[:2]]
        await delete(engine, inbox, stored[:2])  # of which none is there any more
        for _ in range(2):
            await engine.add(inbox)
        await engine.move(inbox, engine.clock() + 5)
        assert told[4:] == [InboxChange(inbox.id, full=True, notice=ExpiryMoved(engine.clock() + 5))]
        await engine.end(inbox)
        assert told[5:] == [InboxChange(inbox.id, full=True, notice=InboxDeleted())]


async def test_a_delete_says_truthfully_when_the_share_is_still_used_up(open_engine):
    async with open_engine(max_share_per_creator=0.01, max_bytes=100_000_000) as engine:  # 1,000,000 octets
        inboxes = [await engine.inbox(name, creator="192.0.2.1") for name in ("ada", "bob")]
        shared = await engine.add(*inboxes, raw=b"", body="")
        await fill_up(engine, inboxes[0])
    async with open_engine(max_share_per_creator=0.001, max_bytes=100_000_000) as engine:  # a tenth of it
        told = engine.told()
        await engine.delete(inboxes[0], shared)
        assert told == [InboxChange(inboxes[0].id, full=True, share_full=True, notice=MessageDeleted(shared))]


async def test_what_is_refused_changes_nothing_and_tells_nothing(engine):
    inbox, over = await engine.inbox("ada"), await engine.inbox("over", lifetime_ms=1)
    await engine.add(inbox)
    engine.clock.advance(ms=1)
    before = [await engine.find("ada"), await engine.find("over"), await engine.messages("ada", Page())]
    told = engine.told()
    refused = [
        engine.delete(inbox, message_id_of(5)),
        engine.add(over),
        engine.end(over),
        engine.move(over, engine.clock() + 1000),
        engine.storage.move_expiry(OPERATOR_INBOX_ID, engine.clock(), engine.clock()),
    ]
    outcomes = await asyncio.gather(*refused, return_exceptions=True)
    assert [type(one) for one in outcomes] == [int, AddressNotFound, AddressExpired, AddressExpired, AddressNotFound]
    assert told == []
    assert [await engine.find("ada"), await engine.find("over"), await engine.messages("ada", Page())] == before


async def test_what_was_asked_for_is_done_and_told_though_those_who_asked_are_cancelled(engine):
    inbox, ends, gets = [await engine.inbox(name) for name in ("ada", "ends", "gets")]
    stored = [await engine.add(inbox) for _ in range(5)]
    told = engine.told()
    work = [engine.end(ends), *(engine.delete(inbox, message_id) for message_id in stored), engine.add(gets)]
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await engine.inbox("other")  # behind all of them
    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [True, False] * 3 + [True]
    assert [(await engine.find(name)).message_count for name in ("ada", "gets")] == [0, 1]
    assert (await engine.find("ends")).expires_at_ms == engine.clock()
    assert len(told) == 7


async def test_every_callback_is_told_even_when_one_raises(engine, caplog):
    first, second = [], []

    def fail(_):
        raise RuntimeError("a mistake")

    for callback in (first.extend, fail, second.extend):
        engine.storage.on_committed(callback)
    inbox = await engine.inbox("ada")
    await engine.delete(inbox, await engine.add(inbox))
    assert len(first) == 2
    assert second == first
    assert caplog.text.count("telling of a commit failed") == 2


async def test_at_the_cap_everything_can_be_deleted_and_there_is_room_again(open_engine):
    async with open_engine(max_bytes=1024 * 1024, max_messages_per_inbox=0, max_share_per_creator=1) as engine:
        inbox = await engine.inbox("ada")
        stored = await until_full(lambda _: engine.add(inbox, body="x" * 500))
        assert not engine.storage.has_room()
        await asyncio.gather(*(engine.delete(inbox, message_id) for message_id in stored[: len(stored) // 3]))
        assert engine.storage.has_room()
        await asyncio.gather(*(engine.add(inbox, body="x" * 500) for _ in range(len(stored) // 4)))


async def delete(engine, inbox, *args, **which):
    return await engine.storage.delete_messages(inbox.id, *args, **which)


async def left(engine, name="ada"):
    return [message.id for message in await engine.messages(name, Page(ascending=True))]


async def test_all_are_deleted_and_counted_and_no_other_inbox_is_touched(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    for _ in range(5):
        await engine.add(inbox, other)
    assert await delete(engine, inbox) == 5
    assert (await left(engine), (await engine.find("ada")).message_count) == ([], 0)
    assert (await engine.find("other")).message_count == 5
    assert await delete(engine, inbox) == 0


async def test_those_that_are_named_are_deleted_and_what_is_not_there_is_not_counted(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    stored, foreign = [await engine.add(inbox) for _ in range(4)], await engine.add(other)
    operators = await engine.add(OPERATOR_INBOX_ID)
    one = stored[1]
    texts = ["", "msg_", "\ud800", one.upper(), one + "0", one[:-1], one[:-1] + "1", one[4:], "msg_" + "z" * 26]
    nothing = [*texts, message_id_of(1), message_id_of(MAX_KEY)]
    wanted = [stored[2], stored[0], stored[0], foreign, operators, *nothing]
    assert await delete(engine, inbox, wanted) == 2
    assert await delete(engine, inbox, wanted) == 0
    assert await delete(engine, inbox, []) == 0
    assert [await engine.delete(inbox, one) for one in (foreign, operators, *nothing)] == [0] * (2 + len(nothing))
    assert (await left(engine), await left(engine, "other")) == ([stored[1], stored[3]], [foreign])


async def test_up_to_a_message_all_that_came_before_go_with_it_and_it_need_not_exist(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    stored = [await engine.add(inbox) for _ in range(3)]
    between = await engine.add(other)
    stored += [await engine.add(inbox) for _ in range(3)]
    assert await delete(engine, inbox, up_to=stored[1]) == 2
    assert await delete(engine, inbox, up_to=stored[1]) == 0
    assert await delete(engine, inbox, up_to="msg_" + "0" * 26) == 0
    if between > stored[2]:
        assert await delete(engine, inbox, up_to=between) == 1
    await delete(engine, inbox, up_to=stored[4])
    assert await left(engine) == stored[5:]


async def test_mail_that_arrives_meanwhile_is_not_deleted_with_what_came_before(open_engine):
    async with open_engine(max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        old = [await engine.add(inbox) for _ in range(2 * DELETED_AT_ONCE + 5)]
        deleted, *new = await asyncio.gather(
            delete(engine, inbox, up_to=old[-1]), *(engine.add(inbox) for _ in range(30))
        )
        assert deleted == len(old)
        assert await left(engine) == sorted(new)


async def test_what_an_inbox_holds_by_default_is_deleted_by_one_transaction(engine):
    """So a reader sees all of it or nothing meanwhile."""
    inbox = await engine.inbox("ada")
    for _ in range(DELETED_AT_ONCE):
        await engine.add(inbox)
    commits = []
    engine.storage.on_committed(lambda changes: commits.append(len(changes)))
    seen = set()

    async def look():
        while not commits:
            seen.add((await engine.find("ada")).message_count)

    await asyncio.gather(look(), delete(engine, inbox))
    assert commits == [DELETED_AT_ONCE]
    assert seen <= {0, DELETED_AT_ONCE}


async def test_much_mail_is_deleted_in_steps_and_deliveries_need_not_wait_for_all_of_them(open_engine, monkeypatch):
    monkeypatch.setattr(enginestorage, "DELETED_AT_ONCE_BYTES", 1_000_000)
    async with open_engine(max_messages_per_inbox=0, max_bytes_per_inbox=0) as engine:
        inbox, other = await engine.inbox("ada"), await engine.inbox("other")
        for _ in range(10):
            await engine.add(inbox, raw=b"x" * 333_333)
        await engine.add(inbox, raw=b"x" * 1_000_001)
        order = []
        engine.storage.on_committed(lambda changes: order.append({change.inbox_id for change in changes}))
        deleting = asyncio.ensure_future(delete(engine, inbox))
        await asyncio.sleep(0)
        await engine.add(other)
        assert await deleting == 11
        assert len(order) >= 6
        # The one step that was running, then the delivery, in a batch of its own or with the next step.
        assert any(other.id in told for told in order[:2])
        assert await left(engine) == []


async def test_two_at_once_count_each_message_once(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox) for _ in range(20)]
    ways = [*(engine.delete(inbox, stored[7]) for _ in range(2)), delete(engine, inbox, up_to=stored[9])]
    assert sum(await asyncio.gather(*ways, delete(engine, inbox), delete(engine, inbox, stored[5:]))) == 20
    assert (await engine.find("ada")).message_count == 0


async def test_the_operators_mail_and_that_of_no_inbox_cannot_be_deleted(engine):
    stored = await asyncio.gather(*(engine.add(OPERATOR_INBOX_ID) for _ in range(200)))
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    for inbox_id in (OPERATOR_INBOX_ID, *NO_INBOX_IDS):
        for message_ids in (None, stored[:1]):
            assert await engine.storage.delete_messages(inbox_id, message_ids) == 0
    assert (await engine.find("ada")).message_count == 1
    assert await engine.storage.operator_is_full()
