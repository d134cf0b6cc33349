"""Contract tests for deleting messages and inboxes, which use only the ``Storage`` protocol."""

import asyncio

import pytest

from tmpmaild.errors import AddressExpired, AddressNotFound, MailboxFull
from tmpmaild.model import NAME_HELD_MS, ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted, Page
from tmpmaild.storage import deleting
from tmpmaild.storage.base import DELETED_AT_ONCE, OPERATOR_INBOX_ID
from tmpmaild.storage.keys import MAX_KEY, is_message_id, message_id_of

from .conftest import LIFETIME_MS, NO_INBOX_IDS, fill_up, until_full


async def test_the_bytes_of_an_inbox_and_of_its_creator_are_free_again(open_engine):
    async with open_engine(
        max_share_per_creator=0.01, max_bytes=100_000_000, max_bytes_per_inbox=600_000
    ) as engine:  # each client's share is 1,000,000 bytes
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


async def test_a_message_deleted_by_one_recipient_is_kept_for_the_others(engine):
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


async def test_simultaneous_deletes_and_deliveries_leave_exactly_the_remaining_mail(open_engine):
    async with open_engine(max_messages_per_inbox=20) as engine:
        inbox = await engine.inbox("ada")
        old = [await engine.add(inbox, subject="old") for _ in range(20)]
        # These operations are queued while the writer is busy creating an inbox, so they share a batch.
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
            # Also deletes the message at the cursor.
            await asyncio.gather(engine.delete(inbox, before), engine.add(inbox))
            await engine.delete(inbox, stored.pop(0))
        assert [message_id for message_id in seen if message_id in stored] == stored[::-1]


async def test_changes_by_owners_are_reported_before_the_response(open_engine):
    async with open_engine(max_messages_per_inbox=3) as engine:
        inbox = await engine.inbox("ada")
        stored = [await engine.add(inbox) for _ in range(3)]
        told = engine.told()
        await delete(engine, inbox, up_to=stored[1])
        assert told == [InboxChange(inbox.id, full=False, notice=MessageDeleted(one)) for one in stored[:2]]
        await delete(engine, inbox, stored[:2])  # these messages no longer exist
        for _ in range(2):
            await engine.add(inbox)
        await engine.move(inbox, engine.clock() + 5)
        assert told[4:] == [InboxChange(inbox.id, full=True, notice=ExpiryMoved(engine.clock() + 5))]
        await engine.end(inbox)
        assert told[5:] == [InboxChange(inbox.id, full=True, notice=InboxDeleted())]


async def test_a_delete_reports_whether_the_share_is_still_used_up(open_engine):
    # Each client's share is 1,000,000 bytes.
    async with open_engine(max_share_per_creator=0.01, max_bytes=100_000_000) as engine:
        inboxes = [await engine.inbox(name, creator="192.0.2.1") for name in ("ada", "bob")]
        shared = await engine.add(*inboxes, raw=b"", body="")
        await fill_up(engine, inboxes[0])
    # Each client's share is 100,000 bytes.
    async with open_engine(max_share_per_creator=0.001, max_bytes=100_000_000) as engine:
        told = engine.told()
        await engine.delete(inboxes[0], shared)
        assert told == [InboxChange(inboxes[0].id, full=True, share_full=True, notice=MessageDeleted(shared))]


async def test_a_refused_change_changes_and_reports_nothing(engine):
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
        engine.storage.move_expiry(OPERATOR_INBOX_ID, expires_at_ms=engine.clock(), now_ms=engine.clock()),
    ]
    outcomes = await asyncio.gather(*refused, return_exceptions=True)
    assert [type(one) for one in outcomes] == [int, AddressNotFound, AddressExpired, AddressExpired, AddressNotFound]
    assert told == []
    assert [await engine.find("ada"), await engine.find("over"), await engine.messages("ada", Page())] == before


async def test_a_change_is_made_and_reported_although_its_caller_is_cancelled(engine):
    inbox, ends, gets = [await engine.inbox(name) for name in ("ada", "ends", "gets")]
    stored = [await engine.add(inbox) for _ in range(5)]
    told = engine.told()
    work = [engine.end(ends), *(engine.delete(inbox, message_id) for message_id in stored), engine.add(gets)]
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await engine.inbox("other")  # this operation is queued after all the others
    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [True, False] * 3 + [True]
    assert [(await engine.find(name)).message_count for name in ("ada", "gets")] == [0, 1]
    assert (await engine.find("ends")).expires_at_ms == engine.clock()
    assert len(told) == 7


async def test_every_callback_is_called_even_if_one_raises(engine, caplog):
    first, second = [], []

    def fail(_):
        raise RuntimeError("a mistake")

    for callback in (first.extend, fail, second.extend):
        engine.storage.on_committed(callback)
    inbox = await engine.inbox("ada")
    await engine.delete(inbox, await engine.add(inbox))
    assert len(first) == 2
    assert second == first
    assert caplog.text.count("notifying a listener of a commit failed") == 2


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


async def test_all_messages_are_deleted_and_counted_and_no_other_inbox_is_changed(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("other")
    for _ in range(5):
        await engine.add(inbox, other)
    assert await delete(engine, inbox) == 5
    assert (await left(engine), (await engine.find("ada")).message_count) == ([], 0)
    assert (await engine.find("other")).message_count == 5
    assert await delete(engine, inbox) == 0


async def test_named_messages_are_deleted_and_missing_ones_are_not_counted(engine):
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


async def test_all_messages_up_to_a_message_are_deleted_even_if_it_does_not_exist(engine):
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


async def test_mail_that_arrives_during_a_delete_is_kept(open_engine):
    async with open_engine(max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        old = [await engine.add(inbox) for _ in range(2 * DELETED_AT_ONCE + 5)]
        deleted, *new = await asyncio.gather(
            delete(engine, inbox, up_to=old[-1]), *(engine.add(inbox) for _ in range(30))
        )
        assert deleted == len(old)
        assert await left(engine) == sorted(new)


async def test_all_messages_of_an_inbox_at_the_default_limit_are_deleted_in_one_transaction(engine):
    """A reader therefore sees either all messages or no messages."""
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
    monkeypatch.setattr(deleting, "DELETED_AT_ONCE_BYTES", 1_000_000)
    async with open_engine(max_messages_per_inbox=0, max_bytes_per_inbox=0) as engine:
        inbox, other = await engine.inbox("ada"), await engine.inbox("other")
        for _ in range(10):
            await engine.add(inbox, raw=b"x" * 333_333)
        await engine.add(inbox, raw=b"x" * 1_000_001)
        order = []
        engine.storage.on_committed(lambda changes: order.append({change.inbox_id for change in changes}))
        deletion = asyncio.ensure_future(delete(engine, inbox))
        await asyncio.sleep(0)
        await engine.add(other)
        assert await deletion == 11
        assert len(order) >= 6
        # The delivery follows the step that was running, in its own batch or together with the next step.
        assert any(other.id in told for told in order[:2])
        assert await left(engine) == []


async def test_simultaneous_deletes_count_each_message_once(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox) for _ in range(20)]
    ways = [*(engine.delete(inbox, stored[7]) for _ in range(2)), delete(engine, inbox, up_to=stored[9])]
    assert sum(await asyncio.gather(*ways, delete(engine, inbox), delete(engine, inbox, stored[5:]))) == 20
    assert (await engine.find("ada")).message_count == 0


async def test_mail_of_the_operator_and_of_missing_inboxes_cannot_be_deleted(engine):
    stored = await asyncio.gather(*(engine.add(OPERATOR_INBOX_ID) for _ in range(200)))
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    for inbox_id in (OPERATOR_INBOX_ID, *NO_INBOX_IDS):
        for message_ids in (None, stored[:1]):
            assert await engine.storage.delete_messages(inbox_id, message_ids) == 0
    assert (await engine.find("ada")).message_count == 1
    assert len((await engine.storage.operator_box()).entries) == 200


async def test_the_operators_inbox_and_inboxes_that_do_not_exist_can_be_neither_ended_nor_moved(engine):
    for inbox_id in (OPERATOR_INBOX_ID, *NO_INBOX_IDS):
        with pytest.raises(AddressNotFound):
            await engine.storage.move_expiry(inbox_id, expires_at_ms=engine.clock(), now_ms=engine.clock())
        with pytest.raises(AddressNotFound):
            await engine.storage.move_expiry(inbox_id, expires_at_ms=engine.clock() + 1, now_ms=engine.clock())
    await engine.add(OPERATOR_INBOX_ID)


async def test_a_deleted_inbox_is_like_an_expired_inbox(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    engine.clock.advance(ms=1000)
    await engine.end(inbox)
    assert (await engine.find("ada")).expires_at_ms == engine.clock()
    with pytest.raises(AddressNotFound):
        await engine.add(inbox)
    for refused in (engine.end(inbox), engine.move(inbox, engine.clock() + 1000)):
        with pytest.raises(AddressExpired) as refusal:
            await refused
        assert refusal.value.expired_at_ms == engine.clock()
    await engine.sweep()
    assert (await engine.find("ada")).message_count == 0


async def test_an_inbox_lives_until_the_moment_its_end_was_moved_to(engine):
    later, sooner = await engine.inbox("later"), await engine.inbox("sooner")
    await engine.move(later, engine.clock() + 2 * LIFETIME_MS)
    await engine.move(sooner, engine.clock() + 10)
    assert (await engine.find("later")).expires_at_ms == engine.clock() + 2 * LIFETIME_MS
    engine.clock.advance(ms=10)
    with pytest.raises(AddressNotFound):
        await engine.add(sooner)
    engine.clock.advance(ms=2 * LIFETIME_MS - 11)
    await engine.sweep()
    await engine.add(later)
    engine.clock.advance(ms=1)
    with pytest.raises(AddressNotFound):
        await engine.add(later)


async def test_a_request_before_the_end_that_runs_after_it_is_too_late(engine):
    """At that time, a sweep may already have started to delete the inbox."""
    inbox = await engine.inbox("ada")
    engine.clock.advance(ms=LIFETIME_MS)
    with pytest.raises(AddressExpired):
        await engine.storage.move_expiry(
            inbox.id, expires_at_ms=engine.clock() + LIFETIME_MS, now_ms=engine.clock() - 1
        )


@pytest.mark.parametrize("sweep_first", [False, True])
async def test_simultaneous_moves_and_sweeps_leave_all_or_nothing_of_an_inbox(engine, sweep_first):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    over_ms = inbox.expires_at_ms
    # The sweep's time may be later than the batch's time, because the sweep reads the clock later.
    work = [engine.storage.sweep(over_ms), engine.move(inbox, over_ms + LIFETIME_MS)]
    _, *outcomes = await asyncio.gather(
        engine.inbox("other"), *(work if sweep_first else work[::-1]), return_exceptions=True
    )
    assert any(isinstance(outcome, AddressExpired) for outcome in outcomes) is sweep_first
    assert (await engine.find("ada")).message_count == (0 if sweep_first else 1)
    if not sweep_first:
        engine.clock.advance(ms=LIFETIME_MS)
        await engine.add(inbox)


async def test_an_inbox_that_ends_in_the_middle_of_a_batch_gets_only_the_mail_before(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    _, before, _, after = await asyncio.gather(
        engine.inbox("other"), engine.add(inbox), engine.end(inbox), engine.add(inbox), return_exceptions=True
    )
    assert (is_message_id(before), type(after)) == (True, AddressNotFound)


async def test_inboxes_end_and_move_at_the_cap_without_exceeding_it(open_engine):
    async with open_engine(max_bytes=1024 * 1024) as engine:
        inboxes = await until_full(lambda number: engine.inbox(f"box{number}"))
        half = len(inboxes) // 2
        # Start with the newest inboxes, so that new entries, ordered by time, are added far from the space that becomes
        # free.
        await asyncio.gather(*(engine.end(inbox) for inbox in inboxes[:half:-1]))
        await asyncio.gather(*(engine.move(inbox, engine.clock() + 10) for inbox in inboxes[half::-1]))
        assert len(await until_full(lambda number: engine.inbox(f"more{number}"))) < 50
        engine.clock.advance(ms=NAME_HELD_MS + 10)
        await engine.sweep()
        assert engine.storage.has_room()
        await engine.inbox("box0")
