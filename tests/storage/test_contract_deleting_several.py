"""What every storage engine promises of many messages that are deleted at once: only the ``Storage`` protocol is known."""

import asyncio

from tmpmaild.model import InboxChange, MessageDeleted, Page
from tmpmaild.storage import enginestorage
from tmpmaild.storage.base import DELETED_AT_ONCE, OPERATOR_INBOX_ID
from tmpmaild.storage.rows import MAX_KEY, message_id_of

from .conftest import LIFETIME_MS, NO_INBOX_IDS


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
    """So whoever reads meanwhile sees all of it or nothing."""
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


async def test_each_that_was_deleted_is_told_before_the_answer_and_nothing_else(open_engine):
    async with open_engine(max_messages_per_inbox=3) as engine:
        inbox = await engine.inbox("ada")
        stored = [await engine.add(inbox) for _ in range(3)]
        told = engine.told()
        await delete(engine, inbox, up_to=stored[1])
        assert told == [InboxChange(inbox.id, full=False, notice=MessageDeleted(one)) for one in stored[:2]]
        await delete(engine, inbox, stored[:2])
        assert len(told) == 2


async def test_two_at_once_count_each_message_once(engine):
    inbox = await engine.inbox("ada")
    stored = [await engine.add(inbox) for _ in range(20)]
    ways = [delete(engine, inbox), delete(engine, inbox, stored[5:]), delete(engine, inbox, up_to=stored[9])]
    single = engine.delete(inbox, stored[7])
    counts = await asyncio.gather(*ways, single, return_exceptions=True)
    assert sum(counts[:3]) + (counts[3] is None) == 20


async def test_the_operators_mail_and_that_of_no_inbox_cannot_be_deleted(engine):
    stored = await asyncio.gather(*(engine.add(OPERATOR_INBOX_ID) for _ in range(200)))
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    for inbox_id in (OPERATOR_INBOX_ID, *NO_INBOX_IDS):
        for message_ids in (None, stored[:1]):
            assert await engine.storage.delete_messages(inbox_id, message_ids) == 0
    assert (await engine.find("ada")).message_count == 1
    assert await engine.storage.operator_is_full()


async def test_what_has_expired_and_is_swept_deletes_nothing(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    engine.clock.advance(ms=LIFETIME_MS)
    await engine.sweep()
    assert await delete(engine, inbox) == 0
