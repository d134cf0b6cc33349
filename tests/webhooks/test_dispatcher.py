"""What targets are told and when, on a real storage and over real connections."""

import asyncio

import msgspec
import pytest
from houses import LIFETIME_MS, SECRET
from receivers import OK

from tmpmaild.errors import StorageUnavailable
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.model import Block, unchecked
from tmpmaild.webhooks import dispatcher
from tmpmaild.webhooks.model import Webhook

pytestmark = pytest.mark.both_engines
UNAVAILABLE = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
LATER = b"HTTP/1.1 503 Later\r\nRetry-After: 600\r\n\r\n"


async def test_a_target_is_told_of_mail_signed_in_order_and_once(house):
    inbox = await house.inbox()
    async with house.sending():
        ids = [await house.deliver(inbox, f"mail {number}", b"Your code is 481516\r\n") for number in range(5)]
        told = await house.receiver.wait(5)
        await house.settled(inbox, told_message_id=ids[-1], next_at_ms=0, result="204", failures=0)
    assert house.subjects() == [f"mail {number}" for number in range(5)]
    _, first = house.told()[0]
    assert (first["type"], first["data"]["id"]) == ("message.received", ids[0])
    assert [code["value"] for code in first["data"]["codes"]] == ["481516"]
    assert first["timestamp"] == first["data"]["received_at"]
    fields = told[0].fields
    assert fields["user-agent"].startswith("tmpmaild/")
    assert fields["content-type"] == "application/json"
    seconds = int(fields["webhook-timestamp"])
    assert seconds == house.clock() // 1000
    wanted = dispatcher.header(SECRET, fields["webhook-id"], seconds, told[0].body)
    assert ("webhook-signature", fields["webhook-signature"]) in wanted
    assert len({one.fields["webhook-id"] for one in told}) == 5


async def test_inboxes_without_a_webhook_and_mail_from_before_it_are_not_told_of(house):
    inbox, _ = await house.service.create(NewAddress(local_part="bob"), None)
    await house.deliver(inbox, "nobody is told")
    async with house.sending():
        told_of = await house.inbox()
        await house.deliver(inbox, "nobody is told")
        await house.deliver(told_of, "told")
        await house.receiver.wait(1)
        await house.settled(told_of, next_at_ms=0, result="204")
    assert house.subjects() == ["told"]


async def test_a_failed_call_is_made_again_with_the_same_id_and_nothing_goes_before_it(house):
    house.receiver.answer = UNAVAILABLE
    inbox = await house.inbox()
    async with house.sending():
        await house.deliver(inbox, "first")
        await house.settled(inbox, failures=1, next_at_ms=house.clock() + 1000, result="500")
        await house.deliver(inbox, "second")
        for number, seconds in enumerate([1, 5, 30, 120, 300, 600, 900, 900][:4], start=2):
            house.pass_time(seconds)
            await house.settled(inbox, failures=number)
        house.receiver.answer = OK
        house.pass_time(300)
        await house.receiver.wait(7)
    assert house.subjects() == ["first"] * 6 + ["second"]
    assert len({one.fields["webhook-id"] for one in house.receiver.told[:6]}) == 1


async def test_what_was_not_told_before_a_restart_is_told_after_it(house):
    inbox = await house.inbox()
    await house.deliver(inbox, "before")
    async with house.sending():
        await house.settled(inbox, next_at_ms=0, result="204")
    await house.deliver(inbox, "between")
    async with house.sending(house.another()):
        await house.receiver.wait(2)
    assert house.subjects() == ["before", "between"]


async def test_a_daemon_that_stops_during_a_call_leaves_it_to_the_next_at_once(house):
    async def stay_silent(*_):
        await asyncio.Event().wait()

    house.receiver.answer = stay_silent
    inbox = await house.inbox()
    async with house.sending():
        await house.deliver(inbox, "told all the same")
        await house.receiver.wait(1)
    assert (await house.state(inbox)).next_at_ms == 0
    house.receiver.answer = OK
    async with house.sending(house.another()):
        await house.receiver.wait(2)


async def test_a_daemon_that_stops_while_a_result_is_stored_leaves_nothing_to_tell_again(house, monkeypatch):
    store, is_storing = house.storage.store_webhook_result, asyncio.Event()

    async def announced(leased, state):
        if state.called_at_ms:  # a lease is stored by it as well
            is_storing.set()
        return await store(leased, state)

    monkeypatch.setattr(house.storage, "store_webhook_result", announced)
    inbox = await house.inbox()
    async with house.sending():
        newest = await house.deliver(inbox)
        await is_storing.wait()
    await house.deliver(inbox, "stored after that")
    assert (await house.state(inbox)).told_message_id == newest


async def test_of_two_daemons_one_calls(house):
    inboxes = [await house.inbox(f"inbox{number}") for number in range(10)]
    async with house.sending(), house.sending(house.another()):
        for inbox in inboxes:
            await house.deliver(inbox, inbox.address)
        await house.receiver.wait(10)
        for inbox in inboxes:
            await house.settled(inbox, next_at_ms=0, result="204")
    assert sorted(house.subjects()) == sorted(inbox.address for inbox in inboxes)


async def test_a_daemon_that_died_during_a_call_leaves_it_to_another_after_the_lease(house):
    inbox = await house.inbox()
    await house.deliver(inbox, "told all the same")
    assert await lease(house, inbox, house.clock() + 30_000)
    async with house.sending():
        await house.deliver(inbox, "and this")
        house.pass_time(30)
        await house.receiver.wait(2)
    assert house.subjects() == ["told all the same", "and this"]


async def lease(house, inbox, until_ms):
    return await house.storage.lease_webhook(await house.storage.read_webhook(inbox.id), until_ms)


async def test_the_end_is_not_told_by_two_daemons_and_after_the_lease_of_one_that_died(house):
    """Whatever the next try of a failed call was, for which the end does not wait."""
    house.receiver.answer = LATER
    inbox = await house.inbox("ada", "message", "expired")
    async with house.sending():
        await house.deliver(inbox)
        await house.settled(inbox, next_at_ms=house.clock() + 600_000)
        until_ms = house.clock() + 15_000
        assert await lease(house, inbox, until_ms)
        house.receiver.answer = OK
        await delete(house, inbox)
        await house.until(lambda: is_due_at(house, until_ms))
        assert (await house.state(inbox)).next_at_ms == until_ms
        house.pass_time(15)
        await house.until(lambda: is_gone(house, inbox))
    assert [document["type"] for _, document in house.told()] == ["message.received", "inbox.expired"]


async def test_the_lease_of_an_end_is_as_long_as_any_other(house):
    seen = []
    house.receiver.answer = LATER
    inbox = await house.inbox("ada", "message", "expired")

    async def look(_, writer):
        seen.append((await house.state(inbox)).next_at_ms - house.clock())
        writer.write(OK)

    async with house.sending():
        await house.deliver(inbox)
        await house.settled(inbox, next_at_ms=house.clock() + 600_000)
        house.receiver.answer = look
        await delete(house, inbox)
        await house.until(lambda: is_gone(house, inbox))
    assert 0 < seen[0] <= 60_000


@pytest.mark.parametrize("method", ["read_webhook", "store_webhook_result", "list_webhooks"])
async def test_when_the_storage_is_back_webhooks_are_called_without_waiting_for_the_next_look(
    house, monkeypatch, method
):
    monkeypatch.setattr(dispatcher, "_RETRY_SECONDS", 0.01)
    working, tries = getattr(house.storage, method), []

    async def away(*arguments):
        tries.append(arguments)
        if len(tries) < 3:
            raise StorageUnavailable("away")
        return await working(*arguments)

    inbox = await house.inbox()
    monkeypatch.setattr(house.storage, method, away)
    async with house.sending():
        await house.deliver(inbox)
        await house.receiver.wait(1)


async def test_only_messages_that_have_what_is_wanted_are_told_of(house):
    inbox = await house.inbox("ada", has=["code"])
    async with house.sending():
        for subject, body in (("a", b"nothing\r\n"), ("b", b"Your code is 481516\r\n"), ("c", b"nothing\r\n")):
            newest = await house.deliver(inbox, subject, body)
        await house.receiver.wait(1)
        await house.settled(inbox, told_message_id=newest, next_at_ms=0)
    assert house.subjects() == ["b"]


async def test_a_private_inbox_is_told_of_as_others(house):
    inbox = await house.inbox(private=True)
    async with house.sending():
        await house.deliver(inbox, "private")
        await house.receiver.wait(1)
    assert house.subjects() == ["private"]


async def test_an_answer_410_takes_the_webhook_away(house):
    house.receiver.answer = b"HTTP/1.1 410 Gone\r\n\r\n"
    inbox = await house.inbox()
    async with house.sending():
        await house.deliver(inbox)
        await house.receiver.wait(1)
        await house.until(lambda: is_gone(house, inbox))


async def is_gone(house, inbox):
    return await house.storage.read_webhook(inbox.id) is None


async def test_retry_after_is_obeyed_but_not_beyond_the_expiry(house):
    house.receiver.answer = LATER
    inbox = await house.inbox()
    async with house.sending():
        await house.deliver(inbox)
        await house.settled(inbox, next_at_ms=house.clock() + 600_000)
        house.receiver.answer = b"HTTP/1.1 429 Later\r\nRetry-After: 999999999999\r\n\r\n"
        house.pass_time(600)
        await house.settled(inbox, next_at_ms=inbox.expires_at_ms)


async def test_after_the_expiry_mail_is_not_told_of_any_more(house):
    house.receiver.answer = UNAVAILABLE
    inbox = await house.inbox("ada", "message", "expired")
    async with house.sending():
        await house.deliver(inbox)
        await house.settled(inbox, failures=1)
        house.receiver.answer = OK
        house.pass_time(LIFETIME_MS // 1000)
        await house.receiver.wait(2)
        await house.until(lambda: is_gone(house, inbox))
    document = msgspec.json.decode(house.receiver.told[1].body)
    assert document["type"] == "inbox.expired"
    assert document["data"] == {"address": inbox.address}


async def test_the_end_of_an_inbox_is_told_when_its_holder_deletes_or_shortens_it(house):
    deleted, shortened = [await house.inbox(name, "expired") for name in ("ada", "bob")]
    async with house.sending():
        await house.deliver(deleted, "not wanted")
        await house.until(lambda: known(house, 2))
        await house.storage.delete_inbox(deleted.id, house.clock())
        await house.receiver.wait(1)
        await house.storage.move_expiry(shortened.id, house.clock() + 1000, house.clock())
        house.pass_time(1)
        await house.receiver.wait(2)
    assert [document["data"]["address"] for _, document in house.told()] == [deleted.address, shortened.address]


async def delete(house, inbox):
    await house.storage.delete_inbox(inbox.id, house.clock())


async def shorten(house, inbox):
    await house.storage.move_expiry(inbox.id, house.clock() + 1000, house.clock())
    house.pass_time(1)


async def pass_to_the_end(house, _):
    house.pass_time(LIFETIME_MS // 1000)


@pytest.mark.parametrize("end", [delete, shorten])
async def test_the_end_is_told_at_once_where_a_failed_call_waits_for_its_next_try(house, end):
    house.receiver.answer = LATER
    inbox = await house.inbox("ada", "message", "expired")
    async with house.sending():
        await house.deliver(inbox)
        await house.settled(inbox, next_at_ms=house.clock() + 600_000)
        house.receiver.answer = OK
        await end(house, inbox)
        await house.until(lambda: is_gone(house, inbox))
    assert [document["type"] for _, document in house.told()] == ["message.received", "inbox.expired"]


@pytest.mark.parametrize("end", [delete, shorten, pass_to_the_end])
async def test_the_end_is_told_at_once_after_a_call_that_fails_meanwhile(house, end):
    inbox = await house.inbox("ada", "message", "expired")

    async def end_and_fail(_, writer):
        house.receiver.answer = OK
        await end(house, inbox)
        writer.write(LATER)

    house.receiver.answer = end_and_fail
    async with house.sending():
        await house.deliver(inbox)
        await house.until(lambda: is_gone(house, inbox))
    assert [document["type"] for _, document in house.told()] == ["message.received", "inbox.expired"]


async def test_the_end_waits_for_its_own_next_try(house):
    house.receiver.answer = UNAVAILABLE
    inbox = await house.inbox("ada", "expired")
    async with house.sending():
        await house.until(lambda: known(house, 1))
        await delete(house, inbox)
        for number, seconds in enumerate((1, 5, 30), start=1):
            await house.settled(inbox, failures=number, next_at_ms=house.clock() + seconds * 1000)
            house.pass_time(seconds)
        await house.receiver.wait(4)


async def test_the_end_is_told_at_its_time_although_a_daemon_was_calling_when_it_was_looked_at(house):
    inbox = await house.inbox("ada", "expired")
    leased = await lease(house, inbox, inbox.expires_at_ms + 15_000)
    async with house.sending():
        await house.until(lambda: known(house, 1))
        await house.storage.store_webhook_result(leased, msgspec.structs.replace(leased.state, next_at_ms=0))
        await pass_to_the_end(house, inbox)
        await house.receiver.wait(1)


async def test_an_extension_that_was_not_told_here_does_not_make_calls_more_frequent(house):
    """Such as one by another daemon, while the connection to the database was away."""
    house.receiver.answer = LATER
    inbox = await house.inbox("ada", "message", "expired")
    async with house.sending():
        await house.deliver(inbox)
        await house.settled(inbox, failures=1, next_at_ms=house.clock() + 600_000)
        house.dispatcher._schedule.end_at(house.dispatcher._schedule.get(inbox.id), house.clock())
        house.pass_time(1)
        await house.until(lambda: is_due_at(house, house.clock() + 599_000))
        assert house.dispatcher._schedule.get(inbox.id).ends_at_ms == inbox.expires_at_ms
        assert len(house.told()) == 1
        house.pass_time(599)
        await house.settled(inbox, failures=2, next_at_ms=house.clock() + 600_000)


async def test_the_end_is_told_after_the_lease_of_a_daemon_that_died(house):
    inbox = await house.inbox("ada", "expired")
    async with house.sending():
        await house.until(lambda: known(house, 1))
        await lease(house, inbox, inbox.expires_at_ms + 15_000)
        await pass_to_the_end(house, inbox)
        await house.until(lambda: is_due_at(house, inbox.expires_at_ms + 15_000))
        house.pass_time(15)
        await house.receiver.wait(1)


async def is_due_at(house, at_ms):
    return house.dispatcher._schedule.next_ms() == at_ms


async def known(house, count):
    return len(house.dispatcher._schedule) == count


async def test_a_webhook_that_is_set_anew_during_a_call_is_the_one_that_counts(house):
    inbox, is_set = await house.inbox(), asyncio.Event()

    async def set_anew(_, writer):
        house.receiver.answer = OK
        await house.set(inbox, (await house.storage.read_webhook(inbox.id)).webhook)
        is_set.set()
        writer.write(OK)

    house.receiver.answer = set_anew
    async with house.sending():
        await house.deliver(inbox, "before")
        await is_set.wait()
        await house.deliver(inbox, "after")
        await house.receiver.wait(2)
    assert house.subjects() == ["before", "after"]


async def test_a_url_that_cannot_be_read_any_more_harms_no_other(house):
    """Such as those of a newer version on the same database."""
    inbox = await house.inbox()
    await house.set(await house.inbox("bob"), Webhook("no URL", frozenset({"message"}), frozenset(), SECRET))
    await house.set(await house.inbox("cyd"), Webhook("https://a.example/", frozenset({"new"}), frozenset(), SECRET))
    async with house.sending(house.another()):
        await house.deliver(inbox, "told")
        await house.receiver.wait(1)


async def test_a_webhook_that_is_taken_away_is_not_called(house):
    inbox = await house.inbox()
    async with house.sending():
        await house.until(lambda: known(house, 1))
        await house.set(inbox, None)
        await house.until(lambda: known(house, 0))
        await house.deliver(inbox)
        other = await house.inbox("bob")
        await house.deliver(other, "bob's")
        await house.receiver.wait(1)
    assert house.subjects() == ["bob's"]


async def test_a_host_that_is_paused_is_called_when_it_is_no_longer(house):
    inbox = await house.inbox()
    house.service.blocks.add([Block("target", "127.0.0.1", 0)])
    async with house.sending(house.another(look_seconds=0.05)):
        await house.deliver(inbox)
        await asyncio.sleep(0.1)
        assert house.receiver.told == []
        house.service.blocks.remove([("target", "127.0.0.1")])
        await house.receiver.wait(1)


async def test_a_mail_that_makes_a_large_document_is_told_of_without_its_text(house):
    inbox = await house.inbox()
    async with house.sending():
        await house.deliver(inbox, "plain", b"a" * 70 + b"\r\n")
        await house.deliver(inbox, "long", (b"a" * 70 + b"\r\n") * 5000)
        await house.deliver(inbox, "escaped", (b"\x01" * 70 + b"\r\n") * 1000)
        await house.receiver.wait(3)
    shown = [(one["data"]["subject"], one["data"]["body"][:1], one["data"].get("truncated")) for _, one in house.told()]
    assert shown == [("plain", "a", None), ("long", "", True), ("escaped", "", True)]
    assert max(len(one.body) for one in house.receiver.told) < 256 * 1024


class Checks:
    """Checks nothing until it is told to, in the place of what asks a resolver."""

    def __init__(self, house):
        self.house, self.asked = house, []
        house.service.check_senders(self.ask)

    def ask(self, _, message_id):
        self.asked.append(message_id)
        return True

    async def find(self, inbox, message_id):
        await self.house.storage.set_authentication(inbox.id, message_id, unchecked("fail", "it is not"))


async def test_verdicts_are_told_in_the_order_of_the_mail_after_it(house):
    checks = Checks(house)
    inbox = await house.inbox("ada", "message", "verdict")
    async with house.sending():
        first, second = [await house.deliver(inbox, subject) for subject in ("first", "second")]
        await house.receiver.wait(2)
        await checks.find(inbox, second)
        await house.settled(inbox, told_message_id=second, next_at_ms=0)
        await checks.find(inbox, first)
        await house.receiver.wait(4)
        await house.settled(inbox, told_verdict_id=second, next_at_ms=0)
    assert [(document["type"], document["data"]["id"]) for _, document in house.told()] == [
        ("message.received", first),
        ("message.received", second),
        ("verdict.reached", first),
        ("verdict.reached", second),
    ]
    assert len({one.fields["webhook-id"] for one in house.receiver.told}) == 4


async def test_a_message_that_must_have_a_verdict_is_told_of_when_it_has_one(house):
    checks = Checks(house)
    inbox = await house.inbox("ada", has=["verdict"])
    async with house.sending():
        first, second = [await house.deliver(inbox, subject) for subject in ("first", "second")]
        await checks.find(inbox, second)
        await checks.find(inbox, first)
        await house.receiver.wait(2)
    assert house.subjects() == ["first", "second"]
    assert set(checks.asked) == {first, second}
