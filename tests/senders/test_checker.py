"""The queue of checks: it is bounded, and tolerates the loss of a message, its inbox or the resolver."""

import threading
import time
from contextlib import asynccontextmanager, closing

import anyio
import pytest
from blockbuster import blockbuster_ctx
from msgspec.structs import replace
from services import service_over

from patience import PATIENCE_SECONDS
from signing import RAW
from tmpmaild.clients import client_name
from tmpmaild.errors import InvalidRequest
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Message, Page, VerdictReached
from tmpmaild.scheduling.clients import on_behalf_of
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.senders import checker, shown
from tmpmaild.senders.checker import Checker
from tmpmaild.senders.resolver import Resolver
from zones import silent, text_record

from .conftest import envelope

ZONE = text_record("shop.example", "v=spf1 ip4:192.0.2.1 -all") + text_record(
    "_dmarc.shop.example", "v=DMARC1; p=reject"
)
LIFETIME_MS = 3_600_000
WITH_VERDICT = frozenset({"verdict"})


class CheckerHarness:
    """A service with its storage and its sender checker."""

    def __init__(self, storage, place, clock, timeout_seconds=20) -> None:
        self.clock, self.storage, self.told, self.tokens = clock, storage, [], {}
        self.serve(None)
        self.checker = Checker(storage, Resolver(place), FairScheduler(), timeout_seconds)
        storage.on_committed(lambda changes: self.told.extend(one.notice for one in changes if one.notice))

    def serve(self, check):
        """Replace the service, as a restart would."""
        self.service = service_over(self.storage, hostname="mx.example.com", check=check)

    async def create(self, name):
        inbox, self.tokens[f"{name}@mail.example.com"] = await self.service.inboxes.create(NewAddress(name), None)
        return inbox.address

    async def deliver(self, *addresses, raw=RAW, sent=None):
        inbox_ids = [await self.service.deliverer.recipient(Mailbox(*address.split("@"))) for address in addresses]
        return await self.service.deliverer.deliver(replace(sent or envelope(), recipients=addresses), inbox_ids, raw)

    async def shown(self, address):
        return [one.authentication for one in (await self.service.mail.list(address, Page())).messages]

    async def verdict(self, address):
        with anyio.fail_after(PATIENCE_SECONDS):
            while (found := (await self.shown(address))[0]) is None:
                await anyio.sleep(0.01)
        return found

    @asynccontextmanager
    async def checking(self):
        self.serve(self.checker.enqueue)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.checker.run)
            yield
            tasks.cancel_scope.cancel()

    def figure(self, name):
        """Return the value of a metric without labels."""
        (found,) = [one for one in self.checker.metrics() if one.name == name]
        return found.values()[()]

    async def done(self):
        """Wait until no message is queued or being checked."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while self.checker._queued:
                await anyio.sleep(0.01)


@pytest.fixture
async def harness(store, zones, clock):
    zones.set(ZONE)
    async with store.open(clock, max_bytes=1 << 30) as storage:
        yield CheckerHarness(storage, zones.place, clock)


@pytest.fixture
async def deaf(store, clock):
    """Return a harness whose resolver never responds."""
    with closing(silent()) as dead:
        async with store.open(clock, max_bytes=1 << 30) as storage:
            yield CheckerHarness(storage, f"127.0.0.1:{dead.getsockname()[1]}", clock, timeout_seconds=1)


@pytest.mark.both_engines
async def test_a_message_is_checked_after_it_is_stored_and_its_inbox_is_notified(harness):
    address = await harness.create("ada")
    with blockbuster_ctx("tmpmaild"):
        async with harness.checking():
            message_id = await harness.deliver(address)
            found = await harness.verdict(address)
            await harness.done()
    assert (found.authenticated, found.spf.result, found.dmarc.policy) == ("shop.example", "pass", "reject")
    assert [one.name for one in found.dns] == ["shop.example", "_dmarc.shop.example"]
    assert harness.told == [VerdictReached(message_id, "pass", "shop.example")]


@pytest.mark.both_engines
async def test_a_message_that_was_not_checked_is_checked_when_it_is_read(harness):
    ada, bob = await harness.create("ada"), await harness.create("bob")
    await harness.deliver(ada, bob)
    async with harness.checking():
        for address in (ada, bob):
            assert (await harness.verdict(address)).authenticated == "shop.example"
        message = (await harness.service.mail.list(ada, Page())).messages[0]
        shown = await harness.service.mail.message(ada, message.id)
        assert shown.full.message == message
        _, trace, _ = await harness.service.mail.source(ada, message.id)
        assert trace.startswith(b"Authentication-Results: mx.example.com;\r\n\tspf=pass ")


@pytest.mark.both_engines
async def test_no_verdict_is_stored_if_the_message_or_its_inbox_is_gone_before_the_dns_response(harness, zones):
    deleted, ended, expired = [await harness.create(name) for name in ("deleted", "ended", "expired")]
    answers = anyio.Event()

    def late(wire):
        anyio.from_thread.run(answers.wait, token=token)
        return wire

    token = anyio.lowlevel.current_token()
    zones.spoil = late
    async with harness.checking():
        message_id = await harness.deliver(deleted)
        await harness.deliver(ended)
        await harness.deliver(expired)
        with anyio.fail_after(PATIENCE_SECONDS):
            while harness.figure("senders_waiting") or not zones.asked:
                await anyio.sleep(0.01)
        await harness.service.inboxes.delete_message(deleted, message_id, harness.tokens[deleted])
        await harness.service.inboxes.delete(ended, harness.tokens[ended])
        harness.clock.advance(ms=LIFETIME_MS)
        answers.set()
        await harness.done()
    assert not [one for one in harness.told if isinstance(one, VerdictReached)]


async def test_a_full_queue_is_reported_and_checked_later(deaf, monkeypatch):
    address = await deaf.create("ada")
    monkeypatch.setattr(checker, "_MAX_WAITING", 2)
    deaf.serve(deaf.checker.enqueue)
    for _ in range(3):
        await deaf.deliver(address)
    with on_behalf_of(client_name(envelope().remote_ip)):
        found = await deaf.shown(address)
    assert [one and (one.spf.result, one.spf.reason) for one in found] == [("none", "not checked"), None, None]
    async with deaf.checking():
        await deaf.done()
        with anyio.fail_after(PATIENCE_SECONDS):
            while not all(one and one.spf.result == "temperror" for one in await deaf.shown(address)):
                await anyio.sleep(0.05)


async def test_a_full_queue_delays_no_wait_and_no_stream(deaf, monkeypatch):
    address = await deaf.create("ada")
    monkeypatch.setattr(checker, "_MAX_WAITING", 1)
    deaf.serve(deaf.checker.enqueue)
    await deaf.deliver(address)
    message_id = await deaf.deliver(address)
    with anyio.fail_after(PATIENCE_SECONDS):
        page = Page(has=WITH_VERDICT)
        (waited,) = (await deaf.service.follower.wait(address, page, None, 60)).messages
        async with deaf.service.follower.follow(address, None, None) as following:
            _, followed = await following.next(60)
    assert waited == followed
    assert (waited.id, waited.authentication.dmarc.reason) == (message_id, "not checked")


async def test_messages_with_a_silent_name_server_do_not_delay_other_verdicts(harness, zones):
    """All messages of one client wait for the DNS, but a different client's message does not wait."""
    mine, other = await harness.create("ada"), await harness.create("bob")
    zones.spoil = lambda wire: None if b"\x06silent" in wire else wire
    silent_sender = replace(envelope(), sender="a@silent.example", remote_ip="198.51.100.1")
    async with harness.checking():
        for _ in range(40):
            await harness.deliver(other, sent=silent_sender)
        await harness.deliver(mine)
        assert (await harness.verdict(mine)).authenticated == "shop.example"
        assert all(one is None for one in await harness.shown(other))


@pytest.mark.parametrize(("client", "is_taken"), [("192.0.2.1", True), ("198.51.100.1", False)])
async def test_the_messages_of_the_busiest_client_are_dropped_first(harness, monkeypatch, client, is_taken):
    monkeypatch.setattr(checker, "_MAX_WAITING", 4)
    asked = harness.checker
    for number in range(4):
        assert asked.enqueue("ada@mail.example.com", f"msg_{number}", "198.51.100.1")
    assert asked.enqueue("bob@mail.example.com", "msg_9", client) == is_taken
    left = ["msg_0", "msg_1", "msg_2", "msg_9"] if is_taken else ["msg_0", "msg_1", "msg_2", "msg_3"]
    assert (harness.figure("senders_waiting"), harness.figure("senders_left_out_total")) == (4, 1)
    for message_id in left:  # these messages are already queued, so no message has to make room
        assert asked.enqueue(f"{'bob' if message_id == 'msg_9' else 'ada'}@mail.example.com", message_id, client)
    assert harness.figure("senders_left_out_total") == 1


async def test_a_message_is_queued_once_for_each_of_its_inboxes_and_the_queue_is_limited(harness):
    asked = harness.checker
    for address in ("ada@mail.example.com", "ada@mail.example.com", "bob@mail.example.com"):
        assert asked.enqueue(address, "msg_1", "192.0.2.1")
    assert harness.figure("senders_waiting") == 2
    assert checker._MAX_WAITING == 256


async def test_a_failed_check_is_also_a_verdict(store, zones, clock, caplog):
    async with store.open(clock, max_bytes=1 << 30) as storage:
        harness = CheckerHarness(storage, zones.place, clock, timeout_seconds="a fault of ours")
        address = await harness.create("ada")
        async with harness.checking():
            await harness.deliver(address)
            found = await harness.verdict(address)
    assert (found.dmarc.result, found.dmarc.reason) == ("permerror", "the check failed")
    assert "checking a sender failed" in caplog.text


async def test_a_verdict_that_cannot_be_stored_and_an_invalid_address_do_not_disturb_other_checks(
    harness, monkeypatch, caplog
):
    async def broken(*_):
        raise RuntimeError("a fault of ours")

    first, second = [await harness.create(name) for name in ("ada", "bob")]
    async with harness.checking():
        with monkeypatch.context() as broken_storage:
            broken_storage.setattr(harness.storage, "set_authentication", broken)
            harness.checker.enqueue("no address", "msg_1", "")
            harness.checker.enqueue(first, await harness.deliver(first), "")
            await harness.done()
        await harness.deliver(second)
        assert (await harness.verdict(second)).authenticated == "shop.example"
    assert "storing a verdict failed" in caplog.text


async def test_a_dead_resolver_does_not_prevent_the_end_of_a_check_or_of_the_daemon(deaf):
    address = await deaf.create("ada")
    async with deaf.checking():
        await deaf.deliver(address)
        found = await deaf.verdict(address)
        assert (found.spf.result, found.dmarc.result) == ("temperror", "temperror")
        assert found.spf.reason.endswith("no response in time")
        for _ in range(20):
            await deaf.deliver(address)
        begun = anyio.current_time()
    assert anyio.current_time() - begun < PATIENCE_SECONDS


async def test_a_message_of_several_megabytes_is_checked(harness, signer, zones):
    zones.set(ZONE + signer.zone)
    # Set the clock to the real time, because a signature contains its creation time.
    harness.clock.now_ms = int(time.time() * 1000)
    address = await harness.create("ada")
    async with harness.checking():
        await harness.deliver(address, raw=signer.sign(RAW + b"0123456789 \r\n" * 300_000))
        assert [one.result for one in (await harness.verdict(address)).dkim] == ["pass"]


FLOWED = RAW.replace(
    b"Subject: hello", b"Date: Tue, 24 Nov 2026 10:00:00 +0000\r\nContent-Type: text/plain; format=flowed"
)
FLOWED = FLOWED.replace(b"The body.", b"Your code is 4829 \r\n15")


async def test_a_relaxed_body_with_flowed_lines_passes_only_if_the_lines_are_stored_as_sent(harness, signer, zones):
    zones.set(ZONE.replace("192.0.2.1", "192.0.2.9") + signer.zone)
    harness.clock.now_ms = int(time.time() * 1000)
    both = {way: signer.sign(FLOWED, canonicalize=(b"relaxed", way)) for way in (b"relaxed", b"simple")}
    before = await harness.create("before")
    await harness.deliver(before, raw=both[b"relaxed"])
    async with harness.checking():
        found = await harness.verdict(before)
        assert (found.authenticated, found.dkim[0].result, found.dkim[0].reason[:25]) == (
            None,
            "policy",
            "flowed lines were joined ",
        )
        for name, raw, body, result in (
            ("ada", both[b"relaxed"], "Your code is 4829 \n15\n", "pass"),
            ("bob", both[b"simple"], "Your code is 4829 15\n", "pass"),
            ("eve", both[b"relaxed"].replace(b"4829 \r\n", b"4829\r\n"), "Your code is 4829\n15\n", "pass"),
            ("kim", both[b"simple"].replace(b"4829 \r\n", b"4829\r\n"), "Your code is 4829\n15\n", "fail"),
        ):
            address = await harness.create(name)
            await harness.deliver(address, raw=raw)
            found = await harness.verdict(address)
            (message,) = (await harness.service.mail.list(address, Page())).messages
            assert (message.body, found.dkim[0].result) == (body, result), name
            assert bool(found.authenticated) == (result == "pass")


async def test_a_message_without_a_relaxed_signature_does_not_wait_for_a_comparison(
    harness, signer, zones, monkeypatch
):
    zones.set(ZONE + signer.zone)
    harness.clock.now_ms = int(time.time() * 1000)
    begun, goes_on, settle = threading.Event(), threading.Event(), shown.verdicts

    def waits(raw, signatures, warnings):
        if any(one.is_relaxed for one in signatures):
            begun.set()
            goes_on.wait(PATIENCE_SECONDS)
        return settle(raw, signatures, warnings)

    monkeypatch.setattr(shown, "verdicts", waits)
    large, small = [await harness.create(name) for name in ("large", "small")]
    async with harness.checking():
        await harness.deliver(large, raw=signer.sign(canonicalize=(b"relaxed", b"relaxed")))
        try:
            assert await anyio.to_thread.run_sync(begun.wait, PATIENCE_SECONDS)
            for raw in (RAW, signer.sign(canonicalize=(b"simple", b"simple"))):
                await harness.deliver(small, raw=raw)
                await harness.verdict(small)
            assert await harness.shown(large) == [None]
        finally:
            goes_on.set()
        assert (await harness.verdict(large)).authenticated == "shop.example"


async def test_an_unsigned_date_is_not_shown_as_authentic(harness, signer, zones):
    zones.set(ZONE.replace("192.0.2.1", "192.0.2.9") + signer.zone)
    harness.clock.now_ms = int(time.time() * 1000)
    names = [b"from", b"to", b"subject", b"content-type"]
    async with harness.checking():
        for name, covered, has_date in (("ada", names, False), ("bob", [*names, b"date"], True)):
            address = await harness.create(name)
            message_id = await harness.deliver(address, raw=signer.sign(FLOWED, include_headers=covered))
            assert (await harness.verdict(address)).authenticated == "shop.example"
            seen = await harness.service.mail.message(address, message_id)
            assert (seen.details.date_ms is not None) is has_date
            assert seen.full.message.authentication.dmarc.unsigned == (() if has_date else ("date",))


@pytest.mark.both_engines
@pytest.mark.parametrize("ascending", [True, False])
async def test_a_wait_for_a_verdict_returns_the_message_when_the_verdict_is_known(harness, zones, ascending):
    address = await harness.create("ada")
    zones.spoil = lambda _: None
    page = Page(has=WITH_VERDICT, ascending=ascending, subject="hello")
    async with harness.checking():
        message_id = await harness.deliver(address)
        assert (await harness.service.follower.wait(address, page, None, 0.05)).messages == ()
        zones.spoil = lambda wire: wire
        (message,) = (await harness.service.follower.wait(address, page, None, 30)).messages
    assert (message.id, message.authentication.authenticated) == (message_id, "shop.example")


@pytest.mark.both_engines
async def test_a_stream_of_messages_with_a_verdict_shows_each_message_once_in_order(harness, zones):
    address = await harness.create("ada")
    shown = []
    async with harness.checking(), harness.service.follower.follow(address, None, None, has=WITH_VERDICT) as following:
        sent = [await harness.deliver(address) for _ in range(5)]
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(shown) < 5:
                shown += [one for one in await following.next(5) if isinstance(one, Message)]
    assert [one.id for one in shown] == sent
    assert all(one.authentication for one in shown)


async def test_a_verdict_cannot_be_requested_if_senders_are_not_checked(harness):
    address = await harness.create("ada")
    with pytest.raises(InvalidRequest):
        await harness.service.mail.list(address, Page(has=WITH_VERDICT))
    with pytest.raises(InvalidRequest):
        async with harness.service.follower.follow(address, None, None, has=WITH_VERDICT):
            pass
