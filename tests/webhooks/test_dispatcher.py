"""The calls that targets get and when, on a real storage and over real connections."""

import asyncio

import msgspec
import pytest
from blockbuster import blockbuster_ctx
from receivers import OK
from webhookworld import LIFETIME_MS, SECRET

from tmpmaild.errors import StorageUnavailable
from tmpmaild.model import Block, Webhook, unchecked
from tmpmaild.webhooks import dispatcher
from tmpmaild.webhooks.signing import signed_fields

pytestmark = pytest.mark.both_engines
UNAVAILABLE = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
LATER = b"HTTP/1.1 503 Later\r\nRetry-After: 600\r\n\r\n"


async def test_a_target_is_told_of_mail_signed_in_order_and_once(world):
    inbox = await world.inbox()
    async with world.sending():
        ids = [await world.deliver(inbox, f"mail {number}", b"Your code is 481516\r\n") for number in range(5)]
        told = await world.receiver.wait(5)
        await world.settled(inbox, told_message_id=ids[-1], next_at_ms=0, result="204", failures=0)
    assert world.subjects() == [f"mail {number}" for number in range(5)]
    _, first = world.told()[0]
    assert (first["type"], first["data"]["id"]) == ("message.received", ids[0])
    assert [code["value"] for code in first["data"]["codes"]] == ["481516"]
    assert first["timestamp"] == first["data"]["received_at"]
    fields = told[0].fields
    assert fields["user-agent"].startswith("tmpmaild/")
    assert fields["content-type"] == "application/json"
    seconds = int(fields["webhook-timestamp"])
    assert seconds == world.clock() // 1000
    wanted = signed_fields(SECRET, fields["webhook-id"], seconds, told[0].body)
    assert ("webhook-signature", fields["webhook-signature"]) in wanted
    assert len({one.fields["webhook-id"] for one in told}) == 5


async def test_a_failed_call_is_made_again_with_the_same_id_and_nothing_goes_before_it(world):
    world.receiver.answer = UNAVAILABLE
    inbox = await world.inbox()
    async with world.sending():
        await world.deliver(inbox, "first")
        await world.settled(inbox, failures=1, next_at_ms=world.clock() + 1000, result="500")
        await world.deliver(inbox, "second")
        for number, seconds in enumerate([1, 5, 30, 120, 300, 600, 900, 900][:4], start=2):
            world.pass_time(seconds)
            await world.settled(inbox, failures=number)
        world.receiver.answer = OK
        world.pass_time(300)
        await world.receiver.wait(7)
    assert world.subjects() == ["first"] * 6 + ["second"]
    assert len({one.fields["webhook-id"] for one in world.receiver.told[:6]}) == 1


async def test_a_daemon_that_stops_during_a_call_leaves_it_to_the_next_at_once(world):
    async def stay_silent(*_):
        await asyncio.Event().wait()

    world.receiver.answer = stay_silent
    inbox = await world.inbox()
    async with world.sending():
        await world.deliver(inbox, "told all the same")
        await world.receiver.wait(1)
    assert (await world.state(inbox)).next_at_ms == 0
    world.receiver.answer = OK
    async with world.sending(world.another()):
        await world.receiver.wait(2)


async def test_a_daemon_that_stops_while_a_result_is_stored_leaves_nothing_to_tell_again(world, monkeypatch):
    store, is_storing = world.storage.store_webhook, asyncio.Event()

    async def announced(leased, state):
        if state.called_at_ms:  # a lease is stored by it as well
            is_storing.set()
        return await store(leased, state)

    monkeypatch.setattr(world.storage, "store_webhook", announced)
    inbox = await world.inbox()
    async with world.sending():
        newest = await world.deliver(inbox)
        await is_storing.wait()
    await world.deliver(inbox, "stored after that")
    assert (await world.state(inbox)).told_message_id == newest


async def test_mail_that_comes_while_many_webhooks_are_read_is_told_of_at_once(world):
    inboxes = [await world.inbox(f"inbox{number}") for number in range(250)]  # more than a page
    with blockbuster_ctx("tmpmaild"):
        async with world.sending(world.another()):
            for inbox in inboxes[::50]:
                await world.deliver(inbox, inbox.address)
            await world.receiver.wait(5)


async def test_of_two_daemons_one_calls(world):
    inboxes = [await world.inbox(f"inbox{number}") for number in range(10)]
    async with world.sending(), world.sending(world.another()):
        for inbox in inboxes:
            await world.deliver(inbox, inbox.address)
        await world.receiver.wait(10)
        for inbox in inboxes:
            await world.settled(inbox, next_at_ms=0, result="204")
    assert sorted(world.subjects()) == sorted(inbox.address for inbox in inboxes)


async def test_a_daemon_that_died_during_a_call_leaves_it_to_another_after_the_lease(world):
    inbox = await world.inbox()
    await world.deliver(inbox, "told all the same")
    assert await lease(world, inbox, world.clock() + 30_000)
    async with world.sending():
        await world.deliver(inbox, "and this")
        world.pass_time(30)
        await world.receiver.wait(2)
    assert world.subjects() == ["told all the same", "and this"]


async def lease(world, inbox, until_ms):
    stored = await world.storage.read_webhook(inbox.id)
    return await world.storage.store_webhook(stored, msgspec.structs.replace(stored.state, next_at_ms=until_ms))


async def test_the_end_is_not_told_by_two_daemons_and_after_the_lease_of_one_that_died(world):
    """Whenever the retry of a failed call is due: the end does not wait for it."""
    world.receiver.answer = LATER
    inbox = await world.inbox("ada", "message", "expired")
    async with world.sending():
        await world.deliver(inbox)
        await world.settled(inbox, next_at_ms=world.clock() + 600_000)
        until_ms = world.clock() + 15_000
        assert await lease(world, inbox, until_ms)
        world.receiver.answer = OK
        await delete(world, inbox)
        await world.until(lambda: is_due_at(world, until_ms))
        assert (await world.state(inbox)).next_at_ms == until_ms
        world.pass_time(15)
        await world.until(lambda: is_gone(world, inbox))
    assert [document["type"] for _, document in world.told()] == ["message.received", "inbox.expired"]


async def test_the_lease_of_an_end_is_as_long_as_any_other(world):
    seen = []
    world.receiver.answer = LATER
    inbox = await world.inbox("ada", "message", "expired")

    async def look(_, writer):
        seen.append((await world.state(inbox)).next_at_ms - world.clock())
        writer.write(OK)

    async with world.sending():
        await world.deliver(inbox)
        await world.settled(inbox, next_at_ms=world.clock() + 600_000)
        world.receiver.answer = look
        await delete(world, inbox)
        await world.until(lambda: is_gone(world, inbox))
    assert 0 < seen[0] <= 60_000


@pytest.mark.parametrize("method", ["read_webhook", "store_webhook", "list_webhooks"])
async def test_when_the_storage_is_back_webhooks_are_called_without_waiting_for_the_next_scan(
    world, monkeypatch, method
):
    monkeypatch.setattr(dispatcher, "_RETRY_SECONDS", 0.01)
    working, tries = getattr(world.storage, method), []

    async def away(*arguments, **options):
        tries.append(arguments)
        if len(tries) < 3:
            raise StorageUnavailable("away")
        return await working(*arguments, **options)

    inbox = await world.inbox()
    monkeypatch.setattr(world.storage, method, away)
    async with world.sending():
        await world.deliver(inbox)
        await world.receiver.wait(1)


async def test_only_messages_that_have_what_is_wanted_are_told_of(world):
    inbox = await world.inbox("ada", has=["code"], private=True)
    async with world.sending():
        for subject, body in (("a", b"nothing\r\n"), ("b", b"Your code is 481516\r\n"), ("c", b"nothing\r\n")):
            newest = await world.deliver(inbox, subject, body)
        await world.receiver.wait(1)
        await world.settled(inbox, told_message_id=newest, next_at_ms=0)
    assert world.subjects() == ["b"]


async def is_gone(world, inbox):
    return await world.storage.read_webhook(inbox.id) is None


async def delete(world, inbox):
    await world.storage.move_expiry(inbox.id, expires_at_ms=world.clock(), now_ms=world.clock())


async def shorten(world, inbox):
    await world.storage.move_expiry(inbox.id, expires_at_ms=world.clock() + 1000, now_ms=world.clock())
    world.pass_time(1)


async def pass_to_the_end(world, _):
    world.pass_time(LIFETIME_MS // 1000)


@pytest.mark.parametrize("end", [delete, shorten, pass_to_the_end])
async def test_the_end_is_told_at_once_and_no_mail_where_a_failed_call_waits_for_its_next_try(world, end):
    world.receiver.answer = LATER
    inbox = await world.inbox("ada", "message", "expired")
    async with world.sending():
        await world.deliver(inbox)
        await world.settled(inbox, next_at_ms=world.clock() + 600_000)
        world.receiver.answer = OK
        await end(world, inbox)
        await world.until(lambda: is_gone(world, inbox))
    (_, first), (_, last) = world.told()
    assert (first["type"], last["type"], last["data"]) == (
        "message.received",
        "inbox.expired",
        {"address": inbox.address},
    )


@pytest.mark.parametrize("end", [delete, shorten, pass_to_the_end])
async def test_the_end_is_told_at_once_after_a_call_that_fails_meanwhile(world, end):
    inbox = await world.inbox("ada", "message", "expired")

    async def end_and_fail(_, writer):
        world.receiver.answer = OK
        await end(world, inbox)
        writer.write(LATER)

    world.receiver.answer = end_and_fail
    async with world.sending():
        await world.deliver(inbox)
        await world.until(lambda: is_gone(world, inbox))
    assert [document["type"] for _, document in world.told()] == ["message.received", "inbox.expired"]


async def test_the_end_waits_for_its_own_next_try(world):
    world.receiver.answer = UNAVAILABLE
    inbox = await world.inbox("ada", "expired")
    async with world.sending():
        await world.deliver(inbox, "not wanted")
        await world.until(lambda: known(world, 1))
        await delete(world, inbox)
        for number, seconds in enumerate((1, 5, 30), start=1):
            await world.settled(inbox, failures=number, next_at_ms=world.clock() + seconds * 1000)
            world.pass_time(seconds)
        await world.receiver.wait(4)


async def test_the_end_is_told_at_its_time_although_a_daemon_was_calling_when_it_was_looked_at(world):
    inbox = await world.inbox("ada", "expired")
    leased = await lease(world, inbox, inbox.expires_at_ms + 15_000)
    async with world.sending():
        await world.until(lambda: known(world, 1))
        await world.storage.store_webhook(leased, msgspec.structs.replace(leased.state, next_at_ms=0))
        await pass_to_the_end(world, inbox)
        await world.receiver.wait(1)


async def test_an_extension_that_was_not_told_here_does_not_make_calls_more_frequent(world):
    """For example an extension by another daemon while the connection to the database was lost."""
    world.receiver.answer = LATER
    inbox = await world.inbox("ada", "message", "expired")
    async with world.sending():
        await world.deliver(inbox)
        await world.settled(inbox, failures=1, next_at_ms=world.clock() + 600_000)
        await world.until(lambda: is_due_at(world, world.clock() + 600_000))
        world.dispatcher._schedule.end_at(world.dispatcher._schedule.get(inbox.id), world.clock())
        world.pass_time(1)
        await world.until(lambda: ends_with(world, inbox))
        await world.until(lambda: is_due_at(world, world.clock() + 599_000))
        assert len(world.told()) == 1
        world.pass_time(599)
        await world.settled(inbox, failures=2, next_at_ms=world.clock() + 600_000)


async def is_due_at(world, at_ms):
    return world.dispatcher._schedule.next_ms() == at_ms


async def ends_with(world, inbox):
    return world.dispatcher._schedule.get(inbox.id).ends_at_ms == inbox.expires_at_ms


async def known(world, count):
    return world.figure("webhooks_known") == count


async def test_a_webhook_that_is_set_anew_during_a_call_is_the_one_that_counts(world):
    inbox, is_set = await world.inbox(), asyncio.Event()

    async def set_anew(_, writer):
        world.receiver.answer = OK
        await world.set(inbox, (await world.storage.read_webhook(inbox.id)).webhook)
        is_set.set()
        writer.write(OK)

    world.receiver.answer = set_anew
    async with world.sending():
        await world.deliver(inbox, "before")
        await is_set.wait()
        await world.deliver(inbox, "after")
        await world.receiver.wait(2)
    assert world.subjects() == ["before", "after"]


async def test_a_url_that_cannot_be_read_any_more_harms_no_other(world):
    """For example a URL stored by a newer version in the same database."""
    inbox = await world.inbox()
    await world.set(await world.inbox("bob"), Webhook("no URL", frozenset({"message"}), frozenset(), SECRET))
    await world.set(await world.inbox("cyd"), Webhook("https://a.example/", frozenset({"new"}), frozenset(), SECRET))
    async with world.sending(world.another()):
        await world.deliver(inbox, "told")
        await world.receiver.wait(1)


async def test_a_webhook_that_is_taken_away_is_not_called(world):
    inbox = await world.inbox()
    async with world.sending():
        await world.until(lambda: known(world, 1))
        await world.set(inbox, None)
        await world.until(lambda: known(world, 0))
        await world.deliver(inbox)
        other = await world.inbox("bob")
        await world.deliver(other, "bob's")
        await world.receiver.wait(1)
    assert world.subjects() == ["bob's"]


async def test_a_host_that_is_paused_is_called_when_it_is_no_longer(world):
    inbox = await world.inbox()
    world.service.blocks.add([Block("target", "127.0.0.1", 0)])
    async with world.sending(world.another(scan_seconds=0.05)):
        await world.deliver(inbox)
        await asyncio.sleep(0.1)
        assert world.receiver.told == []
        world.service.blocks.remove([("target", "127.0.0.1")])
        await world.receiver.wait(1)


async def test_a_mail_that_makes_a_large_document_is_told_of_without_its_text(world):
    inbox = await world.inbox()
    async with world.sending():
        await world.deliver(inbox, "plain", b"a" * 70 + b"\r\n")
        await world.deliver(inbox, "long", (b"a" * 70 + b"\r\n") * 5000)
        await world.deliver(inbox, "escaped", (b"\x01" * 70 + b"\r\n") * 1000)
        await world.receiver.wait(3)
    shown = [(one["data"]["subject"], one["data"]["body"][:1], one["data"].get("truncated")) for _, one in world.told()]
    assert shown == [("plain", "a", None), ("long", "", True), ("escaped", "", True)]
    assert max(len(one.body) for one in world.receiver.told) < 256 * 1024


class Checks:
    """Stands in for the checker, which needs a resolver: verdicts are stored when the test says so."""

    def __init__(self, world):
        self.world, self.asked = world, []
        world.serve(self.ask)

    def ask(self, _address, message_id, _client):
        self.asked.append(message_id)
        return True

    async def find(self, inbox, message_id):
        await self.world.storage.set_authentication(inbox.id, unchecked("fail", "it is not"), message_id=message_id)


async def test_verdicts_are_told_in_the_order_of_the_mail_after_it(world):
    checks = Checks(world)
    inbox = await world.inbox("ada", "message", "verdict")
    async with world.sending():
        first, second = [await world.deliver(inbox, subject) for subject in ("first", "second")]
        await world.receiver.wait(2)
        await checks.find(inbox, second)
        await world.settled(inbox, told_message_id=second, next_at_ms=0)
        await checks.find(inbox, first)
        await world.receiver.wait(4)
        await world.settled(inbox, told_verdict_id=second, next_at_ms=0)
    assert [(document["type"], document["data"]["id"]) for _, document in world.told()] == [
        ("message.received", first),
        ("message.received", second),
        ("verdict.reached", first),
        ("verdict.reached", second),
    ]
    assert len({one.fields["webhook-id"] for one in world.receiver.told}) == 4


async def test_a_message_that_must_have_a_verdict_is_told_of_when_it_has_one(world):
    checks = Checks(world)
    inbox = await world.inbox("ada", has=["verdict"])
    async with world.sending():
        first, second = [await world.deliver(inbox, subject) for subject in ("first", "second")]
        await checks.find(inbox, second)
        await checks.find(inbox, first)
        await world.receiver.wait(2)
    assert world.subjects() == ["first", "second"]
    assert set(checks.asked) == {first, second}


async def test_commits_are_noted_only_while_webhooks_are_allowed(world):
    inbox = await world.inbox()
    async with world.sending():
        await world.deliver(inbox)
        await world.settled(inbox, result="204")
    webhooks = world.service.webhooks
    webhooks.allowed, allowed = (), webhooks.allowed
    await world.deliver(inbox)
    assert world.figure("webhooks_waiting") == 0
    webhooks.allowed = allowed
    await world.deliver(inbox)
    assert world.figure("webhooks_waiting") == 1
