"""Contract tests for adding messages and for sweeps, which use only the ``Storage`` protocol."""

import asyncio

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.errors import AddressExpired, AddressNotFound, AddressTaken, MailboxFull, Stopping, StorageFull
from tmpmaild.model import NAME_HELD_MS, Inbox, InboxChange, Page
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import LIFETIME_MS, fill_up


async def test_one_full_recipient_refuses_the_message_for_all(open_engine):
    async with open_engine(max_messages_per_inbox=1) as engine:
        full, empty = await engine.inbox("full"), await engine.inbox("empty")
        await engine.add(full)
        with pytest.raises(MailboxFull):
            await engine.add(empty, full)
        assert await engine.messages("empty", Page()) == ()
        assert ((await engine.find("empty")).full, (await engine.find("full")).full) == (False, True)


async def test_a_message_over_the_byte_limit_of_an_inbox_is_refused_but_a_smaller_message_is_not(open_engine):
    async with open_engine(max_bytes_per_inbox=1_000_000) as engine:
        inbox = await engine.inbox("ada")
        with pytest.raises(MailboxFull):
            await engine.add(inbox, raw=b"x" * 1_000_000)
        await engine.add(inbox, raw=b"x" * 600_000)
        with pytest.raises(MailboxFull):
            await engine.add(inbox, raw=b"x" * 400_000)
        await engine.add(inbox, raw=b"x" * 350_000)
        assert not (await engine.find("ada")).full
        assert await fill_up(engine, inbox) > 0
        assert (await engine.find("ada")).full


async def test_a_creator_with_a_used_up_share_gets_no_new_address_until_there_is_room(open_engine):
    """Without this rule, a client could fill the storage with addresses, for example with mail to unknown addresses."""
    # Each client's share is 100,000 bytes.
    async with open_engine(max_share_per_creator=0.001, max_bytes=100_000_000) as engine:
        inbox = await engine.inbox("ada", lifetime_ms=1, creator="192.0.2.1")
        await fill_up(engine, inbox)
        with pytest.raises(MailboxFull):
            await engine.inbox("bob", creator="192.0.2.1")
        with pytest.raises(AddressTaken):
            await engine.inbox("ada", creator="192.0.2.1")
        assert await engine.find("bob") is None
        await engine.inbox("other", creator="192.0.2.2")
        await engine.inbox("exempt")
        # Concurrent requests have the same results as sequential requests.
        creators = ["192.0.2.1", "192.0.2.2", "192.0.2.2"]
        outcomes = await asyncio.gather(
            *(engine.inbox("eve", creator=creator) for creator in creators), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [MailboxFull, Inbox, AddressTaken]
        engine.clock.advance(ms=1)
        await engine.sweep()
        await engine.add(await engine.inbox("bob", creator="192.0.2.1"))


async def test_an_inbox_in_which_no_message_fits_is_full_from_the_start(open_engine):
    # Each client's share is 100 bytes.
    async with open_engine(max_share_per_creator=1e-6, max_bytes=100_000_000) as engine:
        inbox = await engine.inbox("ada", creator="192.0.2.1")
        with pytest.raises(MailboxFull):
            await engine.add(inbox)
        exempt = await engine.inbox("bob")
        await engine.add(exempt)
        assert ((await engine.find("ada")).full, (await engine.find("bob")).full) == (True, False)


async def test_tiny_messages_fill_an_inbox_by_their_stored_size_rather_than_their_text(open_engine):
    async with open_engine(max_bytes_per_inbox=1_000_000, max_messages_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        assert 100 < await fill_up(engine, inbox) < 400
        assert (await engine.find("ada")).full


async def test_a_client_with_many_tiny_messages_uses_up_its_share_and_not_the_storage(open_engine):
    """The cap is 20 MiB and the client's share is 5 % of it, so other clients still receive mail."""
    limits = {"max_bytes": 20 * 1024 * 1024, "max_share_per_creator": 0.05, "reserve_bytes": 1024 * 1024}
    async with open_engine(**limits) as engine:
        greedy = [await engine.inbox(f"greedy{number}", creator="192.0.2.1") for number in range(43)]
        modest = await engine.inbox("modest", creator="192.0.2.2")
        outcomes = await asyncio.gather(
            *(engine.add(inbox, raw=b"x" * 40) for _ in range(12) for inbox in greedy), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        assert {type(outcome) for outcome in refused} == {MailboxFull}
        assert 100 < len(outcomes) - len(refused) < 400
        assert engine.storage.has_room()
        await engine.add(modest, raw=b"x" * 900_000)


async def test_senders_at_once_cannot_overfill_an_inbox(open_engine):
    async with open_engine(max_messages_per_inbox=7) as engine:
        inbox = await engine.inbox("ada")
        outcomes = await asyncio.gather(*(engine.add(inbox) for _ in range(30)), return_exceptions=True)
        assert sum(isinstance(outcome, MailboxFull) for outcome in outcomes) == 23
        assert len(await engine.messages("ada", Page())) == 7


async def test_a_creator_has_one_share_for_all_its_inboxes(open_engine):
    # Each client's share is 1,000,000 bytes.
    async with open_engine(max_share_per_creator=0.01, max_bytes=100_000_000) as engine:
        inboxes = [await engine.inbox(f"box{number}", creator="192.0.2.1") for number in range(3)]
        stranger = await engine.inbox("stranger", creator="192.0.2.2")
        await engine.add(inboxes[0], raw=b"x" * 500_000)
        with pytest.raises(MailboxFull):
            await engine.add(inboxes[1], inboxes[2], raw=b"x" * 260_000)
        await engine.add(inboxes[1], raw=b"x" * 450_000)
        await fill_up(engine, inboxes[1])
        assert (await engine.find("box2")).full
        await engine.add(stranger, raw=b"x" * 500_000)
        engine.clock.advance(ms=LIFETIME_MS)
        await engine.sweep()
        await engine.add(await engine.inbox("later", creator="192.0.2.1"), raw=b"x" * 950_000)


async def test_many_messages_with_many_recipients_at_once_reach_all_of_them(open_engine):
    async with open_engine(max_messages_per_inbox=0, max_bytes_per_inbox=0) as engine:
        inboxes = [await engine.inbox(f"box{number}") for number in range(100)]
        message_ids = await asyncio.gather(*(engine.add(*inboxes) for _ in range(30)))
        assert len(set(message_ids)) == 30
        assert {(await engine.find(f"box{number}")).message_count for number in range(100)} == {30}


async def test_an_expired_recipient_is_left_out(engine):
    over, lives = await engine.inbox("over", lifetime_ms=1), await engine.inbox("lives")
    engine.clock.advance(ms=1)
    message_id = await engine.add(over, lives, recipients=("over@mail.example.com", "lives@mail.example.com"))
    (message,) = await engine.messages("lives", Page())
    assert (message.id, message.recipient) == (message_id, "lives@mail.example.com")


async def test_the_operators_inbox_has_its_own_limits(open_engine):
    async with open_engine(max_messages_per_inbox=1) as engine:
        await asyncio.gather(*(engine.add(OPERATOR_INBOX_ID) for _ in range(200)))
        assert len((await engine.storage.operator_box()).entries) == 200
        engine.clock.advance(seconds=30 * 24 * 3600 + 1)
        await engine.sweep()
        assert (await engine.storage.operator_box()).entries == ()
        assert await engine.find("postmaster") is None


async def test_a_follower_sees_all_mail_of_twenty_senders(open_engine):
    async with open_engine(max_messages_per_inbox=0, max_bytes_per_inbox=0) as engine:
        inbox = await engine.inbox("ada")
        seen = []

        async def send(sender):
            for number in range(20):
                await engine.add(inbox, body="x" * (200_000 if (sender + number) % 7 == 0 else 50))

        async def follow():
            while len(seen) < 400:
                after = seen[-1] if seen else None
                page = Page(after=after, ascending=True, limit=25, bodies_bytes=0)
                seen.extend(message.id for message in await engine.messages("ada", page))

        await asyncio.wait_for(asyncio.gather(follow(), *(send(sender) for sender in range(20))), PATIENCE_SECONDS)
        assert seen == [message.id for message in await engine.messages("ada", Page(ascending=True, limit=1000))]


async def test_a_swept_inbox_stays_expired_if_the_clock_is_set_back(engine):
    inbox = await engine.inbox("ada")
    await engine.add(inbox)
    engine.clock.advance(ms=LIFETIME_MS)
    await engine.sweep()
    engine.clock.advance(ms=-LIFETIME_MS // 2)
    assert (await engine.find("ada")).expires_at_ms <= engine.clock()
    with pytest.raises(AddressNotFound):
        await engine.add(inbox)
    for refused in (engine.move(inbox, engine.clock() + LIFETIME_MS), engine.end(inbox)):
        with pytest.raises(AddressExpired) as refusal:
            await refused
        assert refusal.value.expired_at_ms <= engine.clock()
    engine.clock.advance(ms=LIFETIME_MS + NAME_HELD_MS)
    await engine.sweep()
    assert await engine.find("ada") is None


async def test_a_sweep_may_be_repeated_and_does_not_change_live_inboxes(engine):
    over, lives = await engine.inbox("over", lifetime_ms=1), await engine.inbox("lives")
    await engine.add(over, lives)
    await engine.add(lives)
    engine.clock.advance(ms=1)
    for _ in range(3):
        await engine.sweep()
        assert len(await engine.messages("lives", Page())) == 2
        assert (await engine.find("over")).message_count == 0


async def test_a_commit_that_fills_an_inbox_reports_it(open_engine):
    async with open_engine(max_messages_per_inbox=2) as engine:
        told = engine.told()
        inbox = await engine.inbox("ada")
        await engine.add(inbox)
        await engine.add(inbox)
        assert told == [InboxChange(inbox.id, full=False), InboxChange(inbox.id, full=True)]


async def test_a_full_storage_refuses_mail_and_accepts_it_after_a_sweep(open_engine):
    async with open_engine(max_bytes=4 * 1024 * 1024, max_share_per_creator=1, reserve_bytes=1 << 17) as engine:
        inbox, stays = await engine.inbox("ada"), await engine.inbox("stays", lifetime_ms=10 * LIFETIME_MS)
        kept = await engine.add(stays)
        assert engine.storage.has_room()
        outcomes = [engine.add(inbox, body="x" * 50_000) for _ in range(100)]
        outcomes = await asyncio.gather(*outcomes, return_exceptions=True)
        assert StorageFull in map(type, outcomes)
        assert not engine.storage.has_room()
        assert [message.id for message in await engine.messages("stays", Page())] == [kept]
        engine.clock.advance(ms=LIFETIME_MS)
        await engine.sweep()
        assert engine.storage.has_room()
        await engine.add(await engine.inbox("later"), body="x" * 50_000)


async def test_there_is_no_more_room_before_the_cap_is_reached(open_engine):
    async with open_engine(max_bytes=8 * 1024 * 1024, reserve_bytes=10**6, max_share_per_creator=1) as engine:
        inbox = await engine.inbox("ada")
        while engine.storage.has_room():
            await engine.add(inbox, body="x" * 50_000)
        await engine.add(inbox, body="x" * 100_000)  # there is still room for messages in progress


async def test_closing_finishes_accepted_work_and_may_be_repeated(open_engine):
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        senders = [asyncio.ensure_future(engine.add(inbox)) for _ in range(50)]
        await asyncio.sleep(0)
        await engine.storage.close()
        await asyncio.gather(*senders)
        for late in (engine.find("ada"), engine.add(inbox)):
            with pytest.raises(Stopping):
                await late
    async with open_engine() as engine:
        assert len(await engine.messages("ada", Page())) == 50
