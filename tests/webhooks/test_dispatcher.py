"""The calls that targets receive and their times, with a real storage and real connections."""

import asyncio

import msgspec
import pytest
from blockbuster import blockbuster_ctx
from receivers import OK
from webhookharness import LIFETIME_MS, SECRET

from tmpmaild.errors import StorageUnavailable
from tmpmaild.model import Block, Webhook, unchecked
from tmpmaild.webhooks import dispatcher
from tmpmaild.webhooks.signing import signed_fields

pytestmark = pytest.mark.both_engines
UNAVAILABLE = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
LATER = b"HTTP/1.1 503 Later\r\nRetry-After: 600\r\n\r\n"


async def test_messages_are_reported_signed_in_order_and_once(harness):
    inbox = await harness.inbox()
    async with harness.sending():
        ids = [await harness.deliver(inbox, f"mail {number}", b"Your code is 481516\r\n") for number in range(5)]
        told = await harness.receiver.wait(5)
        await harness.settled(inbox, reported_message_id=ids[-1], next_at_ms=0, result="204", failures=0)
    assert harness.subjects() == [f"mail {number}" for number in range(5)]
    _, first = harness.told()[0]
    assert (first["type"], first["data"]["id"]) == ("message.received", ids[0])
    assert [code["value"] for code in first["data"]["codes"]] == ["481516"]
    assert first["timestamp"] == first["data"]["received_at"]
    fields = told[0].fields
    assert fields["user-agent"].startswith("tmpmaild/")
    assert fields["content-type"] == "application/json"
    seconds = int(fields["webhook-timestamp"])
    assert seconds == harness.clock() // 1000
    wanted = signed_fields(SECRET, fields["webhook-id"], seconds, told[0].body)
    assert ("webhook-signature", fields["webhook-signature"]) in wanted
    assert len({one.fields["webhook-id"] for one in told}) == 5


async def test_a_failed_call_is_repeated_with_the_same_id_before_later_events(harness):
    harness.receiver.answer = UNAVAILABLE
    inbox = await harness.inbox()
    async with harness.sending():
        await harness.deliver(inbox, "first")
        await harness.settled(inbox, failures=1, next_at_ms=harness.clock() + 1000, result="500")
        await harness.deliver(inbox, "second")
        for number, seconds in enumerate([1, 5, 30, 120, 300, 600, 900, 900][:4], start=2):
            harness.pass_time(seconds)
            await harness.settled(inbox, failures=number)
        harness.receiver.answer = OK
        harness.pass_time(300)
        await harness.receiver.wait(7)
    assert harness.subjects() == ["first"] * 6 + ["second"]
    assert len({one.fields["webhook-id"] for one in harness.receiver.told[:6]}) == 1


async def test_a_daemon_that_stops_during_a_call_leaves_it_to_the_next_at_once(harness):
    async def stay_silent(*_):
        await asyncio.Event().wait()

    harness.receiver.answer = stay_silent
    inbox = await harness.inbox()
    async with harness.sending():
        await harness.deliver(inbox, "told all the same")
        await harness.receiver.wait(1)
    assert (await harness.state(inbox)).next_at_ms == 0
    harness.receiver.answer = OK
    async with harness.sending(harness.another()):
        await harness.receiver.wait(2)


async def test_a_daemon_that_stops_while_a_result_is_stored_leaves_nothing_to_report_again(harness, monkeypatch):
    store, is_storing = harness.storage.store_webhook, asyncio.Event()

    async def announced(leased, state):
        if state.called_at_ms:  # leases are stored with the same method
            is_storing.set()
        return await store(leased, state)

    monkeypatch.setattr(harness.storage, "store_webhook", announced)
    inbox = await harness.inbox()
    async with harness.sending():
        newest = await harness.deliver(inbox)
        await is_storing.wait()
    await harness.deliver(inbox, "stored after that")
    assert (await harness.state(inbox)).reported_message_id == newest


async def test_a_message_that_arrives_while_many_webhooks_are_read_is_reported_at_once(harness):
    inboxes = [await harness.inbox(f"inbox{number}") for number in range(250)]  # more than one page of webhooks
    with blockbuster_ctx("tmpmaild"):
        async with harness.sending(harness.another()):
            for inbox in inboxes[::50]:
                await harness.deliver(inbox, inbox.address)
            await harness.receiver.wait(5)


async def test_only_one_of_two_daemons_makes_a_call(harness):
    inboxes = [await harness.inbox(f"inbox{number}") for number in range(10)]
    async with harness.sending(), harness.sending(harness.another()):
        for inbox in inboxes:
            await harness.deliver(inbox, inbox.address)
        await harness.receiver.wait(10)
        for inbox in inboxes:
            await harness.settled(inbox, next_at_ms=0, result="204")
    assert sorted(harness.subjects()) == sorted(inbox.address for inbox in inboxes)


async def test_another_daemon_makes_the_call_of_a_dead_daemon_after_the_lease(harness):
    inbox = await harness.inbox()
    await harness.deliver(inbox, "told all the same")
    assert await lease(harness, inbox, harness.clock() + 30_000)
    async with harness.sending():
        await harness.deliver(inbox, "and this")
        harness.pass_time(30)
        await harness.receiver.wait(2)
    assert harness.subjects() == ["told all the same", "and this"]


async def lease(harness, inbox, until_ms):
    stored = await harness.storage.read_webhook(inbox.id)
    return await harness.storage.store_webhook(stored, msgspec.structs.replace(stored.state, next_at_ms=until_ms))


async def test_one_daemon_reports_the_expiry_after_the_lease_of_a_dead_daemon(harness):
    """The report does not wait until the retry of a failed call is due."""
    harness.receiver.answer = LATER
    inbox = await harness.inbox("ada", "message", "expired")
    async with harness.sending():
        await harness.deliver(inbox)
        await harness.settled(inbox, next_at_ms=harness.clock() + 600_000)
        until_ms = harness.clock() + 15_000
        assert await lease(harness, inbox, until_ms)
        harness.receiver.answer = OK
        await delete(harness, inbox)
        await harness.until(lambda: is_due_at(harness, until_ms))
        assert (await harness.state(inbox)).next_at_ms == until_ms
        harness.pass_time(15)
        await harness.until(lambda: is_gone(harness, inbox))
    assert [document["type"] for _, document in harness.told()] == ["message.received", "inbox.expired"]


async def test_the_lease_for_reporting_an_expiry_is_as_long_as_any_other(harness):
    seen = []
    harness.receiver.answer = LATER
    inbox = await harness.inbox("ada", "message", "expired")

    async def look(_, writer):
        seen.append((await harness.state(inbox)).next_at_ms - harness.clock())
        writer.write(OK)

    async with harness.sending():
        await harness.deliver(inbox)
        await harness.settled(inbox, next_at_ms=harness.clock() + 600_000)
        harness.receiver.answer = look
        await delete(harness, inbox)
        await harness.until(lambda: is_gone(harness, inbox))
    assert 0 < seen[0] <= 60_000


@pytest.mark.parametrize("method", ["read_webhook", "store_webhook", "list_webhooks"])
async def test_when_the_storage_is_back_webhooks_are_called_without_waiting_for_the_next_scan(
    harness, monkeypatch, method
):
    monkeypatch.setattr(dispatcher, "_RETRY_SECONDS", 0.01)
    working, tries = getattr(harness.storage, method), []

    async def away(*arguments, **options):
        tries.append(arguments)
        if len(tries) < 3:
            raise StorageUnavailable("away")
        return await working(*arguments, **options)

    inbox = await harness.inbox()
    monkeypatch.setattr(harness.storage, method, away)
    async with harness.sending():
        await harness.deliver(inbox)
        await harness.receiver.wait(1)


async def test_only_messages_with_the_wanted_features_are_reported(harness):
    inbox = await harness.inbox("ada", has=["code"], private=True)
    async with harness.sending():
        for subject, body in (("a", b"nothing\r\n"), ("b", b"Your code is 481516\r\n"), ("c", b"nothing\r\n")):
            newest = await harness.deliver(inbox, subject, body)
        await harness.receiver.wait(1)
        await harness.settled(inbox, reported_message_id=newest, next_at_ms=0)
    assert harness.subjects() == ["b"]


async def is_gone(harness, inbox):
    return await harness.storage.read_webhook(inbox.id) is None


async def delete(harness, inbox):
    await harness.storage.move_expiry(inbox.id, expires_at_ms=harness.clock(), now_ms=harness.clock())


async def shorten(harness, inbox):
    await harness.storage.move_expiry(inbox.id, expires_at_ms=harness.clock() + 1000, now_ms=harness.clock())
    harness.pass_time(1)


async def pass_to_the_end(harness, _):
    harness.pass_time(LIFETIME_MS // 1000)


@pytest.mark.parametrize("end", [delete, shorten, pass_to_the_end])
async def test_only_the_expiry_is_reported_while_a_failed_call_waits_for_its_retry(harness, end):
    harness.receiver.answer = LATER
    inbox = await harness.inbox("ada", "message", "expired")
    async with harness.sending():
        await harness.deliver(inbox)
        await harness.settled(inbox, next_at_ms=harness.clock() + 600_000)
        harness.receiver.answer = OK
        await end(harness, inbox)
        await harness.until(lambda: is_gone(harness, inbox))
    (_, first), (_, last) = harness.told()
    assert (first["type"], last["type"], last["data"]) == (
        "message.received",
        "inbox.expired",
        {"address": inbox.address},
    )


@pytest.mark.parametrize("end", [delete, shorten, pass_to_the_end])
async def test_the_expiry_is_reported_immediately_after_a_call_that_fails_meanwhile(harness, end):
    inbox = await harness.inbox("ada", "message", "expired")

    async def end_and_fail(_, writer):
        harness.receiver.answer = OK
        await end(harness, inbox)
        writer.write(LATER)

    harness.receiver.answer = end_and_fail
    async with harness.sending():
        await harness.deliver(inbox)
        await harness.until(lambda: is_gone(harness, inbox))
    assert [document["type"] for _, document in harness.told()] == ["message.received", "inbox.expired"]


async def test_the_expiry_event_waits_for_its_own_retry(harness):
    harness.receiver.answer = UNAVAILABLE
    inbox = await harness.inbox("ada", "expired")
    async with harness.sending():
        await harness.deliver(inbox, "not wanted")
        await harness.until(lambda: known(harness, 1))
        await delete(harness, inbox)
        for number, seconds in enumerate((1, 5, 30), start=1):
            await harness.settled(inbox, failures=number, next_at_ms=harness.clock() + seconds * 1000)
            harness.pass_time(seconds)
        await harness.receiver.wait(4)


async def test_the_expiry_is_reported_on_time_despite_a_call_during_the_scan(harness):
    inbox = await harness.inbox("ada", "expired")
    leased = await lease(harness, inbox, inbox.expires_at_ms + 15_000)
    async with harness.sending():
        await harness.until(lambda: known(harness, 1))
        await harness.storage.store_webhook(leased, msgspec.structs.replace(leased.state, next_at_ms=0))
        await pass_to_the_end(harness, inbox)
        await harness.receiver.wait(1)


async def test_an_extension_without_notice_does_not_make_calls_more_frequent(harness):
    """For example, another daemon extended the inbox while the connection to the database was lost."""
    harness.receiver.answer = LATER
    inbox = await harness.inbox("ada", "message", "expired")
    async with harness.sending():
        await harness.deliver(inbox)
        await harness.settled(inbox, failures=1, next_at_ms=harness.clock() + 600_000)
        await harness.until(lambda: is_due_at(harness, harness.clock() + 600_000))
        harness.dispatcher._schedule.end_at(harness.dispatcher._schedule.get(inbox.id), harness.clock())
        harness.pass_time(1)
        await harness.until(lambda: ends_with(harness, inbox))
        await harness.until(lambda: is_due_at(harness, harness.clock() + 599_000))
        assert len(harness.told()) == 1
        harness.pass_time(599)
        await harness.settled(inbox, failures=2, next_at_ms=harness.clock() + 600_000)


async def is_due_at(harness, at_ms):
    return harness.dispatcher._schedule.next_ms() == at_ms


async def ends_with(harness, inbox):
    return harness.dispatcher._schedule.get(inbox.id).ends_at_ms == inbox.expires_at_ms


async def known(harness, count):
    return harness.figure("webhooks_known") == count


async def test_a_webhook_that_is_replaced_during_a_call_takes_effect(harness):
    inbox, is_set = await harness.inbox(), asyncio.Event()

    async def set_anew(_, writer):
        harness.receiver.answer = OK
        await harness.set(inbox, (await harness.storage.read_webhook(inbox.id)).webhook)
        is_set.set()
        writer.write(OK)

    harness.receiver.answer = set_anew
    async with harness.sending():
        await harness.deliver(inbox, "before")
        await is_set.wait()
        await harness.deliver(inbox, "after")
        await harness.receiver.wait(2)
    assert harness.subjects() == ["before", "after"]


async def test_a_url_that_cannot_be_parsed_does_not_harm_others(harness):
    """For example, a newer version stored the URL in the same database."""
    inbox = await harness.inbox()
    await harness.set(await harness.inbox("bob"), Webhook("no URL", frozenset({"message"}), frozenset(), SECRET))
    await harness.set(
        await harness.inbox("cyd"), Webhook("https://a.example/", frozenset({"new"}), frozenset(), SECRET)
    )
    async with harness.sending(harness.another()):
        await harness.deliver(inbox, "told")
        await harness.receiver.wait(1)


async def test_a_webhook_that_is_removed_is_not_called(harness):
    inbox = await harness.inbox()
    async with harness.sending():
        await harness.until(lambda: known(harness, 1))
        await harness.set(inbox, None)
        await harness.until(lambda: known(harness, 0))
        await harness.deliver(inbox)
        other = await harness.inbox("bob")
        await harness.deliver(other, "bob's")
        await harness.receiver.wait(1)
    assert harness.subjects() == ["bob's"]


async def test_a_paused_host_is_called_when_it_is_resumed(harness):
    inbox = await harness.inbox()
    harness.service.blocks.add([Block("target", "127.0.0.1", 0)])
    async with harness.sending(harness.another(scan_seconds=0.05)):
        await harness.deliver(inbox)
        await asyncio.sleep(0.1)
        assert harness.receiver.told == []
        harness.service.blocks.remove([("target", "127.0.0.1")])
        await harness.receiver.wait(1)


async def test_a_message_with_a_large_document_is_reported_without_its_text(harness):
    inbox = await harness.inbox()
    async with harness.sending():
        await harness.deliver(inbox, "plain", b"a" * 70 + b"\r\n")
        await harness.deliver(inbox, "long", (b"a" * 70 + b"\r\n") * 5000)
        await harness.deliver(inbox, "escaped", (b"\x01" * 70 + b"\r\n") * 1000)
        await harness.receiver.wait(3)
    shown = [
        (one["data"]["subject"], one["data"]["body"][:1], one["data"].get("truncated")) for _, one in harness.told()
    ]
    assert shown == [("plain", "a", None), ("long", "", True), ("escaped", "", True)]
    assert max(len(one.body) for one in harness.receiver.told) < 256 * 1024


class Checks:
    """Stands in for the checker, which needs a resolver: the test decides when verdicts are stored."""

    def __init__(self, harness):
        self.harness, self.asked = harness, []
        harness.serve(self.ask)

    def ask(self, _address, message_id, _client):
        self.asked.append(message_id)
        return True

    async def find(self, inbox, message_id):
        await self.harness.storage.set_authentication(inbox.id, unchecked("fail", "it is not"), message_id=message_id)


async def test_verdicts_are_reported_after_the_messages_and_in_their_order(harness):
    checks = Checks(harness)
    inbox = await harness.inbox("ada", "message", "verdict")
    async with harness.sending():
        first, second = [await harness.deliver(inbox, subject) for subject in ("first", "second")]
        await harness.receiver.wait(2)
        await checks.find(inbox, second)
        await harness.settled(inbox, reported_message_id=second, next_at_ms=0)
        await checks.find(inbox, first)
        await harness.receiver.wait(4)
        await harness.settled(inbox, reported_verdict_id=second, next_at_ms=0)
    assert [(document["type"], document["data"]["id"]) for _, document in harness.told()] == [
        ("message.received", first),
        ("message.received", second),
        ("verdict.reached", first),
        ("verdict.reached", second),
    ]
    assert len({one.fields["webhook-id"] for one in harness.receiver.told}) == 4


async def test_a_message_that_needs_a_verdict_is_reported_after_the_verdict(harness):
    checks = Checks(harness)
    inbox = await harness.inbox("ada", has=["verdict"])
    async with harness.sending():
        first, second = [await harness.deliver(inbox, subject) for subject in ("first", "second")]
        await checks.find(inbox, second)
        await checks.find(inbox, first)
        await harness.receiver.wait(2)
    assert harness.subjects() == ["first", "second"]
    assert set(checks.asked) == {first, second}


async def test_commits_are_noted_only_while_webhooks_are_allowed(harness):
    inbox = await harness.inbox()
    async with harness.sending():
        await harness.deliver(inbox)
        await harness.settled(inbox, result="204")

        async def is_idle():  # the dispatcher updates this after storing the result
            return harness.figure("webhooks_waiting") == 0

        await harness.until(is_idle)
    webhooks = harness.service.webhooks
    webhooks.allowed, allowed = (), webhooks.allowed
    await harness.deliver(inbox)
    assert harness.figure("webhooks_waiting") == 0
    webhooks.allowed = allowed
    await harness.deliver(inbox)
    assert harness.figure("webhooks_waiting") == 1
