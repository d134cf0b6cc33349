"""An acknowledged message and its webhook call survive power cuts, regardless of which unsynced writes are lost."""

import random
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from targets import Target, first_call_fails
from webhookharness import WebhookHarness

import powercut
from daemons import NO_LIMITS, Daemon
from senders import SENDERS, Sender, damage, stored
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage


def now_ms():
    return time.time_ns() // 1_000_000


@pytest.fixture
def record(tmp_path, start):
    """Return a function that records a daemon from its start while messages are sent to five addresses.

    The function returns the events, the acknowledged messages, and all sent messages.
    """

    def record(count, create=Daemon.create, **settings):
        trace = tmp_path / "trace"
        folder = tmp_path / "disk"
        folder.mkdir()
        settings |= {"TMPMAILD_EXPIRY__INTERVAL_SECONDS": "1", **NO_LIMITS}
        daemon = start(folder, tracer=powercut.tracer(trace), **settings)
        senders, doomed = send(daemon, count, [create(daemon) for _ in range(5)])
        assert daemon.stop() == 0, daemon.errors()
        promised = {name: digest for sender in senders for name, digest in sender.acknowledged.items()}
        sent = set().union(*(sender.sent for sender in senders + doomed))
        return powercut.recorded(trace, folder), promised, sent

    return record


def send(daemon, count, kept):
    """Send messages to the kept addresses, and also to addresses that are deleted meanwhile."""
    senders = [Sender(daemon.smtp_port, kept, f"kept/{number}") for number in range(SENDERS)]
    doomed = []
    for sender in senders:
        sender.start()
    while sum(len(sender.acknowledged) for sender in senders) < count:
        created = daemon.request("/api/v1/addresses", "POST").json
        address = created["address"]
        doomed.append(Sender(daemon.smtp_port, [address], address))
        doomed[-1].start()
        doomed[-1].join(0.2)
        doomed[-1].over.set()
        doomed[-1].join()
        token = {"Authorization": f"Bearer {created['token']}"}
        assert daemon.request(f"/api/v1/addresses/{address}", "DELETE", headers=token).status == 204
    for sender in senders:
        sender.over.set()
    for sender in senders:
        sender.join()
    return senders, doomed


def places_of(events, cuts):
    """Return the positions of the power cuts; half of them directly follow an acknowledgement."""
    at = random.Random(1)
    acknowledged = [number for number, event in enumerate(events) if event.kind == "stored"]
    places = [at.choice(acknowledged) + 1 for _ in range(cuts // 2)]
    return sorted(places + [at.randrange(len(events)) for _ in range(cuts - len(places))])


@asynccontextmanager
async def opened(disk, place, clock=now_ms):
    """Open the disk after a power cut; yield the storage, and the digests of its messages."""
    with tempfile.TemporaryDirectory() as folder:
        disk.cut(folder, random.Random(place))
        path = Path(folder, "tmpmaild.db")
        settings = SqliteSettings(max_bytes=2**30, reserve_bytes=1024, max_bytes_per_inbox=2**40, path=path)
        async with open_storage(settings, clock) as storage:
            assert damage(path) == "ok", f"cut at {place}"
            yield storage, stored(path)


@pytest.mark.needs("strace")
async def test_power_cuts_lose_no_acknowledged_message(record, amount, figure):
    events, promised, sent = record(amount(whole=1000, quick=300))
    assert sum(event.kind == "stored" and event.path in promised for event in events) == len(promised)
    cuts = amount(whole=200, quick=20)
    disk, done, before = powercut.Disk(), 0, {}
    for place in places_of(events, cuts):
        for number in range(done, place):
            disk.happen(number, events[number])
            if events[number].path in promised:
                before[events[number].path] = promised[events[number].path]
        done = place
        async with opened(disk, place) as (_, kept):
            assert {name: kept.get(name) for name in before} == before, f"cut at {place}"
            assert set(kept.values()) <= sent, f"cut at {place}"
    figure(
        "power cut, torn at 512 bytes",
        f"{cuts} cuts among {len(events):,} events, {len(promised):,} mails: 0 lost, 0 torn",
        "0 lost in 200 cuts",
    )


def after_leases():
    return now_ms() + 20 * 60_000  # a time after all webhook leases have ended, at which the addresses are still live


class Recorded:
    """The messages that had been acknowledged, and reported to the target, at each event of a recording."""

    def __init__(self, promised, told):
        self._promised = promised
        self._statuses = defaultdict(list)
        for one in told:
            self._statuses[one.document["data"]["id"]].append(one.status)
        self.acknowledged, self.told, self.taken = set(), Counter(), set()

    def happen(self, event):
        if event.kind == "stored" and event.path in self._promised:
            self.acknowledged.add(event.path)
        elif event.kind == "told":
            if self._statuses[event.path][self.told[event.path] :][:1] == [204]:
                self.taken.add(event.path)
            self.told[event.path] += 1


@pytest.mark.needs("strace")
async def test_despite_power_cuts_exactly_the_acknowledged_messages_are_reported(record, amount, figure):
    target, twice = Target(first_call_fails(random.Random(1))), 0
    try:
        allow = {"TMPMAILD_WEBHOOKS__ALLOW": f"127.0.0.1:{target.port}"}
        events, promised, _ = record(amount(400, 150), lambda daemon: target.inbox(daemon)["address"], **allow)
        was = Recorded(promised, target.told)
        target.status = lambda _: 204
        disk, done, cuts = powercut.Disk(), 0, amount(whole=100, quick=10)
        for place in places_of(events, cuts):
            for number in range(done, place):
                disk.happen(number, events[number])
                was.happen(events[number])
            done = place
            async with opened(disk, place, after_leases) as (storage, kept):
                told = await told_after(storage, target)
            assert was.acknowledged <= was.taken | set(told), f"cut at {place}"
            assert was.told.keys() | set(told) <= kept.keys(), f"cut at {place}"
            twice += len(was.taken & set(told))
    finally:
        target.close()
    found = f"{cuts} cuts, {len(promised):,} mails acknowledged: 0 not told, 0 invented, {twice} told twice"
    figure("webhooks and power cut", found, "0 not told, 0 invented")


async def told_after(storage, target):
    """Make all pending webhook calls; return the ids of the messages that were reported."""
    target.told.clear()
    harness = WebhookHarness(storage, after_leases, target)

    async def is_done():
        webhooks = await storage.list_webhooks()
        return not any(one.is_waiting or one.state.next_at_ms for one in webhooks)

    async with harness.sending():
        await harness.until(is_done)
    for address in {one.document["data"]["to"] for one in target.told}:
        ids = [one.document["data"]["id"] for one in target.told if one.document["data"]["to"] == address]
        assert ids == sorted(set(ids))
    return [one.document["data"]["id"] for one in target.told]
