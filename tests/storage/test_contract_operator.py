"""The operator's inbox: a share for each client, replacement when it is full, and deletion by the operator."""

import asyncio

import pytest

from tmpmaild.errors import MailboxFull
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.operatorbox import CLIENT_SHARE, OPERATOR_MAX_BYTES, OPERATOR_MAX_MESSAGES

OF_CLIENT = int(OPERATOR_MAX_MESSAGES * CLIENT_SHARE)


async def send(engine, ip, *others, **mail):
    return await engine.add(OPERATOR_INBOX_ID, *others, remote_ip=ip, client=ip, **mail)


async def senders(engine):
    return [one.remote_ip for one in (await engine.storage.operator_box()).entries]


async def fill(engine):
    """Fill the inbox equally from four networks, and return the client that sent the oldest message."""
    clients = [f"10.0.{network}.{client}" for network in range(4) for client in range(5)]
    await asyncio.gather(*(send(engine, ip) for ip in clients * (OPERATOR_MAX_MESSAGES // len(clients))))
    return (await senders(engine))[0]


async def test_a_client_that_sends_in_parallel_gets_no_more_than_its_share(engine):
    outcomes = await asyncio.gather(*(send(engine, "192.0.2.1") for _ in range(2 * OF_CLIENT)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert [type(one) for one in refused] == [MailboxFull] * OF_CLIENT
    assert await senders(engine) == ["192.0.2.1"] * OF_CLIENT
    await send(engine, "198.51.100.1")
    assert (await engine.storage.operator_box()).refuses("192.0.2.1")


async def test_a_full_inbox_accepts_new_mail_and_drops_the_oldest_of_the_largest_sender(engine):
    oldest = await fill(engine)
    stored = await send(engine, "192.0.2.1", subject="to postmaster")
    held = await senders(engine)
    assert (len(held), held[-1]) == (OPERATOR_MAX_MESSAGES, "192.0.2.1")
    assert held.count(oldest) == OPERATOR_MAX_MESSAGES // 20 - 1
    metrics = {one.name: one for one in engine.storage.metrics()}
    assert metrics["postmaster_given_way_total"].values() == {(): 1}
    assert await engine.storage.delete_operator_mail([stored]) == 1


async def test_a_large_message_displaces_as_many_messages_as_necessary(engine):
    part = OPERATOR_MAX_BYTES // 10
    for network in range(9):
        await send(engine, f"10.0.{network}.1", raw=b"x" * part, body="")
    await send(engine, "192.0.2.1", raw=b"x" * (2 * part), body="")
    assert await senders(engine) == [*(f"10.0.{network}.1" for network in range(2, 9)), "192.0.2.1"]


async def test_refused_mail_displaces_no_other_mail(open_engine):
    async with open_engine(max_messages_per_inbox=1) as engine:
        inbox = await engine.inbox("ada")
        await engine.add(inbox)
        await fill(engine)
        before = await senders(engine)
        with pytest.raises(MailboxFull):
            await send(engine, "192.0.2.1", inbox)
        with pytest.raises(MailboxFull):
            await send(engine, "192.0.2.1", raw=b"x" * (OPERATOR_MAX_BYTES + 1), body="")
        assert await senders(engine) == before
        assert next(m for m in engine.storage.metrics() if m.name == "postmaster_given_way_total").values() == {(): 0}


async def test_the_operator_deletes_one_message_or_all_of_the_operators_inbox_only(engine):
    inbox = await engine.inbox("ada")
    kept = await engine.add(inbox, subject="kept")
    stored = [await send(engine, "192.0.2.1") for _ in range(4)]
    assert await engine.storage.delete_operator_mail([stored[1], kept, "msg_none", "", "\ud800"]) == 1
    assert await engine.storage.delete_operator_mail([stored[1]]) == 0
    assert await engine.storage.delete_operator_mail([]) == 0
    assert await engine.storage.delete_operator_mail() == 3
    assert await senders(engine) == []
    assert (await engine.find("ada")).message_count == 1


async def test_shared_mail_is_kept_for_other_recipients_when_the_operators_copy_is_dropped(engine, store):
    inbox = await engine.inbox("ada")
    await send(engine, "10.0.0.0", inbox, subject="shared")
    await fill(engine)  # the last of these messages replace the first messages
    await send(engine, "192.0.2.1")
    assert (await engine.find("ada")).message_count == 1
    assert "shared" in [subject for subject, _ in store.mails()]
