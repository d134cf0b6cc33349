"""Contract tests for webhooks, which use only the ``Storage`` protocol."""

import asyncio

import pytest
from msgspec.structs import replace

from tmpmaild.errors import AddressExpired, AddressNotFound, RequestError
from tmpmaild.model import Page, Webhook, WebhookState
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.keys import message_id_of

from .conftest import LIFETIME_MS, NO_INBOX_IDS, fill_up, until_full

WEBHOOK = Webhook("https://hooks.example.org/ü?a=1", frozenset({"message", "expired"}), frozenset({"code"}), "whsec_x")
OTHER = Webhook("http://10.0.0.1:8080/" + "🙂" * 1200, frozenset({"verdict"}), frozenset(), "whsec_" + "y" * 40)
LEASE_MS = 15_000


async def _set(engine, inbox, webhook=WEBHOOK):
    await engine.storage.set_webhook(inbox.id, webhook, engine.clock())
    return await engine.storage.read_webhook(inbox.id)


async def _lease(engine, inbox):
    stored = await engine.storage.read_webhook(inbox.id)
    return await engine.lease(stored, engine.clock() + LEASE_MS)


async def _waiting(engine, name, stored):
    """Return the subjects of the messages that have not been reported to the target."""
    return await engine.subjects(name, Page(after=stored.state.reported_message_id, ascending=True))


async def test_a_webhook_is_read_as_it_was_set_until_it_is_removed(engine):
    inbox, plain = await engine.inbox("ada"), await engine.inbox("bob")
    for webhook in (WEBHOOK, OTHER):
        stored = await _set(engine, inbox, webhook)
        assert (stored.inbox_id, stored.address, stored.expires_at_ms) == (inbox.id, inbox.address, inbox.expires_at_ms)
        assert stored.webhook == webhook
        position = stored.newest_message_id
        assert stored.state == WebhookState(position, position)
    assert await engine.storage.read_webhook(plain.id) is None
    assert await _set(engine, inbox, None) is None
    assert await _set(engine, inbox, None) is None
    for inbox_id in NO_INBOX_IDS:
        assert await engine.storage.read_webhook(inbox_id) is None


async def test_a_webhook_that_only_a_different_version_can_read_has_no_url_and_no_events(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("bob")
    await _set(engine, other)
    stored = await _set(engine, inbox, replace(WEBHOOK, events=frozenset({"message", "an event of 1.9"})))
    assert stored.webhook == Webhook("", frozenset(), frozenset(), "")
    assert {one.webhook.url for one in await engine.storage.list_webhooks(after="", limit=10)} == {"", WEBHOOK.url}
    assert (await _set(engine, inbox)).webhook == WEBHOOK


async def test_a_new_webhook_gets_all_events_after_it_was_set(engine):
    inbox, other = await engine.inbox("ada"), await engine.inbox("bob")
    await engine.add(inbox, subject="before")
    engine.clock.advance(ms=-5000)  # setting the clock back has no effect
    stored = await _set(engine, inbox)
    assert await _waiting(engine, "ada", stored) == []
    await engine.add(other)
    again = await engine.storage.read_webhook(inbox.id)
    assert again.newest_message_id <= again.state.reported_message_id
    newest = [await engine.add(inbox, other, subject=subject) for subject in ("first", "second")][-1]
    stored = await engine.storage.read_webhook(inbox.id)
    assert await _waiting(engine, "ada", stored) == ["first", "second"]
    assert stored.newest_message_id == newest > stored.state.reported_message_id


async def test_messages_that_arrive_while_a_webhook_is_set_come_before_or_after_it(engine):
    inbox = await engine.inbox("ada")
    work = [engine.add(inbox, subject=str(number)) for number in range(20)]
    work.insert(10, engine.storage.set_webhook(inbox.id, WEBHOOK, engine.clock()))
    await asyncio.gather(*work)
    stored = await engine.storage.read_webhook(inbox.id)
    assert await _waiting(engine, "ada", stored) == [str(number) for number in range(10, 20)]
    assert stored.newest_message_id == (await engine.messages("ada", Page(limit=1)))[0].id


async def test_no_event_is_pending_after_a_reported_message_was_deleted(engine):
    inbox = await engine.inbox("ada")
    leased = await _set(engine, inbox)
    message_id = await engine.add(inbox)
    newest = (await engine.storage.read_webhook(inbox.id)).newest_message_id
    await engine.delete(inbox, message_id)
    assert await engine.storage.store_webhook(leased, WebhookState(newest, leased.state.reported_verdict_id))
    stored = await engine.storage.read_webhook(inbox.id)
    assert stored.newest_message_id <= stored.state.reported_message_id == message_id
    await engine.add(inbox, subject="later")
    assert await _waiting(engine, "ada", stored) == ["later"]


async def test_pages_of_webhooks_are_in_the_order_of_inboxes_and_include_expired_inboxes(engine):
    inboxes = [await engine.inbox(f"box{number}", lifetime_ms=LIFETIME_MS + number) for number in range(7)]
    for inbox in inboxes[::2]:
        await _set(engine, inbox)
    engine.clock.advance(ms=LIFETIME_MS)
    pages = [await engine.storage.list_webhooks(limit=3)]
    pages.append(await engine.storage.list_webhooks(after=pages[0][-1].inbox_id, limit=3))
    assert [[stored.address for stored in page] for page in pages] == [
        [inbox.address for inbox in inboxes[:5:2]],
        [inboxes[6].address],
    ]
    assert pages[0][0] == await engine.storage.read_webhook(inboxes[0].id)
    assert list(await engine.storage.list_webhooks(after=inboxes[6].id)) == []


async def test_a_webhook_is_leased_to_only_one_of_its_readers(engine):
    inbox = await engine.inbox("ada")
    stored = await _set(engine, inbox)
    until_ms = engine.clock() + LEASE_MS
    results = await asyncio.gather(*(engine.lease(stored, until_ms) for _ in range(5)))
    (leased,) = [one for one in results if one is not None]
    assert leased == await engine.storage.read_webhook(inbox.id)
    assert leased.state == replace(stored.state, next_at_ms=until_ms)
    again = await engine.lease(leased, until_ms + LEASE_MS)  # a second lease, as if the first had expired
    assert await engine.storage.store_webhook(leased, stored.state) is None
    assert await engine.storage.store_webhook(leased, None) is None
    assert await engine.storage.store_webhook(again, stored.state)
    assert await engine.lease(again, until_ms) is None
    assert (await engine.storage.read_webhook(inbox.id)).state == stored.state


async def test_webhooks_leased_in_parallel_each_get_their_own_lease(engine):
    """A webhook that is already leased keeps its lease, even if a second daemon requests a later time."""
    inboxes = [await engine.inbox(f"box{number}") for number in range(6)]
    stored = [await _set(engine, inbox) for inbox in inboxes]
    held = await engine.lease(stored[0], engine.clock() + LEASE_MS)
    until_ms = [engine.clock() + number * 600_000 for number in range(1, 7)]
    leased = await asyncio.gather(*map(engine.lease, stored, until_ms))
    assert [one and one.state.next_at_ms for one in leased] == [None, *until_ms[1:]]
    assert list(await engine.storage.list_webhooks()) == [held, *leased[1:]]


async def test_the_result_of_a_call_is_stored_if_the_webhook_is_still_the_same(engine):
    inbox = await engine.inbox("ada")
    await _set(engine, inbox)
    message_id = await engine.add(inbox)
    leased = await _lease(engine, inbox)
    state = WebhookState(message_id, message_id, 3, engine.clock() + 30_000, engine.clock(), "503")
    assert await engine.storage.store_webhook(leased, state)
    assert await engine.storage.store_webhook(leased, replace(state, failures=4)) is None
    stored = await engine.storage.read_webhook(inbox.id)
    assert (stored.state, stored.webhook, stored.version) == (state, WEBHOOK, leased.version + 1)
    await _set(engine, inbox, OTHER)
    assert await engine.storage.store_webhook(stored, None) is None
    stored = await engine.storage.read_webhook(inbox.id)
    assert (stored.state.failures, stored.state.result, stored.webhook) == (0, "", OTHER)


async def test_the_results_of_many_webhooks_are_stored_at_once(engine):
    inboxes = [await engine.inbox(f"box{number}") for number in range(6)]
    for inbox in inboxes:
        await _set(engine, inbox)
    leased = await asyncio.gather(*(_lease(engine, inbox) for inbox in reversed(inboxes)))
    await _set(engine, inboxes[0], OTHER)
    message = message_id_of(7)
    states = [WebhookState(message, message, number, result=str(number)) for number in range(1, 6)]
    work = map(engine.storage.store_webhook, leased, [None, *states])
    assert [one is not None for one in await asyncio.gather(*work)] == [True] * 5 + [False]
    left = await engine.storage.list_webhooks()
    assert [(stored.state.failures, stored.state.result) for stored in left] == [
        (0, ""),
        *[(number, str(number)) for number in (4, 3, 2, 1)],
    ]


@pytest.mark.parametrize("webhook", [WEBHOOK, None])
async def test_an_ended_inbox_gets_no_webhook_and_keeps_its_own_until_it_is_swept(engine, webhook):
    ended, expired = await engine.inbox("ended"), await engine.inbox("expired")
    for inbox in (ended, expired):
        await _set(engine, inbox, OTHER)
    await engine.end(ended)
    engine.clock.advance(ms=LIFETIME_MS)
    for inbox in (ended, expired):
        with pytest.raises(AddressExpired):
            await engine.storage.set_webhook(inbox.id, webhook, engine.clock() - 1)
        leased = await _lease(engine, inbox)
        assert leased.expires_at_ms <= engine.clock()
        assert await engine.storage.store_webhook(leased, replace(leased.state, failures=1))
        assert (await engine.storage.read_webhook(inbox.id)).webhook == OTHER
    await engine.sweep()
    assert list(await engine.storage.list_webhooks()) == []
    for inbox in (ended, expired):
        assert await engine.storage.read_webhook(inbox.id) is None
        assert await engine.storage.store_webhook(leased, leased.state) is None


async def test_no_other_inbox_gets_a_webhook(engine):
    for inbox_id in (OPERATOR_INBOX_ID, *NO_INBOX_IDS):
        with pytest.raises(AddressNotFound):
            await engine.storage.set_webhook(inbox_id, WEBHOOK, engine.clock())


async def test_setting_and_ending_at_once_leave_no_webhook_after_the_sweep(engine):
    inboxes = [await engine.inbox(f"box{number}") for number in range(8)]
    work = [
        one
        for inbox in inboxes
        for one in (engine.storage.set_webhook(inbox.id, WEBHOOK, engine.clock()), engine.end(inbox))
    ]
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    assert {type(one) for one in outcomes if one is not None} <= {AddressExpired}
    await engine.sweep()
    assert list(await engine.storage.list_webhooks()) == []


async def test_a_webhook_uses_no_space_of_the_mail_of_its_inbox(open_engine):
    async with open_engine(max_bytes_per_inbox=100_000) as engine:
        plain, told = await engine.inbox("plain"), await engine.inbox("told")
        await _set(engine, told, OTHER)
        assert await fill_up(engine, plain) == await fill_up(engine, told) > 0
        stored = await _lease(engine, told)
        assert await engine.storage.store_webhook(stored, replace(stored.state, failures=1, result="timeout"))


async def test_calls_continue_and_webhooks_are_removed_when_the_storage_is_full(open_engine):
    async with open_engine(max_bytes=1024 * 1024, max_share_per_creator=1.0, max_messages_per_inbox=0) as engine:
        inbox, others = await engine.inbox("ada"), [await engine.inbox(f"box{number}") for number in range(20)]
        for other in others:
            await _set(engine, other)
        await until_full(lambda _: engine.add(inbox, body="x" * 3000))
        for other in others:
            stored = await _lease(engine, other)
            failed = WebhookState(message_id_of(1 << 62), message_id_of(1 << 62), 300, 1 << 46, 1 << 46, "unreachable")
            assert await engine.storage.store_webhook(stored, failed)
        for other in others:
            assert await _set(engine, other, None) is None


async def test_listeners_for_commits_are_not_notified_of_webhooks(engine):
    told = engine.told()
    inbox = await engine.inbox("ada")
    await _set(engine, inbox)
    await engine.storage.store_webhook(await _lease(engine, inbox), None)
    assert told == []


async def test_a_webhook_is_still_there_after_a_restart(open_engine):
    async with open_engine() as engine:
        inbox = await engine.inbox("ada")
        before = await _set(engine, inbox)
    async with open_engine() as engine:
        assert await engine.storage.read_webhook(inbox.id) == before
        assert isinstance(await engine.add(inbox), str)
        with pytest.raises(RequestError):
            await engine.storage.set_webhook("999", None, engine.clock())
